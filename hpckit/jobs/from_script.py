"""An old batch script as a job file: its options, what prepares the launch, the launch itself.

Nothing of the script is run. What a key can say is taken out of it; other lines before the launch
stay as they are written, in `environment.setup`. A script that starts its steps in loops or one
after another stays whole.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import chain, takewhile
from math import ceil
from pathlib import PurePosixPath
from typing import Final, NamedTuple, cast

from hpckit.comm.shell.launch_line import (
    LaunchLine,
    StepOption,
    expanded,
    launch_line,
    names_starter,
    only_work,
)
from hpckit.comm.shell.lexer import Word
from hpckit.comm.shell.statements import (
    ASSIGNMENT,
    Statement,
    constants,
    is_settled,
    program,
    read_statements,
)
from hpckit.core.errors import HpckitError
from hpckit.core.fields import settable_name
from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.script.slurm_words import Left, job_keys
from hpckit.slurm.request import CPU_OPTIONS, Request, passed_over, read_request
from hpckit.slurm.text import Place
from hpckit.spec.slurm_options import OWNED_BY_SRUN

COMMAND_VARIABLE: Final = "HPCKIT_COMMAND"
"""Holds a command whose words the script's own shell expands."""
_EVAL: Final = ("bash", "-c", f'eval "exec ${COMMAND_VARIABLE}"')
_TOOL: Final = "batch script"
_NUMBER: Final = regex(r"[1-9]\d{0,4}", re.ASCII)
_IDENTIFIER: Final = regex(r"[A-Za-z_]\w*")
_SECOND_JOB: Final = regex(r"#(SBATCH|SLURM)\s+(het|pack)job\b", re.IGNORECASE)
_PROGRAMS: Final = ("/bin", "/usr/bin", "/usr/local/bin", ".")
_TUNED: Final = ("NCCL_", "RCCL_")
_FOLLOWERS: Final = {"|": "tee", "|&": "tee", "||": "exit"}
"""What may stand behind a launch, by the sign between them: hpckit does as much."""
_CONTAINER: Final = {
    "container-image": "container.image",
    "container-mounts": "container.mounts",
    "container-workdir": "container.workdir",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FromScript:
    """Keys of a job file, and what the reader is told of the rest.

    `whole_because` is a sentence on why a script starts its steps by itself and stays as it is,
    empty for one that does not; `request` is what the script asks Slurm for.
    """

    keys: Mapping[str, object]
    left: tuple[Left, ...]
    request: Request
    whole_because: str = ""


_COMPARED: Final[Mapping[str, Callable[[Request], object]]] = {
    "nodes": lambda request: request.nodes,
    "CPUs of a node": lambda request: request.cpus_per_node,
    "GPUs": lambda request: request.gpus,
    "memory of a node": lambda request: (
        "all" if request.wants_all_mem else (mib := request.mem_per_node_mib) and f"{mib} MiB"
    ),
    "time limit": lambda request: request.text("time") and request.time_s,
    "exclusive nodes": lambda request: request.is_exclusive,
    "array tasks": lambda request: request.array_size,
    **{
        name: partial(Request.text, name=name)
        for name in ("partition", "account", "qos", "constraint", "reservation", "licenses",
                     "nodelist", "exclude", "dependency", "begin", "switches")
    },
}  # fmt: skip
"""What two requests are compared by."""


def differences(before: Request, after: Request) -> Iterator[str]:
    """Yield what a job asks for otherwise than the script did."""
    for what, of in _COMPARED.items():
        old, new = of(before), of(after)
        if old != new:
            yield f"{what}: {_shown(new)} here, {_shown(old)} in the script"
    if not {"requeue", "no-requeue"} & set(before.options):
        yield "requeue: off; the script leaves it to the cluster (JobRequeue)"


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


def job_from_script(text: str, name: str) -> FromScript:
    """Return the keys of a job file that does what a batch script does.

    `name` is the script's path from where the job is submitted, - for one that has none. Raises
    ParseError for a script that sbatch or a shell cannot read, HpckitError for one that must stay
    as it is and has no path.
    """
    script = _Script.of(text, name)
    launch = script.launch()
    if isinstance(launch, str):
        return _whole(script, launch)
    found = _apart(script, launch)
    setup = cast("list[str]", found.keys.get("environment.setup", []))
    if any("\n#SBATCH" in lines for lines in setup):
        return _whole(script, "The script writes #SBATCH lines that would be the job's")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launch:
    """The command that is the job: what it starts, its tasks on each node, the last of its lines.

    `redirections` are its lines without its words.
    """

    chosen: Statement
    line: LaunchLine
    tasks_per_node: int
    last_line: int
    redirections: str


class _Script(NamedTuple):
    """A batch script as it is read: no statements of one that is for another shell than bash."""

    name: str
    lines: Sequence[str]
    request: Request
    interpreter: Sequence[str]
    statements: Sequence[Statement]

    @classmethod
    def of(cls, text: str, name: str) -> _Script:
        lines = text.split("\n")
        for line_no, line in enumerate(lines, start=1):
            if _SECOND_JOB.match(line):
                place = Place(_TOOL, line_no, line)
                raise place.refuse("begins a second job (hetjob)", "one job in a script")
        words = lines[0].removeprefix("#!").split() if lines[0].startswith("#!") else []
        if words and PurePosixPath(words[0]).name == "env":
            words = words[2:] if words[1:2] == ["-S"] else words[1:]
        first = PurePosixPath(words[0] if words else "bash")
        shown = first.name if str(first.parent) in _PROGRAMS else str(first)
        statements = tuple(read_statements(text, _TOOL)) if shown in ("bash", "sh") else ()
        return cls(name, lines, read_request(text), (shown, *words[1:]), statements)

    @property
    def stem(self) -> str:
        """The name of a job that says none."""
        return "job" if self.name == "-" else PurePosixPath(self.name).stem

    def launch(self) -> _Launch | str:
        """Return the one command that is the job, or a sentence on why hpckit cannot start it."""
        if self.interpreter[0] not in ("bash", "sh"):
            return f"The script is for {self.interpreter[0]}, and hpckit reads bash and sh only"
        chosen = only_work(self.statements)
        if chosen is None:
            return "The script has no single launch that stands by itself"
        is_apart = f"Line {chosen.first_line} cannot stand apart from the script"
        if any(word.raw.startswith(("<(", ">(")) for word in chosen.words):
            return is_apart
        last = self._last(chosen)
        known = constants(self.statements)
        line = launch_line(expanded(chosen.program_words, known))
        if last is None or line is None:
            return is_apart
        around = "\n".join(self.lines[chosen.first_line - 1 : last.last_line])
        for word in (*chosen.words, *(last.words if last is not chosen else ())):
            around = around.replace(word.raw, "", 1)
        around = re.sub(r"(^|\s)#.*", "", around)
        counts = _Counts.of(self.request, known)
        tasks = counts.tasks_per_node(line)
        if tasks is None:
            return f"Line {chosen.first_line} {self._why_in_part(line, counts)}"
        is_lost = line.kind == "deepspeed" and not all(map(is_settled, line.words))
        if is_lost or "<" in around:  # ranks have no standard input
            return is_apart
        return _Launch(chosen=chosen, line=line, tasks_per_node=tasks, last_line=last.last_line,
                       redirections=around)  # fmt: skip

    def _why_in_part(self, line: LaunchLine, counts: _Counts) -> str:
        nodes = self.request.nodes
        if nodes > 1 and not line.starter:
            return f"is started on the first of the job's {nodes} nodes, not on each"
        other = next((option for option in line.step if not counts.is_clear(option)), None)
        if other is not None:
            return f"has {line.starter} {other.said}, {counts.why_unclear(other)}"
        is_silent = line.nodes is None and not any("PET_NNODES" in text for text in self.lines)
        is_on_all = nodes > 1 and counts.tasks_of_step(line) is not None
        if line.kind == "torchrun" and is_on_all and (is_silent or line.nodes == "1"):
            how = "with --nnodes=1" if line.nodes else "without --nnodes"
            return f"starts torchrun on {nodes} nodes {how}: each runs by itself"
        return "does not show that it starts the same ranks on each node"

    def _last(self, chosen: Statement) -> Statement | None:
        """Return the launch, or the `tee` or `exit` behind it; None where its lines hold more."""
        last, *following = self.statements[self.statements.index(chosen) :]
        follower = _FOLLOWERS.get(last.end)
        if follower and following and program(following[0].program_words) == follower:
            last, *following = following
        is_more = following and following[0].first_line <= last.last_line
        return None if is_more or last.end not in ("\n", ";", "&") else last


def _apart(script: _Script, launch: _Launch) -> FromScript:
    """Return the job whose ranks run what the script launches."""
    line, chosen = launch.line, launch.chosen
    setup = _Setup(script.lines[: chosen.first_line - 1], script.statements)
    setup.read()
    ranks, unknown = _ranks(script.request, launch, constants(script.statements))
    options = job_keys(script.request, ranks)
    keys: dict[str, object] = {"name": script.stem, **options.keys}
    keys["launch.kind"] = line.kind
    if line.args:
        keys["launch.args"] = list(line.args)
    left = [*_of_interpreter(script), *_of_pbs(script), *options.left, *unknown]
    left += [*_of_step(line, chosen, script.request, keys), *_behind(script, launch)]
    keys |= setup.keys
    if all(map(is_settled, line.words)):
        keys["command"] = [*line.python, *(word.text for word in line.words)]
    else:
        raw = " ".join([*line.python, *(word.raw for word in line.words)])
        setup.rest.append(f"export {COMMAND_VARIABLE}=$(printf '%q ' {raw})")
        keys["command"] = list(_EVAL)
    for word in takewhile(lambda word: ASSIGNMENT.match(word.raw), chosen.words):
        name, _, value = word.text.partition("=")
        if name.startswith(_TUNED) and is_settled(word):
            keys[f"tune.env.{name}"] = value
        else:
            setup.rest.append(f"export {word.raw}")
    if setup.rest:
        keys["environment.setup"] = ["\n".join(setup.rest)]
    return FromScript(keys=keys, left=tuple(left), request=script.request)


def _whole(script: _Script, because: str) -> FromScript:
    """Return a job that runs the script as it is, and why.

    As a rank where it starts no steps of Slurm's and needs one node; else in place of the batch
    script.
    """
    if script.name == "-":
        raise HpckitError("the script of standard input stays whole, and has no path to run",
                          hint="write it to a file: hpckit init --from FILE")  # fmt: skip
    code = (line for line in script.lines if not line.lstrip().startswith("#"))
    is_rank = script.request.nodes == 1 and not any(map(names_starter, code))
    options = job_keys(script.request, 1 if is_rank else None)
    keys: dict[str, object] = {"name": script.stem, **options.keys}
    words = [*script.interpreter, script.name]
    if is_rank:
        keys["command"] = words
    else:
        keys["command"] = ["true"]
        keys["environment.setup"] = [f"exec {shlex.join(words)}"]
    left = (*_of_pbs(script), *options.left)
    return FromScript(keys=keys, left=left, request=script.request, whole_because=because)


def _of_pbs(script: _Script) -> Iterator[Left]:
    """Yield the directives of PBS, which sbatch obeys too."""
    for line_no in passed_over("\n".join(script.lines))[1]:
        because = "sbatch obeys it, and no key says it"
        yield Left(script.lines[line_no - 1].strip(), line_no, because)


def _of_interpreter(script: _Script) -> Iterator[Left]:
    """Yield the options of the shell that runs the script."""
    shell, *options = script.interpreter
    if options:
        because = "hpckit's script runs without: say it in environment.setup, such as set -e"
        yield Left(f"{shell} {' '.join(options)}", 1, because)


# --- What stands around it.


@dataclass(slots=True)
class _Setup:
    """What stands before the launch: keys, and the lines that no key says."""

    lines: Sequence[str]
    statements: Sequence[Statement]
    keys: dict[str, object] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)
    _named: set[str] = field(default_factory=set)
    _modules: list[str] = field(default_factory=list)
    """Names in keys, and in the lines that stay."""
    _has_export: bool = False

    def read(self) -> None:
        """Take out what a key says and nothing before it needs; keep all other lines."""
        taken: set[int] = set()
        covered: set[int] = set()
        starts = [statement.first_line for statement in self.statements]
        can_take = True
        for statement in self.statements:
            first, last = statement.first_line, statement.last_line
            if first > len(self.lines):
                break
            covered |= {*range(first, last + 1)}
            is_own = statement.is_certain and starts.count(first) == 1
            if can_take and is_own and self._take(statement.words):
                taken |= {*range(first, last + 1)}
            else:
                can_take = can_take and _is_inert(statement)
                self._named |= {*chain.from_iterable(map(_names, statement.words))}
            self._has_export |= program(statement.words) == "export"
        for line_no, line in enumerate(self.lines, start=1):
            is_empty = line_no not in covered and line.lstrip()[:1] in ("", "#")
            if line_no not in taken and not is_empty:
                self.rest.append(line)

    def _take(self, words: Sequence[Word]) -> bool:
        """Put what a command does into keys; return whether they say all of it."""
        name, rest = program(words), [word.text for word in words[1:]]
        if name in ("source", ".") and len(rest) == 1 and not self._has_export:
            return self._take_venv(words[1])
        if not all(map(is_settled, words)):
            return False
        if name in ("module", "ml"):
            is_first = not self._has_export and "environment.venv" not in self.keys
            return is_first and self._take_modules(name, rest)
        return name == "export" and self._take_exports(rest)

    def _take_exports(self, rest: Sequence[str]) -> bool:
        pairs = [text.partition("=") for text in rest]
        names = {name for name, _, _ in pairs}
        if not names or names & self._named or len(names) < len(pairs):
            return False
        if not all(equals and settable_name(name) is None for name, equals, _ in pairs):
            return False
        # Those of NCCL are set behind all others: nothing else of the script may read them.
        words = [word for statement in self.statements for word in statement.words]
        tuned = [name for name in names if name.startswith(_TUNED)]
        if any(sum(name in _names(word) for word in words) > 1 for name in tuned):
            return False
        for name, _, value in pairs:
            table = "tune.env" if name in tuned else "environment.set"
            self.keys[f"{table}.{name}"] = value
        self._named |= names
        return True

    def _take_modules(self, program: str, rest: Sequence[str]) -> bool:
        action, names = (rest[0], rest[1:]) if rest else ("", ())
        if action == "purge" and not names and "environment.modules" not in self.keys:
            self.keys["environment.modules_purge"] = True
            return True
        if program == "ml" and action not in _OF_LMOD:
            action, names = "load", rest
        if action not in ("load", "add") or any(name.startswith("-") for name in names):
            return False
        self._modules += names
        self.keys["environment.modules"] = self._modules
        return True

    def _take_venv(self, word: Word) -> bool:
        path = word.raw.strip('"').replace("${HOME}", "$HOME")
        if not path.endswith("/bin/activate") or "environment.venv" in self.keys:
            return False
        path = re.sub(r"^\$HOME/", "~/", path.removesuffix("/bin/activate"))
        if "$" in path or not path.startswith(("/", "~/")):
            return False
        self.keys["environment.venv"] = path
        return True


