"""Energy counters of AMD's GPUs out of sysfs, without a library.

Source: the kernel's Documentation/hwmon/sysfs-interface.rst (energy1_input, microjoules) and
Documentation/gpu/amdgpu (unique_id).
"""

from __future__ import annotations

import os

_VENDOR = "0x1002"
_UJ_A_MJ = 1000


class AmdGpu:
    """A GPU with an energy counter; `uuid` is GPU- and its unique_id, as ROCm names it."""

    __slots__ = ("_path", "uuid")

    def __init__(self, uuid: str, path: str) -> None:
        """Take the name and the path of energy1_input."""
        self.uuid = uuid
        self._path = path

    def energy_mj(self) -> int:
        """Millijoules since the driver was loaded. Raises OSError or ValueError."""
        return int(_text(self._path)) // _UJ_A_MJ


def amd_gpus(root: str = "/sys/class/drm") -> list[AmdGpu]:
    """The GPUs that have a name and a counter, in the order of their PCI addresses."""
    found = []
    for card in _names(root, "card"):
        device = os.path.join(root, card, "device")
        gpu = _gpu(device)
        if gpu is not None:
            found.append((os.path.realpath(device), gpu))
    return [gpu for _, gpu in sorted(found, key=lambda pair: pair[0])]


def _gpu(device: str) -> AmdGpu | None:
    try:
        if _text(os.path.join(device, "vendor")) != _VENDOR:
            return None
        unique_id = _text(os.path.join(device, "unique_id"))
    except OSError:
        return None
    hwmon = os.path.join(device, "hwmon")
    for name in _names(hwmon, "hwmon"):
        path = os.path.join(hwmon, name, "energy1_input")
        if os.path.exists(path):
            return AmdGpu(f"GPU-{unique_id}", path)
    return None


def _names(folder: str, kind: str) -> list[str]:
    """Entries that are called `kind` and a number: card0, and not its connector card0-DP-1."""
    try:
        return [name for name in os.listdir(folder) if name.removeprefix(kind).isdigit()]
    except OSError:
        return []


def _text(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as stream:
        return stream.read().strip()
