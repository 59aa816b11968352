"""Configurations of a Slurm whose nodes do not exist, and can be scheduled on all the same.

Every node is a cloud node that is switched off (State=CLOUD, `idle~`; slurm.conf(5), "Power Saving
Parameters"): slurmctld gives it to jobs, which then wait for it to come up, and it never does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpckit.core.units import parse_slurm_mem_bytes, slurm_mem_mib_ceil

BLOCK = 16
AMPLE: Mapping[str, Any] = {"nodes": 64, "cpus_per_node": 256, "mem_per_node": "2048G"}
"""What a partition has when its site file does not say: no job fails for it."""

SLURM_CONF = """\
SlurmctldHost=login
AuthType=auth/munge
CredType=cred/munge
SlurmUser=slurm
MailProg=/bin/true
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmctldPidFile=/run/slurm/slurmctld.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
EnforcePartLimits=ALL
GresTypes=gpu
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=600
ResumeTimeout=3600
TreeWidth=65533
SlurmctldParameters=idle_on_node_suspend,cloud_dns
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """Nodes that are alike, and called by one prefix and a number from 1, of so many digits."""

    prefix: str = "n"
    digits: int = 5
    count: int
    cpus: int = 64
    mem_mib: int = 1_000_000
    gpus: int = 8
    gpu_type: str | None = "h100"
    features: tuple[str, ...] = ()

    def names(self, first: int = 1, last: int | None = None) -> str:
        """The hostlist expression of the nodes from `first` to `last`."""
        last = last or self.count
        return f"{self.prefix}[{first:0{self.digits}d}-{last:0{self.digits}d}]"

    def groups(self, size: int, *, whole: bool) -> Iterator[str]:
        """The nodes by `size`; the last group may be smaller, unless they have to be `whole`."""
        for first in range(1, self.count + 1, size):
            last = min(first + size - 1, self.count)
            if last - first + 1 == size or not whole:
                yield self.names(first, last)

    @property
    def line(self) -> str:
        """The nodes' line of slurm.conf."""
        words = [f"NodeName={self.names()}", f"CPUs={self.cpus}", f"CoresPerSocket={self.cpus}"]
        words += ["Sockets=1", "ThreadsPerCore=1", f"RealMemory={self.mem_mib}"]
        if self.gpus:
            kind = f":{self.gpu_type}" if self.gpu_type else ""
            words.append(f"Gres=gpu{kind}:{self.gpus}")
        if self.features:
            words.append(f"Feature={','.join(self.features)}")
        return " ".join([*words, "State=CLOUD"])

    @property
    def gres_line(self) -> str:
        """The nodes' line of gres.conf: GPUs that are counted only, and have no device."""
        kind = f" Type={self.gpu_type}" if self.gpu_type else ""
        return f"NodeName={self.names()} Name=gpu{kind} Count={self.gpus} Flags=CountOnly"


def tree_conf(nodes: int, leaf: int = 32, leaves_per_spine: int = 16) -> dict[str, str]:
    """`nodes` nodes under a tree of switches, `leaf` a leaf, all in one partition `main`."""
    kind = NodeKind(count=nodes)
    lines = _tree([kind], leaf, leaves_per_spine)
    return _conf([kind], ["PartitionName=main Nodes=ALL Default=YES MaxTime=1-0"], "tree", lines)


def block_conf(nodes: int, block: int = BLOCK) -> dict[str, str]:
    """`nodes` nodes in blocks of `block`, all in one partition `main`."""
    kind = NodeKind(count=nodes)
    lines = _blocks([kind], block)
    return _conf([kind], ["PartitionName=main Nodes=ALL Default=YES MaxTime=1-0"], "block", lines)


def kinds_conf(kinds: Sequence[NodeKind], partitions: Sequence[str]) -> dict[str, str]:
    """Nodes of several kinds under one tree, in `partitions`, which are lines of slurm.conf."""
    return _conf(kinds, partitions, "tree", _tree(kinds, 32, 16))


