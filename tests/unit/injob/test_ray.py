"""A node's part of Ray, with a stand-in for `ray start` that listens where Ray's head would."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from hpckit.injob.ray import memory_options
from tests.unit.injob.conftest import Run, Start

FAKE = f"""#!{sys.executable}
import os, signal, socket, sys
options = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[2:])
with open(os.environ["RAY_SAID"], "a") as said:
    said.write(" ".join(sys.argv[1:]) + f" pid={{os.getpid()}}\\n")
if os.environ.get("RAY_FAILS"):
    sys.exit("this Ray does not start")
if "port" in options:
    listening = socket.create_server(("127.0.0.1", int(options["port"])), backlog=64)
signal.pause()
"""


@pytest.fixture
def ray_env(tmp_path: Path) -> dict[str, str]:
    """A node of a job of two nodes, or of one, with that Ray."""
    program = tmp_path / "bin" / "ray"
    program.parent.mkdir()
    program.write_text(FAKE, encoding="utf-8")
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "RAY_SAID": str(tmp_path / "said"),
        "SLURM_JOB_ID": f"{os.getpid()}{port}",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": "0",
        "WORLD_SIZE": "1",
    }


def said(env: dict[str, str]) -> list[str]:
    """What Ray was started with, a line each, and its process."""
    path = Path(env["RAY_SAID"])
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def is_gone(line: str) -> bool:
    """Whether the process of a line has ended."""
    return not Path(f"/proc/{line.rpartition('pid=')[2]}").exists()


def folder_of(env: dict[str, str]) -> Path:
    """Where a node's Ray has its sockets."""
    return Path(f"/tmp/hpckit-ray-{os.getuid()}-{env['SLURM_JOB_ID']}")


def test_the_program_is_the_driver(run: Run, ray_env: dict[str, str]) -> None:
    """It finds Ray by RAY_ADDRESS; its code is the job's, and Ray ends with it."""
    done = run("ray", "--", "sh", "-c", 'echo "$RAY_ADDRESS"; exit 7', env=ray_env)
    assert (done.returncode, done.stdout.decode()) == (7, f"127.0.0.1:{ray_env['MASTER_PORT']}\n")
    (line,) = said(ray_env)
    assert line.startswith("start --block --disable-usage-stats --head --port=")
    assert f"--num-cpus={len(os.sched_getaffinity(0))}" in line
    assert is_gone(line)
    assert not folder_of(ray_env).exists()


def test_a_worker_ends_with_the_head(start: Start, ray_env: dict[str, str]) -> None:
    """Well, when nobody answers any more where the head was."""
    port = int(ray_env["MASTER_PORT"])
    head = socket.create_server(("127.0.0.1", port), backlog=64)
    with start("ray", "--", "true", env={**ray_env, "RANK": "1", "WORLD_SIZE": "2"}) as worker:
        until = time.monotonic() + 30
        while not said(ray_env) and time.monotonic() < until:
            time.sleep(0.05)
        assert f"--address=127.0.0.1:{port} " in said(ray_env)[0]
        worker.send_signal(signal.SIGTERM)  # what ends the job is the program, which may save
        time.sleep(1)
        assert worker.poll() is None
        head.close()
        assert worker.wait(30) == 0
    assert is_gone(said(ray_env)[0])


def test_a_ray_that_does_not_start(run: Run, ray_env: dict[str, str]) -> None:
    """The job ends with what it said; one that is not installed has a shell's code."""
    done = run("ray", "--", "true", env={**ray_env, "RAY_FAILS": "1"})
    assert done.returncode == 1
    assert b"ray ended early / this Ray does not start" in done.stderr
    without = {**ray_env, "PATH": "/usr/bin:/bin"}
    done = run("ray", "--", "true", env=without)
    assert (done.returncode, done.stderr) == (127, b"hpckit: command not found: ray\n")


