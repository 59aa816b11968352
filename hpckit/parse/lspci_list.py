"""The devices that `lspci` lists, one a line, with what `-v`, `-vv` and `-vvv` say below each.

Sources: lspci(8); pciutils, lspci.c and ls-caps.c (words of the lines), ls-ecaps.c (SR-IOV).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from hpckit.errors import ParseError
from hpckit.model.index_list import MOST_INDICES
from hpckit.model.pci import PciAddress, PciDevice, PcieLink, pci_address
from hpckit.parse.excerpt import refusal
from hpckit.parse.lspci_words import CLASSES, naming
from hpckit.parse.sysfs_pci_config import WIDTHS
from hpckit.parse.sysfs_tree import printable

TOOL: Final = "lspci"
_LONGEST: Final = 2000
_MOST_HEADS: Final = 65536

_ADDRESS: Final = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]"
_CLASSES: Final = "|".join(re.escape(name) for name in CLASSES)
_KNOWN: Final = re.compile(
    rf"^[^\S\n]{{0,40}}(?:> ?)?{_ADDRESS} "
    rf"(?:(?:(?:{_CLASSES})(?: \[[0-9a-f]{{4}}\])?|[A-Z][^:\n]{{0,60}} \[[0-9a-f]{{4}}\]): \S"
    r"|[0-9a-f]{4}: [0-9a-f]{4}:[0-9a-f]{4})",
    re.MULTILINE | re.ASCII,
)
_HEAD: Final = re.compile(
    rf"\s{{0,40}}(?P<address>{_ADDRESS}) (?P<kind>[A-Z0-9][^:]{{1,80}}|[0-9a-f]{{4}}):"
    r" (?P<rest>\S.{0,400})",
    re.ASCII,
)
_CLASS: Final = re.compile(r"(?:(.*?) ?\[)?(?:Class )?([0-9a-f]{4})\]?", re.ASCII)
_REST: Final = re.compile(
    r"(?P<words>.*?)(?: ?\[?\b(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]?)?"
    r"(?: \(rev [0-9a-f]{2}\))?(?: \(prog-if [0-9a-f]{2}(?: \[[^\]]{0,80}\])?\))?\s*",
    re.ASCII,
)

_BUS: Final = re.compile(
    r"Bus: primary=[0-9a-f]{2}, secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})(?:,.*)?",
    re.ASCII,
)
_NUMA: Final = re.compile(r"NUMA node:? (-?\d{1,10})", re.ASCII)
_LINK: Final = re.compile(
    r"Speed (?:(\d{1,3}(?:\.\d)?) ?GT/s|unknown)(?: \([a-z]+\))?, Width (?:x(\d{1,3})|unknown)",
    re.ASCII,
)
_DRIVER: Final = re.compile(r"Kernel driver in use: (\S{1,64})")
_SUBSYSTEM: Final = re.compile(r"Subsystem: .*\[([0-9a-f]{4}):([0-9a-f]{4})\]$", re.ASCII)
_PORT_TYPE: Final = re.compile(
    r"Express (?:\(v\d\) )?(?:(?P<root>Root)|(?P<below>Upstream|(?:Legacy )?Endpoint))", re.ASCII
)
_VFS: Final = re.compile(r"Number of VFs: (\d{1,5})\b", re.ASCII)
_VF_STEP: Final = re.compile(r"VF offset: (\d{1,5}), stride: (\d{1,5})\b", re.ASCII)


@dataclass(slots=True, kw_only=True)
class Listed:
    """One function as it is listed; `line_no` is that of its first line.

    `buses` are the first and last below a bridge. `is_at_root` says that its capabilities are those
    of a root complex, `is_below` that they are those of what hangs on a port. `vfs` is how many
    virtual functions it has, `vf_step` the first one's distance and that of each to the next.
    """

    device: PciDevice
    line_no: int
    buses: tuple[int, int] | None = None
    numa_index: int | None = None
    driver: str | None = None
    most: tuple[float | None, int | None] | None = None
    now: tuple[float | None, int | None] | None = None
    subsystem: tuple[int, int] | None = None
    is_at_root: bool = False
    is_below: bool = False
    is_denied: bool = False
    is_dead: bool = False
    vfs: int = 0
    vf_step: tuple[int, int] | None = None

    @property
    def link(self) -> PcieLink | None:
        """The link, None where nothing is printed of it."""
        speed, width = self.now or (None, None)
        max_speed, max_width = self.most or (None, None)
        link = PcieLink(
            speed_gt_per_s=speed, width=width, max_speed_gt_per_s=max_speed, max_width=max_width
        )
        return None if link == PcieLink() else link


def has_list(text: str) -> bool:
    """Whether a text has a line of lspci in it that names a class which is known."""
    return _KNOWN.search(text) is not None


def read_list(lines: Sequence[str]) -> dict[PciAddress, Listed]:
    """The functions that the lines of a text list, with their details.

    What is listed twice, as with and without -v, is one function. Raises ParseError for a detail
    that is not in its format, and for one address with two devices.
    """
    found: dict[PciAddress, Listed] = {}
    one: Listed | None = None
    heads = 0
    for line_no, line in enumerate(lines, start=1):
        head = _HEAD.fullmatch(line)
        if head is not None:
            heads += 1
            if heads > _MOST_HEADS:
                raise _refuse("too many devices", line_no, line, f"at most {_MOST_HEADS}")
            new = Listed(device=_device(head), line_no=line_no)
            one = found.setdefault(new.device.address, new)
            if one is not new:
                _merge(one, new, line)
        elif not line.strip():
            one = None
        elif one is not None:
            _detail(one, line_no, line)
    return found


def _device(head: re.Match[str]) -> PciDevice:
    rest = _REST.fullmatch(head["rest"])
    words = (rest["words"] if rest else head["rest"]).strip()
    known = naming(words)
    has_ids = rest is not None and rest["vendor"] is not None
    return PciDevice(
        address=pci_address(head["address"]),
        class_code=_class_code(head["kind"]),
        vendor_id=int(rest["vendor"], 16) if rest and has_ids else known.vendor_id,
        device_id=int(rest["device"], 16) if rest and has_ids else known.device_id,
        name=printable(known.name) if known.name else None,
    )


def _class_code(words: str) -> int | None:
    """What stands in brackets counts; `3D controller` alone is looked up."""
    match = _CLASS.fullmatch(words)
    return int(match[2], 16) if match else CLASSES.get(words)


def _merge(one: Listed, new: Listed, line: str) -> None:
    """Put what a function is listed with again beside what was known of it."""
    first, second = one.device, new.device
    fields = ("class_code", "vendor_id", "device_id", "name")
    pairs = [(getattr(first, field), getattr(second, field)) for field in fields]
    if any(a is not None and b is not None and a != b for a, b in pairs):
        message = f"{first.address} is another device than in line {one.line_no}"
        raise _refuse(message, new.line_no, line, "the devices of one machine")
    values = [b if a is None else a for a, b in pairs]
    one.device = PciDevice(
        address=first.address,
        class_code=values[0],
        vendor_id=values[1],
        device_id=values[2],
        name=values[3],
    )


def _detail(one: Listed, line_no: int, line: str) -> None:
    text = line.strip()
    key = text.partition(":")[0]
    if key.startswith("!!! Unknown header type"):
        one.is_dead = True
        return
    reader = _READERS.get(key)
    if reader is not None and (len(text) > _LONGEST or not reader(one, text)):
        raise _refuse(f"{key} cannot be read", line_no, line, _EXPECTED.get(key, "a line of lspci"))


def _buses(one: Listed, text: str) -> bool:
    match = _BUS.fullmatch(text)
    if match is not None:
        one.buses = int(match[1], 16), int(match[2], 16)
    return match is not None


def _numa(one: Listed, text: str) -> bool:
    match = _NUMA.fullmatch(text)
    if match is not None and 0 <= int(match[1]) < MOST_INDICES:
        one.numa_index = int(match[1])
    return match is not None


def _flags(one: Listed, text: str) -> bool:
    match = _NUMA.search(text)
    return match is None or _numa(one, match[0])


def _most(one: Listed, text: str) -> bool:
    one.most = one.most or _rates(text)
    return one.most is not None


def _now(one: Listed, text: str) -> bool:
    one.now = one.now or _rates(text)
    return one.now is not None


def _rates(text: str) -> tuple[float | None, int | None] | None:
    """Speed and lanes; what is unknown, and a width that no link has, is None."""
    match = _LINK.search(text)
    if match is None:
        return None
    lanes = int(match[2] or 0)
    return (float(match[1]) or None if match[1] else None, lanes if lanes in WIDTHS else None)


def _driver(one: Listed, text: str) -> bool:
    match = _DRIVER.fullmatch(text)
    if match is not None:
        one.driver = printable(match[1])
    return match is not None


def _subsystem(one: Listed, text: str) -> bool:
    match = _SUBSYSTEM.search(text)
    if match is not None:
        one.subsystem = int(match[1], 16), int(match[2], 16)
    return True


def _capability(one: Listed, text: str) -> bool:
    one.is_denied = one.is_denied or "<access denied>" in text
    match = _PORT_TYPE.search(text)
    if match is not None:
        one.is_at_root = match["root"] is not None
        one.is_below = match["below"] is not None
    return _subsystem(one, text)


def _vfs(one: Listed, text: str) -> bool:
    match = _VFS.search(text)
    if match is not None:
        one.vfs = int(match[1])
    return match is not None


def _vf_step(one: Listed, text: str) -> bool:
    match = _VF_STEP.match(text)
    if match is not None:
        one.vf_step = int(match[1]), int(match[2])
    return match is not None


_READERS: Final[MappingProxyType[str, Callable[[Listed, str], bool]]] = MappingProxyType(
    {
        "Bus": _buses,
        "NUMA node": _numa,
        "Flags": _flags,
        "LnkCap": _most,
        "LnkSta": _now,
        "Kernel driver in use": _driver,
        "Subsystem": _subsystem,
        "Capabilities": _capability,
        "Initial VFs": _vfs,
        "VF offset": _vf_step,
    }
)
_EXPECTED: Final = MappingProxyType(
    {
        "Bus": "the buses of a bridge, as primary=00, secondary=01, subordinate=01",
        "NUMA node": "a number",
        "LnkCap": "speed and width, as Speed 16GT/s, Width x16",
        "LnkSta": "speed and width, as Speed 16GT/s, Width x16",
        "Kernel driver in use": "the name of a driver",
        "Initial VFs": "numbers, as Total VFs: 16, Number of VFs: 8",
        "VF offset": "numbers, as VF offset: 2, stride: 1",
    }
)


def _refuse(message: str, line_no: int, line: str, expected: str) -> ParseError:
    return refusal(message, tool=TOOL, line_no=line_no, line=line, expected=expected)
