"""Predicted bus bandwidth: the best algorithm, what bounds it, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import pytest

from hpckit.comm.bandwidth.facts import (
    NEWEST,
    OLDEST,
    SPEED_FACTS,
    cpu_link_gb_per_s,
)
from hpckit.comm.bandwidth.predict import forced_off, predict
from hpckit.comm.bandwidth.values import (
    Algorithm,
    BusbwPrediction,
    Collective,
    CommMachine,
    PcieRing,
    links_in_rings,
)
from hpckit.node.path import PathKind
from hpckit.node.topology import CpuTopology, LinkKind
from hpckit.spec.platform import NcclVersion
from tests.fakes.busbw_machines import (
    EPYC,
    GEN5,
    INTEL,
    dgx_a100,
    meshed,
    nics,
    over_pcie,
    switched,
)


def best(
    found: tuple[BusbwPrediction, ...], collective: Collective = Collective.ALL_REDUCE
) -> BusbwPrediction:
    """What is predicted of one collective."""
    (one,) = [each for each in found if each.collective is collective and each.is_best]
    return one


def gb_per_s(
    machine: CommMachine,
    nodes: int = 1,
    collective: Collective = Collective.ALL_REDUCE,
    nccl: NcclVersion | None = None,
) -> float | None:
    """The best plateau in GB/s."""
    found = best(predict(machine, nodes, nccl=nccl), collective).busbw_bytes_per_s
    return None if found is None else round(found / 1e9, 2)


MI300X = meshed("gfx942", LinkKind.XGMI, gpus=8, count=1)
TRAY = replace(switched("sm_100", gpus=4), nics=None, domain_nodes=18)
ACROSS = PcieRing(farthest=PathKind.SYS, has_phb=True, sides=(4, 4))
AT_CPU = PcieRing(farthest=PathKind.PHB, has_phb=True)
FIGURES: dict[str, tuple[CommMachine, int, Collective, float]] = {
    "8 NICs of 200 Gb/s on PCIe 4 bound a ring": (dgx_a100(), 4, Collective.ALL_REDUCE, 192),
    "on 2 nodes a NIC's byte counts twice": (switched(), 2, Collective.ALL_REDUCE, 461.6),
    "an NVLink domain of 18 trays needs no NIC": (TRAY, 18, Collective.ALL_GATHER, 720),
    "NCCL reckons 16 GB/s between EPYCs": (over_pcie(ACROSS), 1, Collective.ALL_REDUCE, 15),
    "PCIe 4 below an EPYC": (over_pcie(AT_CPU, EPYC), 1, Collective.ALL_REDUCE, 24),
    "an Intel CPU costs a sixth": (over_pcie(AT_CPU, INTEL), 1, Collective.ALL_REDUCE, 20),
    "7 XGMI links of 48 GB/s": (MI300X, 1, Collective.ALL_REDUCE, 336),
    "of 31 others 24 are on other nodes": (switched(), 4, Collective.ALL_TO_ALL, 62),
    "a pair's XGMI link carries an eighth": (MI300X, 1, Collective.ALL_TO_ALL, 336),
    "16 of 56 pairs cross the CPUs' link": (over_pcie(ACROSS), 1, Collective.ALL_TO_ALL, 7),
}
LIMITS: dict[str, tuple[CommMachine, int, Collective]] = {
    "8 NICs of 24 GB/s": (dgx_a100(), 4, Collective.ALL_REDUCE),
    "the link between two CPUs": (over_pcie(ACROSS), 1, Collective.ALL_REDUCE),
    "NVLink to the switch: 8 links of 20.6 GB/s per GPU": (
        replace(switched(links=8), has_nvls=False),
        4,
        Collective.ALL_REDUCE,
    ),
    "16 NICs of 48 GB/s, for 16 GPUs": (
        replace(switched("sm_100", gpus=4), domain_nodes=4),
        8,
        Collective.ALL_TO_ALL,
    ),
}


@pytest.mark.parametrize("case", FIGURES)
def test_a_plateau_follows_from_the_links(case: str) -> None:
    """The best algorithm's bus bandwidth is what the narrowest link leaves it."""
    machine, nodes, collective, figure = FIGURES[case]
    assert gb_per_s(machine, nodes, collective) == pytest.approx(figure)


