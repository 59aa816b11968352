"""The rank entry, run from the archive as a launcher runs it."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpckit.injob.supervise import slurmstepd_signals_all
from tests.unit.injob.conftest import Run, Start

SLURM = ("rank", "--from", "slurm", "--")


def python(code: str) -> tuple[str, ...]:
    """The command that runs a piece of Python."""
    return (sys.executable, "-I", "-S", "-c", code)


def wait_for(condition: Callable[[], Any]) -> None:
    """Wait until something is so, at most a minute."""
    deadline_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline_s, "not so within a minute"
        time.sleep(0.005)


def rank_log(job_folder: Path) -> Path:
    """The log of the rank of `rank_env`."""
    return job_folder / "logs" / "rank-3.log"


@pytest.mark.parametrize(
    "words",
    [
        ("dance",),
        ("rank", "--from", "slurm", "--"),
        ("rank", "--from", "moon", "--", "true"),
        ("rank", "--from", "slurm", "true"),
        ("--version", "please"),
        ("topology", "folder", "file", "-1"),
    ],
)
def test_a_wrong_command_line_shows_the_usage(run: Run, words: tuple[str, ...]) -> None:
    """Anything that is not a command line gives the usage on stderr and exit 2."""
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"usage: hpckit-injob rank")
    assert re.fullmatch(rb"hpckit-injob \d+\.\d+\.\d+\n", run("--version").stdout)


def test_the_command_gets_torchs_variables(run: Run, rank_env: dict[str, str]) -> None:
    """Under plain srun the command sees the variables of torch's env:// method."""
    shown = run(*SLURM, "sh", "-c", "echo $RANK $WORLD_SIZE $LOCAL_RANK $NODE_RANK", env=rank_env)
    assert shown.stdout == b"3 4 1 1\n"


def test_env_source_leaves_the_variables_alone(run: Run, rank_env: dict[str, str]) -> None:
    """With --from env the launcher's word stands, odd as it may be, and nothing is added."""
    env = {**rank_env, "RANK": "03"}
    done = run("rank", "--from", "env", "--", "sh", "-c", "echo $RANK ${WORLD_SIZE-none}", env=env)
    assert done.stdout == b"03 none\n"


def test_a_process_without_rank_runs_unlogged(run: Run, job_folder: Path) -> None:
    """No rank in the environment is one warning; the command runs and keeps its code."""
    env = {"HPCKIT_JOB_FOLDER": str(job_folder)}
    done = run(*SLURM, "sh", "-c", "echo ran; exit 4", env=env)
    assert (done.returncode, done.stdout) == (4, b"ran\n")
    assert done.stderr.count(b"\n") == 1
    assert b"the environment has no rank number (--from slurm)" in done.stderr
    assert list((job_folder / "logs").iterdir()) == []


@pytest.mark.parametrize("logged", [True, False])
def test_python_adds_no_locale(run: Run, rank_env: dict[str, str], logged: bool) -> None:
    """The command does not see the LC_CTYPE that Python sets for itself in the C locale."""
    env = {**rank_env, "LC_ALL": ""} if logged else {"SLURM_PROCID": "3", "LC_ALL": ""}
    assert b"LC_CTYPE" not in run(*SLURM, "env", env=env).stdout
    assert b"LC_CTYPE=C\n" in run(*SLURM, "env", env={**env, "LC_CTYPE": "C"}).stdout


def test_streams_stay_apart_and_both_reach_the_log(
    run: Run, rank_env: dict[str, str], job_folder: Path
) -> None:
    """A second run appends, as of a requeued job; the log is its owner's alone."""
    for _ in range(2):
        done = run(*SLURM, "sh", "-c", "echo out; sleep 0.05; echo err >&2", env=rank_env)
        assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    assert rank_log(job_folder).read_bytes() == b"out\nerr\n" * 2
    assert stat.S_IMODE(rank_log(job_folder).stat().st_mode) == 0o600


def test_order_is_exact_where_both_streams_are_one(
    run: Run, rank_env: dict[str, str], job_folder: Path
) -> None:
    """With both streams in one file, pieces of any bytes stay in the order of their writing."""
    code = "import os\nfor n in range(2000): os.write(1 + n % 2, bytes(range(256)) * 8 + b'%d' % n)"
    done = run(*SLURM, *python(code), env=rank_env, stderr=subprocess.STDOUT)
    expected = b"".join(bytes(range(256)) * 8 + b"%d" % n for n in range(2000))
    assert done.stdout == expected
    assert rank_log(job_folder).read_bytes() == expected


