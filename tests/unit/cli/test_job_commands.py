"""The commands about submitted jobs: what people read and what programs read."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpckit import wiring
from hpckit.cli import output
from hpckit.core.errors import HpckitError
from tests.fakes.cli_jobs import call, document, ended_job, started_job, words


def message(*args: str | Path) -> str:
    """The error that the command line ends with."""
    error = call(*args, refused=True).exception
    assert isinstance(error, HpckitError), error
    return error.message


def test_show_says_what_was_submitted() -> None:
    """`show` names job, folder, digests, and every value with where it came from."""
    job = ended_job("echo", "a\x1bb")
    text = call("show", job.job_id).stdout
    assert f"job     {job.job_id}   echo   site local" in text
    assert str(job.folder) in text
    assert job.script_sha256[:12] in text
    assert re.search(r"launch\.kind +\"plain\" +default", text)
    assert "\x1b" not in text


def test_show_gives_the_script_byte_for_byte() -> None:
    """`show --script` prints the file that was submitted, and --json holds it beside the job."""
    job = ended_job("echo", "ü")
    script = (job.folder / "job.sbatch").read_text()
    assert call("show", "--script").stdout == script
    runner = call("show", "--runner").stdout
    assert f"export HPCKIT_JOB_FOLDER={job.folder}\n" in runner
    assert "\"${agent[@]}\" rank --from env -- echo 'ü' &\n" in runner
    shown = document("show", "--json", "--script", job.job_id)
    assert (shown["schema"], shown["script"]) == ("hpckit.job-record/1", script)
    assert shown["script_sha256"] == job.script_sha256
    assert shown["effective"]["job"]["command"] == ["echo", "ü"]


def test_show_of_a_removed_folder_is_an_error() -> None:
    """A job whose folder is gone is said to be unreadable, with the path."""
    job = ended_job()
    (job.folder / "job.sbatch").unlink()
    assert "job.sbatch cannot be read" in message("show", job.job_id)


def test_status_of_a_job_that_ended() -> None:
    """`status` gives state, duration, exit code, reason and what to do next."""
    job = ended_job("false", exit_code=7)
    text = words(call("status").stdout)
    assert f"{job.job_id} false FAILED in 2.5 s · exit code 7" in text
    assert text.endswith(f"next hpckit logs {job.job_id}")
    found = document("status", "--json", job.job_id)
    assert (found["schema"], found["state"], found["exit_code"]) == (
        "hpckit.status/1",
        "FAILED",
        7,
    )
    assert found["ended_s"] - found["started_s"] == pytest.approx(2.5)


def test_status_of_a_job_whose_start_is_lost() -> None:
    """A job whose run.json is gone is UNKNOWN with the reason."""
    started_job("true")
    text = words(call("status").stdout)
    assert "UNKNOWN · it was started, and its run.json is gone" in text


def test_logs_are_printed_as_they_are() -> None:
    """`logs` gives the merged log, `--rank` that of one rank, `-f` the same of an ended job."""
    job = ended_job(logs={"job.log": b"a\xff\n", "rank-0.log": b"\x00"})
    assert call("logs").stdout_bytes == b"a\xff\n"
    assert call("logs", "-f", job.job_id).stdout_bytes == b"a\xff\n"
    assert call("logs", "--rank", "0").stdout_bytes == b"\x00"
    assert message("logs", "--rank", "1") == "there is no log of rank 1"
    assert document("logs", "--json") == {
        "schema": "hpckit.logs/1",
        "job_id": job.job_id,
        "task": None,
        "log": str(job.folder / "logs" / "job.log"),
        "ranks": {"0": str(job.folder / "logs" / "rank-0.log")},
        "tasks": {},
    }


def test_logs_of_a_task_are_named_as_slurm_does() -> None:
    """`logs ID_TASK` is one task of an array; without the task, one that has a log is named."""
    job = ended_job(logs={"job-3.log": b"three\n", "job-12.log": b"twelve\n"})
    (job.folder / "logs" / "array-3").mkdir()
    (job.folder / "logs" / "array-3" / "rank-1.log").write_bytes(b"one\n")
    assert call("logs", f"{job.job_id}_12").stdout_bytes == b"twelve\n"
    assert call("logs", f"{job.job_id}_3", "--rank", "1").stdout_bytes == b"one\n"
    assert "each of its tasks has its own log" in message("logs", job.job_id)
    found = document("logs", "--json", f"{job.job_id}_3")
    assert (found["task"], found["log"]) == (3, str(job.folder / "logs" / "job-3.log"))
    assert found["ranks"] == {"1": str(job.folder / "logs" / "array-3" / "rank-1.log")}
    assert list(found["tasks"]) == ["3", "12"]


@pytest.mark.parametrize("exit_code", [0, 7])
def test_wait_ends_with_the_jobs_answer(exit_code: int) -> None:
    """`wait` exits 0 for a job that completed and 1 for another, and says how it ended."""
    job = ended_job(exit_code=exit_code)
    result = call("wait", job.job_id)
    assert result.exit_code == (1 if exit_code else 0)
    assert f"exit code {exit_code}" in result.stdout
    assert json.loads(call("wait", "--json").stdout)["exit_code"] == exit_code


def test_wait_takes_several_jobs() -> None:
    """`wait A B` says how each ended, in order, and exits 1 when one of them did not complete."""
    good, bad = ended_job("good"), ended_job("bad", exit_code=3)
    result = call("wait", bad.job_id, good.job_id, bad.job_id)
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["bad", "good"]
    assert result.exit_code == 1
    found = json.loads(call("wait", "--json", good.job_id, bad.job_id).stdout)
    assert found["schema"] == "hpckit.statuses/1"
    assert [one["exit_code"] for one in found["jobs"]] == [0, 3]
    assert call("wait", good.job_id, good.job_id).exit_code == 0


def test_wait_does_not_wait_longer_than_asked() -> None:
    """With --timeout the answer is no when the job has not ended by then, in one JSON document."""
    job = started_job("true")
    result = call("wait", "--timeout", "0", "--json")
    assert result.exit_code == 1
    assert f"{job.job_id} has not ended within 0 s" in result.stderr
    assert json.loads(result.stdout)["state"] == "UNKNOWN"


def test_cancel_needs_an_id_and_a_living_job() -> None:
    """No id is a usage error, an empty one and a job that has ended are refused."""
    job = ended_job()
    assert call("cancel").exit_code == 2
    assert message("cancel", "") == "'' is no job id"
    assert message("cancel", job.job_id) == f"job {job.job_id} has already ended: COMPLETED"
    assert call("cancel", job.job_id, "--signal", "WINCH").exit_code == 2


def test_jobs_lists_the_newest_first() -> None:
    """`jobs` lists id, name, state and code; -n cuts the list and says so."""
    ended_job("first", exit_code=3)
    second = ended_job("second")
    lines = call("jobs").stdout.splitlines()
    assert lines[0].split() == ["JOB_ID", "NAME", "SITE", "SUBMITTED", "STATE", "EXIT"]
    assert [line.split()[1] for line in lines[1:]] == ["second", "first"]
    assert lines[2].endswith("FAILED     3")
    cut = call("jobs", "-n", "1")
    assert len(cut.stdout.splitlines()) == 2
    assert "the newest 1; hpckit jobs --all lists every one" in cut.stderr
    assert "newest" not in call("jobs", "--all").stderr
    (newest,) = document("jobs", "-n", "1", "--json")["jobs"]
    assert (newest["job_id"], newest["exit_code"]) == (second.job_id, 0)


def test_jobs_names_what_is_not_known() -> None:
    """A job whose folder is gone is UNKNOWN with the cause on stderr, and the others are listed."""
    gone, there = started_job("gone"), ended_job("there")
    shutil.rmtree(gone.folder)
    result = call("jobs")
    assert [line.split()[1] for line in result.stdout.splitlines()[1:]] == ["there", "gone"]
    assert f"note  1 UNKNOWN: the folder of {gone.job_id} is gone" in result.stderr
    assert f"the folder of {gone.job_id} is gone" in message("status", gone.job_id)
    assert call("status", there.job_id).exit_code == 0


def test_no_jobs_is_talk_and_an_empty_list() -> None:
    """Without a job stdout is empty, and JSON an empty list."""
    result = call("jobs")
    assert result.stdout == ""
    assert "no job has been submitted yet" in result.stderr
    assert document("jobs", "--json") == {"schema": "hpckit.jobs/1", "jobs": []}


def test_jobs_rebuilt_names_what_was_left_out() -> None:
    """--rebuild says how many jobs it found where, and names a folder that cannot be read."""
    job = ended_job()
    (job.folder.parent / "odd").mkdir()
    (job.folder.parent / "odd" / "intent.json").write_text("{}")
    result = call("jobs", "--rebuild")
    assert re.search(rf"index rebuilt: 1 jobs from .*{job.folder.parent}", result.stderr)
    assert f"note  left out: {job.folder.parent / 'odd'}: 'job_id'" in result.stderr
    assert job.job_id in result.stdout


def test_doctor_exits_by_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`doctor` lists its findings, and exits 1 if something needed is missing."""
    found = document("doctor", "--json")
    levels = {one["subject"]: one["level"] for one in found["findings"]}
    assert found["schema"] == "hpckit.doctor/1"
    assert (levels["bash"], levels["job folders"], levels["job index"]) == ("ok", "ok", "ok")
    monkeypatch.setenv("PATH", str(tmp_path))
    result = call("doctor")
    assert result.exit_code == 1
    assert re.search(r"^ error +bash +bash was not found.*install the package bash", result.stdout,
                     re.MULTILINE)  # fmt: skip


