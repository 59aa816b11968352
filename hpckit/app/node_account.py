"""One node's account: what its meters say, or what the site's figures make of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from hpckit.app.node_fold import NodeFold
from hpckit.measure.energy_sum import Part, from_slurm, reasons_of, sum_of_boards, sum_of_parts
from hpckit.model.account import SPLIT_GPU, Energy, EnergySource, GpuAccount, NodeAccount
from hpckit.model.energy_reason import MODEL_KEYS, EnergyLack, EnergyReason, SlurmEnergy
from hpckit.model.energy_site import EnergySite
from hpckit.model.series import SampleMeta

_WHOLE = ("node", "module")
_HOST = (
    "cpus_enough",
    "cpu_throttled_s",
    "mem_peak_bytes",
    "mem_kernel_peak_bytes",
    "mem_limit_bytes",
    "oom_kills",
    "psi_frac",
    "network_bytes",
    "sampler_cpu_s",
)


def node_account(fold: NodeFold, gpus: Sequence[GpuAccount], site: EnergySite) -> NodeAccount:
    """The account of a folded node; `gpus` are its own, in this incarnation."""
    evidence, meta, host = fold.evidence, fold.meta, fold.host
    gpu = sum_of_boards(one.energy for one in gpus)
    from_host = {} if host is None else {name: getattr(host, name) for name in _HOST}
    cpu_s = _cpu_s(fold)
    return NodeAccount(
        node=evidence.node,
        restart=evidence.restart,
        started_s=evidence.started_s,
        ended_s=evidence.ended_s,
        gpu_energy=gpu,
        energy=_energy(fold, gpu if gpus else None, cpu_s, site),
        samples=fold.samples,
        cpus=None if meta is None else meta.cpus,
        cpu_s=cpu_s,
        missing=(*fold.missing, *(() if host is None else host.missing)),
        **from_host,
    )


def _cpu_s(fold: NodeFold) -> float | None:
    """The job's CPU seconds by its cgroup, else those of its ranks, None where one has no end."""
    if fold.host is not None and fold.host.cpu_s is not None:
        return fold.host.cpu_s
    ends = [life.end for life in fold.evidence.lives]
    times = [
        None if one is None or one.cpu_user_s is None else one.cpu_user_s + (one.cpu_system_s or 0)
        for one in ends
    ]
    known = [one for one in times if one is not None]
    return math.fsum(known) if known and len(known) == len(times) else None


def _energy(fold: NodeFold, gpu: Energy | None, cpu_s: float | None, site: EnergySite) -> Energy:
    """The node's energy: of a meter, with the GPUs' where it lacks them; else modelled."""
    metered = None if fold.host is None else metered_energy(fold.host.energy, gpu)
    if metered is not None and metered.value_j is not None:
        return metered
    reasons: tuple[EnergyReason, ...] = (EnergyReason(kind=EnergyLack.SAMPLES),)
    if fold.host is not None:
        reasons = (metered or fold.host.energy).reasons
    absent = tuple(key for key in MODEL_KEYS if getattr(site, key) is None)
    if fold.meta is not None and fold.meta.exclusive is False:
        reasons = (*reasons, EnergyReason(kind=EnergyLack.OWN_SHARE))
    elif absent:
        reasons = (*reasons, EnergyReason(kind=EnergyLack.SITE_KEYS, keys=absent))
    elif gpu is not None and gpu.value_j is None:
        reasons = (EnergyReason(text=f"that of its GPUs: {gpu.because}"),)
    else:
        return _modelled(fold, gpu, cpu_s, site)
    return Energy.unknown_of_node(*reasons)


def metered_energy(meter: Energy, gpu: Energy | None) -> Energy | None:
    """What a meter says of a whole node or all of them, None where there is none.

    A meter of the CPUs lacks the GPUs, whose energy is added; one of the node or of modules has
    them, and a GPU's figure that is its module's has the CPUs: neither is added to the other.
    """
    if meter.value_j is None:
        return None
    if meter.scope in _WHOLE or gpu is None:
        return replace(meter, scope="node")
    if gpu.value_j is None:
        text = f"its CPUs took {meter.value_j:.0f} J, and of its GPUs nothing is known"
        return Energy.unknown_of_node(EnergyReason(text=text))
    if gpu.scope == "module":
        words = "the GPUs' modules, which have the CPUs in them"
        return replace(gpu, scope="node", because=words)
    words = f"{meter.because}, and the {_gpus(gpu)}; without NICs, disks, fans and losses"
    return replace(sum_of_boards([meter, gpu], because=words), scope="node")


def _gpus(gpu: Energy | None) -> str:
    return "GPUs" if gpu is None or gpu.scope != SPLIT_GPU else "GPUs, those that MIG splits whole"


def _modelled(fold: NodeFold, gpu: Energy | None, cpu_s: float | None, site: EnergySite) -> Energy:
    """GPUs as measured, and the site's figures for the rest."""
    evidence = fold.evidence
    held_s = (evidence.end_ns - evidence.begin_ns) / 1e9
    busy_s = 0.0 if cpu_s is None or (gpu is not None and gpu.scope == "module") else cpu_s
    idle_j = (site.node_idle_w or 0.0) * held_s
    words = f"node_idle_w × time + cpu_core_w × CPU seconds + {_gpus(gpu)}"
    return Energy(
        value_j=(0.0 if gpu is None else gpu.value_j or 0.0)
        + idle_j
        + (site.cpu_core_w or 0.0) * busy_s,
        source=EnergySource.MODELLED,
        coverage_frac=1.0 if gpu is None else gpu.coverage_frac,
        scope="node",
        because=words if cpu_s is not None else f"{words}; the CPU seconds are not known",
    )


def node_energy(nodes: Sequence[NodeAccount]) -> Energy:
    """The energy of all nodes, for as long as they were held; not known where one's is not."""
    for one in nodes:
        if one.energy.value_j is None:
            return one.energy
    parts = [Part(one.energy, one.node, (one.span_s or 0.0) + one.unseen_s) for one in nodes]
    return replace(sum_of_parts(parts), scope="node")


def with_slurms(
    energy: Energy, gpu: Energy | None, told: SlurmEnergy, metas: Iterable[SampleMeta | None]
) -> Energy:
    """The nodes' energy where nothing of hpckit's told it: Slurm's, where that is the job's."""
    if told.value_j is None or told.plugin is None:
        return Energy.unknown_of_node(*reasons_of(energy), *told.reasons)
    alone = {None if meta is None else meta.exclusive for meta in metas}
    is_exclusive = False if False in alone else None if None in alone else True
    found = from_slurm(told.value_j, told.plugin, is_exclusive=is_exclusive)
    return metered_energy(found, gpu) or found
