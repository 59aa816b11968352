"""AMD's GPUs in sysfs and their energy counters, without a library.

Source: the kernel's Documentation/hwmon/sysfs-interface.rst (energy1_input, microjoules) and
Documentation/gpu/amdgpu (unique_id).
"""

from __future__ import annotations

import os

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
