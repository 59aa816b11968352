"""The rules about a run of NCCL: each fires on what it is about, and on nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hpckit.comm.run.nccl_tests import parse_nccl_run
from hpckit.comm.run.rules import RULES, shortfall_findings
from hpckit.comm.run.rules_result import ExpectedRun, GpuTransport
from hpckit.core.findings import Severity, SourcedFinding
from hpckit.spec.platform import NetPlugin
from tests.fakes.slurm_records import record_text

NO_EXPECTATION = ExpectedRun()
TWO_NODES = ExpectedRun(is_multi_node=True)
ONE_NODE = ExpectedRun(is_multi_node=False)
TWO_NICS = ExpectedRun(is_multi_node=True, nics=("mlx5_0", "mlx5_1"))
NVLINK = ExpectedRun(gpu_transport=GpuTransport.NVLINK)
PCIE = ExpectedRun(gpu_transport=GpuTransport.PCIE)

IB = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"
RING = (
    "Pattern 4, crossNic 0, nChannels {channels}, bw 20.000000/20.000000, type {types},"
    " sameChannels 1"
)
HEAD = (
    "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    "# Collective test starting: all_reduce_perf\n"
)
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth : 1\n"


def lines(*said: str, host: str = "n1", first: int = 1) -> str:
    """Lines of one process."""
    return "".join(f"{host}:{first}:2 [0] NCCL INFO {text}\n" for text in said)


def row(size: int, busbw: float, wrong: str = "0") -> str:
    """One row of a table: bus bandwidth in GB/s."""
    side = f"10.0 1.00 {busbw:.2f} {wrong}"
    return f"{size} {size // 4} float sum -1 {side} {side}\n"


def found(text: str, expected: ExpectedRun = NO_EXPECTATION) -> tuple[SourcedFinding, ...]:
    """What is odd about a run."""
    return shortfall_findings(parse_nccl_run(text), expected)


def rules(text: str, expected: ExpectedRun = NO_EXPECTATION) -> list[str]:
    """The names of the rules that fire."""
    return [one.rule for one in found(text, expected)]


def uses(channels: Sequence[int], *, ranks: int = 1) -> str:
    """A node of one rank that sends on so many channels by NIC."""
    said = [IB, "comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0"]
    said += [
        f"comm 0x1 rank {at} nranks 2 cudaDev 0 busId 7000 commId 0x1 - Init COMPLETE"
        for at in range(ranks)
    ]
    said += [
        f"Channel {at:02d}/0 : 0[0] -> 1[0] [send] via NET/IB/{nic}/GDRDMA"
        for nic, count in enumerate(channels)
        for at in range(count)
    ]
    return lines(*said)


SOCKET = lines("NET/Socket : Using [0]eth0:10.0.0.1<0>", "Using network Socket")
MADE = "NET/IB : Made virtual device [{}] name=mlx5_{} speed={} ndevs=1"
GDR = "GPU Direct RDMA {} for GPU {} / HCA {} (distance {} {} 5)"
SHM = "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct"
NO_NVLS = "NVLS multicast support is not available on dev 0"
COUNTS = "{} coll channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer"
WANTED = ExpectedRun(busbw=(("AllReduce", 100e9),))
OFI = ExpectedRun(plugin=NetPlugin.AWS_OFI)


def ring(types: str, channels: int = 2) -> str:
    """The line of what the search found for rings."""
    return RING.format(channels=channels, types=types)


def by_two(first: str, second: str) -> str:
    """A line of each of two hosts."""
    return lines(first) + lines(second, host="n2")


def table(*rows: str) -> str:
    """A whole table of AllReduce."""
    return HEAD + "".join(rows) + END


CASES: dict[str, tuple[str, str, ExpectedRun]] = {
    "wrong-results": (table(row(1024, 1, "3")), table(row(1024, 1, "N/A")), NO_EXPECTATION),
    "alone": (table(row(2**30, 0)), table(row(2**30, 1)), NO_EXPECTATION),
    "below-predicted": (table(row(2**33, 84)), table(row(2**33, 86)), WANTED),
    "provider-tcp": (
        lines("NET/OFI Selected Provider is tcp;ofi_rxm"),
        lines("NET/OFI Selected provider is efa, fabric is efa (found 32 nics)"),
        TWO_NODES,
    ),
    "plugin-not-loaded": (lines("Using network IB"), lines("Using network Libfabric"), OFI),
    "no-rdma-device": (
        lines("NET/IB : No device found."),
        lines("NET/IB : No device found.", "Using network Libfabric"),
        TWO_NICS,
    ),
    "nic-twice": (
        lines(IB.replace("mlx5_1", "mlx5_0")),
        lines(IB.replace("mlx5_1:1", "mlx5_0:2")),
        NO_EXPECTATION,
    ),
    "nic-slower": (
        lines(MADE.format(0, 0, 400000), MADE.format(1, 1, 200000)),
        lines(MADE.format(0, 0, 400000), MADE.format(1, 9, 100000)),
        TWO_NICS,
    ),
    "gpu-direct-off": (
        lines(GDR.format("Disabled", 0, 0, 8, ">"), GDR.format("Disabled", 0, 1, 9, ">")),
        lines(GDR.format("Enabled", 0, 0, 4, "<="), GDR.format("Disabled", 0, 1, 9, ">")),
        NO_EXPECTATION,
    ),
    "gpu-path-far": (lines(ring("PHB/PIX")), lines(ring("NVL/PIX")), NVLINK),
    "p2p-indirect": (
        lines("Channel 00/0 : 0[0] -> 1[1] via P2P/indirect/2[2]"),
        lines("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"),
        NO_EXPECTATION,
    ),
    "p2p-refused": (
        lines("Could not enable P2P between dev 0(=19000) and dev 1(=3b000)"),
        lines("Using network IB"),
        NO_EXPECTATION,
    ),
    "p2p-disabled": (
        lines("NCCL_P2P_LEVEL set by environment to LOC"),
        lines("NCCL_P2P_LEVEL set by environment to NVL"),
        NO_EXPECTATION,
    ),
    "nics-uneven": (uses((8, 2)), uses((4, 4)), NO_EXPECTATION),
    "channels-limited": (
        lines(ring("NVL/PIX", 16), COUNTS.format(4)),
        lines(ring("NVL/PIX", 4), COUNTS.format(8)),
        NO_EXPECTATION,
    ),
    "versions-differ": (
        by_two("NCCL version 2.27.7+cuda12.9", "NCCL version 2.26.2+cuda12.8"),
        by_two("NCCL version 2.27.7+cuda12.9", "NCCL version 2.27.7+cuda12.8"),
        NO_EXPECTATION,
    ),
    "warned": (
        "n1:1:2 [0] NCCL WARN Call to ibv_reg_mr failed\n",
        lines("cudaDriverVersion 12090"),
        NO_EXPECTATION,
    ),
    "bootstrap-differs": (
        by_two("Bootstrap : Using ib0:10.0.0.1<0>", "Bootstrap : Using eth0:10.0.0.2<0>"),
        by_two("Bootstrap : Using ib0:10.0.0.1<0>", "Bootstrap : Using ib0:10.0.0.2<0>"),
        NO_EXPECTATION,
    ),
    "unfinished": (HEAD + row(1024, 1), table(row(1024, 1)), NO_EXPECTATION),
    "algorithm-forced": (
        lines("NCCL_ALGO set by environment to Ring"),
        lines("NCCL_CROSS_NIC set by environment to 1."),
        NO_EXPECTATION,
    ),
    "still-rising": (
        table(row(1024, 1), row(2048, 1.5)),
        table(row(1024, 1), row(2048, 1.05)),
        NO_EXPECTATION,
    ),
}
"""A text in which a rule fires, one in which it does not, and what is expected of both."""

PLACES: dict[str, tuple[str, ExpectedRun, ExpectedRun]] = {
    "network-socket": (SOCKET, TWO_NICS, ONE_NODE),
    "ib-disabled": (lines("NCCL_IB_DISABLE set by environment to 1."), TWO_NODES, ONE_NODE),
    "nics-fewer": (lines(IB), ExpectedRun(nics=("mlx5_0", "mlx5_1", "mlx5_2")), TWO_NICS),
    "nics-unexpected": (lines(IB), ExpectedRun(nics=("mlx5_0",)), TWO_NICS),
    "shm-between-gpus": (lines(SHM), NVLINK, PCIE),
    "nic-path-far": (lines(ring("NVL/SYS")), TWO_NODES, ONE_NODE),
    "nvls-disabled": (lines("NCCL_NVLS_ENABLE set by environment to 0."), NVLINK, PCIE),
    "nvls-unavailable": (lines(NO_NVLS), ExpectedRun(has_nvls=True), NVLINK),
    "pxn-disabled": (lines("NCCL_PXN_DISABLE set by environment to 1."), TWO_NODES, ONE_NODE),
}
"""A text, an expectation with which a rule fires, and one with which it does not."""

FIRES = {name: (text, at) for name, (text, _, at) in CASES.items()}
FIRES |= {name: (text, at) for name, (text, at, _) in PLACES.items()}
SILENT = {name: (text, at) for name, (_, text, at) in CASES.items()}
SILENT |= {name: (text, at) for name, (text, _, at) in PLACES.items()}


@pytest.mark.parametrize("name", FIRES)
def test_a_rule_fires(name: str) -> None:
    """It names what it saw and in which line, what to do, and its source."""
    text, expected = FIRES[name]
    seen = [one for one in found(text, expected) if one.rule == name]
    assert seen
    assert all(one.because and one.remedy and one.source for one in seen)
    count = text.count("\n")
    assert all(one.line_no is not None and 1 <= one.line_no <= count for one in seen)


@pytest.mark.parametrize("name", FIRES)
def test_a_rule_does_not_fire(name: str) -> None:
    """What is by design, or not known, is no finding."""
    text, expected = SILENT[name]
    assert name not in rules(text, expected)


def test_every_rule_is_tested() -> None:
    """Each rule of the table has a case, and names of rules are unique."""
    names = [rule.name for rule in RULES]
    assert sorted(names) == sorted(FIRES)
    assert all(rule.because and rule.source and rule.date for rule in RULES)


def test_a_healthy_run_has_no_findings() -> None:
    """The synthetic log of two nodes is what it should be."""
    text = record_text("nccl-log-2.27.7", "synthetic-two-nodes")
    expected = ExpectedRun(
        nics=("mlx5_0", "mlx5_1"),
        plugin=NetPlugin.NONE,
        gpu_transport=GpuTransport.NVLINK,
        is_multi_node=True,
    )
    assert found(text, expected) == ()


SHARE = "comm 0x1 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 1"
OVER_NVLINK = "Channel 00/0 : 3[3] -> 4[0] via P2P/MNNVL"
OVER_NET = "Channel 00/0 : 4[0] -> 3[3] [receive] via NET/Socket/0"
TWO_CARDS = "NET/IB : Using [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [RO]; OOB eth0:10.0.0.1<0>"
TWO_PORTS = MADE.format(0, 0, 400000).replace("ndevs=1", "ndevs=2")
NO_VERBS = "NCCL_IB_DISABLE set by environment to 1."
ASKED = "NCCL_NET_PLUGIN set by environment to ofi"
LOOKED_FOR = "NET/Plugin: Could not find: libnccl-net.so. "
DMA = lines(IB.replace("mlx5_0", "mlx5_0_dma").replace("mlx5_1", "mlx5_1_dma"))
BY_OFI = replace(TWO_NODES, plugin=NetPlugin.AWS_OFI)
OWN = ExpectedRun(plugin=NetPlugin.NONE)
JSON = record_text("nccl-tests-2.19.6", "synthetic-json")
TOLD: dict[str, tuple[str, ExpectedRun, list[str]]] = {
    "a NIC of two cards counts as both": (lines(TWO_CARDS), TWO_NICS, []),
    "a NIC of two ports has the rate of one": (
        lines(TWO_PORTS, MADE.format(1, 1, 200000)),
        TWO_NICS,
        [],
    ),
    "a NIC with Data Direct is the kernel's": (DMA, TWO_NICS, []),
    "and has its rate": (
        lines(MADE.format(0, "0_dma", 400000), MADE.format(1, "1_dma", 200000)),
        TWO_NICS,
        ["nic-slower"],
    ),
    "a NIC without a channel": (lines(IB, COUNTS.format(1)), TWO_NODES, ["channels-limited"]),
    "on one node no channel needs one": (lines(IB, COUNTS.format(1)), ONE_NODE, []),
    "a small communicator is not held against a large one's search": (
        lines(ring("NVL/PIX", 16), COUNTS.format(16), COUNTS.format(2)),
        NO_EXPECTATION,
        [],
    ),
    "nodes that NVLink joins need no network": (
        SOCKET + lines(SHARE, OVER_NVLINK),
        NO_EXPECTATION,
        [],
    ),
    "unless a connection goes over it": (
        SOCKET + lines(SHARE, OVER_NVLINK, OVER_NET),
        NO_EXPECTATION,
        ["network-socket"],
    ),
    "a plugin that is asked for and used": (
        lines(ASKED, "Using network Libfabric"),
        NO_EXPECTATION,
        [],
    ),
    "one that nobody asked for": (lines(LOOKED_FOR, "Using network IB"), NO_EXPECTATION, []),
    "or wants": (lines(LOOKED_FOR, "Using network IB"), OWN, []),
    "settings in JSON count": (JSON, NO_EXPECTATION, ["wrong-results", "algorithm-forced"]),
    "GPU Direct that a variable forbids": (
        lines("NCCL_NET_GDR_LEVEL set by environment to LOC"),
        TWO_NODES,
        ["gpu-direct-off"],
    ),
    "or allows": (lines("NCCL_NET_GDR_LEVEL set by environment to PHB"), TWO_NODES, []),
    "verbs that are off": (lines(NO_VERBS), replace(OWN, is_multi_node=True), ["ib-disabled"]),
    "verbs that a plugin replaces": (lines(NO_VERBS), BY_OFI, []),
    "as the log says": (lines(NO_VERBS, "Using network AWS Libfabric"), TWO_NODES, []),
    "verbs that are off where the plugin was not loaded": (
        lines(NO_VERBS, "Using network Socket"),
        BY_OFI,
        ["network-socket", "ib-disabled", "plugin-not-loaded"],
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_what_is_told_of_a_run(case: str) -> None:
    """These rules find something, and no other."""
    text, expected, names = TOLD[case]
    assert rules(text, expected) == names


EIGHT_NICS = ExpectedRun(is_multi_node=False, nic_count=8)
GRAVITY: dict[str, tuple[str, ExpectedRun, str, Severity]] = {
    "without P2P shared memory is by design": (
        lines(SHM),
        NO_EXPECTATION,
        "shm-between-gpus",
        Severity.NOTE,
    ),
    "not beside NVLS, which shows NVLink": (
        lines(SHM, "NVLS multicast support is available on dev 0"),
        NO_EXPECTATION,
        "shm-between-gpus",
        Severity.WARNING,
    ),
    "a NIC across one CPU": (lines(ring("NVL/PHB")), TWO_NODES, "nic-path-far", Severity.NOTE),
    "across two": (lines(ring("NVL/SYS")), TWO_NODES, "nic-path-far", Severity.WARNING),
    "LL has half the bandwidth": (
        lines("NCCL_PROTO set by environment to LL"),
        NO_EXPECTATION,
        "algorithm-forced",
        Severity.WARNING,
    ),
    "Simple may be the best": (
        lines("NCCL_PROTO set by environment to Simple"),
        NO_EXPECTATION,
        "algorithm-forced",
        Severity.NOTE,
    ),
    "a slower NIC may be one for storage": (
        lines(MADE.format(0, 0, 400000), MADE.format(1, 1, 100000)),
        NO_EXPECTATION,
        "nic-slower",
        Severity.NOTE,
    ),
    "no traffic passes NICs on one node": (lines(IB), EIGHT_NICS, "nics-fewer", Severity.NOTE),
    "on several it does": (
        lines(IB),
        replace(EIGHT_NICS, is_multi_node=True),
        "nics-fewer",
        Severity.WARNING,
    ),
}


@pytest.mark.parametrize("case", GRAVITY)
def test_how_grave_it_is_depends_on_what_is_known(case: str) -> None:
    """What is by design on some machines is a note where nobody knows better."""
    text, expected, rule, severity = GRAVITY[case]
    (one,) = found(text, expected)
    assert (one.rule, one.severity) == (rule, severity)


def test_findings_come_with_the_gravest_first() -> None:
    """Errors before warnings before notes."""
    text = record_text("nccl-log-2.18.5", "synthetic-sockets")
    ranks = [one.severity.rank for one in found(text)]
    assert ranks == sorted(ranks, reverse=True)
    assert [one.rule for one in found(text)] == [
        "ib-disabled",
        "network-socket",
        "p2p-disabled",
        "warned",
        "bootstrap-differs",
    ]


def test_sockets_are_an_error_only_where_there_is_something_better() -> None:
    """Where nobody knows of RDMA NICs it is a warning; a node known to have none is by design."""
    (one,) = found(SOCKET, TWO_NODES)
    assert one.severity is Severity.WARNING
    (one,) = found(SOCKET, TWO_NICS)
    assert one.severity is Severity.ERROR
    assert one.because == ("NCCL used network Socket over eth0; the node has 2 NICs for it")
    assert found(SOCKET, ExpectedRun(is_multi_node=True, nics=())) == ()


def test_whether_there_are_several_nodes_is_told_by_the_log() -> None:
    """By NCCL's count of nodes, by hosts where all ranks wrote, by connections over a network."""
    comm = "comm 0x1 rank 0 nranks {} cudaDev 0 busId 7000 commId 0x1 - Init COMPLETE"
    share = "comm 0x1 rank 0 nRanks 16 nNodes {} localRanks 8 localRank 0 MNNVL 0"
    socket = "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0"
    for said, fires in (
        (share.format(2), True),
        (share.format(1), False),
        (comm.format(1), False),
        (comm.format(8), False),
        (socket, True),
    ):
        assert ("network-socket" in rules(SOCKET + lines(said))) is fires, said


