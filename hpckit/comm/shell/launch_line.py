"""Which command of a batch script is its job, and what it says of the launch."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from hpckit.comm.shell.launchers import MPI_LAUNCHERS, is_option, step_option
from hpckit.comm.shell.lexer import Word
from hpckit.comm.shell.statements import OPENERS, Statement, is_settled, program
from hpckit.core.late import regex
from hpckit.script.launchers.accelerate import ACCELERATE
from hpckit.script.launchers.deepspeed import DEEPSPEED
from hpckit.script.launchers.options import LauncherOptions
from hpckit.script.launchers.torchrun import TORCHRUN
from hpckit.slurm.request import long_option

_PREPARING: Final = frozenset(
    "set export declare local readonly unset unsetenv setenv alias unalias shopt source . module"  # noqa: SIM905  a list of words
    " ml conda mamba micromamba spack cd pushd popd mkdir rmdir rm cp mv ln touch chmod echo printf"
    " cat date hostname nvidia-smi rocm-smi free df du ls pwd env which type ulimit sleep wait trap"
    " eval scontrol squeue sacct scancel sinfo tee head tail grep awk sed find sort uniq wc cut tr"
    " read tar unzip gunzip gzip git pip pip3 wget curl rsync test [ [[ : true false exit return"
    " umask lscpu lspci uname whoami id printenv let basename dirname realpath readlink seq break"
    " continue shift mktemp ibstat nvcc gcc make cmake kill deactivate stat xargs ldd readarray"
    " mapfile".split()
)
"""Programs that prepare or show."""
_RUNNING: Final = frozenset(("env", "eval", "find", "xargs"))
"""Those of them that may start another program."""
STEP_STARTERS: Final = frozenset(("srun", *MPI_LAUNCHERS))
_LAUNCHERS: Final[Mapping[str, LauncherOptions]] = {
    "torchrun": TORCHRUN,
    "accelerate": ACCELERATE,
    "deepspeed": DEEPSPEED,
}
_BREAKS: Final = regex(r"[\s=;&|()'\"`]+")
_VARIABLE: Final = regex(r"\$\{?(\w+)\}?")
_SPECIAL: Final = regex(r"[\\'\"*?\[]")
"""What a shell reads in another way in the value of a variable than in a script."""
_PYTHON: Final = regex(r"python[0-9.]*")
_LAUNCH: Final = "torch.distributed.launch"
_DISTRIBUTED: Final = ("torch.distributed.run", _LAUNCH)
_RANKS: Final = frozenset(("nproc-per-node", "num-processes", "num-gpus", "num-accelerators"))
"""Options of launchers that count ranks."""
_NODES: Final = frozenset(("nnodes", "num-machines", "num-nodes"))
"""Those that count nodes."""
_OWNED_FLAGS: Final = frozenset(
    ("standalone", "no-python", "force-multi", "no-ssh", "no-ssh-check", "quiet", "q", "cpu",
     "elastic-training", "bind-cores-to-rank", "same-network", "tpu")
)  # fmt: skip
"""Options that hpckit writes itself, and that have no value."""
_MPI_NAMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("n", "np", "c"), "ntasks"),
    **dict.fromkeys(("ppn", "N", "npernode"), "ntasks-per-node"),
    **dict.fromkeys(("hostfile", "machinefile", "f", "H", "host"), "nodelist"),
    **dict.fromkeys(("oversubscribe", "allow-run-as-root", "tag-output", "l"), "label"),
    **dict.fromkeys(("v", "quiet", "report-bindings"), "verbose"),
}  # fmt: skip
"""Options of mpirun that srun has too."""
_MPI_VALUES: Final[Mapping[str, int]] = {
    **{name: int(same not in ("label", "verbose")) for name, same in _MPI_NAMES.items()},
    **dict.fromkeys(("map-by", "bind-to", "rank-by", "launcher", "bootstrap", "x"), 1),
    **dict.fromkeys(("bind-to-core", "bycore"), 0),
    "mca": 2,
}
"""Options of mpirun → the words that follow them. Source: mpirun(1) of Open MPI, of MPICH."""


class StepOption(NamedTuple):
    """An option of srun or mpirun; `is_settled` where the shell computes nothing in it.

    `name` is srun's long one where it has one, `value` as it is written, `said` all of it so.
    """

    name: str
    value: str | None
    is_settled: bool
    said: str


class LaunchLine(NamedTuple):
    """What a script starts: the kind, the launcher's options, the words that a rank runs.

    `python` are words before them, such as `python3`; `ranks` and `nodes` what the launcher's
    options count, as it is written; `step` the options of `starter`, which is srun or mpirun.
    """

    kind: str
    words: tuple[Word, ...]
    args: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    ranks: str | None = None
    nodes: str | None = None
    starter: str = ""
    step: tuple[StepOption, ...] = ()


def only_work(statements: Sequence[Statement]) -> Statement | None:
    """Return the one command that is the job; None where there are several, or none by itself."""
    work = [statement for statement in statements if _is_work(statement)]
    steps = [statement for statement in statements if program(statement.program_words) == "srun"]
    work = [statement for statement in work if _is_launcher(statement)] or work or steps
    if len(work) != 1 or not work[0].is_alone or work[0].has_document:
        return None
    return work[0]


def _is_work(statement: Statement) -> bool:
    """Return whether a command is more than preparation."""
    words = statement.program_words
    name = program(words)
    if not words or name in OPENERS or words[0].raw.startswith(("((", "-")):
        return False
    if name in _PREPARING:
        return name in _RUNNING and _is_launcher(statement)
    if name == "srun":
        started = program(_step(words[1:])[1])
        return started not in _PREPARING and bool(started)
    return True


def _is_launcher(statement: Statement) -> bool:
    words = statement.program_words
    name = program(words)
    if name in _RUNNING:
        return any(names_starter(word.text) for word in words)
    return name in STEP_STARTERS | _LAUNCHERS.keys() or _distributed(words) is not None


def names_starter(text: str) -> bool:
    """Return whether a text has the name of what starts ranks: srun, mpirun and the like."""
    return any(PurePosixPath(word).name in STEP_STARTERS for word in _BREAKS.split(text))


def expanded(words: Sequence[Word], known: Mapping[str, str]) -> tuple[Word, ...]:
    """Return the words with `$OPTIONS` taken apart where its value is known, and has no quotes."""
    found: list[Word] = []
    for word in words:
        match = _VARIABLE.fullmatch(word.raw)
        value = known.get(match[1]) if match else None
        if value is None or _SPECIAL.search(value):
            found.append(word)
        else:
            found += [Word(text, shlex.quote(text), word.line, True) for text in value.split()]
    return tuple(found)


def launch_line(words: Sequence[Word]) -> LaunchLine | None:
    """Return what a command starts; None where that cannot be told, or is no program of PATH."""
    name = program(words)
    if name == "srun":
        return _by_srun(words)
    if any(names_starter(word.text) for word in words[1:]):
        return None
    if name in MPI_LAUNCHERS:
        return _by_mpi(name, words[1:])
    behind = _distributed(words)
    if behind is not None or name in _LAUNCHERS:
        return None if "/" in words[0].text else _by_name(name, words, behind)
    return LaunchLine("plain", tuple(words))


def _by_name(name: str, words: Sequence[Word], behind: Sequence[Word] | None) -> LaunchLine | None:
    """Return what a launcher starts, whose options are `behind` another program or its own."""
    if behind is None:
        size = len(_LAUNCHERS[name].program)
        given = tuple(word.text for word in words[1:size])
        is_it = given == _LAUNCHERS[name].program[1:]
        return _by_launcher(name, _LAUNCHERS[name], words[size:]) if is_it else None
    if any(word.text == _LAUNCH for word in words):
        options = [word for word in behind if word.text not in ("--use_env", "--use-env")]
        if len(options) == len(behind):
            return None  # it gives the program --local_rank, which torchrun does not
        behind = options
    return _by_launcher("torchrun", TORCHRUN, behind, python=words[0].text)


def _by_srun(words: Sequence[Word]) -> LaunchLine | None:
    step, rest = _step(words[1:])
    if not rest or any(word.raw == ":" for word in rest):  # a heterogeneous step
        return None
    inner = launch_line(rest)
    return None if inner is None or inner.starter else inner._replace(starter="srun", step=step)


def _step(words: Sequence[Word]) -> tuple[tuple[StepOption, ...], Sequence[Word]]:
    """Return srun's options, and the command behind them."""
    options: list[StepOption] = []
    at = 0
    while at < len(words) and _is_option(words[at]):
        name, value, size = step_option(words, at)
        own = words[at : at + size]
        if value is None and not all(word.is_plain for word in own):
            dashes = own[0].raw.partition("=")[2] or own[0].raw[2:]
            value = own[1].raw if size > 1 else dashes
        name = long_option(f"-{name}") if len(name) == 1 else name
        said = " ".join(word.raw for word in own)
        options.append(StepOption(name, value, all(word.is_plain for word in own), said))
        at += size
    if words[at : at + 1] and words[at].text == "--":
        at += 1
    return tuple(options), words[at:]


