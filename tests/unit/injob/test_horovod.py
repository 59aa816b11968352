"""Horovod's variables and the store that rank 0 keeps; run from the packed archive."""

from __future__ import annotations

import json
import os
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.fakes.running import until
from tests.unit.injob.conftest import Run, Start

ENTRY = ("rank", "--from", "slurm", "--horovod", "--")
SHOW = (
    "python3",
    "-c",
    "import json, os; print(json.dumps(dict(os.environ)), flush=True); input()",
)


def of_rank(rank_env: dict[str, str], rank: int, port: int) -> dict[str, str]:
    """The environment of a rank of four on two nodes, all on this host."""
    return {**rank_env, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank % 2),
            "SLURM_NODEID": str(rank // 2), "SLURMD_NODENAME": f"n{rank // 2}",
            "PATH": os.environ["PATH"], "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port)}  # fmt: skip


def is_listening(port: int) -> bool:
    """Whether somebody takes connections there."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def port() -> int:
    """A port that is free, of those that the kernel hands to nobody."""
    first = 61_000 + os.getpid() % 4_000
    return next(number for number in range(first, 65_535) if not is_listening(number))


def asked(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """What the store answers, as Horovod's HTTPStore asks."""
    url = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(url, data=body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b""


def test_a_rank_has_horovods_numbers(start: Start, rank_env: dict[str, str], port: int) -> None:
    """Gloo's variables, as horovodrun gives them; what the job says itself stays."""
    env = {**of_rank(rank_env, 3, port), "HOROVOD_CPU_OPERATIONS": "ccl"}
    out, _ = start(*ENTRY, *SHOW, env=env, stdin=-1).communicate(b"\n", timeout=30)
    seen = json.loads(out)
    assert {name: value for name, value in seen.items() if name.startswith("HOROVOD_")} == {
        "HOROVOD_RANK": "3", "HOROVOD_SIZE": "4", "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "2", "HOROVOD_CROSS_RANK": "1", "HOROVOD_CROSS_SIZE": "2",
        "HOROVOD_HOSTNAME": "n1", "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port), "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "ccl",
    }  # fmt: skip


@pytest.mark.parametrize("folder", [True, False], ids=["with a job folder", "without one"])
def test_rank_0_keeps_the_store(
    start: Start, rank_env: dict[str, str], port: int, *, folder: bool
) -> None:
    """What a rank put there another gets, whoever is through; it ends with rank 0's command."""
    env = of_rank(rank_env, 0, port)
    env |= {} if folder else {"HPCKIT_JOB_FOLDER": ""}
    process = start(*ENTRY, *SHOW, env=env, stdin=-1)
    assert process.stdout is not None
    process.stdout.readline()
    assert asked(port, "GET", "/global/0")[0] == 404
    assert asked(port, "PUT", "/global/0", b"\0address")[0] == 200
    assert asked(port, "DELETE", "/global/1")[0] == 200
    assert asked(port, "GET", "/global/0") == (200, b"\0address")
    process.communicate(b"\n", timeout=30)
    assert process.returncode == 0
    until(lambda: not is_listening(port))


def test_a_port_that_is_taken(run: Run, rank_env: dict[str, str]) -> None:
    """Rank 0 says so and ends: the others could not find it."""
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        number = taken.getsockname()[1]
        done = run(*ENTRY, "true", env=of_rank(rank_env, 0, number))
    assert done.returncode == 1
    assert f"Horovod cannot start: port {number} on this node".encode() in done.stderr


def test_a_rank_that_knows_no_number(run: Run, tmp_path: Path) -> None:
    """Nothing is started alone that was to be one of many."""
    done = run(*ENTRY, "true", env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    assert done.returncode == 1
    assert b"has no rank number" in done.stderr
