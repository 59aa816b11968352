"""Which GPUs a process may use: those that a driver shows it, and what a variable leaves of them.

Ranks load this too, so it imports neither `ctypes` nor `typing`.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    ParentOf = Callable[[str], str | None]
    """The uuid of the GPU that a MIG device is a part of."""


_STEP_LISTS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")


class NvmlRefused(Exception):
    """Why NVML does not answer: `reason` is nvml.h's error in pynvml's spelling."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ShownGpu:
    """A GPU at its place in the driver's list; `opens`: this process may open its device file.

    One that is lost to the driver has no handle, an empty uuid and no minor number, but `why`.
    """

    __slots__ = ("handle", "minor", "opens", "place", "uuid", "why")

    def __init__(
        self,
        place: int,
        uuid: str,
        minor: int | None,
        *,
        opens: bool,
        handle: Any = None,
        why: str = "",
    ) -> None:
        self.place = place
        self.uuid = uuid
        self.minor = minor
        self.opens = opens
        self.handle = handle
        self.why = why

    def energy_mj(self) -> int:
        """Millijoules since the driver was loaded. Raises NvmlRefused."""
        if self.handle is None:
            raise NvmlRefused(self.why)
        energy_mj: int = self.handle.energy_mj()
        return energy_mj


def openable(shown: Sequence[ShownGpu]) -> list[ShownGpu]:
    """Those that this process may open, which CUDA counts.

    The driver shows none that it could not open itself: where none opens, that tells nothing.
    """
    return [gpu for gpu in shown if gpu.opens] or [gpu for gpu in shown if gpu.uuid]


def visible_places(words: str, uuids: Sequence[str], parent_of: ParentOf) -> list[int]:
    """The places in a list of GPUs of those that CUDA_VISIBLE_DEVICES names, each once.

    At the first word that names none it stops. Source: CUDA C++ Programming Guide, CUDA Environment
    Variables.
    """
    found: dict[int, None] = {}
    for word in words.split(","):
        place = _place(word.strip(), uuids, parent_of)
        if place is None:
            break
        found[place] = None
    return list(found)


def _place(word: str, uuids: Sequence[str], parent_of: ParentOf) -> int | None:
    if word.isascii() and word.isdigit():
        return int(word) if int(word) < len(uuids) else None
    wanted: str | None = word
    if (
        word.startswith("MIG-GPU-") and "/" in word
    ):  # drivers before 470: MIG-GPU-<uuid>/<instance>/<instance>
        wanted = word.removeprefix("MIG-").partition("/")[0]
    elif word.startswith("MIG-"):
        wanted = parent_of(word)
    wanted = (wanted or "").lower()
    # The beginning of a uuid will do, if it is that of one GPU alone.
    matching = [place for place, uuid in enumerate(uuids) if uuid.lower().startswith(wanted)]
    return matching[0] if wanted.startswith("gpu-") and len(matching) == 1 else None


def sampled_gpus(
    env: Mapping[str, str],
    shown: Sequence[ShownGpu],
    parent_of: ParentOf,
    visible: str = "CUDA_VISIBLE_DEVICES",
) -> tuple[list[int], str]:
    """The driver's indices of the GPUs of this step, and why these; outside a Slurm job all.

    Variables count the GPUs that this process may open: with ConstrainDevices Slurm renumbers a
    job's GPUs from 0, without it the job may open all and the indices are the driver's.
    """
    mine = openable(shown)
    if "SLURM_JOB_ID" not in env:
        return [gpu.place for gpu in mine], "no Slurm job: all that can be seen"
    name = next((name for name in _STEP_LISTS if env.get(name)), None)
    if visible in env:
        name = visible
        places = visible_places(env[name], [gpu.uuid for gpu in mine], parent_of)
        chosen = [mine[place].place for place in places]
    elif name is not None:
        chosen = _numbered(env[name], mine)
    else:
        return [], f"neither {visible} nor SLURM_STEP_GPUS is set: the step has no GPU"
    because = f"{name}={env[name]}"
    return chosen, because if chosen else f"{because} names no GPU of this node"


def _numbered(words: str, mine: Sequence[ShownGpu]) -> list[int]:
    """The GPUs of Slurm's own numbers of the node's, which are those of the device files."""
    from hpckit.core.index_list import expand_indices

    try:
        wanted = set(expand_indices(words))
    except ValueError:
        return []
    lost = [gpu for gpu in mine if not gpu.uuid]
    if len(wanted.difference(gpu.minor for gpu in mine if gpu.minor is not None)) != len(lost):
        lost = []  # which of them is the job's cannot be told
    chosen = [gpu.place for gpu in mine if gpu.minor in wanted or gpu in lost]
    if len(chosen) != len(wanted) and len(mine) == len(wanted):
        return [gpu.place for gpu in mine]
    return chosen
