"""The probe: says once what this node looks like, in lines that srun may mix with others'."""

from __future__ import annotations

import base64
import binascii
import json
import re
import signal
import socket
import sys
import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from hpckit.core.late import regex

if TYPE_CHECKING:
    from hpckit.node.node_file import NodeSettings


_DRIVER_S = 30
_REST_S = 20


def probe(words: list[str], env: dict[str, str]) -> int | None:
    """Print this node's topology as `AnswerReader` reads it; None for a wrong command line.

    The one word is for how many seconds a driver is waited for, after which the rest is the answer.
    What hangs otherwise ends the probe a little later, so that no task is left on the node.
    """
    if len(words) > 1 or not all(word.isascii() and word.isdigit() for word in words):
        return None
    driver_s = int(words[0]) if words else _DRIVER_S
    from hpckit.core.errors import HpckitError

    signal.alarm(driver_s + _REST_S)
    node = env.get("SLURMD_NODENAME") or socket.gethostname()
    try:
        document = json.dumps(topology_tree(node, driver_s), separators=(",", ":")).encode()
    except HpckitError as error:
        document = error_document(error.message)
    sys.stdout.write("".join(f"{line}\n" for line in answer_lines(node, document)))
    sys.stdout.flush()
    return 0


def topology_tree(node: str, driver_s: int, settings: NodeSettings | None = None) -> dict[str, Any]:
    """What this node looks like, as a tree; `settings` are in place of the node's own.

    Raises HpckitError.
    """
    from pathlib import Path

    from hpckit.core.fields import to_tree
    from hpckit.node.capture.nvml import NvmlDriver
    from hpckit.node.capture.sysfs import SysfsFiles
    from hpckit.node.merge import inspect_here
    from hpckit.node.node_file import node_settings

    settings = settings or node_settings()
    files = SysfsFiles(Path(settings.sysroot))
    stands_in = node if settings.is_synthetic else None
    tree: dict[str, Any] = to_tree(inspect_here(files, NvmlDriver(driver_s), stands_in=stands_in))
    return tree


# srun hands lines on in pieces of 1 KiB and mixes those of several tasks (Slurm's io_hdr.h,
# MAX_MSG_LEN), so an answer is compressed, written in base64 and cut; each piece says whose it is.
# Only the standard library is used: this runs on the nodes as well.
MARK: Final = "hpckit-probe/1"
LONGEST_ANSWER_BYTES: Final = 16 * 1024**2
_ERROR: Final = "error"
_PIECE: Final = 800
_MOST_PIECES: Final = 10_000
_MOST_OTHER_LINES: Final = 1000
_LONGEST_OTHER: Final = 400
_LINE: Final = regex(
    rf"{re.escape(MARK)} (?P<node>\S{{1,200}}) (?P<at>\d{{1,6}})/(?P<of>\d{{1,6}})"
    rf" (?P<piece>\S{{0,{_PIECE}}})",
    re.ASCII,
)


def answer_lines(node: str, document: bytes) -> Iterator[str]:
    """The lines of a node's answer, without line ends; `document` is what it says."""
    text = base64.b64encode(zlib.compress(document, 6)).decode("ascii")
    count = max(1, -(-len(text) // _PIECE))
    for at in range(count):
        piece = text[at * _PIECE : (at + 1) * _PIECE]
        yield f"{MARK} {node} {at + 1}/{count} {piece}"


class AnswerReader:
    """Puts the answers of `nodes` together as their lines come.

    `other` are the lines that are none: the first thousand of them, each up to 400 characters.
    """

    def __init__(self, nodes: Iterable[str]) -> None:
        self.other: list[str] = []
        self._pieces: dict[str, dict[int, str]] = {node: {} for node in nodes}

    def read(self, line: str) -> tuple[str, bytes | None] | None:
        """A node and its document once the last piece is there; None until then.

        The document is None where the pieces do not fit together.
        """
        match = _LINE.fullmatch(line.strip())
        if match is None or match["node"] not in self._pieces:
            if line.rstrip() and len(self.other) < _MOST_OTHER_LINES:
                self.other.append(line.rstrip()[:_LONGEST_OTHER])
            return None
        node, at, count = match["node"], int(match["at"]), int(match["of"])
        if not 1 <= at <= count <= _MOST_PIECES:
            return node, None
        pieces = self._pieces[node]
        pieces[at] = match["piece"]
        if len(pieces) < count:
            return None
        self._pieces[node] = {}
        return node, _document("".join(pieces[one] for one in sorted(pieces)))


def _document(text: str) -> bytes | None:
    unpack = zlib.decompressobj()
    try:
        document = unpack.decompress(base64.b64decode(text, validate=True), LONGEST_ANSWER_BYTES)
    except (binascii.Error, zlib.error):
        return None
    return document if unpack.eof else None


def error_document(because: str) -> bytes:
    """What a node says that cannot say what it is."""
    return json.dumps({_ERROR: because}).encode()


def error_in(document: bytes) -> str | None:
    """Why a node could not say what it is, None for any other document."""
    if not document.startswith(f'{{"{_ERROR}"'.encode()):
        return None
    try:
        said = json.loads(document)
    except ValueError:
        return None
    return str(said.get(_ERROR))
