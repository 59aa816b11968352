"""A neighbour on the login node: what bob can read, change or have run of alice's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.cluster import Cluster, eventually
from tests.cluster.hpckit_on import AT_GATE, document, hpckit, new_path, open_gate, reached, submit

SITE_TEXT = """\
schema = "hpckit.site/1"
name = "elsewhere"
submitter = "slurm"
template = "base.sbatch.j2"
job_root = "{}"
"""
TOKEN = "hf_" + "Qk3Lm9Xz7Pb2Rt5Vw8Yc1Dn4Fg6Hj0Ks"  # made up
UMASKS = ("000", "002", "022")


def under_umask(cluster: Cluster, umask: str, *args: str) -> Any:
    """What `hpckit ARGS` of alice's does in a shell with this umask."""
    script = f'umask {umask}; exec hpckit "$@"'
    env = {"HPCKIT_SITE": "docker", "HF_TOKEN": TOKEN}
    return cluster.run(["sh", "-c", script, "sh", *args], env=env, timeout_s=180)


def open_to_others(cluster: Cluster, *folders: str) -> str:
    """What below these folders a neighbour may read, change or enter, a line each.

    Logs are made by Slurm, with the job's umask; their folder is closed.
    """
    but = ["!", "-path", "*/logs/*", "!", "-path", "*/account/*", "!", "-type", "l"]
    return cluster.check(["find", *folders, *but, "-perm", "/077"], user="root")


@pytest.fixture(scope="module")
def shared_group(cluster: Cluster) -> str:
    """A group that alice and bob are in."""
    for argv in (["groupadd", "-f", "lab"], ["usermod", "-aG", "lab", "alice"],
                 ["usermod", "-aG", "lab", "bob"]):  # fmt: skip
        cluster.check(argv, user="root")
    return "lab"


@pytest.mark.parametrize("umask", UMASKS)
def test_nothing_is_open_whatever_the_umask(
    cluster: Cluster, shared_group: str, umask: str
) -> None:
    """Job folder, index and caches are alice's alone; bob reads no file and makes none."""
    done = under_umask(cluster, umask, "submit", "--wait", "--json", "--", "true")
    folder = document(done)["folder"]
    own = [folder, "/home/alice/.local/state/hpckit", "/home/alice/.cache/hpckit"]
    assert open_to_others(cluster, *own) == ""
    for script in ('cat "$0/job.sbatch"', 'echo x >"$0/job.sbatch"', 'touch "$0/new"'):
        assert cluster.run(["sh", "-c", script, folder], user="bob").returncode != 0


@pytest.mark.parametrize("mode", ["777", "775"])
def test_a_root_that_a_neighbour_can_change_is_refused(
    cluster: Cluster, shared_group: str, mode: str
) -> None:
    """Nothing is written below it, nothing runs, and the way to mend it is told."""
    root, sites = new_path("/shared"), new_path()
    cluster.check(["install", "-d", "-m", mode, "-o", "alice", "-g", shared_group, root],
                  user="root")  # fmt: skip
    cluster.check(["mkdir", sites])
    text = SITE_TEXT.format(f"{root}/jobs")
    assert cluster.run(["tee", f"{sites}/elsewhere.toml"], input=text).returncode == 0
    args = ("submit", "--json", "--site-dir", sites, "--site", "elsewhere", "--", "true")
    done = hpckit(cluster, *args)
    assert (done.returncode, root in done.stderr, "chmod" in done.stderr) == (7, True, True), done
    assert cluster.check(["ls", root]) == ""


def test_a_root_of_a_neighbour_is_refused(cluster: Cluster) -> None:
    """A folder that bob made first where alice's job folders are to be."""
    root, sites = new_path("/shared"), new_path()
    cluster.check(["install", "-d", "-m", "1777", root], user="root")
    cluster.check(["install", "-d", "-m", "777", f"{root}/alice"], user="bob")
    cluster.check(["mkdir", sites])
    text = SITE_TEXT.format(f"{root}/$USER")
    assert cluster.run(["tee", f"{sites}/elsewhere.toml"], input=text).returncode == 0
    args = ("submit", "--json", "--site-dir", sites, "--site", "elsewhere", "--", "true")
    done = hpckit(cluster, *args)
    assert (done.returncode, "bob" in done.stderr) == (7, True), done
    assert cluster.check(["ls", f"{root}/alice"], user="bob") == ""


@pytest.mark.parametrize("umask", UMASKS)
def test_a_secret_leaves_no_trace(cluster: Cluster, umask: str) -> None:
    """The ranks have it; no file, record of Slurm or process list has, then or later."""
    gate, seen = new_path(), new_path()
    script = f'printf %s "$HF_TOKEN" | sha256sum >"{seen}"; {AT_GATE}'
    args = ("submit", "--json", "--secret", "HF_TOKEN", "--", "sh", "-c", script, "sh", gate)
    job = document(under_umask(cluster, umask, *args))
    assert eventually(lambda: cluster.run(["test", "-s", seen]).returncode == 0)
    digest = cluster.run(["sh", "-c", f"printf %s {TOKEN} | sha256sum"]).stdout
    assert cluster.read(seen) == digest
    node = cluster.check(["squeue", "-h", "-j", job["job_id"], "-o", "%N"]).strip()
    records = (["scontrol", "show", "job", "-dd", job["job_id"]],
               ["scontrol", "write", "batch_script", job["job_id"], "-"],
               ["sacct", "-P", "-j", job["job_id"], "--format=ALL"])  # fmt: skip
    for argv in records:
        assert TOKEN not in cluster.check(argv)
    for host in ("login", node):
        lists = cluster.run(["sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ"],
                            user="bob", host=host)  # fmt: skip
        assert TOKEN not in lists.stdout
    open_gate(cluster, gate)
    reached(cluster, job["job_id"], "COMPLETED")
    found = cluster.run(["grep", "-rlF", TOKEN, job["folder"], "/home/alice", "/var/log"],
                        user="root")  # fmt: skip
    assert found.stdout == ""


def test_a_secret_of_a_killed_job_is_removed(cluster: Cluster) -> None:
    """What ended it could not: `hpckit status` does."""
    gate = new_path()
    args = ("submit", "--json", "--secret", "HF_TOKEN", "--", "sh", "-c", AT_GATE, "sh", gate)
    job = document(under_umask(cluster, "022", *args))
    reached(cluster, job["job_id"], "RUNNING")
    cluster.check(["scancel", "--signal=KILL", "--full", job["job_id"]])
    reached(cluster, job["job_id"], "FAILED", "CANCELLED")
    assert cluster.run(["grep", "-rlF", TOKEN, job["folder"]], user="root").stdout == ""


def test_a_neighbours_folder_is_no_job(cluster: Cluster) -> None:
    """`jobs --rebuild` takes alice's folders, and none that bob laid beside them."""
    job = submit(cluster, "--wait", "--", "true")
    root = job["folder"].rpartition("/")[0]
    cluster.check(["cp", "-r", job["folder"], f"{root}/planted"], user="root")
    cluster.check(["chown", "-R", "bob", f"{root}/planted"], user="root")
    done = hpckit(cluster, "jobs", "--rebuild", "--json")
    assert done.returncode == 0, done
    assert "planted" not in hpckit(cluster, "jobs", "--all", "--json").stdout
    cluster.check(["rm", "-r", f"{root}/planted"], user="root")
