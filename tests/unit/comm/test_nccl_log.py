"""NCCL's INFO log: each form that is known, in the words of the releases that print it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TypeVar

import pytest

from hpckit.comm.run.log_lines import (
    Algorithm,
    Bootstrap,
    ChannelCounts,
    Communicator,
    Connection,
    GpuDirect,
    LoggedSetting,
    LogNic,
    NcclLog,
    Network,
    NicList,
    NodeShare,
    OfiProvider,
    P2pDisabled,
    Plugin,
    PluginEvent,
    SearchedGraph,
    Seen,
    Transport,
    VirtualNic,
)
from hpckit.comm.run.nccl_tests import parse_nccl_run
from hpckit.spec.platform import CommLibrary, NcclVersion
from tests.fakes.slurm_records import record_text

Fact = TypeVar("Fact")
PREFIX = "n1:11:12 [3] NCCL INFO "


def log(*said: str) -> NcclLog:
    """The log of lines that one process wrote."""
    return read("".join(f"{PREFIX}{text}\n" for text in said))


def only(seen: Sequence[Seen[Fact]]) -> Fact:
    """The one fact."""
    (one,) = seen
    return one.what


def read(text: str) -> NcclLog:
    """Return the log of a text that has one."""
    log = parse_nccl_run(text).log
    assert log is not None
    return log


def known(text: str) -> NcclLog:
    """The log of one line, which is of a known form."""
    found = log(text)
    assert found.unread == ()
    return found


def net(how: str, nic: int, *, is_send: bool = True, is_gdr: bool = False) -> Connection:
    """A connection of rank 1 to rank 4 over a network."""
    return Connection(
        host="n1", sender=1, receiver=4, transport=Transport.NET, how=how, nic=nic,
        is_send=is_send, is_gdr=is_gdr,
    )  # fmt: skip


def local(sender: int, receiver: int, how: str) -> Connection:
    """A connection within a node."""
    return Connection(host="n1", sender=sender, receiver=receiver, transport=Transport.P2P, how=how)


COUNTS = ChannelCounts(host="n1", collective=16, nvls=8, p2p=32, p2p_per_peer=4)
LISTS = [
    field.name
    for field in fields(NcclLog)
    if isinstance(getattr(NcclLog(lines=0), field.name), tuple)
][1:]
FACTS = {
    "Bootstrap : Using ib0:10.128.200.11<0>": Bootstrap(
        host="n1", interface="ib0", address="10.128.200.11<0>"
    ),
    "Bootstrap: Using eth0:fe80::1%eth0<0>": Bootstrap(
        host="n1", interface="eth0", address="fe80::1%eth0<0>"
    ),
    "NCCL_SOCKET_IFNAME set by environment to ^docker,lo": LoggedSetting(
        host="n1", name="NCCL_SOCKET_IFNAME", value="^docker,lo"
    ),
    "NCCL_P2P_DISABLE set by environment to 1.": LoggedSetting(
        host="n1", name="NCCL_P2P_DISABLE", value="1"
    ),
    "NCCL_IB_HCA set to =mlx5_0:1": LoggedSetting(host="n1", name="NCCL_IB_HCA", value="=mlx5_0:1"),
    "Using network AWS Libfabric": Network(host="n1", name="AWS Libfabric"),
    "NET/OFI Selected Provider is efa (found 4 nics)": OfiProvider(
        host="n1", provider="efa", nics=4
    ),
    "NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)": OfiProvider(
        host="n1", provider="efa", nics=16
    ),
    "NET/IB : Made virtual device [3] name=mlx5_0+mlx5_1 speed=400000 ndevs=2 rail=1"
    " plane=0": VirtualNic(
        host="n1", index=3, name="mlx5_0+mlx5_1", rate_bytes_per_s=50e9, devices=2
    ),
    "GPU Direct RDMA Enabled for GPU 81000 / HCA 1 (distance 6 <= 7), read 0": GpuDirect(
        host="n1", gpu="81000", nic="1", is_enabled=True, distance=6, limit=7
    ),
    "GPU Direct RDMA Disabled for GPU 3 / HCA 2 (distance 8 > 5)": GpuDirect(
        host="n1", gpu="3", nic="2", is_enabled=False, distance=8, limit=5
    ),
    "NET/gIB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'": GpuDirect(
        host="n1", gpu=None, nic="mlx5_0", is_enabled=True
    ),
    "Pattern 4, crossNic 0, nChannels 12, bw 30.000000/25.000000, type NVL/PIX,"
    " sameChannels 0": SearchedGraph(
        host="n1",
        pattern=4,
        cross_nic=0,
        channels=12,
        intra_bytes_per_s=30e9,
        inter_bytes_per_s=25e9,
        intra_type="NVL",
        inter_type="PIX",
    ),
    "16 coll channels, 8 nvls channels, 32 p2p channels, 4 p2p channels per peer": COUNTS,
    "16 coll channels, 16 collnet channels, 8 nvls channels, 32 p2p channels, 4 p2p channels per"
    " peer": COUNTS,
    "comm:0x2bc1f840, nRanks:2, nNodes:1, coll channels:16 collnet channels:2, nvls channels:8,"
    " p2p channels:32, p2p channels per peer:4": COUNTS,
    "comm 0x1d rank 5 nRanks 16 nNodes 2 localRanks 8 localRank 5 MNNVL 1": NodeShare(
        host="n1", ranks=16, nodes=2, local_ranks=8, is_mnnvl=True
    ),
    "AllReduce: 8388608 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..15}": Algorithm(
        collective="AllReduce", algorithm="NVLSTree", protocol="Simple"
    ),
    "1024 Bytes -> Algo 0 proto 1 time 12.500000": Algorithm(
        collective=None, algorithm="Tree", protocol="LL128"
    ),
    "P2P is disabled between connected GPUs 0 and 1. You can repress this message with"
    " NCCL_IGNORE_DISABLED_P2P=1.": P2pDisabled(host="n1", gpus=("0", "1")),
    "Could not enable P2P between dev 0(=19000) and dev 3(=5d000)": P2pDisabled(
        host="n1", gpus=("0", "3")
    ),
    "Channel 02/0 : 1[1] -> 4[0] [send] via NET/IB/3/GDRDMA/Shared": net("IB", 3, is_gdr=True),
    "Channel 02/0 : 1[1] -> 4[0] [receive] via NET/Libfabric/0": net("Libfabric", 0, is_send=False),
    "Channel 02/0 : 1[1] -> 4[0] [send] via NET/IB/3(7)/GDRDMA(PCI)": net("IB", 3, is_gdr=True),
    "Channel 02/0 : 1[c6000] -> 4[c1000] [send] via NET/Socket/1 comm 0x95cdeb0 nRanks 08": net(
        "Socket", 1
    ),
    "Channel 00/0 : 7[ce000] -> 5[c6000] via P2P/IPC comm 0xfb16e30 nRanks 08": local(7, 5, "IPC"),
    "Channel 00/1 : 0[0] -> 1[1] via P2P/indirect/2[2]": replace(
        local(0, 1, "indirect/2[2]"), is_point_to_point=True
    ),
    "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct": replace(
        local(0, 1, "direct/direct"), transport=Transport.SHM
    ),
    "Channel 01 : 1[14000] -> 2[48000] via direct shared memory": replace(
        local(1, 2, "direct shared memory"), transport=Transport.SHM
    ),
    "CollNet 00 : 11 [receive] via COLLNET/SHARP/0": replace(
        net("SHARP", 0, is_send=False), sender=11, receiver=None, transport=Transport.COLLNET
    ),
    "CollNet 00/0 : 6 [receive] via COLLNET/SHARP/2/GDRDMA": replace(
        net("SHARP", 2, is_send=False, is_gdr=True),
        sender=6,
        receiver=None,
        transport=Transport.COLLNET,
    ),
}
"""A line, and the fact that it states."""


@pytest.mark.parametrize("text", FACTS)
def test_a_line_gives_the_fact_that_it_states(text: str) -> None:
    """Each form of a line gives one fact, with the host that wrote it."""
    found = known(text)
    assert [seen.what for name in LISTS for seen in getattr(found, name)] == [FACTS[text]]


def test_channels_between_two_ranks_are_counted() -> None:
    """Lines that differ in their channel alone are one connection, with their number."""
    found = log(*(f"Channel {at:02d}/0 : 0[0] -> 1[1] via P2P/CUMEM/read" for at in range(16)))
    assert [(one.count, one.line_no) for one in found.connections] == [(16, 1)]


@pytest.mark.parametrize(
    ("text", "nics"),
    [
        (
            "NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_3:1/IB/SHARP [RO]; OOB ib0:10.1.1.1<0>",
            (LogNic(0, "mlx5_0", 1, "IB/SHARP"), LogNic(1, "mlx5_3", 1, "IB/SHARP")),
        ),
        (
            "NET/IB : Using [0]rocep1s0:1:0:1/RoCE [1]rocep2s0:1::/RoCE ; OOB eth0:10.1.1.1<0>",
            (LogNic(0, "rocep1s0", 1, "RoCE"), LogNic(1, "rocep2s0", 1, "RoCE")),
        ),
        (
            "NET/IB : Using [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [1]mlx5_2:1/IB [RO];"
            " OOB eth0:10.1.1.1<0>",
            (LogNic(0, "mlx5_0+mlx5_1", None, "IB"), LogNic(1, "mlx5_2", 1, "IB")),
        ),
        ("NET/IB : No device found.", ()),
    ],
)
def test_nics_are_listed(text: str, nics: tuple[LogNic, ...]) -> None:
    """The list of RDMA NICs has their names, ports and links; none where no device was found."""
    assert only(known(text).nic_lists) == NicList(host="n1", network="IB", nics=nics)


def test_interfaces_of_sockets_are_listed() -> None:
    """The list of a network of sockets has the interfaces by name."""
    found = known("NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:fe80::1<0>")
    nics = (LogNic(0, "eth0"), LogNic(1, "eth1"))
    assert only(found.nic_lists) == NicList(host="n1", network="Socket", nics=nics)


@pytest.mark.parametrize(
    ("text", "kind", "event", "name"),
    [
        ("Plugin name set by env to libnccl-net-x.so", "net", "asked", "libnccl-net-x.so"),
        ("NET/Plugin: Plugin name set by env to ofi", "net", "asked", "ofi"),
        ("NET/Plugin: Loaded net plugin IBext_v8 (v8)", "net", "loaded", "IBext_v8"),
        ("NET/Plugin: Loaded coll plugin SHARP (v5)", "collnet", "loaded", "SHARP"),
        ("TUNER/Plugin: Using nccl_ofi_tuner (v3)", "tuner", "loaded", "nccl_ofi_tuner"),
        ("TUNER/Plugin: Using tuner plugin x", "tuner", "loaded", "x"),
        ("TUNER/Plugin: Using internal tuner plugin.", "tuner", "internal", None),
        ("NET/Plugin: Could not find: libnccl-net.so. ", "net", "missing", "libnccl-net.so"),
        (
            "NET/Plugin: Could not find:x.so. Using internal network plugin.",
            "net",
            "missing",
            "x.so",
        ),
        ("NET/Plugin : No plugin found, using internal implementation", "net", "missing", None),
        ("NET/Plugin : Plugin load (x.so) returned 2 : no such file", "net", "missing", "x.so"),
        ("Successfully loaded external plugin libnccl-net.so", "net", "loaded", "libnccl-net.so"),
        ("Successfully loaded external network plugin x.so", "net", "loaded", "x.so"),
        ("External tuner plugin y.so is unsupported", "tuner", "failed", "y.so"),
        ("Failed to initialize NET plugin Libfabric", "net", "failed", "Libfabric"),
        ("NET/OFI Using aws-ofi-rccl 1.4.0", "net", "loaded", "aws-ofi-rccl 1.4.0"),
    ],
)
def test_what_became_of_a_plugin_is_told(text: str, kind: str, event: str, name: str) -> None:
    """A plugin was asked for, loaded, missing or failed, or NCCL's own is used."""
    expected = Plugin(host="n1", kind=kind, event=PluginEvent(event), name=name)
    assert only(known(text).plugins) == expected


