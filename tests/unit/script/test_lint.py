"""Options against the facts about Slurm's releases."""

from __future__ import annotations

import pytest

from hpckit.core.findings import Level
from hpckit.script.plan import Option
from hpckit.script.releases import (
    BOTH,
    OPTION_FACTS,
    PAIR_FACTS,
    Program,
    excludes,
    is_said,
    lint,
    takes,
)
from hpckit.slurm.values import SlurmVersion, TopologyKind

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


@pytest.mark.parametrize("version", [OLD, MIDDLE])
def test_gres_beside_gpus_per_node_passes_before_26(version: SlurmVersion) -> None:
    """Until 26.05 the two together are taken."""
    assert subjects("gres=gpu:h100:8", "gpus-per-node=8", version=version) == {}


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


def test_a_micro_release_counts() -> None:
    """allow-task-sharing came with 23.11.4, not with 23.11.3."""
    text = "gres-flags=allow-task-sharing"
    for version, count in (("23.11.3", 1), ("23.11.4", 0)):
        found = subjects(text, program=Program.SRUN, version=SlurmVersion.of(version))
        assert len(found) == count


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


def test_facts_are_whole() -> None:
    """Every fact has a source, a remedy and releases that can be compared."""
    for option_fact in OPTION_FACTS:
        assert option_fact.source and option_fact.instead and option_fact.programs
        assert option_fact.since or option_fact.until or option_fact.topologies
        assert any(takes(option_fact, version) for version in (SlurmVersion(21, 8), NEW))
    for pair in PAIR_FACTS:
        assert pair.source and pair.instead and set(pair.programs) <= set(BOTH)
        assert excludes(pair, None) and excludes(pair, NEW)


@pytest.mark.parametrize("pair", PAIR_FACTS, ids=lambda pair: f"{pair.first}+{pair.second}")
def test_each_pair_is_found(pair: object) -> None:
    """The linter finds each pair of the table when a program of it is given both."""
    fact = next(one for one in PAIR_FACTS if one is pair)
    found = subjects(fact.first, fact.second, program=fact.programs[0], version=NEW)
    assert f"--{fact.first} --{fact.second}" in found
    assert subjects(fact.first, program=fact.programs[0], version=MIDDLE).keys() <= {
        f"--{one.option}" for one in OPTION_FACTS
    }
