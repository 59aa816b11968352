"""Which GPUs are a job's."""

from __future__ import annotations

import pytest

from hpckit.sampler.gpus import ShownGpu, sampled_gpus

ALL = [ShownGpu(index, f"GPU-{index}{index}-x", index, opens=True) for index in range(8)]
CONSTRAINED = [gpu._replace(opens=gpu.place in {4, 5}) for gpu in ALL]
LOST = [gpu._replace(uuid="", minor=None) if gpu.place == 2 else gpu for gpu in ALL]
JOB = {"SLURM_JOB_ID": "7"}


def no_mig(_: str) -> str | None:
    """A driver without MIG devices."""
    return None


@pytest.mark.parametrize(
    ("visible", "indices"),
    [
        ("4,5", (4, 5)),
        ("5,4", (5, 4)),
        ("GPU-66-x,GPU-1", (6, 1)),
        ("0,8,1", (0,)),
        ("NoDevFiles", ()),
        ("", ()),
        ("-1", ()),
        ("GPU-", ()),
    ],
)
def test_visible_gpus_are_the_jobs(visible: str, indices: tuple[int, ...]) -> None:
    """Numbers and uuids up to the first that is none are the job's GPUs, as CUDA takes them."""
    env = {**JOB, "CUDA_VISIBLE_DEVICES": visible}
    assert sampled_gpus(env, ALL, no_mig).indices == indices


def test_numbers_count_what_the_job_may_open() -> None:
    """With ConstrainDevices Slurm counts a job's GPUs from 0, whatever the driver shows."""
    env = {**JOB, "CUDA_VISIBLE_DEVICES": "0,1"}
    assert sampled_gpus(env, CONSTRAINED, no_mig).indices == (4, 5)


def test_gpu_of_another_job_is_never_taken() -> None:
    """A uuid of a GPU that this process may not open names nothing."""
    env = {**JOB, "CUDA_VISIBLE_DEVICES": "GPU-00-x"}
    assert sampled_gpus(env, CONSTRAINED, no_mig).indices == ()


def test_mig_device_stands_for_its_gpu() -> None:
    """A MIG device's GPU is sampled, once for all its parts."""
    env = {**JOB, "CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b"}
    parents = {"MIG-a": "GPU-22-x", "MIG-b": "GPU-22-x"}
    assert sampled_gpus(env, ALL, parents.get).indices == (2,)


def test_slurms_numbers_are_those_of_device_files() -> None:
    """Without CUDA_VISIBLE_DEVICES the step's list is taken before the job's, by minor numbers."""
    env = {**JOB, "SLURM_STEP_GPUS": "4-5", "SLURM_JOB_GPUS": "0,1,4,5"}
    assert sampled_gpus(env, ALL, no_mig).indices == (4, 5)


def test_job_without_gpus_has_none() -> None:
    """A step that was given no GPU samples none, and says what it looked for."""
    chosen = sampled_gpus(JOB, ALL, no_mig)
    assert chosen.indices == ()
    assert "SLURM_STEP_GPUS" in chosen.because


def test_outside_a_job_all_are_sampled() -> None:
    """By hand CUDA_VISIBLE_DEVICES is not asked."""
    assert sampled_gpus({"CUDA_VISIBLE_DEVICES": "1"}, ALL, no_mig).indices == tuple(range(8))


def test_rocm_has_a_variable_of_its_own() -> None:
    """AMD's GPUs are those of ROCR_VISIBLE_DEVICES."""
    env = {**JOB, "CUDA_VISIBLE_DEVICES": "1", "ROCR_VISIBLE_DEVICES": "3"}
    assert sampled_gpus(env, ALL, no_mig, "ROCR_VISIBLE_DEVICES").indices == (3,)


def test_device_files_that_all_refuse_tell_nothing() -> None:
    """A driver opens what it shows: where no device file opens, the numbers are the driver's."""
    env = {**JOB, "CUDA_VISIBLE_DEVICES": "2,3"}
    closed = [gpu._replace(opens=False) for gpu in ALL]
    assert sampled_gpus(env, closed, no_mig).indices == (2, 3)


def test_a_lost_gpu_is_counted() -> None:
    """CUDA's numbers count a GPU that the driver has lost, and the job may have it."""
    env = {**JOB, "CUDA_VISIBLE_DEVICES": "2,3"}
    assert sampled_gpus(env, LOST, no_mig).indices == (2, 3)


@pytest.mark.parametrize(("numbers", "indices"), [("2,3", (2, 3)), ("3,4", (3, 4)), ("2", (2,))])
def test_a_lost_gpu_has_the_number_that_no_other_has(
    numbers: str, indices: tuple[int, ...]
) -> None:
    """It does not tell its minor number; of Slurm's the one that is left is its."""
    assert sampled_gpus({**JOB, "SLURM_STEP_GPUS": numbers}, LOST, no_mig).indices == indices


def test_which_of_two_lost_gpus_is_the_jobs_is_not_guessed() -> None:
    """One number is left, and two GPUs might have it."""
    lost = [gpu._replace(uuid="", minor=None) if gpu.place in {2, 5} else gpu for gpu in ALL]
    env = {**JOB, "SLURM_STEP_GPUS": "2,3"}
    assert sampled_gpus(env, lost, no_mig).indices == (3,)
