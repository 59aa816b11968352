"""`hpckit init`: a job file to begin with, from options, a command, or an old batch script."""

from __future__ import annotations

import shlex
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_options import JobCommand, JobOptions, is_batch_script, options_of_a_job
from hpckit.core.errors import HpckitError
from hpckit.spec.tokens import refuse_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hpckit.jobs.from_script import FromScript
    from hpckit.script.slurm_words import Left
    from hpckit.slurm.request import Request

_SHOWN: Final = 6
_WORDS_SHOWN: Final = 60


@click.command("init", cls=JobCommand)
@options_of_a_job
@click.option("--from", "script", metavar="SCRIPT", help="Begin with an old batch script.")
@click.option("-o", "--output", "file", default="job.toml", show_default=True, metavar="FILE",
              help="Job file to write; - prints it.")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.pass_context
def init_command(
    ctx: click.Context, /, *, script: str | None, file: str, force: bool, **params: Any
) -> None:
    """Write a job file: from options and a COMMAND, a program (train.py), or a batch script.

    \b
      hpckit init -N 2 --gpus-per-node 8 -t 8:00:00 -- torchrun train.py
      hpckit init --from old.sbatch
      hpckit init                      asks questions, on a terminal

    Options, modules, exports and the launch line of a batch script become keys; its other lines
    stay as they are. What was not carried over is listed, and is in the file as comments.
    """
    options = JobOptions.of(ctx, params)
    keys: dict[str, object] = {key: value for key, (value, _) in options.values.items()}
    _refuse_unused(options, script)
    carried: FromScript | None = None
    if script is not None:
        carried = _read_script(script)
        secrets = cast("Sequence[str]", keys.get("environment.secrets", ()))
        passed = {f"environment.set.{name}" for name in secrets}
        keys = {**{key: value for key, value in carried.keys.items() if key not in passed}, **keys}
    elif command := _command(options):
        keys = {"name": _name_of(command), "command": list(command), **keys}
    else:
        keys = {**_asked(ctx), **keys}
    text, comments, renders = _job_file(keys, carried, script, options.site)
    refuse_file(text, script or "command line", options.words)
    if file == "-":
        output.as_file(text)
        return
    (wiring.write_whole if force else wiring.write_new)(file, text)
    nodes = keys.get("resources.nodes", 1)
    _say(file, script, carried, comments, nodes=nodes, renders=renders)


@click.command("schema")
@click.argument("name", type=click.Choice(["job", "site", "report", "topology"]))
def schema_command(name: str) -> None:
    """Print the JSON Schema of job files, site files, reports or topologies, for editors."""
    output.as_file(wiring.schema_text(name))


def _refuse_unused(options: JobOptions, script: str | None) -> None:
    """Raise UsageError for what a job file does not hold, and for two jobs."""
    for name in ("from_report", "stage", "component", "topology", "template", "slurm_version"):
        if getattr(options, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"init takes no {option}: give it to hpckit submit")
    if script is not None and (options.command or options.job is not None):
        words = shlex.join(options.command) or options.job
        raise click.UsageError(f"give either --from {script} or {words}; -o FILE names the file")


def _command(options: JobOptions) -> Sequence[str]:
    """Return the command: what stands behind --, or a program that is named in place of a job."""
    if options.command and options.job is not None:
        raise click.UsageError(f"got {options.job} and a program after --; -o FILE names the file")
    if options.command or options.job is None:
        return options.command
    if is_batch_script(options.job):
        name = shlex.quote(options.job)
        raise click.UsageError(f"{name} is a batch script; instead: hpckit init --from {name}")
    runs = {".py": ("python3",), ".sh": ("bash",)}.get(Path(options.job).suffix)
    if runs is None:
        raise click.UsageError(
            f"{options.job} is no program: hpckit init --from SCRIPT reads a batch script, a"
            " command goes after --, and the file to write is -o FILE"
        )
    return (*runs, options.job)


def _name_of(command: Sequence[str]) -> str:
    programs = [word for word in command if not word.startswith("-")]
    named = next((word for word in programs if word.endswith((".py", ".sh"))), programs[0])
    return Path(named).stem or "job"


def _asked(ctx: click.Context) -> dict[str, object]:
    """Return what a person answers. Raises UsageError where nobody can be asked."""
    if not (sys.stdin and sys.stdin.isatty()):
        raise click.UsageError(
            "give a command after --, a program, or --from SCRIPT (questions need a terminal)", ctx
        )
    typed = click.prompt("Command that each rank runs", default="python3 train.py")
    try:
        command = shlex.split(typed)
    except ValueError as error:
        raise click.UsageError(f"got {typed}, expected a command ({error})", ctx) from None
    gpus = click.prompt("GPUs on each node", default=1, type=click.IntRange(0))
    nodes = click.prompt("Nodes", default=1, type=click.IntRange(1))
    time_limit = click.prompt("Time limit", default="1:00:00", value_proc=_time_limit)
    keys: dict[str, object] = {"name": _name_of(command), "command": command}
    if nodes * gpus > 1 and command[0].startswith("python"):
        keys["command"] = ["torchrun", *command[1:]]
    keys |= {"resources.nodes": nodes, "resources.time_limit": time_limit}
    if gpus:
        keys["resources.gpus_per_node"] = gpus
    return keys


