"""The real Slurm of docker/: brought up when a test needs it, and down again if it was not up.

`cluster` is the one that most tests share. A module whose tests need another release, topology or
image has a fixture `cluster` of its own, which asks `cluster_of` for it.
"""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn, Protocol

import coverage
import pytest

from tests.cluster.cluster import CHECKOUT, OWN, Cluster

HERE = Path(__file__).parent
USUAL = ("trixie", "tree", "mpi")
"""What `docker/cluster up` starts unless told; a cluster is called by what differs from it."""
BUILD_TIMEOUT_S = 900
OTHER_GROUPS = {
    "faults": "test_manners test_exactly_once test_life test_chains test_jobs",
    "places": "test_place test_place_bound test_place_scale test_leaves test_blocks test_torchrun"
    " test_frameworks test_scale test_components",
    "releases": "test_releases test_site_goldens test_goldens_taken test_directives"
    " test_slurm_facts test_topology_files test_version_traps test_traps_environment"
    " test_traps_answers test_admission test_pyslurm test_mpi",
}
"""The modules of each further worker, so that each waits for Slurm as long as the others."""
GROUP_OF = {module: name for name, modules in OTHER_GROUPS.items() for module in modules.split()}


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups, also where a path here is named
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here carries the mark `cluster`; each group has a worker and own clusters."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.xdist_group(GROUP_OF.get(item.path.stem, "cluster")))


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


def _hosts(prefix: str) -> list[tuple[str, str]]:
    """The clusters whose names begin with `prefix`, each with every host, running or not."""
    listed = _call("docker", "ps", "--all", f"--filter=name=^{prefix}", "--format={{.Names}}")
    split = (name.rpartition("-") for name in sorted(listed.stdout.split()))
    return [(name, host) for name, _, host in split if name.startswith(prefix)]


def _hosts_of(name: str) -> list[str]:
    return [host for cluster, host in _hosts(name) if cluster == name]


def _down(name: str) -> None:
    _call("docker/cluster", "down", environ={**os.environ, "HPCKIT_CLUSTER": name}, timeout_s=120)


def _clear_abandoned() -> None:
    """Remove what test runs started that were killed before they could."""
    for name, host in _hosts(OWN):
        pid = name.removeprefix(OWN).partition("-")[0]
        if not Path(f"/proc/{pid}").exists():
            _down(name)
            _call("docker", "rm", "--force", "--volumes", f"{name}-{host}")


class ClusterOf(Protocol):
    """The signature of the fixture `cluster_of`."""

    def __call__(
        self,
        suite: str = "trixie",
        topology: str = "tree",
        target: str = "mpi",
        pip: str = "",
        confine: str = "no",
        *,
        fabric: str = "one",
    ) -> Cluster:
        """The cluster that `docker/cluster up` with these options starts; the same for the same."""


@pytest.fixture(scope="session")
def cluster_of() -> Iterator[ClusterOf]:
    """Clusters with this checkout's hpckit, of the test run's own unless HPCKIT_CLUSTER names them.

    Each is there until the session ends. Skips where there can be none, or fails where
    HPCKIT_REQUIRE_CLUSTER is 1.
    """
    base = os.environ.get("HPCKIT_CLUSTER") or f"{OWN}{os.getpid()}"
    with ExitStack() as undo:
        if not _engine_answers():
            _need("docker/engine", "start", environ=os.environ, timeout_s=90)
            undo.callback(_call, "docker/engine", "stop")
        _clear_abandoned()

        @functools.cache
        def up(
            suite: str, topology: str, target: str, pip: str, confine: str, *, fabric: str
        ) -> Cluster:
            confined = "confined" if confine == "yes" else "trixie"
            told = (suite, topology if fabric == "one" else fabric, target, confined)
            more = [word for word in told if word not in USUAL]
            options = {"--suite": suite, "--topology": topology, "--target": target, "--pip": pip,
                       "--confine": confine, "--fabric": fabric,
                       "--nodes": "4" if fabric == "one" else "8"}  # fmt: skip
            return _up("-".join((base, *more)), options, undo)

        def cluster_of(
            suite: str = "trixie",
            topology: str = "tree",
            target: str = "mpi",
            pip: str = "",
            confine: str = "no",
            *,
            fabric: str = "one",
        ) -> Cluster:
            return up(suite, topology, target, pip, confine, fabric=fabric)

        yield cluster_of


def _up(name: str, options: Mapping[str, str], undo: ExitStack) -> Cluster:
    environ = {**os.environ, "HPCKIT_CLUSTER": name}
    if not _hosts_of(name):
        undo.callback(_down, name)
    words = itertools.chain.from_iterable(options.items())
    _need("docker/cluster", "up", *words, environ=environ, timeout_s=BUILD_TIMEOUT_S)
    cluster = Cluster(
        name=name,
        environ=environ,
        nodes=tuple(host for host in _hosts_of(name) if host[1:].isdigit()),
        coverage=coverage.Coverage.current() is not None,
    )
    if cluster.coverage:
        cluster.clear_coverage()
        undo.callback(cluster.bring_coverage, CHECKOUT)
    return cluster


@pytest.fixture(scope="session")
def cluster(cluster_of: ClusterOf) -> Cluster:
    """Slurm 24.11 with a tree, which most tests share."""
    return cluster_of()


@pytest.fixture(autouse=True)
def no_job_left(cluster: Cluster) -> Iterator[None]:
    """A test's jobs do not outlive it."""
    yield
    both = "scancel --user=alice; scancel --user=bob"
    cluster.run(["sh", "-c", both], user="root", host="ctl", timeout_s=10)
