"""The rules about a run of NCCL: each fires on what it is about, and on nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hpckit.comm.run.nccl_tests import parse_nccl_run
from hpckit.comm.run.rules import RULES, shortfall_findings
from hpckit.comm.run.rules_result import ExpectedRun
from hpckit.core.findings import Severity, SourcedFinding
from hpckit.spec.platform import NetPlugin
from tests.fakes.slurm_records import record_text

NO_EXPECTATION = ExpectedRun()
TWO_NODES = ExpectedRun(is_multi_node=True)
ONE_NODE = ExpectedRun(is_multi_node=False)
TWO_NICS = ExpectedRun(is_multi_node=True, nics=("mlx5_0", "mlx5_1"))
NVLINK = ExpectedRun(has_nvlink=True)
PCIE = ExpectedRun(has_nvlink=False)

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
    """What is odd about a run, or about one line that a process said."""
    return shortfall_findings(parse_nccl_run(text if "\n" in text else lines(text)), expected)


def env(name: str, value: str) -> str:
    """The line in which NCCL names a variable."""
    return f"{name} set by environment to {value}."


def rules(text: str, expected: ExpectedRun = NO_EXPECTATION) -> list[str]:
    """The names of the rules that fire."""
    return [one.rule for one in found(text, expected)]


def uses(channels: Sequence[int], *, ranks: int = 1, listed: str = IB) -> str:
    """A node of one rank that sends on so many channels by NIC."""
    said = [listed, "comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0"]
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


RECEIVED = "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/{}"
SOCKET = lines("NET/Socket : Using [0]eth0:10.0.0.1<0>", "Using network Socket")
MADE = "NET/IB : Made virtual device [{}] name=mlx5_{} speed={} ndevs=1"
GDR = "GPU Direct RDMA {} for GPU {} / HCA {} (distance {} {} 5)"
EFA = "NET/OFI Selected provider is efa, fabric is efa (found 1 nics)"
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
        "NET/OFI Selected Provider is tcp;ofi_rxm",
        "NET/OFI Selected provider is efa, fabric is efa (found 32 nics)",
        TWO_NODES,
    ),
    "plugin-not-loaded": ("Using network IB", "Using network Libfabric", OFI),
    "no-rdma-device": (
        "NET/IB : No device found.",
        lines("NET/IB : No device found.", "Using network Libfabric"),
        TWO_NICS,
    ),
    "nic-twice": (
        IB.replace("mlx5_1", "mlx5_0"),
        IB.replace("mlx5_1:1", "mlx5_0:2"),
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
    "gpu-path-far": (ring("PHB/PIX"), ring("NVL/PIX"), NVLINK),
    "p2p-indirect": (
        "Channel 00/0 : 0[0] -> 1[1] via P2P/indirect/2[2]",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
        NO_EXPECTATION,
    ),
    "p2p-refused": (
        "Could not enable P2P between dev 0(=19000) and dev 1(=3b000)",
        "Using network IB",
        NO_EXPECTATION,
    ),
    "p2p-disabled": (env("NCCL_P2P_LEVEL", "LOC"), env("NCCL_P2P_LEVEL", "NVL"), NO_EXPECTATION),
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
        "cudaDriverVersion 12090",
        NO_EXPECTATION,
    ),
    "bootstrap-differs": (
        by_two("Bootstrap : Using ib0:10.0.0.1<0>", "Bootstrap : Using eth0:10.1.0.2<0>"),
        by_two("Bootstrap : Using eno1:10.0.0.1<0>", "Bootstrap : Using eno2:10.0.0.2<0>"),
        NO_EXPECTATION,
    ),
    "unfinished": (HEAD + row(1024, 1), table(row(1024, 1)), NO_EXPECTATION),
    "algorithm-forced": (env("NCCL_ALGO", "Ring"), env("NCCL_CROSS_NIC", "1"), NO_EXPECTATION),
    "still-rising": (
        table(row(1024, 1), row(2048, 1.5)),
        table(row(1024, 1), row(2048, 1.05)),
        NO_EXPECTATION,
    ),
}
"""A text in which a rule fires, one in which it does not, and what is expected of both."""

PLACES: dict[str, tuple[str, ExpectedRun, ExpectedRun]] = {
    "network-socket": (SOCKET, TWO_NICS, ONE_NODE),
    "ib-disabled": (env("NCCL_IB_DISABLE", "1"), TWO_NODES, ONE_NODE),
    "nics-fewer": (IB, ExpectedRun(nics=("mlx5_0", "mlx5_1", "mlx5_2")), TWO_NICS),
    "nics-unexpected": (IB, ExpectedRun(nics=("mlx5_0",)), TWO_NICS),
    "shm-between-gpus": (SHM, NVLINK, PCIE),
    "nic-path-far": (ring("NVL/SYS"), TWO_NODES, ONE_NODE),
    "nvls-disabled": (env("NCCL_NVLS_ENABLE", "0"), NVLINK, PCIE),
    "nvls-unavailable": (NO_NVLS, ExpectedRun(has_nvls=True), NVLINK),
    "pxn-disabled": (env("NCCL_PXN_DISABLE", "1"), TWO_NODES, ONE_NODE),
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
    count = max(1, text.count("\n"))
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
        has_nvlink=True,
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
JSON = record_text("nccl-tests-2.19.6", "synthetic-json") + "\n"
TOLD: dict[str, tuple[str, ExpectedRun, list[str]]] = {
    "a NIC of two cards counts as both": (TWO_CARDS, TWO_NICS, []),
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
        env("NCCL_NET_GDR_LEVEL", "LOC"),
        TWO_NODES,
        ["gpu-direct-off"],
    ),
    "or allows": (env("NCCL_NET_GDR_LEVEL", "PHB"), TWO_NODES, []),
    "verbs that are off": (NO_VERBS, replace(OWN, is_multi_node=True), ["ib-disabled"]),
    "verbs that a plugin replaces": (NO_VERBS, BY_OFI, []),
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
        SHM,
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
    "a NIC across one CPU": (ring("NVL/PHB"), TWO_NODES, "nic-path-far", Severity.NOTE),
    "across two": (ring("NVL/SYS"), TWO_NODES, "nic-path-far", Severity.WARNING),
    "LL has half the bandwidth": (
        env("NCCL_PROTO", "LL"),
        NO_EXPECTATION,
        "algorithm-forced",
        Severity.WARNING,
    ),
    "Simple may be the best": (
        env("NCCL_PROTO", "Simple"),
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
    "sockets where nobody knows of NICs": (SOCKET, TWO_NODES, "network-socket", Severity.WARNING),
    "some channels have GPU Direct": (
        lines(RECEIVED.format("IB/0"), RECEIVED.format("IB/1/GDRDMA")),
        NO_EXPECTATION,
        "gpu-direct-off",
        Severity.NOTE,
    ),
    "ranks that ended": (
        "n1:1:2 [0] NCCL WARN [Proxy Service 3] Failed to execute operation Close from rank 3\n",
        NO_EXPECTATION,
        "warned",
        Severity.NOTE,
    ),
    "sockets beside NICs": (SOCKET, TWO_NICS, "network-socket", Severity.ERROR),
    "no traffic passes NICs on one node": (IB, EIGHT_NICS, "nics-fewer", Severity.NOTE),
    "on several it does": (
        IB,
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


OF_NIC = "NET/IB : GPU Direct RDMA {} for HCA 0 'mlx5_0'"
WROTE = "comm 0x1 rank 0 nranks {} cudaDev 0 busId 7000 commId 0x1 - Init COMPLETE"
COUNTED = "comm 0x1 rank 0 nRanks 16 nNodes {} localRanks 8 localRank 0 MNNVL 0"
MIXED = "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [2]mlx5_2:1/IB/SHARP [RO]; OOB eth0:1<0>"
LISTED = [MADE.format(at, at % 2, 400000) for at in range(4)]
CASE_OF: dict[str, tuple[str, str, ExpectedRun, bool]] = {
    "GPU Direct off": ("gpu-direct-off", lines(OF_NIC.format("Disabled")), NO_EXPECTATION, True),
    "on": ("gpu-direct-off", lines(OF_NIC.format("Enabled")), NO_EXPECTATION, False),
    "receives without": ("gpu-direct-off", lines(RECEIVED.format("IB/0")), NO_EXPECTATION, True),
    "with": ("gpu-direct-off", lines(RECEIVED.format("IB/0/GDRDMA")), NO_EXPECTATION, False),
    "sockets have none": (
        "gpu-direct-off", lines(RECEIVED.format("Socket/0")), NO_EXPECTATION, False,
    ),
    "sends may lack it": (
        "gpu-direct-off", lines("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0"), NO_EXPECTATION,
        False,
    ),
    "interfaces are no HCAs": (
        "gpu-direct-off",
        SOCKET + lines("NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'"), TWO_NODES, False,
    ),
    "NCCL counts two nodes": (
        "network-socket", SOCKET + lines(COUNTED.format(2)), NO_EXPECTATION, True,
    ),
    "or one": ("network-socket", SOCKET + lines(COUNTED.format(1)), NO_EXPECTATION, False),
    "all ranks wrote": ("network-socket", SOCKET + lines(WROTE.format(1)), NO_EXPECTATION, False),
    "one of eight did": ("network-socket", SOCKET + lines(WROTE.format(8)), NO_EXPECTATION, False),
    "a connection goes over it": (
        "network-socket", SOCKET + lines(RECEIVED.format("Socket/0")), NO_EXPECTATION, True,
    ),
    "some ranks say nothing of all NICs": (
        "nics-uneven", uses((8, 0)).replace("localRanks 1", "localRanks 8"), NO_EXPECTATION, False,
    ),
    "nor NICs that are not listed": (
        "nics-uneven", uses((8, 2)).replace("NET/IB/0", "NET/IB/7"), NO_EXPECTATION, False,
    ),
    "sends of the program may be uneven": (
        "nics-uneven", uses((8, 2)).replace("/0 : 0[0]", "/1 : 0[0]"), NO_EXPECTATION, False,
    ),
    "InfiniBand NICs of storage beside RoCE": (
        "nics-uneven",
        uses((4, 4, 0), ranks=4, listed=MIXED).replace("localRanks 1", "localRanks 4"),
        NO_EXPECTATION, False,
    ),
    "RoCE NICs of which one is idle": (
        "nics-uneven",
        uses((4, 0, 0), ranks=4, listed=MIXED).replace("localRanks 1", "localRanks 4"),
        NO_EXPECTATION, True,
    ),
    "a NIC more than ranks": ("nics-uneven", uses((4, 0)), NO_EXPECTATION, False),
    "a NIC that lacks a feature is no warning": (
        "warned", lines("Call to mlx5dv_get_data_direct_sysfs_path failed with error No such device"
                        " errno 19"), NO_EXPECTATION, False,
    ),
    "what the plugin set is not forced": (
        "algorithm-forced",
        lines("NET/OFI Adding NCCL_PROTO=simple to environment", env("NCCL_PROTO", "simple")),
        NO_EXPECTATION, False,
    ),
    "but what differs from it is": (
        "algorithm-forced",
        lines("NET/OFI Adding NCCL_PROTO=simple to environment", env("NCCL_PROTO", "LL")),
        NO_EXPECTATION, True,
    ),
    "nor as older plugins say it": (
        "algorithm-forced",
        lines('NET/OFI Setting NCCL_PROTO to "simple"', env("NCCL_PROTO", "simple")),
        NO_EXPECTATION, False,
    ),
    "nor as those between them": (
        "algorithm-forced",
        lines("NET/OFI Setting NCCL_PROTO='simple' to prevent data corruption (reason: byte"
              " delivery ordering not supported)", env("NCCL_PROTO", "simple")),
        NO_EXPECTATION, False,
    ),
    "nor where it says why": (
        "algorithm-forced",
        lines("NET/OFI Need to force simple protocol: byte delivery ordering not supported",
              env("NCCL_PROTO", "simple")),
        NO_EXPECTATION, False,
    ),
    "nor NVLS that it turned off": (
        "nvls-disabled",
        lines("NET/OFI Disabling NVLS support due to NCCL version 21803",
              env("NCCL_NVLS_ENABLE", "0")),
        NO_EXPECTATION, False,
    ),
    "nor as the first did": (
        "nvls-disabled",
        lines("NET/OFI Disabling NVLS support when using Libfabric on AWS.",
              env("NCCL_NVLS_ENABLE", "0")),
        NO_EXPECTATION, False,
    ),
    "nor in other letters": (
        "algorithm-forced",
        lines("NET/OFI Adding NCCL_PROTO=simple to environment", env("NCCL_PROTO", "Simple")),
        NO_EXPECTATION, False,
    ),
    "a refused connection is one": (
        "warned", lines("Call to connect returned Connection refused, retrying"), NO_EXPECTATION,
        True,
    ),
    "virtual NICs by name": (
        "nics-uneven", lines(*LISTED) + uses((2, 2, 2, 2)), NO_EXPECTATION, False,
    ),
    "uneven": ("nics-uneven", lines(*LISTED) + uses((4, 1, 4, 1)), NO_EXPECTATION, True),
}  # fmt: skip


@pytest.mark.parametrize("case", CASE_OF)
def test_what_makes_a_rule_fire(case: str) -> None:
    """What is no design is found, and what shows too little says nothing."""
    rule, text, expected, fires = CASE_OF[case]
    assert (rule in rules(text, expected)) is fires


ALL_GPUS = "use --gpus-per-node, not --gpus-per-task: each rank must see all GPUs of its node"
FIXES: dict[str, tuple[str, str]] = {
    "what is set": (lines(env("NCCL_CROSS_NIC", "0")) + uses((8, 2)),
                    "unset NCCL_CROSS_NIC; only a job on all GPUs uses all NICs"),
    "nothing is": (uses((8, 2)), "only a job on all GPUs uses all NICs"),
    "one of two": (lines(env("NCCL_PROTO", "Simple")), "unset NCCL_PROTO, and compare"),
    "Omni-Path": (lines(IB.replace("mlx5", "hfi1"), RECEIVED.format("IB/0")),
                  "load a plugin: aws-ofi-nccl over libfabric's psm2 or opx has GPU Direct;"
                  " Omni-Path's verbs do not"),
    "EFA": (lines(EFA, RECEIVED.format("Libfabric/0")),
            "nothing to fix on instances without GPU Direct RDMA, such as G5; on others update"
            " EFA's installer; before libfabric 1.18 set FI_EFA_USE_DEVICE_RDMA=1"),
    "P2P limited": (lines(env("NCCL_P2P_LEVEL", "PIX"), SHM), "unset NCCL_P2P_LEVEL, and compare"),
    "P2P nearer than PCIe": (lines(ring("NVL/PIX"), env("NCCL_P2P_LEVEL", "PIX"), SHM),
                             ALL_GPUS),
    "P2P widened": (lines(env("NCCL_P2P_LEVEL", "SYS"), SHM), ALL_GPUS),
    "P2P elsewhere": (lines(SHM, "Channel 00 : 1[1] -> 2[2] via P2P/IPC"),
                      "nothing to fix where a CPU is between them; else each rank must see all GPUs"
                      " of its node: --gpus-per-node, not --gpus-per-task"),
    "AMD": ("RCCL version 2.22.3-HEAD:271856d\n" + lines(OF_NIC.format("Disabled")),
            "NCCL_DMABUF_ENABLE=1 (Linux 5.12), or admins: load ib_peer_mem"),
}  # fmt: skip


@pytest.mark.parametrize("case", FIXES)
def test_the_fix_is_for_this_run(case: str) -> None:
    """It unsets what the log shows as set, and loads what the GPUs' maker has."""
    text, fix = FIXES[case]
    (one,) = found(text)
    assert one.remedy == fix


