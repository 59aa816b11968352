"""Jobs whose ranks say where they are, and where `hpckit place` wants them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.cluster.cluster import Containers
from tests.cluster.hpckit_on import document, hpckit, new_path, submit

RANKS_PER_NODE = 2
MESH: Mapping[str, int] = {"tensor": RANKS_PER_NODE, "pipeline": 2, "data": 2}
VOLUME: Mapping[str, float] = {"data": 1e9, "pipeline": 1e6}
"""On four nodes the first and the third have to be on one leaf, which is no order of Slurm's own.
"""
REAL_SRUN = "/usr/bin/srun"

PROVEN = 'test -z "$HPCKIT_PLACE" || until test -e "$HPCKIT_PLACE/proof.json"; do sleep 0.1; done'
"""Rank 0 looks for late ranks beside its command, which has to be there for that long."""
AT = "at $(hostname) $RANK ${NODE_RANK:-$GROUP_RANK} $LOCAL_RANK $MASTER_ADDR"
SAYS = f'echo "{AT}"; {PROVEN}'
"""What a rank runs, under srun's variables or torchrun's."""
SAYS_BY_NODE = SAYS.replace("$(hostname)", "$SLURMD_NODENAME")
"""The same where nodes share a host."""
SAYS_BY_PMI = SAYS.replace("$RANK", "$PMI_RANK")
SAYS_BY_MPI = """\
import os, socket
from mpi4py import MPI
rest = [os.environ[name] for name in ("NODE_RANK", "LOCAL_RANK", "MASTER_ADDR")]
print("at", socket.gethostname(), MPI.COMM_WORLD.rank, *rest)
"""

TORCHRUN = '''\
#!/usr/bin/env python3
"""A stand-in for torchrun, where it is not installed or cannot start: a node's ranks, no torch."""
import os, subprocess, sys
words, own = iter(sys.argv[1:]), {}
for word in words:
    if word == "--no-python":
        break
    name, _, value = word.removeprefix("--").partition("=")
    own[name] = value
command, each = list(words), int(own["nproc-per-node"])
started = []
for local in range(each):
    rank = int(own["node-rank"]) * each + local
    env = {"RANK": rank, "LOCAL_RANK": local, "GROUP_RANK": own["node-rank"]}
    env |= {"WORLD_SIZE": each * int(own["nnodes"]), "LOCAL_WORLD_SIZE": each}
    env |= {"MASTER_ADDR": own["master-addr"], "MASTER_PORT": own["master-port"]}
    env = os.environ | {key: str(value) for key, value in env.items()}
    started.append(subprocess.Popen(command, env=env))
sys.exit(max(one.wait() for one in started))
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How ranks are started, and what they run."""

    kind: str
    command: Sequence[str]
    mpi: str | None = None

    def text(self, setup: Sequence[str] = (), **place: object) -> str:
        """A job file of four nodes; `setup` are lines that its script runs first."""
        each = "gpus_per_node" if self.kind == "torchrun" else "ntasks_per_node"
        launch = {"kind": self.kind} | ({"mpi": self.mpi} if self.mpi else {})
        tables: Mapping[str, Mapping[str, object]] = {
            "resources": {"nodes": 4, each: RANKS_PER_NODE},
            "launch": launch,
            "parallel": MESH,
            "environment": {"setup": list(setup)},
            "place": place,
            "place.volume": VOLUME,
        }
        head = f'schema = "hpckit.job/1"\nname = "placed"\ncommand = {json.dumps(self.command)}\n'
        return head + "".join(
            f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in one.items())
            for name, one in tables.items()
        )


PLAIN = Launch(kind="plain", command=["sh", "-c", SAYS])
BY_TORCHRUN = Launch(kind="torchrun", command=["sh", "-c", SAYS])
BY_PMIX = Launch(
    kind="mpi", command=["sh", "-c", f'python3 -c "$0"; {PROVEN}', SAYS_BY_MPI], mpi="pmix"
)
BY_PMI = Launch(kind="mpi", command=["sh", "-c", SAYS_BY_PMI], mpi="pmi2")
"""Debian builds Slurm 26.05 without PMIx."""


def program(cluster: Containers, name: str, text: str) -> str:
    """Put a program into a folder that every host sees; the setup line that has it on PATH."""
    folder = new_path()
    cluster.check(["mkdir", folder])
    cluster.run(["tee", f"{folder}/{name}"], input=text)
    cluster.check(["chmod", "755", f"{folder}/{name}"])
    return f"export PATH={folder}:$PATH"


def sent(cluster: Containers, text: str, *words: str) -> dict[str, Any]:
    """The document of a submission of a job file."""
    path = f"{new_path()}.toml"
    cluster.run(["tee", path], input=text)
    return submit(cluster, path, *words)


def planned(cluster: Containers, nodelist: str = "c[1-4]") -> list[str]:
    """The order that `hpckit place` gives to these nodes, by the fabric of the live Slurm."""
    mesh = ",".join(f"{axis}={size}" for axis, size in MESH.items())
    volume = ",".join(f"{axis}={size}" for axis, size in VOLUME.items())
    options = ("--gpus-per-node", str(RANKS_PER_NODE), "--mesh", mesh, "--volume", volume)
    done = hpckit(cluster, "place", "--nodelist", nodelist, *options, "--json")
    assert done.returncode == 0, done.stderr
    order: list[str] = document(done)["order"]
    return order


def at(order: Sequence[str], each: int = RANKS_PER_NODE) -> list[tuple[str, ...]]:
    """What the ranks have to say where the i-th node has the i-th `each` of them: node, rank, its
    node's rank, local rank, and where they meet.
    """
    return [
        (node, str(number * each + local), str(number), str(local), order[0])
        for number, node in enumerate(order)
        for local in range(each)
    ]


def landed(cluster: Containers, job: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """What the ranks of a job said, in the order of their logs."""
    script = 'cd "$1/logs" && ls | grep "^rank-" | sort -t - -k 2 -n | xargs grep -h "^at "'
    said = cluster.check(["sh", "-c", script, "sh", job["folder"]])
    return [tuple(line.split()[1:]) for line in said.splitlines()]


def verdicts(cluster: Containers, job: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """What rank 0 found: the verdict and its reason, by what was compared."""
    proof = json.loads(cluster.read(f"{job['folder']}/place/restart-0/proof.json"))
    assert proof["schema"] == "hpckit.proof/1"
    return {one["what"]: (one["verdict"], one["because"]) for one in proof["verdicts"]}
