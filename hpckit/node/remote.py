"""What many nodes look like, asked through srun: each is asked once, and the odd ones stand out.

The probe lies in a folder that they share with this host, and is gone afterwards.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from hpckit.core.errors import AdapterError, ConfigError, ParseError, StorageFailed, ToolFailed
from hpckit.core.findings import Finding
from hpckit.core.hostlist import fold_hosts, natural_order
from hpckit.core.late import regex
from hpckit.core.process import HeardCommand, Runner
from hpckit.core.trust import make_private
from hpckit.core.values import dataclass
from hpckit.node.answers import AlikeNodes, NodeAnswer, NodeQuestion, group_alike, silent_node
from hpckit.node.capture.snapshot import decode_snapshot
from hpckit.node.probe import AnswerReader, error_in
from hpckit.node.rules.rules import node_findings
from hpckit.node.topology import NodeTopology
from hpckit.slurm.ask import SlurmCli
from hpckit.slurm.squeue import (
    hostnames_argv,
    parse_sinfo_nodes,
    parse_squeue_nodes,
    sinfo_nodes_argv,
    squeue_nodes_argv,
)
from hpckit.slurm.values import SlurmNode
from hpckit.spec.job_folder import AGENT_FILE

_MOST_WORDS: Final = 20
# What the probe said last is said with the node's name: srun does not tell whose a line is. The
# newest Python is taken where the one of this host is not there: the system's own may be too old.
# On one line: it stands in the accounts as SubmitLine, whose readers take a line for a job.
_SCRIPT: Final = (
    'for p in "$0" python3.14 python3.13 python3.12 python3.11 python3; do '
    'command -v "$p" >/dev/null 2>&1 && break; done; '
    'exec 3>&1; said=$("$p" -I "$1" probe "$2" 2>&1 >&3 3>&-) && exit; code=$?; '
    "said=$(printf '%s\\n' \"$said\" | tail -n 1); "
    'echo "hpckit: $SLURMD_NODENAME: ${said:-the probe exited with $code}" >&2; exit $code'
)
# Refusals that may be those of one node among many. Source: Slurm's slurm_errno.c.
_OF_SOME_NODE: Final = regex(
    r"nodes are busy|node not available|node configuration is not available"
    r"|nodes? not in|execution impossible",
    re.IGNORECASE,
)


def srun_probe_argv(
    nodes: Sequence[str], python: str, archive: str, limit_s: int, options: Sequence[str]
) -> tuple[str, ...]:
    """The command: one task a node, beside whatever runs there, and none ends the others.

    `limit_s` is how long a probe may wait for a driver. Source: srun(1). Without `--wait=0` the
    tasks would be ended 60 s after the first one.
    """
    count = len(nodes)
    return (
        "srun",
        "--quiet",  # what it says else is an error
        f"--nodelist={fold_hosts(nodes)}",  # Linux takes 128 KiB in one argument, execve(2)
        f"--nodes={count}",
        f"--ntasks={count}",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
        "--overlap",
        "--no-kill",
        "--kill-on-bad-exit=0",
        "--wait=0",
        "--input=none",
        "--mpi=none",
        "--chdir=/",  # this host's folder may not be there, or hang there
        *options,
        "sh",
        "-c",
        _SCRIPT,
        python,
        archive,
        str(limit_s),
    )


def is_of_some_node(stderr: str) -> bool:
    """Whether srun started nothing for what may be true of a single one of the nodes."""
    return _OF_SOME_NODE.search(stderr) is not None


def words_about(node: str, lines: Sequence[str]) -> str | None:
    """What srun said about a node, None if nothing: `srun: error: c3: task 2: ...`."""
    named = re.compile(rf"(?<![\w.-]){re.escape(node)}(?![\w-])")
    found = [line.strip().removeprefix(f"{node}: ") for line in lines if named.search(line)]
    return "; ".join(dict.fromkeys(found[:_MOST_WORDS])) or None


_CANCEL_S = 30.0
_DRIVER_S = 30
_MOST_COMMANDS = 32
_DAY_S = 86_400
_FOLDER = ".hpckit-inspect-"
_MOST_PARTS = 8


@dataclass(frozen=True, slots=True)
class SrunProbe:
    """Runs the probe on nodes with one srun; `root` is a folder that they share with this host.

    `python` is the interpreter to use there if it exists there; `pack` writes the archive that they
    run to a path.
    """

    slurm: SlurmCli
    runner: Runner
    root: Path
    python: str
    pack: Callable[[Path], None]

    def nodes(self, nodelist: str) -> Sequence[SlurmNode]:
        """The nodes of a list, each once; those that Slurm does not know have no state.

        Raises ToolFailed for what is no list of hosts.
        """
        names = self.slurm.ask(hostnames_argv(nodelist)).stdout.split()
        known = {
            one.name: one
            for one in parse_sinfo_nodes(self.slurm.ask(sinfo_nodes_argv(nodelist)).stdout)
        }
        return [known.get(name) or SlurmNode(name=name) for name in dict.fromkeys(names)]

    def nodes_of_job(self, job_id: str) -> str:
        """The node list of a running job. Raises AdapterError for one that has none."""
        parts = parse_squeue_nodes(self.slurm.ask(squeue_nodes_argv(job_id)).stdout)
        if len(parts) > 1:  # squeue lists all components, whichever is asked for
            parts = tuple(one for one in parts if one[0] == job_id) or parts
        if len(parts) > 1:
            several = ", ".join(one for one, _, _ in parts[:_MOST_PARTS])
            raise AdapterError(
                f"job {job_id} has {len(parts)} parts: {several}", hint=f"use `--job {parts[0][0]}`"
            )
        state, nodes = parts[0][1:] if parts else ("not in the queue", "")
        if state != "RUNNING" or not nodes:
            raise AdapterError(
                f"job {job_id} has no nodes to inspect: it is {state}",
                hint="use a running job, or `--nodes` to inspect nodes without a job",
            )
        return nodes

    def ask(self, question: NodeQuestion, heard: Callable[[NodeAnswer], None]) -> Sequence[str]:
        """Hand on each node's answer as it comes, and give back what else was said, a line each.

        Raises StorageFailed, ToolMissing, and ToolFailed when no node was asked at all.
        """
        reader = AnswerReader(question.nodes)
        silent = list(question.nodes)

        def hear(line: str) -> None:
            found = reader.read(line)
            if found is not None and found[0] in silent:
                silent.remove(found[0])
                heard(_answer(*found))

        with self._archive() as archive:
            words = self._ask_in_rounds(question, archive, silent, hear)
        return [*reader.other, *words]

    def _ask_in_rounds(
        self, question: NodeQuestion, archive: Path, silent: list[str], hear: Callable[[str], None]
    ) -> list[str]:
        """One srun is one job. But a node that hangs or is busy holds up the start of all of them.

        (slurm.conf, PrologFlags=Alloc.) Then the silent ones are asked in smaller and smaller
        groups, so that the others are heard, and slurmctld is not asked for a job a node.
        """
        words: list[str] = []
        left, most = question.nodes, 1
        for limit_s in _limits_s(len(left), question.timeout_s):
            groups = _groups(left, most)
            ended = self._run(question, groups, archive, limit_s, hear)
            found = list(zip(groups, ended, strict=True))
            words += [line for group, one in found for line in _said(group, one)]
            left = tuple(
                node
                for group, one in found
                if len(group) > 1 and (one.is_late or is_of_some_node(one.stderr))
                for node in group
                if node in silent
            )
            if most == 1 and not left and ended[0].returncode and len(silent) == len(groups[0]):
                raise ToolFailed(("srun",), ended[0].returncode, ended[0].stderr)
            if not left:
                break
            most = _MOST_COMMANDS
        return words

    def _run(
        self,
        question: NodeQuestion,
        groups: Sequence[tuple[str, ...]],
        archive: Path,
        limit_s: float,
        hear: Callable[[str], None],
    ) -> Sequence[HeardCommand]:
        name = archive.parent.name.lstrip(".")
        options = _options(question, name, limit_s)
        driver_s = max(1, min(_DRIVER_S, int(limit_s * 2 / 3)))
        commands = [
            srun_probe_argv(group, self.python, str(archive), driver_s, options) for group in groups
        ]
        ended: Sequence[HeardCommand] = ()
        try:
            ended = self.runner.listen(commands, limit_s, hear)
        finally:
            # Also after Ctrl-C: there is no answer then of any.
            if question.job_id is None and (not ended or any(one.is_late for one in ended)):
                self._cancel(name)
        return ended

    @contextmanager
    def _archive(self) -> Iterator[Path]:
        folder = self.root
        try:
            make_private(self.root)
            _remove_leftovers(self.root)
            folder = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=self.root))
            archive = folder / AGENT_FILE
            self.pack(archive)
        except OSError as error:
            if folder != self.root:
                shutil.rmtree(folder, ignore_errors=True)
            raise StorageFailed(
                f"{folder} cannot be written: {error.strerror}",
                hint="use `--shared-dir` with a folder that the nodes share with this host",
            ) from error
        try:
            yield archive
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _cancel(self, name: str) -> None:
        """Give back allocations of our own; that of a job is the user's."""
        with suppress(AdapterError):
            self.runner.run(("scancel", f"--name={name}", f"--user={os.getuid()}"), _CANCEL_S)