def test_a_host_with_fewer_nics_than_others_is_named() -> None:
    """Without an expectation the hosts are held against each other."""
    text = lines(IB) + lines(IB.replace(" [1]mlx5_1:1/IB", ""), host="n2")
    (one,) = found(text)
    assert (one.rule, one.line_no) == ("nics-fewer", 2)
    assert one.because == "NCCL uses 1 NIC on n2, 2 on other nodes"


@pytest.mark.parametrize(
    ("said", "fires"),
    [
        ("Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0", True),
        ("Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA", False),
        ("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0", False),
        ("Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0", False),
        ("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", True),
        ("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", False),
    ],
)
def test_data_through_host_memory_is_found_where_it_is_no_design(said: str, fires: bool) -> None:
    """A connection that receives without GPU Direct, or a NIC without; sends may lack it."""
    assert ("gpu-direct-off" in rules(lines(said))) is fires


def test_sockets_are_not_blamed_for_having_no_gpu_direct() -> None:
    """NCCL prints the interfaces of sockets as NICs without GPU Direct RDMA."""
    said = "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'"
    assert "gpu-direct-off" not in rules(SOCKET + lines(said), TWO_NODES)


def test_a_log_of_some_ranks_says_nothing_of_uneven_nics() -> None:
    """Other ranks of the node may use the other NICs."""
    text = uses((8, 0)).replace("localRanks 1", "localRanks 8")
    assert "nics-uneven" not in rules(text)


