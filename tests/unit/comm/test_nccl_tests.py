"""nccl-tests' table and JSON: old and new layouts, alone and between other lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpckit.comm.run.nccl_tests import (
    NO_PROGRAM,
    parse_nccl_run,
    parse_nccl_tests_json,
)
from hpckit.comm.run.result import BusbwFigures, BusbwRow, NcclTest, RankDevice, collective_of
from hpckit.core.errors import ParseError
from hpckit.spec.platform import NcclVersion
from tests.fakes.slurm_records import RECORDS, record_text

HEAD = (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time"
    "   algbw   busbw #wrong\n"
)
ROW = (
    "        1024           256     float     sum      -1    20.50    0.05    0.09      0    21.00"
    "    0.05    0.08      1\n"
)


def only(text: str) -> NcclTest:
    """The one test of a text."""
    (one,) = parse_nccl_run(text).tests
    return one


def record(version: str, case: str) -> NcclTest:
    """The one test of a synthetic record."""
    return only(record_text(f"nccl-tests-{version}", f"synthetic-{case}"))


def json_record(version: str) -> NcclTest:
    """The one test of a synthetic JSON."""
    (one,) = parse_nccl_tests_json(record_text(f"nccl-tests-{version}", "synthetic-json"))
    return one


def test_the_header_of_a_test_is_read() -> None:
    """Program, releases, ranks with their hosts and GPUs, and the summary are known."""
    one = record("2.19.6", "two-nodes")
    assert (one.program, one.collective, one.collective_unknown) == (
        "all_reduce_perf",
        "AllReduce",
        None,
    )
    assert (one.version, one.library) == ("2.19.6", NcclVersion(2, 27, 7))
    assert (len(one.ranks), one.hosts, len(one.rows)) == (16, ("gpu-01", "gpu-02"), 6)
    assert one.ranks[9] == RankDevice(
        rank=9,
        group=0,
        pid=4109,
        host="gpu-02",
        device=1,
        bus="0000:3b:00",
        gpu="NVIDIA H100 80GB HBM3",
    )
    assert one.average_busbw_bytes_per_s == pytest.approx(318.4e9)
    assert (one.out_of_bounds, one.most_bytes, one.unread) == (0, 8589934592, 0)


def test_the_plateau_is_that_of_large_messages() -> None:
    """The best bus bandwidth of sizes within a factor of 4 of the largest."""
    assert record("2.19.6", "two-nodes").plateau_bytes_per_s == pytest.approx(367.12e9)


def test_results_that_were_not_checked_have_no_count() -> None:
    """`N/A` of -c 0 is no zero; 2.13 names no program, and its GPUs have short bus ids.

    Its figures are AllReduce's: bus bandwidth is 1.75 times the other on 8 GPUs.
    """
    one = record("2.13.10", "unchecked")
    assert [figures.wrong for row in one.rows for figures in row.figures] == [None] * 6
    assert (one.program, one.collective, one.collective_unknown) == (None, "AllReduce", None)
    assert one.ranks[0].bus == "0x07"


def test_a_layout_without_operation_and_root_is_read_by_its_head() -> None:
    """2.9's AllGather has neither column, and an error column that counts nothing."""
    one = record("2.9.0", "all-gather")
    assert (one.collective, one.collective_unknown) == (None, NO_PROGRAM)
    assert [(row.size_bytes, row.redop, row.root) for row in one.rows] == [
        (1024, None, None),
        (2048, None, None),
        (4096, None, None),
    ]
    assert one.rows[0].figures[0].wrong is None
    assert one.ranks[1] == RankDevice(
        rank=1, pid=77, host="old-1", device=1, bus="0x1c", gpu="Tesla V100-SXM2-32GB"
    )


def test_time_stamps_and_blank_figures_are_read() -> None:
    """A time behind a row is no figure, and a row without out-of-place figures has one side."""
    first, second = record("2.19.6", "stamped").rows
    assert (first.root, len(first.figures)) == (0, 2)
    assert second.out_of_place is None
    assert second.in_place is not None
    assert second.in_place.time_s == pytest.approx(21.3e-6)


def test_figures_of_each_iteration_are_passed_over() -> None:
    """The columns `i_min` to `i_cv%` stand between both placements."""
    (row,) = record("2.19.6", "per-iteration").rows
    assert [one.wrong for one in row.figures] == [0, None]
    assert record("2.19.6", "per-iteration").collective == "AllToAll"


