"""Energy counters of AMD's GPUs out of sysfs, without a library.

Source: the kernel's Documentation/hwmon/sysfs-interface.rst (energy1_input, microjoules) and
Documentation/gpu/amdgpu (unique_id).
"""

from __future__ import annotations

import os

_VENDOR = "0x1002"
_UJ_A_MJ = 1000


class AmdGpu:
    """A GPU; `uuid` is GPU- and its unique_id, as ROCm names it."""

    __slots__ = ("_path", "uuid")

    def __init__(self, uuid: str, path: str | None) -> None:
        """Take the name and the path of energy1_input, None where there is none."""
        self.uuid = uuid
        self._path = path

    def energy_mj(self) -> int:
        """Millijoules since the driver was loaded. Raises OSError or ValueError."""
        if self._path is None:
            raise ValueError("no energy1_input")
        return int(_text(self._path)) // _UJ_A_MJ


def amd_gpus(root: str = "/sys/class/drm", dev: str = "/dev") -> list[AmdGpu]:
    """The GPUs that this process may open, in the order of their PCI addresses.

    That is how ROCm counts them, with those that have no counter. Without amdgpu's part for
    computing, /sys/class/kfd, a card is for a screen.
    """
    if not os.path.isdir(os.path.join(os.path.dirname(root), "kfd")):
        return []
    found = []
    for card in _names(root, "card"):
        device = os.path.join(root, card, "device")
        if _is_amds(device) and may_open(device, dev):
            found.append((os.path.realpath(device), _gpu(device)))
    return [gpu for _, gpu in sorted(found, key=lambda pair: pair[0])]


def may_open(device: str, dev: str = "/dev") -> bool:
    """Whether the control group lets this process open a GPU; with no file to open, it does.

    ROCm counts these alone. `device` is the folder in sysfs.
    """
    for name in _names(os.path.join(device, "drm"), "renderD"):
        path = os.path.join(dev, "dri", name)
        if os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK):
            return False
    return True


def _is_amds(device: str) -> bool:
    try:
        return _text(os.path.join(device, "vendor")) == _VENDOR
    except OSError:
        return False


def _gpu(device: str) -> AmdGpu:
    hwmon = os.path.join(device, "hwmon")
    for name in _names(hwmon, "hwmon"):
        path = os.path.join(hwmon, name, "energy1_input")
        if os.path.exists(path):
            return AmdGpu(_uuid(device), path)
    return AmdGpu(_uuid(device), None)


def _uuid(device: str) -> str:
    """As rocm-smi has it; the GPU's address where it has no unique_id."""
    try:
        unique_id = _text(os.path.join(device, "unique_id"))
    except OSError:
        unique_id = ""
    return f"GPU-{unique_id or os.path.basename(os.path.realpath(device))}"


def _names(folder: str, kind: str) -> list[str]:
    """Entries that are called `kind` and a number: card0, and not its connector card0-DP-1."""
    try:
        return [name for name in os.listdir(folder) if name.removeprefix(kind).isdigit()]
    except OSError:
        return []


def _text(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as stream:
        return stream.read().strip()