def conf_of_site(site: Mapping[str, Any]) -> dict[str, str]:
    """What `site`, the tables of a site file, says about its Slurm: partitions, nodes, topology.

    Each partition has nodes of its own. Where none is the default, the first one is: there a site
    routes jobs by what they ask for. Accounts, QOS and reservations are not checked.
    """
    slurm = site.get("slurm", {})
    has_default = any(said.get("default", False) for said in site["partitions"].values())
    kinds, partitions = [], []
    for number, (name, said) in enumerate(site["partitions"].items()):
        kind = _kind(f"p{number}-", said)
        kinds.append(kind)
        is_default = said.get("default", False) or (number == 0 and not has_default)
        partitions.append(_partition(name, kind, said, is_default=is_default))
    topology = slurm.get("topology", "flat")
    lines = []
    if topology != "flat":
        lines = _tree(kinds, 32, 16) if topology == "tree" else _blocks(kinds, BLOCK)
    conf = _conf(kinds, partitions, topology, lines)
    if "max_array_size" in slurm:
        conf["slurm.conf"] += f"MaxArraySize={slurm['max_array_size']}\n"
    return conf


def _kind(prefix: str, said: Mapping[str, Any]) -> NodeKind:
    given = {**AMPLE, **said}
    return NodeKind(
        prefix=prefix,
        count=given["nodes"],
        cpus=given["cpus_per_node"],
        mem_mib=slurm_mem_mib_ceil(parse_slurm_mem_bytes(given["mem_per_node"])),
        gpus=given.get("gpus_per_node", 0),
        gpu_type=given.get("gpu_type"),
        features=tuple(given.get("features", ())),
    )


def _partition(name: str, kind: NodeKind, said: Mapping[str, Any], *, is_default: bool) -> str:
    default = "YES" if is_default else "NO"
    limit = said.get("time_limit", "UNLIMITED")
    return f"PartitionName={name} Nodes={kind.names()} Default={default} MaxTime={limit}"


def _conf(
    kinds: Sequence[NodeKind],
    partitions: Sequence[str],
    topology: str,
    topology_lines: Sequence[str],
) -> dict[str, str]:
    head = "ClusterName=made-up\n" + SLURM_CONF
    if topology != "flat":
        head += f"TopologyPlugin=topology/{topology}\n"
    files = {
        "slurm.conf": [kind.line for kind in kinds] + [f"{line} State=UP" for line in partitions],
        "gres.conf": [kind.gres_line for kind in kinds if kind.gpus],
        "topology.conf": topology_lines,
    }
    conf = {name: "".join(f"{line}\n" for line in lines) for name, lines in files.items() if lines}
    return {**conf, "slurm.conf": head + conf["slurm.conf"]}


def _tree(kinds: Sequence[NodeKind], leaf: int, leaves_per_spine: int) -> list[str]:
    groups = [group for kind in kinds for group in kind.groups(leaf, whole=False)]
    lines = [f"SwitchName=leaf{i:05d} Nodes={group}" for i, group in enumerate(groups)]
    spines = range(0, len(groups), leaves_per_spine)
    for number, first in enumerate(spines):
        last = min(first + leaves_per_spine, len(groups)) - 1
        lines.append(f"SwitchName=spine{number:04d} Switches=leaf[{first:05d}-{last:05d}]")
    return [*lines, f"SwitchName=core Switches=spine[0000-{len(spines) - 1:04d}]"]


def _blocks(kinds: Sequence[NodeKind], block: int) -> list[str]:
    """Blocks of `block` nodes; nodes that do not fill one are in none (a smaller one is fatal)."""
    groups = [group for kind in kinds for group in kind.groups(block, whole=True)]
    lines = [f"BlockName=b{i:05d} Nodes={group}" for i, group in enumerate(groups)]
    return [*lines, f"BlockSizes={block}"]
