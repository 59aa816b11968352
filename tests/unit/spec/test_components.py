"""A job file with components: which there are, what each is, and what is refused."""

from __future__ import annotations

import tomllib

import pytest

from hpckit.core.errors import ConfigError
from hpckit.spec.components import component_layers, component_requests
from hpckit.spec.merge import effective_job, file_layers
from tests.unit.docs.test_schemas import job_validator

COMMON = 'schema = "hpckit.job/1"\nname = "rl"\n'
A = '[[component]]\nname = "a"\ncommand = ["x"]\n'
B = '[[component]]\nname = "b"\ncommand = ["y"]\n'
GOOD = COMMON + "[resources]\nnodes = 2\n" + A + "service = true\nserve = { port = 80 }\n" + (
    B + 'after = ["a"]\nresources = { mem = "1G" }\n'
)  # fmt: skip


def test_a_component_stands_over_the_file() -> None:
    """It is a job of its own, of the file's name and its own."""
    assert component_requests(COMMON + 'command = ["true"]', "job.toml") == ()
    first, second = component_requests(GOOD, "job.toml")
    assert (first.name, first.service, second.after) == ("a", True, ("a",))
    spec = effective_job(component_layers(GOOD, "job.toml", "b")).spec
    assert (spec.name, spec.command) == ("rl-b", ("y",))
    assert (spec.resources.nodes, spec.resources.mem) == (2, "1G")
    assert list(job_validator().iter_errors(tomllib.loads(GOOD))) == []


def test_one_must_be_asked_for() -> None:
    """By what makes a job of a file, and by a name that it has."""
    with pytest.raises(ConfigError, match="several components") as caught:
        file_layers(GOOD, "job.toml", None)
    assert "--component" in str(caught.value.hint)
    with pytest.raises(ConfigError) as caught:
        component_layers(GOOD, "job.toml", "c")
    assert caught.value.hint == "choose one with --component: a, b"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (COMMON + 'command = ["x"]\n' + A + B, "command"),
        ('schema = "hpckit.job/1"\n' + A + B, "name"),
        (COMMON + A, "component"),
        (COMMON + "component = 3\n", "component"),
        (COMMON + A + "service = true\n" + B + "service = true\n", "component"),
        (COMMON + A + A, "component[1].name"),
        (COMMON + A + '[[component]]\nname = "serve"\ncommand = ["x"]\n', "component[1].name"),
        (COMMON + A + B + 'after = ["c"]\n', "component[1].after"),
        (COMMON + A + 'after = ["b"]\n' + B, "component[0].after"),
        (COMMON + A + B + "nodes = 1\n", "component[1].nodes"),
        (COMMON + A + B + "schema = 1\n", "component[1].schema"),
        (COMMON + A + '[[component]]\nname = "A b"\n', "component[1].name"),
        (COMMON + A + B + '[[stages]]\nname = "s"\n', "component"),
    ],
)
def test_what_is_wrong_is_named_with_its_component(text: str, key: str) -> None:
    """A wrong key or value is refused with its whole path."""
    with pytest.raises(ConfigError) as caught:
        component_requests(text, "job.toml")
        file_layers(text, "job.toml", None)
    assert caught.value.key == key
