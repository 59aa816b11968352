"""One node's account: what its meters say, or what the site's figures make of it."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.app.node_fold import NodeFold
from hpckit.measure.sums import energy_sum
from hpckit.model.account import Energy, EnergySource, GpuAccount, NodeAccount
from hpckit.model.site import EnergySite

_KEYS = ("node_idle_w", "cpu_core_w")


def node_account(fold: NodeFold, gpus: Sequence[GpuAccount], site: EnergySite) -> NodeAccount:
    """The account of a folded node; `gpus` are those of the whole job."""
    evidence, meta = fold.evidence, fold.meta
    mine = [one for one in gpus if (one.node, one.restart) == (evidence.node, evidence.restart)]
    gpu = energy_sum([one.energy for one in mine], [one.held_s for one in mine])
    cpu_s = _ranks_cpu_s(fold)
    return NodeAccount(
        node=evidence.node,
        restart=evidence.restart,
        started_s=evidence.started_s,
        ended_s=evidence.ended_s,
        gpu_energy=gpu,
        energy=_energy(fold, gpu, bool(mine), cpu_s, site),
        samples=fold.samples,
        cpus=None if meta is None else meta.cpus,
        cpu_s=cpu_s,
        mem_limit_bytes=None if meta is None else meta.memory_limit_bytes,
        missing=fold.missing,
    )


def _ranks_cpu_s(fold: NodeFold) -> float | None:
    """What the ranks' ledgers say, None where one has no end."""
    ends = [life.end for life in fold.evidence.lives]
    times = [
        None
        if end is None or end.cpu_user_s is None
        else end.cpu_user_s + (end.cpu_system_s or 0.0)
        for end in ends
    ]
    known = [one for one in times if one is not None]
    return sum(known) if known and len(known) == len(times) else None


def _energy(
    fold: NodeFold, gpu: Energy, has_gpus: bool, cpu_s: float | None, site: EnergySite
) -> Energy:
    """The node's energy: modelled from the site's figures where no meter was read."""
    absent = [f"energy.{key}" for key in _KEYS if getattr(site, key) is None]
    if absent:
        why = f"no meter of the node could be read, and the site file has no {' and '.join(absent)}"
        return Energy(value_j=None, scope="node", because=why)
    if fold.meta is not None and fold.meta.exclusive is False:
        why = "no meter of the node could be read, and other jobs may share it"
        return Energy(value_j=None, scope="node", because=why)
    if has_gpus and gpu.value_j is None:
        return Energy(value_j=None, scope="node", because=f"that of its GPUs: {gpu.because}")
    return _modelled(fold, gpu, cpu_s, site)


def _modelled(fold: NodeFold, gpu: Energy, cpu_s: float | None, site: EnergySite) -> Energy:
    evidence = fold.evidence
    held_s = (evidence.end_ns - evidence.begin_ns) / 1e9
    idle_j = (site.node_idle_w or 0.0) * held_s
    busy_j = (site.cpu_core_w or 0.0) * (cpu_s or 0.0)
    if gpu.scope == "module":
        busy_j = 0.0  # the modules' figure has the CPUs in it
    words = "GPUs measured, the rest is node_idle_w × time + cpu_core_w × CPU seconds"
    return Energy(
        value_j=(gpu.value_j or 0.0) + idle_j + busy_j,
        source=EnergySource.MODELLED,
        coverage_frac=gpu.coverage_frac if gpu.value_j is not None else 1.0,
        scope="node",
        because=words if cpu_s is not None else f"{words}; the CPU seconds are not known",
    )


def node_energy(nodes: Sequence[NodeAccount]) -> Energy:
    """The energy of all nodes; not known where that of one is not."""
    for one in nodes:
        if one.energy.value_j is None:
            return one.energy
    weights = [(one.ended_s or 0.0) - (one.started_s or 0.0) for one in nodes]
    return energy_sum([one.energy for one in nodes], weights, scope="node")
