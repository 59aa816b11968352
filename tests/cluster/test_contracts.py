"""The contract suites, run on the login host: real Slurm, real files, another Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import CHECKOUT, Cluster

SUITES = ("test_submitter.py", "test_command_runner.py", "test_clock.py")


@pytest.fixture
def suites(cluster: Cluster) -> Iterator[str]:
    """A folder on the shared file system with tests/contract and what it needs."""
    folder = cluster.check(["mktemp", "-d", "/shared/alice/contract-XXXXXX"]).strip()
    cluster.check(["mkdir", f"{folder}/tests"])
    for name in ("contract", "fakes"):
        cluster.copy_in(CHECKOUT / "tests" / name, f"{folder}/tests/{name}")
    yield folder
    cluster.check(["rm", "-rf", folder])


@pytest.mark.parametrize("suite", SUITES)
def test_a_contract_holds_on_the_login_host(cluster: Cluster, suites: str, suite: str) -> None:
    """What the fakes keep, the real implementations keep on the cluster; Slurm is behind one."""
    python = "/opt/hpckit/bin/python"
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "--rootdir=."]
    done = cluster.run(
        [python, "-B", "-m", "pytest", *options, f"tests/contract/{suite}"],
        cwd=suites,
        env={"HPCKIT_CONTRACT_SHARED": suites, "PYTHONPATH": suites},
        timeout_s=300,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert " passed" in done.stdout