def test_array_tasks_have_folders(run: Run, rank_env: dict[str, str], job_folder: Path) -> None:
    """Each task of a job array logs to a folder of its own, made when first needed."""
    for word in ("first", "second"):
        run(*SLURM, "echo", word, env={**rank_env, "SLURM_ARRAY_TASK_ID": "12"})
    log = job_folder / "logs" / "array-12" / "rank-3.log"
    assert log.read_bytes() == b"first\nsecond\n"


@pytest.mark.parametrize("extra", [{}, {"SLURM_ARRAY_TASK_ID": "12"}])
def test_a_missing_log_folder_is_one_warning(
    run: Run, rank_env: dict[str, str], tmp_path: Path, extra: dict[str, str]
) -> None:
    """A folder that is not there costs the log, never the job, and is not made."""
    env = {**rank_env, **extra, "HPCKIT_JOB_FOLDER": str(tmp_path / "nowhere")}
    done = run(*SLURM, "sh", "-c", "echo ran; exit 6", env=env)
    assert (done.returncode, done.stdout) == (6, b"ran\n")
    assert done.stderr.count(b"\n") == 1
    assert b"no rank log" in done.stderr
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("is_log", [True, False])
def test_a_full_disk_is_one_warning(
    run: Run, rank_env: dict[str, str], job_folder: Path, *, is_log: bool
) -> None:
    """A log or an output that takes no more is given up, and the other goes on."""
    if is_log:
        rank_log(job_folder).symlink_to("/dev/full")
    code = "import os, time\nfor n in range(3): os.write(1, b'x'); time.sleep(0.03)"
    with Path("/dev/full").open("wb") as full:
        stdout = subprocess.PIPE if is_log else full
        done = run(*SLURM, *python(code), env=rank_env, stdout=stdout)
    what = b"the rank log stops" if is_log else b"the output stops"
    assert done.returncode == 0
    assert done.stderr == b"hpckit: " + what + b" here: No space left on device\n"
    assert (done.stdout if is_log else rank_log(job_folder).read_bytes()) == b"xxx"


def test_a_reader_that_leaves_does_not_block_the_command(
    start: Start, rank_env: dict[str, str], job_folder: Path
) -> None:
    """When nobody reads the output any more, the command still writes all of it to the log."""
    with start(*SLURM, "head", "-c", "1000000", "/dev/zero", env=rank_env) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=10) == 0
    assert rank_log(job_folder).stat().st_size == 1_000_000


