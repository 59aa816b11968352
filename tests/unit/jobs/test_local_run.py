from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.jobs.local_run import script_environment, supervisor_environment
from tests.fakes.local_job import kill_job, processes_of

CALL = "import sys; from hpckit.jobs.local_run import run_script; sys.exit(run_script({}))"
ENDED_BY_THE_TEST = "echo $$; trap '' TERM; setsid sleep 60 & exit 0\n"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A job folder; nothing of the job outlives the test."""
    job = tmp_path / "job"
    (job / "logs").mkdir(parents=True)
    yield job
    kill_job(job)


def run(
    folder: Path,
    script: str,
    *,
    workdir: Path | None = None,
    digest: str | None = None,
    path: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the script under a supervisor that is a process of its own, to its end."""
    (folder / "job.sbatch").write_text(script)
    known = hashlib.sha256(script.encode()).hexdigest()
    arguments = (str(folder), str(workdir or folder), digest or known, None, 0.2)
    environment = {**os.environ, "HPCKIT_JOB_FOLDER": str(folder)}
    own = supervisor_environment(environment | ({"PATH": path} if path else {}), ":".join(sys.path))
    return subprocess.run(
        [sys.executable, "-c", CALL.format(", ".join(map(repr, arguments)))],
        env=own,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def result_of(folder: Path) -> dict[str, object]:
    """The content of result.json."""
    return dict(json.loads((folder / "result.json").read_text()))


def test_a_changed_script_is_not_run(folder: Path) -> None:
    """A job.sbatch with another SHA-256 is FAILED with 126, and none of it was run."""
    done = run(folder, "touch ran\n", digest="0" * 64)
    assert done.returncode == 126
    result = result_of(folder)
    assert (result["state"], result["exit_code"]) == ("FAILED", 126)
    assert "not the script that was submitted" in str(result["reason"])
    assert not (folder / "ran").exists()


def test_a_missing_working_directory_is_the_reason(folder: Path, tmp_path: Path) -> None:
    """A workdir that is not there is FAILED with 127, and the reason names it."""
    assert run(folder, "exit 0\n", workdir=tmp_path / "gone").returncode == 127
    assert str(result_of(folder)["reason"]).startswith(
        f"the working directory {tmp_path / 'gone'} cannot be entered"
    )


def test_a_working_directory_that_is_a_file_is_the_reason(folder: Path) -> None:
    """A workdir that is no folder is FAILED with 126."""
    assert run(folder, "exit 0\n", workdir=folder / "job.sbatch").returncode == 126
    assert "cannot be entered" in str(result_of(folder)["reason"])


def test_a_missing_bash_is_the_reason(folder: Path) -> None:
    """Where PATH holds no bash the job is FAILED with 127 and says so."""
    assert run(folder, "exit 0\n", path="/nowhere").returncode == 127
    assert str(result_of(folder)["reason"]).startswith("bash cannot be run")


def test_a_log_that_cannot_be_opened_is_the_reason(folder: Path) -> None:
    """Without a place for its output the script is not started."""
    (folder / "logs" / "job.log").mkdir()
    assert run(folder, "touch ran\n").returncode == 126
    assert "job.log" in str(result_of(folder)["reason"])
    assert not (folder / "ran").exists()


def test_nothing_is_started_that_cannot_be_recorded(folder: Path) -> None:
    """Where run.json cannot be written, the script is not started."""
    (folder / "run.json").mkdir()
    done = run(folder, "touch ran\n")
    assert done.returncode != 0
    assert "run.json cannot be written" in done.stderr
    assert not (folder / "ran").exists()


def test_a_result_that_cannot_be_written_leaves_no_process(folder: Path) -> None:
    """Where result.json cannot be written, the job's processes are ended all the same."""
    (folder / "result.json").mkdir()
    done = run(folder, ENDED_BY_THE_TEST)
    assert done.returncode == 0
    assert "result.json cannot be written" in done.stderr
    assert not processes_of(folder)


def test_run_json_names_the_script(folder: Path) -> None:
    """run.json holds the process that leads the script's session, and the script's digest."""
    run(folder, "echo $$\n")
    record = json.loads((folder / "run.json").read_text())
    assert record["schema"] == "hpckit.local-run/1"
    assert record["script_pid"] == int((folder / "logs" / "job.log").read_text())
    assert record["script_sha256"] == hashlib.sha256(b"echo $$\n").hexdigest()


NAMES = st.one_of(
    st.sampled_from(["PYTHONPATH", "PYTHONHOME", "SUBMITIT_EXECUTOR", "HPCKIT_JOB_ID", "LANG"]),
    st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True),
)


@given(st.dictionaries(NAMES, st.text(st.characters(codec="ascii"), max_size=5)))
def test_the_scripts_environment_is_the_given_one(environment: dict[str, str]) -> None:
    """What the supervisor needs is put on and taken off again, for any environment."""
    assert script_environment(supervisor_environment(environment, "/x:/y")) == environment