@pytest.mark.parametrize(
    "label", ["3: ", "[1,0]<stdout>:", "[1,0]<stdout>: ", "node1: ", "\x1b[0m"]
)
def test_labels_before_lines_are_passed_over(label: str) -> None:
    """Launchers' labels change nothing of what is read."""
    text = record_text("nccl-tests-2.19.6", "synthetic-two-nodes")
    labelled = "".join(f"{label}{line}\n" for line in text.splitlines())
    assert parse_nccl_run(labelled).tests == parse_nccl_run(text).tests


def test_lines_of_other_programs_between_rows_are_passed_over() -> None:
    """A table mixed with NCCL's log and a program's output has the same rows."""
    text = record_text("nccl-tests-2.19.6", "synthetic-two-nodes")
    noise = "n1:1:2 [0] NCCL INFO Using network IB\nstep 10 20 loss 2.3 0.1 1.0 2\n\n"
    run = parse_nccl_run("".join(f"{line}\n{noise}" for line in text.splitlines()))
    (mixed,) = run.tests
    rows = [(row.size_bytes, row.figures) for row in mixed.rows]
    assert rows == [(row.size_bytes, row.figures) for row in only(text).rows]
    assert run.log is not None


def test_a_row_that_was_cut_is_counted() -> None:
    """A line in the table that begins as a row and is none is not lost silently."""
    one = only(HEAD + ROW + ROW[:70] + "\n")
    assert (len(one.rows), one.unread) == (1, 1)


def test_a_test_without_rows_stays_apart_from_the_next() -> None:
    """A program that measured nothing has its summary all the same."""
    foot = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0 \n"
    first, second = parse_nccl_run(HEAD + foot + HEAD + ROW).tests
    assert (first.rows, first.average_busbw_bytes_per_s) == ((), 0.0)
    assert (len(second.rows), second.average_busbw_bytes_per_s) == (1, None)


def test_several_tests_in_one_file_stay_apart() -> None:
    """Each head begins a test, whether or not the one before was finished."""
    text = record_text("nccl-tests-2.19.6", "synthetic-two-nodes")
    text += record_text("nccl-tests-2.13.10", "synthetic-unchecked") + HEAD + ROW + HEAD + ROW
    assert [len(one.rows) for one in parse_nccl_run(text).tests] == [6, 3, 1, 1]


@pytest.mark.parametrize(
    "command",
    ["+ srun ./build/all_gather_perf -b 8 -e 1G", "mpirun -np 8 /opt/all_gather_perf_mpi -g 1"],
)
def test_a_command_line_names_the_program_that_older_ones_do_not(command: str) -> None:
    """A trace of the shell before a table says which collective it is."""
    one = only(f"{command}\n{HEAD}{ROW}")
    assert (one.program, one.collective) == ("all_gather_perf", "AllGather")


def test_a_program_that_is_not_known_has_no_collective() -> None:
    """The reason names it."""
    one = only(f"# Collective test starting: frob_perf\n{HEAD}{ROW}")
    assert one.collective is None
    assert one.collective_unknown == "frob_perf is not a known nccl-tests program"


def test_of_groups_side_by_side_the_factor_tells_no_collective() -> None:
    """Bus bandwidth is of a group: 4 ranks of AllReduce in two groups have the factor of 2."""
    rank = "#  Rank  {} Group  {} Pid 10{} on n1 device  {} [0000:19:00] NVIDIA H100\n"
    table = ROW.replace("0.05    0.09", "40.0    60.0").replace("0.05    0.08", "40.0    60.0")

    def collective(groups: int) -> str | None:
        ranks = "".join(rank.format(at, at % groups, at, at) for at in range(4))
        return only(ranks + HEAD + table).collective

    assert collective(1) == "AllReduce"
    assert collective(2) is None


def test_a_table_without_its_head_has_the_usual_columns() -> None:
    """Rows that somebody cut out of an output are read as 2.10 to 2.19 print them."""
    assert only(ROW).rows[0].size_bytes == 1024


def test_json_has_the_same_figures_in_base_units() -> None:
    """Version 3: rows, the placement that is null, what was not checked, and the average."""
    one = json_record("2.19.6")
    assert (one.program, one.collective, one.library) == (
        "reduce_scatter_perf",
        "ReduceScatter",
        NcclVersion(2, 27, 7),
    )
    first, second = one.rows
    assert first.figures[0].busbw_bytes_per_s == pytest.approx(268.4e9)
    assert [figures.wrong for figures in first.figures] == [0, None]
    assert (second.out_of_place, second.wrong, second.root) == (None, 4, -1)
    assert one.average_busbw_bytes_per_s == pytest.approx(268.1e9)


