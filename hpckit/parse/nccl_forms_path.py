"""Forms of NCCL's lines about paths: connections, what its search found, algorithms, NVLS.

Sources: NCCL 2.18.5 to 2.30.7, src/transport/{p2p,shm,net,coll_net,nvls}.cc, src/graph/search.cc
(ncclTopoPrintGraph), src/enqueue.cc and src/init.cc; before 2.18 and in RCCL the brackets hold a
bus id, and RCCL ends connections with `comm ADDRESS nRanks N`.
"""

from __future__ import annotations

import re
from typing import Final

from hpckit.model.nccl_log import (
    Algorithm,
    ChannelCounts,
    Connection,
    Nvls,
    P2pDisabled,
    SearchedGraph,
    Transport,
)
from hpckit.parse.nccl_form import NUMBER, Facts, Form, form, nothing
from hpckit.parse.nccl_line import NcclLine

_PLACE: Final = r"\[[0-9a-fA-F]{1,16}\]"
_ENDS: Final = rf"(?P<sender>{NUMBER}){_PLACE} -> (?P<receiver>{NUMBER}){_PLACE}"
_CHANNEL: Final = rf"Channel [0-9]{{1,4}}(?:/(?P<use>[0-9]{{1,4}}))? ?: {_ENDS}"
_RCCL_END: Final = r"(?: comm 0x[0-9a-f]{1,16} nRanks [0-9]{1,7})?"
_FLOAT: Final = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_TYPE: Final = r"[A-Z0-9]{2,6}"
_GB: Final = 1e9
_ALGORITHMS: Final = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
_PROTOCOLS: Final = ("LL", "LL128", "Simple")


def _local(match: re.Match[str], line: NcclLine) -> Facts:
    yield Connection(
        host=line.host,
        sender=int(match["sender"]),
        receiver=int(match["receiver"]),
        transport=Transport(match["transport"]),
        how=match["how"],
        is_point_to_point=match["use"] == "1",
    )


def _net(match: re.Match[str], line: NcclLine) -> Facts:
    yield Connection(
        host=line.host,
        sender=int(match["sender"]),
        receiver=int(match["receiver"]),
        transport=Transport.NET,
        how=match["how"],
        is_send=match["end"] == "send",
        nic=int(match["nic"]),
        is_gdr="/GDRDMA" in match["rest"],
        is_point_to_point=match["use"] == "1",
    )


def _collnet(match: re.Match[str], line: NcclLine) -> Facts:
    yield Connection(
        host=line.host,
        sender=int(match["rank"]),
        receiver=None,
        transport=Transport.COLLNET,
        how=match["how"],
        is_send=match["end"] == "send",
        nic=int(match["nic"]),
        is_gdr="/GDRDMA" in match["rest"],
    )


def _graph(match: re.Match[str], line: NcclLine) -> Facts:
    yield SearchedGraph(
        host=line.host,
        pattern=int(match["pattern"]),
        cross_nic=int(match["cross"]),
        channels=int(match["channels"]),
        intra_bytes_per_s=float(match["intra"]) * _GB,
        inter_bytes_per_s=float(match["inter"]) * _GB,
        intra_type=match["near"],
        inter_type=match["far"],
    )


def _counts(match: re.Match[str], line: NcclLine) -> Facts:
    nvls = match["nvls"]
    yield ChannelCounts(
        host=line.host,
        collective=int(match["coll"]),
        nvls=int(nvls) if nvls else None,
        p2p=int(match["p2p"]),
        p2p_per_peer=int(match["peer"]),
    )


def _algorithm(match: re.Match[str], _: NcclLine) -> Facts:
    yield Algorithm(
        collective=match["what"],
        algorithm=_named(match["algorithm"], _ALGORITHMS),
        protocol=_named(match["protocol"], _PROTOCOLS),
    )


def _old_algorithm(match: re.Match[str], _: NcclLine) -> Facts:
    yield Algorithm(
        collective=None,
        algorithm=_numbered(match["algorithm"], _ALGORITHMS),
        protocol=_numbered(match["protocol"], _PROTOCOLS),
    )


def _named(word: str, names: tuple[str, ...]) -> str:
    """NCCL's spelling in its documentation; its log has capitals (`RING`)."""
    plain = word.replace("_", "").lower()
    return next((name for name in names if name.lower() == plain), word)


def _numbered(digits: str, names: tuple[str, ...]) -> str:
    """A name by NCCL's number, src/include/nccl_common.h; one beyond the table is kept."""
    return names[int(digits)] if int(digits) < len(names) else digits


