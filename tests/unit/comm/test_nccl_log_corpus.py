"""The public logs of NCCL: what each of these runs used."""

from __future__ import annotations

import pytest

from hpckit.comm.run.log_lines import NcclLog
from hpckit.comm.run.nccl_tests import parse_nccl_run
from hpckit.comm.run.rules import shortfall_findings
from hpckit.comm.run.rules_result import ExpectedRun
from hpckit.core.findings import Severity
from tests.corpus import corpus_file

CLEMSON = "clemson-6x8xH100"
TWO_H200 = "dell-2xXE9680L-16xH200"
ONE_H200 = "dell-xe9680-8xH200"
ONE_B200 = "dell-xe9685l-8xB200"


def log(name: str) -> NcclLog:
    """The log of one run."""
    text = corpus_file(f"misc/mlperf-nccl-log-{name}.txt").read_text(errors="replace")
    found = parse_nccl_run(text).log
    assert found is not None
    return found


def found(name: str, expected: ExpectedRun | None = None) -> list[tuple[str, Severity]]:
    """Rules and severities of what is odd about one run."""
    text = corpus_file(f"misc/mlperf-nccl-log-{name}.txt").read_text(errors="replace")
    findings = shortfall_findings(parse_nccl_run(text), expected)
    return [(one.rule, one.severity) for one in findings]


def nics(name: str) -> list[tuple[str, ...]]:
    """The NICs by name, of each host, where hosts differ."""
    lists = [tuple(nic.name for nic in one.what.nics) for one in log(name).nic_lists]
    return list(dict.fromkeys(lists))


@pytest.mark.parametrize(
    ("name", "lines"), [(CLEMSON, 900), (TWO_H200, 413), (ONE_H200, 113), (ONE_B200, 900)]
)
def test_every_line_is_read(name: str, lines: int) -> None:
    """All lines are NCCL's, and none that begins as one that is read has another form."""
    one = log(name)
    assert (one.lines, one.unread, one.other_lines) == (lines, (), 0)


def test_six_nodes_use_eight_infiniband_nics_each() -> None:
    """48 H100 on 6 nodes: NCCL 2.18.5, HPC-X's plugin, NICs with SHARP, NVLS; nothing odd."""
    one = log(CLEMSON)
    assert (one.nodes, one.ranks, one.processes) == (6, 48, 48)
    assert {seen.what.name for seen in one.networks} == {"IBext"}
    assert nics(CLEMSON) == [
        ("mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11")
    ]
    assert {nic.link for seen in one.nic_lists for nic in seen.what.nics} == {"IB/SHARP"}
    assert all(seen.what.is_available for seen in one.nvls)
    assert found(CLEMSON) == []


def test_two_nodes_use_ten_nics_of_which_two_may_be_others() -> None:
    """16 H200 on 2 nodes: ten RoCE NICs for eight GPUs; odd only where eight are for jobs."""
    (names,) = nics(TWO_H200)
    assert len(names) == 10
    assert found(TWO_H200) == []
    assert found(TWO_H200, ExpectedRun(nics=names[:8])) == [("nics-unexpected", Severity.WARNING)]


def test_one_node_without_a_device_uses_sockets_and_needs_none() -> None:
    """8 H200 on 1 node: the plugin found no device and NCCL took sockets, which carry nothing."""
    one = log(ONE_H200)
    assert {seen.what.name for seen in one.networks} == {"Socket"}
    assert nics(ONE_H200) == [(), ("eth2",)]
    assert found(ONE_H200) == [("no-rdma-device", Severity.NOTE)]
    assert found(ONE_H200, ExpectedRun(is_multi_node=True, nics=("mlx5_0",))) == [
        ("network-socket", Severity.ERROR)
    ]


def test_a_run_that_ended_in_an_error_says_so() -> None:
    """8 B200 on 1 node: eight RoCE NICs of 400 Gb/s, and an error of NCCL that PyTorch names."""
    one = log(ONE_B200)
    assert {seen.what.name for seen in one.networks} == {"IBext_v9"}
    assert {seen.what.rate_bytes_per_s for seen in one.virtual_nics} == {50e9}
    assert any(seen.what.event == "Abort COMPLETE" for seen in one.communicators)
    assert found(ONE_B200) == [("warned", Severity.WARNING)]
