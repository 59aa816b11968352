"""The lines of `ibnetdiscover`: the blocks of switches and adapters, and what their ports lead to.

Source: rdma-core, infiniband-diags/ibnetdiscover.c: out_ids, out_switch, out_ca, out_switch_port,
out_ca_port, dump_topology; with the additions of --grouping, --full and --max_hops.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hpckit.errors import ParseError
from hpckit.parse.excerpt import refusal
from hpckit.parse.pasted import pasted_lines

_ID: Final = r"\"([SHR])-([0-9a-fA-F]{1,16})\""
_EXT: Final = r"(?:\[ext [0-9]{1,5}\])?"
# Bounded: several runs of blanks side by side would take a long line's length squared.
_S: Final = r"\s{0,40}"
_LID: Final = r"lid [0-9]{1,6}(?: lmc [0-9]{1,3})?"
_GUID_HERE: Final = r"(?:\([0-9a-fA-F]{1,16}\))?"
_BLOCK: Final = re.compile(
    rf"(Switch|Ca|Rt)\s{_S}([0-9]{{1,5}})\s{_S}{_ID}{_S}"
    rf"(?:#{_S}\"(.*)\"(?:\s{_S}(?:enhanced|base) port 0(?: {_LID})?| \(scp\))?)?{_S}",
    re.ASCII,
)
_PORT: Final = re.compile(
    rf"\[([0-9]{{1,5}})\]{_EXT}{_S}{_GUID_HERE}{_S}{_ID}{_S}\[([0-9]{{1,5}})\]{_EXT}{_S}{_GUID_HERE}"
    rf"{_S}(?:#{_S}(?:{_LID} )?{_S}\"(.*)\"(?:\s{_S}lid [0-9]{{1,6}})?"
    rf"(?:\s{_S}((?:[0-9]{{1,2}}x|\?\?)\S{{1,12}}))?"
    rf"(?: s=[0-9]{{1,5}} w=[0-9]{{1,5}} v=[0-9]{{1,5}})?(?: slot [0-9]{{1,5}}| \(scp\))?)?{_S}",
    re.ASCII,
)
_FACT: Final = re.compile(
    r"(vendid|devid|sysimgguid|switchguid|caguid|rtguid) ?= ?0x([0-9a-fA-F]{1,16})"
    r"(?:\([0-9a-fA-F]{1,16}\))?\s*(?:#.*)?",
    re.ASCII,
)
_BESIDES: Final = re.compile(
    r"\s*|\s*#.*|Chassis [0-9]{1,5}(?: \(guid 0x[0-9a-fA-F]{1,16}\))?\s*|Hostname: .*"
    r"|Non-Chassis Nodes\s*|ibwarn: .*|src/\w+\.c:[0-9]+;.*",
    re.ASCII,
)
_QUOTED: Final = re.compile(r"^[ \t]{0,3}>", re.MULTILINE)
_KINDS: Final = {"Switch": "S", "Ca": "H", "Rt": "R"}
_QUOTE: Final = 40
EXPECTED: Final = (
    "what the command ibnetdiscover prints without options, as root on a host of the fabric:"
    ' vendid=, devid=, Switch 40 "S-…", [1] "H-…"[1]; files of ibsim are another format'
)


class Device(NamedTuple):
    """A switch, adapter or router; `kind` is S, H or R, a GUID 16 digits behind 0x."""

    kind: str
    guid: str
    ports: int | None = None
    description: str | None = None
    system: str | None = None


class Far(NamedTuple):
    """What a port leads to, in the words of its own line."""

    kind: str
    guid: str
    port: int
    description: str | None
    speed: str | None
    line_no: int


@dataclass(frozen=True, slots=True)
class Discovered:
    """The devices that have a block, by GUID, and what leads where, by GUID and port."""

    devices: dict[str, Device] = field(default_factory=dict)
    ends: dict[tuple[str, int], Far] = field(default_factory=dict)


def read_lines(text: str, tool: str) -> Discovered:
    """The blocks of a text. Raises ParseError for a line that is none of the format."""
    is_pasted = "\x1b" in text or "\r" in text or _QUOTED.search(text) is not None
    reader = _Reader(pasted_lines(text) if is_pasted else text.split("\n"), tool)
    for line_no, line in enumerate(reader.lines, start=1):
        reader.read(line_no, line)
    reader.check_ends()
    return reader.found


class _Reader:
    """What was read so far; `system` is that of the block whose first lines were read."""

    def __init__(self, lines: Sequence[str], tool: str) -> None:
        self.lines = lines
        self.found = Discovered()
        self._tool = tool
        self._device: Device | None = None
        self._system: str | None = None

    def read(self, line_no: int, line: str) -> None:
        """Take one line."""
        start = line[:1]
        if not line:
            return
        if start == "[" and (match := _PORT.fullmatch(line)):
            self._add_end(match, line_no)
        elif match := _FACT.fullmatch(line):
            self._device = None
            if match[1] == "vendid":
                self._system = None
            elif match[1] == "sysimgguid":
                self._system = _guid(match[2])
        elif start in ("S", "C", "R") and (match := _BLOCK.fullmatch(line)):
            self._add_device(match, line_no)
        elif not _BESIDES.fullmatch(line):
            words = " ".join(line[: _QUOTE * 4].split())
            short = words if len(words) <= _QUOTE else f"{words[:_QUOTE]}…"
            raise self._refused(f"{short!r} is none of ibnetdiscover's lines", line_no)

    def _refused(self, message: str, line_no: int) -> ParseError:
        line = self.lines[line_no - 1].expandtabs()
        return refusal(message, tool=self._tool, line_no=line_no, line=line, expected=EXPECTED)

    def _add_device(self, match: re.Match[str], line_no: int) -> None:
        word, ports, kind, guid, description = match.groups()
        device = Device(kind, _guid(guid), int(ports), description, self._system)
        known = self.found.devices.get(device.guid)
        if kind != _KINDS[word] or (known is not None and known.kind != kind):
            message = f"{device.guid} is a {word} here and something else in the same text"
            raise self._refused(message, line_no)
        self._device = self.found.devices.setdefault(device.guid, device)
        self._system = None

    def _add_end(self, match: re.Match[str], line_no: int) -> None:
        if self._device is None:
            raise self._refused("a port stands before any device", line_no)
        near, kind, guid, port, description, speed = match.groups()
        far = Far(kind, _guid(guid), int(port), description, speed, line_no)
        known = self.found.ends.setdefault((self._device.guid, int(near)), far)
        if known[:3] != far[:3]:
            message = f"port {near} led somewhere else in line {known.line_no}"
            raise self._refused(message, line_no)

    def check_ends(self) -> None:
        """Both ends of a cable name each other."""
        for (guid, port), far in self.found.ends.items():
            device = self.found.devices.get(far.guid)
            back = self.found.ends.get((far.guid, far.port))
            if device is not None and device.kind != far.kind:
                message = f"{far.guid} is called {far.kind}- here and has a block of another kind"
                raise self._refused(message, far.line_no)
            if back is not None and (back.guid, back.port) != (guid, port):
                message = (
                    f"port {far.port} of {far.guid} says in line {back.line_no} that it leads to"
                    f" port {back.port} of {back.guid}"
                )
                raise self._refused(message, far.line_no)


def _guid(text: str) -> str:
    return "0x" + text.zfill(16).lower()


def switch_ends(found: Discovered) -> Iterator[tuple[str, int, Far | None, str, int, Far | None]]:
    """Each cable at a switch once: its end there and the far end, each with what its line says.

    Of a cable between switches the first in the text is first.
    """
    for (guid, port), far in found.ends.items():
        back = found.ends.get((far.guid, far.port))
        if found.devices[guid].kind == "S":
            if far.kind != "S" or back is None or far.line_no <= back.line_no:
                yield guid, port, far, far.guid, far.port, back
        elif far.kind == "S" and back is None:
            yield far.guid, far.port, back, guid, port, far