def test_json_behind_a_byte_order_mark_is_the_same() -> None:
    """PowerShell and some editors write one."""
    text = record_text("nccl-tests-2.19.6", "synthetic-json")
    assert parse_nccl_run("\ufeff" + text) == parse_nccl_run(text)


def test_a_figure_of_json_that_is_none_is_counted() -> None:
    """A row without a bandwidth is not left out silently."""
    text = record_text("nccl-tests-2.19.6", "synthetic-json")
    (one,) = parse_nccl_tests_json(text.replace('"bus_bw": 267.6', '"bus_bw": null'))
    assert (one.unread, one.rows[0].in_place) == (1, None)


def test_json_of_version_1_has_its_average_under_a_misspelt_key() -> None:
    """2.17 wrote `average_bus_bandwidith`."""
    assert json_record("2.17.4").average_busbw_bytes_per_s == pytest.approx(268.1e9)


def test_of_json_s_environment_only_nccl_s_variables_are_kept() -> None:
    """The document holds the whole environment, which is nobody's business."""
    assert json_record("2.19.6").environment == (("NCCL_DEBUG", "INFO"), ("NCCL_ALGO", "Ring"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 9}, "version: Invalid enum value 9"),
        ({"results": 3}, "results: Expected `array`, got `int`"),
        ({"results": [{"size": -1, "count": 1}]}, "size: Expected `int` >= 0"),
        ({"results": [{"size": 1, "count": 1, "out_of_place": 3}]}, "Expected `object | null`"),
    ],
)
def test_json_that_is_not_nccl_tests_is_refused(change: dict[str, object], says: str) -> None:
    """The error names the key and what it holds."""
    tree = json.loads(record_text("nccl-tests-2.19.6", "synthetic-json"))
    with pytest.raises(ParseError, match=says):
        parse_nccl_tests_json(json.dumps({**tree, **change}))


def test_json_of_a_run_that_was_killed_is_refused() -> None:
    """A document that ends early is no JSON."""
    text = record_text("nccl-tests-2.19.6", "synthetic-json")
    with pytest.raises(ParseError):
        parse_nccl_run(text[:-40])


def test_synthetic_records_say_so() -> None:
    """Each record of these formats says that no machine made it."""
    folders = [*RECORDS.glob("nccl-tests-*/*"), *RECORDS.glob("*ccl-log-*/*")]
    notes = [Path(one, "provenance.txt").read_text() for one in folders]
    assert len(notes) >= 10
    assert all("no machine" in note for note in notes)


def table(factor: float, redop: str | None = "sum", root: int | None = -1) -> list[BusbwRow]:
    """Two sizes, of which the smaller is all rounding."""
    small = BusbwFigures(time_s=1e-5, algbw_bytes_per_s=0.0, busbw_bytes_per_s=0.01e9)
    large = BusbwFigures(time_s=1e-2, algbw_bytes_per_s=195.8e9, busbw_bytes_per_s=195.8e9 * factor)
    return [
        BusbwRow(size_bytes=8, elements=2, redop=redop, root=root, out_of_place=small),
        BusbwRow(size_bytes=2**33, elements=2**31, redop=redop, root=root, in_place=large),
    ]


@pytest.mark.parametrize("ranks", [2, 3, 8, 16, 4096])
def test_what_reduces_is_told_by_its_factor(ranks: int) -> None:
    """AllReduce moves each byte twice and ReduceScatter once, less the rank's own part."""
    part = (ranks - 1) / ranks
    assert collective_of(table(2 * part), ranks) == "AllReduce"
    assert collective_of(table(part), ranks) == "ReduceScatter"
    assert collective_of(table(2 * part, root=None), ranks) == "AllReduce"


@pytest.mark.parametrize(
    ("rows", "ranks"),
    [
        (table(0.875, redop="none"), 8),
        (table(0.875, redop=None), 8),
        (table(1.0, root=0), 2),
        (table(1.5), 8),
        (table(0.0), 1),
        (table(1.75)[:1], 8),
        ([], 8),
    ],
)
def test_what_has_no_factor_to_itself_is_not_guessed(rows: list[BusbwRow], ranks: int) -> None:
    """AllGather and AllToAll share theirs, Reduce has a root, one rank has none."""
    assert collective_of(rows, ranks) is None


def test_the_plateau_leaves_small_messages_out() -> None:
    """A small message that happens to be fast, as from a cache, is not the plateau."""
    fast = ROW.replace("0.05    0.09", "0.05    9.00")
    large = [ROW.replace("1024", str(1024 * factor)) for factor in (8, 16)]
    assert only(HEAD + fast + "".join(large)).plateau_bytes_per_s == pytest.approx(0.09e9)
