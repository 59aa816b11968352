"""What the options of sbatch, srun, mpirun and container engines set for the ranks.

Sources: sbatch(1) and srun(1), `--export`; mpirun(1) of Open MPI, `-x` and `--mca`; mpiexec of
MPICH and Intel MPI, `-genv` and `-env`; docker-run(1), `--env`; apptainer-exec(1), `--env`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hpckit.comm.lint_rule import Setting
from hpckit.comm.shell.lexer import Word
from hpckit.core.late import regex

STEP_LAUNCHERS: Final = ("srun", "sbatch", "salloc")
MPI_LAUNCHERS: Final = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")
CONTAINERS: Final = ("docker", "podman", "podman-hpc", "nerdctl", "enroot", "shifter", "sarus")
LISTING_CONTAINERS: Final = ("apptainer", "singularity")
"""Those whose `--env` takes several variables with commas between them."""
SHELLS: Final = ("bash", "sh", "zsh", "ksh", "dash")
WRAPPERS: Final = (
    "timeout", "nice", "ionice", "stdbuf", "numactl", "taskset", "setsid", "xargs", "sudo", "nsys",
    "ncu", "rocprof", "rocprofv3", "strace", "unbuffer",
)  # fmt: skip
"""Programs that start another one behind options of their own."""

_NAME: Final = regex(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_COMMAND_FLAG: Final = regex(r"-[A-Za-z]*c")
_SHELL_OPTION_WITH_VALUE: Final = regex(r"[-+][A-Za-z]*[oO]|--rcfile|--init-file")
_IN_QUOTES: Final = regex(r"\\([\"$`\\])")
_SHORT: Final = {"N": "nodes", "n": "ntasks", "G": "gpus", "W": "wait"}
_SHORT_ALONE: Final = frozenset("EHIKOQVXZhklsuv")
_LONG_ALONE: Final = frozenset(
    ("exclusive", "overlap", "unbuffered", "label", "exact", "kill-on-bad-exit", "no-kill", "pty",
     "verbose", "quiet", "multi-prog", "oversubscribe", "spread-job", "contiguous", "requeue",
     "no-requeue", "overcommit", "parsable", "test-only", "wait-for-children", "use-min-nodes",
     "get-user-env", "propagate", "preserve-env", "hold", "immediate", "nice", "reboot", "whole",
     "no-allocate", "disable-status", "quit-on-interrupt", "send-libs", "resv-ports", "stepmgr",
     "external-launcher", "compress", "ignore-pbs", "no-shell", "bell", "no-bell", "help",
     "version", "usage", "container-mount-home", "no-container-mount-home",
     "container-remap-root", "no-container-remap-root", "container-entrypoint",
     "no-container-entrypoint", "container-entrypoint-log", "container-writable",
     "container-readonly", "x11")
)  # fmt: skip
_KEPT: Final = frozenset(
    ("export", "gpus-per-task", "gpu-bind", "tres-bind", "tres-per-task", "ntasks-per-gpu",
     "ntasks-per-node", "ntasks", "nodes", "gpus", "gpus-per-node", "gres", "gres-flags",
     "exclusive")
)  # fmt: skip


class Pair(NamedTuple):
    """A variable and its value, None where the shell computes it.

    `is_longer` for `A+=b`; `is_fallback` where the value counts only if the variable has none.
    """

    name: str
    value: str | None
    line: int
    is_longer: bool = False
    is_fallback: bool = False


def launch_options(
    program: str, words: Sequence[Word], until_line: int | None
) -> tuple[list[Setting], Sequence[Word]]:
    """The options that bear on communication, and the command behind them."""
    found, at = _options_from(program, words, 0, until_line)
    return found, words[at + (words[at : at + 1] != [] and words[at].text == "--") :]


def directive_options(words: Sequence[Word]) -> list[Setting]:
    """The same options in an `#SBATCH` line, where words between them do no harm."""
    found: list[Setting] = []
    at = 0
    while at < len(words):
        options, at = _options_from("sbatch", words, at, None)
        found += options
        at += 1
    return found


def _options_from(
    program: str, words: Sequence[Word], at: int, until_line: int | None
) -> tuple[list[Setting], int]:
    """The options that begin at a word, and where the first word stands that is none."""
    found: list[Setting] = []
    while at < len(words) and is_option(words[at]):
        name, value, step = step_option(words, at)
        if name in _KEPT:
            found.append(
                Setting(
                    program=program,
                    name=f"--{name}",
                    value=value,
                    line=words[at].line,
                    until_line=until_line,
                )
            )
        at += step
    return found, at


def is_option(word: Word) -> bool:
    """Whether a word is an option, or may be several: `$OPTIONS`."""
    may_be = not word.is_plain and word.raw.startswith(("$", '"$'))
    return may_be or (word.text.startswith("-") and word.text != "--")


def step_option(words: Sequence[Word], at: int) -> tuple[str, str | None, int]:
    """One option's long name, its value, and how many words it takes.

    `-W` and `--wait` take seconds for srun, and nothing for sbatch. What begins with `--` is taken
    for the next option, since flags that are not known here are many.
    """
    word = words[at]
    if not word.text.startswith("-"):
        return "", None, 1
    following = words[at + 1] if at + 1 < len(words) else None
    next_value = following.text if following is not None and following.is_plain else None
    is_wait_alone = not (next_value or "").isdigit()
    if not word.text.startswith("--"):
        name = _SHORT.get(word.text[1:2], word.text[1:2])
        if word.text[2:]:
            return name, word.text[2:].removeprefix("=") if word.is_plain else None, 1
        is_alone = name in _SHORT_ALONE or (name == "wait" and is_wait_alone)
        return (name, None, 1) if is_alone else (name, next_value, 2)
    name, equals, value = word.text[2:].partition("=")
    if equals:
        return name, value if word.is_plain else None, 1
    is_alone = name in _LONG_ALONE or (name == "wait" and is_wait_alone)
    is_alone = is_alone or (following is not None and following.text.startswith("--"))
    return (name, None, 1) if is_alone else (name, next_value, 2)


def exported_pairs(option: Setting) -> Iterator[Pair]:
    """The variables in `--export=ALL,A=b`."""
    if option.name != "--export" or option.value is None:
        return
    for part in option.value.split(","):
        name, equals, value = part.partition("=")
        if equals and _NAME.fullmatch(name):
            yield Pair(name, value.strip("'\""), option.line)


def mpi_pairs(words: Sequence[Word]) -> Iterator[Pair]:
    """The variables in `-x A=b`, `-genv A b`, `-env A b` and `--mca name value`."""
    for at, word in enumerate(words):
        rest = words[at + 1 : at + 3]
        if word.text == "-x" and rest:
            yield from _pair(rest[0])
        elif word.text in ("-genv", "-env") and len(rest) > 1 and _NAME.fullmatch(rest[0].text):
            yield Pair(rest[0].text, rest[1].text if rest[1].is_plain else None, word.line)
        elif word.text in ("--mca", "-mca") and len(rest) > 1 and _NAME.fullmatch(rest[0].text):
            value = rest[1].text if rest[1].is_plain else None
            yield Pair(f"OMPI_MCA_{rest[0].text}", value, word.line)


def container_pairs(words: Sequence[Word], *, is_list: bool = False) -> Iterator[Pair]:
    """The variables in `-e A=b` and `--env=A=b`, and in `--env A=b,C=d` where that is a list."""
    for at, word in enumerate(words):
        if word.text in ("-e", "--env") and at + 1 < len(words):
            said = words[at + 1]
        elif word.text.startswith("--env="):
            said = word._replace(text=word.text.removeprefix("--env="))
        else:
            continue
        for part in said.text.split(",") if is_list else (said.text,):
            yield from _pair(said._replace(text=part))


def command_text(word: Word) -> str:
    """The script that a word such as `"export A=b; cmd"` holds, with its lines as they stand."""
    quote = word.raw[:1]
    is_whole = len(word.raw) > 1 and word.raw.endswith(quote)
    if is_whole and quote == "'" and word.raw.count("'") == 2:  # noqa: PLR2004
        return word.text
    inner = word.raw[1:-1]
    if is_whole and quote == '"' and '"' not in _IN_QUOTES.sub("", inner):
        return _IN_QUOTES.sub(r"\1", inner)
    return word.text


def shell_command(words: Sequence[Word]) -> Word | None:
    """The script behind `-c` in the arguments of a shell; None where it reads another one.

    What stands behind the first word that is no option is for the script itself.
    """
    at = 0
    is_command = False
    while at < len(words) and words[at].text.startswith(("-", "+")):
        is_command = is_command or _COMMAND_FLAG.fullmatch(words[at].text) is not None
        at += 2 if _SHELL_OPTION_WITH_VALUE.fullmatch(words[at].text) else 1
    return words[at] if is_command and at < len(words) else None


def wrapped_script(words: Sequence[Word]) -> Word | None:
    """The script in `sbatch --wrap=…`."""
    for at, word in enumerate(words):
        if word.text == "--wrap" and at + 1 < len(words):
            return words[at + 1]
        if word.text.startswith("--wrap="):
            raw = word.raw.removeprefix("--wrap=")
            return word._replace(text=word.text.removeprefix("--wrap="), raw=raw)
    return None


def any_pairs(words: Sequence[Word]) -> Iterator[Pair]:
    """The variables in options of whichever launcher: `--export=ALL,A=b`, `-x A=b`, `--env A=b`."""
    for word in words:
        if word.text.startswith("--export=") and word.is_plain:
            value = word.text.removeprefix("--export=")
            yield from exported_pairs(
                Setting(program="srun", name="--export", value=value, line=word.line)
            )
    yield from mpi_pairs(words)
    yield from container_pairs(words)


def _pair(word: Word) -> Iterator[Pair]:
    name, equals, value = word.text.partition("=")
    if equals and _NAME.fullmatch(name):
        yield Pair(name, value if word.is_plain else None, word.line)
