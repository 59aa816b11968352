"""The options that say a job: shared by `render` and `submit`, each standing over a file's key."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import click

from hpckit import wiring
from hpckit.cli.job_argument import complete_site
from hpckit.core.errors import ConfigError
from hpckit.spec.tokens import refuse_file, refuse_words

if TYPE_CHECKING:
    from hpckit.account.advice.outcome import AdvisedJob
    from hpckit.jobs.prepare import JobSource
    from hpckit.node.topology import NodeTopology
    from hpckit.slurm.values import SlurmVersion


_COMMAND = "hpckit.command"
_PROGRAMS = {".py": "python3", ".sh": "bash", ".sbatch": "bash"}
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
        refuse_words(args, ctx.meta.get(_COMMAND, ()))
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "unexpected extra argument" in error.message:
                hint = f"; a command goes after --: hpckit {ctx.info_name} -- COMMAND"
                raise click.UsageError(error.message.rstrip(".") + hint, ctx) from None
            raise

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Say in the usage line that a command may follow."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


class _Override(NamedTuple):
    flag: str
    key: str
    help: str
    kind: Any = str
    multiple: bool = False


_OVERRIDES: Final = (
    _Override("--name", "name", "Name of the job."),
    _Override("--nodes", "resources.nodes", "Nodes.", int),
    _Override("--ntasks-per-node", "resources.ntasks_per_node", "Ranks on each node.", int),
    _Override("--cpus-per-task", "resources.cpus_per_task", "CPUs of each rank.", int),
    _Override("--gpus-per-node", "resources.gpus_per_node", "GPUs on each node.", int),
    _Override("--gpu-type", "resources.gpu_type", "Type of the GPUs, such as h100."),
    _Override("--mem", "resources.mem", "Memory of each node, such as 64G; 0 is all."),
    _Override("--time", "resources.time_limit", "Time limit, such as 8:00:00."),
    _Override("--launch", "launch.kind", "What starts the ranks, such as torchrun."),
    _Override("--account", "slurm.account", "Slurm account to charge."),
    _Override("--partition", "slurm.partition", "Partition."),
    _Override("--qos", "slurm.qos", "Quality of service."),
    _Override("--constraint", "slurm.constraint", "Node features."),
    _Override("--reservation", "slurm.reservation", "Reservation."),
    _Override("--nodelist", "slurm.nodelist", "Nodes to include."),
    _Override("--exclude", "slurm.exclude", "Nodes to avoid."),
    _Override("--dependency", "slurm.dependency", "Jobs to wait for."),
    _Override("--array", "slurm.array", "Job array, such as 0-31%8."),
    _Override("--chdir", "chdir", "Folder in which the job runs."),
    _Override("--pass", "environment.pass", "Let a held-back variable through.", str, True),
    _Override("--secret", "environment.secrets", "Secret of this shell for the ranks.", str, True),
    _Override(
        "--not-secret",
        "environment.not_secrets",
        "Key or option whose text is no token though it looks like one.",
        str,
        True,
    ),
    _Override("--nccl", "tune.nccl", "Release of NCCL or RCCL that the job loads, such as 2.27."),
    _Override("--plugin", "tune.plugin", "Network plugin that the job loads: aws-ofi-nccl, none."),
    _Override("--overlay", "tune.overlays", "Overlay of the site to apply.", str, True),
)


_FLAGS: Final = {
    "--no-account": ("account.enabled", False),
    "--no-order": ("place.order", False),
    "--no-bind": ("place.bind", False),
    "--no-tune": ("tune.derive", False),
    "--strict-placement": ("place.strict", True),
}
"""Flag → the key that it decides, and how."""


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
        command = ctx.meta.get(_COMMAND, ())
        return cls(**params, values=values, words=tuple(words), command=command)


def _slurm_version(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> SlurmVersion | None:
    from hpckit.slurm.values import SlurmVersion

    try:
        return None if text is None else SlurmVersion.of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the JOB argument and every option that stands over a job file's key."""
    env = click.option("--env", multiple=True, metavar="NAME=VALUE", help="Export a variable.")
    return options_of_a_job(env(function))