def test_a_slow_reader_on_a_nonblocking_pipe_gets_all(
    start: Start, rank_env: dict[str, str]
) -> None:
    """An output that takes no more for now is tried again, not given up."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    command = (*SLURM, "head", "-c", "1000000", "/dev/zero")
    with start(*command, env=rank_env, stdout=write_end) as process:
        os.close(write_end)
        time.sleep(0.2)
        with os.fdopen(read_end, "rb") as stream:
            assert len(stream.read()) == 1_000_000
        assert process.wait(timeout=10) == 0


def test_closed_outputs_are_no_fault(run: Run, rank_env: dict[str, str], job_folder: Path) -> None:
    """A launcher may close all three descriptors; the log still has the output."""
    closing = ("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")
    done = run(*SLURM, "sh", "-c", "echo out; echo err >&2; exit 3", env=rank_env, via=closing)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")
    assert sorted(rank_log(job_folder).read_bytes().split()) == [b"err", b"out"]


@pytest.mark.parametrize("left", ["sleep 20", "cat /dev/zero"])
def test_a_grandchild_with_the_pipe_open_holds_nothing_up(
    run: Run, rank_env: dict[str, str], left: str
) -> None:
    """The entry ends with the command, though a process it left behind may write for ever."""
    began_s = time.monotonic()
    done = run(*SLURM, "sh", "-c", f"{left} & echo $! >&2; exit 3", env=rank_env)
    with contextlib.suppress(ProcessLookupError):  # one that talks dies of the broken pipe
        os.kill(int(done.stderr), signal.SIGKILL)
    assert done.returncode == 3
    assert time.monotonic() - began_s < 15


def test_the_last_words_of_a_full_pipe_arrive(run: Run, rank_env: dict[str, str]) -> None:
    """What the command wrote just before its end is copied after it."""
    code = "import os; os.write(2, b'e' * 60000); os.write(1, b'o' * 60000)"
    for _ in range(5):
        done = run(*SLURM, *python(code), env=rank_env)
        assert (len(done.stdout), len(done.stderr)) == (60000, 60000)


@pytest.mark.parametrize(
    "end", ["exit 0", "exit 255", "kill -9 $$", "kill -TERM $$", "kill -SEGV $$", "kill -PIPE $$"]
)
@pytest.mark.parametrize("logged", [True, False])
def test_the_commands_end_is_the_entrys(
    run: Run, rank_env: dict[str, str], tmp_path: Path, end: str, *, logged: bool
) -> None:
    """Its code, or its signal without a second core file, supervised or not."""
    env = rank_env if logged else {"SLURM_PROCID": "3"}
    words = ("sh", "-c", f"ulimit -S -c 0; {end}")
    expected = subprocess.run(words, check=False).returncode
    assert run(*SLURM, *words, env=env, cwd=tmp_path).returncode == expected
    assert not list(tmp_path.glob("core*"))


@pytest.mark.parametrize("logged", [True, False])
def test_a_missing_command_is_127(run: Run, rank_env: dict[str, str], logged: bool) -> None:
    """A command that is not there is one line with the rank, and the shell's code 127."""
    env = rank_env if logged else {"SLURM_PROCID": "3"}
    done = run(*SLURM, "no-such-command", env=env)
    assert done.returncode == 127
    assert done.stderr == b"hpckit: rank 3: command not found: no-such-command\n"


@pytest.mark.parametrize("logged", [True, False])
@pytest.mark.parametrize(
    ("mode", "text", "why"),
    [
        (0o600, "#!/bin/sh\n", "Permission denied"),
        (0o700, "neither program nor script", "Exec format error"),
        (0o700, "#!/no/such/interpreter\n", "its interpreter is missing"),
    ],
)
def test_a_command_that_cannot_run_is_126(
    run: Run,
    rank_env: dict[str, str],
    tmp_path: Path,
    *,
    mode: int,
    text: str,
    why: str,
    logged: bool,
) -> None:
    """A file that the system refuses to run is one line with the reason, and code 126."""
    program = tmp_path / "program"
    program.write_text(text)
    program.chmod(mode)
    env = rank_env if logged else {"SLURM_PROCID": "3"}
    done = run(*SLURM, str(program), env=env)
    assert done.returncode == 126
    assert done.stderr.decode() == f"hpckit: rank 3: cannot run {program}: {why}\n"


def test_without_descriptors_the_command_still_runs(run: Run, rank_env: dict[str, str]) -> None:
    """When the entry cannot make its pipes, it becomes the command and says why there is no log."""
    limiting = ("sh", "-c", 'ulimit -n 6; exec "$@"', "sh")
    done = run(*SLURM, "sh", "-c", "echo ran; exit 3", env=rank_env, via=limiting)
    assert (done.returncode, done.stdout) == (3, b"ran\n")
    assert done.stderr == b"hpckit: no rank log: Too many open files\n"


ECHO_SIGNALS = """
import os, signal, sys
wanted = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT,
          signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT]
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
os.write(1, b"ready\\n")
for _ in wanted:
    os.write(1, b"%d\\n" % signal.sigwait(wanted))
os.write(1, b"saved\\n")
sys.exit(5)
"""


def test_signals_reach_the_command(start: Start, rank_env: dict[str, str]) -> None:
    """Each of the seven signals a scheduler sends is passed on, once; the code is its own.

    That holds where the entry was started with them blocked.
    """
    numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]
    numbers += [signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT]

    def hostile() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    with start(*SLURM, *python(ECHO_SIGNALS), env=rank_env, preexec_fn=hostile) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        for number in numbers:
            process.send_signal(number)
            assert process.stdout.readline() == b"%d\n" % number
        assert process.stdout.read() == b"saved\n"
        assert process.wait(timeout=10) == 5


