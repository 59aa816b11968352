"""Rendered scripts, run by bash: the job's code is the step's, and values reach a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.prepared import prepared
from tests.fakes.running import Stage

BASE = 'name = "x"\ncommand = ["show"]\n'
IMAGE = 'container.image = "a.sif"\n'
APPTAINER = """\
#!/bin/bash
env -0 >"$SAW/environment"
"""


def script(text: str) -> str:
    """The script of a job."""
    return prepared(BASE + text, site="docker").script.text


@pytest.mark.parametrize("more", ["", IMAGE, "launch.kind = 'torchrun'\n"])
@pytest.mark.parametrize("setup", ["", "environment.setup = ['source /dev/null']\n"])
def test_a_step_that_fails_fails_the_job(tmp_path: Path, setup: str, more: str) -> None:
    """Also where the shell stays for traps, whatever words start the ranks."""
    stage = Stage(tmp_path / "stage")
    stage.program("srun", "#!/bin/bash\nexit 7\n")
    assert stage.run(script(setup + more)).returncode == 7


@pytest.mark.parametrize("value", ["a b", "$HOME", "`id`", "a\\b", 'say "x"', "$(id)", "\\$x"])
def test_a_value_reaches_the_container_as_it_is(tmp_path: Path, value: str) -> None:
    """Apptainer reads it as the inside of double quotes, and escapes those alone."""
    stage = Stage(tmp_path / "stage")
    stage.program("apptainer", APPTAINER)
    ended = stage.run(script(f"{IMAGE}environment.set = {{ FOO = '{value}' }}\n"))
    given = ended.environment["APPTAINERENV_FOO"].replace('"', '\\"')
    assert stage.run(f'#!/bin/bash\nprintf %s "{given}"\n').stdout == value
