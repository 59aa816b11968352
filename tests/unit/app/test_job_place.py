"""Where a job looks for its libraries, by its file and the shell of who asks."""

from __future__ import annotations

import pytest

from hpckit.app.job_place import Person, job_place
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
