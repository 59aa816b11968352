"""From a job file and options to a script, with sites and templates as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.core.files import FileResources, packaged_data
from hpckit.spec.merge import OriginKind
from tests.fakes.prepared import prepared

BASE = 'name = "x"\ncommand = ["x"]\n'


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with site files and templates of one's own."""
    for name in ("site_configs", "templates"):
        (tmp_path / name).mkdir()
    return tmp_path


def resources(folder: Path) -> FileResources:
    """One's own files before hpckit's."""
    return FileResources([folder, packaged_data()])


def test_every_value_knows_its_origin() -> None:
    """The effective job names what gave each value: an option, the file, the site, hpckit."""
    job = prepared(BASE + "resources.nodes = 2", options={"slurm.qos": "high"})
    found = {one.key: (one.value, one.origin, one.detail) for one in job.effective.origins}
    assert found["slurm.qos"] == ('"high"', OriginKind.COMMAND_LINE, "--set slurm.qos")
    assert found["resources.nodes"] == ("2", OriginKind.JOB, "job.toml")
    assert found["slurm.partition"] == ('"main"', OriginKind.SITE, "site docker")
    assert found["resources.ntasks_per_node"] == ("1", OriginKind.DEFAULT, "hpckit")
    assert found["launch.kind"] == ('"plain"', OriginKind.DEFAULT, "hpckit")
    assert "resources.mem" not in found
    assert "environment.modules" not in found
    assert "schema" not in found


def test_an_empty_list_that_was_said_is_shown() -> None:
    """A list that somebody emptied is a value with an origin."""
    job = prepared(BASE + "environment.modules = []")
    assert "environment.modules" in {one.key for one in job.effective.origins}


def test_a_command_without_a_file() -> None:
    """A command alone is a job named after it."""
    job = prepared(command=("python", "train.py", "--x"))
    assert job.effective.spec.name == "train"
    assert job.effective.spec.command == ("python", "train.py", "--x")
    assert "hpckit render --site docker -- python train.py --x\n" in job.script.text


def test_a_command_over_a_file() -> None:
    """A command after -- stands over the file's, whose name stays."""
    job = prepared(BASE, command=("y",))
    assert (job.effective.spec.name, job.effective.spec.command) == ("x", ("y",))


@pytest.mark.parametrize("where", ["file", "command line"])
def test_torchrun_in_front_says_the_launch(where: str) -> None:
    """A command that begins with torchrun is a torchrun launch, wherever it was said."""
    command = ["torchrun", "--max-restarts", "1", "train.py"]
    if where == "file":
        job = prepared(f'name = "x"\ncommand = {command!r}')
    else:
        job = prepared(BASE, command=tuple(command))
    spec = job.effective.spec
    assert (spec.launch.kind, spec.command) == ("torchrun", ("python3", "train.py"))
    assert spec.launch.args == ("--max-restarts=1",)
    origin = {one.key: one.detail for one in job.effective.origins}
    assert origin["launch.kind"] == "torchrun in command"


def test_a_launch_that_was_said_stays() -> None:
    """Where the launch was said, a command is taken as it stands."""
    for program in ("torchrun", "/opt/bin/torchrun"):
        text = f'name = "x"\ncommand = ["{program}", "--standalone", "x.py"]\nlaunch.kind = "plain"'
        assert prepared(text).effective.spec.command == (program, "--standalone", "x.py")
