"""Advice as a change of the job file's text."""

from __future__ import annotations

import tomllib

import pytest

from hpckit.account.advice.advice import options_text, patch_text, patched
from hpckit.account.values import Advice

TIME = Advice(
    key="resources.time_limit", now="8:00:00", proposed="02:00:00", because="it took 1:30:00"
)
CPUS = Advice(key="resources.cpus_per_task", now="16", proposed="3", because="idle")
PER_GPU = Advice(key="resources.mem_per_gpu", now="64G", proposed="7G", because="peak")

FILE = """\
schema = "hpckit.job/1"   # the format
name = "train"
command = ["true"]

[resources]      # asked of Slurm
nodes = 2
time_limit = "8:00:00"  # enough for the long one

# who pays
[slurm]
account = "a"
"""


def edited(text: str, *advice: Advice) -> str:
    """The text with the advice in it."""
    changed = patched(advice, text)
    assert changed is not None
    return changed


def test_a_value_is_replaced_where_it_stands() -> None:
    """The line keeps its comment, and no other line changes."""
    assert edited(FILE, TIME) == FILE.replace('"8:00:00"', '"02:00:00"')


def test_a_key_is_added_to_its_table() -> None:
    """A key that the file does not have comes after the last of its table."""
    after = 'time_limit = "8:00:00"  # enough for the long one\n'
    assert edited(FILE, CPUS) == FILE.replace(after, f"{after}cpus_per_task = 3\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1\n", 'a = 1\n\n[resources]\ntime_limit = "02:00:00"\n'),
        ("", '[resources]\ntime_limit = "02:00:00"\n'),
        ("[resources]", '[resources]\ntime_limit = "02:00:00"\n'),
        (
            "resources.nodes = 2\n[slurm]\n",
            'resources.nodes = 2\nresources.time_limit = "02:00:00"\n[slurm]\n',
        ),
        ("resources = { nodes = 2 }\n", 'resources = { time_limit = "02:00:00", nodes = 2 }\n'),
        ("resources = {}\n", 'resources = {time_limit = "02:00:00"}\n'),
        ("resources = { time_limit = '9' }\n", 'resources = { time_limit = "02:00:00" }\n'),
        ('resources.time_limit = "9"\n', 'resources.time_limit = "02:00:00"\n'),
        ("[resources]\r\nnodes = 1\r\n", '[resources]\r\nnodes = 1\r\ntime_limit = "02:00:00"\r\n'),
        (
            's = """\n[resources]\ntime_limit = "1"\n"""\n[resources]\ntime_limit = "1"\n',
            's = """\n[resources]\ntime_limit = "1"\n"""\n[resources]\ntime_limit = "02:00:00"\n',
        ),
        (
            '[a]\ntime_limit = "1"\n',
            '[a]\ntime_limit = "1"\n\n[resources]\ntime_limit = "02:00:00"\n',
        ),
    ],
)
def test_every_spelling_of_a_table_is_edited(text: str, expected: str) -> None:
    """Headers, dotted keys and braces keep their form; strings that look like them are left."""
    assert edited(text, TIME) == expected


def test_several_keys_change_together() -> None:
    """Each piece of advice is in the result."""
    read = tomllib.loads(edited(FILE, TIME, CPUS, PER_GPU))
    assert read["resources"] == {
        "nodes": 2,
        "time_limit": "02:00:00",
        "cpus_per_task": 3,
        "mem_per_gpu": "7G",
    }


def test_a_file_with_stages_is_for_a_person() -> None:
    """Which of its stages is meant, the text does not say."""
    assert patch_text([TIME], FILE + '[[stages]]\nname = "a"\n') is None


def test_a_value_over_many_lines_is_for_a_person() -> None:
    """A spelling that no line shows whole is not changed."""
    assert patch_text([TIME], '[resources]\ntime_limit = """\\\n 8:00:00"""\n') is None


def test_a_last_line_without_an_end_is_said() -> None:
    """As diff(1) says it."""
    text = patch_text([TIME], '[resources]\ntime_limit = "9"')
    assert text is not None
    assert text.count("\\ No newline at end of file\n") == 2


def test_advice_that_the_file_has_is_no_patch() -> None:
    """The second time there is nothing to change."""
    assert patch_text([TIME], edited(FILE, TIME)) == ""


def test_advice_is_options_too() -> None:
    """Keys with an option of their own, and the others through --set."""
    assert options_text([TIME, PER_GPU]) == "--time 02:00:00 --set resources.mem_per_gpu=7G"
