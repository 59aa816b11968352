"""The commands about submitted jobs: what people read and what programs read."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpckit import wiring
from hpckit.cli import output
from hpckit.core.errors import HpckitError
from tests.conftest import RunHpckit
from tests.fakes.cli_jobs import call, document, ended, ended_job, started_job, words


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


@pytest.mark.parametrize(
    ("verdict", "words_"),
    [
        ("as planned", "as planned: 4 ranks on 2 nodes"),
        ("differs", "differs: 4 ranks on 2 nodes; the CPUs"),
    ],
)
def test_where_ranks_were_is_told(verdict: str, words_: str) -> None:
    """What the ranks of the latest start proved is in `status` and `report`, and how often it was.

    Slurm started the job again once: the first start proves nothing of the second.
    """
    call("submit", "--local", "--wait", "--quiet", "--", "true")
    place = Path(document("status", "--json")["folder"]) / "place"
    for start, of_nodes in ((0, "differs"), (1, verdict)):
        reasons = {"nodes": (of_nodes, "4 ranks on 2 nodes"), "env": (verdict, "the CPUs")}
        verdicts = [{"what": what, "verdict": of, "because": because}
                    for what, (of, because) in reasons.items()]  # fmt: skip
        folder = place / f"restart-{start}"
        folder.mkdir(parents=True)
        (folder / "proof.json").write_text(json.dumps({"verdicts": verdicts}))
    text = words(call("status").stdout)
    assert f" placed {words_}" in text
    assert "requeued 1 time" in text
    found = document("status", "--json")
    assert (found["requeues"], found["placement"][0]["verdict"]) == (1, verdict)
    assert f"placed {words_}" in words(call("report").stdout)


def test_the_last_line_of_a_rank_is_its_own() -> None:
    """A line that hpckit wrote into the rank's log is not shown as the rank's, tabs are blanks."""
    said = r"printf 'step\t3\n'; echo 'hpckit: a word' >&2"
    text = call("submit", "--local", "--wait", "--", "sh", "-c", said).stdout
    assert "rank 0: step    3\n" in text


def test_after_a_success_the_report_is_next() -> None:
    """In `submit --wait` and in `status`."""
    text = words(call("submit", "--local", "--wait", "--", "true").stdout)
    for said in (text, words(call("status").stdout)):
        assert re.search(r"next hpckit report (L\w+) · hpckit logs \1$", said)


def test_status_of_a_job_whose_start_is_lost() -> None:
    """A job whose run.json is gone is UNKNOWN with the reason."""
    started_job("true")
    text = words(call("status").stdout)
    assert "UNKNOWN · it was started, but its run.json is gone" in text


def test_logs_are_printed_as_they_are() -> None:
    """`logs` gives the merged log, `--rank` that of one rank, `-f` the same of an ended job."""
    job = ended_job(logs={"job.log": b"a\xff\n", "rank-0.log": b"\x00"})
    assert call("logs").stdout_bytes == b"a\xff\n"
    assert call("logs", "-f", job.job_id).stdout_bytes == b"a\xff\n"
    assert call("logs", "--rank", "0").stdout_bytes == b"\x00"
    assert message("logs", "--rank", "1") == "rank 1 has no log"
    assert document("logs", "--json") == {
        "schema": "hpckit.logs/1",
        "job_id": job.job_id,
        "task": None,
        "log": str(job.folder / "logs" / "job.log"),
        "ranks": {"0": str(job.folder / "logs" / "rank-0.log")},
        "tasks": {},
    }


def test_logs_of_some_ranks() -> None:
    """--rank and --node choose ranks' own logs, with the rank before each line if asked."""
    call("submit", "--local", "--wait", "--ntasks-per-node", "3", "--", "sh", "-c", "echo r$RANK")
    assert sorted(call("logs").stdout.split()) == ["r0", "r1", "r2"]
    assert sorted(call("logs", "--prefix").stdout.splitlines()) == ["0: r0", "1: r1", "2: r2"]
    assert sorted(call("logs", "--rank", "0,2").stdout.split()) == ["r0", "r2"]
    assert sorted(call("logs", "--rank", "1-2", "--prefix", "--tail", "9").stdout.splitlines()) == [
        "1: r1", "2: r2"]  # fmt: skip
    assert "rank 3 has no log" in message("logs", "--rank", "0-3")
    here = os.uname().nodename
    assert len(call("logs", "-f", "--node", here).stdout.split()) == 3
    assert "no such rank" in message("logs", "--node", "elsewhere")
    assert call("logs", "--rank", "x").exit_code == 2