def test_connections_of_nics_that_are_not_listed_say_nothing_of_uneven_nics() -> None:
    """Where NICs were made one of, connections count otherwise than the list."""
    text = uses((8, 2)).replace("NET/IB/0", "NET/IB/7")
    assert "nics-uneven" not in rules(text)


def test_sends_of_the_program_may_be_uneven() -> None:
    """Connections for sends and receives are where the program wants them."""
    assert "nics-uneven" not in rules(uses((8, 2)).replace("/0 : 0[0]", "/1 : 0[0]"))


def test_virtual_nics_are_counted_by_name() -> None:
    """A second list of the same NICs goes on counting, and is no other NIC."""
    made = [
        f"NET/IB : Made virtual device [{at}] name=mlx5_{at % 2} speed=400000 ndevs=1"
        for at in range(4)
    ]
    assert "nics-uneven" not in rules(lines(*made) + uses((2, 2, 2, 2)))
    assert "nics-uneven" in rules(lines(*made) + uses((4, 1, 4, 1)))


def test_a_plugin_that_a_variable_asks_for_is_missed() -> None:
    """NCCL_NET_PLUGIN names one, and NCCL fell back on its own network."""
    text = lines(
        "NCCL_NET_PLUGIN set by environment to ofi",
        "NET/Plugin: Could not find: libnccl-net-ofi.so. ",
        "Using network Socket",
    )
    (one,) = (one for one in found(text) if one.rule == "plugin-not-loaded")
    assert one.because == (
        "NCCL_NET_PLUGIN asks for ofi, and NCCL used its own network Socket; line 2:"
        " libnccl-net-ofi.so not found"
    )


