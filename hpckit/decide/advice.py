"""What a measured job says about the next one: changes to the job file, each with its evidence.

Less is advised only from a run that completed, and only where it saves enough to be worth a
change; more where the run shows that it was too little. What was not measured advises nothing.
`gpu_type` is never advised: another type changes how long the job takes, which no report of this
one tells.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from hpckit.decide.advice_cpus import cpu_advice
from hpckit.decide.advice_gpus import gpu_advice
from hpckit.decide.advice_memory import memory_advice
from hpckit.decide.advice_run import MeasuredRun
from hpckit.decide.advice_time import time_advice
from hpckit.model.account import Advice, JobReport
from hpckit.model.job import JobSpec

_NUMBERS = frozenset({"nodes", "gpus_per_node", "cpus_per_task"})


def advise(report: JobReport, spec: JobSpec) -> tuple[Advice, ...]:
    """The changes to the job file that a report speaks for, in the order of the file's keys.

    `spec` is the effective job that was measured. A job without faults that asks for what it
    needs gets none.
    """
    run = MeasuredRun(report=report, spec=spec)
    found = [*gpu_advice(run)]
    smaller = dataclasses.replace(run, spec=with_advice(spec, found))
    cpus, time = _one_at_a_time(cpu_advice(smaller), time_advice(run))
    found += cpus
    # Memory per GPU or CPU is per one of those that are left.
    smaller = dataclasses.replace(run, spec=with_advice(spec, found))
    return (*found, *memory_advice(smaller), *time)


def _one_at_a_time(
    cpus: tuple[Advice, ...], time: tuple[Advice, ...]
) -> tuple[tuple[Advice, ...], tuple[Advice, ...]]:
    """Both, but no time limit from this run for one on fewer CPUs, which may take longer."""
    are_fewer = any(one.now is not None and int(one.proposed) < int(one.now) for one in cpus)
    if not are_fewer or not time:
        return cpus, time
    words = "the time limit stays until a run on these has shown its time"
    return tuple(structs.replace(one, because=f"{one.because}; {words}") for one in cpus), ()


def values_of(advice: Sequence[Advice]) -> Mapping[str, str | int]:
    """Each key that is advised about and its new value, typed as the job file types it."""
    return {one.key: _value(one) for one in advice}


def with_advice(spec: JobSpec, advice: Sequence[Advice]) -> JobSpec:
    """The job with these changes; they are all of `[resources]`."""
    changes: dict[str, Any] = {
        key.removeprefix("resources."): value for key, value in values_of(advice).items()
    }
    return dataclasses.replace(spec, resources=dataclasses.replace(spec.resources, **changes))


def _value(advice: Advice) -> str | int:
    is_number = advice.key.removeprefix("resources.") in _NUMBERS
    return int(advice.proposed) if is_number else advice.proposed
