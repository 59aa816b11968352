"""Which GPUs a rank has to itself."""

from __future__ import annotations

import pytest

from hpckit.core.identity import Identity
from hpckit.injob.counter import claim, may_have_gpus, visible_devices

EIGHT = [f"GPU-{index}a000000-0000-0000-0000-000000000000" for index in range(8)]
ALL = list(range(8))
CUDA = "CUDA_VISIBLE_DEVICES"
JOB = {"SLURM_JOB_ID": "7"}


def claimed(
    env: dict[str, str], local: int | None, of: int | None, gpus: int = 8
) -> tuple[str, list[int]]:
    """The word and the GPUs of a rank that is the `local`-th `of` its node."""
    identity = Identity(0, 8, local, of, 0)
    return claim(EIGHT[:gpus], lambda _: None, env, identity)


@pytest.mark.parametrize(
    ("env", "local", "of", "gpus"),
    [
        ({}, 0, 8, [0]),
        ({}, 7, 8, [7]),
        ({}, 1, 4, [2, 3]),
        ({}, 0, 1, ALL),
        ({CUDA: "5,4,7,6"}, 1, 2, [7, 6]),
    ],
)
def test_ranks_that_see_all_share_by_local_rank(
    env: dict[str, str], local: int, of: int, gpus: list[int]
) -> None:
    """Each of k ranks has an equal run of the visible GPUs, in their order."""
    assert claimed(env, local, of) == ("local-rank", gpus)


@pytest.mark.parametrize(
    "visible", ["3", EIGHT[3], EIGHT[3][:8], EIGHT[3].lower(), f"MIG-{EIGHT[3]}/1/0", "3,3", "3,99"]
)
def test_a_rank_that_sees_one_has_that_one(visible: str) -> None:
    """By number, UUID, a beginning of it, or an old name of a slice, up to what names none."""
    assert claimed({CUDA: visible}, 1, 8) == ("visible", [3])
    assert claimed({}, 0, 1, gpus=1) == ("visible", [0])


def test_what_slurm_gave_the_rank_alone_is_its_own() -> None:
    """A rank that sees fewer GPUs than its step has on the node was bound to these."""
    env = {CUDA: "2,3", "SLURM_STEP_GPUS": "0,1,2,3"}
    assert claimed(env, 1, 2) == ("visible", [2, 3])


@pytest.mark.parametrize(("local", "of"), [(0, 3), (0, 16), (None, 8), (0, None), (9, 8), (0, 0)])
def test_what_cannot_be_told_apart_is_all_of_them(local: int | None, of: int | None) -> None:
    """Where shares are not equal, or a place is not known, nothing is guessed."""
    assert claimed({}, local, of) == ("all", ALL)


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles", "99", "GPU-", "MIG-4711"])
def test_a_rank_that_sees_none_has_none(visible: str) -> None:
    """An empty list, or one whose first word names no GPU, as CUDA reads it."""
    assert claimed({CUDA: visible}, 0, 8) == claimed({}, 0, 1, gpus=0) == ("none", [])


def test_amds_variable_is_read_where_cudas_is_not_set() -> None:
    """ROCR_VISIBLE_DEVICES narrows down, unless CUDA_VISIBLE_DEVICES does."""
    rocr = {"ROCR_VISIBLE_DEVICES": "1"}
    assert [visible_devices(env) for env in (rocr, {**rocr, CUDA: ""}, {})] == ["1", "", None]


@pytest.mark.parametrize(
    ("env", "may"),
    [
        ({}, True),
        (JOB, False),
        ({**JOB, "SLURM_JOB_GPUS": ""}, False),
        ({**JOB, "SLURM_JOB_GPUS": "0"}, True),
        ({**JOB, "SLURM_STEP_GPUS": "3"}, True),
        ({**JOB, "SLURM_GPUS_ON_NODE": "4"}, True),
        ({**JOB, "SLURM_GPUS_PER_TASK": "h100:1"}, True),
        ({**JOB, CUDA: "0"}, True),
        ({**JOB, "ROCR_VISIBLE_DEVICES": "0"}, True),
    ],
)
def test_a_slurm_job_that_was_given_no_gpu_has_none(env: dict[str, str], may: bool) -> None:
    """What it may open is other jobs' then; outside Slurm all may be the rank's."""
    assert may_have_gpus(env) is may
