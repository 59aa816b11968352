"""What sbatch's options come to as keys of a job file: of a command line, or of an old script."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from math import ceil
from typing import Final, NamedTuple

from hpckit.core.fields import settable_name
from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.slurm.request import KNOWN, MEM_OPTIONS, Request
from hpckit.spec.slurm_options import OWNED_BY_SBATCH, TEXT_OPTIONS

_COUNTS: Final = frozenset(
    ("nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "cpus-per-gpu",
     "gpus", "gpus-per-node", "gpus-per-task", "tres-per-task", "gres")
)  # fmt: skip
"""Options that are counted together."""
_LOGS: Final = frozenset(("output", "error", "open-mode"))
_OF_THE_CALL: Final = frozenset(
    ("parsable", "quiet", "verbose", "wait", "test-only", "help", "usage", "version", "ignore-pbs",
     "wrap")
)  # fmt: skip
"""Options of sbatch's own call, which are no part of a job."""
_TRUE: Final = "true"
_NO_NAMES: Final = ("ALL", "NONE", "NIL")
"""Words of `--export` that are no variables."""
_GPU: Final = regex(r"(gres[:/])?gpu([:=(]|$)")


class Left(NamedTuple):
    """An option that no key says, the line it stands on, and why."""

    option: str
    line_no: int | None
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKeys:
    """Keys of a job file, dotted, and what they leave out."""

    keys: Mapping[str, object]
    left: tuple[Left, ...] = ()


@dataclass(slots=True)
class _Keys:
    request: Request
    ranks_per_node: int | None
    keys: dict[str, object] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)

    def leave(self, option: str, because: str) -> None:
        """Keep an option for the reader, with the reason."""
        value = self.request.text(option)
        said = f"--{option}" if value is None else f"--{option}={value}"
        self.left.append(Left(said, self.request.line_no(option), because))


def job_keys(request: Request, ranks_per_node: int | None = None) -> JobKeys:
    """Return the keys that ask for what sbatch's options ask for.

    `ranks_per_node` is None where Slurm's tasks are the ranks, else they share the tasks' CPUs.
    Counts that sbatch spreads over nodes by itself are counted per node here; of what does not
    divide the next whole number above is taken, and said.
    """
    found = _Keys(request, ranks_per_node)
    _resources(found)
    for option in request.options:
        if option not in _COUNTS | _OF_THE_CALL | {*MEM_OPTIONS}:
            _one(found, option)
    return JobKeys(keys=found.keys, left=tuple(found.left))


def _resources(found: _Keys) -> None:
    request, keys, said = found.request, found.keys, set(found.request.options)
    if said & {"nodes", "nodelist"} or {"ntasks", "ntasks-per-node"} <= said:
        keys["resources.nodes"] = request.nodes
    elif "ntasks" in said and request.tasks > 1:
        found.leave("ntasks", "on one node here, where Slurm may take several: add nodes")
    if request.most_nodes > request.nodes:
        found.leave("nodes", f"{request.nodes} here, the fewest of them")
    _gpus(found)
    tasks = _tasks_per_node(found)
    ranks = found.ranks_per_node or tasks
    if said & {"ntasks", "ntasks-per-node", "ntasks-per-gpu"} or found.ranks_per_node:
        keys["resources.ntasks_per_node"] = ranks
    _cpus(found, tasks, ranks)
    for option in MEM_OPTIONS:
        if option in said:
            keys[f"resources.{option.replace('-', '_')}"] = request.text(option) or ""


def _tasks_per_node(found: _Keys) -> int:
    request = found.request
    if per_node := request.count("ntasks-per-node"):
        return per_node
    nodes, tasks = request.nodes, request.tasks
    if tasks % nodes:
        found.leave("ntasks", f"{ceil(tasks / nodes)} on each of {nodes} nodes here")
    return ceil(tasks / nodes)


