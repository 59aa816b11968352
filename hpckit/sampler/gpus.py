"""Which of the GPUs that a driver shows are the job's."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_STEP_LISTS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")


class ShownGpu(NamedTuple):
    """A GPU at its place in the driver's list; `opens`: this process may open its device file.

    One that is lost to the driver has an empty uuid and no minor number.
    """

    place: int
    uuid: str
    minor: int | None
    opens: bool


class SampledGpus(NamedTuple):
    """The driver's indices of the GPUs to sample, and why these."""

    indices: tuple[int, ...]
    because: str


def sampled_gpus(
    env: Mapping[str, str],
    shown: Sequence[ShownGpu],
    parent_of: Callable[[str], str | None],
    visible: str = "CUDA_VISIBLE_DEVICES",
) -> SampledGpus:
    """The GPUs of this step; outside a Slurm job all.

    Indices count the GPUs that this process may open: with ConstrainDevices Slurm renumbers a
    job's GPUs from 0, without it the job may open all and the indices are the driver's. `parent_of`
    gives the uuid of the GPU whose part a MIG device is.
    """
    # The driver shows none that it could not open itself: where none opens, that tells nothing.
    mine = [gpu for gpu in shown if gpu.opens] or list(shown)
    if "SLURM_JOB_ID" not in env:
        return SampledGpus(tuple(gpu.place for gpu in mine), "no Slurm job: all that can be seen")
    words = env.get(visible)
    if words is not None:
        return _visible(words, mine, parent_of, visible)
    for name in _STEP_LISTS:
        if env.get(name):
            return _global(env[name], mine, name)
    return SampledGpus((), f"neither {visible} nor SLURM_STEP_GPUS is set: the step has no GPU")


def _visible(
    words: str, mine: Sequence[ShownGpu], parent_of: Callable[[str], str | None], name: str
) -> SampledGpus:
    chosen: dict[int, None] = {}
    for word in filter(None, (part.strip() for part in words.split(","))):
        uuid = parent_of(word) if word.startswith("MIG-") else word
        found = [gpu.place for gpu in mine if uuid is not None and _is_called(gpu, uuid)]
        if word.isascii() and word.isdigit() and int(word) < len(mine):
            found = [mine[int(word)].place]
        if len(found) != 1:
            # CUDA too takes what stands before the first entry that is none (its programming
            # guide, environment variables).
            break
        chosen[found[0]] = None
    because = f"{name}={words}"
    return SampledGpus(tuple(chosen), because if chosen else f"{because} names no GPU of this node")


def _is_called(gpu: ShownGpu, uuid: str) -> bool:
    return uuid.startswith("GPU-") and gpu.uuid.startswith(uuid)


def _global(words: str, mine: Sequence[ShownGpu], name: str) -> SampledGpus:
    """Slurm's own numbers of the node's GPUs, which are those of the device files."""
    wanted = _numbers(words)
    lost = [gpu for gpu in mine if not gpu.uuid]
    if len(wanted.difference(gpu.minor for gpu in mine if gpu.minor is not None)) != len(lost):
        lost = []  # which of them is the job's cannot be told
    chosen = [gpu.place for gpu in mine if gpu.minor in wanted or gpu in lost]
    if len(chosen) != len(wanted) and len(mine) == len(wanted):
        chosen = [gpu.place for gpu in mine]
    because = f"{name}={words}"
    return SampledGpus(tuple(chosen), because if chosen else f"{because} names no GPU of this node")


def _numbers(words: str) -> set[int]:
    found: set[int] = set()
    for part in words.split(","):
        low, _, high = part.strip().partition("-")
        high = high or low
        if low.isascii() and low.isdigit() and high.isascii() and high.isdigit():
            found.update(range(int(low), min(int(high), int(low) + 1024) + 1))
    return found