@pytest.mark.parametrize(
    ("before", "after", "commid", "event"),
    [
        ("", "nvmlDev 7 busId f2000 commId 0x49 - ", "0x49", "Init START"),
        ("ncclCommInitRankConfig ", "busId f2000 commId 0x49 - ", "0x49", "Init COMPLETE"),
        ("ncclCommSplit ", "parent 0x44 splitCount 1 color -5 key 2- ", None, "Init START"),
        ("", "busId f2000 - ", None, "Abort COMPLETE"),
        ("ncclCommInitRankConfig_impl ", "busId 3000 commId 0x49 - ", "0x49", "Init START"),
        ("[Rank 2] ncclCommInitRank ", "nvmlDev 7 commId 0x49 - ", "0x49", "Init START"),
    ],
)
def test_a_communicator_is_told(before: str, after: str, commid: str | None, event: str) -> None:
    """A rank says its place in a communicator, and what became of that."""
    expected = Communicator(host="n1", commid=commid, rank=2, ranks=8, device=7, event=event)
    text = f"{before}comm 0x55 rank 2 nranks 8 cudaDev 7 {after}{event}"
    assert only(known(text).communicators) == expected


@pytest.mark.parametrize(
    ("line", "library", "version", "text"),
    [
        ("NCCL version 2.18.5+cuda12.2", "NCCL", "2.18.5", "2.18.5+cuda12.2"),
        (" 0: NCCL version 2.18.5+cuda12.2", "NCCL", "2.18.5", "2.18.5+cuda12.2"),
        (f"{PREFIX}NCCL version 2.27.7+cuda12.9", "NCCL", "2.27.7", "2.27.7+cuda12.9"),
        (f"{PREFIX}RCCL version : 2.27.7-HEAD:29e1567", "RCCL", "2.27.7", "2.27.7-HEAD:29e1567"),
        ("RCCL version 2.18.3+hip6.0 HEAD:9ec2f9d", "RCCL", "2.18.3", "2.18.3+hip6.0"),
    ],
)
def test_a_release_is_told(line: str, library: str, version: str, text: str) -> None:
    """Rank 0 prints its release without a prefix; each rank with one, since 2.19."""
    found = only(read(line).versions)
    assert (found.library, found.version, found.text) == (
        CommLibrary(library.lower()),
        NcclVersion.of(version),
        text,
    )


