"""mpibind's published answers, and what each of its calls is here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from hpckit.binding.bind import NodeBinding, bind_ranks
from hpckit.core.index_list import expand_indices
from hpckit.node.topology import NodeTopology

_NUMBER = re.compile(r"# (\d+):")
_BY_MEMORY = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One of mpibind's test cases: its parameters, and CPUs and GPUs of each task."""

    number: int
    tasks: int
    smt: int = 0
    only: str | None = None
    is_by_memory: bool = False
    cpus: tuple[tuple[int, ...], ...]
    gpus: tuple[tuple[int, ...], ...]


def _lists(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(expand_indices(part) for part in text.strip().strip('"').split(";"))


def read_cases(path: Path, like: Path | None = None) -> list[Case]:
    """The cases of a file; `like` has the parameters where the file has none of its own."""
    lines = path.read_text().splitlines()
    params = {} if like is None else {case.number: case for case in read_cases(like)}
    cases = []
    for at, line in enumerate(lines):
        match = _NUMBER.match(line)
        if match is None:
            continue
        number = int(match[1])
        cpus, gpus = (_lists(part) for part in [one for one in lines[at:] if one[:1] == '"'][1:3])
        if number in params:
            told = params[number]
            case = Case(
                number=number, tasks=told.tasks, smt=told.smt, only=told.only,
                is_by_memory=told.is_by_memory, cpus=cpus, gpus=gpus,
            )  # fmt: skip
        else:
            asked = json.loads(lines[at + 1].removeprefix("# "))["params"]
            case = Case(
                number=number, tasks=asked["ntasks"], smt=asked["smt"], only=asked["restr_set"],
                is_by_memory=asked["restrict_type"] == _BY_MEMORY, cpus=cpus, gpus=gpus,
            )  # fmt: skip
        cases.append(case)
    return cases


def bound(node: NodeTopology, case: Case) -> NodeBinding:
    """The call that means the same here.

    A restriction to CPUs, or to those of NUMA nodes, is `allowed`. mpibind's smt n is n threads a
    core. Its smt 0 takes one thread a core if each task gets cores of one NUMA node, and all that
    there are if a task has several NUMA nodes or there are fewer cores than tasks.
    """
    numa = {one.index: one.cpus or "" for one in node.numa_nodes}
    allowed = expand_indices(node.cpu.allowed or node.cpu.cpus or "")
    if case.only is not None and case.is_by_memory:
        allowed = tuple(cpu for at in expand_indices(case.only) for cpu in expand_indices(numa[at]))
    elif case.only is not None:
        allowed = expand_indices(case.only)
    cores = sum(bool(set(expand_indices(one)) & set(allowed)) for one in node.cpu.core_cpus)
    nodes = sum(bool(set(expand_indices(one)) & set(allowed)) for one in numa.values())
    threads = case.smt or (1 if nodes <= case.tasks <= cores else None)
    return bind_ranks(node, case.tasks, allowed=allowed, threads_per_core=threads)
