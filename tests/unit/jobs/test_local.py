"""Jobs on this machine: started, told how they are, and supervised."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hpckit
from hpckit.core.errors import AdapterError, HpckitError
from hpckit.jobs.local import LocalSubmitter, _Launch
from hpckit.jobs.local_run import script_environment, supervisor_environment
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
    begin = "import annotations\n"
    said = f"{begin}print('this copy', flush=True)\n"
    marked.write_text(marked.read_text().replace(begin, said, 1))
    request = job_request(folder, "exit 0\n", environment={"PYTHONPATH": str(copy)})
    code = (
        "import os, sys; from pathlib import Path; from hpckit.slurm.values import SubmitRequest\n"
        "from hpckit.jobs.local import LocalSubmitter\n"
        "folder = Path(sys.argv[1])\n"
        "LocalSubmitter().submit(SubmitRequest(submission='0' * 32, job_id='L1', begun_s=0.0,\n"
        "    folder=folder, script=(folder / 'job.sbatch').read_text(), workdir=folder,\n"
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


def test_a_reused_process_id_is_not_taken_for_the_job(
    submitter: LocalSubmitter, folder: Path
) -> None:
    """A living process with the recorded id but another start is neither the job nor signalled."""
    request = job_request(folder, "exit 0\n")
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            own = psutil.Process(stranger.pid).create_time()
            write_run(folder, pid=stranger.pid, pid_started_s=own - 100, script_pid=stranger.pid)
            assert status_of(submitter, request).state is JobState.FAILED
            with pytest.raises(HpckitError, match="already ended"):
                cancel(submitter, request)
            assert stranger.poll() is None
            write_run(folder, pid=stranger.pid, pid_started_s=own)
            assert status_of(submitter, request).state is JobState.RUNNING
        finally:
            stranger.kill()


def test_a_clock_that_was_set_does_not_lose_the_job(
    submitter: LocalSubmitter, folder: Path
) -> None:
    """A process is known by its start since boot, which a step of the wall clock leaves alone."""
    request = job_request(folder, "exit 0\n")
    own = psutil.Process().create_time()
    write_run(folder, pid=os.getpid(), pid_started_s=own + 3600, booted_s=psutil.boot_time() + 3600)
    assert status_of(submitter, request).state is JobState.RUNNING


def write_run(folder: Path, **fields: object) -> None:
    """A run.json of this host, with these fields changed."""
    run = {
        "schema": "hpckit.local-run/1",
        "host": socket.gethostname(),
        "pid": 1,
        "pid_started_s": 0.0,
        "booted_s": psutil.boot_time(),
        "script_sha256": "0" * 64,
        "started_s": time.time(),
        "kill_wait_s": 0.1,
        "script_pid": None,
        "script_pid_started_s": fields.get("pid_started_s") if "script_pid" in fields else None,
    }
    (folder / "run.json").write_text(json.dumps({**run, **fields}))


def test_a_job_of_another_host_is_unknown_here(submitter: LocalSubmitter, folder: Path) -> None:
    """run.json of another host gives UNKNOWN naming it, and cancel raises AdapterError."""
    request = job_request(folder, "exit 0\n")
    write_run(folder, host="node7")
    status = status_of(submitter, request)
    assert status.state is JobState.UNKNOWN
    assert status.reason == "it runs on node7: run this command there"
    with pytest.raises(AdapterError, match="node7"):
        cancel(submitter, request)


DEEP = '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize("name", ["run.json", "result.json", "intent.json"])
@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"schema": 3}', "\xff", '{"pid": "x"}', pytest.param(DEEP, id="deep")],
)
def test_a_damaged_record_is_unknown(
    submitter: LocalSubmitter, folder: Path, name: str, text: str
) -> None:
    """A record that is cut off or of another form gives UNKNOWN or PENDING, never an exception."""
    request = job_request(folder, "exit 0\n")
    (folder / name).write_bytes(text.encode("latin-1"))
    status = status_of(submitter, request)
    assert status.state in (JobState.UNKNOWN, JobState.PENDING)
    assert status.reason
    if name != "intent.json":
        assert name in status.reason


def test_an_intent_of_a_dead_submitter_was_never_submitted(
    submitter: LocalSubmitter, folder: Path
) -> None:
    """With intent.json alone: PENDING while the submitter lives, at most 60 s; then unsubmitted."""
    request = job_request(folder, "exit 0\n")
    intent = folder / "intent.json"
    alive = {
        "submitter_host": socket.gethostname(),
        "submitter_pid": os.getpid(),
        "submitter_started_s": psutil.Process().create_time(),
    }
    intent.write_text(json.dumps(alive))
    assert status_of(submitter, request).state is JobState.PENDING
    intent.write_text(json.dumps({**alive, "submitter_started_s": 1.0}))
    assert status_of(submitter, request).state is JobState.NOT_SUBMITTED
    intent.write_text(json.dumps({**alive, "submitter_started_s": 1.0, "submitter_host": "n7"}))
    assert status_of(submitter, request).state is JobState.PENDING
    intent.write_text(json.dumps(alive))
    os.utime(intent, (time.time() - 61, time.time() - 61))
    assert status_of(submitter, request).state is JobState.NOT_SUBMITTED


CALL = "import sys; from hpckit.jobs.local_run import run_script; sys.exit(run_script({}))"
ENDED_BY_THE_TEST = "echo $$; trap '' TERM; setsid sleep 60 & exit 0\n"


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Path]:
    """A job begun; nothing of the job outlives the test."""
    job = tmp_path / "job"
    (job / "logs").mkdir(parents=True)
    yield job
    kill_job(job)


def run(
    begun: Path,
    script: str,
    *,
    workdir: Path | None = None,
    digest: str | None = None,
    path: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the script under a supervisor that is a process of its own, to its end."""
    (begun / "job.sbatch").write_text(script)
    known = hashlib.sha256(script.encode()).hexdigest()
    arguments = (
        str(begun),
        str(workdir or begun),
        digest or known,
        None,
        0.2,
    )
    environment = {**os.environ, "HPCKIT_JOB_FOLDER": str(begun)}
    own = supervisor_environment(environment | ({"PATH": path} if path else {}), ":".join(sys.path))
    return subprocess.run(
        [sys.executable, "-c", CALL.format(", ".join(map(repr, arguments)))],
        env=own,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def result_of(begun: Path) -> dict[str, object]:
    """The content of result.json."""
    return dict(json.loads((begun / "result.json").read_text()))


def test_a_changed_script_is_not_run(begun: Path) -> None:
    """A job.sbatch with another SHA-256 is FAILED with 126, and none of it was run."""
    done = run(begun, "touch ran\n", digest="0" * 64)
    assert done.returncode == 126
    result = result_of(begun)
    assert (result["state"], result["exit_code"]) == ("FAILED", 126)
    assert "changed after submission" in str(result["reason"])
    assert not (begun / "ran").exists()


def test_a_missing_working_directory_is_the_reason(begun: Path, tmp_path: Path) -> None:
    """A workdir that is not there is FAILED with 127, and the reason names it."""
    assert run(begun, "exit 0\n", workdir=tmp_path / "gone").returncode == 127
    assert str(result_of(begun)["reason"]).startswith(
        f"cannot enter the working directory {tmp_path / 'gone'}"
    )


def test_a_missing_bash_is_the_reason(begun: Path) -> None:
    """Where PATH holds no bash the job is FAILED with 127 and says so."""
    assert run(begun, "exit 0\n", path="/nowhere").returncode == 127
    assert str(result_of(begun)["reason"]).startswith("cannot run bash")


def test_a_log_that_cannot_be_opened_is_the_reason(begun: Path) -> None:
    """Without a place for its output the script is not started."""
    (begun / "logs" / "job.log").mkdir()
    assert run(begun, "touch ran\n").returncode == 126
    assert "job.log" in str(result_of(begun)["reason"])
    assert not (begun / "ran").exists()


def test_nothing_is_started_that_cannot_be_recorded(begun: Path) -> None:
    """Where run.json cannot be written, the script is not started."""
    (begun / "run.json").mkdir()
    done = run(begun, "touch ran\n")
    assert done.returncode != 0
    assert "run.json cannot be written" in done.stderr
    assert not (begun / "ran").exists()


def test_a_result_that_cannot_be_written_leaves_no_process(begun: Path) -> None:
    """Where result.json cannot be written, the job's processes are ended all the same."""
    (begun / "result.json").mkdir()
    done = run(begun, ENDED_BY_THE_TEST)
    assert done.returncode == 0
    assert "result.json cannot be written" in done.stderr
    assert not processes_of(begun)


NAMES = st.one_of(
    st.sampled_from(["PYTHONPATH", "PYTHONHOME", "SUBMITIT_EXECUTOR", "HPCKIT_JOB_ID", "LANG"]),
    st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True),
)


@given(st.dictionaries(NAMES, st.text(st.characters(codec="ascii"), max_size=5)))
def test_the_scripts_environment_is_the_given_one(environment: dict[str, str]) -> None:
    """What the supervisor needs is put on and taken off again, for any environment."""
    assert script_environment(supervisor_environment(environment, "/x:/y")) == environment
