"""Where a job looks for its libraries, by its file and the shell of who asks."""

from __future__ import annotations

import pytest

from hpckit.comm.library_search import NcclWhere, Person, container_of, job_place, unseen
from hpckit.spec.job import JobSpec
from hpckit.spec.merge import effective_job, option_layer


def spec(**values: object) -> JobSpec:
    """A job with these keys."""
    given = {"name": "x", "command": ["python", "x.py"], **values}
    return effective_job([option_layer({key: (value, "x") for key, value in given.items()})]).spec


def place(job: JobSpec, **environment: str) -> NcclWhere:
    """Where it looks when it runs in /job."""
    return job_place(job, Person(environment=environment, home="/home/me"), "/job")


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


def test_what_the_job_sets_is_told_by_its_key_and_the_last_one_counts() -> None:
    """In the order of its script: [environment] set, the setup lines, [tune] env."""
    set_twice = {"NCCL_DEBUG": "INFO", "NCCL_PROTO": "LL"}
    setup = ["export NCCL_PROTO=Simple NCCL_ALGO=Ring"]
    keys = {"environment.set": set_twice, "environment.setup": setup}
    where = place(spec(**keys, **{"tune.env": {"NCCL_ALGO": "Tree"}}), NCCL_ALGO="shell", HOME="/h")
    assert where.environment == {
        "NCCL_DEBUG": "INFO",
        "NCCL_PROTO": "Simple",
        "NCCL_ALGO": "Tree",
        "HOME": "/h",
    }
    assert where.set_by == {
        "NCCL_DEBUG": "[environment] set of the job",
        "NCCL_PROTO": "[environment] setup of the job",
        "NCCL_ALGO": "[tune] env of the job",
    }


def test_what_is_held_back_and_what_a_shell_computes_is_said() -> None:
    """Neither is among the settings, and a person may think that it is."""
    shell = {"NCCL_DEBUG": "INFO", "NCCL_CONF_FILE": "/x", "NCCL_ALGO": "Ring"}
    job = spec(**{
        "environment.pass": ["NCCL_ALGO"],
        "environment.setup": ["export NCCL_SOCKET_IFNAME=$(cat /x)"],
    })  # fmt: skip
    assert unseen(job, Person(environment=shell, home="/h"))[:2] == (
        "set in this shell, but not passed to the job (--pass NAME does):"
        " NCCL_CONF_FILE, NCCL_DEBUG",
        "computed by the job's setup lines, so unknown here: NCCL_SOCKET_IFNAME",
    )
    assert "NCCL_SOCKET_IFNAME" not in place(job, NCCL_SOCKET_IFNAME="eth0").environment


@pytest.mark.parametrize(
    ("line", "listed"),
    [
        ("export LD_LIBRARY_PATH=/opt/nccl/lib", "/opt/nccl/lib"),
        ("export LD_LIBRARY_PATH=/opt/nccl/lib:$LD_LIBRARY_PATH", "/of/the/shell"),
    ],
)
def test_a_library_path_of_setup_counts_as_far_as_it_is_plain(line: str, listed: str) -> None:
    """What a shell adds to is kept as it was, and the rest is said not to be known."""
    job = spec(**{"environment.setup": [line]})
    where = place(job, LD_LIBRARY_PATH="/of/the/shell")
    assert where.environment["LD_LIBRARY_PATH"] == listed
    computed = "computed by the job's setup lines, so unknown here: LD_LIBRARY_PATH"
    assert (computed in unseen(job, Person(environment={}, home="/h"))) == ("$" in line)


PYXIS = "slurm.srun_extra"


@pytest.mark.parametrize(
    ("keys", "container"),
    [
        ({PYXIS: {"container-image": "img.sqsh"}}, "img.sqsh"),
        ({PYXIS: {"container-image": "nvcr.io#x:1"}}, "nvcr.io#x:1"),
        ({PYXIS: {"container-name": "mine"}}, "mine"),
        ({"command": ["apptainer", "exec", "--nv", "/img.sif", "python"]}, "of apptainer"),
        ({"command": ["podman", "run", "x", "python"]}, "of podman"),
        ({}, None),
    ],
)
def test_a_job_s_container_is_known(keys: dict[str, object], container: str | None) -> None:
    """Of pyxis and of the runtimes that stand in front of a command."""
    assert container_of(spec(**keys)) == container


def test_a_script_whose_name_begins_as_an_interpreter_s_is_none() -> None:
    """python_bench.sh is a program of its own."""
    assert place(spec(command=["./python_bench.sh"])).python is None
