"""Many nodes: who is asked, what becomes of those that do not answer, and which are odd."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import AdapterError, ConfigError, ToolFailed
from hpckit.core.fields import to_tree
from hpckit.core.process import CommandResult, HeardCommand
from hpckit.node.answers import NodeQuestion
from hpckit.node.probe import answer_lines, error_document
from hpckit.node.remote import NodesSeen, SrunProbe, inspect_nodes
from hpckit.node.topology import Gpu, NodeTopology, NvLink, Source
from hpckit.slurm.ask import SlurmCli
from tests.fakes.clock import FakeClock
from tests.fakes.packed import pack
from tests.fakes.scripted import Late, ScriptedRunner, row, said

LINKS = tuple(NvLink(index=index, is_active=True) for index in range(18))
TWIN = NodeTopology(
    source=Source(format="live", is_live=True),
    gpus=tuple(Gpu(index=index, name="H100", nvlinks=LINKS) for index in range(8)),
)
SHORT = replace(
    TWIN,
    gpus=(
        replace(TWIN.gpus[0], nvlinks=(*LINKS[:17], NvLink(index=17, is_active=False))),
        *TWIN.gpus[1:],
    ),
)
QUESTION = NodeQuestion(nodes=(), timeout_s=5.0)


def lines(node: str, topology: NodeTopology) -> str:
    """What a node's probe prints."""
    return "".join(
        f"{line}\n" for line in answer_lines(node, json.dumps(to_tree(topology)).encode())
    )


def sinfo(*nodes: str, state: str = "idle", gres: str = "gpu:h100:8") -> str:
    """What sinfo prints of nodes."""
    return "".join(row(node, state, gres) for node in nodes)


class Slurm:
    """A cluster whose srun prints what it was given, and the runner that saw the questions."""

    def __init__(
        self, root: Path, srun: CommandResult, listed: str, names: str = "c1\nc2\nc3\n"
    ) -> None:
        self.runner = ScriptedRunner(
            srun=[srun], sinfo=[said(listed)], scontrol=[said(names)], scancel=[said()],
            squeue=[said(row("42", "RUNNING", "c[1-3]"))],
        )  # fmt: skip
        slurm = SlurmCli(self.runner, FakeClock())
        self.probe = SrunProbe(slurm, self.runner, root, "/opt/venv/bin/python", pack)
        self.counts: list[tuple[int, int]] = []

    def inspect(self, nodelist: str | None = "c[1-3]", **said_too: object) -> NodesSeen:
        """Ask them."""
        question = replace(QUESTION, **said_too)  # type: ignore[arg-type]  # fields by name
        return inspect_nodes(
            self.probe, question, nodelist, lambda done, of: self.counts.append((done, of))
        )

    @property
    def srun(self) -> Sequence[str]:
        """The srun that was run."""
        (argv,) = [argv for argv in self.runner.asked if argv[0] == "srun"]
        return argv


def test_the_odd_node_stands_apart(tmp_path: Path) -> None:
    """Twins are one group; the node with a dead NVLink is another, with what differs."""
    text = lines("c1", TWIN) + lines("c2", SHORT) + lines("c3", TWIN)
    seen = Slurm(tmp_path, said(text), sinfo("c1", "c2", "c3")).inspect()
    assert [group.nodes for group in seen.groups] == [("c1", "c3"), ("c2",)]
    twins, odd = seen.groups
    assert twins.findings == ()
    assert "17" in " ".join(odd.differs)
    assert [finding.subject for finding in odd.findings] == ["GPU0"]


def test_a_node_that_gives_no_answer_is_named(tmp_path: Path) -> None:
    """After the limit the others' answers count, and the silent node has srun's words."""
    late = Late(returncode=0, stdout=lines("c1", TWIN) + lines("c3", TWIN),
                stderr="srun: error: c2: task 1: Killed\n")  # fmt: skip
    slurm = Slurm(tmp_path, late, sinfo("c1", "c2", "c3"))
    seen = slurm.inspect()
    assert [group.nodes for group in seen.groups] == [("c1", "c3")]
    (silent,) = seen.silent
    assert silent.subject == "c2"
    assert silent.because == "no answer: srun: error: c2: task 1: Killed"
    assert "scancel" in slurm.runner.programs


