"""What is printed fits its place and hides nothing."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence

import click
import pytest

from hpckit.cli import output
from hpckit.slurm.values import JobId, JobState, JobStatus


class _Terminal(io.StringIO):
    """A terminal of COLUMNS columns."""

    def isatty(self) -> bool:
        """Be one."""
        return True


def printed(
    header: tuple[str, ...], rows: Sequence[tuple[str, ...]], stream: io.StringIO
) -> list[str]:
    """The lines of a table on a stream."""
    with contextlib.redirect_stdout(stream):
        output.table(header, rows)
    return [click.unstyle(line) for line in stream.getvalue().splitlines()]


def status(state: JobState, **more: object) -> str:
    """The words for a status, without colour."""
    made = JobStatus(job_id=JobId("L1"), state=state, **more)  # type: ignore[arg-type]
    return click.unstyle(output.outcome(made))


def test_a_table_as_wide_as_the_terminal_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of 80 columns is not cut on 80."""
    monkeypatch.setenv("COLUMNS", "80")
    row = ("x" * 39, "y" * 38)
    assert printed(("A", "B"), [row], _Terminal())[1] == f" {row[0]}  {row[1]}"


def test_columns_are_as_wide_as_their_content() -> None:
    """In a file nothing is cut, colour takes no room, and no line ends in blanks."""
    rows = [("x" * 90, "b"), (click.style("y", fg="red"), "")]
    lines = printed(("A", "B"), rows, io.StringIO())
    assert lines == [f" A{' ' * 89}  B", f" {'x' * 90}  b", " y"]


def test_wide_characters_take_two_columns() -> None:
    """A name of them does not shift what follows, and is cut by what it takes."""
    lines = printed(("A", "B"), [("訓練模型", "b"), ("e\u0301e", "b")], io.StringIO())
    assert lines == [f" A{' ' * 7}  B", " 訓練模型  b", f" e\u0301e{' ' * 6}  b"]


def test_a_terminal_gets_lines_that_fit() -> None:
    """On a terminal the widest columns are cut, with a sign of it, to its width."""
    lines = printed(("A", "B", "C"), [("x" * 90, "short", "z" * 60)], _Terminal())
    assert len(lines[1]) <= 80
    assert "short" in lines[1]
    assert lines[1].count("…") == 2


def test_a_narrow_terminal_keeps_a_little_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are not cut below eight characters, though the lines are then too long."""
    monkeypatch.setenv("COLUMNS", "10")
    (line,) = printed((), [("x" * 90, "z" * 60)], _Terminal())
    assert line == f" {'x' * 7}…  {'z' * 7}…"


def test_a_narrow_table_is_left_alone() -> None:
    """What fits is not changed on a terminal either."""
    assert printed((), [("a", "b")], _Terminal()) == [" a  b"]


def remarked(stream: io.StringIO) -> list[str]:
    """The lines of two remarks on a stream, one of them long."""
    with contextlib.redirect_stdout(stream):
        output.remarks([("ok", "bash", "5.2"), ("note", "torchrun", f"{'word ' * 30}· do this")])
    return stream.getvalue().splitlines()


def test_names_and_options_are_not_broken_at_their_hyphens() -> None:
    """What is to be copied from a sentence stays in one piece."""
    told = output.prose(f"{'word ' * 13}aws-ofi-nccl and --overlay cscs-uenv-2025-11")
    assert {"aws-ofi-nccl", "--overlay", "cscs-uenv-2025-11"} <= set(told.split())


def test_a_remark_is_whole_on_a_terminal() -> None:
    """A terminal gets the last word of a long sentence too, indented under the first."""
    lines = remarked(_Terminal())
    assert max(map(len, lines)) <= 80
    assert lines[0] == " ok    bash      5.2"
    assert " ".join(lines).split()[-3:] == ["·", "do", "this"]
    assert all(line.startswith(" " * 17 + "word") for line in lines[2:-1])


def test_a_remark_in_a_file_is_one_line() -> None:
    """What searches by line finds all of a remark in it."""
    assert remarked(io.StringIO())[1].endswith("word · do this")


def test_what_cannot_be_seen_is_written_out() -> None:
    """Control characters, direction marks and odd blanks are escapes; lines and letters stay."""
    assert output.visible("a\x1b[2J\u202eb\u00a0ü\n×") == "a\\u001b[2J\\u202eb\\u00a0ü\n×"


def test_an_origin_hides_nothing_and_names_defaults() -> None:
    """A row of an origin shows escapes, and `default` in place of who gave it."""
    row = output.origin_row(key="a\r", value="\x07", origin="job", detail="j\t")
    assert row == ("a\\u000d", "\\u0007", "j\\u0009")
    assert output.origin_row(key="a", value="1", origin="default", detail="hpckit")[2] == "default"


def test_a_status_in_a_few_words() -> None:
    """State, duration, exit code with its signal, and reason are said where they are known."""
    assert status(JobState.PENDING) == "PENDING"
    assert (
        status(JobState.COMPLETED, exit_code=0, started_s=1.0, ended_s=3.5)
        == "COMPLETED in 2.5 s · exit code 0"
    )
    assert (
        status(JobState.FAILED, exit_code=137, reason="ended by SIGKILL")
        == "FAILED · exit code 137 (signal 9) · ended by SIGKILL"
    )
    assert status(JobState.FAILED, exit_code=255) == "FAILED · exit code 255"


def so_far(state: JobState, **more: object) -> str:
    """The words for a status 4.8 s after its start."""
    made = JobStatus(job_id=JobId("L1"), state=state, started_s=1.0, **more)  # type: ignore[arg-type]
    return click.unstyle(output.outcome(made, 5.8))


def test_a_duration_so_far_follows_the_state() -> None:
    """How long a job has run stands before everything else that is said of it."""
    said = so_far(JobState.RUNNING, reason="tasks: 4 RUNNING, 4 PENDING")
    assert said == "RUNNING for 4.8 s · tasks: 4 RUNNING, 4 PENDING"


@pytest.mark.parametrize("state", [JobState.UNKNOWN, JobState.FAILED, JobState.PENDING])
def test_what_does_not_run_has_no_duration_so_far(state: JobState) -> None:
    """What is unknown, has ended or waits again has not run until now."""
    assert so_far(state) == str(state)


def test_labels_are_aligned() -> None:
    """Further lines of a text stand under its first, and nothing printed is no line."""
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        output.labelled([("a", "1\n2"), ("label", "")])
        output.labelled([])
    assert stream.getvalue() == " a      1\n        2\n label\n"


def test_progress_is_for_terminals_alone() -> None:
    """A progress line is rewritten and removed on a terminal, and is nothing elsewhere."""
    terminal, file = _Terminal(), io.StringIO()
    for stream in (terminal, file):
        with contextlib.redirect_stderr(stream):
            line = output.Progress()
            line.clear()
            line.show("waiting")
            line.clear()
    assert terminal.getvalue() == "\r\x1b[K waiting\r\x1b[K"
    assert file.getvalue() == ""


def test_progress_is_never_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow terminal the line is cut: what the terminal broke could not be removed."""
    monkeypatch.setenv("COLUMNS", "20")
    terminal = _Terminal()
    with contextlib.redirect_stderr(terminal):
        output.Progress().show("0123456789" * 3)
    assert terminal.getvalue() == "\r\x1b[K " + ("0123456789" * 3)[:18]