@pytest.mark.parametrize("words", LIMITS)
def test_what_bounds_it_is_named(words: str) -> None:
    """Links of fewer lanes, NICs of all nodes of a domain, the CPUs' own link."""
    machine, nodes, collective = LIMITS[words]
    assert best(predict(machine, nodes), collective).limited_by == words


def test_every_collective_has_one_best() -> None:
    """Each collective is there, its best algorithm first and marked as such alone."""
    found = predict(switched(), 2)
    for collective in Collective:
        own = [one for one in found if one.collective is collective]
        assert [one.is_best for one in own] == [True] + [False] * (len(own) - 1)


def test_nvls_is_best_on_a_board_of_h100() -> None:
    """8 heads of 40 GB/s, of which 7/8 and 85 % count twice: 476 GB/s."""
    one = best(predict(switched(), 1))
    assert (one.algorithm, one.protocol, one.channels) == (Algorithm.NVLS, "Simple", 8)
    assert one.busbw_bytes_per_s == pytest.approx(476e9)
    assert one.caveat is not None
    assert "fabric manager" in one.caveat


def test_a_ring_is_best_where_bytes_pass_once() -> None:
    """AllGather on the same board goes by 12 rings of 30 GB/s."""
    one = best(predict(switched(), 1), Collective.ALL_GATHER)
    assert (one.algorithm, one.channels, one.channel_bytes_per_s) == (Algorithm.RING, 12, 30e9)
    assert one.limited_by == "NVLink to the switch: 18 links of 20.6 GB/s per GPU"


def test_sharp_adds_nvls_between_nodes() -> None:
    """NVLS over several nodes is there only where the network adds up."""

    def has_nvls(machine: CommMachine) -> bool:
        return any(one.algorithm is Algorithm.NVLS for one in predict(machine, 4))

    assert has_nvls(replace(switched(), has_sharp=True))
    assert not has_nvls(switched())


def test_a_domain_that_is_not_full_is_told() -> None:
    """6 nodes over domains of 4 leave one half empty."""
    tray = replace(switched("sm_100", gpus=4), domain_nodes=4)
    assert "do not fill" in (best(predict(tray, 6)).caveat or "")


def test_xgmi_between_nodes_is_the_slowest_link() -> None:
    """4 NICs of 48 GB/s are less than the links, and RCCL's tables are not in it."""
    machine = replace(MI300X, nics=nics(4, 50e9))
    one = best(predict(machine, 2))
    assert one.busbw_bytes_per_s == pytest.approx(192e9)
    assert "RCCL has no such model" in (one.caveat or "")


LACKING = "architecture of GPUs: topo -m does not hold it"


@pytest.mark.parametrize(
    ("machine", "nodes", "words"),
    [
        (replace(switched(), unknown=(LACKING,)), 1, "architecture of GPUs: topo -m does not"),
        (replace(switched(), nics=()), 2, "no NIC for jobs found"),
        (replace(over_pcie(), pcie=None), 1, "speed and width of their links are unknown"),
        (CommMachine(gpus=1), 1, "a single GPU does not communicate"),
        (replace(switched(), architecture=None), 1, "no link speed"),
        (replace(switched(), architecture="gfx999"), 1, "no link speed for gfx999"),
        (replace(over_pcie(), architecture="gfx942"), 1, "no model for gfx942"),
        (
            over_pcie(PcieRing(farthest=PathKind.SYS, sides=(4, 4)), CpuTopology()),
            1,
            "no speed for the link between them",
        ),
        (replace(over_pcie(), pcie=replace(GEN5, width=1, speed_gt_per_s=2.5)), 1, "slowest"),
    ],
)
def test_what_is_missing_is_said(machine: CommMachine, nodes: int, words: str) -> None:
    """Without a fact there is no figure, and the reason names it."""
    one = best(predict(machine, nodes))
    assert one.busbw_bytes_per_s is None
    assert words in one.because


