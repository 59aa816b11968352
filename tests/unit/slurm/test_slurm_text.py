"""Slurm's words: states, exit codes, times, array lists and the ways to fail."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hpckit.core.errors import ParseError
from hpckit.slurm.text import (
    SEPARATOR,
    Place,
    accounting_disabled,
    array_tasks,
    exit_status,
    is_unreachable,
    job_state,
    slurm_version,
    time_s,
)
from hpckit.slurm.values import JobState, SlurmVersion
from tests.fakes.slurm_records import record_text

HERE = Place("tool", 3, f"a{SEPARATOR}b\x1b[31m")


@pytest.mark.parametrize("state", [s for s in JobState if s not in ("UNKNOWN", "NOT_SUBMITTED")])
def test_each_state_is_known_by_its_word(state: JobState) -> None:
    """Every word of squeue(1) is its own state."""
    assert job_state(str(state)) is state


@pytest.mark.parametrize("word", ["", "?", "pending", "NOT_SUBMITTED", "UNKNOWN", "OUT_OF_ME+"])
def test_a_word_that_slurm_does_not_use_is_unknown(word: str) -> None:
    """A word of no version is UNKNOWN, hpckit's own two words included."""
    assert job_state(word) is JobState.UNKNOWN


@pytest.mark.parametrize(
    ("text", "state", "expected"),
    [
        ("0:0", JobState.COMPLETED, (0, None)),
        ("7:0", JobState.FAILED, (7, None)),
        ("0:15", JobState.CANCELLED, (143, 15)),
        ("0:9", JobState.FAILED, (137, 9)),
        ("0:0", JobState.CANCELLED, (None, None)),
        ("0:0", JobState.TIMEOUT, (None, None)),
        ("0:0", JobState.NODE_FAIL, (None, None)),
        ("0:0", JobState.RUNNING, (None, None)),
        ("0:15", JobState.COMPLETING, (None, None)),
        ("0:125", JobState.OUT_OF_MEMORY, (None, None)),
    ],
)
def test_an_exit_code_is_the_scripts_own(
    text: str, state: JobState, expected: tuple[int | None, int | None]
) -> None:
    """A code, 128+N after signal N, and nothing where nobody recorded the script's end."""
    assert exit_status(text, state, HERE) == expected


@pytest.mark.parametrize("text", ["", "7", "7:", "a:b", "-1:0", "1000:0", "٣:0"])
def test_other_exit_codes_are_refused(text: str) -> None:
    """An exit code is two numbers."""
    with pytest.raises(ParseError, match="exit code"):
        exit_status(text, JobState.FAILED, HERE)


def test_a_time_is_utc() -> None:
    """A time without a zone is read as UTC, as it was asked for."""
    expected = datetime(2026, 11, 21, 6, 49, 14, tzinfo=UTC).timestamp()
    assert time_s("2026-11-21T06:49:14", HERE) == expected


@pytest.mark.parametrize("text", ["", "N/A", "Unknown", "None", "(null)"])
def test_no_time_is_none(text: str) -> None:
    """Slurm's words for no time are None."""
    assert time_s(text, HERE) is None


@pytest.mark.parametrize(
    "text",
    [
        *("06:49:14", "2026-02-30T00:00:00", "9999-12-31T23:59:59", "2026-11-21 06:49:14", "now"),
        *("2026-11-21T06:49:", "2026-11-21", "20261121T064914.123"),
    ],
)
def test_other_times_are_refused(text: str) -> None:
    """A time in another format, or one that no calendar has, is an error."""
    with pytest.raises(ParseError, match="is not a time"):
        time_s(text, HERE)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("5]", (5,)),
        ("5,8,11-13]", (5, 8, 11, 12, 13)),
        ("0-60:20%2]", (0, 20, 40, 60)),
        ("4-7%2]", (4, 5, 6, 7)),
        ("1,3,...]", None),
        ("1,3,5,1", None),
        ("]", None),
        ("7-4]", None),
        ("1-9:0]", None),
        ("0-999999999]", None),
    ],
)
def test_an_array_list(expression: str, expected: tuple[int, ...] | None) -> None:
    """A list of tasks is each of its indexes, or None when it is not whole."""
    assert array_tasks(expression) == expected


def test_an_error_shows_the_line_without_control_characters() -> None:
    """Separators and escape sequences are not sent to a terminal."""
    error = HERE.refuse("is wrong", "something else")
    assert (error.tool, error.line_no, error.line) == ("tool", 3, "a|b?[31m")


@pytest.mark.parametrize(
    ("tool", "case"),
    [
        ("squeue-22.05.8", "controller-down"),
        ("squeue-22.05.8", "controller-frozen"),
        ("squeue-22.05.8", "no-slurmdbd"),
        ("sacct-22.05.8", "no-slurmdbd"),
        ("sacct-24.11.5", "no-slurmdbd"),
    ],
)
def test_no_answer_is_told_from_a_refusal(tool: str, case: str) -> None:
    """A controller or slurmdbd that is down or frozen is unreachable."""
    assert is_unreachable(record_text(tool, case))


@pytest.mark.parametrize(
    ("tool", "case"),
    [
        ("squeue-24.11.5", "no-cluster"),
        ("sacct-22.05.8", "unknown-array-option"),
        ("sacct-22.05.8", "accounting-disabled"),
        ("sbatch-24.11.5", "bad-partition"),
    ],
)
def test_a_refusal_is_no_lack_of_an_answer(tool: str, case: str) -> None:
    """What will be refused again is not called unreachable."""
    assert not is_unreachable(record_text(tool, case))


def test_disabled_accounting_is_told() -> None:
    """A cluster without accounting is known by sacct's own words."""
    assert accounting_disabled(record_text("sacct-22.05.8", "accounting-disabled"))
    assert not accounting_disabled(record_text("sacct-22.05.8", "no-slurmdbd"))


@pytest.mark.parametrize(
    ("text", "version", "written"),
    [
        ("24.11.5", SlurmVersion(24, 11, 5), "24.11.5"),
        ("22.05", SlurmVersion(22, 5), "22.05.0"),
        ("slurm-wlm 22.05.8\n", SlurmVersion(22, 5, 8), "22.05.8"),
        ("slurm 25.11.0-0rc1", SlurmVersion(25, 11, 0), "25.11.0"),
        ("26.05.5", SlurmVersion(26, 5, 5), "26.05.5"),
        ("21.08.8-2-bull.1.1", SlurmVersion(21, 8, 8), "21.08.8"),
    ],
)
def test_a_version_by_any_of_its_spellings(text: str, version: SlurmVersion, written: str) -> None:
    """A version is the same with a package's name before it or a build's after it."""
    assert slurm_version(text, Place("scontrol", 1, text)) == version
    assert str(version) == written