def _nvls(match: re.Match[str], line: NcclLine) -> Facts:
    yield Nvls(host=line.host, is_available=match["no"] is None)


def _nvls_made(_: re.Match[str], line: NcclLine) -> Facts:
    yield Nvls(host=line.host, is_available=True)


def _p2p_disabled(match: re.Match[str], line: NcclLine) -> Facts:
    yield P2pDisabled(host=line.host, gpus=(match[1], match[2]))


PATH_FORMS: Final[tuple[Form, ...]] = (
    form(
        "Channel",
        rf"{_CHANNEL} via (?P<transport>P2P|SHM)/(?P<how>.{{1,80}}?){_RCCL_END}",
        _local,
    ),
    form(
        "Channel",
        rf"{_CHANNEL} \[(?P<end>send|receive)\] via NET/(?P<how>[^/]{{1,100}})"
        rf"/(?P<nic>[0-9]{{1,4}})(?:\([0-9]{{1,7}}\))?(?P<rest>(?:/[A-Za-z0-9()]{{1,20}}){{0,4}}){_RCCL_END}",
        _net,
    ),
    form(
        "CollNet",
        rf"CollNet [0-9]{{1,4}}/[0-9]{{1,4}} ?: (?P<rank>{NUMBER}) \[(?P<end>send|receive)\] via"
        r" COLLNET/(?P<how>[^/]{1,100})/(?P<nic>[0-9]{1,4})(?:\([0-9]{1,7}\))?"
        r"(?P<rest>(?:/[A-Za-z0-9()]{1,20}){0,4})",
        _collnet,
    ),
    # The order of a ring: ranks of channel c of n, as many as fit into NCCL's buffer.
    form("Channel", r"Channel [0-9]{1,4}/[0-9]{1,4} ?:[ 0-9]*", nothing),
    form(
        "Pattern",
        rf"Pattern (?P<pattern>{NUMBER}), crossNic (?P<cross>{NUMBER}),"
        rf" nChannels (?P<channels>{NUMBER}), bw (?P<intra>{_FLOAT})/(?P<inter>{_FLOAT}),"
        rf" type (?P<near>{_TYPE})/(?P<far>{_TYPE}), sameChannels {NUMBER}.{{0,60}}",
        _graph,
    ),
    form(
        "",
        rf"(?P<coll>{NUMBER}) coll channels, (?:{NUMBER} collnet channels, )?"
        rf"(?:(?P<nvls>{NUMBER}) nvls channels, )?(?P<p2p>{NUMBER}) p2p channels,"
        rf" (?P<peer>{NUMBER}) p2p channels per peer.{{0,60}}",
        _counts,
    ),
    form(
        "comm:",
        rf"comm:\S{{1,20}}, nRanks:{NUMBER}, nNodes:{NUMBER}, coll channels:(?P<coll>{NUMBER})"
        rf" collnet channels:{NUMBER}, nvls channels:(?P<nvls>{NUMBER}),"
        rf" p2p channels:(?P<p2p>{NUMBER}), p2p channels per peer:(?P<peer>{NUMBER}).{{0,60}}",
        _counts,
    ),
    form(
        "",
        r"(?P<what>[A-Z][A-Za-z]{2,30}): [0-9]{1,20} Bytes -> Algo"
        r" (?P<algorithm>[A-Za-z0-9_]{1,30}) proto (?P<protocol>[A-Za-z0-9]{1,20}) channel.{0,40}",
        _algorithm,
    ),
    form(
        "",
        r"[0-9]{1,20} Bytes -> Algo (?P<algorithm>[0-9]{1,2}) proto (?P<protocol>[0-9]{1,2})"
        r" time .{1,40}",
        _old_algorithm,
    ),
    form("NVLS multicast", r"NVLS multicast support is (?P<no>not )?available on dev .*", _nvls),
    form("NVLS comm", r"NVLS comm .*", _nvls_made),
    form("NVLS", r"NVLS .*", nothing),
    form(
        "P2P is disabled",
        r"P2P is disabled between connected GPUs ([0-9]{1,5}) and ([0-9]{1,5})\..*",
        _p2p_disabled,
    ),
    form(
        ("Could not enable P2P", "peer query failed"),
        r"(?:Could not enable P2P|peer query failed) between dev ([0-9]{1,5})\(=[0-9a-f]{1,16}\)"
        r" and dev ([0-9]{1,5})\(=[0-9a-f]{1,16}\)",
        _p2p_disabled,
    ),
    form(
        "P2P not supported between GPU",
        r"P2P not supported between GPU([0-9]{1,5}) and GPU([0-9]{1,5})",
        _p2p_disabled,
    ),
)
"""In the order in which they are tried."""
