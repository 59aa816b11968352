"""What a sampler is made of on this node: GPUs, host sources, what META says."""

from __future__ import annotations

import os

from hpckit import __version__
from hpckit.binding.plan_in_job import job_cpus, job_memory_bytes, number_in
from hpckit.core.files_in_job import read_bytes
from hpckit.sampler.cgroups_and_node import (
    Hierarchies,
    energy,
    network,
    node_use,
    pressure,
    value_of,
)
from hpckit.sampler.gpus import NvmlRefused, ShownGpu, amd_devices, may_open, sampled_gpus, uuid_of
from hpckit.sampler.job_counters import HostSources, JobCounters, JobProcesses
from hpckit.sampler.nvml_calls import NvmlCalls, parent_in, shown_gpus
from hpckit.sampler.nvml_counters import NvmlCounters

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from hpckit.sampler.amd import AmdCounters
    from hpckit.sampler.cgroups_and_node import Source
    from hpckit.sampler.guard import Beat
    from hpckit.sampler.loop import GpuCounters


DRIVER = "nvidia"
"""In place of a GPU's uuid: NVML as a whole."""


class Node:
    """This node's GPUs and host columns, and why others are not there."""

    def __init__(
        self, env: Mapping[str, str], hz: float, without: tuple[str, ...], beat: Beat
    ) -> None:
        """Look at everything once; `without` are GPUs that are left alone."""
        self._env = env
        self._hz = hz
        self._without = without
        self._beat = beat
        self._cpus = job_cpus(env)
        self.refused: dict[str, str] = {}
        self.is_synthetic = False
        job_id = env.get("SLURM_JOB_ID")
        self.processes = JobProcesses(job_id, env.get("SLURM_STEP_ID")) if job_id else None
        self._exclusive, self._why_not = self._alone()
        self.gpus: list[GpuCounters] = [*self._nvidia()]
        self.gpus += self._amd(sum(len(counters.describe()) for counters in self.gpus))
        self.host = HostSources(self._sources(), self.refused)

    def _nvidia(self) -> list[NvmlCounters]:
        if DRIVER in self._without:
            self.refused["nvidia"] = "the driver did not answer"
            return []
        self._beat.gpu = DRIVER
        try:
            nvml = NvmlCalls()
            self.is_synthetic = "synthetic" in nvml.driver_version()
            shown = shown_gpus(nvml)
        except NvmlRefused as refused:
            self.refused["nvidia"] = refused.reason
            # What hangs from here on is nothing of the driver's.
            self._beat.gpu = None
            return []
        chosen, because = sampled_gpus(self._env, shown, parent_in(nvml))
        hung = {gpu.place for gpu in shown if gpu.uuid in self._without}
        if not chosen:
            self.refused["nvidia"] = because
        answering = [index for index in chosen if index not in hung]
        counters = NvmlCounters(nvml, answering, self._hz, self._beat)
        for index in sorted(hung):
            counters.say_lost(shown[index].uuid, "the driver call did not return")
        self._beat.gpu = None
        return [counters]

    def _amd(self, place: int) -> list[AmdCounters]:
        devices = amd_devices()
        if not devices:
            return []
        from hpckit.sampler.amd import AmdCounters

        shown = [
            ShownGpu(index, uuid_of(device), index, opens=may_open(device))
            for index, device in enumerate(devices)
        ]
        chosen, because = sampled_gpus(self._env, shown, lambda _: None, "ROCR_VISIBLE_DEVICES")
        if not chosen:
            self.refused["amd"] = because
            return []
        return [AmdCounters([(index, devices[index]) for index in chosen], place)]

    def _sources(self) -> list[Source | JobCounters]:
        sources: list[Source | JobCounters] = []
        if self.processes is None:
            self.refused["job_cgroup"] = "not in a Slurm job"
        else:
            sources.append(JobCounters(self.processes, Hierarchies()))
        if self._exclusive is not False:
            sources.append(node_use())
        return [*sources, pressure("node", "/proc/pressure"), network("", self._why_not), energy()]

    def _alone(self) -> tuple[bool | None, str | None]:
        """Whether this node is the job's alone, and why counters of the node are not taken.

        Outside a job it is not asked: whoever samples a machine by hand wants the machine.
        """
        if "SLURM_JOB_ID" not in self._env:
            return None, None
        has_smt = read_bytes("/sys/devices/system/cpu/smt/active").startswith(b"1")
        allowed = Hierarchies().allowed_cpus()
        return has_node_alone(self._cpus, os.cpu_count() or 0, allowed, has_smt=has_smt)

    def meta(self, name: str) -> dict[str, Any]:
        """What META says beside GPUs and columns."""
        env = self._env
        total_kib = value_of(read_bytes("/proc/meminfo"), b"MemTotal:")
        return {
            "node": name,
            "job_id": env.get("SLURM_JOB_ID"),
            "array_task": number_in(env, "SLURM_ARRAY_TASK_ID"),
            "restart": number_in(env, "SLURM_RESTART_COUNT") or 0,
            "boot_id": read_bytes("/proc/sys/kernel/random/boot_id").decode().strip() or None,
            "synthetic": self.is_synthetic,
            "hpckit": __version__,
            "cpus": self._cpus or os.cpu_count(),
            "memory_limit_bytes": job_memory_bytes(env, self._cpus)
            or (None if total_kib is None else total_kib * 1024),
            "exclusive": self._exclusive,
        }


def has_node_alone(
    cpus: int | None, online: int, allowed: tuple[int, ...], *, has_smt: bool
) -> tuple[bool | None, str | None]:
    """Whether a job with so many CPUs, as Slurm counts them, has the node alone; and why not.

    `online` are the node's, and `allowed` what the sampler's control groups allow, from its own up.
    Slurm counts hardware threads or cores, as the node's CPUs= in slurm.conf has it. Half of the
    threads are all of the cores, or half of the node: the job's control group tells which. It is
    the first that is wider than the sampler's step, which has one core (srun -c 1).
    """
    if cpus is None:
        return None, "SLURM_JOB_CPUS_PER_NODE has no CPU count for this node"
    if cpus == online:
        return True, None
    step = allowed[0] if allowed else 0
    job = next((count for count in allowed if count > step), step)
    is_half = has_smt and cpus == online // 2
    if is_half and job == online and (step < cpus or step == job):
        return True, None
    if is_half and not step < job == cpus:
        words = "may be all cores or half of the node, and no cgroup shows which"
        return None, f"the job's {cpus} CPUs of {online} hardware threads {words}"
    return False, f"the job has {cpus} of {online} CPUs: other jobs may share this node"
