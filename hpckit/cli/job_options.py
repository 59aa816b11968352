"""The options that say a job: shared by `render` and `submit`, each standing over a file's key."""

from __future__ import annotations

import json
import re
import shlex
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import click

from hpckit import wiring
from hpckit.cli.job_argument import complete_site, site_here
from hpckit.cli.sbatch_words import (
    COUNTED,
    as_hpckit_says,
    count_per_node,
    events,
    name_alone,
    one_dash,
)
from hpckit.core.errors import ConfigError, HpckitError
from hpckit.core.late import regex
from hpckit.spec.tokens import refuse_file, refuse_words

if TYPE_CHECKING:
    from hpckit.account.advice.outcome import AdvisedJob
    from hpckit.jobs.source import JobSource
    from hpckit.node.topology import NodeTopology
    from hpckit.slurm.values import SlurmVersion


_COMMAND = "hpckit.command"
_TYPED = "hpckit.typed"
_PROGRAMS = {".py": "python3", ".sh": "bash"}
_SCRIPTS = frozenset((".sbatch", ".slurm", ".batch", ".job"))
_MOST_BYTES = 1024**2
_OF_VARIABLES: Final = ("environment.set", "tune.env")


class JobCommand(click.Command):
    """A command whose words after `--` are the job's own command, never options of ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words after the first `--` apart."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[at + 1 :])
            args = args[:at]
            self._refuse_options_behind(ctx, args)
        args = list(as_hpckit_says(args))
        if wrong := one_dash(args, ctx):
            raise wrong
        refuse_words(args, ctx.meta.get(_COMMAND, ()))
        ctx.meta[_TYPED] = tuple(args)
        try:
            return super().parse_args(ctx, list(args))
        except click.UsageError as error:
            job = str(ctx.params.get("job"))
            if isinstance(error, click.NoSuchOption):
                unknown = next((at for at, word in enumerate(args)
                                if word.startswith(error.option_name)), 0)  # fmt: skip
                job = next((word for word in args[:unknown] if _runs(word)), "")
            elif "unexpected extra argument" not in error.message:
                raise
            if job.endswith(".toml"):
                raise click.UsageError("give one job file only", ctx) from None
            if job not in args:
                raise
            at = args.index(job)
            program = [_PROGRAMS[Path(job).suffix]] if Path(job).suffix in _PROGRAMS else []
            typed = shlex.join([*args[:at], "--", *program, *args[at:]])
            hint = f"a command goes after --: hpckit {ctx.info_name} {typed}"
            raise click.UsageError(hint, ctx) from None

    def _refuse_options_behind(self, ctx: click.Context, args: Sequence[str]) -> None:
        """Raise UsageError where the words after `--` begin with options of this command."""
        command = ctx.meta[_COMMAND]
        if not command or not command[0].startswith("-"):
            return
        if wrong := one_dash(command, ctx):
            raise wrong
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = False
        parsed, rest, _ = parser.parse_args(list(command))
        if not isinstance(parsed.get("job"), str) or len(rest) + 1 == len(command):
            return  # no program, or what every command has, as --help
        at = len(command) - len(rest) - 1
        typed = shlex.join([*args, *command[:at], "--", *command[at:]])
        raise click.UsageError(f"options go before --: hpckit {ctx.info_name} {typed}", ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups, the command's own first."""
        options = {param.name or "": param for param in self.get_params(ctx)
                   if isinstance(param, click.Option)}  # fmt: skip
        grouped = {head: names.split() for head, names in _GROUPS.items()}
        elsewhere = {name for names in grouped.values() for name in names}
        own = [name for name in options if name not in elsewhere]
        for head, names in {"Options": own, **grouped}.items():
            records = [options[name].get_help_record(ctx) for name in names if name in options]
            with formatter.section(head):
                formatter.write_dl([record for record in records if record], col_max=34)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Say in the usage line that a command may follow."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


class _Override(NamedTuple):
    flag: str
    key: str
    metavar: str
    help: str
    short: str = ""
    """sbatch's letter, and its name where that is another."""
    kind: Any = str
    multiple: bool = False


