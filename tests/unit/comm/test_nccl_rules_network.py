"""Rules about the network of a run that have more than two cases."""

from __future__ import annotations

from dataclasses import replace

from hpckit.comm.run.rules_result import ExpectedRun
from hpckit.core.findings import Severity
from hpckit.spec.platform import NetPlugin
from tests.unit.comm.test_nccl_shortfall import IB, MADE, TWO_NICS, TWO_NODES, found, lines, rules


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


def test_a_slower_nic_is_a_note_where_nobody_knows_which_are_for_jobs() -> None:
    """It may be one for storage."""
    (one,) = found(lines(MADE.format(0, 0, 400000), MADE.format(1, 1, 100000)))
    assert (one.rule, one.severity) == ("nic-slower", Severity.NOTE)


def test_a_nic_of_two_ports_has_the_rate_of_one_of_them() -> None:
    """Devices that NCCL made one of add up."""
    two = MADE.format(0, 0, 400000).replace("ndevs=1", "ndevs=2")
    assert rules(lines(two, MADE.format(1, 1, 200000)), TWO_NICS) == []


def test_gpu_direct_that_a_variable_forbids_is_off() -> None:
    """LOC is no path to any NIC; the lines that say so may not be in the log."""
    text = lines("NCCL_NET_GDR_LEVEL set by environment to LOC")
    assert rules(text, TWO_NODES) == ["gpu-direct-off"]
    assert rules(text.replace("LOC", "PHB"), TWO_NODES) == []


def test_verbs_that_a_plugin_replaces_may_be_off() -> None:
    """NCCL_IB_DISABLE=1 keeps NCCL's own verbs off; libfabric goes on."""
    text = lines("NCCL_IB_DISABLE set by environment to 1.")
    assert rules(text, TWO_NODES) == ["ib-disabled"]
    assert rules(text, replace(TWO_NODES, plugin=NetPlugin.NONE)) == ["ib-disabled"]
    assert rules(text, replace(TWO_NODES, plugin=NetPlugin.AWS_OFI)) == []
    assert rules(text + lines("Using network AWS Libfabric"), TWO_NODES) == []
    fallen = text + lines("Using network Socket")
    assert "ib-disabled" in rules(fallen, replace(TWO_NODES, plugin=NetPlugin.AWS_OFI))


def test_a_nic_with_data_direct_is_the_kernel_s() -> None:
    """NCCL calls it mlx5_0_dma; it is neither missing nor another, and has its rate."""
    text = lines(IB.replace("mlx5_0", "mlx5_0_dma").replace("mlx5_1", "mlx5_1_dma"))
    assert rules(text, TWO_NICS) == []
    made = [MADE.format(at, f"{at}_dma", rate) for at, rate in enumerate((400000, 200000))]
    assert rules(lines(*made), TWO_NICS) == ["nic-slower"]


def test_few_nics_of_a_site_are_a_note_on_one_node() -> None:
    """No traffic passes them there."""
    (one,) = found(lines(IB), ExpectedRun(is_multi_node=False, nic_count=8))
    assert (one.rule, one.severity) == ("nics-fewer", Severity.NOTE)
    (one,) = found(lines(IB), ExpectedRun(is_multi_node=True, nic_count=8))
    assert one.severity is Severity.WARNING
