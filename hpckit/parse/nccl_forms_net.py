"""Forms of NCCL's lines about networks: bootstrap, NICs, plugins, GPU Direct RDMA.

Sources: NCCL 2.18.5 to 2.30.7: src/bootstrap.cc, src/transport/net_ib* (Using, No device found),
src/transport/net_socket.cc, src/net.cc, src/plugin/, src/graph/paths.cc and topo.cc (GPU Direct);
aws-ofi-nccl, src/nccl_ofi_net.cpp. Before 2.27 only a NIC's number stands in the lines of pairs,
and 2.28 and newer print pairs at TRACE alone.
"""

from __future__ import annotations

import re
from typing import Final

from hpckit.model.nccl_log import (
    Bootstrap,
    GpuDirect,
    LogNic,
    Network,
    NicList,
    OfiProvider,
    Plugin,
    PluginEvent,
    VirtualNic,
    Warned,
)
from hpckit.parse.nccl_form import NUMBER, Facts, Form, form, nothing
from hpckit.parse.nccl_line import NcclLine

_NAME: Final = r"([A-Za-z][A-Za-z0-9_.+-]{0,80}):([0-9]{0,3})(?::[0-9]{0,4}){0,2}/([A-Za-z]{2,12})"
_NIC: Final = re.compile(
    rf"\[([0-9]{{1,4}})\] ?{_NAME}(/SHARP)?|\[([0-9]{{1,4}})\]=\{{([^{{}}]{{0,800}})\}}", re.ASCII
)
_PART: Final = re.compile(_NAME, re.ASCII)
_MBIT_BYTES: Final = 1e6 / 8
_INTERFACE: Final = re.compile(r"\[([0-9]{1,4})\]([^\s:\[\]]{1,40}):", re.ASCII)


def _bootstrap(match: re.Match[str], line: NcclLine) -> Facts:
    yield Bootstrap(host=line.host, interface=match[1], address=match[2])


def _network(match: re.Match[str], line: NcclLine) -> Facts:
    yield Network(host=line.host, name=match[1])


def _ib_nics(match: re.Match[str], line: NcclLine) -> Facts:
    nics = tuple(_nic(one) for one in _NIC.finditer(match[1]))
    yield NicList(host=line.host, network="IB", nics=nics)


def _nic(one: re.Match[str]) -> LogNic:
    """One of a list; 2.20 to 2.24 show those that it made one of together, in braces."""
    index, name, port, link, sharp, merged, parts = one.groups()
    if merged is None:
        return LogNic(int(index), name, int(port) if port else None, link + (sharp or ""))
    each = _PART.findall(parts)
    links = {part[2] for part in each}
    return LogNic(
        int(merged), "+".join(part[0] for part in each), None, links.pop() if links else None
    )


def _virtual(match: re.Match[str], line: NcclLine) -> Facts:
    yield VirtualNic(
        host=line.host,
        index=int(match["index"]),
        name=match["name"],
        rate_bytes_per_s=int(match["speed"]) * _MBIT_BYTES,
        devices=int(match["devices"]),
    )


def _no_ib(_: re.Match[str], line: NcclLine) -> Facts:
    yield NicList(host=line.host, network="IB", nics=())


def _interfaces(match: re.Match[str], line: NcclLine) -> Facts:
    nics = tuple(LogNic(int(one[1]), one[2]) for one in _INTERFACE.finditer(match[1]))
    yield NicList(host=line.host, network="Socket", nics=nics)


def _provider(match: re.Match[str], line: NcclLine) -> Facts:
    nics = int(match["nics"]) if match["nics"] else None
    yield OfiProvider(host=line.host, provider=match["name"], nics=nics)


def _ofi(match: re.Match[str], line: NcclLine) -> Facts:
    name, event = match[1].strip(), PluginEvent.LOADED
    yield Plugin(host=line.host, kind="net", event=event, name=name)


def _nic_direct(match: re.Match[str], line: NcclLine) -> Facts:
    yield GpuDirect(
        host=line.host, gpu=None, nic=match["name"], is_enabled=match["state"] == "Enabled"
    )


def _pair_direct(match: re.Match[str], line: NcclLine) -> Facts:
    yield GpuDirect(
        host=line.host,
        gpu=match["gpu"],
        nic=match["nic"],
        is_enabled=match["state"] == "Enabled",
        distance=int(match["distance"]),
        limit=int(match["limit"]),
    )


def _failed(match: re.Match[str], line: NcclLine) -> Facts:
    yield Warned(host=line.host, text=match[0])


NET_FORMS: Final[tuple[Form, ...]] = (
    form("Bootstrap", r"Bootstrap ?: Using ?([^\s:\[\]]{1,40}):(\S{1,100}).{0,20}", _bootstrap),
    form("Bootstrap", r"Bootstrap timings .*", nothing),
    form("Using network", r"Using network (.{1,100})", _network),
    form("NET/IB", r"NET/IB ?: Using ?(.*?) ?(?:\[RO\])?; OOB .*", _ib_nics),
    form("NET/IB", r"NET/IB ?: Using (\[.*)", _ib_nics),
    form("NET/IB", r"NET/IB ?: No device found\.?", _no_ib),
    form(
        "NET/IB",
        r"NET/IB ?: Made virtual device \[(?P<index>[0-9]{1,4})\] name=(?P<name>\S{1,200})"
        r" speed=(?P<speed>[0-9]{1,9}) ndevs=(?P<devices>[0-9]{1,3}).{0,80}",
        _virtual,
    ),
    form("NET/Socket", r"NET/Socket ?: Using (\[.*)", _interfaces),
    form(
        "NET/OFI",
        r"NET/OFI (?:\[[^\]]{0,20}\] )?[Ss]elected [Pp]rovider is (?P<name>[^\s,]{1,60})"
        r"(?:, fabric is \S{1,60})?(?: \(found (?P<nics>[0-9]{1,4}) nics\))?.{0,40}",
        _provider,
    ),
    form("NET/OFI", r"NET/OFI (?:Initializing|Using) (aws-ofi-[nr]ccl .{0,60})", _ofi),
    form("NET/OFI", r"NET/OFI .*(?:[Nn]o eligible providers|[Ff]ailed).*", _failed),
    form(
        "",
        r"NET/[^:]{1,60}: GPU Direct RDMA (?P<state>Enabled|Disabled) for HCA [0-9]{1,4}"
        r" '(?P<name>[^']{1,100})'.{0,40}",
        _nic_direct,
    ),
    form(
        "GPU Direct RDMA",
        r"GPU Direct RDMA (?P<state>Enabled|Disabled) for GPU (?P<gpu>[0-9a-fA-F:./-]{1,20})"
        r" / HCA (?P<nic>[0-9a-fA-F:./-]{1,20})"
        rf" \(distance (?P<distance>{NUMBER}) (?:<=|>) (?P<limit>{NUMBER})\).{{0,60}}",
        _pair_direct,
    ),
    form("NET/OFI", r"NET/OFI .*", nothing),
    form("NET/IB", r"NET/IB ?:(?! ?(?:Using|No device|Made|GPU Direct)).*", nothing),
    form("NET/Socket", r"NET/Socket ?: Using [a-z0-9].*", nothing),
)
"""In the order in which they are tried."""