def _gpus(found: _Keys) -> None:
    request, nodes = found.request, found.request.nodes
    kinds = {kind: count for kind, count in request.gpus_by_type.items() if count}
    gres = (request.text("gres") or "").split(",")
    if others := [part for part in gres if part and not _GPU.match(part)]:
        found.keys["slurm.extra.gres"] = ",".join(others)
    if not kinds:
        return
    total = sum(kinds.values())
    per_node = max(ceil(total / nodes), 1)
    option = next((one for one in ("gpus-per-node", "gpus", "gpus-per-task", "tres-per-task",
                                   "gres") if one in request.options), "gres")  # fmt: skip
    found.keys["resources.gpus_per_node"] = per_node
    named = [kind for kind in kinds if kind]
    if len(kinds) == 1 and named:
        found.keys["resources.gpu_type"] = named[0]
    elif named:
        found.leave(option, "one type of GPUs a job here")
    if total % nodes:
        found.leave(option, f"{per_node} on each of {nodes} nodes here")
    elif "gpus" in request.options and "nodes" not in request.options:
        found.leave("gpus", "on one node here, where Slurm may take several: add nodes")


def _cpus(found: _Keys, tasks: int, ranks: int) -> None:
    """Say the CPUs of a rank: those of a node's tasks, shared by its ranks."""
    request = found.request
    of_a_task = request.count("cpus-per-task")
    if (per_gpu := request.count("cpus-per-gpu")) and request.gpus:
        of_a_task = ceil(per_gpu * request.gpus / request.nodes / tasks)
    if of_a_task is None and (ranks >= tasks or tasks == 1):
        return
    whole = (of_a_task or 1) * tasks
    found.keys["resources.cpus_per_task"] = ceil(whole / ranks)
    if whole % ranks:
        option = "cpus-per-task" if "cpus-per-task" in request.options else "ntasks-per-node"
        said = f"{ceil(whole / ranks)} for each of {ranks} ranks here, of {whole} CPUs on a node"
        found.leave(option, said)


def _one(found: _Keys, option: str) -> None:
    """Say one option that counts nothing."""
    value, keys = found.request.text(option), found.keys
    if option in _LOGS:
        found.leave(option, "hpckit keeps a log of each rank (hpckit logs)")
    elif option == "export":
        _export(found)
    elif (write := _WRITERS.get(option)) is not None:
        keys.update(write(value))
    elif (name := option.replace("-", "_")) in TEXT_OPTIONS:
        keys[f"slurm.{name}"] = value or ""
    elif option in OWNED_BY_SBATCH:
        found.leave(option, f"say it with {OWNED_BY_SBATCH[option]}")
    elif option in KNOWN:
        keys[f"slurm.extra.{option}"] = True if value is None else value
    else:
        found.leave(option, "no option of sbatch: a plugin's (slurm.extra passes it on)")


def _export(found: _Keys) -> None:
    """`--export`: `NONE`, or variables, which count beside those of the shell with `ALL`."""
    parts = [part for part in (found.request.text("export") or "").split(",") if part]
    if "ALL" not in parts:
        found.keys["environment.inherit"] = "none"
    pairs = [part.partition("=") for part in parts]
    for name, equals, text in pairs:
        if equals and settable_name(name) is not None:
            found.leave("export", f"{name} is no variable that a job file sets")
        elif equals:
            found.keys[f"environment.set.{name}"] = text
    if names := [name for name, equals, _ in pairs if not equals and name not in _NO_NAMES]:
        found.keys["environment.pass"] = names


def _exclusive(value: str | None) -> Iterator[tuple[str, object]]:
    if value in (None, _TRUE):
        yield "resources.exclusive", True
    else:
        yield "slurm.extra.exclusive", value


_WRITERS: Final[Mapping[str, Callable[[str | None], Iterator[tuple[str, object]]]]] = {
    "job-name": lambda value: iter([("name", value or "")]),
    "time": lambda value: iter([("resources.time_limit", value or "")]),
    "chdir": lambda value: iter([("chdir", value or "")]),
    "distribution": lambda value: iter([("launch.distribution", value or "")]),
    "segment": lambda value: iter([("slurm.segment", int(value or 0))]),
    "requeue": lambda value: iter([("slurm.requeue", value or True)]),
    "no-requeue": lambda _: iter([("slurm.requeue", False)]),
    "mail-type": lambda value: iter([("slurm.mail_type", (value or "").upper().split(","))]),
    "exclusive": _exclusive,
}
