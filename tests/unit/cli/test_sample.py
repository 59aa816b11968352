"""`hpckit sample`, as a person starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hpckit.account.sample_format import Block, read_blocks
from tests.fakes.cli_jobs import call

FILE = "account/restart-0/node-n1.samples"
LIMIT_S = 120.0


def begin(
    *words: str, cwd: Path, env: Mapping[str, str] = {}, stdout: int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start the command; what does not reach its folder is kept in `cwd`."""
    root = str(Path(__file__).resolve().parents[3])
    return subprocess.Popen(
        [sys.executable, "-m", "hpckit", *words],
        cwd=cwd,
        env={
            **os.environ,
            "PYTHONPATH": root,
            "SLURMD_NODENAME": "n1",
            "HPCKIT_TOPOLOGY": "0",
            "TMPDIR": str(cwd),
            **env,
        },
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """Wait for its end."""
    out, err = process.communicate(timeout=LIMIT_S)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def hpckit(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return ended(begin(*words, cwd=cwd))


def until(is_true: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    end_s = time.monotonic() + LIMIT_S
    while not is_true():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.005)


def has_samples(path: Path) -> bool:
    """Whether a file of samples is there, whole to its end."""
    blocks = list(read_blocks(path.read_bytes())) if path.exists() else []
    return bool(blocks) and all(isinstance(one, Block) for one in blocks)


def wrote(done: subprocess.CompletedProcess[str]) -> str:
    """The file that is said to have the samples."""
    return done.stdout.splitlines()[0].rpartition(" · ")[2]


def run_next(done: subprocess.CompletedProcess[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line that is said last."""
    command = done.stdout.splitlines()[-1].removeprefix(" next   ")
    run = f'hpckit() {{ "{sys.executable}" -m hpckit "$@"; }}; {command}'
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    return subprocess.run(
        ["bash", "-c", run], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )


def test_folder_is_made_and_the_next_command_said(tmp_path: Path) -> None:
    """It ends with what was written, and what reads it; no progress without a terminal."""
    done = hpckit("sample", "--out", "new/samples", "--duration", "0.2", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    path = "new/samples/account/restart-0/node-n1.samples"
    assert path in done.stdout
    assert done.stdout.splitlines()[-1] == " next   hpckit report --from new/samples"
    blocks = list(read_blocks((tmp_path / path).read_bytes()))
    assert all(isinstance(one, Block) for one in blocks)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--hz", "101", "0.01<=x<=100"),
        ("--hz", "nan", "nan is not a finite number"),
        ("--duration", "0", "0<x<=31622400"),
        ("--duration", "inf", "inf"),
        ("--out", "", "empty"),
    ],
)
def test_a_value_that_cannot_be_is_a_usage_error(option: str, value: str, said: str) -> None:
    """The option is named, and what was expected."""
    done = call("sample", "--out", ".", option, value)
    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a b", "'a b'"),
        ("a\x1b[31m\nb'\\é", "$'a\\x1b[31m\\nb\\'\\\\\\xc3\\xa9'"),
    ],
)
def test_the_next_command_can_be_pasted(tmp_path: Path, name: str, shown: str) -> None:
    """A folder with any name is a word of the shell, and steers no terminal."""
    done = hpckit("sample", "--out", name, "--duration", "0.1", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == f" next   hpckit report --from {shown}"
    assert len(done.stdout.splitlines()) == 3
    word = subprocess.run(
        ["bash", "-c", f"printf %s {shown}"],
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=True,
    )
    assert word.stdout.decode() == name


def _file_for_a_folder(path: Path) -> None:
    path.parent.parent.mkdir(parents=True)
    path.parent.touch()


def _folder(path: Path) -> None:
    path.mkdir(parents=True)


def _link(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (_file_for_a_folder, "Not a directory"),
        (_folder, "Is a directory"),
        (_link, "a symbolic link (not followed)"),
    ],
)
def test_a_folder_that_takes_nothing_is_not_said_to_have_it(
    tmp_path: Path, block: Callable[[Path], None], said: str
) -> None:
    """The exit code is 7, and what is said to have the samples has them, and can be read."""
    block(tmp_path / "run" / FILE)
    done = hpckit("sample", "--out", "run", "--duration", "0.2", cwd=tmp_path)
    assert done.returncode == 7
    assert said in done.stderr
    assert has_samples(Path(wrote(done)))
    reported = run_next(done, tmp_path)
    assert reported.returncode == 0, reported.stderr
    assert "1 node" in reported.stdout


def test_a_folder_that_is_removed_meanwhile_has_a_part_no_more(tmp_path: Path) -> None:
    """What came after it is kept, and what was in it is said to be lost."""
    process = begin("sample", "--out", "run", cwd=tmp_path)
    until(lambda: has_samples(tmp_path / "run" / FILE))
    (tmp_path / "run").rename(tmp_path / "gone")
    (tmp_path / "gone" / FILE).unlink()
    process.send_signal(signal.SIGINT)
    done = ended(process)
    assert done.returncode == 7
    assert "somebody removed it; its samples are lost" in done.stderr
    assert " wrote  part of " in done.stdout
    assert Path(wrote(done)).stat().st_size > 0


def test_ctrl_c_before_the_sampler_listens_is_not_lost(tmp_path: Path) -> None:
    """From the moment when the command becomes the sampler Ctrl-C is its end, whatever loads."""
    process = begin("sample", "--out", "run", cwd=tmp_path)
    until(lambda: b"--by-hand" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
    process.send_signal(signal.SIGINT)
    done = ended(process)
    # A node too busy to load it within a second ends it there, in words.
    assert "Traceback" not in done.stderr
    assert done.stderr or (done.returncode, has_samples(tmp_path / "run" / FILE)) == (0, True)


NICEST = 19
WAITS_S = 30.0
"""How long a folder is waited for after Ctrl-C."""


def begin_at_a_pipe(cwd: Path, env: Mapping[str, str] = {}) -> subprocess.Popen[str]:
    """Start it with a FIFO in place of its file, whose opening waits for a reader, and sample."""
    (cwd / "run" / FILE).parent.mkdir(parents=True)
    os.mkfifo(cwd / "run" / FILE)
    process = begin("sample", "--out", "run", cwd=cwd, env=env)
    # It is nice once it listens, and the signals are let through while it waits for the next tick.
    until(lambda: os.getpriority(os.PRIO_PROCESS, process.pid) == NICEST)
    until(lambda: not blocks(process.pid))
    return process


def blocks(pid: int) -> bool:
    """Whether TERM would wait until a sampler takes it."""
    return bool(int(status_of(pid)["SigBlk"], 16) >> (signal.SIGTERM - 1) & 1)


def listens(pid: int) -> bool:
    """Whether a sampler hears what ends it, and has heard all of it."""
    return blocks(pid) and not int(status_of(pid)["ShdPnd"], 16)


def status_of(pid: int) -> dict[str, str]:
    """What /proc says of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t") for line in lines)


@pytest.mark.parametrize(
    ("number", "env"),
    [(signal.SIGTERM, {}), (signal.SIGHUP, {}), (signal.SIGINT, {"SLURM_JOB_ID": "1"})],
)
def test_what_kill_may_follow_keeps_the_rest_soon(
    tmp_path: Path, number: signal.Signals, env: dict[str, str]
) -> None:
    """After TERM, as in a job, a folder that hangs is not waited for: the rest is kept in time."""
    process = begin_at_a_pipe(tmp_path, env)
    asked_s = time.monotonic()
    process.send_signal(number)
    done = ended(process)
    assert time.monotonic() - asked_s < WAITS_S
    assert done.returncode == 7
    assert has_samples(Path(wrote(done)))


def test_a_folder_is_waited_for_after_ctrl_c(tmp_path: Path) -> None:
    """What takes the samples some seconds later has all of them."""
    process = begin_at_a_pipe(tmp_path)
    process.send_signal(signal.SIGINT)
    until(lambda: listens(process.pid))
    time.sleep(4)
    reader = os.open(tmp_path / "run" / FILE, os.O_RDONLY | os.O_NONBLOCK)
    done = ended(process)
    os.close(reader)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_once_more_ends_the_waiting(tmp_path: Path, number: signal.Signals) -> None:
    """Who asks again while the folder is waited for gets the rest on this node."""
    process = begin_at_a_pipe(tmp_path)
    asked_s = time.monotonic()
    process.send_signal(signal.SIGINT)
    until(lambda: listens(process.pid))
    process.send_signal(number)
    done = ended(process)
    assert time.monotonic() - asked_s < WAITS_S
    assert done.returncode == 7
    assert has_samples(Path(wrote(done)))


@pytest.mark.parametrize("below", ["", "/below"])
@pytest.mark.parametrize(
    ("target", "said", "fix"),
    [
        (
            "nowhere",
            "link is a symbolic link to {0}/nowhere, which does not exist",
            "mkdir -p {0}/nowhere",
        ),
        ("link", "link is a symbolic link to itself", "rm link"),
    ],
)
def test_a_dead_link_is_named(tmp_path: Path, target: str, said: str, fix: str, below: str) -> None:
    """A link that leads nowhere is no file that exists."""
    (tmp_path / "link").symlink_to(target)
    done = hpckit("sample", "--out", f"link{below}", "--duration", "0.1", cwd=tmp_path)
    assert done.returncode == 7
    assert said.format(tmp_path) in done.stderr
    assert f"fix: {fix.format(tmp_path)}" in done.stderr


def test_what_cannot_be_said_is_no_success(tmp_path: Path) -> None:
    """Where the output takes nothing the exit code is 7, though the samples are written."""
    with Path("/dev/full").open("w") as full:
        words = ("sample", "--out", "run", "--duration", "0.1")
        done = ended(begin(*words, cwd=tmp_path, stdout=full.fileno()))
    assert "standard output: No space left on device" in done.stderr
    assert done.returncode == 7


def test_under_nohup_a_closed_session_changes_nothing(tmp_path: Path) -> None:
    """A HUP that is ignored at the start ends nothing; TERM does."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = begin("sample", "--out", "run", cwd=tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    until(lambda: has_samples(tmp_path / "run" / FILE))
    process.send_signal(signal.SIGHUP)
    time.sleep(1.5)
    assert process.poll() is None
    process.terminate()
    assert ended(process).returncode == 0
