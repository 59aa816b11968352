from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import hpckit
from hpckit.core.errors import AdapterError
from hpckit.jobs.local import LocalSubmitter, _Launch
from hpckit.slurm.values import JobState
from tests.fakes.local_job import (
    cancel,
    final_status,
    job_request,
    kill_job,
    log_of,
    processes_of,
    run_of,
    status_of,
    until,
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the job folder will be; nothing of the job outlives the test."""
    yield tmp_path / "job"
    kill_job(tmp_path / "job")


@pytest.fixture
def submitter() -> LocalSubmitter:
    """A submitter with this Python."""
    return LocalSubmitter()


def test_output_is_kept_byte_for_byte(submitter: LocalSubmitter, folder: Path) -> None:
    """Both streams are in job.log in order, bytes that are no UTF-8 included, and nothing else."""
    request = job_request(folder, r"printf '\377\000a\n'; printf 'e\200\n' >&2; cat" + "\n")
    submitter.submit(request)
    assert final_status(submitter, request).state is JobState.COMPLETED
    assert log_of(folder) == b"\xff\x00a\ne\x80\n"


def environment_seen_by_script(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """What env prints in a job that was given `environment`."""
    submitter = LocalSubmitter()
    out = folder / "env"
    request = job_request(folder, f"exec env -0 > '{out}'\n")
    whole = replace(request, environment=environment)
    submitter.submit(whole)
    assert final_status(submitter, whole).state is JobState.COMPLETED
    pairs = [item.partition(b"=") for item in out.read_bytes().split(b"\0") if item]
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


IGNORED = (signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
BASH_ADDS = {"PWD", "SHLVL", "_", "OLDPWD"}


def test_the_script_gets_exactly_the_given_environment(folder: Path) -> None:
    """No variable is invented (CUDA_VISIBLE_DEVICES, LC_CTYPE, PYTHON*, SUBMITIT_*) or lost."""
    given = {
        "PATH": os.environ["PATH"],
        "ODD": "line\nbreak \udcff",
        "BASH_FUNC_f%%": "() { :; }",
        "SUBMITIT_EXECUTOR": "slurm",
        "PYTHONHASHSEED": "1",
        "HPCKIT_JOB_FOLDER": str(folder),
    }
    seen = environment_seen_by_script(folder, given)
    assert {name: seen[name] for name in seen if name not in BASH_ADDS | {"BASH_FUNC_f%%"}} == {
        name: given[name] for name in given if name != "BASH_FUNC_f%%"
    }
    assert seen["BASH_FUNC_f%%"].startswith("() {")


def test_a_gpu_choice_of_the_user_is_kept(folder: Path) -> None:
    """CUDA_VISIBLE_DEVICES reaches the script as it was given."""
    given = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "1,3"}
    assert environment_seen_by_script(folder, given)["CUDA_VISIBLE_DEVICES"] == "1,3"


def test_the_users_python_path_cannot_break_the_supervisor(folder: Path, tmp_path: Path) -> None:
    """Broken modules on PYTHONPATH, and a wrong PYTHONHOME, reach the script alone."""
    junk = tmp_path / "junk"
    junk.mkdir()
    for name in ("submitit", "hpckit", "psutil", "numpy", "sitecustomize", "json"):
        (junk / f"{name}.py").write_text("raise SystemExit('broken')\n")
    given = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(junk),
        "PYTHONHOME": "/nowhere",
        "PYTHONINSPECT": "1",
        "PYTHONSTARTUP": str(junk / "json.py"),
    }
    seen = environment_seen_by_script(folder, given)
    assert {name: seen[name] for name in given} == given


def test_the_supervisor_is_of_the_submitters_hpckit(folder: Path, tmp_path: Path) -> None:
    """An hpckit that was found by PYTHONPATH, before an installed one, supervises the job too."""
    copy = tmp_path / "checkout"
    shutil.copytree(Path(hpckit.__file__).parent, copy / "hpckit")
    marked = copy / "hpckit" / "jobs" / "local_run.py"
    marked.write_text(marked.read_text() + "\nprint('this copy')\n")
    request = job_request(folder, "exit 0\n", environment={"PYTHONPATH": str(copy)})
    code = (
        "import os, sys; from pathlib import Path; from hpckit.slurm.values import SubmitRequest\n"
        "from hpckit.jobs.local import LocalSubmitter\n"
        "folder = Path(sys.argv[1])\n"
        "LocalSubmitter().submit(SubmitRequest(submission='0' * 32, job_id='L1', begun_s=0.0,\n"
        "    folder=folder, workdir=folder,\n"
        "    environment=dict(os.environ), time_limit_s=None, kill_wait_s=1))\n"
    )
    # Coverage would count the copy as another program.
    uncounted = {
        name: value
        for name, value in request.environment.items()
        if not name.startswith("COVERAGE_")
    }
    subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        env=uncounted,
        check=True,
        timeout=60,
        cwd="/",
    )
    assert final_status(LocalSubmitter(), request).state is JobState.COMPLETED
    logs = (folder / "submitit").glob("*_log.out")
    assert any("this copy" in log.read_text() for log in logs)


def test_the_submitters_folder_does_not_matter(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken submitit.py in the current folder does not break the supervisor."""
    (tmp_path / "submitit.py").write_text("raise SystemExit('broken')\n")
    monkeypatch.chdir(tmp_path)
    request = job_request(folder, "pwd\n", workdir=Path("/usr"))
    LocalSubmitter().submit(request)
    final_status(LocalSubmitter(), request)
    assert log_of(folder) == b"/usr\n"


def test_a_job_survives_its_terminal(submitter: LocalSubmitter, folder: Path) -> None:
    """Supervisor and script are in sessions of their own, apart from the submitter's."""
    request = job_request(folder, "echo ready; exec sleep 60\n")
    submitter.submit(request)
    until(lambda: run_of(folder)["script_pid"] is not None)
    sessions = {os.getsid(int(str(run_of(folder)[key]))) for key in ("pid", "script_pid")}
    assert len(sessions) == 2
    assert os.getsid(0) not in sessions


def test_the_script_can_trap_what_the_submitter_ignored(folder: Path) -> None:
    """A script gets every signal with its default action, whatever the submitter ignores."""
    request = job_request(folder, "grep SigIgn /proc/self/status\n")
    before = {number: signal.signal(number, signal.SIG_IGN) for number in IGNORED}
    try:
        LocalSubmitter().submit(request)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    final_status(LocalSubmitter(), request)
    # Above 31 are the real-time signals, some of them the C library's own.
    assert int(log_of(folder).split()[1], 16) & 0x7FFFFFFF == 0


def test_a_supervisor_that_cannot_start_is_reported(folder: Path, tmp_path: Path) -> None:
    """Submitting raises AdapterError with the last words, and leaves nothing running."""
    python = tmp_path / "py thon"
    python.write_text("#!/bin/sh\necho no such luck >&2\nexit 3\n")
    python.chmod(0o755)
    request = job_request(folder, "exit 0\n")
    with pytest.raises(AdapterError, match="no such luck"):
        LocalSubmitter(str(python)).submit(request)
    assert not processes_of(folder)
    assert status_of(LocalSubmitter(), request).state is JobState.PENDING


def test_an_interrupt_leaves_no_supervisor(folder: Path, tmp_path: Path) -> None:
    """Interrupted before the supervisor has recorded itself, submitting leaves nothing running."""
    python, pid = tmp_path / "python", tmp_path / "pid"
    python.write_text(f"#!/bin/sh\necho $$ > {pid}.new\nmv {pid}.new {pid}\nexec sleep 60\n")
    python.chmod(0o755)
    main = threading.get_ident()

    def waits() -> bool:
        frames = traceback.walk_stack(sys._current_frames()[main])
        return pid.exists() and any(frame.f_code is _Launch.wait.__code__ for frame, _ in frames)

    def interrupt() -> None:
        until(waits)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        LocalSubmitter(str(python)).submit(job_request(folder, "exit 0\n"))
    thread.join()
    until(lambda: not psutil.pid_exists(int(pid.read_text())))


def test_a_python_that_is_not_there_is_reported(folder: Path, tmp_path: Path) -> None:
    """Submitting raises AdapterError when its Python cannot be run."""
    with pytest.raises(AdapterError, match="not started"):
        LocalSubmitter(str(tmp_path / "none")).submit(job_request(folder, "exit 0\n"))


def test_a_folder_that_cannot_be_written_starts_nothing(folder: Path) -> None:
    """Where submitit's folder cannot be made, submit raises AdapterError and nothing runs."""
    request = job_request(folder, "exec sleep 60\n")
    (folder / "submitit").touch()
    with pytest.raises(AdapterError, match="submitit"):
        LocalSubmitter().submit(request)
    assert not processes_of(folder)


def test_a_placeholder_of_submitit_in_the_path_is_refused(tmp_path: Path) -> None:
    """A job folder with %j in its path raises AdapterError before anything is started."""
    request = job_request(tmp_path / "a%job", "exit 0\n")
    with pytest.raises(AdapterError, match="%j"):
        LocalSubmitter().submit(request)


def test_records_are_private(submitter: LocalSubmitter, folder: Path) -> None:
    """Everything that hpckit writes into the job folder is readable by its owner alone."""
    request = job_request(folder, "exec sleep 60\n")
    submitter.submit(request)
    cancel(submitter, request)
    final_status(submitter, request)
    for name in ("run.json", "result.json", "cancel.json", "logs/job.log"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    assert (folder / "submitit").stat().st_mode & 0o777 == 0o700
    assert json.loads((folder / "cancel.json").read_text())["pid"] == os.getpid()


def test_an_ended_job_leaves_no_zombie(submitter: LocalSubmitter, folder: Path) -> None:
    """The submitter's process has no child of the job left soon after the job has ended."""
    before = psutil.Process().children()
    request = job_request(folder, "exit 0\n")
    submitter.submit(request)
    final_status(submitter, request)
    until(lambda: not set(psutil.Process().children()) - set(before))


def test_submitting_imports_submitit_only_then() -> None:
    """Importing the adapter does not import submitit."""
    code = "import sys, hpckit.jobs.local; sys.exit('submitit' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
