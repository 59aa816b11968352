"""Many nodes: who is asked, what becomes of those that do not answer, and which are odd."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.adapters.slurm_cli import SlurmCli
from hpckit.adapters.srun_probe import SrunProbe
from hpckit.app.inspect_nodes import NodesSeen, inspect_nodes
from hpckit.errors import AdapterError, ConfigError, ToolFailed
from hpckit.model.hardware import Gpu, NodeTopology, NvLink, Source
from hpckit.model.tree import to_tree
from hpckit.parse.probe_answer import answer_lines, error_document
from hpckit.ports import CommandResult, NodeQuestion
from tests.fakes.clock import FakeClock
from tests.unit.adapters.scripted import Late, ScriptedRunner, row, said

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
            squeue=[said(row("RUNNING", "c[1-3]"))],
        )  # fmt: skip
        slurm = SlurmCli(self.runner, FakeClock())
        self.probe = SrunProbe(slurm, self.runner, root, "/opt/venv/bin/python")
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


def test_progress_counts_answers(tmp_path: Path) -> None:
    """Each answer moves the count, from none to all."""
    slurm = Slurm(tmp_path, said(lines("c1", TWIN) + lines("c2", TWIN)), sinfo("c1", "c2"),
                  names="c1\nc2\n")  # fmt: skip
    slurm.inspect("c[1-2]")
    assert slurm.counts == [(0, 2), (1, 2), (2, 2)]


def test_a_node_that_gives_no_answer_is_named(tmp_path: Path) -> None:
    """After the limit the others' answers count, and the silent node has srun's words."""
    late = Late(returncode=0, stdout=lines("c1", TWIN) + lines("c3", TWIN),
                stderr="srun: error: c2: task 1: Killed\n")  # fmt: skip
    slurm = Slurm(tmp_path, late, sinfo("c1", "c2", "c3"))
    seen = slurm.inspect()
    assert [group.nodes for group in seen.groups] == [("c1", "c3")]
    (silent,) = seen.silent
    assert silent.node == "c2"
    assert silent.because == ("it gave no answer within 5 s: srun: error: c2: task 1: Killed")
    assert "scancel" in slurm.runner.programs


def test_a_node_that_slurm_cannot_reach_is_not_asked(tmp_path: Path) -> None:
    """Down, drained and unknown nodes are findings, and srun does not wait for them."""
    listed = sinfo("c1") + sinfo("c2", state="down*")
    slurm = Slurm(tmp_path, said(lines("c1", TWIN)), listed)
    seen = slurm.inspect()
    assert "--nodelist=c1" in slurm.srun
    assert [(one.node, one.because) for one in seen.silent] == [
        ("c2", "Slurm says that it does not respond (down)"),
        ("c3", "Slurm knows no node of this name"),
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
    assert [(one.node, one.because) for one in seen.silent] == [("c1", "no /sys")]


def test_a_job_without_nodes_is_refused(tmp_path: Path) -> None:
    """A job that waits has no nodes to ask, and the error says how it is."""
    slurm = Slurm(tmp_path, said(), sinfo("c1"))
    slurm.runner = ScriptedRunner(squeue=[said(row("PENDING", ""))])
    probe = SrunProbe(SlurmCli(slurm.runner, FakeClock()), slurm.runner, tmp_path, "python3")
    with pytest.raises(AdapterError, match="job 7 has no nodes to ask: it is PENDING"):
        probe.nodes_of_job("7")


def test_a_list_without_nodes_is_refused(tmp_path: Path) -> None:
    """An empty list raises ConfigError."""
    with pytest.raises(ConfigError, match="names no node"):
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
