"""The ports of a job, whatever the job and the kernel's range."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from hpckit.injob.port import job_number, port_candidates

JOB_IDS = st.integers(0, 2**32)
TASKS = st.none() | st.integers(0, 4_000_000)
RANGES = st.tuples(st.integers(1, 65535), st.integers(1, 65535)).map(
    lambda ends: (min(ends), max(ends))
)
ENOUGH_PORTS = 1024


def has_room(ephemeral: tuple[int, int]) -> bool:
    """Say whether one side of the range leaves 1024 unprivileged ports."""
    low, high = ephemeral
    return min(65535 - high, 65535 - 1023) >= ENOUGH_PORTS or low - 1024 >= ENOUGH_PORTS


@given(JOB_IDS, TASKS, RANGES)
def test_three_distinct_ports_outside_the_range(
    job_id: int, array_task: int | None, ephemeral: tuple[int, int]
) -> None:
    """Candidates are three unprivileged ports that the kernel does not hand out itself."""
    found = port_candidates(job_id, array_task=array_task, ephemeral=ephemeral)
    assert len(set(found)) == 3
    assert all(1024 <= number <= 65535 for number in found)
    if has_room(ephemeral):
        assert not any(ephemeral[0] <= number <= ephemeral[1] for number in found)


@given(JOB_IDS, TASKS, RANGES)
def test_every_host_finds_the_same_ports(
    job_id: int, array_task: int | None, ephemeral: tuple[int, int]
) -> None:
    """The same job gives the same candidates each time."""
    first = port_candidates(job_id, array_task=array_task, ephemeral=ephemeral)
    assert port_candidates(job_id, array_task=array_task, ephemeral=ephemeral) == first


@example(0, 0, (1024, 64511))  # the smallest pool, where a stride may be a whole round
@given(JOB_IDS, st.integers(0, 4_000_000), RANGES)
def test_neighbours_do_not_share_a_first_choice(
    job_id: int, task: int, ephemeral: tuple[int, int]
) -> None:
    """The next job and the next array task each have another first choice."""

    def first(job_id: int, task: int | None) -> int:
        return port_candidates(job_id, array_task=task, ephemeral=ephemeral)[0]

    assert first(job_id, None) != first(job_id + 1, None)
    assert first(job_id, None) != first(job_id, 0)
    neighbours = {
        first(job_id, task),
        first(job_id + 1, task),
        first(job_id, task + 1),
    }
    assert len(neighbours) == 3


@given(st.text())
def test_any_text_is_a_job_number(text: str) -> None:
    """Whatever a job is called, it has a number that is not negative."""
    assert job_number(text) >= 0


@given(st.integers(0, 10**18 - 1))
def test_a_decimal_text_is_its_own_number(number: int) -> None:
    """Slurm's job ids stand as they are."""
    assert job_number(str(number)) == number