_INERT: Final = frozenset(("", "cd", "echo", "export", "mkdir", "set", "shopt", "ulimit", "umask"))
"""Commands for which modules and variables may be set before them; "" is an assignment."""
_OF_LMOD: Final = frozenset(
    "add apropos av avail category clearLmodCaches collections del describe disable getdefault help"  # noqa: SIM905  a list of words
    " is-avail is-loaded isloaded key keyword l list load mcc mod ov overview pop purge push r rb"
    " refresh report reset restore rm s save savelist search setdefault show sl sn sp spider sw"
    " swap switch tablelist try-add try-load unload unuse update use whatis".split()
)
"""Commands of Lmod, for which `ml NAME` loads nothing. Source: Lmod, User Guide, `module help`."""


def _is_inert(statement: Statement) -> bool:
    name = program(statement.program_words)
    is_computed = any("$(" in word.raw or "`" in word.raw for word in statement.words)
    return statement.is_certain and name in _INERT and (name == "echo" or not is_computed)


def _names(word: Word) -> set[str]:
    return {*_IDENTIFIER.findall(word.raw)}


# --- How many ranks, and the options of srun.


class _Counts(NamedTuple):
    """The counts of a job by sbatch's options, and the numbers of variables."""

    request: Request
    own: Mapping[str, int]
    numbers: Mapping[str, int]

    @classmethod
    def of(cls, request: Request, known: Mapping[str, str]) -> _Counts:
        nodes, gpus = request.nodes, ceil(request.gpus / request.nodes)
        own = {"nodes": nodes, "ntasks": request.tasks, "gpus": request.gpus, "gres": gpus}
        own |= {"ntasks-per-node": ceil(request.tasks / nodes), "gpus-per-node": gpus}
        own["cpus-per-task"] = request.count("cpus-per-task") or 0
        numbers = {variable: own[name] for variable, name in _OF_SLURM.items() if own[name]}
        numbers |= {name: int(text) for name, text in known.items() if _NUMBER.fullmatch(text)}
        return cls(request, own, numbers)

    def number(self, text: str | None) -> int | None:
        """Return the number that a word is, or that the variable it names has."""
        word = (text or "").strip("\"'")
        return int(word) if _NUMBER.fullmatch(word) else self.numbers.get(word.strip("${}"))

    def tasks_per_node(self, line: LaunchLine) -> int | None:
        """Return how many tasks a launch starts on each node.

        None where it takes another part of the job than all of it, or nobody can tell.
        """
        nodes = self.own["nodes"]
        if not all(map(self.is_clear, line.step)):
            return None
        alone = 1 if nodes == 1 else None
        tasks = self.tasks_of_step(line) if line.starter else alone
        if line.kind in ("plain", "mpi"):
            return tasks
        if line.nodes is None:
            return tasks if tasks == nodes == 1 else None
        said = self.number(line.nodes)
        is_all = said == nodes or (said is None and "$" in line.nodes)
        return tasks if tasks == 1 and is_all else None

    def tasks_of_step(self, line: LaunchLine) -> int | None:
        """Return how many tasks srun or mpirun starts on each node, None where nobody can tell."""
        nodes, asked = self.own["nodes"], self.own["ntasks-per-node"]
        step = {option.name: option.value for option in line.step}
        said = {self.number(step[name]) for name in _PER_NODE if name in step}
        if "ntasks" in step:
            total = self.number(step["ntasks"])
            said.add(total // nodes if total and total % nodes == 0 else None)
        tasks = said.pop() if said else asked
        is_asked = any(option in self.request.options for option in CPU_OPTIONS[1:3])
        is_free = line.kind not in ("plain", "mpi") or not is_asked
        is_free = is_free and (line.starter == "srun" or nodes == 1)
        return tasks if not said and (is_free or tasks == asked) else None

    def is_clear(self, option: StepOption) -> bool:
        """Return whether an option asks for no other nodes, CPUs and GPUs than the job has."""
        name, value, is_settled, _ = option
        if name in _MATCHED:
            is_count = name in self.own and (name != "gres" or (value or "").startswith("gpu:"))
            count = self.number((value or "").rpartition(":")[2]) if is_count else None
            is_said = name in self.request.options and value == self.request.text(name)
            return is_said or (count is not None and count == self.own[name])
        is_dropped = name in OWNED_BY_SRUN or name in _NOT_NEEDED or name == "x"
        return bool(name) and (is_settled or is_dropped)

    def why_unclear(self, option: StepOption) -> str:
        """Return what is said of an option that is not clear."""
        number = self.number((option.value or "").rpartition(":")[2])
        if not option.is_settled and number is None:
            return "whose value only the shell knows"
        if option.name in self.own:
            return "which is not what the job has"
        return "with which hpckit does not start ranks"


_OF_SLURM: Final = {
    **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), "nodes"),
    **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), "ntasks"),
    **dict.fromkeys(("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"), "gpus-per-node"),
    "SLURM_NTASKS_PER_NODE": "ntasks-per-node",
    "SLURM_CPUS_PER_TASK": "cpus-per-task",
}
_PER_NODE: Final = ("ntasks-per-node", "tasks-per-node")
_TASKS: Final = frozenset(("ntasks", *_PER_NODE))
_MATCHED: Final = frozenset(
    ("nodes", "cpus-per-task", "cpus-per-gpu", "gpus", "gpus-per-node", "gpus-per-task", "gres",
     "ntasks-per-gpu", "tres-per-task", "nodelist", "exclude", "nodefile", "relative", "r",
     "multi-prog", "input", "pty", "het-group")
)  # fmt: skip
"""Options of srun that must ask for what the job has."""
_NOT_NEEDED: Final = frozenset(
    ("l", "label", "u", "unbuffered", "X", "disable-status", "v", "verbose", "Q", "quiet", "jobid",
     "overlap", "exact", "oversubscribe", "exclusive")
)  # fmt: skip
"""Options of srun that do nothing for the only step of a job, or that hpckit's logs make up for."""
_AS_HERE: Final = frozenset(
    (("export", "ALL"), ("kill-on-bad-exit", None), ("kill-on-bad-exit", "1"), ("K", None),
     ("K", "1"), ("wait", "0"), ("mpi", "none"))
)  # fmt: skip
"""What hpckit writes itself."""


