"""Predicted bus bandwidth: the best algorithm, what bounds it, and what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpckit.comm.bandwidth.predict import predict
from hpckit.comm.bandwidth.values import (
    Algorithm,
    BusbwPrediction,
    Collective,
    CommMachine,
    PcieRing,
    Protocol,
)
from hpckit.node.path import PathKind
from hpckit.node.topology import CpuTopology, LinkKind, Unknown
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


def test_every_collective_has_one_best() -> None:
    """Each collective is there, its best algorithm first and marked as such alone."""
    found = predict(switched(), 2)
    for collective in Collective:
        own = [one for one in found if one.collective is collective]
        assert [one.is_best for one in own] == [True] + [False] * (len(own) - 1)


def test_nvls_is_best_on_a_board_of_h100() -> None:
    """8 heads of 40 GB/s, of which 7/8 and 85 % count twice: 476 GB/s."""
    one = best(predict(switched(), 1))
    assert (one.algorithm, one.protocol, one.channels) == (Algorithm.NVLS, Protocol.SIMPLE, 8)
    assert one.busbw_bytes_per_s == pytest.approx(476e9)
    assert one.caveat is not None
    assert "fabric manager" in one.caveat


def test_a_ring_is_best_where_bytes_pass_once() -> None:
    """AllGather on the same board goes by 12 rings of 30 GB/s."""
    one = best(predict(switched(), 1), Collective.ALL_GATHER)
    assert (one.algorithm, one.channels, one.channel_bytes_per_s) == (Algorithm.RING, 12, 30e9)
    assert one.limited_by == "NVLink to the switch: 18 links of 20.6 GB/s a GPU"


def test_a_ring_between_nodes_is_bounded_by_nics() -> None:
    """8 NICs of 200 Gb/s on PCIe 4 give 8 × 24 GB/s."""
    one = best(predict(dgx_a100(), 4))
    assert one.busbw_bytes_per_s == pytest.approx(192e9)
    assert one.limited_by == "8 NICs of 24 GB/s"


def test_fewer_nvlinks_bound_a_ring_between_nodes() -> None:
    """With 8 links (H800) a GPU carries 164.8 GB/s, which is less than its NICs do."""
    found = best(predict(replace(switched(links=8), has_nvls=False), 4))
    assert found.limited_by == "NVLink to the switch: 8 links of 20.6 GB/s a GPU"
    assert found.busbw_bytes_per_s is not None
    assert found.busbw_bytes_per_s < 200e9


def test_two_nodes_have_more_than_their_nics_by_nvlstree() -> None:
    """On two nodes each NIC's byte counts twice, so NVLSTree beats the ring."""
    assert best(predict(switched(), 2)).algorithm is Algorithm.NVLS_TREE
    assert gb_per_s(switched(), 2) == pytest.approx(461.6)


def test_sharp_adds_nvls_between_nodes() -> None:
    """NVLS over several nodes is there only where the network adds up."""

    def has_nvls(machine: CommMachine) -> bool:
        return any(one.algorithm is Algorithm.NVLS for one in predict(machine, 4))

    assert has_nvls(replace(switched(), has_sharp=True))
    assert not has_nvls(switched())


def test_an_nvlink_domain_is_one_node() -> None:
    """18 trays of 4 GPUs in one domain need no NICs."""
    tray = replace(switched("sm_100", gpus=4), nics=None, domain_nodes=18)
    found = best(predict(tray, 18), Collective.ALL_GATHER)
    assert found.busbw_bytes_per_s == pytest.approx(720e9)


def test_beyond_a_domain_nics_of_all_its_nodes_count() -> None:
    """Two domains of 4 trays talk by 16 NICs each."""
    tray = replace(switched("sm_100", gpus=4), domain_nodes=4)
    found = best(predict(tray, 8), Collective.ALL_TO_ALL)
    assert found.limited_by == "16 NICs of 48 GB/s, for 16 GPUs"


def test_a_domain_that_is_not_full_is_told() -> None:
    """6 nodes over domains of 4 leave one half empty."""
    tray = replace(switched("sm_100", gpus=4), domain_nodes=4)
    assert "do not fill" in (best(predict(tray, 6)).caveat or "")


def test_the_cpu_link_bounds_gpus_on_two_sockets() -> None:
    """NCCL reckons 16 GB/s between EPYCs, and takes a channel of 15."""
    ring = PcieRing(farthest=PathKind.SYS, has_phb=True, sides=(4, 4))
    one = best(predict(over_pcie(ring), 1))
    assert (one.limited_by, one.busbw_bytes_per_s) == ("the link between two CPUs", 15e9)


