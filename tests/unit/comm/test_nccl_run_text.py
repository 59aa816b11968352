"""The screen of a run of NCCL: what was measured, what was used, what explains a shortfall."""

from __future__ import annotations

import pytest

from hpckit.comm.run.nccl_tests import parse_nccl_run
from hpckit.comm.run.rules import shortfall_findings
from hpckit.comm.run.rules_result import ExpectedRun
from hpckit.comm.run.show import ComparedRun, nccl_run_lines
from hpckit.core.text import Line, columns
from tests.fakes.slurm_records import record_text

TABLE = record_text("nccl-tests-2.19.6", "synthetic-two-nodes")
LOG = record_text("nccl-log-2.27.7", "synthetic-two-nodes")
SOCKETS = record_text("nccl-log-2.18.5", "synthetic-sockets")


def screen(text: str, predicted: dict[str, float] | None = None, width: int = 80) -> list[Line]:
    """The lines of a text, with the findings of its log alone."""
    run = parse_nccl_run(text)
    findings = shortfall_findings(run, ExpectedRun())
    compared = ComparedRun(run=run, findings=findings, predicted=predicted or {})
    return nccl_run_lines(compared, width=width)


def texts(text: str, predicted: dict[str, float] | None = None) -> list[str]:
    """The same as text, wide enough that nothing is broken."""
    return [line.text for line in screen(text, predicted, 400)]


def test_a_healthy_run_is_told_in_a_few_lines() -> None:
    """The verdict, what was measured beside what was predicted, what was used, what to do next."""
    assert texts(TABLE + LOG, {"AllReduce": 400e9}) == [
        "no findings · 4 ranks on 2 nodes · NCCL 2.27.7+cuda12.9",
        "measured AllReduce 367.1 GB/s bus bandwidth, up to 8.59 GB · 92 % of the predicted"
        " 400 GB/s",
        "network  IB · GPU Direct RDMA on",
        "NICs     2: mlx5_0, mlx5_1 (IB) at 400 Gb/s",
        "GPUs     P2P/CUMEM/read · rings over NVL · NVLS available",
        "channels 4 · search found 2",
        "algorithm AllReduce: Ring Simple, Tree LL",
        "bootstrap eth0",
    ]


def test_findings_come_below_what_was_used_with_their_lines() -> None:
    """The gravest first: the rule, what was seen and in which line; below it what to do."""
    shown = texts(SOCKETS)
    assert shown[0].startswith("5 findings · 2 ranks on 2 nodes")
    at = shown.index("error    ib-disabled: NCCL_IB_DISABLE=1 is set (line 5)")
    assert shown[at + 1] == "         fix: unset NCCL_IB_DISABLE"
    assert shown[-2:] == ["next  all_reduce_perf -b 8M -e 8G -f 2", "      hpckit inspect"]


INFO = "n1:1:2 [0] NCCL INFO "
USED = f"{INFO}Using network IB\n"
USING = "NET/IB : Using [0]mlx5_0:1/IB{}; OOB eth0:10.0.0.1<0>\n"
SUBSYSTEMS = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING"
SHOWN = {
    f"unknown  GPUs, channels, algorithm: not in this log; {SUBSYSTEMS} shows them": USED,
    f"next  {SUBSYSTEMS} COMMAND": record_text("nccl-tests-2.13.10", "synthetic-unchecked"),
    "measured AllReduce: no bandwidth": TABLE[: TABLE.index("     8388608")],
    "not read 1 NCCL line of unknown form, the first at line 2": f"{USED}{INFO}Channel 0 -> 1\n",
    "not read 1 line too long, cut": USED + "x" * 70000,
    "not read 1 incomplete table row": TABLE.replace("43871.2", "nan"),
    "NICs     2: mlx5_0, mlx5_1 (IB) on n1 · 1: mlx5_0 (IB) on n2": (
        INFO + USING.format(" [1]mlx5_1:1/IB") + INFO.replace("n1", "n2") + USING.format("")
    ),
}


@pytest.mark.parametrize("line", SHOWN)
def test_what_is_missing_or_differs_is_told(line: str) -> None:
    """What was not read, not measured or not logged is not hidden; hosts that differ are named."""
    assert line in texts(SHOWN[line])


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Less those to be copied, which are never broken."""
    for text in (TABLE + LOG, SOCKETS):
        for line in screen(text, {"AllReduce": 400e9}, width):
            assert columns(line.text) <= width or line.text.startswith(("next", "      "))


def test_what_a_log_holds_cannot_steer_the_terminal() -> None:
    """Control characters in a host's or a setting's text are shown as escapes."""
    text = "n1:1:2 [0] NCCL WARN a\x07b\x9bc\u202ed\n"
    assert all(line.text.isprintable() for line in screen(text))


def test_a_prediction_that_is_not_known_has_its_reason() -> None:
    """Nothing odd is not said without saying that nothing was compared."""
    run = parse_nccl_run(TABLE)
    shown = nccl_run_lines(
        ComparedRun(run=run, findings=(), predicted={}, unpredicted="no machine"), width=400
    )
    assert "predicted unknown: no machine" in [line.text for line in shown]


def test_a_test_of_another_size_has_no_share() -> None:
    """What was predicted of one node says nothing of two."""
    one = "\n".join(line for line in TABLE.splitlines() if "gpu-02" not in line)
    shown = texts(f"{one}\n{TABLE}", {"AllReduce": 400e9})
    assert ["predicted" in text for text in shown if text.startswith("measured")] == [True, False]