def _ranks(
    request: Request, launch: _Launch, known: Mapping[str, str]
) -> tuple[int | None, tuple[Left, ...]]:
    """Return the ranks of a node, None where they are Slurm's tasks; and what is unknown."""
    line, nodes, counts = launch.line, request.nodes, _Counts.of(request, known)
    if line.kind in ("plain", "mpi"):
        is_slurms = line.starter and launch.tasks_per_node == counts.own["ntasks-per-node"]
        return (None if is_slurms else launch.tasks_per_node), ()
    said = counts.number("1" if line.kind == "torchrun" and line.ranks is None else line.ranks)
    if said is not None and line.kind == "accelerate":
        said = said // nodes if said % nodes == 0 else None
    if said is not None:
        return said, ()
    gpus = counts.own["gpus-per-node"]
    if gpus and (line.ranks in ("gpu", "auto") or (line.kind, line.ranks) == ("deepspeed", None)):
        return gpus, ()
    ranks = gpus or 1
    reason = f"{line.ranks or 'not said'}: {ranks} on each node here, set resources.ntasks_per_node"
    return ranks, (Left(f"ranks of {line.kind}", launch.chosen.first_line, reason),)


def _of_step(
    line: LaunchLine, chosen: Statement, request: Request, keys: dict[str, object]
) -> Iterator[Left]:
    """Say the options of srun; yield those that no key says, and those of mpirun."""
    for option in line.step:
        name, value, *_ = option
        is_same = name != "export" and name in request.options and value == request.text(name)
        is_known = name in _MATCHED | _NOT_NEEDED | _TASKS or (name, value) in _AS_HERE
        if is_same or is_known or (name == "x" and "=" not in (value or "")):
            continue
        found = _step_keys(line, name, value)
        keys |= found
        if not found:
            key = OWNED_BY_SRUN.get(name, "")
            because = f"instead: {key}" if key else "hpckit starts the ranks with its own srun"
            yield Left(f"{line.starter} {option.said}", chosen.first_line, because)