def test_what_an_instance_does_not_have_is_a_note() -> None:
    """EFA without GPU Direct RDMA is told, and nobody is accused."""
    said = (EFA, OF_NIC.format("Disabled"), RECEIVED.format("Libfabric/0"))
    severities = [one.severity for one in found(lines(*said)) if one.rule == "gpu-direct-off"]
    assert severities == [Severity.NOTE, Severity.NOTE]


def test_attempts_to_connect_are_one_note() -> None:
    """A listener may come later; where none comes, NCCL warns after the last attempt."""
    refused = "socketPollConnect: connect returned Connection refused"
    tries = [f"{refused}, retrying ({n}/34) after sleep for {n}00 msec" for n in range(1, 5)]
    gone = f"{refused}, exceeded error retry count (35)"
    cut = refused[:-15]  # another rank wrote into the line
    told = [(one.severity, one.because) for one in found(lines(*tries, cut, gone))]
    assert told == [
        (Severity.WARNING, gone),
        (Severity.NOTE, f"{refused}, retrying (4 times)"),
        (Severity.NOTE, cut),
    ]


def test_the_words_below_last_error_are_told() -> None:
    """PyTorch prints NCCL's own words a line below, and other ranks write in between."""
    cause = "NET/IB : Requested properties for vNic 8, only 8 vNics have been created"
    text = (
        f"7: Last error:\n3: Last error:\n1: step 5\n7: {cause}\n3: Exception raised from create\n"
    )
    (one,) = found(lines("Using network IB") + text)
    assert (one.rule, one.because, one.line_no) == ("warned", cause, 5)


