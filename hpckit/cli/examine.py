"""What this machine has and lacks for each thing that hpckit does."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hpckit.core.errors import (
    AdapterError,
    HpckitError,
    ParseError,
    SchedulerUnreachable,
    ToolMissing,
)
from hpckit.core.findings import Level, Notice
from hpckit.core.hostlist import named
from hpckit.core.process import CommandRunner
from hpckit.fabric.ask import FabricProbe
from hpckit.jobs.index import SqliteJobIndex
from hpckit.node.topology import NodeTopology
from hpckit.script.launchers.registry import LAUNCHERS
from hpckit.script.releases import is_another_cluster, release_note
from hpckit.slurm.pyslurm_ask import SETTING, PyslurmProbe
from hpckit.slurm.values import ClusterView
from hpckit.spec.site import SiteSpec, SubmitterKind
from hpckit.spec.store import FileJobFolders

_TIMEOUT_S = 5.0


class Tool(NamedTuple):
    """An external program: how to ask it, what needs it, how to get it.

    `says_what_it_is` is False where the answer is of no use but that it came. `ailing` is what to
    do where the program is there and does not answer well; None where that is the same.
    """

    argv: tuple[str, ...]
    serves: str
    needed: bool
    hint: str
    says_what_it_is: bool = True
    ailing: str | None = None


_LOGIN = "work on a login node of the cluster"
_BASH = Tool(("bash", "--version"), "running scripts", True, "install the package bash")
_SBATCH = Tool(
    ("sbatch", "--version"),
    "submitting to Slurm",
    needed=False,
    hint="work on a login node of a cluster, or use --local",
)
TOOLS = (
    _BASH,
    _SBATCH,
    *(
        Tool(
            launcher.tool.argv,
            f'launch.kind = "{launcher.kind}" with --local',
            needed=False,
            hint=launcher.tool.hint,
            says_what_it_is=launcher.tool.says_what_it_is,
        )
        for launcher in reversed(list(LAUNCHERS.values()))
        if launcher.tool is not None
    ),
)
SLURM_TOOLS = (
    _BASH,
    _SBATCH._replace(needed=True, hint=_LOGIN),
    Tool(
        ("scontrol", "ping"),
        "submitting and tracking jobs",
        needed=True,
        hint=_LOGIN,
        ailing="slurmctld may be restarting; `scontrol ping` says what Slurm sees",
    ),
    Tool(
        ("sacct", "--noheader", "--allocations", "--starttime=now"),
        "knowing how jobs ended that Slurm's controller has forgotten (MinJobAge)",
        needed=False,
        hint="jobs are tracked by squeue and scontrol alone meanwhile",
        says_what_it_is=False,
    ),
)


def examine(
    runner: CommandRunner,
    folders: FileJobFolders,
    index: SqliteJobIndex,
    job_root: Path | HpckitError,
    *,
    submitter: SubmitterKind = SubmitterKind.LOCAL,
    probe: FabricProbe | None = None,
    site: SiteSpec | None = None,
) -> Sequence[Notice]:
    """Return all findings, in the order in which a new user meets the things they are about.

    `job_root` is where job folders go, or why that cannot be told. With a `probe` the cluster is
    looked at afresh, and held against what the file of `site` says.
    """
    tools = SLURM_TOOLS if submitter is SubmitterKind.SLURM else TOOLS
    answers = [_tool(runner, tool) for tool in tools]
    is_asked = probe is not None and all(answer.level is not Level.ERROR for answer in answers)
    return (
        _notice(Level.OK, "python", platform.python_version()),
        *answers,
        *(_cluster(probe, site) if probe is not None and is_asked else ()),
        _job_root(folders, job_root, submitter),
        _index(index),
    )


def _notice(level: Level, subject: str, text: str, remedy: str | None = None) -> Notice:
    return Notice(level=level, subject=subject, text=text, remedy=remedy)


def _tool(runner: CommandRunner, tool: Tool) -> Notice:
    name = tool.argv[0]
    missing = Level.ERROR if tool.needed else Level.NOTE
    try:
        answer = runner.run(tool.argv, _TIMEOUT_S)
    except AdapterError as error:
        hint = tool.hint if isinstance(error, ToolMissing) else tool.ailing or tool.hint
        return _notice(missing, name, f"{error.message}; needed for {tool.serves}", hint)
    if answer.returncode != 0:
        words = _first_line(answer.stderr) or _first_line(answer.stdout) or "it says nothing"
        text = f"answers with code {answer.returncode}: {words}"
        return _notice(missing, name, text, tool.ailing or tool.hint)
    said = _first_line(answer.stdout) if tool.says_what_it_is else ""
    return _notice(Level.OK, name, said or "answers")


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _cluster(probe: FabricProbe, site: SiteSpec | None) -> Iterator[Notice]:
    """Yield what submissions are checked against, and where the site file says something else."""
    try:
        view = probe.look(None, fresh=True)
    except (AdapterError, ParseError) as error:
        silent = isinstance(error, SchedulerUnreachable)
        refused = "submissions are refused until it answers"
        remedy = refused if silent else "submissions are not checked against it"
        text = f"it cannot be looked at: {error.message.splitlines()[0]}"
        yield _notice(Level.NOTE, "cluster", text, remedy)
        return
    named = None if site is None else site.slurm.cluster
    if is_another_cluster(named, view.config):
        text = f"{_words(view)}; the site file says {named}: nothing is submitted from here"
        remedy = "work on a login node of that cluster, or correct slurm.cluster"
        yield _notice(Level.ERROR, "cluster", text, remedy)
        return
    yield _notice(Level.OK, "cluster", _words(view))
    if view.unread is not None:
        text = f"they cannot be read: {view.unread.splitlines()[0]}"
        remedy = "submissions are not checked against them"
        yield _notice(Level.NOTE, "partitions", text, remedy)
    note = None if site is None else release_note(site, view.config)
    if note is not None:
        yield note
    yield from _out_of_service(probe, view)


def _out_of_service(probe: FabricProbe, view: ClusterView) -> Iterator[Notice]:
    """Yield the partitions that start no jobs."""
    down = [one.name for one in view.partitions if not one.is_up]
    with contextlib.suppress(AdapterError, ParseError):
        seen = probe.in_service(None)
        down += [name for name, one in seen.items() if not one.nodes and name not in down]
    if down:
        text = f"{named(down)} {'starts' if len(down) == 1 else 'start'} no jobs now"
        yield _notice(
            Level.NOTE, "partitions", text, "sinfo --summarize; why: sinfo --list-reasons"
        )


def _words(view: ClusterView) -> str:
    config = view.config
    said = (
        ("", config.cluster_name),
        ("Slurm ", config.version),
        ("", config.topology_plugin),
        ("MaxArraySize ", config.max_array_size),
    )
    words = [f"{label}{value}" for label, value in said if value is not None]
    names = [
        partition.name + ("*" if partition.is_default else "") for partition in view.partitions
    ]
    if names:
        words.append(f"{'partition' if len(names) == 1 else 'partitions'} {', '.join(names)}")
    return " · ".join(words)


def examine_gpus(said: NodeTopology) -> Notice:
    """Return which NVIDIA GPUs the driver shows here, or why none."""
    refused = next((one.because for one in said.unknown if one.what == "gpus"), None)
    if refused is not None:
        text = f"{refused}; needed for NVIDIA GPUs in `hpckit inspect`"
        return _notice(Level.NOTE, "GPUs", text, "on a login node this is as it should be")
    version = said.host.driver_version or "unknown"
    return _notice(Level.OK, "GPUs", f"{len(said.gpus)} NVIDIA GPUs · driver {version}")


def examine_pyslurm(found: PyslurmProbe) -> Notice:
    """Return whether pyslurm could be asked in place of commands, which do without it."""
    if found.release is None:
        return _notice(Level.OK, "pyslurm", "not installed; Slurm's commands are asked")
    if found.refused is None:
        text = f"{found.release}, libslurm's release; {SETTING}=pyslurm has it asked"
        return _notice(Level.OK, "pyslurm", text)
    text = f"{found.release} is not used: {found.refused}"
    return _notice(Level.NOTE, "pyslurm", text, "Slurm's commands are asked in its place")


def _job_root(
    folders: FileJobFolders, job_root: Path | HpckitError, submitter: SubmitterKind
) -> Notice:
    subject = "job folders"
    try:
        if isinstance(job_root, HpckitError):
            raise job_root
        folders.probe(job_root)
    except HpckitError as error:
        return _notice(Level.ERROR, subject, error.message, error.hint)
    if submitter is SubmitterKind.LOCAL or folders.is_folder(job_root):
        return _notice(Level.OK, subject, f"{job_root} (writable)")
    text = f"{job_root} is not there yet, and can be made"
    remedy = "on a cluster, look that its file system is mounted"
    return _notice(Level.NOTE, subject, text, remedy)


def _index(index: SqliteJobIndex) -> Notice:
    try:
        index.latest(None)
    except HpckitError as error:
        return _notice(Level.ERROR, "job index", error.message, error.hint)
    return _notice(Level.OK, "job index", "readable")