def _is_option(word: Word) -> bool:
    """Return whether a word is an option, or may be several: not a path such as `$HOME/run`."""
    return is_option(word) and not ("/" in word.text and word.text.startswith("$"))


def _distributed(words: Sequence[Word]) -> Sequence[Word] | None:
    """Return the words behind `python -m torch.distributed.run`, None for another command."""
    if not _PYTHON.fullmatch(program(words)):
        return None
    at = next((at for at, word in enumerate(words) if word.text in _DISTRIBUTED), 0)
    return words[at + 1 :] if at > 1 and words[at - 1].text == "-m" else None


class _Option(NamedTuple):
    """An option of a launcher by its name, its value as it is written, the words it takes."""

    name: str
    value: str | None
    size: int
    is_settled: bool


def _by_launcher(
    kind: str, known: LauncherOptions, words: Sequence[Word], python: str = "python3"
) -> LaunchLine | None:
    """Take a launcher's options apart; those that hpckit writes itself are dropped."""
    args: list[str] = []
    counts: dict[str, str | None] = {}
    start: tuple[str, ...] = (python,)
    at = 0
    while at < len(words) and _is_option(words[at]):
        option = _launcher_option(known, words, at)
        if option is None:
            return None
        at += option.size
        if option.name in known.as_module:
            start = (python, "-m")
        elif option.name in known.owned:
            start = () if option.name == "no-python" else start
            what = "ranks" if option.name in _RANKS else "nodes" if option.name in _NODES else ""
            counts[what] = option.value
        else:
            value = "" if option.value is None else f"={option.value}"
            args.append(f"--{option.name}{value}")
    if not words[at:]:
        return None
    ranks, nodes = counts.get("ranks"), counts.get("nodes")
    return LaunchLine(kind, tuple(words[at:]), tuple(args), start, ranks, nodes)


