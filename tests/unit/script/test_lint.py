"""Options against the facts about Slurm's releases, and those that hpckit writes itself."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ConfigError
from hpckit.core.findings import Level
from hpckit.script.directives import extra_options
from hpckit.script.plan import Option
from hpckit.script.releases import (
    Program,
    is_said,
    lint,
)
from hpckit.slurm.values import SlurmVersion, TopologyKind
from hpckit.spec.slurm_options import OWNED_BY_SBATCH, OWNED_BY_SRUN
from tests.fakes.prepared import prepared

OLD, MIDDLE, NEW = (SlurmVersion.of(text) for text in ("22.05.8", "24.11.5", "26.05.5"))


def option(text: str) -> Option:
    """`name=value` or a bare name."""
    name, equals, value = text.partition("=")
    return Option(name=name, value=value if equals else None)


def subjects(
    *texts: str,
    version: SlurmVersion | None,
    program: Program = Program.SBATCH,
    topology: TopologyKind | None = None,
) -> dict[str, Level]:
    """What is found about these options, and how much it matters."""
    findings = lint([option(text) for text in texts], program, version, topology)
    return {finding.subject: finding.level for finding in findings}


@pytest.mark.parametrize("version", [NEW, None])
@pytest.mark.parametrize(
    "gres", ["gres=gpu", "gres=gpu:8", "gres=nvme:1,gpu:h100:8", "gres=gres/gpu=8"]
)
def test_gres_beside_gpus_per_node_is_an_error(version: SlurmVersion | None, gres: str) -> None:
    """26.05, or a release that nobody named, refuses --gres=gpu beside --gpus-per-node."""
    found = subjects(gres, "gpus-per-node=8", version=version)
    assert found == {"--gres=gpu --gpus-per-node": Level.ERROR}


@pytest.mark.parametrize("gres", ["gres=nvme:1", "gres=gpustore:1", "gres=none"])
def test_another_gres_is_no_gpu(gres: str) -> None:
    """--gres of something else goes beside --gpus-per-node."""
    assert subjects(gres, "gpus-per-node=8", version=NEW) == {}


@pytest.mark.parametrize(
    ("text", "program", "refusing", "taking"),
    [
        ("segment=2", Program.SBATCH, OLD, MIDDLE),
        ("exclusive=topo", Program.SBATCH, OLD, MIDDLE),
        ("tres-per-task=cpu:1", Program.SRUN, OLD, MIDDLE),
        ("gres-flags=allow-task-sharing", Program.SRUN, OLD, MIDDLE),
        ("wait-for-children", Program.SRUN, MIDDLE, NEW),
        ("spread-segments", Program.SBATCH, MIDDLE, NEW),
        ("exclusive=allocation", Program.SRUN, MIDDLE, NEW),
    ],
)
def test_an_option_comes_with_a_release(
    text: str, program: Program, refusing: SlurmVersion, taking: SlurmVersion
) -> None:
    """An option is an error for a release before it, and nothing for a later or unknown one."""
    assert list(subjects(text, program=program, version=refusing).values()) == [Level.ERROR]
    assert subjects(text, program=program, version=taking) == {}
    assert subjects(text, program=program, version=None) == {}


def test_what_slurm_ignores_is_a_note() -> None:
    """--cpu-bind=rank from 24.11 on, and --hint beside --cpu-bind, keep no job from running."""
    for texts in (("cpu-bind=rank",), ("hint=nomultithread", "cpu-bind=cores")):
        found = subjects(*texts, program=Program.SRUN, version=MIDDLE)
        assert list(found.values()) == [Level.NOTE]
    assert subjects("cpu-bind=rank", program=Program.SRUN, version=OLD) == {}


def test_the_topology_decides() -> None:
    """--segment is noted on a tree, --switches on blocks; where nobody knows, neither is."""
    for text, other in (("segment=2", TopologyKind.TREE), ("switches=1", TopologyKind.BLOCK)):
        assert list(subjects(text, version=NEW, topology=other).values()) == [Level.NOTE]
        assert subjects(text, version=NEW) == {}


def test_a_value_is_not_another_value() -> None:
    """A fact about one value of an option says nothing about the others."""
    assert is_said("exclusive", option("exclusive=topo"))
    assert is_said("distribution=arbitrary", option("distribution=arbitrary:block"))
    assert is_said("tres-per-task=cpu", option("tres-per-task=gres/gpu:1,cpu=4"))
    assert is_said("tres-per-task=gres/gpu", option("tres-per-task=gres/gpu=1,cpu=4"))
    assert not is_said("exclusive=topo", option("exclusive"))
    assert not is_said("exclusive=topo", option("exclusive=user"))
    assert not is_said("gres=gpu", option("gpus=gpu"))


@pytest.mark.parametrize("name", sorted(OWNED_BY_SBATCH))
def test_an_option_of_sbatch_that_has_a_key(name: str) -> None:
    """An option that a key says is refused under slurm.extra, and the key is named."""
    with pytest.raises(ConfigError) as caught:
        extra_options({name: "x"}, OWNED_BY_SBATCH, "slurm.extra")
    assert caught.value.key == f"slurm.extra.{name}"
    assert OWNED_BY_SBATCH[name].removeprefix("nothing: ") in str(caught.value.hint)


@pytest.mark.parametrize("name", sorted(OWNED_BY_SRUN))
def test_an_option_of_srun_that_has_a_key(name: str) -> None:
    """The same for slurm.srun_extra."""
    with pytest.raises(ConfigError) as caught:
        extra_options({name: True}, OWNED_BY_SRUN, "slurm.srun_extra")
    assert caught.value.key == f"slurm.srun_extra.{name}"


@pytest.mark.parametrize("value", ["gpu:8", "gpu", "gpu:h100:8"])
def test_gpus_are_not_asked_twice(value: str) -> None:
    """--gres=gpu is refused beside --gpus-per-node."""
    with pytest.raises(ConfigError, match="gres=gpu"):
        extra_options({"gres": value}, OWNED_BY_SBATCH, "slurm.extra")


def test_other_options_are_free() -> None:
    """Any other option is written: true bare, false not at all, a number as text."""
    given: dict[str, str | int | bool] = {
        "gres": "nvme:1",
        "contiguous": True,
        "spread-job": False,
        "nice": 0,
        "x": "",
    }
    assert extra_options(given, OWNED_BY_SBATCH, "slurm.extra") == (
        Option(name="gres", value="nvme:1"),
        Option(name="contiguous"),
        Option(name="nice", value="0"),
        Option(name="x", value=""),
    )


def test_what_is_written_is_owned() -> None:
    """Every option that a full job writes is owned, so that none can be written twice."""
    text = """
        name = "x"
        command = ["x"]
        resources = { nodes = 2, ntasks_per_node = 2, cpus_per_task = 3, gpus_per_node = 4, \
mem = "1G", time_limit = "1", exclusive = true }
        launch = { kind = "mpi", mpi = "pmix" }
        slurm = { account = "a", partition = "b", qos = "c", constraint = "d", reservation = "e", \
nodelist = "f", exclude = "g", dependency = "1", licenses = "i", array = "1", begin = "now", \
signal = "USR2", requeue = true, comment = "j", mail_user = "k", mail_type = ["END"] }
    """
    plan = prepared(text).plan
    assert {option.name for option in plan.directives} <= set(OWNED_BY_SBATCH)
    assert {option.name for option in plan.srun} <= set(OWNED_BY_SRUN)