_OVERRIDES: Final = (
    _Override("--name", "name", "NAME", "Job name.", "-J --job-name"),
    _Override("--nodes", "resources.nodes", "N", "Number of nodes.", "-N", int),
    _Override("--ntasks-per-node", "resources.ntasks_per_node", "N",
              "Ranks per node. [default: what --launch needs]", "", int),
    _Override("--cpus-per-task", "resources.cpus_per_task", "N", "CPUs per rank.", "-c", int),
    _Override("--gpus-per-node", "resources.gpus_per_node", "[TYPE:]N", "GPUs per node.", "", int),
    _Override("--gpu-type", "resources.gpu_type", "TYPE", "GPU type as in gres.conf: h100."),
    _Override("--mem", "resources.mem", "SIZE", "Memory per node: 64G; 0 for all of it."),
    _Override("--mem-per-cpu", "resources.mem_per_cpu", "SIZE", "Memory per CPU: 4G."),
    _Override("--mem-per-gpu", "resources.mem_per_gpu", "SIZE", "Memory per GPU: 64G."),
    _Override("--time", "resources.time_limit", "TIME", "Time limit: 8:00:00.", "-t"),
    _Override("--account", "slurm.account", "NAME", "Account to charge.", "-A"),
    _Override("--partition", "slurm.partition", "NAME", "Partition.", "-p"),
    _Override("--qos", "slurm.qos", "NAME", "Quality of service.", "-q"),
    _Override("--constraint", "slurm.constraint", "FEATURES", "Required node features.", "-C"),
    _Override("--reservation", "slurm.reservation", "NAME", "Reservation."),
    _Override("--nodelist", "slurm.nodelist", "NODES", "Nodes to use.", "-w"),
    _Override("--exclude", "slurm.exclude", "NODES", "Nodes to avoid.", "-x"),
    _Override("--dependency", "slurm.dependency", "JOBS", "Start after: afterok:4242.", "-d"),
    _Override("--array", "slurm.array", "INDEXES", "Job array: 0-31%8.", "-a"),
    _Override("--licenses", "slurm.licenses", "LIST", "Licenses.", "-L"),
    _Override("--begin", "slurm.begin", "TIME", "Earliest start: 20:00.", "-b"),
    _Override("--signal", "slurm.signal", "SIGNAL", "Signal before the limit: B:USR2@120."),
    _Override("--switches", "slurm.switches", "N[@TIME]", "Leaf switches at most."),
    _Override("--comment", "slurm.comment", "TEXT", "Comment for sacct."),
    _Override("--mail-user", "slurm.mail_user", "ADDRESS", "Mail recipient."),
    _Override("--mail-type", "slurm.mail_type", "EVENTS", "Events: END,FAIL.", "", events),
    _Override("--launch", "launch.kind", "KIND",
              "How ranks start: plain, mpi, torchrun, … [default: plain]"),
    _Override("--chdir", "chdir", "DIR", "Folder in which the job runs.", "-D"),
    _Override("--pass", "environment.pass", "NAME",
              "Export NAME although hpckit blocks it (NCCL_*, SLURM_*, …).", "", name_alone, True),
    _Override("--secret", "environment.secrets", "NAME",
              "Give NAME of this shell to the ranks, without a trace.", "", str, True),
    _Override("--not-secret", "environment.not_secrets", "KEY",
              "Accept a value that only looks like a token.", "", str, True),
    _Override("--nccl", "tune.nccl", "RELEASE", "NCCL or RCCL that the job loads: 2.27."),
    _Override("--plugin", "tune.plugin", "NAME", "Its network plugin: aws-ofi-nccl, none."),
    _Override("--overlay", "tune.overlays", "NAME", "Apply an overlay of the site.", "", str, True),
)  # fmt: skip

_FLAGS: Final = {
    "--no-measure": ("account.enabled", False, "Do not run the sampler: no hpckit report."),
    "--no-account": ("account.enabled", False, None),
    "--no-order": ("place.order", False, "Keep Slurm's order of nodes."),
    "--no-bind": ("place.bind", False, "Do not bind ranks to cores near their GPUs."),
    "--no-tune": ("tune.derive", False, "Set no communication variable but the job's own."),
    "--strict-placement": (
        "place.strict", True, "End the job if a rank is not where it was planned."),
}  # fmt: skip
"""Flag → the key that it decides, how, and its help; none of an old name."""