def test_a_node_that_slurm_cannot_reach_is_not_asked(tmp_path: Path) -> None:
    """Down, drained and unknown nodes are findings, and srun does not wait for them."""
    listed = sinfo("c1") + sinfo("c2", state="down*")
    slurm = Slurm(tmp_path, said(lines("c1", TWIN)), listed)
    seen = slurm.inspect()
    assert "--nodelist=c1" in slurm.srun
    assert [(one.subject, one.because) for one in seen.silent] == [
        ("c2", "Slurm: node not responding (down)"),
        ("c3", "no such node in Slurm"),
    ]


def test_a_drained_node_of_a_job_is_asked(tmp_path: Path) -> None:
    """A job that runs on a node keeps it while it is draining: its node is asked through it."""
    slurm = Slurm(tmp_path, said(lines("c1", TWIN)), sinfo("c1", state="draining"), names="c1\n")
    seen = slurm.inspect(None, job_id="42")
    assert seen.silent == ()
    assert "--jobid=42" in slurm.srun
    assert not any(word.startswith("--time") for word in slurm.srun)


def test_a_node_that_cannot_tell_says_why(tmp_path: Path) -> None:
    """What a probe failed with is the reason of its node."""
    text = "".join(f"{line}\n" for line in answer_lines("c1", error_document("no /sys")))
    seen = Slurm(tmp_path, said(text), sinfo("c1"), names="c1\n").inspect("c1")
    assert [(one.subject, one.because) for one in seen.silent] == [("c1", "no /sys")]


def test_a_job_without_nodes_is_refused(tmp_path: Path) -> None:
    """A job that waits has no nodes to ask, and the error says how it is."""
    slurm = Slurm(tmp_path, said(), sinfo("c1"))
    slurm.runner = ScriptedRunner(squeue=[said(row("7", "PENDING", ""))])
    probe = probe_of(slurm.runner, tmp_path)
    with pytest.raises(AdapterError, match="job 7 has no nodes to inspect: it is PENDING"):
        probe.nodes_of_job("7")


def test_a_job_that_is_several_is_refused(tmp_path: Path) -> None:
    """Srun takes one task of an array or one component; the error names them."""
    parts = row("7_1", "RUNNING", "c1") + row("7_2", "RUNNING", "c2")
    runner = ScriptedRunner(squeue=[said(parts)])
    with pytest.raises(AdapterError, match="job 7 has 2 parts: 7_1, 7_2"):
        probe_of(runner, tmp_path).nodes_of_job("7")


def test_a_component_is_asked_by_its_number(tmp_path: Path) -> None:
    """srun(1), --het-group: the id of a component is no --jobid."""
    slurm = Slurm(tmp_path, said(lines("c1", TWIN)), sinfo("c1"), names="c1\n")
    slurm.inspect(None, job_id="42+1")
    assert {"--jobid=42", "--het-group=1"} <= set(slurm.srun)


def test_a_list_without_nodes_is_refused(tmp_path: Path) -> None:
    """An empty list raises ConfigError."""
    with pytest.raises(ConfigError, match="no node in"):
        Slurm(tmp_path, said(), "", names="\n").inspect(",")


def test_srun_that_starts_nothing_says_why(tmp_path: Path) -> None:
    """When no node was asked at all the error has srun's words."""
    failed = said(code=1, stderr="srun: error: Unable to allocate resources: Invalid partition\n")
    with pytest.raises(ToolFailed, match="Invalid partition"):
        Slurm(tmp_path, failed, sinfo("c1"), names="c1\n").inspect("c1")