def submitted(*args: str) -> dict[str, Any]:
    """The document of a job that ran to its end on this machine."""
    value: dict[str, Any] = json.loads(call("submit", "--local", "--wait", "--json", *args).stdout)
    return value


def test_submit_tells_how_it_went(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`submit --wait` shows size, script, held-back variables, each rank's last line, the end."""
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    args = ("--partition", "p", "--time", "0:05:00", "--ntasks-per-node", "2")
    said = f"echo r$RANK; cd {tmp_path}; touch $RANK; until [ -e 0 -a -e 1 ]; do sleep 0.01; done"
    result = call("submit", "--local", "--wait", *args, "--", "sh", "-c", f"{said}; exit 3")
    text = words(result.stdout)
    assert result.exit_code == 1
    assert "1 node × 2 ranks · 0:05:00 site local" in text
    assert "held back: NCCL_ALGO (--pass NAME lets one through)" in text
    assert "not applied at site local: slurm.partition" in text
    assert "0: r0 1: r1" in text
    assert re.search(r"ended FAILED in [\d.]+ (s|ms) · exit code 3", text)


def test_submit_quietly_prints_the_id_alone() -> None:
    """--quiet prints the id and nothing else, with --wait too."""
    result = call("submit", "--local", "--wait", "--quiet", "--", "true")
    assert re.fullmatch(r"L[0-9a-f]{8}\n", result.stdout)
    assert submitted("--", "true")["state"] == "COMPLETED"


def test_logs_of_a_job_without_a_folder_say_so() -> None:
    """`logs`, with -f too, says that the folder is gone, not that the job left no log."""
    job = ended_job(logs={"job.log": b"a\n"})
    shutil.rmtree(job.folder)
    for more in ((), ("-f",), ("--json",)):
        assert message("logs", job.job_id, *more) == (
            f"the folder of {job.job_id} is gone, and its logs with it: {job.folder}"
        )


def test_logs_of_a_task_of_no_array_say_so() -> None:
    """The task of a job that is no array is refused as such, not as one without a log yet."""
    job = ended_job(logs={"job.log": b"a\n"})
    for more in ((), ("-f",), ("--json",), ("--rank", "0")):
        assert message("logs", f"{job.job_id}_3", *more) == (
            f"job {job.job_id} is no job array and has no task 3"
        )


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb", "a\x07b", "a\u202eb"])
def test_a_name_that_steers_is_shown_on_one_line(name: str) -> None:
    """A name that somebody put into the index moves no cursor and breaks no line."""
    job = ended_job("true")
    wiring.job_index().update([replace(job.entry, name=name)])
    for command in ("status", "wait", "jobs", "show"):
        (line, *_) = [one for one in call(command).stdout.split("\n") if job.job_id in one]
        assert line.isprintable()
        assert output.one_line(name) in line
