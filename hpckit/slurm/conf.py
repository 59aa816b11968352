"""slurm.conf of this host, by itself: what asks Slurm is much more to load than a name needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hpckit.core.late import regex

# slurm.conf(5), "DESCRIPTION"; the third is where a configless host keeps its copy.
_PLACES = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf/slurm.conf",
)
_CLUSTER_NAME = regex(r"^\s*ClusterName\s*=\s*(\S+)", re.IGNORECASE | re.MULTILINE)


def cluster_name(environment: Mapping[str, str]) -> str | None:
    """`ClusterName` of the first slurm.conf that says one; None where none can be read."""
    for place in (environment.get("SLURM_CONF"), *_PLACES):
        if not place:
            continue
        try:
            text = Path(place).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if match := _CLUSTER_NAME.search(text):
            return match[1].lower()
    return None
