"""A job file with several faults: all at once, each with its line and what to write."""

from __future__ import annotations

import pytest

from hpckit.spec.job_errors import line_of
from tests.fakes.cli_jobs import call

HEAD = 'schema = "hpckit.job/1"\nname = "x"\n'


def told(text: str) -> str:
    """What `hpckit render` says of a job file."""
    error = call("render", "-", stdin=text, refused=True).exception
    return f"{error}"


def test_all_errors_are_told_at_once() -> None:
    """In the order of their lines, each with a line to paste where Slurm's word is meant."""
    text = told(
        f'{HEAD}command = "python train.py"\naccount = "proj"\n'
        '[resources]\nntasks = 8\ntime = "1:00"\nnodes = "two"\n[slurm]\nsignal = "FOO"\n'
    )
    lines = text.splitlines()
    assert "6 errors" in lines[0]
    assert [line.split(":")[0].strip() for line in lines if line.startswith("  line")] == [
        f"line {number}" for number in (3, 4, 6, 7, 8, 10)
    ]
    for fix in (
        'command = ["python", "train.py"]', 'account = "proj"   under [slurm]',
        "ntasks_per_node = 8   (per node; ntasks counts all nodes)", 'time_limit = "1:00"',
    ):  # fmt: skip
        assert f"fix: {fix}" in text


def test_a_command_is_split_as_a_shell_does() -> None:
    """A quoted word stays one."""
    text = told(f"{HEAD}command = 'python train.py --name \"a b\"'\n")
    assert 'fix: command = ["python", "train.py", "--name", "a b"]' in text


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ('walltime = "1:00"', 'time_limit = "1:00"'), ("gpu = 4", "gpus_per_node = 4"),
        ('memory = "64G"', 'mem = "64G"'), ('queue = "gpu"', 'partition = "gpu"   under [slurm]'),
        ("cpus = 8", "cpus_per_task = 8"), ('output = "x"', "remove it; instead: hpckit logs"),
    ],
)  # fmt: skip
def test_a_word_of_another_tool_names_the_key(line: str, fix: str) -> None:
    """By what it means, not by how it is spelled."""
    text = told(f'{HEAD}command = ["true"]\n[resources]\n{line}\n')
    assert "line 5" in text
    assert f"fix: {fix}" in text


def test_a_key_is_found_by_its_line() -> None:
    """In tables, as dotted keys, and in tables of one line."""
    text = 'a = 1\n[b]\n# c = 3\nc = 2\n[b.d]\n"e" = 1\n[f]\ng.h = 1\ni = { j = 1 }\n'
    found = [line_of(text, key) for key in ("a", "b.c", "b.d.e", "f.g.h", "f.i.j", "b.d", "z")]
    assert found == [1, 4, 6, 8, 9, 5, None]
