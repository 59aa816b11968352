"""The cluster's network as Slurm tells it, and for how long it is remembered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hpckit.core.errors import SchedulerUnreachable
from hpckit.core.process import CommandResult
from hpckit.fabric.ask import FabricProbe, topologies_of
from hpckit.slurm.ask import SlurmCli
from hpckit.slurm.values import SlurmVersion, TopologyKind
from tests.fakes.clock import FakeClock
from tests.fakes.scripted import ScriptedRunner, said
from tests.fakes.slurm_records import record_text

CONFIG = """\
Configuration data as of 2026-11-23T10:00:00
ClusterName             = hpckit
SLURM_VERSION           = 24.11.5
TopologyPlugin          = topology/tree
"""
TREE = record_text("scontrol-topology-24.11.5", "tree")
BLOCK = record_text("scontrol-topology-24.11.5", "block")
TOPOCONF = record_text("topology-yaml-26.05.5", "topoconf")
PARTITIONS = record_text("scontrol-partitions-26.05.5", "three-topologies")
V24, V26 = SlurmVersion(24, 11, 5), SlurmVersion(26, 5, 5)


class Scontrol(ScriptedRunner):
    """An scontrol whose answers go by what is shown, and not by when."""

    def __init__(self, **answers: CommandResult | str) -> None:
        super().__init__()
        self.told = {
            name: said(answer) if isinstance(answer, str) else answer
            for name, answer in answers.items()
        }

    def run(
        self, argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """The answer to `scontrol … show WHAT`; of sinfo nothing."""
        del timeout_s, environment
        self.asked.append(tuple(argv))
        what = argv[-1] if argv[0] == "scontrol" else argv[0]
        return self.told.get(what, said(code=1, stderr=f"no {what}"))


def cli(runner: ScriptedRunner) -> SlurmCli:
    """Slurm's commands, answered by a runner."""
    return SlurmCli(runner, FakeClock())


def probe(runner: ScriptedRunner, folder: Path, clock: FakeClock) -> FabricProbe:
    """A probe that keeps what it was told in a folder."""
    return FabricProbe(SlurmCli(runner, clock), folder, clock, {})


@pytest.mark.parametrize("version", [None, V24])
@pytest.mark.parametrize(("text", "kind"), [(TREE, TopologyKind.TREE), (BLOCK, TopologyKind.BLOCK)])
def test_up_to_24_11_there_is_one(
    version: SlurmVersion | None, text: str, kind: TopologyKind
) -> None:
    """`show topology` is all that is asked, also where the release is not known."""
    runner = Scontrol(topology=text)
    (found,) = topologies_of(cli(runner), "west", version)
    assert (found.plugin, found.is_default) == (kind, True)
    assert runner.asked == [("scontrol", "--clusters=west", "show", "topology")]


def test_several_have_their_partitions() -> None:
    """From 25.05 on all come in one answer, and each partition says which is its own."""
    runner = Scontrol(topoconf=TOPOCONF, partitions=PARTITIONS)
    found = {one.name: one for one in topologies_of(cli(runner), None, V26)}
    assert {name: one.partitions for name, one in found.items()} == {
        "wide": ("main",),
        "racks": ("nvl",),
        "plain": ("any",),
    }
    assert [name for name, one in found.items() if one.is_default] == ["wide"]
    assert [words[-1] for words in runner.asked] == ["topoconf", "partitions"]


def test_without_a_topology_yaml_the_one_topology_is_asked() -> None:
    """A cluster of 26.05 with a topology.conf has nothing to show as topoconf."""
    runner = Scontrol(topology=TREE, topoconf=said(code=1, stderr="no topology.yaml"))
    (found,) = topologies_of(cli(runner), None, V26)
    assert found.plugin is TopologyKind.TREE
    assert [words[-1] for words in runner.asked] == ["topoconf", "topology"]
    assert not topologies_of(cli(Scontrol(topology="")), None, V26)


def test_a_thousand_submissions_ask_once(tmp_path: Path) -> None:
    """Within an hour the answer comes from the file, to other processes too; then it is asked."""
    clock = FakeClock(1e9)
    runner = Scontrol(config=CONFIG, topology=TREE)
    first = probe(runner, tmp_path, clock).topologies(None)
    assert sorted(first[0].nodes) == [f"c{i}" for i in range(1, 9)]
    asked = len(runner.asked)
    clock.sleep(3599)
    assert list(probe(runner, tmp_path, clock).topologies(None)) == list(first)
    assert len(runner.asked) == asked
    clock.sleep(2)
    probe(runner, tmp_path, clock).topologies(None)
    assert len(runner.asked) > asked


def test_a_fresh_look_asks_and_is_remembered(tmp_path: Path) -> None:
    """Whoever wants the present gets it; another cluster has a file of its own."""
    clock = FakeClock(1e9)
    runner = Scontrol(config=CONFIG, topology=TREE)
    one = probe(runner, tmp_path, clock)
    one.topologies(None)
    runner.told["topology"] = said(BLOCK)
    assert one.topologies(None)[0].plugin is TopologyKind.TREE
    assert one.topologies("west")[0].plugin is TopologyKind.BLOCK
    assert one.topologies(None, fresh=True)[0].plugin is TopologyKind.BLOCK
    assert one.topologies(None)[0].plugin is TopologyKind.BLOCK


def test_a_slurm_that_is_away_is_said(tmp_path: Path) -> None:
    """Nothing is remembered of it."""
    away = said(code=1, stderr="slurm_load_ctl_conf error: Unable to contact slurm controller")
    with pytest.raises(SchedulerUnreachable):
        probe(Scontrol(config=away), tmp_path / "kept", FakeClock()).topologies(None)
    assert not (tmp_path / "kept").exists()
