"""The all-reduce example, run as several processes of one host."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Protocol

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "allreduce" / "allreduce.py"
LINE = r"rank {rank} of {size} on \S+: sum ok \(ring over sockets, {count} integers, [\d.]+ ms\)\n"


@pytest.fixture
def free_port() -> int:
    """A port nobody listens on."""
    with socket.create_server(("", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("allreduce_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Start(Protocol):
    """The signature of the fixture `start`."""

    def __call__(self, rank: int, size: int, *words: str, job: str = "7") -> subprocess.Popen[str]:
        """Start one rank."""


@pytest.fixture
def start(free_port: int) -> Iterator[Start]:
    """Starts ranks that meet at `free_port`; none outlives the test."""
    with ExitStack() as started:

        def start_rank(rank: int, size: int, *words: str, job: str = "7") -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, str(EXAMPLE), "--backend", "ring", *words],
                env={
                    "PATH": os.environ["PATH"],
                    "RANK": str(rank),
                    "WORLD_SIZE": str(size),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(free_port),
                    "HPCKIT_JOB_ID": job,
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            started.enter_context(process)
            started.callback(process.kill)
            return process

        yield start_rank


def knock(port: int) -> bytes:
    """Speak as a port scanner does, once somebody listens, and give the answer."""
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s:
        try:
            scanner = socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(0.02)
            continue
        with scanner:
            scanner.sendall(b"GET / HTTP/1.0\r\n\r\n")
            try:
                return scanner.recv(100)
            except ConnectionResetError:
                return b""
    raise TimeoutError(f"nobody listens on {port}")


def ends(ranks: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """Each rank's exit code and output."""
    found = []
    for rank in ranks:
        out, _ = rank.communicate(timeout=30)
        found.append((rank.returncode, out))
    return found


@pytest.mark.parametrize(("size", "count"), [(1, 10), (2, 1000), (3, 2), (5, 20_003)])
def test_every_rank_has_the_sum(start: Start, size: int, count: int) -> None:
    """All ranks print one line with the right sum, more ranks than integers included."""
    ranks = [start(rank, size, "--size", str(count)) for rank in range(size)]
    for rank, (code, out) in enumerate(ends(ranks)):
        assert re.fullmatch(LINE.format(rank=rank, size=size, count=count), out), out
        assert code == 0


def test_ranks_start_in_any_order(start: Start) -> None:
    """Rank 0 may come last."""
    ranks = []
    for rank in (2, 1, 0):
        ranks.append(start(rank, 3))
        time.sleep(0.3)
    assert [code for code, _ in ends(ranks)] == [0, 0, 0]


def test_strangers_are_turned_away(start: Start, free_port: int) -> None:
    """A port scanner, a peer that hangs up and a rank of another job do not disturb the sum."""
    stranger = start(1, 2, "--timeout-s", "2", job="8")
    zero = start(0, 2)
    assert knock(free_port) == b""
    with socket.create_connection(("127.0.0.1", free_port)):
        pass
    assert [code for code, _ in ends([zero, start(1, 2)])] == [0, 0]
    [(code, out)] = ends([stranger])
    assert code == 1
    assert "no peer of this job at 127.0.0.1" in out


def test_a_rank_that_fails_as_asked_leaves_the_others_to_their_time_out(start: Start) -> None:
    """The failing rank ends with its code; the others end by themselves, with 1."""
    words = ("--fail-rank", "1", "--fail-code", "9", "--timeout-s", "1")
    (zero, zero_out), (one, one_out) = ends([start(rank, 2, *words) for rank in (0, 1)])
    assert (one, one_out.count("\n")) == (9, 1)
    assert "ends with code 9, as asked" in one_out
    assert zero == 1
    assert "ranks that did not come: [1]" in zero_out


def test_a_rank_that_waits_can_be_ended(start: Start) -> None:
    """A launcher's TERM ends a rank that waits for its peers."""
    rank = start(1, 2)
    time.sleep(0.3)
    rank.terminate()
    assert ends([rank])[0][0] == -signal.SIGTERM


def test_a_wrong_sum_is_named(example: ModuleType) -> None:
    """The first wrong integer is shown beside what it should be."""
    assert example.first_difference(array("q", [3, 6, 9]), 2, 3) == ""
    assert example.first_difference(array("q", [3, 7, 9]), 2, 3) == "got 7, expected 6 at 1"
    assert example.first_difference(array("q", [3]), 2, 3) == "got 1 integers, expected 3"