def test_a_warning_keeps_its_text() -> None:
    """A line of level WARN is kept whole, whatever stands between host and level."""
    line = "[2026-11-20 10:11:12] n1:1:2 [0] net_ib.cc:95 (ncclIbX) NCCL WARN Got async event"
    found = read(f"\n{line}\n")
    assert [(one.what.host, one.what.text, one.line_no) for one in found.warnings] == [
        ("n1", "Got async event", 2)
    ]


def test_an_error_that_nccl_gave_another_program_is_a_warning() -> None:
    """PyTorch's and nccl-tests' own lines about an error of NCCL's are kept."""
    found = read("n1: Test NCCL failure common.cu:958 'unhandled system error'")
    assert only(found.warnings).text == "Test NCCL failure common.cu:958 'unhandled system error'"


@pytest.mark.parametrize(
    ("before", "host", "processes"),
    [
        ("n1:11:12 [3] ", "n1", 1),
        ("0: n1:11:12 [3] ", "n1", 1),
        ("[1,0]<stdout>:n1:11:12 [3] ", "n1", 1),
        ("\x1b[36m(Worker pid=3590)\x1b[0m n1.site.org:11:12 [3] ", "n1.site.org", 1),
        ("50 %|####n1:11:12 [3] ", "n1", 1),
        ("2026-11-20T10:11:12Z n1:11:12 [-1] ", "n1", 1),
        ("node [0] ", "node", 1),
        ("", None, 0),
    ],
)
def test_the_host_is_found_behind_labels(before: str, host: str | None, processes: int) -> None:
    """Labels of srun and Open MPI, colours and times before a line are not its host."""
    found = read(f"{before}NCCL INFO Using network IB")
    assert only(found.networks).host == host
    assert found.processes == processes