def test_an_intel_cpu_costs_a_sixth_of_pcie() -> None:
    """24 GB/s of PCIe 4 carry 20 where neighbours meet in an Intel CPU."""
    ring = PcieRing(farthest=PathKind.PHB, has_phb=True)
    assert (gb_per_s(over_pcie(ring, INTEL)), gb_per_s(over_pcie(ring, EPYC))) == (20.0, 24.0)


def test_xgmi_rings_share_all_links() -> None:
    """7 links of 48 GB/s in MI300X."""
    machine = meshed("gfx942", LinkKind.XGMI, gpus=8, count=1)
    assert gb_per_s(machine) == pytest.approx(336.0)


def test_xgmi_between_nodes_is_the_slowest_link() -> None:
    """4 NICs of 48 GB/s are less than the links, and RCCL's tables are not in it."""
    machine = replace(meshed("gfx942", LinkKind.XGMI, gpus=8, count=1), nics=nics(4, 50e9))
    one = best(predict(machine, 2))
    assert one.busbw_bytes_per_s == pytest.approx(192e9)
    assert "RCCL has no such model" in (one.caveat or "")


def test_all_to_all_passes_nics_for_other_nodes_alone() -> None:
    """Of 31 others 24 are on other nodes: 48 GB/s of a NIC are 62 of the bus."""
    assert gb_per_s(switched(), 4, Collective.ALL_TO_ALL) == pytest.approx(62.0)


def test_all_to_all_in_a_mesh_has_the_links_of_a_pair() -> None:
    """Each of 7 pairs carries an eighth of the data over one link of 48 GB/s."""
    machine = meshed("gfx942", LinkKind.XGMI, gpus=8, count=1)
    assert gb_per_s(machine, 1, Collective.ALL_TO_ALL) == pytest.approx(336.0)


def test_all_to_all_crosses_sockets_at_the_cpu_link() -> None:
    """16 of 56 pairs cross: 16 GB/s × 7 / 16."""
    ring = PcieRing(farthest=PathKind.SYS, sides=(4, 4))
    assert gb_per_s(over_pcie(ring), 1, Collective.ALL_TO_ALL) == pytest.approx(7.0)


def test_all_to_all_is_no_part_of_the_tuning_model() -> None:
    """It says so."""
    one = best(predict(switched(), 1), Collective.ALL_TO_ALL)
    assert one.algorithm is Algorithm.PAIRS
    assert "not in NCCL's tuning model" in (one.caveat or "")


LACKING = Unknown(subject="GPUs", what="architecture", because="topo -m does not hold it")


@pytest.mark.parametrize(
    ("machine", "nodes", "words"),
    [
        (replace(switched(), unknown=(LACKING,)), 1, "architecture of GPUs: topo -m does not"),
        (replace(switched(), nics=()), 2, "no NIC for jobs is known"),
        (replace(over_pcie(), pcie=None), 1, "speed and width of their links are not known"),
        (CommMachine(gpus=1), 1, "one GPU alone"),
        (replace(switched(), architecture=None), 1, "no constant"),
        (replace(switched(), architecture="gfx999"), 1, "no constant"),
        (replace(over_pcie(), architecture="gfx942"), 1, "no model of gfx942"),
        (
            over_pcie(PcieRing(farthest=PathKind.SYS, sides=(4, 4)), CpuTopology()),
            1,
            "what links these is not known",
        ),
        (replace(over_pcie(), pcie=replace(GEN5, width=1, speed_gt_per_s=2.5)), 1, "slowest"),
    ],
)
def test_what_is_missing_is_said(machine: CommMachine, nodes: int, words: str) -> None:
    """Without a fact there is no figure, and the reason names it."""
    one = best(predict(machine, nodes))
    assert one.busbw_bytes_per_s is None
    assert words in one.because


def test_releases_before_2_28_rate_nvls_otherwise() -> None:
    """5/6 of 320 GB/s an operation are 467 GB/s of the bus on 8 GPUs."""
    assert gb_per_s(switched(), nccl=NcclVersion(2, 27, 7)) == pytest.approx(466.67)


@pytest.mark.parametrize("nodes", [1, 18])
def test_an_older_release_promises_no_more_of_nvls_than_a_newer_one(nodes: int) -> None:
    """2.27 rates NVLS on B200 and GB200 NVL72 at 1050 GB/s and more; 850 of them are published."""
    tray = replace(switched("sm_100", gpus=4), nics=None, domain_nodes=18)
    machine = switched("sm_100") if nodes == 1 else tray
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
