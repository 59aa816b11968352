"""What is remembered of a cluster, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.core.errors import SchedulerUnreachable
from hpckit.slurm.ask import SlurmCli, SlurmProbe
from hpckit.slurm.values import NodeGroup, SlurmVersion, TopologyKind
from tests.fakes.clock import FakeClock
from tests.fakes.scripted import Answer, ScriptedRunner, row, said

CONFIG = (
    "Configuration data as of 2026-11-21T10:00:00\n"
    "ClusterName             = hpckit\n"
    "MaxArraySize            = 101\n"
    "MpiDefault              = pmix\n"
    "SLURM_VERSION           = 24.11.5\n"
    "TopologyPlugin          = topology/tree\n"
)
PARTITIONS = row("main*", "up", "1-00:00:00", "4", "64", "1000000", "gpu:h100:8(S:0-1)", "(null)")


def slurm() -> ScriptedRunner:
    """A Slurm that answers the two questions."""
    return ScriptedRunner(scontrol=[said(CONFIG)], sinfo=[said(PARTITIONS)])


def probe(
    runner: ScriptedRunner, folder: Path, clock: FakeClock | None = None, **environment: str
) -> SlurmProbe:
    """A probe that keeps its answers in `folder`."""
    clock = clock or FakeClock()
    return SlurmProbe(SlurmCli(runner, clock), folder, clock, environment)


def test_the_answers_are_a_cluster(tmp_path: Path) -> None:
    """Release, name, limits and partitions come from one scontrol and one sinfo."""
    runner = slurm()
    view = probe(runner, tmp_path).look(None)
    assert view.config.version == SlurmVersion(24, 11, 5)
    assert (view.config.cluster_name, view.config.max_array_size) == ("hpckit", 101)
    assert view.config.topology_plugin == f"topology/{TopologyKind.TREE}"
    (main,) = view.partitions
    group = NodeGroup(nodes=4, cpus=64, mem_mib=1_000_000, gpus=8, gpu_types=("h100",))
    assert (main.name, main.is_default, main.groups) == ("main", True, (group,))
    assert runner.programs == ["scontrol", "sinfo"]


def test_plugins_of_mpi_are_asked_for_where_there_is_no_default(tmp_path: Path) -> None:
    """Of srun here; a cluster that is elsewhere may have others."""
    bare = said(CONFIG.replace("= pmix", "= (null)"))
    listed = said("MPI plugin types are...\n\tnone\n\tpmi2\n")
    runner = ScriptedRunner(scontrol=[bare], sinfo=[said(PARTITIONS)], srun=[listed])
    assert probe(runner, tmp_path).look(None).config.mpi_types == ("none", "pmi2")
    assert probe(runner, tmp_path).look("north").config.mpi_types == ()
    assert runner.programs == ["scontrol", "srun", "sinfo", "scontrol", "sinfo"]


def test_a_host_without_slurm_is_told_from_a_controller_that_is_away(tmp_path: Path) -> None:
    """Where there is no configuration, waiting a minute is no advice."""
    words = "_establish_config_source: failed to fetch config\nscontrol: fatal: "
    nowhere = said(code=1, stderr=f"{words}Could not establish a configuration source\n")
    with pytest.raises(SchedulerUnreachable) as caught:
        probe(ScriptedRunner(scontrol=[nowhere]), tmp_path).look(None)
    assert "no Slurm configuration" in str(caught.value.hint)


def test_a_thousand_submissions_ask_once(tmp_path: Path) -> None:
    """Within an hour the same answer comes without a question, to another process too."""
    clock, runner = FakeClock(), slurm()
    first = probe(runner, tmp_path, clock).look(None)
    clock.sleep(3599)
    assert probe(runner, tmp_path, clock).look(None) == first
    assert len(runner.asked) == 2


@pytest.mark.parametrize("pass_s", [3600.0, -60.0])
def test_an_answer_grows_old(tmp_path: Path, pass_s: float) -> None:
    """After an hour, and when the clock was set back, Slurm is asked again."""
    runner = slurm()
    probe(runner, tmp_path, FakeClock(1e9)).look(None)
    probe(runner, tmp_path, FakeClock(1e9 + pass_s)).look(None)
    assert len(runner.asked) == 4


def test_a_fresh_look_asks(tmp_path: Path) -> None:
    """Whoever wants the present gets it, and what is remembered with it."""
    clock, runner = FakeClock(), slurm()
    one = probe(runner, tmp_path, clock)
    one.look(None)
    clock.sleep(60)
    assert one.look(None, fresh=True).seen_s == one.look(None).seen_s == clock.now_s()
    assert len(runner.asked) == 4


def test_clusters_are_kept_apart(tmp_path: Path) -> None:
    """Another slurm.conf, another name and another cluster are each asked for themselves."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"ClusterName={name}\n", encoding="utf-8")
    runner = slurm()
    for conf in ("a", "b"):
        for cluster in (None, "north"):
            probe(runner, tmp_path / "kept", SLURM_CONF=str(tmp_path / conf)).look(cluster)
    assert runner.programs == ["scontrol", "sinfo"] * 4
    assert sum("--clusters=north" in argv for argv in runner.asked) == 4


def test_a_damaged_answer_is_asked_again(tmp_path: Path) -> None:
    """A file that is cut costs the questions and nothing more."""
    runner = slurm()
    first = probe(runner, tmp_path).look(None)
    (path,) = tmp_path.glob("*.json")
    path.write_bytes(path.read_bytes()[:-9])
    assert probe(runner, tmp_path).look(None) == first
    assert len(runner.asked) == 4


def test_partitions_that_nobody_answers_for_are_silence(tmp_path: Path) -> None:
    """A cluster that stops answering before its partitions are known is not a view of it."""
    down = said(code=1, stderr="slurm_load_partitions: Unable to contact slurm controller")
    runner = ScriptedRunner(scontrol=[said(CONFIG)], sinfo=[down])
    with pytest.raises(SchedulerUnreachable):
        probe(runner, tmp_path).look(None)
    view = probe(runner, tmp_path).look(None, needs_partitions=False)
    assert (view.config.max_array_size, view.partitions) == (101, ())
    assert list(tmp_path.glob("*.json")) == []


@pytest.mark.parametrize("answer", [said("something new\n"), said(code=1, stderr="something new")])
def test_partitions_that_cannot_be_read_cost_only_themselves(
    tmp_path: Path, answer: Answer
) -> None:
    """Release and MaxArraySize are known though sinfo fails, and so is why; it is not kept."""
    runner = ScriptedRunner(scontrol=[said(CONFIG)], sinfo=[answer])
    one = probe(runner, tmp_path)
    view = one.look(None)
    assert (view.config.max_array_size, view.partitions) == (101, ())
    assert "something new" in str(view.unread)
    one.look(None)
    assert runner.programs == ["scontrol", "sinfo"] * 2