def test_nothing_is_left_in_the_shared_folder(tmp_path: Path) -> None:
    """The probe's archive is removed after the answers."""
    shared = tmp_path / "shared"
    Slurm(shared, said(lines("c1", TWIN)), sinfo("c1"), names="c1\n").inspect("c1")
    assert list(shared.iterdir()) == []


def test_fewer_gpus_than_slurm_gives_out_is_found(tmp_path: Path) -> None:
    """A node that shows seven of the eight GPUs of its gres has a finding."""
    seven = replace(TWIN, gpus=TWIN.gpus[:7])
    seen = Slurm(tmp_path, said(lines("c1", seven)), sinfo("c1"), names="c1\n").inspect("c1")
    assert "gpus-fewer-than-gres" in [one.rule for one in seen.groups[0].findings]


class Held(ScriptedRunner):
    """A cluster on which no srun starts anything that is to run on one node."""

    def __init__(self, node: str) -> None:
        super().__init__(scancel=[said()])
        self._node = node

    def listen(
        self, commands: Sequence[Sequence[str]], timeout_s: float, heard: Callable[[str], None]
    ) -> Sequence[HeardCommand]:
        """Every node but that one answers, unless it is in the same srun."""
        return [self._srun(argv, heard) for argv in commands]

    def _srun(self, argv: Sequence[str], heard: Callable[[str], None]) -> HeardCommand:
        self.asked.append(tuple(argv))
        nodes = _unfolded(next(word for word in argv if word.startswith("--nodelist=")))
        if self._node in nodes:
            return HeardCommand(stderr="")
        for node in nodes:
            for line in lines(node, TWIN).splitlines():
                heard(line)
        return HeardCommand(stderr="", returncode=0)


def _unfolded(nodelist: str) -> list[str]:
    match = re.fullmatch(r"--nodelist=c\[?([\d,-]+)\]?", nodelist)
    assert match is not None
    ends = [part.partition("-") for part in match[1].split(",")]
    return [
        f"c{number}" for low, _, high in ends for number in range(int(low), int(high or low) + 1)
    ]


class Interrupted(ScriptedRunner):
    """A cluster whose user gives up while srun runs."""

    def listen(self, *_: object) -> Sequence[HeardCommand]:
        """Ctrl-C."""
        raise KeyboardInterrupt


def nodelists(runner: ScriptedRunner) -> list[str]:
    """What each srun was asked for, in order."""
    return [
        word.removeprefix("--nodelist=")
        for argv in runner.asked
        for word in argv
        if word.startswith("--nodelist=")
    ]


def probe_of(runner: ScriptedRunner, root: Path) -> SrunProbe:
    """A probe that asks through a runner."""
    return SrunProbe(SlurmCli(runner, FakeClock()), runner, root, "python3", pack)


def test_what_a_killed_question_left_is_removed_next_day(tmp_path: Path) -> None:
    """A folder of our own that is older than any question is removed, a young or other one not."""
    root = tmp_path / "shared"
    left, young, other = (
        root / name for name in (".hpckit-inspect-a", ".hpckit-inspect-b", "train-7")
    )
    for folder in (left, young, other):
        folder.mkdir(parents=True)
        (folder / "hpckit-injob.pyz").touch()
    for folder in (left, other):
        os.utime(folder, (0, 0))
    Slurm(root, said(lines("c1", TWIN)), sinfo("c1"), names="c1\n").inspect()
    assert sorted(root.iterdir()) == [young, other]


def test_ctrl_c_gives_the_allocation_back(tmp_path: Path) -> None:
    """Whoever gives up leaves neither a job nor a folder; of a job of theirs nothing is ended."""
    shared = tmp_path / "shared"
    runner = Interrupted(scancel=[said()])
    with pytest.raises(KeyboardInterrupt):
        probe_of(runner, shared).ask(replace(QUESTION, nodes=("c1",)), print)
    ((program, name, _),) = runner.asked
    assert program == "scancel"
    assert name.startswith("--name=hpckit-inspect-")
    assert list(shared.iterdir()) == []
    with pytest.raises(KeyboardInterrupt):
        probe_of(runner, shared).ask(replace(QUESTION, nodes=("c1",), job_id="7"), print)
    assert len(runner.asked) == 1


