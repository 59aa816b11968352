"""The tree of `lspci -t` and `lspci -tv`: bridges, the buses below them, and what is on each.

Sources: lspci(8), -t; pciutils, ls-tree.c (what the marks and brackets mean).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hpckit.errors import ParseError
from hpckit.model.pci import CLASS_PCI_BRIDGE, PciAddress, PciDevice, pci_address
from hpckit.parse.excerpt import refusal
from hpckit.parse.lspci_list import TOOL
from hpckit.parse.lspci_words import naming
from hpckit.parse.sysfs_tree import printable

_DOMAIN_BUS: Final = r"\[(?P<domain>[0-9a-f]{4,8}):(?P<bus>[0-9a-f]{2})\]"
_START: Final = re.compile(
    r"^[^\S\n]{0,40}(?:-(?:[+\\]-)?\[[0-9a-f]{4,8}:[0-9a-f]{2}\]-"
    r"|[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]-\[[0-9a-f]{2}(?:-[0-9a-f]{2})?\]-)",
    re.MULTILINE | re.ASCII,
)
_BRANCH: Final = re.compile(r"[ |]*[+\\]-")
_BASE: Final = re.compile(r"[ |]+(?:\[|Region |Memory at |I/O ports at )")
_MARK: Final = re.compile(r"-*([+\\])-|-+|$")
_ROOT: Final = re.compile(_DOMAIN_BUS, re.ASCII)
_TOP: Final = re.compile(
    r"(?P<domain>[0-9a-f]{4,8}):(?P<bus>[0-9a-f]{2}):(?=[01][0-9a-f]\.)", re.ASCII
)
_FUNCTION: Final = re.compile(
    r"(?P<slot>[01][0-9a-f]\.[0-7])(?:-\[(?P<bus>[0-9a-f]{2})(?:-[0-9a-f]{2})?\]|"
    r"(?: {1,2}(?P<name>\S.{0,400}))?$)",
    re.ASCII,
)
_IDS: Final = re.compile(r"(?:(.*) )?\[?\b([0-9a-f]{4}):([0-9a-f]{4})\]?", re.ASCII)
_BOXES: Final = str.maketrans("├└─│", "+\\-|")
_EXPECTED: Final = "a branch of the tree that lspci -t prints, as +-01.1-[01]----00.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bus:
    """What is being listed below: a bus, or the list of root buses where `bus` is None.

    `host_bridge` is None where the tree begins at a bridge.
    """

    domain: str = ""
    bus: str | None = None
    bridge: PciAddress | None = None
    host_bridge: str | None = None


def has_tree(text: str) -> bool:
    """Whether a text has the first line of such a tree in it."""
    return _START.search(text.translate(_BOXES)) is not None


def read_tree(lines: Sequence[str]) -> dict[PciAddress, PciDevice]:
    """The functions of the trees in a text, each with its parent and root complex.

    Those of a tree that begins at a bridge, as -s makes it, have no root complex; in a second tree,
    as of -t and then of -tv, they must be the same. Raises ParseError.
    """
    reader = _Reader()
    for line_no, line in enumerate(lines, start=1):
        reader.take(line_no, line.translate(_BOXES).rstrip())
    return reader.found


class _Reader:
    def __init__(self) -> None:
        self.found: dict[PciAddress, PciDevice] = {}
        self._seen: set[PciAddress] = set()
        self._open: dict[int, _Bus] = {}
        self._line_no = 0
        self._line = ""

    def take(self, line_no: int, line: str) -> None:
        """Read one line, of a tree or of anything else."""
        self._line_no, self._line = line_no, line
        if _START.match(line):
            self._open, self._seen = {}, set()
            at = len(line) - len(line.lstrip(" "))
            top = _TOP.match(line, at)
            if top is None:
                self._read(at, _Bus())
            else:
                self._read(top.end(), _Bus(domain=top["domain"], bus=top["bus"]), is_item=True)
        elif (branch := _BRANCH.match(line)) is not None:
            self._continue(branch.end() - 2)
        elif not (self._open and _BASE.match(line)):
            self._open = {}

    def _continue(self, column: int) -> None:
        bus = self._open.get(column)
        if bus is not None:
            self._open = {at: one for at, one in self._open.items() if at < column}
            self._read(column, bus)
        elif self._open or _FUNCTION.match(self._line, column + 2):
            # Other tools draw trees too; a slot and function are lspci's.
            raise self._refuse("a branch that hangs on nothing", column)

    def _read(self, at: int, bus: _Bus, *, is_item: bool = False) -> None:
        """The rest of a line: a mark that says what hangs where, an item, a mark again."""
        while True:
            if not is_item:
                mark = _MARK.match(self._line, at)
                if mark is None:
                    raise self._refuse("this is no part of a tree", at)
                if mark.end() == len(self._line):
                    return
                if mark[1]:
                    self._open[mark.end() - 2] = bus
                at = mark.end()
            is_item = False
            root = _ROOT.match(self._line, at)
            at, below = self._function(at, bus) if root is None else (root.end(), _at(bus, root))
            if below is None:
                return
            bus = below

    def _function(self, at: int, bus: _Bus) -> tuple[int, _Bus | None]:
        """Where it ends, and the bus below it if it is a bridge."""
        match = _FUNCTION.match(self._line, at)
        if match is None or bus.bus is None:
            raise self._refuse("this is no device", at)
        address = pci_address(f"{bus.domain}:{bus.bus}:{match['slot']}")
        device = PciDevice(address=address, parent=bus.bridge, host_bridge=bus.host_bridge)
        if match["bus"] is None:
            self._keep(_named(device, match["name"] or ""), at)
            return match.end(), None
        self._keep(replace(device, class_code=CLASS_PCI_BRIDGE), at)
        return match.end(), replace(bus, bus=match["bus"], bridge=address)

    def _keep(self, device: PciDevice, at: int) -> None:
        if device.address in self._seen:
            raise self._refuse(f"{device.address} is there twice", at)
        self._seen.add(device.address)
        before = self.found.get(device.address, device)
        if before.parent != device.parent or before.host_bridge != device.host_bridge:
            raise self._refuse(f"{device.address} is elsewhere than in the tree before", at)
        self.found[device.address] = device if device.vendor_id or device.name else before

    def _refuse(self, message: str, at: int) -> ParseError:
        return refusal(
            message,
            tool=f"{TOOL} -t", line_no=self._line_no, line=self._line, column=at + 1,
            expected=_EXPECTED,
        )  # fmt: skip


def _at(bus: _Bus, label: re.Match[str]) -> _Bus:
    """A bus that is named with its domain: a root bus, or one of several below a bridge."""
    name = f"pci{int(label['domain'], 16):04x}:{label['bus']}"
    return _Bus(
        domain=label["domain"],
        bus=label["bus"],
        bridge=bus.bridge,
        host_bridge=bus.host_bridge or (None if bus.bridge else name),
    )


def _named(device: PciDevice, words: str) -> PciDevice:
    ids = _IDS.fullmatch(words)
    known = naming((ids[1] or "").strip() if ids else words)
    return replace(
        device,
        vendor_id=int(ids[2], 16) if ids else known.vendor_id,
        device_id=int(ids[3], 16) if ids else known.device_id,
        name=printable(known.name) if known.name else None,
    )