def test_the_last_lines_of_a_log() -> None:
    """With or without ranks before them; where there is no log that is said."""
    logs = {"job.log": b"a\n\nb\n", "rank-0.log": b"a\n", "rank-1.log": b"b\n"}
    job = ended_job(logs=logs)
    assert call("logs", "--tail", "2").stdout == "\nb\n"
    assert call("logs", "--tail", "2", "--prefix").stdout == "   \n1: b\n"
    (job.folder / "logs" / "job.log").unlink()
    assert "no log" in message("logs", "--tail", "2")


def test_logs_of_a_task_are_named_as_slurm_does() -> None:
    """`logs ID_TASK` is one task of an array; without the task, one that has a log is named."""
    job = ended_job(logs={"job-3.log": b"three\n", "job-12.log": b"twelve\n"})
    (job.folder / "logs" / "array-3").mkdir()
    (job.folder / "logs" / "array-3" / "rank-1.log").write_bytes(b"one\n")
    assert call("logs", f"{job.job_id}_12").stdout_bytes == b"twelve\n"
    assert call("logs", f"{job.job_id}_3", "--rank", "1").stdout_bytes == b"one\n"
    assert "each task has its own log" in message("logs", job.job_id)
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
    assert f"{job.job_id} did not end within 0 s" in result.stderr
    assert json.loads(result.stdout)["state"] == "UNKNOWN"


def test_cancel_needs_an_id_and_a_living_job() -> None:
    """No id is a usage error, an empty one and a job that has ended are refused."""
    job = ended_job()
    assert call("cancel").exit_code == 2
    assert message("cancel", "") == "invalid job ID ''"
    assert message("cancel", job.job_id) == f"job {job.job_id} has already ended: COMPLETED"
    assert call("cancel", job.job_id, "--signal", "WINCH").exit_code == 2


def test_jobs_lists_the_newest_first() -> None:
    """`jobs` lists id, name, state and code; -n cuts the list and says so."""
    ended_job("first", exit_code=3)
    second = ended_job("second")
    lines = call("jobs").stdout.splitlines()
    heads = ["JOB_ID", "NAME", "SITE", "NODES", "SUBMITTED", "ELAPSED", "STATE", "EXIT"]
    assert lines[0].split() == heads
    assert [line.split()[1] for line in lines[1:]] == ["second", "first"]
    assert lines[2].endswith("FAILED     3")
    cut = call("jobs", "-n", "1")
    assert len(cut.stdout.splitlines()) == 2
    assert "newest 1 · all: hpckit jobs --all" in cut.stderr
    assert "newest" not in call("jobs", "--all").stderr
    (newest,) = document("jobs", "-n", "1", "--json")["jobs"]
    assert (newest["job_id"], newest["exit_code"]) == (second.job_id, 0)


def test_jobs_has_a_column_for_gpus_where_a_job_has_some() -> None:
    """All GPUs of all nodes; the job without any has an empty cell."""
    ended_job("one")
    ended(started_job("two", options={"resources.gpus_per_node": 2}))
    lines = call("jobs").stdout.splitlines()
    assert lines[0].split()[3:5] == ["NODES", "GPUS"]
    assert lines[1].split()[1:5] == ["two", "local", "1", "2"]


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
    assert "no jobs yet" in result.stderr
    assert document("jobs", "--json") == {"schema": "hpckit.jobs/1", "jobs": []}


def test_a_lost_index_is_told_from_none() -> None:
    """`jobs` and `status` name --rebuild, which finds a job by its folder."""
    job = ended_job()
    (index,) = job.folder.parents[1].glob("jobs.sqlite")
    index.unlink()
    assert "hpckit jobs --rebuild finds jobs by their folders" in call("jobs").stderr
    error = call("status", refused=True).exception
    assert isinstance(error, HpckitError)
    assert "--rebuild" in str(error.hint)
    call("jobs", "--rebuild")
    assert job.job_id in call("status").stdout


def test_a_job_file_below_a_path_that_is_not_utf_8(tmp_path: Path) -> None:
    """It is submitted, and what is recorded of it can be read again."""
    folder = tmp_path / os.fsdecode(b"a\xff")
    folder.mkdir()
    (folder / "job.toml").write_text('schema = "hpckit.job/1"\nname = "n"\ncommand = ["true"]\n')
    call("submit", "--local", "--wait", folder / "job.toml")
    assert "COMPLETED" in call("status").stdout
    assert "name" in call("show").stdout


