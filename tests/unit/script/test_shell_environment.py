"""What a job sees of the submitting shell."""

from __future__ import annotations

import pytest

from hpckit.script.environment import SBATCH_DEFAULTS, SubmissionEnvironment, submission_environment
from hpckit.spec.job import EnvInherit

SHELL = {
    "HOME": "/h",
    "PATH": "/bin",
    "LC_ALL": "C",
    "EDITOR": "vi",
    "WANDB_API_KEY": "secret",
    "SLURM_CONF": "/etc/slurm.conf",
    "SLURM_JOB_ID": "1",
    "SLURM_CPU_BIND": "x",
    "SBATCH_PARTITION": "p",
    "NCCL_DEBUG": "WARN",
    "NCCL_IB_HCA": "mlx5",
    "UCX_TLS": "rc",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "3",
    "RANK": "0",
    "MASTER_ADDR": "x",
    "HPCKIT_INJOB": "old",
}
GUARDED = {
    "SLURM_JOB_ID", "SLURM_CPU_BIND", "SBATCH_PARTITION", "NCCL_DEBUG", "NCCL_IB_HCA", "UCX_TLS",
    "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "RANK", "MASTER_ADDR", "HPCKIT_INJOB",
}  # fmt: skip


def test_all_but_what_a_launch_must_set() -> None:
    """Under `all` the shell's variables go along, less the scheduler's and the launch's."""
    split = submission_environment(SHELL, EnvInherit.ALL, ())
    assert set(split.variables) == set(SHELL) - GUARDED
    assert split.held_back == tuple(sorted(GUARDED - {"HPCKIT_INJOB"}))
    assert split.variables["SLURM_CONF"] == "/etc/slurm.conf"


def test_none_but_the_basics() -> None:
    """Under `none` only HOME, PATH and their like go along, and SLURM_CONF."""
    split = submission_environment(SHELL, EnvInherit.NONE, ())
    assert set(split.variables) == {"HOME", "PATH", "LC_ALL", "SLURM_CONF"}
    assert split.held_back == tuple(sorted(GUARDED - {"HPCKIT_INJOB"}))


@pytest.mark.parametrize("inherit", list(EnvInherit))
def test_passed_by_name(inherit: EnvInherit) -> None:
    """A name, or a beginning with a star, lets a variable through."""
    split = submission_environment(SHELL, inherit, ("NCCL_*", "RANK", "WANDB_API_KEY"))
    for name in ("NCCL_DEBUG", "NCCL_IB_HCA", "RANK", "WANDB_API_KEY"):
        assert split.variables[name] == SHELL[name]
        assert name not in split.held_back
    assert "UCX_TLS" not in split.variables


@pytest.mark.parametrize("inherit", list(EnvInherit))
def test_exported_functions(inherit: EnvInherit) -> None:
    """Those of Lmod, Spack and conda go along; any other would take a command's place, unseen."""
    tools = ("module", "ml", "spack", "conda", "__conda_activate")
    others = ("exit", "srun", "cd", "which")
    shell = {f"BASH_FUNC_{name}%%": "() { :; }" for name in (*tools, *others)}
    split = submission_environment(shell, inherit, ())
    assert set(split.variables) == {f"BASH_FUNC_{name}%%" for name in tools}
    assert split.held_back == ("BASH_FUNC_cd%%", "BASH_FUNC_exit%%", "BASH_FUNC_srun%%")
    passed = submission_environment(shell, inherit, ("BASH_FUNC_srun%%",))
    assert "BASH_FUNC_srun%%" in passed.variables


def test_a_name_is_not_a_beginning() -> None:
    """A name without a star passes that one variable, in its own letters."""
    split = submission_environment(SHELL, EnvInherit.ALL, ("NCCL", "nccl_debug"))
    assert "NCCL_DEBUG" not in split.variables


SITES = {
    "HOME": "/h",
    "SBATCH_ACCOUNT": "physics",
    "SBATCH_PARTITION": "gpu",
    "SBATCH_EXPORT": "NONE",
    "SLURM_CLUSTERS": "east",
}


def for_sbatch(
    environment: dict[str, str], *stated: str, passed: tuple[str, ...] = ()
) -> SubmissionEnvironment:
    """The split for a script that states these options."""
    return submission_environment(environment, EnvInherit.ALL, passed, stated=stated)


def test_a_sites_defaults_reach_sbatch() -> None:
    """Defaults for options that the script leaves open are kept and named, other inputs are not."""
    split = for_sbatch(SITES)
    held_back = ("SBATCH_EXPORT", "SLURM_CLUSTERS")
    assert split.sbatch_defaults == ("SBATCH_ACCOUNT", "SBATCH_PARTITION")
    assert split.variables == {name: SITES[name] for name in SITES if name not in held_back}
    assert split.held_back == held_back


@pytest.mark.parametrize(("name", "option"), SBATCH_DEFAULTS.items())
def test_the_scripts_word_wins_over_a_default(name: str, option: str) -> None:
    """A default for an option that stands in the script would override it, and is held back."""
    split = for_sbatch({name: "x"}, option)
    assert split == SubmissionEnvironment(variables={}, held_back=(name,))
    assert for_sbatch({name: "x"}, "nodes").sbatch_defaults == (name,)


def test_a_default_within_a_job_is_that_jobs() -> None:
    """Inside a job sbatch's variables are not the site's, and none is kept."""
    split = for_sbatch({**SITES, "SLURM_JOB_ID": "7"})
    assert split.sbatch_defaults == ()
    assert split.variables == {"HOME": "/h"}


def test_a_passed_name_wins_over_the_script() -> None:
    """What is passed by name is kept whatever the script states, and within a job."""
    split = for_sbatch(
        {**SITES, "SLURM_JOB_ID": "7"}, "account", passed=("SBATCH_ACCOUNT", "SBATCH_EXPORT")
    )
    assert split.sbatch_defaults == ()
    assert split.variables == {"HOME": "/h", "SBATCH_ACCOUNT": "physics", "SBATCH_EXPORT": "NONE"}
    assert split.held_back == ("SBATCH_PARTITION", "SLURM_CLUSTERS", "SLURM_JOB_ID")
