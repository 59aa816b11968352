"""The real Slurm of docker/: brought up when a test needs it, and down again if it was not up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import coverage
import pytest

from tests.cluster.cluster import CHECKOUT, OWN, Cluster

HERE = Path(__file__).parent
BUILD_TIMEOUT_S = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here carries the mark `cluster`, and one worker runs them all."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.xdist_group("cluster"))


def _unavailable(reason: str) -> NoReturn:
    if os.environ.get("HPCKIT_REQUIRE_CLUSTER") == "1":
        pytest.fail(f"HPCKIT_REQUIRE_CLUSTER=1, and there is no cluster: {reason}", pytrace=False)
    pytest.skip(f"no cluster: {reason}")


def _call(
    *argv: str, environ: Mapping[str, str] | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        cwd=CHECKOUT,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=timeout_s,
        check=False,
    )


def _need(*argv: str, environ: Mapping[str, str], timeout_s: float) -> None:
    done = _call(*argv, environ=environ, timeout_s=timeout_s)
    if done.returncode != 0:
        _unavailable(done.stderr.strip() or f"{argv[0]} exited with {done.returncode}")


def _engine_answers() -> bool:
    try:
        return _call("docker", "version", timeout_s=15).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False


def _containers(prefix: str) -> list[str]:
    """What follows `prefix` in the names of containers, whether they run or not."""
    listed = _call("docker", "ps", "--all", f"--filter=name=^{prefix}", "--format={{.Names}}")
    return sorted(name.removeprefix(prefix) for name in listed.stdout.split())


def _down(name: str) -> None:
    _call("docker/cluster", "down", environ={**os.environ, "HPCKIT_CLUSTER": name}, timeout_s=120)


def _clear_abandoned() -> None:
    """Remove what test runs started that were killed before they could."""
    for pid in {rest.partition("-")[0] for rest in _containers(OWN)}:
        if not Path(f"/proc/{pid}").exists():
            _down(OWN + pid)
            for rest in _containers(f"{OWN}{pid}-"):
                _call("docker", "rm", "--force", "--volumes", f"{OWN}{pid}-{rest}")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster with this checkout's hpckit, of the test run's own unless HPCKIT_CLUSTER names one.

    Skips where there can be none, or fails where HPCKIT_REQUIRE_CLUSTER is 1.
    """
    name = os.environ.get("HPCKIT_CLUSTER") or f"{OWN}{os.getpid()}"
    environ = {**os.environ, "HPCKIT_CLUSTER": name}
    with ExitStack() as undo:
        if not _engine_answers():
            _need("docker/engine", "start", environ=environ, timeout_s=90)
            undo.callback(_call, "docker/engine", "stop")
        _clear_abandoned()
        if not _containers(f"{name}-"):
            undo.callback(_down, name)
        _need("docker/cluster", "up", environ=environ, timeout_s=BUILD_TIMEOUT_S)
        up = Cluster(
            name=name,
            environ=environ,
            nodes=tuple(host for host in _containers(f"{name}-") if host[1:].isdigit()),
            coverage=coverage.Coverage.current() is not None,
        )
        if up.coverage:
            up.clear_coverage()
            undo.callback(up.bring_coverage, CHECKOUT)
        yield up


@pytest.fixture(autouse=True)
def no_job_left(cluster: Cluster) -> Iterator[None]:
    """A test's jobs do not outlive it."""
    yield
    for user in ("alice", "bob"):
        cluster.run(["scancel", f"--user={user}"], user=user, host="ctl", timeout_s=10)