def test_jobs_rebuilt_names_what_was_left_out() -> None:
    """--rebuild says how many jobs it found where, and names a folder that cannot be read."""
    job = ended_job()
    (job.folder.parent / "odd").mkdir()
    (job.folder.parent / "odd" / "intent.json").write_text("{}")
    result = call("jobs", "--rebuild")
    assert re.search(rf"index rebuilt: 1 jobs from .*{job.folder.parent}", result.stderr)
    assert f"note  skipped: {job.folder.parent / 'odd'}: 'job_id'" in result.stderr
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
    assert "blocked: NCCL_ALGO (--pass NAME exports one)" in text
    assert "site local ignores slurm.partition" in text
    assert "rank 0: r0 rank 1: r1" in text
    assert re.search(r"ended FAILED in [\d.]+ (s|ms) · exit code 3", text)


def test_a_job_is_submitted_again(tmp_path: Path, run_hpckit: RunHpckit) -> None:
    """As it was decided, from where it was, whatever became of its file; options override it."""
    (tmp_path / "job.toml").write_text(
        'schema = "hpckit.job/1"\nname = "n"\ncommand = ["sh", "-c", "pwd; echo $A"]\n'
        '[environment]\nset = { A = "a \\"b\\"" }\n'
    )
    run_hpckit("submit", "--local", "--wait", "job.toml", "--time", "0:05:00")
    first = document("show", "--json")
    (tmp_path / "job.toml").unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    again = run_hpckit("submit", "--again", str(first["job_id"]), "--wait", cwd=elsewhere)
    assert again.returncode == 0, again.stderr
    second = document("show", "--json")
    assert second["job_id"] != first["job_id"]
    assert second["effective"]["digest"] == first["effective"]["digest"]
    assert call("logs").stdout == f'{tmp_path}\na "b"\n'
    more = ("-N", "1", "-n", "2", "-t", "0:01:00")
    run_hpckit("submit", "--again", str(second["job_id"]), "--wait", *more)
    third = document("show", "--json")["effective"]["job"]
    assert third["resources"]["time_limit"] == "0:01:00"
    assert run_hpckit("submit", "--again", "Lx", "--", "true").returncode == 2


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
            f"the folder of {job.job_id} is gone, with its logs: {job.folder}"
        )


def test_logs_of_a_task_of_no_array_say_so() -> None:
    """The task of a job that is no array is refused as such, not as one without a log yet."""
    job = ended_job(logs={"job.log": b"a\n"})
    for more in ((), ("-f",), ("--json",), ("--rank", "0")):
        assert message("logs", f"{job.job_id}_3", *more) == (
            f"job {job.job_id} is not a job array: it has no task 3"
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


def _differing(*args: str | Path) -> tuple[str, str]:
    done = call("render", "--site", "local", *args)
    return done.stdout, done.stderr


def test_render_diff_shows_what_changed_since_a_job() -> None:
    """`render --diff JOB_ID` shows changed lines; digests and reasons are no change."""
    job = ended_job("echo", "a")
    same = ("--diff", job.job_id, "--", "echo", "a")
    assert _differing(*same) == (f" no change: the script is that of job {job.job_id}\n", "")
    out, err = _differing("--time", "9:00", "--diff", job.job_id, "--", "echo", "b")
    changed = [line for line in out.splitlines() if line[:1] in "+-"]
    assert changed == [
        f"--- job {job.job_id}", "+++ now", "+#SBATCH --time=00:09:00", "-  echo a", "+  echo b"
    ]  # fmt: skip
    assert "not shown: comments on hpckit's version, digests" in err


def test_render_diff_compares_with_a_batch_script(tmp_path: Path) -> None:
    """A file is compared as it is; one that is not there is an error that names it."""
    old = tmp_path / "old.sbatch"
    old.write_text("#!/bin/bash\n#SBATCH --nodes=1\nsrun echo a\n")
    out, err = _differing("--diff", old, "--", "echo", "a")
    assert (out.startswith(f"--- {old}\n"), "\n-srun echo a\n" in out, err) == (True, True, "")
    assert "\n #SBATCH --nodes=1\n" in out
    old.write_bytes(b"#!/bin/bash\r\n#SBATCH --comment='a # \x1b'\r\n")
    out, _ = _differing("--diff", old, "--set", "slurm.comment=a # c", "--", "echo", "a")
    assert "\n-#SBATCH --comment='a # \\u001b'\\u000d\n" in out
    assert '\n+#SBATCH --comment="a # c"' in out
    assert "none.sbatch cannot be read" in message("render", "--diff", "none.sbatch", "--", "true")
