"""Which GPUs are a job's."""

from __future__ import annotations

from collections.abc import Container

import pytest

from hpckit.sampler.gpus import ShownGpu, sampled_gpus


def eight(opens: Container[int] = range(8), lost: Container[int] = ()) -> list[ShownGpu]:
    """Eight GPUs, of which some open and some are lost to the driver."""
    return [
        ShownGpu(at, "", None, opens=True)
        if at in lost
        else ShownGpu(at, f"GPU-{at}{at}-x", at, opens=at in opens)
        for at in range(8)
    ]


ALL, CONSTRAINED, CLOSED = eight(), eight(opens={4, 5}), eight(opens=())
LOST, TWO_LOST = eight(lost={2}), eight(lost={2, 5})
PARENTS = {"MIG-a": "GPU-22-x", "MIG-b": "GPU-22-x"}
CUDA, STEP = "CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS"


@pytest.mark.parametrize(
    ("variable", "words", "shown", "indices"),
    [
        # Numbers and uuids up to the first that is none, as CUDA takes them.
        (CUDA, "4,5", ALL, (4, 5)),
        (CUDA, "5,4", ALL, (5, 4)),
        (CUDA, "GPU-66-x,GPU-1", ALL, (6, 1)),
        (CUDA, "0,8,1", ALL, (0,)),
        (CUDA, "NoDevFiles", ALL, ()),
        (CUDA, "", ALL, ()),
        (CUDA, "-1", ALL, ()),
        (CUDA, "GPU-", ALL, ()),
        # A MIG device's GPU is sampled, once for all its parts.
        (CUDA, "MIG-a,MIG-b", ALL, (2,)),
        # With ConstrainDevices Slurm counts a job's GPUs from 0, whatever the driver shows; a GPU
        # that may not be opened has no name.
        (CUDA, "0,1", CONSTRAINED, (4, 5)),
        (CUDA, "GPU-00-x", CONSTRAINED, ()),
        # Where no device file opens that tells nothing.
        (CUDA, "2,3", CLOSED, (2, 3)),
        # CUDA's numbers count a GPU that the driver has lost; of Slurm's, which are those of device
        # files, the one that is left is its, unless two might have it.
        (CUDA, "2,3", LOST, (2, 3)),
        (STEP, "4-5", ALL, (4, 5)),
        (STEP, "2,3", LOST, (2, 3)),
        (STEP, "3,4", LOST, (3, 4)),
        (STEP, "2", LOST, (2,)),
        (STEP, "2,3", TWO_LOST, (3,)),
    ],
)
def test_gpus_of_a_step(
    variable: str, words: str, shown: list[ShownGpu], indices: tuple[int, ...]
) -> None:
    """The variable of CUDA counts before the step's list, and that before the job's."""
    env = {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1,4,5", variable: words}
    chosen, because = sampled_gpus(env, shown, PARENTS.get)
    assert chosen == [*indices]
    assert f"{variable}={words}" in because


def test_job_without_gpus_has_none() -> None:
    """A step that was given no GPU samples none, and says what it looked for."""
    chosen, because = sampled_gpus({"SLURM_JOB_ID": "7"}, ALL, PARENTS.get)
    assert chosen == []
    assert STEP in because


def test_outside_a_job_all_are_sampled() -> None:
    """By hand CUDA_VISIBLE_DEVICES is not asked."""
    assert sampled_gpus({CUDA: "1"}, ALL, PARENTS.get)[0] == [*range(8)]


def test_rocm_has_a_variable_of_its_own() -> None:
    """AMD's GPUs are those of ROCR_VISIBLE_DEVICES."""
    env = {"SLURM_JOB_ID": "7", CUDA: "1", "ROCR_VISIBLE_DEVICES": "3"}
    assert sampled_gpus(env, ALL, PARENTS.get, "ROCR_VISIBLE_DEVICES")[0] == [3]
