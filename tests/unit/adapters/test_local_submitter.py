from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hpckit.adapters.local_submitter import LocalSubmitter
from hpckit.errors import AdapterError, HpckitError
from hpckit.model.slurm import JobState
from hpckit.ports import SubmitRequest
from tests.fakes.local_job import (
    final_status,
    job_request,
    kill_processes_of,
    processes_of,
    status_of,
    until,
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the job folder will be; nothing of the job outlives the test."""
    yield tmp_path / "job"
    kill_processes_of(tmp_path / "job")


@pytest.fixture
def submitter() -> LocalSubmitter:
    """A submitter with this Python."""
    return LocalSubmitter()


def log_of(folder: Path) -> bytes:
    """The job's merged output so far."""
    return (folder / "logs" / "job.log").read_bytes()


def run_of(folder: Path) -> dict[str, object]:
    """The content of run.json."""
    return dict(json.loads((folder / "run.json").read_text()))


def says(folder: Path, word: bytes) -> None:
    """Return when the job has printed a word."""
    until(lambda: word in log_of(folder))


def supervisor_of(folder: Path) -> psutil.Process:
    """The process that watches the job."""
    return psutil.Process(int(str(run_of(folder)["pid"])))


STUBBORN = """
python3 -c 'import signal, time; signal.signal(15, signal.SIG_IGN); print("deaf", flush=True)
time.sleep(60)' &
setsid bash -c 'trap "" TERM; (sleep 60 & ) ; echo far; sleep 60' &
until grep -q deaf "$LOG" && grep -q far "$LOG"; do sleep 0.01; done
"""


def stubborn(folder: Path, rest: str, **options: float) -> SubmitRequest:
    """A job with a deaf rank and a daemon in another session, which goes on with `rest`."""
    limit = options.get("time_limit_s")
    return job_request(
        folder,
        STUBBORN + rest,
        environment={"LOG": str(folder / "logs" / "job.log")},
        time_limit_s=None if limit is None else int(limit),
        kill_wait_s=0.3,
    )


def test_a_cancelled_job_leaves_no_process(submitter: LocalSubmitter, folder: Path) -> None:
    """A rank that ignores TERM and one that left the session are killed after kill_wait_s."""
    request = stubborn(folder, "echo ready; wait")
    submitter.submit(request)
    says(folder, b"ready")
    assert len(processes_of(folder)) >= 4
    submitter.cancel(request.job_id, folder, None)
    status = final_status(submitter, request)
    assert (status.state, status.exit_code) == (JobState.CANCELLED, 143)
    assert not processes_of(folder)


def test_what_a_script_leaves_behind_is_ended(submitter: LocalSubmitter, folder: Path) -> None:
    """A script that exits 0 and leaves daemons is COMPLETED, and they are gone."""
    request = stubborn(folder, "exit 0")
    submitter.submit(request)
    status = final_status(submitter, request)
    assert (status.state, status.exit_code) == (JobState.COMPLETED, 0)
    assert not processes_of(folder)


def test_the_time_limit_ends_everything(submitter: LocalSubmitter, folder: Path) -> None:
    """After time_limit_s the state is TIMEOUT, and no process is left."""
    request = stubborn(folder, "trap 'echo told; exit 3' TERM; wait", time_limit_s=1)
    submitter.submit(request)
    status = final_status(submitter, request)
    assert (status.state, status.exit_code) == (JobState.TIMEOUT, 3)
    assert status.reason == "the time limit of 1 s was reached"
    assert b"told" in log_of(folder)
    assert not processes_of(folder)


def test_term_goes_to_the_script_first(submitter: LocalSubmitter, folder: Path) -> None:
    """A script that traps TERM decides what its ranks are sent, and its code is kept."""
    script = (
        "python3 -c 'import signal, sys, time\n"
        'signal.signal(15, lambda *_: (print("TERM to the rank"), sys.exit(1)))\n'
        'signal.signal(10, lambda *_: (print("USR1 to the rank"), sys.exit(5)))\n'
        'print("ready", flush=True); time.sleep(60)\' & pid=$!\n'
        "trap 'kill -USR1 $pid' TERM\nwait $pid; wait $pid\n"
    )
    request = job_request(folder, script, kill_wait_s=10)
    submitter.submit(request)
    says(folder, b"ready")
    submitter.cancel(request.job_id, folder, None)
    status = final_status(submitter, request)
    assert log_of(folder) == b"ready\nUSR1 to the rank\n"
    assert (status.state, status.exit_code) == (JobState.CANCELLED, 5)


def test_a_trap_behind_a_foreground_command_is_reached(
    submitter: LocalSubmitter, folder: Path
) -> None:
    """A bash that waits for a foreground command runs its trap well before kill_wait_s."""
    request = job_request(
        folder, "trap 'echo trapped; exit 4' TERM\necho ready\nsleep 60\n", kill_wait_s=20
    )
    submitter.submit(request)
    says(folder, b"ready")
    asked_s = time.monotonic()
    submitter.cancel(request.job_id, folder, None)
    assert final_status(submitter, request).exit_code == 4
    assert b"trapped" in log_of(folder)
    assert time.monotonic() - asked_s < 10


@pytest.mark.parametrize("name", ["USR1", "usr2", "SIGHUP", "INT", "TERM"])
def test_a_signal_reaches_the_script_alone(
    submitter: LocalSubmitter, folder: Path, name: str
) -> None:
    """A named signal is only forwarded: the script's own end decides the state."""
    short = name.upper().removeprefix("SIG")
    script = f"trap 'echo got {short}; exit 9' {short}\necho ready\nsleep 60 & wait\n"
    request = job_request(folder, script)
    submitter.submit(request)
    says(folder, b"ready")
    submitter.cancel(request.job_id, folder, name)
    status = final_status(submitter, request)
    assert (status.state, status.exit_code) == (JobState.FAILED, 9)
    assert f"got {short}".encode() in log_of(folder)


def test_an_unknown_signal_is_refused(submitter: LocalSubmitter, folder: Path) -> None:
    """A signal that the supervisor does not forward raises HpckitError and names those it does."""
    request = job_request(folder, "exec sleep 60\n")
    submitter.submit(request)
    with pytest.raises(HpckitError, match="HUP, INT, KILL, TERM, USR1, USR2"):
        submitter.cancel(request.job_id, folder, "WINCH")
    assert status_of(submitter, request).state is JobState.RUNNING


def test_a_script_that_dies_of_a_signal_names_it(submitter: LocalSubmitter, folder: Path) -> None:
    """SIGKILL of the script itself gives 137 with exit_signal 9; a code 137 by exit gives none."""
    request = job_request(folder, "kill -KILL $$\n")
    submitter.submit(request)
    status = final_status(submitter, request)
    assert (status.exit_code, status.exit_signal) == (137, 9)
    other = job_request(folder.with_name("other"), "bash -c 'kill -KILL $$'\n")
    submitter.submit(other)
    status = final_status(submitter, other)
    assert (status.exit_code, status.exit_signal) == (137, None)


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
    whole = SubmitRequest(
        job_id=request.job_id,
        folder=folder,
        workdir=folder,
        environment=environment,
        time_limit_s=None,
        kill_wait_s=1,
    )
    submitter.submit(whole)
    assert final_status(submitter, whole).state is JobState.COMPLETED
    pairs = [item.partition(b"=") for item in out.read_bytes().split(b"\0") if item]
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


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
    """A job submitted under nohup gets HUP with its default action."""
    request = job_request(folder, "grep SigIgn /proc/self/status\n")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        LocalSubmitter().submit(request)
    finally:
        signal.signal(signal.SIGHUP, before)
    final_status(LocalSubmitter(), request)
    assert log_of(folder) == b"SigIgn:\t0000000000000000\n"


def test_a_killed_supervisor_is_a_failed_job_that_cancel_clears(
    submitter: LocalSubmitter, folder: Path
) -> None:
    """After SIGKILL of the supervisor the job is FAILED with a reason, and cancel ends the rest."""
    request = stubborn(folder, "echo ready; wait")
    submitter.submit(request)
    says(folder, b"ready")
    supervisor = supervisor_of(folder)
    supervisor.kill()
    until(lambda: status_of(submitter, request).state is not JobState.RUNNING)
    status = status_of(submitter, request)
    assert (status.state, status.exit_code) == (JobState.FAILED, None)
    assert status.reason is not None
    assert status.reason.startswith("the supervisor ended without recording a result")
    assert processes_of(folder)
    submitter.cancel(request.job_id, folder, None)
    assert not processes_of(folder)
    with pytest.raises(HpckitError, match="already ended: FAILED"):
        submitter.cancel(request.job_id, folder, None)


def test_what_hides_its_environment_is_found_by_its_session(
    submitter: LocalSubmitter, folder: Path
) -> None:
    """Cancel after SIGKILL of the supervisor ends a process that carries none of its variables."""
    request = job_request(folder, "env -i sleep 61 & echo $!; exec env -i sleep 60\n")
    submitter.submit(request)
    until(lambda: run_of(folder)["script_pid"] is not None and log_of(folder).endswith(b"\n"))
    hidden = psutil.Process(int(log_of(folder)))
    until(lambda: hidden.name() == "sleep" and not processes_of(folder))
    supervisor_of(folder).kill()
    until(lambda: status_of(submitter, request).state is JobState.FAILED)
    submitter.cancel(request.job_id, folder, None)
    until(lambda: not hidden.is_running())


def test_term_alone_is_followed_by_a_cancel(submitter: LocalSubmitter, folder: Path) -> None:
    """TERM to the supervisor after a forwarded TERM ends the job: a request counts once."""
    request = job_request(
        folder, "trap 'echo got' TERM\necho ready\nwhile :; do sleep 60 & wait; done\n"
    )
    submitter.submit(request)
    says(folder, b"ready")
    submitter.cancel(request.job_id, folder, "TERM")
    says(folder, b"got")
    supervisor_of(folder).terminate()
    status = final_status(submitter, request)
    assert (status.state, status.reason) == (JobState.CANCELLED, "cancelled by SIGTERM")


def test_a_signal_still_reaches_the_script_of_a_killed_supervisor(
    submitter: LocalSubmitter, folder: Path
) -> None:
    """Without a supervisor a named signal goes to the script itself."""
    request = job_request(
        folder, "trap 'echo got; exit' USR1\necho ready\nwhile sleep 0.02; do :; done\n"
    )
    submitter.submit(request)
    says(folder, b"ready")
    until(lambda: run_of(folder)["script_pid"] is not None)
    supervisor_of(folder).kill()
    until(lambda: status_of(submitter, request).state is JobState.FAILED)
    submitter.cancel(request.job_id, folder, "USR1")
    says(folder, b"got")


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
                submitter.cancel(request.job_id, folder, None)
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
    assert status.reason == "it runs on node7; ask there"
    with pytest.raises(AdapterError, match="node7"):
        submitter.cancel(request.job_id, folder, None)


@pytest.mark.parametrize("name", ["run.json", "result.json", "intent.json"])
@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": 3}', "\xff", '{"pid": "x"}'])
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
    submitter.cancel(request.job_id, folder, None)
    final_status(submitter, request)
    for name in ("run.json", "result.json", "cancel.json", "logs/job.log"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    assert (folder / "submitit").stat().st_mode & 0o777 == 0o700
    assert json.loads((folder / "cancel.json").read_text())["pid"] == os.getpid()


def test_an_ended_job_leaves_no_zombie(submitter: LocalSubmitter, folder: Path) -> None:
    """The submitter's process has no child left soon after the job has ended."""
    request = job_request(folder, "exit 0\n")
    submitter.submit(request)
    final_status(submitter, request)
    until(lambda: not psutil.Process().children())


def test_submitting_imports_submitit_only_then() -> None:
    """Importing the adapter does not import submitit."""
    code = "import sys, hpckit.adapters.local_submitter; sys.exit('submitit' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
