"""What a job sees of the submitting shell."""

from __future__ import annotations

import pytest

from hpckit.decide.shell_environment import submission_environment
from hpckit.model.job import EnvInherit

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


def test_a_name_is_not_a_beginning() -> None:
    """A name without a star passes that one variable, in its own letters."""
    split = submission_environment(SHELL, EnvInherit.ALL, ("NCCL", "nccl_debug"))
    assert "NCCL_DEBUG" not in split.variables


def test_values_are_never_held() -> None:
    """What is held back is named; its values are kept nowhere."""
    split = submission_environment({"NCCL_SECRET": "value"}, EnvInherit.ALL, ())
    assert split.held_back == ("NCCL_SECRET",)
    assert "value" not in repr(split)
