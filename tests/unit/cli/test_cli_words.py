"""Hostile text as words of the command line says the same job as in a file."""

from __future__ import annotations

import contextlib
import io
import subprocess

import click
import pytest

from hpckit.cli.main import cli
from hpckit.cli.submit import render_command as command
from hpckit.core.errors import ConfigError, PlanError, RenderError
from tests.fakes.hostile import HOSTILE, is_utf8

REFUSALS = (ConfigError, PlanError, RenderError, click.UsageError)
WORDS = [text for text in HOSTILE if "\0" not in text]
"""No argument of a process can hold NUL."""
END = "end-of-line"
NOT_OF_THE_JOB = {
    "--diff",
    "--site",
    "--template",
    "--site-dir",
    "--template-dir",
    "--env",
    "--set",
    "--pass",
    "--from-report",
    "--topology",
}


FLAGS = [
    parameter.opts[-1]
    for parameter in command.params
    if isinstance(parameter, click.Option)
    and not parameter.is_flag
    and parameter.opts[-1] not in NOT_OF_THE_JOB
]


def rendered(*words: str) -> str:
    """What `hpckit render` prints for these words."""
    written = io.BytesIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(written, encoding="utf-8")):
        cli.main(["render", *words], prog_name="hpckit", standalone_mode=False)
        return written.getvalue().decode()


def body(script: str) -> str:
    """A script without the line that repeats the command line."""
    return "\n".join(line for line in script.split("\n") if not line.startswith("# reproduce: "))


def reproduced(script: str) -> str:
    """The command line that the script names."""
    (line,) = (line for line in script.split("\n") if line.startswith("# reproduce: "))
    return line[line.index(": ") + 2 :]


def read_by_bash(lines: list[str]) -> list[list[str]]:
    """The words of each line, as bash splits them."""
    program = "".join(f"printf '%s\\0' {line}\nprintf '%s\\0' {END}\n" for line in lines)
    done = subprocess.run(
        ["bash", "-s"], input=program.encode(), capture_output=True, check=True, timeout=60
    )
    assert done.stderr == b""
    read: list[list[str]] = [[]]
    for word in done.stdout.decode().split("\0")[:-1]:
        if word == END:
            read.append([])
        else:
            read[-1].append(word)
    return read[:-1]


def test_the_command_and_its_variables() -> None:
    """A command after `--`, --env and --set take what a file takes; the script shows them."""
    scripts, expected = [], []
    for text in WORDS:
        words = ["--env", f"HOSTILE={text}", "--name", "x", "--", "program", text]
        if not is_utf8(text):
            with pytest.raises(REFUSALS):
                rendered(*words)
            continue
        scripts.append(rendered(*words))
        expected.append(
            ["hpckit", "render", "--site", "none", "--name", "x", *words[:2], *words[4:]]
        )
        if len(scripts) % 3:
            continue
        assert body(scripts[-1]) == body(
            rendered("--name", "x", "--set", f"environment.set.HOSTILE={_toml(text)}", *words[4:])
        )
    assert read_by_bash([reproduced(script) for script in scripts]) == expected


def _toml(text: str) -> str:
    return '"' + "".join(f"\\U{ord(char):08X}" for char in text) + '"'


@pytest.mark.parametrize("position", range(len(FLAGS)), ids=FLAGS)
def test_every_option(position: int) -> None:
    """Hostile text in an option is refused with a typed error, or gives a whole script."""
    for text in WORDS[position % 12 :: 12]:
        try:
            script = rendered("--gpus-per-node=1", f"{FLAGS[position]}={text}", "--", "program")
        except REFUSALS:
            continue
        assert script.startswith("#!/bin/bash\n#SBATCH")
        assert is_utf8(text)


def test_options_are_known() -> None:
    """The options of a job were found."""
    assert {"--name", "--comment", "--partition", "--ntasks"} <= set(FLAGS)
    assert len(FLAGS) > 15
