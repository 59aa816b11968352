from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from tests.cluster.cluster import Cluster, eventually
from tests.cluster.hpckit_on import (
    HELD,
    document,
    hpckit,
    new_path,
    programs,
    status,
    submit,
    traces,
)

EIGHT_GPUS = ("--gpus-per-node", "8")
DENIED = ("--qos", "gpu4-deny", *EIGHT_GPUS)
QOS_WORD = "QOSMaxGRESPerUser"
SITE_TEXT = """\
schema = "hpckit.site/1"
name = "elsewhere"
submitter = "slurm"
template = "base.sbatch.j2"
job_root = "{}"
"""


def elsewhere(cluster: Cluster, job_root: str) -> tuple[str, ...]:
    """The options that put job folders below `job_root`."""
    folder = new_path()
    cluster.check(["mkdir", folder])
    text = SITE_TEXT.format(job_root)
    assert cluster.run(["tee", f"{folder}/elsewhere.toml"], input=text).returncode == 0
    return ("--site-dir", folder, "--site", "elsewhere")


@pytest.fixture
def full_disk(cluster: Cluster) -> Iterator[str]:
    """A folder of alice's on the login host, in a file system that holds no further byte."""
    folder = new_path("/dev/shm")  # a tmpfs of 256 MiB, which any user can fill
    cluster.check(["mkdir", folder])
    filled = cluster.run(["dd", "if=/dev/zero", f"of={folder}/filler", "bs=1M"])
    cluster.run(["dd", "if=/dev/zero", f"of={folder}/more", "bs=1"])
    yield folder
    cluster.check(["rm", "-r", folder])
    assert "No space left" in filled.stderr, filled.stderr


# --- limits ------------------------------------------------------------------------------------


def test_a_limit_that_denies(cluster: Cluster) -> None:
    """A job over the limit of a QOS with DenyOnLimit is refused in Slurm's words, with code 7."""
    done = hpckit(cluster, "submit", "--json", "--no-checks", *DENIED, "--", "true")
    refusal = document(done)
    assert (done.returncode, refusal["schema"]) == (7, "hpckit.error/1")
    assert f"Slurm refused the job: {QOS_WORD}" in refusal["error"]
    assert QOS_WORD in done.stderr


@pytest.mark.parametrize("qos", ["gpu4-deny", "gpu4-pend"])
def test_a_limit_is_told_before(cluster: Cluster, qos: str) -> None:
    """A job that would be refused, or wait for ever, does not reach Slurm; the fix then runs."""
    done = hpckit(cluster, "submit", "--json", "--qos", qos, *EIGHT_GPUS, "--", "true")
    refusal = document(done)
    assert (done.returncode, QOS_WORD in refusal["error"]) == (5, True), refusal
    option, _, value = refusal["hint"].partition("=")
    job = submit(cluster, "--wait", "--qos", qos, option, value, "--", "true")
    assert job["state"] == "COMPLETED"


def test_an_option_of_a_plugin_that_is_not_here(cluster: Cluster) -> None:
    """What sbatch does not take, and a plugin may elsewhere, is a refusal; nothing is left."""
    before = traces(cluster)
    option = ("--set", "slurm.extra.container-image=x.sqsh")
    refusal = document(hpckit(cluster, "submit", "--json", *option, "--", "true"))
    assert refusal["exit_code"] == 7
    assert "Slurm refused the job: unrecognized option" in refusal["error"]
    assert traces(cluster) == before


def test_a_refused_job_leaves_nothing(cluster: Cluster) -> None:
    """A job that Slurm refused has no folder and no line in `hpckit jobs`."""
    submit(cluster, *HELD, "--", "true")
    before = traces(cluster)
    refused = hpckit(cluster, "submit", "--no-checks", *DENIED, "--", "true")
    assert refused.returncode == 7
    assert traces(cluster) == before


def test_a_limit_that_lets_wait(cluster: Cluster) -> None:
    """A job over the limit of a QOS that takes it pends, and its status says Slurm's word."""
    job = submit(cluster, "--no-checks", "--qos", "gpu4-pend", *EIGHT_GPUS, "--", "true")
    assert eventually(lambda: status(cluster, job["job_id"])["slurm_reason"] == QOS_WORD)
    assert status(cluster, job["job_id"])["state"] == "PENDING"


def test_a_limit_is_explained(cluster: Cluster) -> None:
    """`hpckit status` says in words what QOSMaxGRESPerUser means, and what would help."""
    job = submit(cluster, "--no-checks", "--qos", "gpu4-pend", *EIGHT_GPUS, "--", "true")

    def said() -> str:
        return " ".join(hpckit(cluster, "status", job["job_id"]).stdout.split())

    assert eventually(lambda: QOS_WORD in said())
    assert "limits how many GPUs and other GRES one user may hold at once" in said()
    assert "sacctmgr -P show qos format=Name,MaxTRESPU,Flags" in said()