def test_a_stalled_reader_does_not_hold_up_signals(start: Start, rank_env: dict[str, str]) -> None:
    """TERM reaches the command and ends the entry while nobody reads the output."""
    # Pieces that do not fill the pipe evenly: one of them would block a careless write halfway.
    code = "import os\nwhile True: os.write(1, bytes(40000))"
    with start(*SLURM, *python(code), env=rank_env) as process:
        log = Path(rank_env["HPCKIT_JOB_FOLDER"]) / "logs" / "rank-3.log"
        wait_for(lambda: log.exists() and log.stat().st_size >= 80000)
        time.sleep(0.1)
        process.terminate()
        time.sleep(0.2)
        # The first went to the command, which is gone; the second is for the entry's own wait.
        process.terminate()
        assert process.wait(timeout=30) == -signal.SIGTERM


def test_a_stalled_stream_does_not_hold_up_the_other(
    start: Start, rank_env: dict[str, str]
) -> None:
    """Errors come through while nobody reads the standard output."""
    flood = '"$@" & sleep 0.2; echo alive >&2; wait'
    code = "import os\nwhile True: os.write(1, bytes(40000))"
    words = (*SLURM, "sh", "-c", flood, "sh", *python(code))
    with start(*words, env=rank_env) as process:
        assert process.stderr is not None
        readable, _, _ = select.select([process.stderr], [], [], 5)
        process.kill()
        assert readable
        assert process.stderr.readline() == b"alive\n"


@pytest.mark.parametrize("logged", [True, False])
def test_the_command_starts_with_default_signals(
    run: Run, rank_env: dict[str, str], logged: bool
) -> None:
    """Signals that a shell or Python ignores or blocks are back at their defaults."""

    def hostile() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)

    env = rank_env if logged else {"SLURM_PROCID": "3"}
    done = run(*SLURM, "cat", "/proc/self/status", env=env, preexec_fn=hostile)
    status = dict(line.split(":\t", 1) for line in done.stdout.decode().splitlines())
    # glibc keeps 32 and 33 to itself, and its posix_spawn leaves them ignored.
    masks = {name: int(status[name], 16) & 0x7FFFFFFF for name in ("SigBlk", "SigIgn", "SigCgt")}
    assert masks == {"SigBlk": 0, "SigIgn": 0, "SigCgt": 0}


def test_an_early_signal_is_not_lost(start: Start, rank_env: dict[str, str]) -> None:
    """A TERM at any moment of the start ends the entry, before the command or with it."""
    for delay_ms in range(0, 60, 3):
        with start(*SLURM, "sleep", "20", env=rank_env) as process:
            time.sleep(delay_ms / 1000)
            process.terminate()
            assert process.wait(timeout=30) == -signal.SIGTERM


SIGNALS_ITS_PARENT = """
import os, signal, time
seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
os.kill(os.getppid(), signal.SIGUSR1)
time.sleep(0.5)
print(len(seen))
"""


@pytest.mark.parametrize(("parent", "count"), [("slurmstepd", b"0\n"), ("launcher", b"1\n")])
def test_what_slurmstepd_signals_itself_is_not_forwarded(
    start: Start, tmp_path: Path, parent: str, count: bytes
) -> None:
    """Where slurmstepd reaches every process of a step, a signal to the entry is not passed on."""
    (tmp_path / "logs").mkdir()
    shell = tmp_path / parent
    shutil.copy("/bin/bash", shell)
    words = ("rank", "--from", "slurm", "--", sys.executable, "-I", "-S", "-c", SIGNALS_ITS_PARENT)
    env = {"SLURM_PROCID": "0", "HPCKIT_JOB_FOLDER": str(tmp_path)}
    with start(*words, via=[str(shell), "-c", '"$@"; exit $?', "sh"], env=env) as process:
        assert process.communicate(timeout=30)[0] == count


def test_a_step_in_a_control_group_is_forwarded_to(tmp_path: Path) -> None:
    """With proctrack/cgroup only the entry is signalled, and the command needs its signals."""
    for name in (str(os.getppid()), "self"):
        (tmp_path / name).mkdir()
    (tmp_path / str(os.getppid()) / "comm").write_text("slurmstepd\n")
    group = tmp_path / "self" / "cgroup"
    group.write_text("0::/user.slice\n")
    assert slurmstepd_signals_all(str(tmp_path))
    group.write_text("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n")
    assert not slurmstepd_signals_all(str(tmp_path))