def test_a_torn_line_makes_no_node() -> None:
    """Ranks that write into one file tear each other's names; the communicator counts the nodes."""
    text = (
        uses((2, 2)) + lines("Using network IB", host="sn1") + lines("Using network IB", host="8")
    )
    log = parse_nccl_run(text).log
    assert log is not None
    assert log.nodes == 2


FEWER = ExpectedRun(is_multi_node=True, nic_count=8)
RANKS = "".join(
    f"#  Rank  0 Group  0 Pid   410{at} on     n1 device  {at} [0000:19:00] NVIDIA H100\n"
    for at in range(8)
)
SAID: dict[str, tuple[str, ExpectedRun, list[str]]] = {
    "sockets": (
        SOCKET, TWO_NICS, ["NCCL used network Socket over eth0; the node has 2 NICs for jobs"],
    ),
    "a node without NICs": (SOCKET, ExpectedRun(is_multi_node=True, nics=()), []),
    "hosts against each other": (
        lines(IB) + lines(IB.replace(" [1]mlx5_1:1/IB", ""), host="n2"), NO_EXPECTATION,
        ["NCCL uses 1 NIC on n2, 2 on other nodes"],
    ),
    "a site's NICs are counted": (lines(IB), FEWER, ["NCCL uses 2 NICs, but the node has 8"]),
    "where there are as many": (lines(IB), replace(FEWER, nic_count=2), []),
    "or none is listed": (lines("Using network IB"), FEWER, []),
    "a plugin that a variable asks for": (
        lines(ASKED, LOOKED_FOR, "Using network Socket"), NO_EXPECTATION,
        ["NCCL_NET_PLUGIN asks for ofi, but NCCL used its own network Socket; line 2:"
         " libnccl-net.so not found"],
    ),
    "the fewest have the other release": (
        lines("NCCL version 2.26.2+cuda12.8", host="n9")
        + 3 * lines("NCCL version 2.27.7+cuda12.9"),
        NO_EXPECTATION, ["NCCL 2.26.2 on n9, NCCL 2.27.7 elsewhere"],
    ),
    "hosts are named where not all are concerned": (
        lines("Using network IB")
        + lines("NCCL_P2P_DISABLE set by environment to 1.", host="n2"),
        NO_EXPECTATION, ["NCCL_P2P_DISABLE=1 is set on n2"],
    ),
    "many warnings shortly": (
        "".join(f"n1:1:2 [0] NCCL WARN bad thing {at}\n" for at in range(9)), NO_EXPECTATION,
        [*(f"bad thing {at}" for at in range(5)), "4 more warnings"],
    ),
    "out of bounds": (
        HEAD + row(1024, 1) + END.replace(": 0 OK", ": 7 FAILED"), NO_EXPECTATION,
        ["AllReduce: 7 values out of bounds"],
    ),
    "a slower NIC with its host": (
        lines(MADE.format(0, 0, 400000), MADE.format(1, 1, 400000))
        + lines(MADE.format(0, 0, 400000), MADE.format(1, 1, 200000), host="n2"),
        TWO_NICS, ["mlx5_1 on n2 at 200 Gb/s, others at 400 Gb/s"],
    ),
    "ranks that each ran alone": (
        RANKS + HEAD + 8 * row(2**33, 0) + END, NO_EXPECTATION,
        ["AllReduce: 8 ranks ran, each alone"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SAID)
def test_what_is_said_of_it(case: str) -> None:
    """Evidence has the numbers, and the hosts where it is not all of them."""
    text, expected, because = SAID[case]
    assert [one.because for one in found(text, expected)] == because


PREDICTED = ExpectedRun(busbw=(("AllReduce", 720e9), ("AllToAll", 62e9)), bounds=("AllToAll",))
BELOW: dict[str, tuple[str, Severity, str]] = {
    "to 64 MiB B200 are at half": (table(row(2**26, 400.6)), Severity.NOTE, "is small"),
    "to 256 MiB": (table(row(2**28, 600.0)), Severity.NOTE, "is small"),
    "on many nodes the plateau begins later": (
        table(row(2**30, 200), row(2**31, 300)), Severity.NOTE, "larger messages may reach more",
    ),
    "large": (
        table(row(2**29, 395), row(2**30, 400)), Severity.WARNING, "400 GB/s of the predicted 720",
    ),
    "77 % are published of 4 DGX H100": (
        table(row(2**33, 48)).replace("all_reduce", "alltoall"), Severity.NOTE,
        "only an upper bound",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BELOW)
def test_what_is_no_reproach_is_a_note(case: str) -> None:
    """A figure below what was predicted is a warning only where a healthy run would reach it."""
    text, severity, words = BELOW[case]
    (one,) = (each for each in found(text, PREDICTED) if each.rule == "below-predicted")
    assert (one.severity, words in one.because) == (severity, True)


def test_findings_come_with_the_gravest_first() -> None:
    """Errors before warnings before notes."""
    told = found(record_text("nccl-log-2.18.5", "synthetic-sockets"))
    assert [one.rule for one in told] == [
        *("ib-disabled", "network-socket", "p2p-disabled", "warned", "bootstrap-differs")
    ]
