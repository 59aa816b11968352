"""Which GPUs a rank has to itself."""

from __future__ import annotations

import pytest

from hpckit.core.identity import Identity
from hpckit.injob.counter import claim, may_have_gpus, visible_devices

EIGHT = [f"GPU-{index}a000000-0000-0000-0000-000000000000" for index in range(8)]


def place(local_rank: int | None, local_world_size: int | None) -> Identity:
    """A rank at that place of its node."""
    return Identity(0, 8, local_rank, local_world_size, 0)


def claimed(
    env: dict[str, str], at: Identity, uuids: list[str] | None = None
) -> tuple[str, list[int]]:
    """The word and the GPUs of a claim."""
    found = claim(EIGHT if uuids is None else uuids, visible_devices(env), env, at)
    return found.why, found.places


@pytest.mark.parametrize(
    ("local", "of", "gpus"),
    [(0, 8, [0]), (7, 8, [7]), (1, 4, [2, 3]), (0, 1, [0, 1, 2, 3, 4, 5, 6, 7])],
)
def test_ranks_that_see_all_share_by_local_rank(local: int, of: int, gpus: list[int]) -> None:
    """Each of k ranks has an equal run of the GPUs, in their order."""
    assert claimed({}, place(local, of)) == ("local-rank", gpus)


def test_the_shares_are_those_of_the_visible_ones() -> None:
    """What CUDA_VISIBLE_DEVICES leaves out is no rank's, and its order counts."""
    env = {"CUDA_VISIBLE_DEVICES": "5,4,7,6"}
    assert claimed(env, place(1, 2)) == ("local-rank", [7, 6])


@pytest.mark.parametrize(
    "visible", ["3", EIGHT[3], EIGHT[3][:8], EIGHT[3].lower(), f"MIG-{EIGHT[3]}/1/0", "3,3", "3,99"]
)
def test_a_rank_that_sees_one_has_that_one(visible: str) -> None:
    """By number, UUID, a beginning of it, or an old name of a slice, up to what names none."""
    assert claimed({"CUDA_VISIBLE_DEVICES": visible}, place(1, 8)) == ("visible", [3])


def test_one_gpu_in_the_node_is_that_of_its_one_rank() -> None:
    """Nothing has to narrow down a single GPU."""
    assert claimed({}, place(0, 1), EIGHT[:1]) == ("visible", [0])


def test_what_slurm_gave_the_rank_alone_is_its_own() -> None:
    """A rank that sees fewer GPUs than its step has on the node was bound to these."""
    env = {"CUDA_VISIBLE_DEVICES": "2,3", "SLURM_STEP_GPUS": "0,1,2,3"}
    assert claimed(env, place(1, 2)) == ("visible", [2, 3])


@pytest.mark.parametrize(("local", "of"), [(0, 3), (0, 16), (None, 8), (0, None), (9, 8), (0, 0)])
def test_what_cannot_be_told_apart_is_all_of_them(local: int | None, of: int | None) -> None:
    """Where shares are not equal, or a place is not known, nothing is guessed."""
    assert claimed({}, place(local, of)) == ("all", [0, 1, 2, 3, 4, 5, 6, 7])


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles", "99", "GPU-", "MIG-4711"])
def test_a_rank_that_sees_none_has_none(visible: str) -> None:
    """An empty list, or one whose first word names no GPU, as CUDA reads it."""
    assert claimed({"CUDA_VISIBLE_DEVICES": visible}, place(0, 8)) == ("none", [])


def test_a_machine_without_gpus_has_none() -> None:
    """Without GPUs there is nothing to claim."""
    assert claimed({}, place(0, 1), []) == ("none", [])


def test_amds_variable_is_read_where_cudas_is_not_set() -> None:
    """ROCR_VISIBLE_DEVICES narrows down, unless CUDA_VISIBLE_DEVICES does."""
    rocr = {"ROCR_VISIBLE_DEVICES": "1"}
    assert visible_devices(rocr) == "1"
    assert visible_devices({**rocr, "CUDA_VISIBLE_DEVICES": ""}) == ""
    assert visible_devices({}) is None


@pytest.mark.parametrize(
    ("env", "may"),
    [
        ({}, True),
        ({"SLURM_JOB_ID": "7"}, False),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": ""}, False),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0"}, True),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_GPUS": "3"}, True),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "4"}, True),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_PER_TASK": "h100:1"}, True),
        ({"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "0"}, True),
        ({"SLURM_JOB_ID": "7", "ROCR_VISIBLE_DEVICES": "0"}, True),
    ],
)
def test_a_slurm_job_that_was_given_no_gpu_has_none(env: dict[str, str], may: bool) -> None:
    """What it may open is other jobs' then; outside Slurm all may be the rank's."""
    assert may_have_gpus(env) is may
