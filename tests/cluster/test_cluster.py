from __future__ import annotations

import re
import subprocess
import tomllib

import pytest

from tests.cluster.cluster import CHECKOUT, Background, Cluster, eventually

SBATCH = ("sbatch", "--parsable", "--output=/dev/null")
LOOK_AT_NVML = """
import socket, pynvml as nvml
nvml.nvmlInit()
gpus = [nvml.nvmlDeviceGetHandleByIndex(at) for at in range(nvml.nvmlDeviceGetCount())]
links = sum(nvml.nvmlDeviceGetNvLinkState(gpu, link) for gpu in gpus for link in range(18))
print(socket.gethostname(), len(gpus), nvml.nvmlSystemGetDriverVersion(), links)
"""
QOS_WORDS = "QOSMaxGRESPerUser"


def reason(cluster: Cluster, job: str) -> str:
    """Why slurmctld keeps `job` waiting."""
    return cluster.check(["squeue", "--noheader", "--format=%T %r", f"--jobs={job}"]).strip()


def test_every_node_is_idle(cluster: Cluster) -> None:
    """All the nodes that were started are idle, and no other node is known."""
    cluster.wait_idle()
    states = cluster.check(["sinfo", "--noheader", "--Node", "--partition=main", "--format=%N %T"])
    assert states.splitlines() == [f"{node} idle" for node in cluster.nodes]


@pytest.mark.slow
def test_down_leaves_nothing(cluster: Cluster) -> None:
    """After `docker/cluster up` and `down` no container, volume or network is there."""
    script, name = str(CHECKOUT / "docker" / "cluster"), f"{cluster.name}-up"
    environ = {**cluster.environ, "HPCKIT_CLUSTER": name}
    try:
        subprocess.run([script, "up"], env=environ, check=True, capture_output=True, timeout=600)
    finally:
        subprocess.run([script, "down"], env=environ, check=True, capture_output=True, timeout=600)
    for what in (["ps", "--all"], ["volume", "ls"], ["network", "ls"]):
        form = "{{.Names}}" if what[0] == "ps" else "{{.Name}}"
        asked = ["docker", *what, f"--format={form}"]
        names = subprocess.run(asked, check=True, capture_output=True, encoding="utf-8").stdout
        assert name not in names, what


def test_version(cluster: Cluster) -> None:
    """The cluster runs Slurm 24.11.5, which Debian calls slurm-wlm."""
    assert cluster.check(["sinfo", "--version"]) == "slurm-wlm 24.11.5\n"


def test_hpckit_is_installed(cluster: Cluster) -> None:
    """The login host has this checkout's hpckit on its PATH."""
    text = (CHECKOUT / "hpckit" / "__init__.py").read_text()
    (version,) = re.findall(r'__version__ = "(.*)"', text)
    assert version in cluster.check(["hpckit", "--version"])


def test_gpus(cluster: Cluster) -> None:
    """Every node has eight GPUs of the type h100."""
    gres = cluster.check(["sinfo", "--noheader", "--Node", "--partition=main", "--format=%N %G"])
    assert gres.splitlines() == [f"{node} gpu:h100:8(S:0-1)" for node in cluster.nodes]


def test_cuda_visible_devices(cluster: Cluster) -> None:
    """Slurm itself tells a task which GPUs are its own."""
    ask = ["srun", "--nodes=2", "--gpus-per-node=2", "printenv", "CUDA_VISIBLE_DEVICES"]
    assert cluster.check(ask).splitlines() == ["0,1", "0,1"]


@pytest.mark.parametrize(
    ("user", "account"), [("alice", "proj1"), ("alice", "proj2"), ("bob", "proj2")]
)
def test_accounts(cluster: Cluster, user: str, account: str) -> None:
    """User alice may charge proj1 and proj2, and bob proj2."""
    job = cluster.check([*SBATCH, f"--account={account}", "--wrap=true"], user=user)
    assert job.strip().isdigit()


@pytest.mark.parametrize(("user", "account"), [("alice", "unknown"), ("bob", "proj1")])
def test_associations_are_enforced(cluster: Cluster, user: str, account: str) -> None:
    """A job on an account that is not the user's is refused."""
    refused = cluster.run([*SBATCH, f"--account={account}", "--wrap=true"], user=user)
    assert refused.returncode == 1
    assert "Invalid account" in refused.stderr


def test_qos_that_denies(cluster: Cluster) -> None:
    """A job larger than gpu4-deny's four GPUs is refused when it is submitted."""
    refused = cluster.run([*SBATCH, "--qos=gpu4-deny", "--gpus-per-node=8", "--wrap=true"])
    assert refused.returncode == 1
    assert QOS_WORDS in refused.stderr


def test_qos_that_lets_wait(cluster: Cluster) -> None:
    """A job larger than gpu4-pend's four GPUs is taken, and waits with the limit as its reason."""
    job = cluster.check([*SBATCH, "--qos=gpu4-pend", "--gpus-per-node=8", "--wrap=true"]).strip()
    assert eventually(lambda: QOS_WORDS in reason(cluster, job)), reason(cluster, job)


