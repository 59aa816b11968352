"""What sentences tell a person to type is there to be typed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

import hpckit
from hpckit.account.rules import RULES
from hpckit.cli.main import COMMANDS, cli
from hpckit.node.rules.rules import RULES as NODE_RULES
from hpckit.slurm.pending import explain_pending
from hpckit.slurm.pending_reasons import TEXTS, WORDS
from hpckit.spec.job import ResourceRequest
from hpckit.spec.slurm_options import SlurmOptions

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_OTHERS = re.compile(
    r"\b(?:squeue|sacct|sinfo|sprio|sshare|scontrol|sacctmgr|nvidia-smi|docker|apptainer)\b[^;,)]*"
)
_OURS = re.compile(r"\bhpckit ([a-z]+)\b([^;,`()\n]*)")
_KEY = re.compile(r"\b(resources|slurm)\.([a-z_]+)")
_KEYS = {"resources": ResourceRequest, "slurm": SlurmOptions}
_REASONS = (
    *WORDS,
    *(text.example for text in TEXTS),
    "QOSGrpGRES",
    "QOSMaxGRESPerJob",
    "QOSMinGRES",
)
_REMEDIES = sorted(
    {explain_pending(reason).help or "" for reason in _REASONS}
    | {rule.remedy for rule in RULES}
    | {rule.remedy for rule in NODE_RULES}
)


def options_of(verb: str) -> set[str]:
    """The long options of a command and of those below it."""
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    below = command.commands.values() if isinstance(command, click.Group) else ()
    params = [param for one in (command, *below) for param in one.params]
    return {name for one in params for name in (*one.opts, *one.secondary_opts)} | {"--help"}


def sentences(path: Path) -> Iterator[str]:
    """Every text in a module, what is filled in being `X`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            parts = (one.value if isinstance(one, ast.Constant) else "X" for one in node.values)
            yield "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("remedy", _REMEDIES)
def test_a_remedy_names_options_that_submit_has(remedy: str) -> None:
    """Not those of sbatch that hpckit does not have; keys of the job file are keys of it."""
    said = _OTHERS.sub("", _OURS.sub("", remedy))
    assert set(_OPTION.findall(said)) <= options_of("submit")
    for table, key in _KEY.findall(said):
        assert key in {one.name for one in fields(_KEYS[table])}


def test_commands_of_hpckit_in_texts_have_their_options() -> None:
    """`hpckit VERB --option` anywhere in hpckit's texts is a command line that it takes."""
    package = Path(hpckit.__file__).parent
    wrong = [
        f"{path.name}: hpckit {verb} {option}"
        for path in package.rglob("*.py")
        for text in sentences(path)
        for verb, rest in _OURS.findall(text)
        if verb in COMMANDS
        for option in _OPTION.findall(rest.partition(" -- ")[0])
        if option not in options_of(verb)
    ]
    assert not wrong
