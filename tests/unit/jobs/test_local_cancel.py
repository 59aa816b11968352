from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hpckit.core.errors import HpckitError
from hpckit.jobs.local import LocalSubmitter
from hpckit.slurm.values import JobState, SubmitRequest
from tests.fakes.local_job import (
    cancel,
    final_status,
    job_request,
    kill_job,
    log_of,
    processes_of,
    run_of,
    says,
    status_of,
    supervisor_of,
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


TRAP = "trap 'echo told; exit 3' TERM"
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
        TRAP + STUBBORN + rest,
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
    cancel(submitter, request)
    status = final_status(submitter, request)
    assert (status.state, status.exit_code) == (JobState.CANCELLED, 3)
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
    request = stubborn(folder, "wait", time_limit_s=2)
    submitter.submit(request)
    status = final_status(submitter, request)
    assert (status.state, status.exit_code) == (JobState.TIMEOUT, 3)
    assert status.reason == "the job reached its time limit of 2 s"
    assert b"told" in log_of(folder)
    assert not processes_of(folder)


def test_term_goes_to_the_script_first(submitter: LocalSubmitter, folder: Path) -> None:
    """A script that traps TERM decides what its ranks are sent, and its code is kept."""
    script = (
        "python3 -c 'import signal, sys, time\n"
        'signal.signal(15, lambda *_: (print("TERM to the rank"), sys.exit(1)))\n'
        'signal.signal(10, lambda *_: (print("USR1 to the rank"), sys.exit(5)))\n'
        'print("ready", flush=True); time.sleep(60)\' & pid=$!\n'
        "trap 'sleep 0.3; kill -USR1 $pid' TERM\nwait $pid; wait $pid\n"
    )
    request = job_request(folder, script, kill_wait_s=10)
    submitter.submit(request)
    says(folder, b"ready")
    cancel(submitter, request)
    status = final_status(submitter, request)
    assert log_of(folder) == b"ready\nUSR1 to the rank\n"
    assert (status.state, status.exit_code) == (JobState.CANCELLED, 5)


def test_a_trap_behind_a_foreground_command_is_reached(
    submitter: LocalSubmitter, folder: Path
) -> None:
    """A bash that waits for a foreground command runs its trap well before kill_wait_s."""
    request = job_request(
        folder, "trap 'echo trapped; exit 4' TERM\necho ready\nsleep 120\n", kill_wait_s=60
    )
    submitter.submit(request)
    says(folder, b"ready")
    asked_s = time.monotonic()
    cancel(submitter, request)
    assert final_status(submitter, request).exit_code == 4
    assert b"trapped" in log_of(folder)
    assert time.monotonic() - asked_s < 30


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
    cancel(submitter, request, name)
    status = final_status(submitter, request)
    assert (status.state, status.exit_code) == (JobState.FAILED, 9)
    assert f"got {short}".encode() in log_of(folder)


def test_an_unknown_signal_is_refused(submitter: LocalSubmitter, folder: Path) -> None:
    """A signal that the supervisor does not forward raises HpckitError and names those it does."""
    request = job_request(folder, "exec sleep 60\n")
    submitter.submit(request)
    with pytest.raises(HpckitError, match="HUP, INT, KILL, TERM, USR1, USR2"):
        cancel(submitter, request, "WINCH")
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
    cancel(submitter, request)
    assert not processes_of(folder)
    with pytest.raises(HpckitError, match="already ended: FAILED"):
        cancel(submitter, request)


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
    cancel(submitter, request)
    until(lambda: not hidden.is_running())


def test_term_alone_is_followed_by_a_cancel(submitter: LocalSubmitter, folder: Path) -> None:
    """TERM to the supervisor after a forwarded TERM ends the job: a request counts once."""
    request = job_request(
        folder, "trap 'echo got' TERM\necho ready\nwhile :; do sleep 60 & wait; done\n"
    )
    submitter.submit(request)
    says(folder, b"ready")
    cancel(submitter, request, "TERM")
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
    cancel(submitter, request, "USR1")
    says(folder, b"got")