@pytest.mark.parametrize("nodes", [1, 18])
def test_an_older_release_promises_no_more_of_nvls_than_a_newer_one(nodes: int) -> None:
    """2.27 rates NVLS on B200 and GB200 NVL72 at 1050 GB/s and more; 850 of them are published."""
    machine = switched("sm_100") if nodes == 1 else TRAY
    older, newer = gb_per_s(machine, nodes, nccl=NcclVersion(2, 27, 7)), gb_per_s(machine, nodes)
    assert older is not None
    assert newer is not None
    assert older <= newer
    assert 0.85 * older < 850


def test_releases_before_2_28_halve_nvlstree_beyond_two_nodes() -> None:
    """24 GB/s of each head: 5/6 of 192 GB/s an operation, 310 GB/s of the bus on 4 nodes."""
    found = predict(switched(), 4, nccl=NcclVersion(2, 27, 7))
    (one,) = [each for each in found if each.algorithm is Algorithm.NVLS_TREE]
    assert one.busbw_bytes_per_s == pytest.approx(310e9)


@pytest.mark.parametrize(
    ("nccl", "words"), [(NcclVersion(2, 31), "newer"), (NcclVersion(2, 12), "older")]
)
def test_a_release_outside_the_model_is_told(nccl: NcclVersion, words: str) -> None:
    """The figure is that of the nearest release, and says so."""
    assert words in (best(predict(switched(), 1, nccl=nccl)).caveat or "")


@pytest.mark.parametrize(
    ("gpus", "release", "has_nvls"),
    [
        (2, NcclVersion(2, 28, 3), False),
        (2, NcclVersion(2, 28, 7), True),
        (4, NcclVersion(2, 28, 3), True),
    ],
)
def test_two_gpus_have_nvls_from_2_28_7_on(gpus: int, release: NcclVersion, has_nvls: bool) -> None:
    """Before it NCCL takes NVLS for three or more."""
    found = {one.algorithm for one in predict(switched(gpus=gpus), 1, nccl=release)}
    assert (Algorithm.NVLS in found) is has_nvls


# --- Algorithms that variables turn off, and what is predicted then.

SWITCH = {Algorithm.NVLS, Algorithm.NVLS_TREE}


@pytest.mark.parametrize(
    ("name", "value", "off"),
    [
        ("NCCL_ALGO", "Ring", {Algorithm.TREE} | SWITCH),
        ("NCCL_ALGO", "ring, nvlstree", {Algorithm.TREE, Algorithm.NVLS}),
        ("NCCL_ALGO", "^Tree", {Algorithm.TREE}),
        ("NCCL_ALGO", "allreduce:tree", set()),
        ("NCCL_NVLS_ENABLE", "0", SWITCH),
        ("NCCL_NVLS_ENABLE", "1", set()),
        ("NCCL_PROTO", "Simple", set()),
    ],
)
def test_variables_turn_algorithms_off(name: str, value: str, off: set[Algorithm]) -> None:
    """A list leaves what it names, one behind ^ the others; lists by function are not read."""
    assert forced_off([(name, value)]) == off


def test_a_collective_without_an_algorithm_says_so() -> None:
    """Trees alone leave AllGather none."""
    found = predict(switched(), 1, off=forced_off([("NCCL_ALGO", "Tree")]))
    (one,) = (each for each in found if each.collective is Collective.ALL_GATHER)
    assert one.busbw_bytes_per_s is None
    assert "NCCL_ALGO excludes all its algorithms" in one.because