def test_all_reduce(cluster: Cluster) -> None:
    """Eight ranks of mpi4py on four nodes, started by srun with PMIx, agree on their sum."""
    if cluster.run(["python3", "-c", "import mpi4py"]).returncode != 0:
        pytest.skip("this image has no mpi4py: docker/cluster up --target mpi")
    program = "from mpi4py import MPI; w = MPI.COMM_WORLD; print(w.allreduce(w.rank))"
    srun = ["srun", "--nodes=4", "--ntasks-per-node=2", "--mpi=pmix"]
    done = cluster.run([*srun, "python3", "-c", program])
    if "mca_pml_ob1_recv_frag" in done.stderr:
        # Open MPI 5.0's MPI_Init crashes there once in a while: open-mpi/ompi, issue 12495.
        done = cluster.run([*srun, "python3", "-c", program])
    assert done.stdout.split() == ["28"] * 8, done.stderr


def test_topology(cluster: Cluster) -> None:
    """c1 and c2 are under leaf1, c3 and c4 under leaf2, and one spine joins the leaves."""
    text = cluster.check(["scontrol", "show", "topology"])
    found = dict(re.findall(r"SwitchName=(\S+) .*?Nodes=(\S+)", text))
    few = {"leaf1": "c[1-2]", "leaf2": "c[3-4]", "spine": "c[1-4]"}
    many = {"leaf1": "c[1-2,5-6]", "leaf2": "c[3-4,7-8]", "spine": "c[1-8]"}
    assert found == (few if len(cluster.nodes) == 4 else many)


def test_what_a_node_pretends(cluster: Cluster) -> None:
    """A node says what machine it pretends to be, and that it is made up."""
    node = tomllib.loads(cluster.check(["cat", "/etc/hpckit/node.toml"], host="c3"))
    assert node == {
        "schema": "hpckit.node/1",
        "synthetic": True,
        "sysroot": "/opt/hpckit/machines/dgx-h100-nic-down",
        "nvml_profile": "/opt/hpckit/nvml-profiles/dgx-h100.toml",
    }


def test_gpus_that_a_job_sees(cluster: Cluster) -> None:
    """In a job NVML shows the node's eight GPUs, and the one link that is dead on c2."""
    srun = ["srun", "--nodes=4", "/opt/hpckit/bin/python", "-c", LOOK_AT_NVML]
    lines = cluster.check(srun).splitlines()
    links = {"c1": 144, "c2": 143, "c3": 144, "c4": 144}
    assert sorted(lines) == [f"{name} 8 570.86.15-synthetic {of}" for name, of in links.items()]


def test_reservation(cluster: Cluster) -> None:
    """docker/reserve announces a maintenance window, which holds back a longer job, and takes it
    back.
    """
    script = str(CHECKOUT / "docker" / "reserve")
    subprocess.run([script, "10"], env=cluster.environ, check=True, capture_output=True)
    try:
        assert "ReservationName=maintenance" in cluster.check(["scontrol", "show", "reservation"])
        job = cluster.check([*SBATCH, "--time=30", "--wrap=true"]).strip()
        assert eventually(lambda: "ReqNodeNotAvail" in reason(cluster, job))
    finally:
        subprocess.run([script, "remove"], env=cluster.environ, check=True, capture_output=True)
    assert "No reservations" in cluster.check(["scontrol", "show", "reservation"])


def test_accounting(cluster: Cluster) -> None:
    """Accounting knows a job that has ended, and the GPUs that it had."""
    job = cluster.check([*SBATCH, "--gpus-per-node=8", "--wrap=true"]).strip()
    sacct = ["sacct", "--jobs", job, "--allocations", "--noheader", "--parsable2"]
    ask = [*sacct, "--format=State,AllocTRES"]
    assert eventually(lambda: "COMPLETED" in cluster.check(ask))
    assert "gres/gpu:h100=8" in cluster.check(ask)


def test_restart_of_slurmctld(cluster: Cluster) -> None:
    """A job that waits is still there when slurmctld has been restarted."""
    job = cluster.check([*SBATCH, "--hold", "--wrap=true"]).strip()
    cluster.restart("ctl")
    cluster.wait_idle()
    assert reason(cluster, job) == "PENDING JobHeldUser"


def test_signal_reaches_the_command(cluster: Cluster) -> None:
    """A signal to a command in the background ends it inside its host."""
    sleeper = cluster.start(["sleep", "300"])
    assert isinstance(sleeper, Background)
    assert eventually(lambda: cluster.run(["test", "-s", sleeper.pid_file]).returncode == 0)
    sleeper.terminate()
    sleeper.communicate(timeout=10)
    assert cluster.run(["pgrep", "--exact", "sleep", "--uid=alice"]).returncode == 1