def test_no_color_takes_colour_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR a terminal gets plain text, without it a coloured state."""
    for value, coloured in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", value)
        terminal = _Terminal()
        with contextlib.redirect_stdout(terminal):
            output.result(output.state_word(JobState.FAILED))
        assert ("\x1b" in terminal.getvalue()) is coloured


def test_a_document_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """What hides or turns its neighbours is an escape of JSON, and reads back as it was."""
    value = {"name": "a\x1b[2J\x7f\x9b\u202eb\u2028\ufeff ü 漢"}
    output.document(value)
    text = capsys.readouterr().out
    assert text.replace("\n", "").isprintable()
    assert "ü 漢" in text
    assert json.loads(text) == value


def on_a_terminal(text: str) -> str:
    """What a line of the result puts onto a terminal."""
    stream = _Terminal()
    with contextlib.redirect_stdout(stream):
        output.result(text)
    return stream.getvalue()


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\x1b]0;t\x07", "\x1b[31m", "\r", "\u202e", "\x9b"])
def test_nothing_that_is_printed_steers_the_terminal(hostile: str) -> None:
    """A line of the result shows what would move a cursor as an escape, and keeps our colours."""
    styled = click.style("FAILED", fg="red", bold=True)
    said = on_a_terminal(f"{hostile}a {styled} {hostile}")
    assert styled in said
    left = said.replace(styled, "").rstrip("\n")
    assert left.isprintable()
    assert left.count(output.visible(hostile)) == 2


def test_text_that_a_name_would_hide_is_shown() -> None:
    """Of a name's own styles, those that hpckit never uses are escapes, though they are closed."""
    assert on_a_terminal("\x1b[8mhidden\x1b[0m") == "\\u001b[8mhidden\\u001b[0m\n"


def test_a_cell_stays_in_its_row() -> None:
    """A line end or an escape in a cell is written out, and the columns stay aligned."""
    lines = printed(("A", "B"), [("a\n\x1b[2Jb", "c"), ("d", "e")], _Terminal())
    assert lines == [f" A{' ' * 14}B", " a\\n\\u001b[2Jb  c", f" d{' ' * 14}e"]


def test_a_headline_is_one_line() -> None:
    """A name with a line end is told on one line."""
    assert output.headline("L1", "a\nb\x1b", "PENDING") == " L1 a\\nb\\u001b   PENDING"


@pytest.mark.parametrize("got", ["1" * 5000, "a b " * 1249 + "last"])
def test_an_overlong_word_is_shortened(got: str) -> None:
    """Of a word or a quoted value of thousands of characters the ends and the length are said."""
    ends = f"'{got[:60]} … (5000 characters) … {got[-60:]}'"
    assert output.shortened(f"got '{got}', expected less") == f"got {ends}, expected less"


def test_a_long_sentence_stays_whole() -> None:
    """Words of a usual length are left alone, however many, and so is what stands between two s."""
    text = "the users' folder " + "of words " * 100 + "and the site's own"
    assert output.shortened(text) == text