def test_two_processes_in_one_line_are_two_lines() -> None:
    """Where a newline was lost, what stands before the second's host is the first's."""
    text = "b:3:4 [1] NCCL INFO cudaDriverVersion 12090\n"
    text += "a:1:2 [0] NCCL INFO Using network IB b:3:4 [1] NCCL INFO Using network X\n"
    found = read(text)
    assert [(one.what.host, one.what.name) for one in found.networks] == [("a", "IB"), ("b", "X")]


def test_a_line_in_a_new_form_is_kept() -> None:
    """What a newer NCCL says otherwise is counted, and kept with its line; new lines are not."""
    found = log("Using network IB", "Channel 0 -> 1", "Channel 0 -> 1", "Frobnicating 7 widgets")
    assert (found.lines, found.unread_lines) == (4, 2)
    assert found.unread == (Seen("Channel 0 -> 1", 2, 2),)


def test_the_log_of_two_nodes_is_whole() -> None:
    """Each line of the synthetic log of 2.27 that is read has its form."""
    found = read(record_text("nccl-log-2.27.7", "synthetic-two-nodes"))
    assert found.unread == ()
    assert (found.hosts, found.processes, found.nodes, found.ranks) == (
        ("gpu-01", "gpu-02"),
        4,
        2,
        4,
    )
    sends = [one for one in found.connections if one.what.is_send]
    assert {(one.what.nic, one.count, one.what.is_gdr) for one in sends} == {
        (0, 2, True),
        (1, 2, True),
    }


def test_the_log_of_rccl_is_whole() -> None:
    """RCCL's lines, and those of its release that have no prefix, leave nothing unknown."""
    found = read(record_text("rccl-log-2.27.7", "synthetic-cxi"))
    assert found.unread == ()
    assert only(found.versions).library is CommLibrary.RCCL
    assert only(found.providers).provider == "cxi"
    assert found.other_lines == 4