@pytest.mark.parametrize(
    ("words", "slurms"),
    [
        (("--partition", "nowhere"), "invalid partition specified: nowhere"),
        (("--account", "nobody"), "Invalid account"),
        (("--nodes", "5"), "Requested node configuration is not available"),
        (("--dependency", "afterok:999999999"), "Job dependency problem"),
    ],
)
def test_slurms_refusals_are_passed_on(
    cluster: Cluster, words: tuple[str, str], slurms: str
) -> None:
    """What Slurm will not have is refused with code 7 and what Slurm says about it."""
    done = hpckit(cluster, "submit", "--no-checks", *words, "--", "true")
    assert done.returncode == 7
    assert slurms in done.stderr


@pytest.mark.parametrize("words", [("--partition", "nowhere"), ("--nodes", "5")])
def test_what_the_checks_find(cluster: Cluster, words: tuple[str, str]) -> None:
    """What the cluster does not have is refused with code 5, no call of sbatch and no trace."""
    log = new_path("/tmp")
    before = traces(cluster)
    done = hpckit(cluster, "submit", *words, "--", "true", env={"HPCKIT_COMMAND_LOG": log})
    assert done.returncode == 5
    assert "this job cannot run" in done.stderr
    assert "sbatch" not in programs(cluster, log)
    assert traces(cluster) == before


# --- what cannot be answered ---------------------------------------------------------------------


@pytest.mark.parametrize("command", ["status", "logs", "wait", "cancel", "show"])
def test_a_job_that_nobody_submitted(cluster: Cluster, command: str) -> None:
    """An id that hpckit does not know is one sentence and exit code 1."""
    done = hpckit(cluster, command, "987654321")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error  no job '987654321' was submitted from here with hpckit\n"
        "  fix: hpckit jobs lists them\n"
    )


@pytest.mark.parametrize("command", ["status", "logs", "wait", "cancel", "show"])
def test_somebody_elses_job(cluster: Cluster, command: str) -> None:
    """A job of alice's is one that bob has not submitted."""
    job_id = submit(cluster, *HELD, "--", "true")["job_id"]
    done = hpckit(cluster, command, job_id, user="bob")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"no job '{job_id}' was submitted from here with hpckit" in done.stderr


@pytest.mark.parametrize(
    ("which", "sentence"),
    [
        ((), "the job has written no log yet in"),
        (("--rank", "0"), "rank 0 has no log"),
    ],
)
def test_a_log_that_is_not_there_yet(
    cluster: Cluster, which: tuple[str, ...], sentence: str
) -> None:
    """The log of a job that waits is refused in one sentence, with code 1."""
    job_id = submit(cluster, *HELD, "--", "true")["job_id"]
    done = hpckit(cluster, "logs", job_id, *which)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error  {sentence}")


# --- nowhere to write ----------------------------------------------------------------------------


def test_a_job_root_that_cannot_be_written(cluster: Cluster) -> None:
    """Where no job folder can be made the job is refused with code 7, and sbatch is not called."""
    log = new_path("/tmp")
    site = elsewhere(cluster, "/usr/lib/jobs")
    done = hpckit(cluster, "submit", *site, "--", "true", env={"HPCKIT_COMMAND_LOG": log})
    assert done.returncode == 7
    assert "sbatch" not in programs(cluster, log)
    assert "/usr/lib/jobs" in done.stderr


def test_a_full_disk(cluster: Cluster, full_disk: str) -> None:
    """Where the job folder cannot be filled the job is refused, with no call of sbatch, and the
    folder is removed.
    """
    log = new_path("/tmp")
    site = elsewhere(cluster, f"{full_disk}/jobs")
    done = hpckit(cluster, "submit", *site, "--", "true", env={"HPCKIT_COMMAND_LOG": log})
    assert done.returncode == 7
    assert "sbatch" not in programs(cluster, log)
    assert "No space left on device" in done.stderr
    assert cluster.run(["ls", f"{full_disk}/jobs"]).stdout == ""


def test_an_index_on_a_full_disk(cluster: Cluster, full_disk: str) -> None:
    """Where the job cannot be recorded it is refused, with no call of sbatch and no folder left."""
    log = new_path("/tmp")
    root = PurePosixPath(new_path())
    site = elsewhere(cluster, str(root))
    env = {"HPCKIT_COMMAND_LOG": log, "XDG_STATE_HOME": full_disk}
    done = hpckit(cluster, "submit", *site, "--", "true", env=env)
    assert done.returncode == 7
    assert "sbatch" not in programs(cluster, log)
    assert cluster.run(["ls", str(root)]).stdout == ""
