"""Forms of NCCL's lines about a process: its release, settings, communicators, what went wrong.

Sources: NCCL 2.18.5 to 2.30.7, src/init.cc, src/misc/param.cc, src/debug.cc; RCCL 2.18 to 2.30,
src/init.cc (`RCCL version : 2.27.7-HEAD:…`).
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

from hpckit.model.comm import CommLibrary, NcclVersion
from hpckit.model.nccl_log import (
    Communicator,
    LibraryVersion,
    LoggedSetting,
    NodeShare,
    Warned,
)
from hpckit.parse.nccl_form import NUMBER, Facts, Form, form, nothing
from hpckit.parse.nccl_line import NcclLine

VERSION: Final = re.compile(
    r"(?P<library>NCCL|RCCL) version ?:? ?"
    r"(?P<text>(?P<release>[0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,3})?)[^\s]{0,80}).{0,80}",
    re.ASCII,
)
"""A release as it is printed, in a line of NCCL's or, of rank 0, in one without a prefix."""

_DEVICE: Final = re.compile(r" cudaDev ([0-9]{1,4})", re.ASCII)
_COMM_ID: Final = re.compile(r" commId (0x[0-9a-f]{1,20})", re.ASCII)
_COMM: Final = r"comm (?:0x)?[0-9a-fA-F()nil]{1,20}"


def version_fact(match: re.Match[str], host: str | None) -> LibraryVersion | None:
    """The release of a match of VERSION; None where that is no number of a release."""
    with suppress(ValueError):
        return LibraryVersion(
            host=host,
            library=CommLibrary(match["library"].lower()),
            version=NcclVersion.of(match["release"]),
            text=match["text"],
        )
    return None


def _version(match: re.Match[str], line: NcclLine) -> Facts:
    fact = version_fact(match, line.host)
    return () if fact is None else (fact,)


def _setting(match: re.Match[str], line: NcclLine) -> Facts:
    value = match["value"].strip()
    yield LoggedSetting(host=line.host, name=match["name"], value=value.removesuffix("."))


def _communicator(match: re.Match[str], line: NcclLine) -> Facts:
    device = _DEVICE.search(match["more"])
    commid = _COMM_ID.search(match["more"])
    yield Communicator(
        host=line.host,
        commid=commid[1] if commid else None,
        rank=int(match["rank"]),
        ranks=int(match["ranks"]),
        device=int(device[1]) if device else None,
        event=match["event"],
    )


def _share(match: re.Match[str], line: NcclLine) -> Facts:
    yield NodeShare(
        host=line.host,
        ranks=int(match["ranks"]),
        nodes=int(match["nodes"]),
        local_ranks=int(match["local"]),
        is_mnnvl=match["mnnvl"] == "1",
    )


def _failed(match: re.Match[str], line: NcclLine) -> Facts:
    yield Warned(host=line.host, text=match[0])


_RANKS: Final = rf"rank (?P<rank>{NUMBER}) n[rR]anks (?P<ranks>{NUMBER})"

JOB_FORMS: Final[tuple[Form, ...]] = (
    Form(starts=("NCCL version", "RCCL version"), pattern=VERSION, build=_version),
    form(
        "",
        r"(?P<name>[A-Z][A-Z0-9_]{2,60}) set by environment to (?P<value>.{0,400})",
        _setting,
    ),
    form(
        "",
        r"(?P<name>[NR]CCL_[A-Z0-9_]{2,60}) set to (?P<value>.{0,400})",
        _setting,
    ),
    form(
        "",
        rf"(?:\[Rank {NUMBER}\] )?(?:[A-Za-z_]{{4,40}} )?{_COMM} {_RANKS}(?P<more>.{{0,200}}?)- "
        r"(?P<event>Init START|Init COMPLETE|Abort START|Abort COMPLETE|Destroy COMPLETE).{0,40}",
        _communicator,
    ),
    form(
        "comm",
        rf"{_COMM} rank {NUMBER} nRanks (?P<ranks>{NUMBER}) nNodes (?P<nodes>{NUMBER})"
        rf" localRanks (?P<local>{NUMBER}) localRank {NUMBER} MNNVL (?P<mnnvl>{NUMBER})",
        _share,
    ),
    form("Call to", r"Call to .{1,60} (?:failed|returned) .*", _failed),
    form("Call to", r"Call to .{0,80} (?:not supported|skipped).{0,100}", nothing),
    form("", r".{1,120}: (?:connect|connect to \S{1,80}) returned .*", _failed),
    form("Failed to bind NVLink SHARP", r"Failed to bind NVLink SHARP .*", _failed),
    form("cuMem host allocations", r"cuMem host allocations do not appear .*", _failed),
    form("", r"\S{1,200}:[0-9]{1,6} (?:-> [0-9]{1,4}|Cuda failure .{1,200}).{0,60}", nothing),
)
"""In the order in which they are tried."""
