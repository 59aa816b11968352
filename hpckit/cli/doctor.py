"""`hpckit doctor`: whether this machine is ready to run and submit jobs."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

import hpckit
from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_argument import site_here
from hpckit.core.errors import (
    AdapterError,
    ConfigError,
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
from hpckit.spec.pace import SubmitterKind
from hpckit.spec.site import SiteSpec
from hpckit.spec.store import FileJobFolders

if TYPE_CHECKING:
    from hpckit.jobs.draft import Caller
    from hpckit.spec.merge import Layer


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
        "the outcome of jobs older than MinJobAge",
        needed=False,
        hint="until then jobs are tracked by squeue and scontrol only",
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
        words = _first_line(answer.stderr) or _first_line(answer.stdout) or "no output"
        text = f"exit code {answer.returncode}: {words}"
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
        text = f"cannot be queried: {error.message.splitlines()[0]}"
        yield _notice(Level.NOTE, "cluster", text, remedy)
        return
    named = None if site is None else site.slurm.cluster
    if is_another_cluster(named, view.config):
        text = f"{_words(view)}; the site file names {named}: nothing is submitted from here"
        remedy = "work on a login node of that cluster, or correct slurm.cluster"
        yield _notice(Level.ERROR, "cluster", text, remedy)
        return
    yield _notice(Level.OK, "cluster", _words(view))
    if view.unread is not None:
        text = f"cannot be read: {view.unread.splitlines()[0]}"
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
        text = f"{named(down)} {'starts' if len(down) == 1 else 'start'} no jobs at present"
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
        text = f"no NVIDIA driver here ({refused})"
        return _notice(Level.NOTE, "GPUs", text, "normal on a login node")
    version = said.host.driver_version or "unknown"
    return _notice(Level.OK, "GPUs", f"{len(said.gpus)} NVIDIA GPUs · driver {version}")


def examine_defaults(file: Path, site: str | None, layer: Layer | None) -> Iterator[Notice]:
    """Yield what the user's file of defaults says, where there is one."""
    if layer is None:
        return
    said = [f"site {site}"] if site else []
    said += [f"slurm.{name}" for name in layer.tree["slurm"]]
    yield _notice(Level.OK, "defaults", f"{file}: {', '.join(said) or 'none'}")


def examine_pyslurm(found: PyslurmProbe) -> Notice:
    """Return whether pyslurm could be asked in place of commands, which do without it."""
    if found.release is None:
        return _notice(Level.OK, "pyslurm", "not installed: Slurm's commands are used (fine)")
    if found.refused is None:
        text = f"{found.release}, matches libslurm; {SETTING}=pyslurm uses it"
        return _notice(Level.OK, "pyslurm", text)
    text = f"{found.release} is not used: {found.refused}"
    return _notice(Level.NOTE, "pyslurm", text, "Slurm's commands are used instead")


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
    text = f"{job_root} does not exist yet, and can be created"
    remedy = "on a cluster, check that its file system is mounted"
    return _notice(Level.NOTE, subject, text, remedy)


def _index(index: SqliteJobIndex) -> Notice:
    try:
        index.latest(None)
    except HpckitError as error:
        return _notice(Level.ERROR, "job index", error.message, error.hint)
    return _notice(Level.OK, "job index", "readable")


_COLOURS = {"ok": "green", "note": "yellow", "error": "red"}


@click.command("doctor")
@click.option("--site", default=wiring.user_site, show_default=False, envvar="HPCKIT_SITE",
              help="Check for jobs at this site. [default: yours, the one that names this "
                   "cluster, else local]")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def doctor_command(ctx: click.Context, site: str | None, *, as_json: bool) -> None:
    """Check that this machine is ready to run and submit jobs; exit 1 if it is not."""
    from hpckit.jobs.sites import load_site
    from hpckit.slurm.pyslurm_ask import probe_pyslurm

    site = site or site_here() or "local"
    caller = wiring.caller()
    spec = load_site(wiring.resources(), site)
    runner = wiring.command_runner()
    looked_at = examine(
        runner,
        wiring.job_folders(),
        wiring.job_index(),
        _expanded_root(spec.job_root, caller),
        submitter=spec.submitter,
        site=spec,
        probe=wiring.cluster_probe() if spec.submitter == "slurm" else None,
    )
    findings = [*looked_at, *examine_defaults(wiring.user_config(), *wiring.user_defaults())]
    if spec.submitter == "slurm":
        findings.append(examine_pyslurm(probe_pyslurm(runner)))
    findings.append(examine_gpus(wiring.gpu_driver().read()))
    if as_json:
        about = {"schema": "hpckit.doctor/1", "hpckit": hpckit.__version__}
        output.document({**about, "findings": findings})
    else:
        output.result(f" {_verdict(findings, site)} · hpckit {hpckit.__version__} on {caller.host}")
        output.remarks([_row(finding) for finding in findings])
        output.result(f" next  {_next(findings)}")
    if any(finding.level == "error" for finding in findings):
        ctx.exit(1)


def _verdict(findings: Sequence[Notice], site: str) -> str:
    """Return in a few words what jobs can be run from here."""
    wrong = [finding.subject for finding in findings if finding.level is Level.ERROR]
    if wrong:
        return f"not ready for site {site}: {', '.join(wrong)}"
    lacks = [finding for finding in findings if finding.subject == "sbatch" and
             finding.level is Level.NOTE]  # fmt: skip
    return f"ready for site {site}" + ("; not for Slurm: no sbatch here" if lacks else "")


def _next(findings: Sequence[Notice]) -> str:
    wrong = next((finding for finding in findings if finding.level is Level.ERROR), None)
    if wrong is not None and wrong.remedy:
        return wrong.remedy
    return "hpckit demo · hpckit init"


def _expanded_root(job_root: str, caller: Caller) -> Path | ConfigError:
    from hpckit.jobs.submit import expand_job_root

    try:
        return expand_job_root(job_root, caller)
    except ConfigError as error:
        return error


def _row(finding: Notice) -> tuple[str, str, str]:
    text = finding.text if finding.remedy is None else f"{finding.text} · {finding.remedy}"
    return click.style(str(finding.level), fg=_COLOURS[finding.level]), finding.subject, text