def _time_limit(typed: str) -> str:
    """Return a time limit as it was typed. Raises BadParameter, after which click asks again."""
    from hpckit.spec.job_text import settled_keys

    keys: dict[str, object] = {"name": "x", "command": ["true"]}
    _, errors = settled_keys({**keys, "resources.time_limit": typed}, "time limit")
    if errors:
        raise click.BadParameter(errors[0].reason)
    return typed


def _read_script(script: str) -> FromScript:
    from hpckit.jobs.from_script import job_from_script

    data, _ = wiring.read_capture(script)
    if not data.startswith(b"#!"):
        hint = f"hpckit init -- python3 {script}" if script.endswith(".py") else None
        if script.endswith(".toml"):
            hint = f"a job file is submitted as it is: hpckit submit {script}"
        raise HpckitError(f"{script} does not begin with #!, so it is no batch script", hint=hint)
    try:
        return job_from_script(data.decode(), script)
    except UnicodeDecodeError as error:
        hint = f"iconv -f latin1 -t utf-8 {shlex.quote(script)} >new.sbatch"
        raise HpckitError(f"{script} is not UTF-8 text: {error}", hint=hint) from error


def _job_file(
    keys: Mapping[str, object], carried: FromScript | None, script: str | None, site: str | None
) -> tuple[str, list[str], bool]:
    """Return a job file, its comments on what is not carried over, and whether it renders."""
    from hpckit.spec.job_text import job_toml, settled_keys

    kept, errors = settled_keys(keys, script or "command line")
    if carried is None:
        if errors:
            raise errors[0]
        return job_toml(kept), [], True
    comments = [_left_words(left) for left in carried.left]
    comments += [f"{error.key}: {error.reason}" for error in errors]
    renders = True
    try:
        comments += _differences(job_toml(kept), carried.request, site)
    except HpckitError as error:
        comments.insert(0, f"this file does not render yet: {error.message}")
        renders = False
    head = [f"From {script}, by hpckit init --from."]
    if carried.whole_because:
        is_in_setup = keys["command"] == ["true"]
        instead = " in place of `setup`" if is_in_setup else ""
        why = (f"{carried.whole_because}. So the script runs unchanged, by its path from the "
               f"folder where you submit; this file requests its resources. With one launch "
               f"as `command`{instead}, hpckit orders, binds and measures its ranks.")  # fmt: skip
        head += textwrap.wrap(why, 78)
        if is_in_setup:
            head.append("`command` is a placeholder: [environment] setup runs the script itself.")
    if comments:
        head += ["Not carried over:", *(f"  {comment}" for comment in comments)]
    return job_toml(kept, head), comments, renders


def _left_words(left: Left) -> str:
    where = f"line {left.line_no}: " if left.line_no and not left.option.startswith("line") else ""
    return f"{where}{left.option}: {left.because}"


def _differences(text: str, asked: Request, site: str | None) -> list[str]:
    """Return what the script that is rendered of a job file asks for otherwise."""
    from hpckit.jobs.components import prepare_job
    from hpckit.jobs.from_script import differences
    from hpckit.jobs.source import JobSource
    from hpckit.slurm.request import read_request

    source = JobSource(
        file_text=text,
        file_name="job.toml",
        options={},
        option_words=(),
        command=(),
        site_name=site,
        template=None,
        folder=wiring.workdir(),
    )
    job = prepare_job(source, wiring.resources(), None)
    return list(differences(asked, read_request(job.script.text)))


def _found(carried: FromScript) -> str:
    """Return what runs, in few words: the launch that was found, or the script itself."""
    command, setup = carried.keys.get("command"), carried.keys.get("environment.setup")
    words = shlex.join(map(str, command)) if isinstance(command, list) else ""
    if carried.whole_because and words == "true" and isinstance(setup, list):
        words = str(setup[0]).removeprefix("exec ")
    words = words if len(words) <= _WORDS_SHOWN else f"{words[: _WORDS_SHOWN - 2]} …"
    way = "stays whole" if carried.whole_because else f"launch {carried.keys.get('launch.kind')}"
    return f"{way} · {words}"


def _say(
    file: str,
    script: str | None,
    carried: FromScript | None,
    comments: Sequence[str],
    *,
    nodes: object,
    renders: bool,
) -> None:
    from hpckit.core.text import Line

    lines = [Line(text=f" wrote   {file}" + (f"   from {script}" if script else ""))]
    if carried is not None:
        lines.append(Line(text=f" found   {_found(carried)}"))
        lines += [Line(text=f" why     {why}") for why in (carried.whole_because,) if why]
    lines += [Line(text=f" left    {comment}") for comment in comments[:_SHOWN]]
    if len(comments) > _SHOWN:
        lines.append(Line(text=f"         {len(comments) - _SHOWN} more, in the file"))
    is_apart = carried is None or not carried.whole_because  # a whole script may call srun
    is_local = nodes == 1 and is_apart and not wiring.is_on_path("sbatch")
    submit = "submit --local" if is_local else "submit"
    steps = ("check", "render", submit) if renders else ("render",)
    following = " · ".join(f"hpckit {word} {file}" for word in steps)
    following = following if renders else f"edit {file}, then {following}"
    lines.append(Line(text=f" next    {following}"))
    output.say(lines)
