"""The two leaves of `docker/cluster up --fabric leaves`: as a fabric, and all-reduces on them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from hpckit.core.fields import to_tree
from hpckit.fabric.topology import (
    FABRIC_SCHEMA,
    Cable,
    ClusterTopology,
    FabricSource,
    HostPort,
    Switch,
    SwitchLink,
)
from hpckit.slurm.values import TopologyKind
from tests.cluster.cluster import CHECKOUT, Cluster

HOSTNAME_ORDER = tuple(f"c{number}" for number in range(1, 9))
LEAVES = {"leaf1": HOSTNAME_ORDER[0::2], "leaf2": HOSTNAME_ORDER[1::2]}
RATES = CHECKOUT / "docker" / "conf" / "leaves.conf"
PROGRAM = CHECKOUT / "tests" / "bench" / "fabric_ring.py"
RING_ENV = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
            "OMPI_MCA_coll_tuned_allreduce_algorithm": "4"}  # fmt: skip
"""Open MPI's all-reduce of that number goes around a ring; gloo's does unless told otherwise."""


class Placed(NamedTuple):
    """An order, and how many times as long a step's communication takes in hostname order."""

    order: tuple[str, ...]
    predicted_ratio: float


def rates_bytes_per_s() -> dict[str, float]:
    """By the name of the setting, what leaves a port in a second."""
    lines = (line.partition("=") for line in RATES.read_text("utf-8").splitlines())
    return {name: int(value) / 8 for name, _, value in lines if value and name[0] != "#"}


def leaves_fabric() -> ClusterTopology:
    """What the containers are shaped to: two leaves behind one router, at the configured rates."""
    rates = rates_bytes_per_s()
    uplink = Cable(bytes_per_s=rates["UPLINK_BITS_PER_S"])
    return ClusterTopology(
        source=FabricSource.TOPOLOGY_CONF,
        plugin=TopologyKind.TREE,
        switches=(*(Switch(name=leaf, level=0) for leaf in LEAVES), Switch(name="router", level=1)),
        links=tuple(SwitchLink(lower=leaf, upper="router", cables=(uplink,)) for leaf in LEAVES),
        ports=tuple(
            HostPort(node=node, switch=leaf, bytes_per_s=rates["NODE_BITS_PER_S"])
            for leaf, nodes in LEAVES.items()
            for node in nodes
        ),
    )


def placed(mesh: str, volume_bytes: int) -> Placed:
    """What `hpckit place` says of one rank a node, the volume being that of the axis `data`."""
    with tempfile.TemporaryDirectory(prefix="hpckit-fabric-") as folder:
        fabric = Path(folder) / "leaves.json"
        fabric.write_text(json.dumps({"schema": FABRIC_SCHEMA, **to_tree(leaves_fabric())}))
        words = ("place", "--nodelist", "c[1-8]", "--gpus-per-node", "1", "--mesh", mesh)
        more = ("--volume", f"data={volume_bytes}", "--fabric", str(fabric), "--json")
        done = subprocess.run(
            [sys.executable, "-m", "hpckit", *words, *more],
            cwd=CHECKOUT,
            check=True,
            capture_output=True,
            text=True,
        )
    document = json.loads(done.stdout)
    time_s = document["objectives"]["step_comm_time_s"]
    return Placed(tuple(document["order"]), time_s["hostname"] / time_s["placed"])


def all_reduce_s(
    cluster: Cluster,
    how: str,
    order: Sequence[str],
    group_sizes: Sequence[int],
    *,
    size_bytes: int,
    rounds: int,
    timeout_s: float = 120,
) -> dict[int, float]:
    """Median seconds of a round by group size; the i-th host of `order` carries rank i."""
    folder = f"/shared/alice/{uuid.uuid4()}"
    cluster.check(["mkdir", folder])
    cluster.copy_in(PROGRAM, f"{folder}/ring.py")
    cluster.run(["tee", f"{folder}/order"], input="".join(f"{host}\n" for host in order))
    words = (how, size_bytes, rounds, *group_sizes)
    step = ["srun", f"--ntasks={len(order)}", "--distribution=arbitrary", "--kill-on-bad-exit=1",
            f"--mpi={'pmix' if how == 'mpi' else 'none'}", "python3", f"{folder}/ring.py",
            *map(str, words)]  # fmt: skip
    told = {**RING_ENV, "SLURM_HOSTFILE": f"{folder}/order", "MASTER_ADDR": f"{order[0]}-leaf",
            "MASTER_PORT": "29500", "OMP_NUM_THREADS": "1"}  # fmt: skip
    pairs = [f"{name}={value}" for name, value in told.items()]
    # The hostfile is the step's: salloc would take hold of it too.
    job = ["salloc", "--quiet", f"--nodes={len(order)}", "--ntasks-per-node=1", "--time=10"]
    script = shlex.join(["exec", "env", *pairs, *step])
    done = cluster.run([*job, "bash", "-c", script], timeout_s=timeout_s)
    if done.returncode:
        raise RuntimeError(f"{how} on {','.join(order)}: {done.stdout}{done.stderr}")
    said: Mapping[str, dict[str, list[float]]] = json.loads(done.stdout)
    if tuple(said["hosts"]) != tuple(order):
        raise RuntimeError(f"ranks are on {said['hosts']}, not on {order}")
    return {int(size): median(each) for size, each in said["took_s"].items()}
