"""Where a job looks for its libraries, by its file and the shell of who asks."""

from __future__ import annotations

import pytest

from hpckit.app.job_place import Person, absent_container, job_place
from hpckit.model.job import JobSpec
from hpckit.model.nccl_found import NcclWhere
from hpckit.parse.job_file import effective_job, option_layer


def spec(**values: object) -> JobSpec:
    """A job with these keys."""
    given = {"name": "x", "command": ["python", "x.py"], **values}
    return effective_job([option_layer({key: (value, "x") for key, value in given.items()})]).spec


def place(job: JobSpec, **environment: str) -> NcclWhere:
    """Where it looks when it runs in /job."""
    return job_place(job, Person(environment=environment, home="/home/me"), None, "/job")


@pytest.mark.parametrize(
    ("keys", "python"),
    [
        ({"environment.venv": ".venv"}, "/job/.venv"),
        ({"environment.venv": "/opt/venv"}, "/opt/venv"),
        ({"environment.venv": "~/venv"}, "/home/me/venv"),
        ({"environment.conda": "envs/llm"}, "/job/envs/llm"),
        ({"environment.conda": "llm"}, "/opt/conda/envs/llm"),
        ({"command": ["env/bin/python3", "x.py"]}, "/job/env/bin/python3"),
        ({}, None),
    ],
)
def test_a_relative_environment_is_one_from_where_the_job_runs(
    keys: dict[str, object], python: str | None
) -> None:
    """As for the script, which activates it there."""
    assert place(spec(**keys), CONDA_EXE="/opt/conda/bin/conda").python == python


@pytest.mark.parametrize(
    ("keys", "program"),
    [
        ({"command": ["./all_reduce_perf", "-b", "8"]}, "./all_reduce_perf"),
        ({"command": ["x.py"], "launch.kind": "torchrun"}, "torchrun"),
        ({"command": ["python3", "x.py"]}, None),
    ],
)
def test_the_job_s_program_is_looked_at_unless_it_is_python(
    keys: dict[str, object], program: str | None
) -> None:
    """It may be linked with NCCL itself, as nccl-tests are, or be a script of some Python."""
    assert place(spec(**keys)).program == program


PYXIS = "slurm.srun_extra"
EXEC = ("apptainer", "exec", "--nv")


@pytest.mark.parametrize(
    ("keys", "container", "absent"),
    [
        ({PYXIS: {"container-image": "img.sqsh"}}, "/job/img.sqsh", None),
        ({PYXIS: {"container-image": "nvcr.io#x:1"}}, None, "nvcr.io#x:1"),
        ({PYXIS: {"container-name": "mine"}}, None, "mine"),
        ({"command": [*EXEC, "/img.sif", "python", "x.py"]}, "/img.sif", None),
        ({"command": [*EXEC, "docker://x", "python", "x.py"]}, None, "docker://x"),
        ({"command": ["podman", "run", "x", "python"]}, None, "of podman"),
        ({}, None, None),
    ],
)
def test_a_container_is_one_that_can_be_read_or_is_absent(
    keys: dict[str, object], container: str | None, absent: str | None
) -> None:
    """Of pyxis and of the runtimes that stand in front of a command."""
    job = spec(**keys)
    assert (place(job).container, absent_container(job)) == (container, absent)


def test_the_program_in_a_container_stands_behind_its_image() -> None:
    """It is looked up there, not the runtime."""
    assert place(spec(command=[*EXEC, "x.sif", "./all_reduce_perf"])).program == "./all_reduce_perf"
    assert place(spec(command=[*EXEC, "x.sif", "/opt/bin/python3"])).python == "/opt/bin/python3"