def options_of_a_job(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same without --env."""
    decorators = [
        click.argument("job", required=False, metavar="[JOB]",
                       type=click.Path(allow_dash=True)),
        click.option("--site", envvar="HPCKIT_SITE", shell_complete=complete_site,
                     help="Site file to use (hpckit sites list)."),
        click.option("--slurm-version", metavar="RELEASE", callback=_slurm_version,
                     help="Release of Slurm to check for, such as 24.11, instead of the site's."),
        click.option("--from-report", metavar="JOB_ID",
                     help="Take the advice of that job's report; options stand over it."),
        click.option("--topology", type=click.Path(allow_dash=True), metavar="FILE",
                     help="What one of the nodes looks like (`hpckit inspect --json`, or any file"
                     " that hpckit inspect reads)."),
        click.option("--stage", help="The stage of a job file with [[stages]] that is meant."),
        click.option("--component",
                     help="The component of a job file with [[component]] that is meant, alone."),
        click.option("--template", help="Template to use instead of the site's."),
        click.option("--site-dir", "site_dirs", multiple=True, type=click.Path(path_type=Path),
                     help="Folder of site files that come first."),
        click.option("--template-dir", "template_dirs", multiple=True,
                     type=click.Path(path_type=Path), help="Folder of templates that come first."),
        *(click.option(item.flag, _parameter(item), type=item.kind, multiple=item.multiple,
                       help=item.help) for item in _OVERRIDES),
        click.option("--exclusive/--no-exclusive", default=None, help="Whole nodes."),
        click.option("--requeue/--no-requeue", default=None, help="May Slurm restart the job."),
        click.option("--no-account", is_flag=True,
                     help="Do not measure what the job uses: no ledger, no sampler, no"
                     " `hpckit report`. Not the opposite of --account."),
        click.option("--no-order", is_flag=True, help="Leave the nodes in Slurm's own order."),
        click.option("--no-bind", is_flag=True, help="Do not bind ranks to cores near their GPUs."),
        click.option("--no-tune", is_flag=True,
                     help="Set no communication variable that the job does not set itself."),
        click.option("--strict-placement", is_flag=True,
                     help="End the job at once when a rank is not where it was planned."),
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                     help="Any key of the job file, such as resources.mem_per_gpu=64G."),
    ]  # fmt: skip
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def job_source(ctx: click.Context, options: JobOptions) -> JobSource:
    """Return the job that is asked for. Raises ConfigError, StorageFailed; usage errors exit 2."""
    if options.job is None and not options.command:
        raise click.UsageError("give a job file, or a command after --", ctx)
    return given_source(options)


def given_source(options: JobOptions) -> JobSource:
    """Return the job that is asked for, where there need not be one. Raises as `job_source`."""
    from hpckit.jobs.prepare import JobSource

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
        site_name=options.site,
        template=options.template,
        slurm_version=options.slurm_version,
        stage=options.stage,
        component=options.component,
        advised=advice,
        topology=_topology(options.topology, job),
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


def _parameter(item: _Override) -> str:
    return "over_" + item.flag.removeprefix("--").replace("-", "_")


def read_job(job: str) -> str:
    """Return the text of a job file; `-` is standard input. Raises ConfigError."""
    if Path(job).suffix in _PROGRAMS:
        raise ConfigError(
            "is a program, not a job file",
            source=job,
            hint=f"to run a program: hpckit submit -- {_PROGRAMS[Path(job).suffix]} {job}",
        )
    if job == "-" and sys.stdin is None:
        raise ConfigError("is closed", source="standard input")
    return _text(job, "job file", hint="give a job file, or a command after --")


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
        raise ConfigError(f"cannot be read: {error.strerror}", source=file, hint=hint) from error


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
            words += [item.flag, str(single)]
    for flag, key in (("exclusive", "resources.exclusive"), ("requeue", "slurm.requeue")):
        if params[flag] is not None:
            spelled = f"--{flag}" if params[flag] else f"--no-{flag}"
            options[key] = (params[flag], spelled)
            words.append(spelled)
    for flag, (key, value) in _FLAGS.items():
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
        hint = "give the id of a job, or the advice.json of a job folder"
        return read_advice(_text(wanted, "advice", hint=hint), wanted)
    report = made_report(wanted, None, lambda _done, _of: None).report
    return advised_job(report, Path(report.job.folder or "."), wiring.job_folders())
