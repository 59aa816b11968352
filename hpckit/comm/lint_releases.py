"""Rules that follow from the table of NCCL's variables: names, releases and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from hpckit.comm.lint_rule import (
    Held,
    Scene,
    Seen,
    Setting,
    error,
    held_from,
    note,
    warning,
)
from hpckit.comm.lint_rules_launch import TORCH_NAMES
from hpckit.comm.lint_rules_network import whole_number
from hpckit.comm.variables import NCCL_DATE, NCCL_SOURCE, NCCL_VARIABLES, NcclVariable
from hpckit.spec.platform import CommLibrary

KNOWN_VARIABLES: Final[Mapping[str, NcclVariable]] = {one.name: one for one in NCCL_VARIABLES}
_BY_LENGTH: Final[Mapping[int, tuple[str, ...]]] = {
    length: tuple(name for name in KNOWN_VARIABLES if len(name) == length)
    for length in {len(name) for name in KNOWN_VARIABLES}
}
_OTHERS: Final = frozenset(
    (*TORCH_NAMES, "NCCL_VERSION", "NCCL_HOME", "NCCL_ROOT", "NCCL_DIR", "NCCL_LIB_DIR",
     "NCCL_INCLUDE_DIR", "NCCL_PATH", "NCCL_DYNAMIC_CHUNK_SIZE", "NCCL_CUDA_PATH",
     "NCCL_TUNER_CONFIG_PATH", "NCCL_TUNER_CONFIG_FILE", "NCCL_MIN_CHANNELS")
)  # fmt: skip
"""Names that others read: PyTorch, builds, plugins and tuners."""
_INSTEAD: Final[Mapping[str, str]] = {
    "NCCL_IB_GDR_LEVEL": "NCCL_NET_GDR_LEVEL took its place; leave it out",
    "NCCL_MNNVL": "NCCL_MNNVL_ENABLE took its place; leave it out",
    "NCCL_RINGS": "NCCL_GRAPH_FILE took its place; leave it out",
    "NCCL_GRAPH": "NCCL_GRAPH_FILE took its place; leave it out",
    "NCCL_LL_THRESHOLD": "NCCL_PROTO chooses protocols; leave it out",
    "NCCL_TREE_THRESHOLD": "NCCL_ALGO chooses algorithms; leave it out",
    "NCCL_WORK_FIFO_DEPTH": "NCCL_WORK_FIFO_BYTES took its place; leave it out",
}


def _gone(one: Setting, scene: Scene) -> Seen | None:
    """A variable that the release no longer reads."""
    known = KNOWN_VARIABLES.get(one.name)
    if known is None or known.until is None or scene.library is CommLibrary.RCCL:
        return None
    held = held_from(scene.nccl, known.until)
    if held is Held.NO:
        return None
    do = _INSTEAD.get(one.name, "leave it out")
    return Seen(f"from {known.until} on", do, since=known.until, is_sure=held is Held.YES)


def _too_new(one: Setting, scene: Scene) -> Seen | None:
    """A variable that came with a later release than the one that is here."""
    known = KNOWN_VARIABLES.get(one.name)
    if known is None or scene.nccl is None or scene.library is CommLibrary.RCCL:
        return None
    if held_from(scene.nccl, known.since) is not Held.NO:
        return None
    return Seen(f"came with NCCL {known.since}, and here is {scene.nccl}", since=known.since)


def _is_default(one: Setting, scene: Scene) -> Seen | None:
    """A number that NCCL takes anyhow."""
    known, value = KNOWN_VARIABLES.get(one.name), whole_number(one.value)
    if known is None or value is None or scene.library is CommLibrary.RCCL:
        return None
    held = [(held_from(scene.nccl, release), release) for release, _ in known.defaults]
    reached = [at for at, (when, _) in enumerate(held) if when is Held.YES]
    if scene.nccl is None:
        reached = list(range(len(held)))
    elif any(when is Held.MAYBE for when, _ in held):
        return None
    if not reached or known.defaults[reached[-1]][1] != value:
        return None
    release = known.defaults[reached[-1]][0]
    if scene.nccl is not None:
        return Seen(f"the default of NCCL {scene.nccl}", since=release)
    is_dated = len(known.defaults) > 1
    words = f"the default from NCCL {release} on" if is_dated else "the default"
    return Seen(words, since=release if is_dated else None)


def _misspelt(one: Setting, scene: Scene) -> Seen | None:
    """A name that nobody knows, one letter from one that NCCL reads."""
    near = meant_by(one.name, scene.library)
    return Seen(near, do=near) if near else None


def meant_by(name: str, library: CommLibrary | None) -> str | None:
    """The variable of NCCL's that is meant by a name that nobody reads; None for one that is fine.

    What RCCL alone reads is not known: nothing is said of its names.
    """
    is_fine = name in _OTHERS or name in KNOWN_VARIABLES or library is CommLibrary.RCCL
    return None if is_fine else _nearest(name)


@lru_cache(maxsize=4096)
def _nearest(name: str) -> str | None:
    lengths = (len(name) - 1, len(name), len(name) + 1)
    near = (known for length in lengths for known in _BY_LENGTH.get(length, ()))
    return next((known for known in near if is_one_edit(name, known)), None)


def is_one_edit(first: str, second: str) -> bool:
    """Whether one letter more, less, other, or two in the wrong order part two words."""
    if len(first) > len(second):
        first, second = second, first
    if len(second) - len(first) > 1 or first == second:
        return False
    pairs = enumerate(zip(first, second, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), len(first))
    if len(first) < len(second):
        return first[at:] == second[at + 1 :]
    is_swapped = first[at : at + 2] == second[at : at + 2][::-1]
    return first[at + 1 :] == second[at + 1 :] or (
        is_swapped and first[at + 2 :] == second[at + 2 :]
    )


RELEASE_RULES: Final = (
    warning("nccl-gone", "NCCL_*", when=_gone, because="NCCL does not read it {seen}",
            remedy="{do}", source=NCCL_SOURCE, date=NCCL_DATE),
    warning("nccl-too-new", "NCCL_*", when=_too_new, because="has no effect: it {seen}",
            remedy="leave it out, or use a newer NCCL", source=NCCL_SOURCE, date=NCCL_DATE),
    error("nccl-misspelt", "N* CCL_*", when=_misspelt,
          because="nobody reads `{name}`; NCCL reads {seen}", remedy="write {do}",
          source=NCCL_SOURCE, date=NCCL_DATE),
    note("nccl-default", "NCCL_*", when=_is_default, is_fallback=True,
         because="{value} is {seen}, so the line changes nothing", source=NCCL_SOURCE,
         date=NCCL_DATE),
)  # fmt: skip
