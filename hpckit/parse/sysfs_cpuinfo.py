"""What a CPU is called, from /proc/cpuinfo; its fields differ from architecture to architecture.

Sources: arch/*/kernel/cpu/proc.c and setup.c of Linux; arch/arm64/include/asm/cputype.h (parts).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hpckit.parse.sysfs_tree import SysfsTree, printable

_FIELD: Final = re.compile(r"^([^:\n]{1,60}?)[ \t]*:[ \t]*([^\n]*)$", re.MULTILINE)
_NUMBER: Final = re.compile(r"\d{1,6}", re.ASCII)
_IMPLEMENTERS: Final = {"0x41": "ARM", "0x4e": "NVIDIA", "0xc0": "Ampere", "0x46": "Fujitsu"}
_PARTS: Final = {
    ("0x41", "0xd0c"): "Neoverse-N1",
    ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2",
    ("0x41", "0xd85"): "Cortex-X925",
    ("0x41", "0xd87"): "Cortex-A725",
    ("0x46", "0x001"): "A64FX",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuInfo:
    """The first CPU of /proc/cpuinfo; `is_guest` is CPUID's hypervisor bit, where there is one.

    `family` and `model_number` are Linux's.
    """

    arch: str | None = None
    vendor: str | None = None
    model: str | None = None
    family: int | None = None
    model_number: int | None = None
    is_guest: bool | None = None


def parse_cpuinfo(tree: SysfsTree) -> CpuInfo:
    """What the first CPU says of itself."""
    fields = _fields(tree.text("proc/cpuinfo") or "")
    arch = tree.word("proc/sys/kernel/arch") or _nofile(tree, "Architecture")
    if "vendor_id" in fields and "cpu family" in fields:
        return _x86(fields, arch)
    if "CPU implementer" in fields:
        maker, part = fields["CPU implementer"], fields.get("CPU part", "")
        return CpuInfo(
            arch=arch or "aarch64", vendor=_IMPLEMENTERS.get(maker), model=_PARTS.get((maker, part))
        )
    cpu = fields.get("cpu", "")
    if cpu.startswith("POWER"):
        return CpuInfo(arch=arch, vendor="IBM", model=printable(cpu.partition(",")[0]))
    return CpuInfo(arch=arch, model=_shown(fields.get("model name")))


def host_names(tree: SysfsTree) -> tuple[str | None, str | None]:
    """The host's name and the kernel's release."""
    return (
        tree.word("proc/sys/kernel/hostname") or _nofile(tree, "HostName"),
        tree.word("proc/sys/kernel/osrelease") or _nofile(tree, "OSRelease"),
    )


def _nofile(tree: SysfsTree, key: str) -> str | None:
    """hwloc-gather-topology writes what uname(2) says into a file of its own."""
    return _shown(_fields(tree.text("proc/hwloc-nofile-info") or "").get(key))


def _fields(text: str) -> Mapping[str, str]:
    """The fields of the first block: each CPU has one, and an empty line ends it."""
    block = text.lstrip("\n").replace("\r\n", "\n").split("\n\n", 1)[0]
    return {key.strip(): value.strip() for key, value in _FIELD.findall(block)}


def _x86(fields: Mapping[str, str], arch: str | None) -> CpuInfo:
    flags = fields.get("flags")
    return CpuInfo(
        arch=arch or "x86_64",
        vendor=_shown(fields["vendor_id"]),
        model=_shown(fields.get("model name")),
        family=_number(fields.get("cpu family")),
        model_number=_number(fields.get("model")),
        is_guest=None if flags is None else "hypervisor" in flags.split(),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and _NUMBER.fullmatch(text) else None


def _shown(text: str | None) -> str | None:
    return printable(text) if text else None
