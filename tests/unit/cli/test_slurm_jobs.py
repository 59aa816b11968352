"""The screens about jobs of Slurm: arrays, jobs that wait, and jobs that are lost."""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit import wiring
from hpckit.cli.job_argument import asking, say_open
from hpckit.core.errors import HpckitError
from hpckit.slurm.values import JobState, JobStatus
from tests.fakes.cli_jobs import call, config_home, document, words, write_site
from tests.fakes.slurm_jobs import (
    CANCELLED,
    COMPLETED,
    FAILED,
    HOPELESS,
    RUNS,
    WAITS,
    SlurmJob,
    commands,
    slurm_job,
)
from tests.fakes.slurm_records import RECORDS
from tests.fakes.submitter import FakeSubmitter
from tests.fakes.tracked import LOST, UNSEEN
from tests.fakes.tracked import RUNS as RUNS_ON
from tests.fakes.world import entry_of, tracking

__all__ = ["slurm_job"]


def refused(*args: str) -> HpckitError:
    """The error that the command line ends with."""
    error = call(*args, refused=True).exception
    assert isinstance(error, HpckitError), error
    return error


def shown(*args: str) -> str:
    """What a command prints, on one line."""
    return words(call(*args).stdout)


@pytest.mark.parametrize(
    ("rows", "args", "pattern"),
    [
        ({"46_0": RUNS, "46_1": WAITS}, (),
         r"^46 train RUNNING for [\d:-]+ · tasks: 1 RUNNING, 1 PENDING"),
        ({"46_[7-9]": WAITS, "46_5": RUNS, "46_3": COMPLETED}, ("46",),
         "next hpckit logs -f 46_5$"),
        ({"46_0": COMPLETED, "46_1": CANCELLED, "46_2": FAILED}, ("46",), "next hpckit logs 46_2$"),
        ({"46_0": RUNS, "46_1": COMPLETED}, ("46_1",),
         r"^46_1 train COMPLETED in 2\.0 s · exit code 0 nodes c1 folder .* hpckit logs 46_1$"),
        ({}, ("46_7",), "^46_7 train UNKNOWN · squeue and sacct no longer list it"),
        ({"46_[0-2]": WAITS}, ("46_1",),
         "sprio -j 46_1.* next hpckit wait 46 · hpckit cancel 46_1$"),
        ({"46": HOPELESS}, (), r"it does not start as it stands((?! start ).)*$"),
        ({"46": WAITS}, (), " start expected "),
        ({}, (), "next hpckit logs 46$"),
        ({"46": CANCELLED}, (), "^((?!hpckit logs).)*$"),
    ],
)  # fmt: skip
def test_status_says_how_a_job_is_and_what_to_ask_next(
    slurm_job: SlurmJob, rows: dict[str, tuple[str, ...]], args: tuple[str, ...], pattern: str
) -> None:
    """The log of the task that says most; a task by itself; a start only where there is one."""
    slurm_job(rows)
    assert re.search(pattern, shown("status", *args))


def test_the_document_of_a_task(slurm_job: SlurmJob) -> None:
    """`status --json ID_TASK` has the task's own state and times, and its number."""
    slurm_job({"46_0": RUNS, "46_1": COMPLETED})
    found = document("status", "--json", "46_1")
    assert (found["schema"], found["job_id"], found["task"]) == ("hpckit.status/1", "46", 1)
    assert (found["state"], found["ended_s"] - found["started_s"]) == ("COMPLETED", 2.0)


def test_a_task_that_slurm_does_not_list(slurm_job: SlurmJob) -> None:
    """`status` of a task that is not there names those that are."""
    slurm_job({"46_[0-2]": WAITS})
    error = refused("status", "46_7")
    assert (error.message, error.hint) == ("job 46 has no task 7 in Slurm", "its tasks: 0-2")


