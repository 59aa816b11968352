"""Which GPUs a process may use: those that a driver shows it, and what a variable leaves of them.

Ranks load this too, so it imports neither `ctypes` nor `typing`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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

    One that is lost to the driver has no counter, an empty uuid and no minor number, but `why`.
    """

    __slots__ = ("minor", "opens", "place", "read_mj", "uuid", "why")

    def __init__(
        self,
        place: int,
        uuid: str,
        minor: int | None,
        *,
        opens: bool,
        read_mj: Callable[[], int] | None = None,
        why: str = "",
    ) -> None:
        self.place = place
        self.uuid = uuid
        self.minor = minor
        self.opens = opens
        self.read_mj = read_mj
        self.why = why

    def energy_mj(self) -> int:
        """Millijoules since the driver was loaded. Raises NvmlRefused."""
        if self.read_mj is None:
            raise NvmlRefused(self.why)
        return self.read_mj()


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
    whole: str | None = word
    if word.startswith("MIG-GPU-") and "/" in word:
        whole = word[len("MIG-") : word.index("/")]  # MIG-GPU-<uuid>/3/0 of drivers before 470
    elif word.startswith("MIG-"):
        whole = parent_of(word)
    wanted = (whole or "").lower()
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
        return [gpu.place for gpu in mine], "not in a Slurm job: all visible GPUs"
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
    return chosen, because if chosen else f"{because} matches no GPU of this node"


def _numbered(words: str, mine: Sequence[ShownGpu]) -> list[int]:
    """The GPUs of Slurm's own numbers of the node's, which are those of the device files."""
    from hpckit.core.index_list import expand_indices

    try:
        wanted = set(expand_indices(words.strip(",")))
    except ValueError:
        return []
    lost = [gpu for gpu in mine if not gpu.uuid]
    if len(wanted.difference(gpu.minor for gpu in mine if gpu.minor is not None)) != len(lost):
        lost = []  # which of them is the job's cannot be told
    chosen = [gpu.place for gpu in mine if gpu.minor in wanted or gpu in lost]
    if len(chosen) != len(wanted) and len(mine) == len(wanted):
        return [gpu.place for gpu in mine]
    return chosen


# --- AMD's GPUs in sysfs and their energy counters, without a library. Source: the kernel's
# Documentation/hwmon/sysfs-interface.rst (energy1_input, microjoules) and Documentation/gpu/amdgpu
# (unique_id).
_VENDOR = "0x1002"


class AmdGpu:
    """A GPU; `uuid` is GPU- and its unique_id, as ROCm names it."""

    __slots__ = ("_path", "uuid")

    def __init__(self, device: str) -> None:
        self.uuid = uuid_of(device)
        hwmon = f"{device}/hwmon"
        paths = [f"{hwmon}/{name}/energy1_input" for name in _names(hwmon, "hwmon")]
        self._path = next(filter(os.path.exists, paths), None)

    def energy_mj(self) -> int:
        """Millijoules since the driver was loaded. Raises OSError or ValueError."""
        if self._path is None:
            raise ValueError("no energy1_input")
        return int(_text(self._path)) // 1000


def amd_gpus(root: str = "/sys/class/drm", dev: str = "/dev") -> list[AmdGpu]:
    """The GPUs that this process may open, those without a counter too: ROCm counts these alone."""
    return [AmdGpu(device) for device in amd_devices(root) if may_open(device, dev)]


def amd_devices(root: str = "/sys/class/drm") -> list[str]:
    """The device folders of AMD's GPUs, in the order of their addresses, as ROCm counts them.

    Without amdgpu's part for computing, /sys/class/kfd, a card is for a screen.
    """
    if not os.path.isdir(f"{os.path.dirname(root)}/kfd"):
        return []
    devices = [f"{root}/{card}/device" for card in _names(root, "card")]
    return sorted(filter(_is_amds, devices), key=os.path.realpath)


def may_open(device: str, dev: str = "/dev") -> bool:
    """Whether the control group lets this process open a GPU; with no file to open, it does."""
    paths = [f"{dev}/dri/{name}" for name in _names(f"{device}/drm", "renderD")]
    return all(os.access(path, os.R_OK | os.W_OK) for path in paths if os.path.exists(path))


def uuid_of(device: str) -> str:
    """The GPU's name as rocm-smi has it; its address where it has no unique_id."""
    try:
        unique_id = _text(f"{device}/unique_id")
    except OSError:
        unique_id = ""
    return f"GPU-{unique_id or os.path.basename(os.path.realpath(device))}"


def _is_amds(device: str) -> bool:
    try:
        return _text(f"{device}/vendor") == _VENDOR
    except OSError:
        return False


def _names(folder: str, kind: str) -> list[str]:
    """Entries that are called `kind` and a number: card0, and not its connector card0-DP-1."""
    try:
        return [name for name in os.listdir(folder) if name.removeprefix(kind).isdigit()]
    except OSError:
        return []


def _text(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as stream:
        return stream.read().strip()