def test_a_busy_node_hides_no_other(tmp_path: Path) -> None:
    """What srun refuses for one node is asked of each, and only the busy one is silent."""
    busy = said(
        code=1, stderr="srun: error: Unable to allocate resources: Requested nodes are busy"
    )
    runner = ScriptedRunner(
        srun=[busy, said(lines("c1", TWIN)), busy], sinfo=[said(sinfo("c1", "c2"))],
        scontrol=[said("c1\nc2\n")], scancel=[said()],
    )  # fmt: skip
    seen = inspect_nodes(probe_of(runner, tmp_path), QUESTION, "c[1-2]", lambda *_: None)
    assert nodelists(runner) == ["c[1-2]", "c1", "c2"]
    assert [group.nodes for group in seen.groups] == [("c1",)]
    (silent,) = seen.silent
    assert silent.because.endswith("Requested nodes are busy")


def test_what_holds_for_every_node_is_asked_once(tmp_path: Path) -> None:
    """An account that does not exist is refused, and not again for each node."""
    runner = ScriptedRunner(srun=[said(code=1, stderr="srun: error: Invalid account")])
    with pytest.raises(ToolFailed, match="Invalid account"):
        probe_of(runner, tmp_path).ask(replace(QUESTION, nodes=("c1", "c2")), print)
    assert runner.programs == ["srun"]


def test_one_dead_node_of_512_costs_few_jobs(tmp_path: Path) -> None:
    """Where one node holds up all, slurmctld sees far fewer jobs than there are nodes."""
    names = [f"c{number}" for number in range(1, 513)]
    runner = Held("c77")
    heard: list[str] = []
    question = replace(QUESTION, nodes=tuple(names))
    probe_of(runner, tmp_path).ask(question, lambda answer: heard.append(answer.node))
    assert sorted(heard) == sorted(set(names) - {"c77"})
    assert runner.programs.count("srun") == 1 + 32 + 16


def test_a_probe_ends_before_its_srun(tmp_path: Path) -> None:
    """A driver that hangs is given up while somebody still listens; so is a node that is busy."""
    runner = ScriptedRunner(srun=[said()])
    probe_of(runner, tmp_path).ask(replace(QUESTION, nodes=("c1", "c2"), timeout_s=60.0), print)
    (argv,) = runner.asked
    assert argv[-1] == "20"
    assert "--immediate=20" in argv


@pytest.mark.parametrize("state", ["idle~", "idle%"])
def test_a_node_that_sleeps_is_not_woken(tmp_path: Path, state: str) -> None:
    """A question is no reason to boot a node."""
    slurm = Slurm(tmp_path, said(lines("c1", TWIN)), sinfo("c1") + sinfo("c2", state=state),
                  names="c1\nc2\n")  # fmt: skip
    (silent,) = slurm.inspect("c[1-2]").silent
    assert silent.because == "powered off (idle); a job would boot it"
    assert nodelists(slurm.runner) == ["c1"]


def test_parts_of_gpus_that_slurm_hides_are_not_missing(tmp_path: Path) -> None:
    """Where gres counts MIG devices and the GPUs are hidden, none is said to be missing."""
    hidden = replace(TWIN, gpus=tuple(replace(gpu, is_hidden=True) for gpu in TWIN.gpus))
    listed = sinfo("c1", gres="gpu:3g.20gb:16")
    seen = Slurm(tmp_path, said(lines("c1", hidden)), listed, names="c1\n").inspect("c1")
    assert "gpus-fewer-than-gres" not in [one.rule for one in seen.groups[0].findings]
