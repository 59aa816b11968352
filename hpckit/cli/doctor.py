"""What this machine has and lacks for each thing that hpckit does."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hpckit
from hpckit.cli import output, wiring
from hpckit.core.errors import (
    AdapterError,
    ConfigError,
    HpckitError,
    ParseError,
    SchedulerUnreachable,
    ToolMissing,
)
from hpckit.script.launchers.registry import LAUNCHERS
from hpckit.spec.site import SubmitterKind

if TYPE_CHECKING:
    from hpckit.core.findings import Notice
    from hpckit.core.process import CommandRunner
    from hpckit.fabric.ask import FabricProbe
    from hpckit.jobs.draft import Caller
    from hpckit.jobs.index import SqliteJobIndex
    from hpckit.node.inspect import GpuDriver
    from hpckit.slurm.values import ClusterView
    from hpckit.spec.site import SiteSpec
    from hpckit.spec.store import FileJobFolders


_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
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
TOOLS = (
    Tool(argv=("bash", "--version"), serves="running scripts", needed=True,
         hint="install the package bash"),
    Tool(argv=("sbatch", "--version"), serves="submitting to Slurm", needed=False,
         hint="work on a login node of a cluster, or use --local"),
    *(
        Tool(argv=launcher.tool.argv, serves=f'launch.kind = "{launcher.kind}" with --local',
             needed=False, hint=launcher.tool.hint, says_what_it_is=launcher.tool.says_what_it_is)
        for launcher in reversed(list(LAUNCHERS.values())) if launcher.tool is not None
    ),
)  # fmt: skip
SLURM_TOOLS = (
    TOOLS[0],
    replace(TOOLS[1], needed=True, hint=_LOGIN),
    Tool(argv=("scontrol", "ping"), serves="submitting and tracking jobs", needed=True, hint=_LOGIN,
         ailing="slurmctld may be restarting; `scontrol ping` says what Slurm sees"),
    Tool(argv=("sacct", "--noheader", "--allocations", "--starttime=now"), needed=False,
         serves="knowing how jobs ended that Slurm's controller has forgotten (MinJobAge)",
         hint="jobs are tracked by squeue and scontrol alone meanwhile", says_what_it_is=False),
)  # fmt: skip


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
    """All findings, in the order in which a new user meets the things they are about.

    `job_root` is where job folders go, or why that cannot be told. With a `probe` the cluster is
    looked at afresh, and held against what the file of `site` says.
    """
    from hpckit.core.findings import Level, Notice

    tools = SLURM_TOOLS if submitter is SubmitterKind.SLURM else TOOLS
    looked_at = [_tool(runner, tool) for tool in tools]
    answers = all(one.level is not Level.ERROR for one in looked_at)
    findings = [
        Notice(level=Level.OK, subject="python", text=platform.python_version()),
        *looked_at,
        *(_cluster(probe, site) if probe is not None and answers else ()),
        _job_root(folders, job_root, submitter),
        _index(index),
    ]
    return tuple(findings)


def _tool(runner: CommandRunner, tool: Tool) -> Notice:
    from hpckit.core.findings import Level, Notice

    name = tool.argv[0]
    missing = Level.ERROR if tool.needed else Level.NOTE
    try:
        answer = runner.run(tool.argv, _TIMEOUT_S)
    except AdapterError as error:
        text = f"{error.message}; needed for {tool.serves}"
        hint = tool.hint if isinstance(error, ToolMissing) else tool.ailing or tool.hint
        return Notice(level=missing, subject=name, text=text, remedy=hint)
    if answer.returncode != 0:
        words = _first_line(answer.stderr) or _first_line(answer.stdout) or "it says nothing"
        text = f"answers with code {answer.returncode}: {words}"
        return Notice(level=missing, subject=name, text=text, remedy=tool.ailing or tool.hint)
    said = _first_line(answer.stdout) if tool.says_what_it_is else ""
    return Notice(level=Level.OK, subject=name, text=said or "answers")


def _cluster(probe: FabricProbe, site: SiteSpec | None) -> Iterator[Notice]:
    """What submissions are checked against, and where the site file says something else."""
    from hpckit.core.findings import Level, Notice
    from hpckit.script.releases import is_another_cluster, release_note

    try:
        view = probe.look(None, fresh=True)
    except (AdapterError, ParseError) as error:
        yield Notice(
            level=Level.NOTE,
            subject="cluster",
            text=f"it cannot be looked at: {error.message.splitlines()[0]}",
            remedy="submissions are refused until it answers"
            if isinstance(error, SchedulerUnreachable)
            else "submissions are not checked against it",
        )
        return
    named = None if site is None else site.slurm.cluster
    if is_another_cluster(named, view.config):
        yield Notice(
            level=Level.ERROR,
            subject="cluster",
            text=f"{_words(view)}; the site file says {named}: nothing is submitted from here",
            remedy="work on a login node of that cluster, or correct slurm.cluster",
        )
        return
    yield Notice(level=Level.OK, subject="cluster", text=_words(view))
    if view.unread is not None:
        yield Notice(
            level=Level.NOTE,
            subject="partitions",
            text=f"they cannot be read: {view.unread.splitlines()[0]}",
            remedy="submissions are not checked against them",
        )
    note = None if site is None else release_note(site, view.config)
    if note is not None:
        yield note


def _words(view: ClusterView) -> str:
    config = view.config
    said = (
        ("", config.cluster_name),
        ("Slurm ", config.version),
        ("", config.topology_plugin),
        ("MaxArraySize ", config.max_array_size),
    )
    words = [f"{label}{value}" for label, value in said if value is not None]
    names = [one.name + ("*" if one.is_default else "") for one in view.partitions]
    if names:
        words.append(f"{'partition' if len(names) == 1 else 'partitions'} {', '.join(names)}")
    return " · ".join(words)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def examine_gpus(driver: GpuDriver) -> Notice:
    """Which NVIDIA GPUs the driver shows here, or why none."""
    from hpckit.core.findings import Level, Notice

    said = driver.read()
    refused = next((one.because for one in said.unknown if one.what == "gpus"), None)
    if refused is not None:
        text = f"{refused}; needed for NVIDIA GPUs in `hpckit inspect`"
        hint = "on a login node this is as it should be"
        return Notice(level=Level.NOTE, subject="GPUs", text=text, remedy=hint)
    text = f"{len(said.gpus)} NVIDIA GPUs · driver {said.host.driver_version or 'unknown'}"
    return Notice(level=Level.OK, subject="GPUs", text=text)


def _job_root(
    folders: FileJobFolders, job_root: Path | HpckitError, submitter: SubmitterKind
) -> Notice:
    from hpckit.core.findings import Level, Notice

    subject = "job folders"
    try:
        if isinstance(job_root, HpckitError):
            raise job_root
        folders.probe(job_root)
    except HpckitError as error:
        return Notice(level=Level.ERROR, subject=subject, text=error.message, remedy=error.hint)
    if submitter is SubmitterKind.LOCAL or folders.is_folder(job_root):
        return Notice(level=Level.OK, subject=subject, text=f"{job_root} (writable)")
    return Notice(
        level=Level.NOTE,
        subject=subject,
        text=f"{job_root} is not there yet, and can be made",
        remedy="on a cluster, look that its file system is mounted",
    )


def _index(index: SqliteJobIndex) -> Notice:
    from hpckit.core.findings import Level, Notice

    subject = "job index"
    try:
        index.latest(None)
    except HpckitError as error:
        return Notice(level=Level.ERROR, subject=subject, text=error.message, remedy=error.hint)
    return Notice(level=Level.OK, subject=subject, text="readable")


_COLOURS = {"ok": "green", "note": "yellow", "error": "red"}


@click.command("doctor")
@click.option("--site", default="local", show_default=True, envvar="HPCKIT_SITE",
              help="For jobs at this site.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def doctor_command(ctx: click.Context, site: str, *, as_json: bool) -> None:
    """Say what this machine has and lacks; exit 1 if something needed is missing."""
    from hpckit.jobs.sites import load_site

    caller = wiring.caller()
    spec = load_site(wiring.resources(), site)
    looked_at = examine(
        wiring.command_runner(),
        wiring.job_folders(),
        wiring.job_index(),
        _root_row(spec.job_root, caller),
        submitter=spec.submitter,
        site=spec,
        probe=wiring.cluster_probe() if spec.submitter is SubmitterKind.SLURM else None,
    )
    findings = [*looked_at, examine_gpus(wiring.gpu_driver())]
    if as_json:
        output.document(_document(findings))
    else:
        output.result(f" hpckit {hpckit.__version__} on {caller.host} · site {site}")
        output.remarks([_row(one) for one in findings])
    if any(one.level == "error" for one in findings):
        ctx.exit(1)


def _root_row(job_root: str, caller: Caller) -> Path | ConfigError:
    from hpckit.jobs.submit import expand_job_root

    try:
        return expand_job_root(job_root, caller)
    except ConfigError as error:
        return error


def _document(findings: Sequence[Notice]) -> dict[str, object]:
    from hpckit.core.fields import to_tree

    return {
        "schema": "hpckit.doctor/1",
        "hpckit": hpckit.__version__,
        "findings": [to_tree(one) for one in findings],
    }


def _row(one: Notice) -> tuple[str, str, str]:
    text = one.text if one.remedy is None else f"{one.text} · {one.remedy}"
    return click.style(str(one.level), fg=_COLOURS[one.level]), one.subject, text