def test_rings_step_in_before_2_24() -> None:
    """Trees alone leave AllGather its rings there, and AllReduce its trees."""
    off = forced_off([("NCCL_ALGO", "Tree")])
    found = predict(switched(), 1, nccl=NcclVersion(2, 20, 5), off=off)
    by = {one.collective: (one.algorithm, one.busbw_bytes_per_s) for one in found if one.is_best}
    assert by[Collective.ALL_GATHER] == (Algorithm.RING, 360e9)
    assert by[Collective.ALL_REDUCE][0] is Algorithm.TREE


# --- Constants by release and generation.


@pytest.mark.parametrize(
    ("cpu", "nccl", "found"),
    [
        (("x86_64", "AuthenticAMD", 25, 1), NEWEST, 16.0),
        (("x86_64", "AuthenticAMD", 25, 1), OLDEST, 5000.0),
        (("x86_64", "GenuineIntel", 6, 0x4F), NEWEST, 6.0),
        (("x86_64", "GenuineIntel", 6, 0x55), NEWEST, 10.0),
        (("x86_64", "GenuineIntel", 6, 0x8F), NEWEST, 22.0),
        (("x86_64", "GenuineIntel", 6, 0x8F), NcclVersion(2, 25, 1), 10.0),
        (("x86_64", "GenuineIntel", 6, 0xCF), NEWEST, 40.0),
        (("x86_64", "GenuineIntel", 19, 0x1), NEWEST, 6.0),
        (("x86_64", "GenuineIntel", None, None), NEWEST, None),
        (("x86_64", None, None, None), NEWEST, None),
        (("ppc64le", "IBM", None, None), NEWEST, 32.0),
        (("aarch64", "ARM", None, None), NEWEST, 6.0),
        (("riscv64", None, None, None), NEWEST, None),
        ((None, None, None, None), NEWEST, None),
    ],
)
def test_links_between_cpus(
    cpu: tuple[str | None, str | None, int | None, int | None],
    nccl: NcclVersion,
    found: float | None,
) -> None:
    """NCCL tells Intel's generations apart by model, other CPUs by their maker."""
    arch, vendor, family, model = cpu
    value = CpuTopology(arch=arch, vendor=vendor, family=family, model_number=model)
    assert cpu_link_gb_per_s(value, nccl) == found


def test_speeds_are_tried_from_the_fastest() -> None:
    """The search relies on lists that fall."""
    for row in SPEED_FACTS:
        for speeds in (row.intra, row.inter):
            assert list(speeds) == sorted(set(speeds), reverse=True)


# --- Rings that links without a switch have room for.

CUBE_MESH = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2,
    (2, 6): 1, (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip


def every(count: int, links: int) -> dict[tuple[int, int], int]:
    """So many links between all pairs."""
    return dict.fromkeys(combinations(range(count), 2), links)


@pytest.mark.parametrize(
    ("gpus", "counts", "found"),
    [
        (2, {(0, 1): 4}, 4),
        (2, {}, None),
        (3, every(3, 2), 4),
        (4, every(4, 1), 2),
        (4, every(4, 2), 6),
        (4, every(4, 4), 12),
        (8, every(8, 1), 7),
        (8, CUBE_MESH, 6),
        (4, {(0, 1): 2, (2, 3): 2}, None),
        (4, {(0, 1): 3, (1, 2): 1, (2, 3): 3, (0, 3): 1}, 2),
    ],
    ids=["pair", "none", "three", "K4", "K4x2", "K4x4", "K8", "cube", "islands", "square"],
)
def test_links_in_rings(gpus: int, counts: dict[tuple[int, int], int], found: int | None) -> None:
    """Regular meshes are used whole; K4 of single links and a square with a weak side are not."""
    assert links_in_rings(range(gpus), counts) == found


def test_a_hopeless_mesh_ends_soon() -> None:
    """A path of 16 GPUs has no ring, and it is not looked for without end."""
    counts = dict.fromkeys(pairwise(range(16)), 4) | dict.fromkeys(combinations(range(9), 2), 1)
    assert links_in_rings(range(16), counts) is None
