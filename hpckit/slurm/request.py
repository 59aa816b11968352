"""What a batch script asks for: its #SBATCH lines as sbatch reads them, and what they come to."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from math import ceil, inf
from typing import Final

from hpckit.core.hostlist import HostListError, expand_hosts
from hpckit.core.late import regex
from hpckit.core.units import parse_slurm_limit_s, parse_slurm_mem_bytes, slurm_mem_mib_ceil
from hpckit.core.values import dataclass
from hpckit.slurm.text import Place, array_ranges

_TOOL: Final = "#SBATCH"
_SHORT: Final[Mapping[str, str]] = {
    "A": "account", "a": "array", "B": "extra-node-info", "b": "begin", "C": "constraint",
    "c": "cpus-per-task", "D": "chdir", "d": "dependency", "e": "error", "F": "nodefile",
    "G": "gpus", "H": "hold", "h": "help", "I": "immediate", "i": "input", "J": "job-name",
    "k": "no-kill", "L": "licenses", "M": "clusters", "m": "distribution", "N": "nodes",
    "n": "ntasks", "O": "overcommit", "o": "output", "p": "partition", "Q": "quiet", "q": "qos",
    "S": "core-spec", "s": "oversubscribe", "t": "time", "W": "wait", "w": "nodelist",
    "x": "exclude", "V": "version", "v": "verbose",
}  # fmt: skip
_BARE: Final = frozenset(
    ("hold", "help", "overcommit", "quiet", "oversubscribe", "wait", "version", "verbose",
     "contiguous", "consolidate-segments", "external", "get-user-env", "ignore-pbs", "no-requeue",
     "parsable", "reboot", "spread-job", "spread-segments", "stepmgr", "test-only", "usage",
     "use-min-nodes", "share")
)  # fmt: skip
"""Options without a value."""
_PERHAPS: Final = frozenset(
    ("bcast", "exclusive", "immediate", "no-kill", "nice", "propagate", "requeue",
     "kill-on-bad-exit", "oom-kill-step", "external-launcher")
)  # fmt: skip
"""Options whose value, if there is one, stands behind `=`."""
_TAKING: Final = (
    "account", "acctg-freq", "array", "batch", "bb", "bbf", "begin", "chdir", "cluster-constraint",
    "clusters", "comment", "constraint", "container", "container-id", "core-spec",
    "cores-per-socket", "cpu-freq", "cpus-per-gpu", "cpus-per-task", "deadline", "delay-boot",
    "dependency", "distribution", "error", "exclude", "export", "export-file", "extra",
    "extra-node-info", "gid", "gpu-bind", "gpu-freq", "gpus", "gpus-per-node", "gpus-per-socket",
    "gpus-per-task", "gres", "gres-flags", "hint", "input", "job-name", "kill-on-invalid-dep",
    "licenses", "mail-type", "mail-user", "mcs-label", "mem", "mem-bind", "mem-per-cpu",
    "mem-per-gpu", "mem-update", "mincpus", "network", "nodefile", "nodelist", "nodes", "ntasks",
    "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket", "open-mode",
    "output", "partition", "power", "prefer", "priority", "profile", "qos", "reservation",
    "resources", "runtime", "segment", "signal", "sockets-per-node", "switches", "tasks-per-node",
    "thread-spec", "threads-per-core", "time", "time-min", "tmp", "tres-bind", "tres-per-task",
    "uid", "wait-all-nodes", "wckey", "wrap", "tasks", "workdir",
)  # fmt: skip
_NUMBER: Final = regex(r"\d{1,9}", re.ASCII)
KNOWN: Final = frozenset((*_BARE, *_PERHAPS, *_TAKING))
"""sbatch's long options. Source: slurm_opt.c, sbatch(1), Slurm 22.05 to 26.05."""
_SAME: Final = {"tasks-per-node": "ntasks-per-node", "tasks": "ntasks", "workdir": "chdir",
                "share": "oversubscribe"}  # fmt: skip


def long_option(word: str) -> str:
    """Return the long name of an option of sbatch as it is typed, `-o` or `--output=x`."""
    name = word.lstrip("-").partition("=")[0]
    return _SHORT.get(name, name) if not word.startswith("--") else _SAME.get(name, name)


def value_word(name: str) -> str:
    """Return how the value of an option is written: `true` for one that has none."""
    return "true" if name in _BARE else "VALUE"