def test_why_a_job_waits_is_in_the_document(slurm_job: SlurmJob) -> None:
    """`status --json` explains Slurm's reason as the screen does."""
    slurm_job({"46": WAITS})
    pending = document("status", "--json")["pending"]
    assert set(pending) == {"meaning", "help", "hopeless"}
    assert pending["hopeless"] is False
    assert "sprio -j 46" in pending["help"]


@pytest.mark.parametrize(("rows", "is_lost"), [({"46": RUNS}, False), ({}, True)])
def test_whether_a_job_is_lost_is_in_the_document(
    slurm_job: SlurmJob, rows: dict[str, tuple[str, ...]], *, is_lost: bool
) -> None:
    """`is_lost` is true of a job of which asking again will tell no more."""
    slurm_job(rows)
    assert document("status", "--json")["is_lost"] is is_lost


def test_jobs_say_why_in_their_document(slurm_job: SlurmJob) -> None:
    """A row of `jobs --json` has the reason, hpckit's and Slurm's."""
    slurm_job({"46": WAITS})
    (row,) = document("jobs", "--json")["jobs"]
    assert (row["reason"], row["slurm_reason"]) == (None, "Priority")


def test_following_a_task_ends_with_it(slurm_job: SlurmJob) -> None:
    """`logs -f ID_TASK` ends when the task has, though others run on."""
    entry = slurm_job({"46_0": RUNS, "46_1": COMPLETED}, array="0-1")
    (Path(entry.folder) / "logs" / "job-1.log").write_bytes(b"one\n")
    assert call("logs", "-f", "46_1").stdout_bytes == b"one\n"


def test_following_an_array_is_refused_at_once(slurm_job: SlurmJob) -> None:
    """`logs -f` of an array whose tasks have logs names one of them, and does not wait."""
    entry = slurm_job({"46_3": RUNS}, array="3-4")
    (Path(entry.folder) / "logs" / "job-3.log").touch()
    assert refused("logs", "-f", "46").hint == "hpckit logs 46_3; tasks with a log: 3"


def test_following_a_lost_job_gives_what_there_is(slurm_job: SlurmJob) -> None:
    """`logs -f` of a lost job prints its log, and the error says what is not known."""
    entry = slurm_job()
    (Path(entry.folder) / "logs" / "job.log").write_bytes(b"begun\n")
    result = call("logs", "-f", refused=True)
    assert result.stdout_bytes == b"begun\n"
    assert str(result.exception).startswith("the outcome of 46 is unknown: ")


@pytest.mark.parametrize(("array", "name"), [("0-1", None), (None, "job.log")])
def test_an_array_has_no_log_of_its_own(
    slurm_job: SlurmJob, array: str | None, name: str | None
) -> None:
    """`logs --json` names no merged log of an array, and that of any other job before it is."""
    slurm_job(array=array)
    log = document("logs", "--json")["log"]
    assert (log and Path(log).name) == name


def test_wait_takes_no_task(slurm_job: SlurmJob) -> None:
    """`wait ID_TASK` is refused with the command for the whole array."""
    slurm_job({"46_3": RUNS})
    error = refused("wait", "46_3")
    assert error.message == "wait takes whole jobs; 46_3 is one task of an array"
    assert error.hint == "hpckit wait 46"


def slurm_site(tmp_path: Path) -> None:
    """A site with Slurm, called mine, whose jobs lie under `tmp_path`."""
    site = write_site(config_home() / "site_configs", "mine", "")
    with site.open("a") as file:
        file.write(f'submitter = "slurm"\njob_root = "{tmp_path}/jobs"\n')


@pytest.mark.parametrize(("options", "log"), [((), "46"), (("--array", "5,8-11:2%4"), "46_5")])
def test_submit_names_a_log_that_there_will_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], log: str
) -> None:
    """`submit` of an array suggests the log of its first task, and of another job the job's."""
    slurm_site(tmp_path)
    commands(tmp_path, monkeypatch)
    text = shown("submit", "--site", "mine", *options, "--", "true")
    assert text.endswith(f"next hpckit logs -f {log} · hpckit status 46")