_GROUPS: Final = {
    "Resources": "over_name over_nodes ntasks over_ntasks_per_node over_cpus_per_task gpus"
    " over_gpus_per_node gpus_per_task gres over_gpu_type over_mem over_mem_per_cpu"
    " over_mem_per_gpu over_time exclusive",
    "Queue": "over_account over_partition over_qos over_constraint over_reservation over_nodelist"
    " over_exclude over_dependency over_array over_licenses over_begin over_signal over_switches"
    " requeue over_comment over_mail_user over_mail_type",
    "Launch": "over_launch over_chdir env over_pass over_secret over_not_secret settings",
    "Placement and communication": "no_order no_bind strict_placement no_tune over_nccl"
    " over_plugin over_overlay topology no_measure",
    "Site and job file": "site site_dirs template template_dirs slurm_version from_report stage"
    " component",
}
"""Heading of --help → its options; all others come first."""


class JobOptions(SimpleNamespace):
    """Which job is meant, what is typed over its file, and the command's own options.

    `values` are what is typed, key → (value, option), and `words` the same as words of a command
    line; `command` is what stands behind `--`.
    """

    job: str | None
    site: str | None
    slurm_version: SlurmVersion | None
    from_report: str | None
    topology: str | None
    stage: str | None
    component: str | None
    template: str | None
    site_dirs: tuple[Path, ...]
    template_dirs: tuple[Path, ...]
    values: Mapping[str, tuple[object, str]]
    words: tuple[str, ...]
    command: tuple[str, ...]

    @classmethod
    def of(cls, ctx: click.Context, params: Mapping[str, Any]) -> Self:
        """Return the options as click read them. Raises click.UsageError."""
        values, words = _given(params)
        over_file = [ctx.params.get(name) for name in ("job", "again", "script")]
        count_per_node(params, values, words, is_over_file=any(over_file))
        command = ctx.meta.get(_COMMAND, ())
        return cls(**params, values=values, words=tuple(words), command=command)