VARIABLES: Final[Mapping[str, str]] = {
    "SLURM_CLUSTERS": "clusters", "SBATCH_CLUSTERS": "clusters",
    "SBATCH_ACCOUNT": "account", "SBATCH_ARRAY_INX": "array", "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_EXCLUSIVE": "exclusive", "SBATCH_GRES": "gres", "SBATCH_GPUS": "gpus",
    "SBATCH_GPUS_PER_NODE": "gpus-per-node", "SBATCH_GPUS_PER_TASK": "gpus-per-task",
    "SBATCH_CPUS_PER_GPU": "cpus-per-gpu", "SBATCH_MEM_PER_CPU": "mem-per-cpu",
    "SBATCH_MEM_PER_GPU": "mem-per-gpu", "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_PARTITION": "partition", "SBATCH_QOS": "qos", "SBATCH_RESERVATION": "reservation",
    "SBATCH_TIMELIMIT": "time", "SBATCH_WCKEY": "wckey",
}  # fmt: skip
"""sbatch's input variables that bear on where and when a job runs; they overrule the script."""


GPU_OPTIONS: Final = ("gpus-per-node", "gres", "gpus", "gpus-per-task", "tres-per-task")
CPU_OPTIONS: Final = ("cpus-per-task", "ntasks-per-node", "ntasks", "cpus-per-gpu")
MEM_OPTIONS: Final = ("mem", "mem-per-cpu", "mem-per-gpu")
"""The options by which a job asks for GPUs, CPUs and memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One option as it was said; `line_no` is the script's, None where it stands elsewhere."""

    value: str | None
    line_no: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of a job by their long names, the last of several that count.

    Those that are not sbatch's own are kept too: a plugin may take them (spank(8), such as pyxis).
    """

    options: Mapping[str, Asked] = field(default_factory=dict)

    @property
    def not_sbatchs_own(self) -> tuple[str, ...]:
        """The names that are no option of sbatch itself."""
        return tuple(name for name in self.options if name not in KNOWN)

    def text(self, name: str) -> str | None:
        """Return the value of an option, None where it is not said."""
        asked = self.options.get(name)
        return None if asked is None else asked.value

    def line_no(self, *names: str) -> int | None:
        """Return the line of the first of these options that the script says."""
        lines = (self.options[name].line_no for name in names if name in self.options)
        return next((line_no for line_no in lines if line_no is not None), None)

    def count(self, name: str) -> int | None:
        """Return the number of an option, the least of `2-4`; None where none is said."""
        match = re.match(r"\d{1,9}(?!\d)", self.text(name) or "", re.ASCII)
        return int(match[0]) if match else None

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions of which one is enough; none where the default is to do."""
        return _listed(self.text("partition"))

    @property
    def nodes(self) -> int:
        """The fewest nodes that do."""
        said, tasks = self.text("nodes"), self.count("ntasks")
        if said is not None and (least := _nodes(said)):
            # sbatch takes away nodes that would have no task. Source: opt.c, `_opt_verify`.
            return min(least, tasks or least)
        per_node = self.count("ntasks-per-node")
        return max(ceil(tasks / per_node) if per_node and tasks else 1, self._nodes_named)

    @property
    def _nodes_named(self) -> int:
        """The nodes of `--nodelist`, all of which the job gets; 0 for a file, and without one."""
        said = self.text("nodelist") or ""
        try:
            return 0 if "/" in said else len(set(expand_hosts(said)))
        except HostListError:
            return 0

    @property
    def most_nodes(self) -> int:
        """The most nodes that are taken: the upper end of `2-4`, else the fewest."""
        said = map(int, re.findall(r"\b\d{1,9}\b", self.text("nodes") or "", re.ASCII))
        most = max(said, default=self.nodes)
        return max(min(most, self.count("ntasks") or most), self.nodes)

    def on(self, nodes: int) -> Request:
        """Return the same on so many nodes."""
        line_no = self.line_no("nodes")
        return Request(options={**self.options, "nodes": Asked(value=str(nodes), line_no=line_no)})

    @property
    def is_exclusive(self) -> bool:
        """Whether whole nodes are asked for."""
        return "exclusive" in self.options and not self.text("exclusive")

    @property
    def says_nodes(self) -> bool:
        """Whether the number of nodes follows from the options; else Slurm takes what it needs."""
        return "nodes" in self.options or {"ntasks", "ntasks-per-node"} <= set(self.options)

    @property
    def tasks(self) -> int:
        """The tasks, as sbatch counts them where it is not told."""
        said = self.count("ntasks")
        if said:
            return said
        if per_node := self.count("ntasks-per-node"):
            return per_node * self.nodes
        if (per_gpu := self.count("ntasks-per-gpu")) and self.gpus:
            return per_gpu * self.gpus
        return self.nodes

    @property
    def cpus(self) -> int:
        """The fewest CPUs that do, of all nodes together."""
        per_gpu = self.count("cpus-per-gpu")
        if per_gpu and self.gpus:
            return max(per_gpu * self.gpus, self.tasks)
        if "overcommit" in self.options:
            return self.nodes
        return max(self.tasks * (self.count("cpus-per-task") or 1), self.nodes)

    @property
    def gpus_per_node(self) -> int:
        """The fewest GPUs of the node that has most of them."""
        per_node = sum(self._gpu_counts("gpus-per-node").values())
        by_gres = sum(self._gpu_counts("gres").values())
        of_a_task = sum(self._gpu_counts("gpus-per-task").values())
        shared = ceil(self.gpus / max(self.nodes, self.most_nodes)) if self.says_nodes else 0
        return max(per_node, by_gres, of_a_task, shared)

    @property
    def cpus_per_node(self) -> int:
        """The fewest CPUs of the node that has most of them."""
        if "overcommit" in self.options:
            return 1
        of_a_task = self.count("cpus-per-task") or 1
        per_node = (self.count("ntasks-per-node") or 1) * of_a_task
        shared = ceil(self.cpus / max(self.nodes, self.most_nodes)) if self.says_nodes else 0
        return max(per_node, shared)

    @property
    def gpus(self) -> int:
        """The GPUs of all nodes together."""
        return sum(self.gpus_by_type.values())

    @property
    def gpus_by_type(self) -> Mapping[str, int]:
        """The GPUs of all nodes together by type, `""` where none is said."""
        tasks = self.count("ntasks") or (self.count("ntasks-per-node") or 1) * self.nodes
        for name, times in (
            ("gpus", 1),
            ("gpus-per-node", self.nodes),
            ("gpus-per-task", tasks),
            ("tres-per-task", tasks),
            ("gres", self.nodes),
        ):
            if counts := self._gpu_counts(name):
                return {kind: count * times for kind, count in counts.items()}
        return {}

    def _gpu_counts(self, name: str) -> dict[str, int]:
        said = self.text(name)
        if said is None:
            return {}
        counts: dict[str, int] = {}
        for part in re.sub(r"\([^()]*\)", "", said).split(","):
            words = re.split(r"[:=/]", part.strip())
            if name in ("gres", "tres-per-task"):
                while words and words[0] in ("gres", "gpu"):
                    gpu = words.pop(0) == "gpu"
                    if gpu:
                        break
                else:
                    continue
            count = int(words.pop()) if words and _NUMBER.fullmatch(words[-1]) else 1
            kind = words[0] if words else ""
            counts[kind] = counts.get(kind, 0) + count
        return {kind: count for kind, count in counts.items() if count}

    @property
    def mem_mib(self) -> int | None:
        """The memory of all nodes together in MiB; None where it is not said, or is all of it."""
        for name, times in (
            ("mem", self.nodes),
            ("mem-per-cpu", self.cpus),
            ("mem-per-gpu", self.gpus),
        ):
            size_mib = self._size_mib(name)
            if size_mib:
                return size_mib * times
        return None

    @property
    def mem_per_node_mib(self) -> int | None:
        """The least memory of the node that has most of it, in MiB."""
        if whole := self._size_mib("mem"):
            return whole
        of_a_cpu = self._size_mib("mem-per-cpu") or 0
        of_a_gpu = self._size_mib("mem-per-gpu") or 0
        return max(of_a_cpu * self.cpus_per_node, of_a_gpu * self.gpus_per_node) or None

    @property
    def says_mem(self) -> bool:
        """Whether memory is asked for."""
        return any(self.text(name) for name in MEM_OPTIONS)

    @property
    def wants_all_mem(self) -> bool:
        """Whether all memory of the nodes is asked for (`--mem=0`)."""
        return self._size_mib("mem") == 0

    @property
    def mem_per_cpu_mib(self) -> int | None:
        """The memory of a CPU in MiB, where it is asked for so."""
        return self._size_mib("mem-per-cpu")

    def _size_mib(self, name: str) -> int | None:
        said = self.text(name)
        if said is None:
            return None
        try:
            return slurm_mem_mib_ceil(parse_slurm_mem_bytes(said))
        except ValueError:
            return None

    @property
    def time_s(self) -> int | None:
        """The time limit in seconds; None where none is said, or `UNLIMITED`."""
        return _time_s(self.text("time"))

    @property
    def least_time_s(self) -> int | None:
        """The least time that does: `--time-min`, else the time limit."""
        return _time_s(self.text("time-min")) or self.time_s

    def least_s(self, default_s: int | None) -> float | None:
        """The same; infinite for `UNLIMITED`, and the partition's default where none is said."""
        return self.least_time_s or (default_s if self.text("time") is None else inf)

    @property
    def array_size(self) -> int:
        """The jobs that it becomes: the tasks of an array, else one."""
        try:
            return sum(map(len, array_ranges(self.text("array") or "0"))) or 1
        except (ValueError, OverflowError):
            return 1

    @property
    def features(self) -> tuple[tuple[str, ...], ...]:
        """The features that a node must have, one of these sets: of `a&b`, `a|b` and `[a|b]`.

        None of a constraint with numbers or parentheses.
        """
        said = (self.text("constraint") or "").removeprefix("[").removesuffix("]")
        if not said or re.search(r"[*()\[\]]", said) or {"&", "|"} <= set(said):
            return ()
        return tuple(_listed(one.replace("&", ",")) for one in said.split("|"))

    @property
    def licenses(self) -> Mapping[str, int]:
        """The licenses that it takes, by name."""
        said = self.text("licenses") or ""
        if "|" in said:
            return {}
        parts = (re.split(r"[:=*]", part) for part in _listed(said.replace(";", ",")))
        return {
            name: int(count[0]) if count and _NUMBER.fullmatch(count[0]) else 1
            for name, *count in parts
        }

    def gpus_word(self, per_node: int, kind: str | None = None) -> str:
        """Return the option for so many GPUs of a node, said as the job says its GPUs.

        Of this type, or of the job's own where it names one.
        """
        name = next((one for one in GPU_OPTIONS if one in self.options), GPU_OPTIONS[0])
        kinds = [one for one in self.gpus_by_type if one] if kind is None else [kind]
        count = {
            "gpus": per_node * self.nodes,
            "gpus-per-task": max(per_node * self.nodes // self.tasks, 1),
            "tres-per-task": max(per_node * self.nodes // self.tasks, 1),
        }.get(name, per_node)
        said = ":".join([*kinds[:1], str(count)])
        if name in ("gres", "tres-per-task"):
            said = f"{'gpu' if name == 'gres' else 'gres/gpu'}:{said}"
        return f"--{name}={said}"

    def cpus_word(self, per_node: int) -> str | None:
        """Return the option for so many CPUs of a node at most; None where none is."""
        of_a_task = self.count("cpus-per-task") or 1
        tasks = ceil(self.tasks / self.nodes)
        if of_a_task > 1 and tasks <= per_node:
            return f"--cpus-per-task={per_node // tasks}"
        if self.count("ntasks-per-node"):
            return f"--ntasks-per-node={per_node // of_a_task}" if per_node >= of_a_task else None
        most = per_node // of_a_task * self.nodes
        return f"--ntasks={most}" if most else None

    def tres(self) -> dict[str, int]:
        """Return what Slurm counts the request as, by TRES names; memory in MiB as `mem`.

        Source: job_mgr.c, `tres_req_cnt`; `gres/gpu` counts typed GPUs too.
        """
        counts = {"cpu": self.cpus, "node": self.nodes}
        if self.mem_mib is not None:
            counts["mem"] = self.mem_mib
        if self.gpus:
            counts["gres/gpu"] = self.gpus
        for kind, count in self.gpus_by_type.items():
            if kind:
                counts[f"gres/gpu:{kind}"] = count
        for name, count in self.licenses.items():
            counts[f"license/{name}"] = count
        return counts


def read_request(
    script: str, variables: Mapping[str, str] | None = None, words: Sequence[str] = ()
) -> Request:
    """Return what sbatch is asked for by a script, its environment and the words behind `sbatch`.

    The words overrule the variables, and those the script. The first job of a heterogeneous one.
    Raises ParseError for an `#SBATCH` line that sbatch does not take.
    """
    options: dict[str, Asked] = {}

    def add(name: str, value: str | None, line_no: int | None = None) -> None:
        for other in MEM_OPTIONS if name in MEM_OPTIONS else ():
            options.pop(other, None)
        if name == "mail-type" and name in options:  # they add up
            value = f"{options[name].value},{value}"
        # Slurm has these names in small letters.
        value = value.lower() if value and name in ("account", "qos") else value
        options[name] = Asked(value=value, line_no=line_no)

    for place, line in _directives(script):
        try:
            said = shlex.split(line, comments=True)
        except ValueError as error:
            raise place.refuse("has an open quote", "a closing quote") from error
        for name, value in _options(said, place):
            add(name, value, place.line_no)
    for variable, name in VARIABLES.items():
        if variables and variable in variables:
            add(name, variables[variable])
    place = Place("sbatch", 1, shlex.join(words))
    for name, value in _options(words, place):
        add(name, value)
    return Request(options=options)


def passed_over(script: str) -> tuple[list[int], list[int]]:
    """Return the numbers of lines that sbatch does not read as options, and that look like them.

    Those with #SBATCH after the first command; and those with #PBS before it, which it reads unless
    --ignore-pbs is said, and which nothing here does. Source: opt.c, `_opt_batch_script`.
    """
    lines = script.split("\n")
    body = next((at for at, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"),
                len(lines))  # fmt: skip
    # A here-document may hold a script of its own.
    end = next((at for at, line in enumerate(lines) if "<<" in line), len(lines))
    late = [at for at, line in enumerate(lines[body:end], body + 1) if line.startswith("#SBATCH ")]
    return late, [at for at, line in enumerate(lines[:body], 1) if line.startswith("#PBS ")]


def _directives(script: str) -> Iterator[tuple[Place, str]]:
    """Yield what follows #SBATCH, up to the first command. Source: opt.c, `_opt_batch_script`."""
    for line_no, line in enumerate(script.split("\n"), start=1):
        for magic in ("#SBATCH", "#SLURM"):
            if line.startswith(magic):
                rest = line.removeprefix(magic)
                if rest.strip().lower() in ("hetjob", "packjob"):
                    return
                yield Place(_TOOL, line_no, line), rest
                break
        else:
            if line.strip() and not line.lstrip().startswith("#"):
                return


def _options(words: Sequence[str], place: Place) -> Iterator[tuple[str, str | None]]:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--" or not word.startswith("-") or word == "-":
            raise place.refuse(f"{word!r} is no option", "--name=value")
        if word.startswith("--"):
            name, equals, text = word[2:].partition("=")
            name = _full(name, place)
            value = text if equals else None
            if value is None and name not in KNOWN:
                value = rest.pop(0) if rest and not rest[0].startswith("-") else None
            elif value is None and name not in _BARE | _PERHAPS:
                value = _next(name, rest, place)
            yield _SAME.get(name, name), value
        else:
            yield from _shorts(word[1:], rest, place)


def _shorts(letters: str, rest: list[str], place: Place) -> Iterator[tuple[str, str | None]]:
    while letters:
        name = _SHORT.get(letters[0])
        if name is None:
            raise place.refuse(f"sbatch has no option -{letters[0]}", "one of sbatch(1)")
        letters = letters[1:]
        if name in _BARE:
            yield _SAME.get(name, name), None
            continue
        yield name, letters or (None if name in _PERHAPS else _next(name, rest, place))
        return


def _full(name: str, place: Place) -> str:
    """Return the option that a name begins, as getopt takes it; else the name as it stands."""
    if name in KNOWN:
        return name
    meant = sorted(known for known in KNOWN if known.startswith(name))
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise place.refuse(f"--{name} is ambiguous", " or ".join(f"--{one}" for one in meant[:4]))
    return name


def _next(name: str, rest: list[str], place: Place) -> str:
    if not rest:
        raise place.refuse(f"--{name} has no value", f"--{name}=VALUE")
    if rest[0].startswith("="):
        raise place.refuse(f"--{name} has a blank before =", f"--{name}=VALUE")
    return rest.pop(0)


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


_SUFFIXES: Final = {"": 1, "k": 1024, "m": 1024**2}


def _nodes(text: str) -> int | None:
    """The least of `2`, `2-4`, `1k`, `2,4`, `2-16:2`. Source: proc_args.c, verify_node_count."""
    match = re.match(r"(\d{1,9})([kKmM]?)(?=$|[-,:])", text.strip(), re.ASCII)
    return int(match[1]) * _SUFFIXES[match[2].lower()] if match else None


def _time_s(text: str | None) -> int | None:
    try:
        return None if text is None else parse_slurm_limit_s(text) or None
    except ValueError:
        return None
