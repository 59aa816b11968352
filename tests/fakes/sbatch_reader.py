"""The reader of `#SBATCH` lines as sbatch has it, so that a test can ask what Slurm would see.

Source: src/sbatch/opt.c, get_argument() and _opt_batch_script(), and _opt_wrpr_batch_script() for
`#PBS` and `#BSUB`. Since 21.08 a component of a heterogeneous job begins where `hetjob` is the
first word of a directive; until 20.11 it began on any directive line that held the word.
"""

from __future__ import annotations

from collections.abc import Iterator

BLANKS = " \t\n\v\f\r"
SEPARATORS = ("packjob", "hetjob")
FOREIGN = ("#PBS", "#BSUB")


def directives(script: str, *, old: bool = False) -> list[str]:
    """The arguments that sbatch takes from `script`, one component only."""
    parts = components(script, old=old)
    if len(parts) != 1:
        raise ValueError(f"{len(parts)} components of a heterogeneous job")
    return parts[0]


def components(script: str, *, old: bool = False) -> list[list[str]]:
    """The arguments of each component; ValueError where sbatch would end with a fatal error."""
    found: list[list[str]] = [[]]
    for line in _directive_lines(script):
        rest = line.lstrip(BLANKS)
        first = rest.split(maxsplit=1)[0].lower() if rest.strip(BLANKS) else ""
        if any(word in line.lower() if old else word == first for word in SEPARATORS):
            found.append([])
        found[-1] += (word for word in _arguments(rest, old=old) if word not in SEPARATORS)
    return found


def foreign_lines(script: str) -> list[str]:
    """The lines that sbatch would read as directives of another scheduler."""
    return [line for line in script.split("\n") if line.startswith(FOREIGN)]


def _directive_lines(script: str) -> Iterator[str]:
    for line in script.split("\n"):
        if line.startswith("#SBATCH"):
            yield line.removeprefix("#SBATCH")
        elif line.startswith("#SLURM"):
            yield line.removeprefix("#SLURM")
        elif line.strip(BLANKS) and not line.lstrip(BLANKS).startswith("#"):
            return


def _arguments(line: str, *, old: bool) -> Iterator[str]:
    while True:
        if old:
            line = _blanked(line)
        line = line.lstrip(BLANKS)
        argument, line = _argument(line)
        if argument is None:
            return
        yield argument


def _blanked(line: str) -> str:
    for word in SEPARATORS:
        at = line.lower().find(word)
        if at >= 0:
            return line[:at] + " " * len(word) + line[at + len(word) :]
    return line


def _argument(line: str) -> tuple[str | None, str]:
    if line.startswith(":"):
        raise ValueError(f"unexpected `:` in {line!r}")
    taken: list[str] = []
    quote, escaped, at = "", False, 0
    while at < len(line) and (quote or line[at] not in BLANKS):
        char = line[at]
        if escaped or char not in (quote or "\"'#") + "\\":
            taken.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "#":
            break
        else:
            quote = "" if quote else char
        at += 1
    if quote:
        raise ValueError(f"unmatched {quote} in {line!r}")
    return ("".join(taken) if taken else None), line[at:]
