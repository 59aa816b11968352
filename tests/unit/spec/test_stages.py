"""A job file with stages: which there are, what each is, and what is refused."""

from __future__ import annotations

import tomllib

import pytest

from hpckit.core.errors import ConfigError
from hpckit.spec.merge import effective_job, file_layers, stage_names
from tests.unit.docs.test_schemas import job_validator

COMMON = 'schema = "hpckit.job/1"\nname = "llama"\n'
CHAIN = (
    COMMON
    + """\
[resources]
nodes = 2
mem = "8G"
[environment]
pass = ["A"]
[[stages]]
name = "prepare"
command = ["python", "prepare.py"]
[[stages]]
name = "train"
command = ["python", "train.py"]
resources = { nodes = 4, mem_per_cpu = "2G" }
environment = { pass = ["B"] }
"""
)


def refused(text: str, stage: str | None = "a") -> ConfigError:
    """The error of a file of which a stage is asked for."""
    with pytest.raises(ConfigError) as caught:
        effective_job(file_layers(text, "chain.toml", stage))
    return caught.value


def test_the_stages_are_named_in_order() -> None:
    """A file with stages names them as they are written; a file without has none."""
    assert stage_names(CHAIN, "chain.toml") == ("prepare", "train")
    assert stage_names(COMMON + 'command = ["true"]', "job.toml") == ()


def test_a_stage_stands_over_the_file() -> None:
    """A stage's keys stand over the file's; lists that add up do, and exclusive ones give way."""
    spec = effective_job(file_layers(CHAIN, "chain.toml", "train")).spec
    assert (spec.name, spec.command) == ("llama-train", ("python", "train.py"))
    assert (spec.resources.nodes, spec.resources.mem, spec.resources.mem_per_cpu) == (4, None, "2G")
    assert spec.environment.pass_ == ("A", "B")
    other = effective_job(file_layers(CHAIN, "chain.toml", "prepare")).spec
    assert (other.name, other.resources.nodes, other.resources.mem) == ("llama-prepare", 2, "8G")


@pytest.mark.parametrize("stage", [None, "tain"])
def test_a_stage_must_be_one_of_the_files(stage: str | None) -> None:
    """Without a stage, or with one that is not there, the error names those that are."""
    assert refused(CHAIN, stage).hint == "choose one with --stage: prepare, train"


STAGE = '[[stages]]\nname = "a"\ncommand = ["x"]\n'


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (COMMON + 'command = ["x"]\n' + STAGE, "command"),
        ('schema = "hpckit.job/1"\n' + STAGE, "name"),
        (COMMON + "stages = []\n", "stages"),
        (COMMON + 'stages = "a"\n', "stages"),
        (COMMON + "stages = [1]\n", "stages[0]"),
        (COMMON + '[[stages]]\ncommand = ["x"]\n', "stages[0].name"),
        (COMMON + '[[stages]]\nname = "a b"\n', "stages[0].name"),
        (COMMON + "[[stages]]\nname = 3\n", "stages[0].name"),
        (COMMON + STAGE + '[[stages]]\nname = "b"\nschema = "x"\n', "stages[1].schema"),
        (COMMON + STAGE + '[[stages]]\nname = "b"\nstages = []\n', "stages[1].stages"),
        (COMMON + STAGE + "resources = { nods = 1 }\n", "stages[0].resources.nods"),
        (COMMON + STAGE + "nodes = 1\n", "stages[0].nodes"),
        (COMMON + STAGE + "resources = { nodes = 0 }\n", "stages[0].resources.nodes"),
        (COMMON + STAGE + 'resources = { nodes = "2" }\n', "stages[0].resources.nodes"),
        (COMMON + '[[stages]]\nname = "a"\n', "stages[0].command"),
        (COMMON + "nods = 1\n" + STAGE, "nods"),
    ],
)
def test_what_is_wrong_is_named_with_its_stage(text: str, key: str) -> None:
    """A wrong key or value is refused with its whole path, by the parser as by the schema."""
    assert refused(text).key == key
    assert not job_validator().is_valid(tomllib.loads(text))


def test_two_stages_of_one_name_are_refused() -> None:
    """Each stage has a name of its own."""
    assert refused(COMMON + STAGE + STAGE).key == "stages[1].name"


def test_a_good_chain_is_valid_for_the_schema() -> None:
    """What the parser takes, the published schema takes."""
    assert list(job_validator().iter_errors(tomllib.loads(CHAIN))) == []
