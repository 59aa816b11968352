"""Many nodes: what Slurm says of each, what each said of itself, and which are alike."""

from __future__ import annotations

from dataclasses import dataclass

from hpckit.core.findings import Finding
from hpckit.model.hardware import NodeTopology


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """A node as sinfo lists it: its state in long form without flags, and its GPUs by gres.

    `state` is None for a name that Slurm does not know. With `has_mig` some of `gpus` are parts of
    GPUs, as their types say (`3g.20gb`). `is_powered_off` is a node that Slurm has
    put to sleep, or is about to, and would wake for a job.
    """

    name: str
    state: str | None = None
    gpus: int = 0
    has_mig: bool = False
    is_responding: bool = True
    is_powered_off: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswer:
    """What became of the question to a node: its topology, or `because` it gave none."""

    node: str
    topology: NodeTopology | None = None
    because: str | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlikeNodes:
    """Nodes that are alike in everything that a job meets; `topology` is that of the first.

    `differs` says what sets them apart from the largest group, nothing for that group itself.
    `findings` are those that all of them have.
    """

    nodes: tuple[str, ...]
    topology: NodeTopology
    findings: tuple[Finding, ...] = ()
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeQuestion:
    """Nodes that are to say what they are, within `timeout_s` seconds.

    It goes through the allocation `job_id`, or through one of its own for a minute or two, for
    which the rest is what Slurm is told. Each is to have `expected_gpus`, None being Slurm's gres.
    """

    nodes: tuple[str, ...]
    timeout_s: float
    job_id: str | None = None
    expected_gpus: int | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    gpus_per_node: int | None = None