def test_the_release_of_the_fewest_processes_is_the_other_one() -> None:
    """Three ranks against one: that one's host is named."""
    text = lines("NCCL version 2.26.2+cuda12.8", host="n9")
    text += 3 * lines("NCCL version 2.27.7+cuda12.9")
    (one,) = found(text)
    assert (one.because, one.line_no) == ("NCCL 2.26.2 on n9, NCCL 2.27.7 elsewhere", 1)


def test_hosts_are_named_where_not_all_are_concerned() -> None:
    """A variable that one node of two has is that node's."""
    text = lines("Using network IB") + lines("NCCL_P2P_DISABLE set by environment to 1.", host="n2")
    (one,) = found(text)
    assert one.because == "NCCL_P2P_DISABLE=1 is set on n2"


def test_many_warnings_are_told_shortly() -> None:
    """The first five texts, then how many more."""
    text = "".join(f"n1:1:2 [0] NCCL WARN bad thing {at}\n" for at in range(9))
    because = [one.because for one in found(text)]
    assert because == [*(f"bad thing {at}" for at in range(5)), "4 more warnings"]


def test_out_of_bounds_values_are_wrong_results() -> None:
    """The summary counts them even where the rows do not."""
    text = HEAD + row(1024, 1) + END.replace(": 0 OK", ": 7 FAILED")
    assert [one.because for one in found(text)] == ["AllReduce: 7 values out of bounds"]