def test_a_signal_ends_the_program_and_ray(start: Start, ray_env: dict[str, str]) -> None:
    """TERM is handed on; what the program makes of it is its own affair."""
    program = 'trap "exit 9" TERM; echo begun; while :; do sleep 0.1; done'
    with start("ray", "--", "bash", "-c", program, env=ray_env) as head:
        assert head.stdout is not None
        assert head.stdout.readline() == b"begun\n"
        head.send_signal(signal.SIGTERM)
        try:
            assert head.wait(30) == 9
        finally:
            head.kill()
    assert is_gone(said(ray_env)[0])


def test_a_closed_terminal_leaves_nothing(start: Start, ray_env: dict[str, str]) -> None:
    """The program and Ray end, and the folder of its sockets is removed."""
    program = 'echo "pid=$$"; while :; do sleep 0.1; done'
    with start("ray", "--", "bash", "-c", program, env=ray_env) as head:
        assert head.stdout is not None
        line = head.stdout.readline().decode().strip()
        head.send_signal(signal.SIGHUP)
        try:
            assert head.wait(30) == 128 + signal.SIGHUP
        finally:
            head.kill()
    assert is_gone(line)
    assert is_gone(said(ray_env)[0])
    assert not folder_of(ray_env).exists()


def test_a_ray_that_ends_takes_the_program_with_it(start: Start, ray_env: dict[str, str]) -> None:
    """Without Ray the driver would run on, and the job with it."""
    program = 'echo "pid=$$"; while :; do sleep 0.1; done'
    with start("ray", "--", "bash", "-c", program, env=ray_env) as head:
        assert head.stdout is not None
        line = head.stdout.readline().decode().strip()
        os.kill(int(said(ray_env)[0].rpartition("pid=")[2]), signal.SIGKILL)
        try:
            assert head.wait(30) == 1
        finally:
            head.kill()
    assert is_gone(line)


@pytest.mark.parametrize(
    ("env", "store_mib", "rest_mib"),
    [
        ({"SLURM_MEM_PER_NODE": "65536"}, 19660.8, 45875.2),
        ({"SLURM_MEM_PER_CPU": "2048", "SLURM_CPUS_ON_NODE": "8"}, 4915.2, 11468.8),
        ({"SLURM_MEM_PER_GPU": "2048", "SLURM_GPUS_ON_NODE": "4"}, 2457.6, 5734.4),
    ],
)
def test_ray_has_the_memory_of_the_job(
    env: dict[str, str], store_mib: float, rest_mib: float
) -> None:
    """By itself it takes the machine's; 0 is all of it, and less than its least is its affair."""
    store, rest = (option.partition("=")[2] for option in memory_options(env))
    assert (int(store), int(rest)) == pytest.approx((store_mib * 2**20, rest_mib * 2**20), abs=1)
    assert memory_options({"SLURM_MEM_PER_NODE": "0"}) == []
    assert memory_options({"SLURM_MEM_PER_NODE": "200"}) == []


def test_ray_takes_amd_gpus_that_slurm_gave(run: Run, ray_env: dict[str, str]) -> None:
    """It refuses ROCR_VISIBLE_DEVICES alone; HIP counts from 0 within that."""
    env = {**ray_env, "ROCR_VISIBLE_DEVICES": "4,5"}
    done = run("ray", "--", "sh", "-c", 'echo "$HIP_VISIBLE_DEVICES"', env=env)
    assert done.stdout == b"0,1\n"


def test_a_folder_of_somebody_else_is_not_used(run: Run, ray_env: dict[str, str]) -> None:
    """Ray's sockets lie below /tmp: a link that waits there is no folder of this user."""
    folder_of(ray_env).symlink_to("/")
    try:
        done = run("ray", "--", "true", env=ray_env)
    finally:
        folder_of(ray_env).unlink(missing_ok=True)
    assert done.returncode == 1
    assert b"belongs to another user" in done.stderr
    assert said(ray_env) == []