def _slurm_version(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> SlurmVersion | None:
    from hpckit.slurm.release import SlurmVersion

    try:
        return None if text is None else SlurmVersion.of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the JOB argument and every option that stands over a job file's key."""
    env = click.option("--env", multiple=True, metavar="NAME=VALUE",
                       help="Export a variable to the job.")  # fmt: skip
    return options_of_a_job(env(function))


def options_of_a_job(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same without --env."""
    decorators = [
        click.argument("job", required=False, metavar="[JOB]",
                       type=click.Path(allow_dash=True)),
        click.option("--site", default=wiring.user_site, show_default=False,
                     envvar="HPCKIT_SITE", show_envvar=True, metavar="NAME",
                     shell_complete=complete_site, help="Site file: hpckit sites list."
                     " [default: yours, else the one that names this cluster]"),
        click.option("--slurm-version", metavar="RELEASE", callback=_slurm_version,
                     help="Slurm release to check for. [default: the site's]"),
        click.option("--from-report", metavar="JOB_ID", callback=_named,
                     help="Apply the advice in that job's report; options override it."),
        click.option("--topology", type=click.Path(allow_dash=True), metavar="FILE",
                     help="Node to tune for: any file that hpckit inspect reads."),
        click.option("--stage", metavar="NAME", help="Stage of a job file with [[stages]]."),
        click.option("--component", metavar="NAME",
                     help="One component of a job file with [[component]], alone."),
        click.option("--template", metavar="NAME", help="Template. [default: the site's]"),
        click.option("--site-dir", "site_dirs", multiple=True, type=click.Path(path_type=Path),
                     metavar="DIR", help="Look for site files here first."),
        click.option("--template-dir", "template_dirs", multiple=True, metavar="DIR",
                     type=click.Path(path_type=Path), help="Look for templates here first."),
        *(click.option(*item.short.split(), item.flag, _parameter(item), type=item.kind,
                       metavar=item.metavar, multiple=item.multiple, help=item.help)
          for item in _OVERRIDES),
        *(click.option(*letter.split(), flag, flag[2:].replace("-", "_"), metavar=metavar,
                       help=text) for flag, (letter, metavar, text) in COUNTED.items()),
        click.option("--exclusive/--no-exclusive", default=None,
                     help="Do not share nodes with other jobs."),
        click.option("--requeue/--no-requeue", default=None,
                     help="Let Slurm requeue the job after a node failure or preemption."
                     " --requeue=expedite: ahead of all other jobs. [default: no]"),
        *(click.option(flag, is_flag=True, help=text, hidden=text is None)
          for flag, (_, _, text) in _FLAGS.items()),
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                     help="Any key of the job file: slurm.extra.hold=true."),
    ]  # fmt: skip
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def job_source(ctx: click.Context, options: JobOptions) -> JobSource:
    """Return the job that is asked for. Raises ConfigError, StorageFailed; usage errors exit 2."""
    if options.job is None and not options.command:
        raise click.UsageError("give a job file, or a command after --", ctx)
    return given_source(options)


def source_again(options: JobOptions, job_id: str) -> tuple[JobSource, Path]:
    """Return the job of a folder as it was decided then, and where it was submitted from.

    Only what was a default is left to the defaults of today; options override the rest. Raises
    HpckitError.
    """
    from hpckit.jobs.local_record import component_names
    from hpckit.jobs.source import JobSource
    from hpckit.jobs.track import find_task
    from hpckit.spec.job_folder import EFFECTIVE_FILE, SUBMITTED_FILE, TOPOLOGY_FILE
    from hpckit.spec.job_text import job_toml

    entry, _ = find_task(wiring.job_index(), job_id)
    folder, folders = Path(entry.folder), wiring.job_folders()
    if component_names(folder) or entry.is_component:
        raise HpckitError("--again takes no job with components", hint="hpckit submit FILE")
    origins = folders.read_json(folder, EFFECTIVE_FILE, "origins")["origins"]
    keys = {one["key"]: json.loads(one["value"]) for one in origins if one["origin"] != "default"}
    workdir = Path(folders.read_json(folder, SUBMITTED_FILE, "workdir")["workdir"])
    if not folders.is_folder(workdir):
        raise HpckitError(f"job {job_id} ran in {workdir}, which is gone")
    node = folder / TOPOLOGY_FILE
    source = JobSource(
        file_text=job_toml(keys),
        file_name="",
        options=options.values,
        option_words=options.words,
        command=(),
        site_name=options.site or entry.site,
        template=options.template or _template_of(folder),
        slurm_version=options.slurm_version,
        advised=None if options.from_report is None else advised(options.from_report),
        topology=_topology(options.topology or (str(node) if node.exists() else None), None),
        folder=workdir,
    )
    return source, workdir


def _template_of(folder: Path) -> str | None:
    """The template that a job's script names, where it is not the site's."""
    from hpckit.spec.job_folder import SCRIPT_FILE

    script = wiring.job_folders().read(folder, SCRIPT_FILE)
    match = re.search(r"^# reproduce[^\n]* --template (\S+)", script, re.MULTILINE)
    return None if match is None else shlex.split(match[1])[0]


def given_source(options: JobOptions) -> JobSource:
    """Return the job that is asked for, where there need not be one. Raises as `job_source`."""
    from hpckit.jobs.source import JobSource

    job = options.job
    text = None if job is None else read_job(job)
    if text is not None:
        refuse_file(text, str(job), options.words)
    advice = None
    if options.from_report is not None:
        advice = advised(options.from_report)
    return JobSource(
        file_text=text,
        file_name=job or "",
        options=options.values,
        option_words=options.words,
        command=options.command,
        site_name=options.site
        or site_here(options.site_dirs, quiet=getattr(options, "quiet", False)),
        template=options.template,
        slurm_version=options.slurm_version,
        stage=options.stage,
        component=options.component,
        advised=advice,
        topology=_topology(options.topology, job),
        defaults=wiring.user_defaults()[1],
        folder=wiring.workdir() if job in (None, "-") else Path(str(job)).resolve().parent,
    )


def typed_words(options: JobOptions) -> list[str]:
    """Return the options that say the job and where it runs, for another command line."""
    words: list[str] = []
    for name in (
        "topology",
        "site",
        "stage",
        "component",
        "template",
        "from_report",
        "slurm_version",
    ):
        value = getattr(options, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    for option, folders in (
        ("--site-dir", options.site_dirs),
        ("--template-dir", options.template_dirs),
    ):
        words += [word for folder in folders for word in (option, str(folder))]
    return [*words, *options.words]


def _topology(file: str | None, job: str | None) -> NodeTopology | None:
    """Return the node that --topology names. Raises HpckitError, click.UsageError."""
    if file is None:
        return None
    if file == job == "-":
        raise click.UsageError("only one of JOB and --topology can be standard input")
    from hpckit.node.capture.snapshot import inspect_capture

    return inspect_capture(*wiring.read_capture(file))[0]


def _runs(word: str) -> bool:
    """Return whether a word is what begins a command rather than a job file or a value."""
    return word in _LAUNCHERS or Path(word).suffix in _PROGRAMS


def _parameter(item: _Override) -> str:
    return "over_" + item.flag.removeprefix("--").replace("-", "_")


def _named(_ctx: click.Context, _param: click.Parameter, text: str | None) -> str | None:
    """Return the value of an option, which another option cannot be."""
    if text is not None and text.startswith("--"):
        raise click.BadParameter(f"got the option {text}, expected a job ID")
    return text


_LAUNCHERS = frozenset(("accelerate", "bash", "deepspeed", "mpirun", "python", "python3", "srun",
                        "torchrun"))  # fmt: skip
_UNIT = regex("[KMGT](i?B)?|h|hours?|min|minutes?|days?", re.IGNORECASE)


def read_job(job: str) -> str:
    """Return the text of a job file; `-` is standard input. Raises ConfigError."""
    if stat.S_ISFIFO(_mode(job)) and not job.startswith(("/dev/", "/proc/")):
        raise ConfigError("is a named pipe, which may never end", source=job)
    if is_batch_script(job):
        name = shlex.quote(job)
        hint = f"hpckit init --from {name} makes one of it; hpckit check {name} checks it as is"
        if (ctx := click.get_current_context(silent=True)) and ctx.info_name == "tune":
            hint = f"hpckit tune --lint {name}"
        raise ConfigError("is a batch script, not a job file", source=job, hint=hint)
    if Path(job).suffix in _PROGRAMS:
        ctx = click.get_current_context(silent=True)
        args = ctx.meta.get(_TYPED) if ctx else None
        command = ctx.info_name if ctx and ctx.info_name and args else "submit"
        typed = (word for word in args or () if word != job)
        run = shlex.join([command, *typed, "--", _PROGRAMS[Path(job).suffix], job])
        raise ConfigError(
            "is a program, not a job file",
            source=job,
            hint=f"a program goes after --: hpckit {run}",
        )
    if job == "-" and sys.stdin is None:
        raise ConfigError("is closed", source="standard input")
    hint = "give a job file, or a command after --"
    if job.endswith(".toml"):
        hint = "hpckit init writes a job file"
    elif _UNIT.fullmatch(job):
        hint = "write a value in one word: --mem 64G, --time 2:00:00"
    return _text(job, "job file", hint=hint)


def is_batch_script(file: str) -> bool:
    """Return whether a file is for sbatch: by its suffix, or as it has #! and #SBATCH lines."""
    if Path(file).suffix in _SCRIPTS:
        return True
    if not stat.S_ISREG(_mode(file)):
        return False
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(_MOST_BYTES)
    except OSError:
        return False
    return data.startswith(b"#!") and b"\n#SBATCH" in data


def _mode(file: str) -> int:
    try:
        return 0 if file == "-" else Path(file).stat().st_mode
    except (OSError, ValueError):
        return 0


def _text(file: str, kind: str, *, hint: str) -> str:
    """Return what a file of this kind holds; `-` is standard input. Raises ConfigError."""
    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as opened:
            raw = opened.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            over = f"it is over {_MOST_BYTES // 1024} KiB"
            raise ConfigError(f"is no {kind}: {over}", source=file)
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text: {error}", source=file) from error
    except OSError as error:
        hint = _file_meant(Path(file)) or hint
        raise ConfigError(f"cannot be read: {error.strerror}", source=file, hint=hint) from error


def _file_meant(file: Path) -> str | None:
    """Return the job file in a folder that was given, or the one of nearly that name."""
    import difflib

    if file.is_dir():
        return f"{file / 'job.toml'}" if (file / "job.toml").is_file() else None
    there = [path.name for path in file.parent.glob("*.toml")] if file.parent.is_dir() else []
    near = difflib.get_close_matches(file.name, there, n=1, cutoff=0.7)
    return f"did you mean {file.parent / near[0]}?" if near else None


def _given(params: Mapping[str, Any]) -> tuple[dict[str, tuple[object, str]], list[str]]:
    """Return the options that were typed: key → (value, option), and the same as words."""
    options: dict[str, tuple[object, str]] = {}
    words: list[str] = []
    for item in _OVERRIDES:
        value = params[_parameter(item)]
        if value is None or value == ():
            continue
        options[item.key] = (list(value) if item.multiple else value, item.flag)
        for single in value if item.multiple else (value,):
            words += [item.flag, ",".join(single) if isinstance(single, list) else str(single)]
    for flag, key in (("exclusive", "resources.exclusive"), ("requeue", "slurm.requeue")):
        if params[flag] is not None:
            spelled = f"--{flag}" if params[flag] else f"--no-{flag}"
            options[key] = (params[flag], spelled)
            words.append(spelled)
    for flag, (key, value, _) in _FLAGS.items():
        if params[flag.removeprefix("--").replace("-", "_")]:
            options[key] = (value, flag)
            words.append(flag)
    _settings(params.get("env", ()), params["settings"], options, words)
    return options, words


def _settings(
    variables: Sequence[str],
    settings: Sequence[str],
    options: dict[str, tuple[object, str]],
    words: list[str],
) -> None:
    for text in variables:
        name, value = _pair(text, "--env")
        if "." in name:
            raise click.UsageError(f"--env got {text!r}, expected a variable name before =")
        options[f"environment.set.{name}"] = (value, "--env")
        words += ["--env", text]
    for text in settings:
        key, value = _pair(text, "--set")
        options[key] = (value if _is_bare_text(key, value) else _toml_value(value), "--set")
        words += ["--set", text]


def _is_bare_text(key: str, value: str) -> bool:
    """Whether a value needs no quotes, as its key holds text: `slurm.switches=1`, a variable."""
    from hpckit.spec.merge import is_text_key

    is_variable = key.rpartition(".")[0] in _OF_VARIABLES
    return not value.startswith(('"', "'")) and (is_variable or is_text_key(key))


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{flag} got {text!r}, expected NAME=VALUE")
    return name, value


def _toml_value(text: str) -> object:
    """Return a TOML value where the text is one, else the text itself.

    A job file holds no dates: what TOML would read as one (00:30:00) is text here.
    """
    import tomllib

    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    value = read["value"] if len(read) == 1 else None
    return value if isinstance(value, str | int | float | list | dict) else text


def advised(wanted: str) -> AdvisedJob:
    """Return the advice of the job with this id, or that a job folder has in its `advice.json`.

    Raises HpckitError for a job that is not known or has no accounts, ConfigError for a file that
    is no advice.
    """
    from hpckit.account.advice.advice import advised_job, read_advice
    from hpckit.api import made_report

    if wanted.endswith(".json"):
        hint = "pass a job ID, or the advice.json of a job folder"
        return read_advice(_text(wanted, "advice", hint=hint), wanted)
    report = made_report(wanted, None, lambda _done, _of: None).report
    return advised_job(report, Path(report.job.folder or "."), wiring.job_folders())
