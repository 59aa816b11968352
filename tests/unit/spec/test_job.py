"""What a whole job promises, beyond its single values."""

from __future__ import annotations

import dataclasses

import pytest

from hpckit.core.fields import InvalidValue, check_fields, file_key
from hpckit.slurm.values import JobState
from hpckit.spec.job import JOB_SCHEMA, JobSpec, LaunchRequest, MeshAxis
from hpckit.spec.job import ResourceRequest as Resources
from hpckit.spec.site import generic_site


def spec(**values: object) -> JobSpec:
    """A job with some values."""
    given = {"schema": JOB_SCHEMA, "name": "x", "command": ("x",), **values}
    return JobSpec(**given)  # type: ignore[arg-type]


def test_mesh_ranks() -> None:
    """A mesh is the product of its axes without `expert`; no mesh is not one rank."""
    mesh = {MeshAxis.TENSOR: 2, MeshAxis.DATA: 3, MeshAxis.EXPERT: 5}
    assert spec(parallel=mesh).mesh_ranks == 6
    assert spec(parallel={MeshAxis.EXPERT: 5}).mesh_ranks is None
    assert spec().mesh_ranks is None


def test_ranks() -> None:
    """Ranks are nodes times ranks a node, by default one a GPU where a launcher starts them."""
    resources = Resources(nodes=2, gpus_per_node=4)
    assert spec(resources=resources).ntasks == 2
    assert spec(resources=resources, launch=LaunchRequest(kind="mpi")).ntasks == 8


def test_a_value_is_frozen() -> None:
    """A job does not change once it is made."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec().name = "y"  # type: ignore[misc]


def test_a_field_without_a_rule_is_free() -> None:
    """Only a field with a rule is checked, and None is always allowed."""

    @dataclasses.dataclass
    class Plain:
        x: int = 1

    check_fields(Plain())
    assert Resources(mem=None).mem is None


def test_an_invalid_value_says_all() -> None:
    """The error of a value carries the key, what was got and what was expected."""
    with pytest.raises(InvalidValue) as caught:
        Resources(nodes=0)
    assert (caught.value.key, caught.value.got) == ("nodes", 0)
    assert str(caught.value) == "got 0, expected 1 or more"


def test_pass_is_written_without_its_underscore() -> None:
    """The key of a field named like a keyword of Python has no underscore in the file."""
    fields = dataclasses.fields(spec().environment)
    assert "pass" in {file_key(field) for field in fields}


def test_the_generic_site_has_no_defaults() -> None:
    """Without a site nothing is assumed."""
    assert dict(generic_site().job) == {}


def test_which_states_are_final() -> None:
    """A job that waits, runs or is not understood may still change; one that has ended may not."""
    final = {
        "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
        "BOOT_FAIL", "DEADLINE", "LAUNCH_FAILED", "RECONFIG_FAIL", "NOT_SUBMITTED",
    }  # fmt: skip
    assert {state for state in JobState if state.is_final} == final


def test_which_states_are_waiting() -> None:
    """A job waits before its first start and, requeued or held, before the next."""
    waiting = {
        "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT",
    }  # fmt: skip
    assert {state for state in JobState if state.is_waiting} == waiting