def _remove_leftovers(root: Path) -> None:
    """Remove what questions of other days left: one that was killed could not."""
    for folder in root.glob(f"{_FOLDER}*"):
        with suppress(OSError):
            if time.time() - folder.lstat().st_mtime > _DAY_S:
                shutil.rmtree(folder, ignore_errors=True)


def _limits_s(nodes: int, timeout_s: float) -> list[float]:
    """Half of the time for all nodes together, the rest for the rounds down to single nodes."""
    if nodes == 1:
        return [timeout_s]
    rounds, size = 0, nodes
    while size > 1:
        rounds, size = rounds + 1, -(-size // _MOST_COMMANDS)
    return [timeout_s / 2, *[timeout_s / 2 / rounds] * rounds]


def _groups(nodes: Sequence[str], most: int) -> list[tuple[str, ...]]:
    size = -(-len(nodes) // most)
    return [tuple(nodes[at : at + size]) for at in range(0, len(nodes), size)]


def _said(group: Sequence[str], ended: HeardCommand) -> Iterator[str]:
    for line in ended.stderr.splitlines():
        is_named = len(group) > 1 or words_about(group[0], [line]) is not None
        yield line if is_named else f"{group[0]}: {line}"


def _options(question: NodeQuestion, name: str, limit_s: float) -> list[str]:
    if question.job_id is not None:
        # Of a heterogeneous job srun takes the whole by its id, and a component by its number.
        job_id, _, component = question.job_id.partition("+")
        return [f"--jobid={job_id}", *([f"--het-group={component}"] if component else [])]
    said = {
        "partition": question.partition,
        "account": question.account,
        "qos": question.qos,
        "reservation": question.reservation,
        "gpus-per-node": question.gpus_per_node,
    }
    minutes = int(limit_s // 60) + 2
    return [
        f"--job-name={name}",
        f"--time={minutes}",
        # Before the time is up, so that srun says itself that a node is busy.
        f"--immediate={max(1, int(limit_s * 2 / 3))}",
        *(f"--{option}={value}" for option, value in said.items() if value is not None),
    ]


def _answer(node: str, document: bytes | None) -> NodeAnswer:
    if document is None:
        return NodeAnswer(node=node, because="its answer is incomplete or corrupted")
    because = error_in(document)
    if because is not None:
        return NodeAnswer(node=node, because=because)
    try:
        return NodeAnswer(node=node, topology=decode_snapshot(document))
    except ParseError as error:
        return NodeAnswer(node=node, because=f"cannot read its answer: {error.message}")


# States in which Slurm starts no job step on a node. Source: sinfo(1), "NODE STATE CODES".
_GONE: Final = frozenset({"down", "error", "fail", "powered_down", "powering_down", "unknown"})
# ... and those in which it starts no new job on it either.
_CLOSED: Final = _GONE | {
    "drained", "draining", "failing", "future", "inval", "perfctrs", "power_down", "reboot",
    "reboot_issued",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesSeen:
    """The nodes that answered, in groups that are alike, and a finding for each that did not."""

    groups: tuple[AlikeNodes, ...]
    silent: tuple[Finding, ...]
    words: tuple[str, ...] = ()


def inspect_nodes(
    probe: SrunProbe,
    question: NodeQuestion,
    nodelist: str | None,
    progress: Callable[[int, int], None],
) -> NodesSeen:
    """Ask the nodes of a list, or those of the question's job, what they are.

    `progress` is told how many of how many have answered. Nodes that Slurm itself cannot reach are
    not asked. Raises ConfigError for a list without nodes, AdapterError when nobody can be asked.
    """
    listed = probe.nodes(nodelist or probe.nodes_of_job(question.job_id or ""))
    if not listed:
        raise ConfigError(f"no node in {nodelist!r}", hint="give a list such as c[1-4] or c1,c7")
    silent = [
        NodeAnswer(node=node.name, because=because)
        for node in listed
        if (because := _unreachable(node, in_job=question.job_id is not None)) is not None
    ]
    lost = {answer.node for answer in silent}
    asked = [node for node in listed if node.name not in lost]
    heard: dict[str, NodeAnswer] = {}

    def hear(answer: NodeAnswer) -> None:
        heard[answer.node] = answer
        progress(len(heard), len(asked))

    words: Sequence[str] = ()
    if asked:
        progress(0, len(asked))
        words = probe.ask(replace(question, nodes=tuple(one.name for one in asked)), hear)
    answers = [_judged(node, heard.get(node.name), question, words) for node in asked]
    silent += [answer for answer in answers if answer.topology is None]
    return NodesSeen(
        groups=group_alike(answers),
        silent=tuple(map(silent_node, sorted(silent, key=lambda one: natural_order(one.node)))),
        words=tuple(words),
    )


def _unreachable(node: SlurmNode, *, in_job: bool) -> str | None:
    if node.state is None:
        return "no such node in Slurm"
    if not node.is_responding:
        return f"Slurm: node not responding ({node.state})"
    if node.is_powered_off and not in_job:
        return f"powered off ({node.state}); a job would boot it"
    if node.state in (_GONE if in_job else _CLOSED):
        return f"Slurm starts no jobs there: {node.state}"
    return None


def _judged(
    node: SlurmNode, answer: NodeAnswer | None, question: NodeQuestion, words: Sequence[str]
) -> NodeAnswer:
    if answer is None:
        said = words_about(node.name, words)
        reason = f" within {question.timeout_s:g} s" if said is None else f": {said}"
        return NodeAnswer(node=node.name, because=f"no answer{reason}")
    if answer.topology is None:
        return answer
    findings = node_findings(
        answer.topology,
        expected_gpus=question.expected_gpus
        if question.expected_gpus is not None
        else _expected_gpus(node, answer.topology),
    )
    return replace(answer, findings=findings)


def _expected_gpus(node: SlurmNode, topology: NodeTopology) -> int | None:
    """What Slurm gives out on the node, unless it hides GPUs from who did not ask for them."""
    is_hiding = any(gpu.is_hidden for gpu in topology.gpus)
    is_whole = node.has_mig or len(topology.gpus) >= node.gpus
    if not node.gpus or (is_hiding and is_whole):
        return None
    return node.gpus