def test_a_large_array_is_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An array of more tasks than the site's number starts with `--yes` alone."""
    slurm_site(tmp_path)
    commands(tmp_path, monkeypatch)
    large = ("--site", "mine", "--array", "0-1000", "--", "true")
    refused = call("submit", *large, refused=True)
    assert "1001 tasks at once" in str(refused.exception)
    assert "1001 tasks" in shown("submit", "--yes", *large)
    (found,) = document("check", "--json", "--offline", *large)["findings"]
    assert (found["rule"], found["severity"]) == ("slurm.array", "error")


FAILS = """
for script; do :; done
day=2026-11-21
row() {
    printf '%s\\037' "$1" "$2" None "${day}T06:00:00" "${day}T06:00:02" c1
    printf '%s\\n' "$script"
}
{ row 46_0 COMPLETED; row 46_1 FAILED; } >"$LISTING"
echo 'it broke' >"$HPCKIT_JOB_FOLDER/logs/job-1.log"
echo 46
"""


def test_an_array_that_failed_shows_a_tasks_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`submit --wait` of an array ends with the last lines of the first task that failed."""
    slurm_site(tmp_path)
    commands(tmp_path, monkeypatch, sbatch=FAILS.replace("$LISTING", f"{tmp_path}/listing"))
    result = call("submit", "--site", "mine", "--wait", "--array", "0-1", "--", "true")
    text = words(result.stdout)
    assert "log it broke ended FAILED" in text
    assert text.endswith("next hpckit logs 46_1")


def test_a_closed_session_completes_a_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGHUP while sbatch has the job waits until it is recorded, and says how to go on."""
    slurm_site(tmp_path)
    commands(tmp_path, monkeypatch, sbatch=f"touch {tmp_path}/asked; sleep 1; echo 46")
    submitting = subprocess.Popen(
        [sys.executable, "-m", "hpckit", "submit", "--site", "mine", "--", "true"],
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "asked").exists():
        time.sleep(0.05)
    submitting.send_signal(signal.SIGHUP)
    _, talk = submitting.communicate(timeout=20)
    assert (submitting.returncode, wiring.job_index().latest(1)[0].job_id) == (130, "46")
    assert (
        talk.strip().split("\n")[-1]
        == "interrupted · the job goes on: hpckit wait 46 · hpckit cancel 46"
    )


def opened(status: JobStatus, timed_out_s: float | None = None) -> tuple[int, str]:
    """The exit code and the line for a job of which waiting ended with this status."""
    talk = io.StringIO()
    with contextlib.redirect_stderr(talk):
        code = say_open([(entry_of("4242", Path("/jobs/a")), status)], timed_out_s)
    return code, talk.getvalue().strip()


