"""A tree of small text files, such as /sys, held in memory: live or from a tarball."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTree:
    """Texts and symbolic links by their path from the root, without a leading slash.

    `links` holds targets as they are written, mostly relative to the link's folder. Only what was
    looked for is there; an absent path was not there or could not be read.
    """

    texts: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict)
