"""Findings about a node that are alike, in one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hpckit.core.findings import FindingGroup, without_subject
from hpckit.model.node_words import names_shown, numbers_shown, visible

_WHOLE_NODE: Final = ("GPUs",)
_PLURALS: Final = {"has": "have", "is": "are", "runs": "run", "had": "had"}


def sentence(group: FindingGroup) -> str:
    """Return what was seen, beginning with what it is about, which most evidence does by itself.

    Evidence about all GPUs of a node that names them needs no beginning.
    """
    shown = subjects_shown(group.subjects)
    rest = without_subject(group.because, group.subjects[0])
    if rest is not None and len(set(group.subjects)) > 1:
        verb, _, words = rest.partition(" ")
        return f"{shown} {_PLURALS[verb]} {words}" if verb in _PLURALS else f"{shown}: {rest}"
    is_of_node = group.subjects == _WHOLE_NODE and "GPU" in group.because
    is_named = is_of_node or group.because.startswith(f"{shown} ")
    return group.because if is_named else f"{shown}: {group.because}"


def subjects_shown(subjects: Iterable[str]) -> str:
    """Return what findings are about: `GPU0-3`, `mlx5_2 … mlx5_9`."""
    names = tuple(dict.fromkeys(subjects))
    if all(name.startswith("GPU") for name in names):
        return visible(numbers_shown(names), 60)
    return names_shown(names)