@pytest.mark.parametrize(
    ("status", "timed_out_s", "expected"),
    [
        (LOST, None, (1, "the outcome of 4242 is unknown: how it ended is unknown")),
        (UNSEEN, None, (7, "4242: Slurm has not answered for an hour: slurmctld is down")),
        *((how, 2.5, (1, "4242 did not end within 2.5 s")) for how in (RUNS_ON, LOST, UNSEEN)),
        (replace(RUNS_ON, state=JobState.COMPLETED), None, (0, "")),
    ],
)
def test_why_waiting_ended(
    status: JobStatus, timed_out_s: float | None, expected: tuple[int, str]
) -> None:
    """1 for a job that nobody knows, 7 where Slurm is silent; a time that ran out goes first."""
    assert opened(status, timed_out_s) == expected


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Be one."""
        return True


@pytest.mark.parametrize(
    ("job_id", "line"), [("4242", "\r\x1b[K asking Slurm …\r\x1b[K"), ("Lcafe", "")]
)
def test_a_terminal_says_that_slurm_is_asked(job_id: str, line: str) -> None:
    """The line is there from the first question to Slurm on, then goes; a local job has none."""
    terminal = _Terminal()
    with contextlib.redirect_stderr(terminal), asking(tracking(FakeSubmitter())) as tools:
        tools.submitter_of(entry_of(job_id, Path("/jobs/a")))
    assert terminal.getvalue() == line


CAPTURE = RECORDS / "sacct-json-24.11.5" / "two-nodes" / "output.txt"


def answering(tmp_path: Path, steps: int | None = None) -> None:
    """Have sacct tell a captured job as job 46, with one step again and again."""
    answer = json.loads(CAPTURE.read_text())
    (job,) = answer["jobs"]
    job["job_id"] = 46
    if steps is not None:
        job["steps"] = [job["steps"][3]] * steps
    (tmp_path / "detail").write_text(json.dumps(answer))
    sacct = f'case "$*" in *--json*) echo >>{tmp_path}/asked; cat {tmp_path}/detail;; esac'
    (tmp_path / "slurm" / "sacct").write_text(f"#!/bin/sh\n{sacct}\n")


def test_the_steps_that_failed_are_shown(slurm_job: SlurmJob, tmp_path: Path) -> None:
    """Each step that ended badly, its code and, of an srun, its nodes; no other step."""
    slurm_job({"46": FAILED})
    answering(tmp_path)
    steps = "steps batch FAILED 7 · 1 FAILED 7 on c[3-4] · 2 CANCELLED 137 on c3 nodes"
    assert steps in shown("status", "46")


def test_many_steps_are_counted(slurm_job: SlurmJob, tmp_path: Path) -> None:
    """The first six are shown, the rest is a number."""
    slurm_job({"46": FAILED})
    answering(tmp_path, steps=9)
    assert shown("status", "46").count("1 FAILED 7 on") == 6
    assert "· 3 more nodes" in shown("status", "46")


def test_the_document_has_the_detail(slurm_job: SlurmJob, tmp_path: Path) -> None:
    """`status --json` has what the job was given, and every step."""
    slurm_job({"46": FAILED})
    answering(tmp_path)
    detail = document("status", "--json", "46")["detail"]
    assert (detail["partition"], detail["qos"], detail["restarts"]) == ("main", "normal", 0)
    assert detail["tres_allocated"]["gres/gpu"] == 4
    assert [step["step"] for step in detail["steps"]] == ["batch", "extern", "0", "1", "2"]
    assert (detail["steps"][3]["state"], detail["steps"][3]["exit_code"]) == ("FAILED", 7)


def test_without_an_answer_the_rest_is_told(slurm_job: SlurmJob) -> None:
    """Where sacct says nothing of it, the screen is as it was, and the key is null."""
    slurm_job({"46": FAILED})
    assert "FAILED" in shown("status", "46")
    assert "steps" not in shown("status", "46")
    assert document("status", "--json", "46")["detail"] is None


@pytest.mark.parametrize("row", [RUNS, COMPLETED, CANCELLED])
def test_other_jobs_cost_no_question(
    slurm_job: SlurmJob, tmp_path: Path, row: tuple[str, ...]
) -> None:
    """The steps of a job that lives, completed or was cancelled are not asked for."""
    slurm_job({"46": row})
    answering(tmp_path)
    assert document("status", "--json", "46")["detail"] is None
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    ("api", "said"),
    [
        ("pyslurm", "pyslurm cannot be used (not installed); using Slurm's commands"),
        ("rest", "HPCKIT_SLURM_API: got 'rest', expected pyslurm or unset"),
    ],
)
def test_another_way_to_ask_slurm(
    slurm_job: SlurmJob, monkeypatch: pytest.MonkeyPatch, api: str, said: str
) -> None:
    """Without pyslurm the commands are asked, and a way that there is not is named."""
    slurm_job({"46": RUNS})
    monkeypatch.setenv("HPCKIT_SLURM_API", api)
    done = call("status", "46")
    assert said in words(done.output)
    assert ("RUNNING" in done.output) == (api == "pyslurm")