def _step_keys(line: LaunchLine, name: str, value: str | None) -> dict[str, object]:
    """Return the keys that say an option of srun, none where none does."""
    if name == "mpi" and value and line.kind in ("plain", "mpi"):
        return {"launch.kind": "mpi", "launch.mpi": value}
    if name == "distribution" and value:
        return {"launch.distribution": value}
    if name in _CONTAINER and value:
        said = value.split(",") if name == "container-mounts" else value
        return {_CONTAINER[name]: said, "container.runtime": "pyxis"}
    if name in OWNED_BY_SRUN or line.starter != "srun" or len(name) == 1:
        return {}
    return {f"slurm.srun_extra.{name}": True if value is None else value}


def _behind(script: _Script, launch: _Launch) -> Iterator[Left]:
    """Yield what stands behind the launch, and where its output went."""
    last, first_line = launch.last_line, launch.chosen.first_line
    if ">" in launch.redirections or launch.chosen.end in ("|", "|&"):
        because = "hpckit keeps a log of each rank (hpckit logs)"
        yield Left("output of the launch", first_line, because)
    rest = [
        at for at, line in enumerate(script.lines[last:], last + 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]  # fmt: skip
    if rest:
        where = f"lines {rest[0]} to {rest[-1]}" if len(rest) > 1 else f"line {rest[0]}"
        yield Left(where, rest[0], "lines after the launch are dropped: the job ends there")