def test_nics_of_a_site_are_counted_where_their_names_are_not_known() -> None:
    """NCCL_IB_HCA of one NIC on every node makes all hosts alike."""
    expected = ExpectedRun(is_multi_node=True, nic_count=8)
    (one,) = found(lines(IB), expected)
    assert (one.rule, one.because) == ("nics-fewer", "NCCL uses 2 NICs of a node that has 8")
    assert found(lines(IB), replace(expected, nic_count=2)) == ()
    assert found(lines("Using network IB"), expected) == ()


def test_a_slower_nic_is_named_with_its_host() -> None:
    """A port that came up at half the rate on one node of two."""
    text = lines(MADE.format(0, 0, 400000), MADE.format(1, 1, 400000))
    text += lines(MADE.format(0, 0, 400000), MADE.format(1, 1, 200000), host="n2")
    (one,) = found(text, TWO_NICS)
    assert one.because == "mlx5_1 on n2 at 200 Gb/s, others at 400 Gb/s"


PREDICTED = ExpectedRun(busbw=(("AllReduce", 720e9), ("AllToAll", 62e9)), bounds=("AllToAll",))


def below(text: str) -> tuple[Severity, str]:
    """How grave it is that a run is below what was predicted, and its words."""
    (one,) = (each for each in found(text, PREDICTED) if each.rule == "below-predicted")
    return one.severity, one.because