def _launcher_option(known: LauncherOptions, words: Sequence[Word], at: int) -> _Option | None:
    """Return the option that begins at a word; None where its value cannot be told, or kept."""
    word = words[at]
    name, equals, text = word.text.lstrip("-").partition("=")
    name = name.replace("_", "-")
    if not word.text.startswith("-"):
        return None
    is_flag = name in known.as_module or name in known.flags or name in _OWNED_FLAGS
    if is_flag and not equals:
        return _Option(name, None, 1, is_settled=True)
    if equals:
        option = _Option(name, text, 1, word.is_plain)
    elif at + 1 < len(words) and (known.takes_value(name) or name in known.owned):
        value = words[at + 1]
        option = _Option(name, value.text if value.is_plain else value.raw, 2, is_settled(value))
    else:
        return None
    return option if option.is_settled or name in known.owned else None


def _by_mpi(name: str, words: Sequence[Word]) -> LaunchLine | None:
    """Return the program behind mpirun's options, None where one of them is unknown."""
    step: list[StepOption] = []
    at = 0
    while at < len(words) and _is_option(words[at]):
        option = words[at].text.lstrip("-")
        size = _MPI_VALUES.get(option)
        if size is None:
            return None
        own = words[at + 1 : at + 1 + size]
        value = " ".join(word.text for word in own) or None
        said = " ".join(word.raw for word in words[at : at + 1 + size])
        name_of_srun = _MPI_NAMES.get(option, option)
        step.append(StepOption(name_of_srun, value, all(map(is_settled, own)), said))
        at += 1 + size
    found = LaunchLine("mpi", tuple(words[at:]), starter=name, step=tuple(step))
    return found if words[at:] else None
