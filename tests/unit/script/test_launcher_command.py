"""A command's own launch: programs that hpckit starts itself are refused; a job's name."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ConfigError
from hpckit.script.launcher_command import job_name_of, read_launchers
from hpckit.spec.files import option_layer


@pytest.mark.parametrize("program", ["srun", "mpirun", "mpiexec", "sbatch", "/usr/bin/srun"])
def test_another_launcher_in_front(program: str) -> None:
    """Srun, mpirun and the like in front are refused: hpckit writes them itself."""
    layer = option_layer({"command": ([program, "-n", "4", "train"], "--")})
    with pytest.raises(ConfigError, match="begins with") as caught:
        read_launchers([layer])
    assert caught.value.hint


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([], "job"),
        (["python", "train.py", "--x"], "train"),
        (["python", "-u", "/a/b/run.sh"], "run"),
        (["./a.out"], "a.out"),
        (["/"], "job"),
        (["bash", "-c", "x"], "bash"),
        (["x", ".py"], "x"),
    ],
)
def test_the_name_of_a_command(words: list[str], name: str) -> None:
    """A job without a name is called after its script, else its program."""
    assert job_name_of(words) == name