@pytest.mark.parametrize(("size", "busbw"), [(2**26, 400.6), (2**28, 600.0)])
def test_small_messages_are_no_reproach(size: int, busbw: float) -> None:
    """To 128 MiB, as the README of nccl-tests runs, 8 B200 are healthy at half of their plateau."""
    severity, because = below(table(row(size, busbw)))
    assert severity is Severity.NOTE
    assert "is small" in because


def test_a_figure_that_still_rises_is_no_reproach() -> None:
    """On many nodes the plateau begins later."""
    severity, because = below(HEAD + row(2**30, 200) + row(2**31, 300) + END)
    assert severity is Severity.NOTE
    assert "larger messages may reach more" in because


def test_large_messages_are_one() -> None:
    """From 1 GiB on it is a warning."""
    assert below(HEAD + row(2**29, 395) + row(2**30, 400) + END)[0] is Severity.WARNING


def test_all_to_all_is_held_against_no_model() -> None:
    """DGX H100 are published at 77 % of what their NICs allow on 4 nodes."""
    text = HEAD.replace("all_reduce", "alltoall") + row(2**33, 48) + END
    severity, because = below(text)
    assert severity is Severity.NOTE
    assert "no model says how much of it is reached" in because


def test_ranks_that_each_ran_alone_are_told() -> None:
    """Without MPI every process prints a table of its own, whose bus bandwidth is 0."""
    rank = "#  Rank  0 Group  0 Pid   410{} on     n1 device  {} [0000:19:00] NVIDIA H100\n"
    ranks = "".join(rank.format(at, at) for at in range(8))
    (one,) = found(ranks + HEAD + 8 * row(2**33, 0) + END)
    assert (one.rule, one.severity) == ("alone", Severity.ERROR)
    assert one.because == "AllReduce: 8 ranks ran, each alone"
