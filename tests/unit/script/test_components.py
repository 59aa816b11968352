"""The groups of a heterogeneous script: what each says itself, and what it would have of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit import wiring
from hpckit.core.errors import ConfigError, HpckitError, PlanError
from hpckit.jobs.components import prepare_job
from hpckit.jobs.prepare import PreparedJob
from hpckit.jobs.source import JobSource
from tests.fakes.sbatch_reader import components

HEAD = 'schema = "hpckit.job/1"\nname = "two"\n'


def prepared(first: str, second: str, site: str = "docker", **more: str) -> PreparedJob:
    """The job of two components with these keys."""
    text = HEAD + "".join(
        f'[[component]]\nname = "{name}"\ncommand = ["true"]\n{keys}\n'
        for name, keys in (("a", first), ("b", second))
    )
    source = JobSource(
        file_text=text, file_name="two.toml", options={}, option_words=(),
        command=tuple(more.get("command", "").split()), site_name=site,
        template=more.get("template"), folder=Path("/nowhere"),
    )  # fmt: skip
    return prepare_job(source, wiring.resources())


def test_what_sbatch_hands_on_is_said_once() -> None:
    """And what it forgets is said again, mail but once."""
    keys = 'resources = { mem = "1G", nodes = 2 }\nslurm = { mail_type = ["END"], account = "x" }'
    job = prepared(keys, keys)
    first, second = components(job.script.text)
    assert {"--mem=1G", "--account=x", "--mail-type=END", "--nodes=2"} <= set(first)
    assert "--nodes=2" in second
    assert not [word for word in second if word.startswith(("--mem", "--account", "--mail"))]
    assert [one.name for one in job.components] == ["a", "b"]
    assert job.name == "two"


def test_what_a_group_would_have_of_another_is_refused() -> None:
    """A memory that it does not name would be the one before's; one that it names is said."""
    with pytest.raises(ConfigError, match=r"component b would inherit --mem=1G from a"):
        prepared('resources = { mem = "1G" }', "")
    first, second = components(
        prepared('resources = { mem = "1G" }', 'resources = { mem = "2G" }').script.text
    )
    assert ("--mem=1G" in first, "--mem=2G" in second) == (True, True)


def test_a_component_stays_in_one_block_where_it_fits() -> None:
    """Where Slurm places jobs by blocks; one that says a segment, or is larger, has its own."""
    keys = "resources = {{ nodes = {} }}"
    two, many = components(prepared(keys.format(2), keys.format(36), "gb200-nvl72").script.text)
    assert "--segment=2" in two
    assert not [word for word in many if word.startswith("--segment")]
    said = keys.format(4) + "\nslurm = { segment = 2 }"
    first, second = components(prepared(keys.format(1), said, "gb200-nvl72").script.text)
    assert not [word for word in first if word.startswith("--segment")]
    assert "--segment=2" in second
    assert "--segment=2" not in components(prepared(keys.format(2), "").script.text)[0]


@pytest.mark.parametrize(
    ("keys", "more", "error"),
    [
        ('slurm = { array = "0-3" }', {}, ConfigError),
        ('chdir = "x"', {}, ConfigError),
        ("slurm = { requeue = true }", {}, ConfigError),
        ('resources = { time_limit = "5" }', {}, ConfigError),
        ("serve = { port = 0 }", {}, ConfigError),
        ('serve = { port = 8000, idle_limit = "5" }', {}, ConfigError),
        ("serve = { port = 8000, drain_s = 5 }", {}, ConfigError),
        ('environment = { inherit = "none" }', {}, ConfigError),
        ("", {"command": "true"}, ConfigError),
        ("", {"template": "local.sbatch.j2"}, ConfigError),
        ("", {"site": "local"}, PlanError),
    ],
)
def test_what_cannot_be(keys: str, more: dict[str, str], error: type[HpckitError]) -> None:
    """Slurm has no arrays of them; one folder, environment and template is for all."""
    with pytest.raises(error):
        prepared(keys, "", **more)
