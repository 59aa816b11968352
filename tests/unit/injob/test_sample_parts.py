"""What a sampler is made of: whether the node is the job's alone."""

from __future__ import annotations

import pytest

from hpckit.sampler.parts import has_node_alone

THREADS = 128


def alone(cpus: int | None, *allowed: int, smt: bool = True) -> bool | None:
    """Whether a job with so many CPUs has a node of 128 threads alone."""
    found, why_not = has_node_alone(cpus, THREADS, allowed, has_smt=smt)
    assert (why_not is None) is (found is True)
    return found


@pytest.mark.parametrize("allowed", [(), (2, THREADS)])
def test_all_threads_are_the_node(allowed: tuple[int, ...]) -> None:
    """Whoever has as many CPUs as there are has the node."""
    assert alone(THREADS, *allowed) is True


@pytest.mark.parametrize("allowed", [(2, 64), (2, 2, 64, THREADS, THREADS)])
def test_half_of_the_threads_is_half_of_the_node(allowed: tuple[int, ...]) -> None:
    """Where Slurm counts threads the job's group has as many, whatever its user's group has."""
    assert alone(64, *allowed) is False


@pytest.mark.parametrize("allowed", [(2, THREADS), (2, 2, THREADS, THREADS), (THREADS,)])
def test_all_cores_are_the_node(allowed: tuple[int, ...]) -> None:
    """Where Slurm counts cores the job's group has both threads of each."""
    assert alone(64, *allowed) is True


@pytest.mark.parametrize("allowed", [(), (2,), (2, 100), (64,), (64, THREADS)])
def test_half_of_the_threads_without_the_jobs_group_is_not_known(allowed: tuple[int, ...]) -> None:
    """Where no group names CPUs, or the step's may be the job's, nobody can tell."""
    assert alone(64, *allowed) is None


@pytest.mark.parametrize(("cpus", "smt"), [(63, True), (64, False), (1, True)])
def test_a_part_of_the_node(cpus: int, *, smt: bool) -> None:
    """Any other number is a part, whatever a group says."""
    assert alone(cpus, 2, THREADS, smt=smt) is False


def test_unknown_cpus() -> None:
    """A job whose CPUs are not said may have any of them."""
    assert alone(None, 2, THREADS) is None
