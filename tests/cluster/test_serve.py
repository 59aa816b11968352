"""A server as a job: where it is, who may reach it, and how it is ended."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.cluster import CHECKOUT, Cluster, eventually
from tests.cluster.hpckit_on import (
    document,
    hpckit,
    log_of,
    new_path,
    nothing_lives,
    reached,
    status,
    submit,
)

ASK = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1] + '/health').read().decode())"


@pytest.fixture(scope="module")
def example(cluster: Cluster) -> str:
    """The example's job file, in a copy that everybody can read."""
    folder = new_path()
    cluster.copy_in(CHECKOUT / "examples" / "serve", folder)
    cluster.check(["chmod", "-R", "a+rX", folder], user="root")
    return f"{folder}/job.toml"


def served(cluster: Cluster, job_id: str) -> dict[str, Any]:
    """Where a job serves, once it does."""
    last: dict[str, Any] = {}

    def is_ready() -> bool:
        last.update(status(cluster, job_id)["serve"] or {})
        return bool(last)

    assert eventually(is_ready, timeout_s=60), log_of(cluster, job_id)
    return last


def test_servers_on_one_node_do_not_meet(cluster: Cluster, example: str) -> None:
    """Three have ports of their own; each is told, answers, and ends well when it is drained."""
    jobs = [submit(cluster, example, "--nodelist=c1")["job_id"] for _ in range(3)]
    found = [served(cluster, job_id) for job_id in jobs]
    assert len({one["url"] for one in found}) == 3
    for job_id, one in zip(jobs, found, strict=True):
        said = cluster.check(["python3", "-c", ASK, one["url"]])
        assert said.strip() == "hello from c1"
        shown = hpckit(cluster, "status", job_id).stdout
        assert f"-L {one['port']}:c1:{one['port']}" in shown
        # What `--signal=B:TERM@120` sends before the time limit.
        cluster.check(["scancel", "--batch", "--signal=TERM", job_id])
        assert reached(cluster, job_id, "COMPLETED")["serve"] is None
        assert log_of(cluster, job_id, 0).endswith("drained\n")
    assert nothing_lives(cluster)


def test_it_ends_when_nobody_uses_it(cluster: Cluster) -> None:
    """After the limit, of itself, and that is no failure."""
    serves = ("sh", "-c", "exec python3 -m http.server $HPCKIT_SERVE_PORT")
    keys = ("--set=serve.port=0", "--set=serve.idle_limit=00:00:05")
    job_id = submit(cluster, *keys, "--", *serves)["job_id"]
    ended = reached(cluster, job_id, "COMPLETED", "FAILED", timeout_s=120)
    assert (ended["state"], ended["exit_code"]) == ("COMPLETED", 0)
    assert "no connection for 5 s: stopping the server" in log_of(cluster, job_id)


def test_one_that_dies_has_failed(cluster: Cluster) -> None:
    """With its own code, whether it ever answered or not."""
    words = ("--set=serve.port=0", "--wait", "--json", "--", "sh", "-c", "exit 9")
    job = document(hpckit(cluster, "submit", *words))
    assert (job["state"], job["exit_code"]) == ("FAILED", 9)
