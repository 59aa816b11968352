"""Words of sbatch and other tools on hpckit's command line: options it lacks, ways to count."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import click

from hpckit.core.late import regex

_FEW: Final = 8
"""So many options at most are listed where none is near."""
_INSTEAD: Final = {
    f"{command} {typed}": says
    for commands, words, says in (
        ("logs", "-n -t --lines --last", "--tail N"),
        ("logs", "-e -o --error --output --stderr --stdout",
         "remove it: the log holds stdout and stderr"),
        ("logs", "-w --wait --watch", "--follow"),
        ("logs", "--task --array", "hpckit logs ID_TASK"),
        ("logs", "--since --until --timestamps", "--tail N"),
        ("inspect fabric", "-o --output --out", "> FILE"),
        ("render", "-o --output --out", "hpckit logs for the job's output, > FILE for the script"),
        ("report", "-o -f --output --out --format --pdf", "--html FILE, --csv or --json"),
        ("jobs", "-t -s --states --status --filter", "--state STATE"),
        ("jobs", "--running", "--state RUNNING"),
        ("jobs", "--failed", "--state FAILED"),
        ("jobs", "--pending", "--state PENDING"),
        ("jobs", "--limit --max --count --head --tail --last", "-n N"),
        ("jobs", "-u --user --me --mine", "remove it: hpckit lists only your jobs"),
        ("jobs", "-a", "--all"),
        ("logs", "--head", "hpckit logs | head"),
        ("wait", "-a --all", "hpckit wait JOB_ID... (hpckit jobs lists them)"),
        ("report", "--plot --graph --figure --png", "--html FILE, or --svg"),
        ("jobs", "-o -l --long --output", "--json"),
        ("jobs", "-w -i --watch", "watch hpckit jobs"),
        ("jobs", "-j --job --jobid --job-id --id", "hpckit status JOB_ID"),
        ("wait", "-t --time --time-limit --limit", "--timeout SECONDS"),
        ("cancel", "-a -u -n -t --all --user --me --name --state",
         "hpckit cancel JOB_ID (hpckit jobs lists them)"),
        ("cancel", "-s", "--signal NAME"),
        ("cancel", "-9 -f --force --kill", "--signal KILL"),
        ("status", "-f -w --follow --watch --wait", "hpckit wait"),
        ("status", "-a --all", "hpckit jobs"),
        ("status", "--start", "remove it: status shows the expected start"),
        *((name, "-j --job --jobid --job-id --id", f"hpckit {name} JOB_ID")
          for name in ("logs", "status", "report", "show", "wait", "cancel")),
        ("hpckit", "-v -V", "--version"),
        ("hpckit", "--no-color --no-colour --nocolor", "--color never"),
        ("hpckit", "-j --json", "hpckit COMMAND --json"),
        ("render", "--check --validate", "hpckit check"),
        ("show", "--diff", "hpckit render JOB --diff JOB_ID"),
        ("show", "--log --logs --output", "hpckit logs JOB_ID"),
        ("inspect", "--gpu --num-gpus", "--gpus N"),
        ("sample", "-o --output", "--out FOLDER"),
        ("sample", "--interval", "--hz READINGS (a second: every 5 s is --hz 0.2)"),
        ("plan", "--model -m", "hpckit plan MODEL"),
        ("plan", "--nodes --num-gpus --ngpus -g", "--gpus N"),
        ("plan", "--gpu-type", "--gpu NAME"),
        ("plan", "--batch-size", "--global-batch N"),
        ("plan", "--seq-len --seq-length --context", "--seq N"),
        ("submit check", "--mpi", "--launch mpi"),
        ("submit", "--parsable", "--quiet"),
        ("submit check", "--hostfile --machinefile --host", "--nodelist NODES (host names)"),
        ("submit check",
         "--rdzv-endpoint --rdzv-backend --rdzv-id --master-addr --master-port --node-rank",
         "remove it: --launch torchrun sets the rendezvous"),
        ("submit check", "--wrap --command --cmd", "-- COMMAND"),
        ("submit check", "--export", "--env NAME=VALUE, --pass NAME"),
        ("submit check", "-f --file --config --job-file", "hpckit submit FILE"),
        ("submit check", "--image --container --container-image",
         "--set container.image=IMAGE"),
        ("submit check", "-B --volume --volumes --bind --mount --mounts --container-mounts",
         "--set 'container.mounts=[\"FROM:TO\"]'"),
        ("submit check", "--venv --virtualenv", "--set environment.venv=DIR"),
        ("submit check", "--conda --conda-env", "--set environment.conda=NAME"),
        ("submit check", "--module --modules", "--set 'environment.modules=[\"NAME\"]'"),
        ("submit check", "--cpus-per-node --cpus-per-gpu", "--cpus-per-task N (per rank)"),
        ("submit check", "--verbose -v --debug", "hpckit render --explain"),
        ("submit check", "--mem-per-task", "--mem-per-cpu SIZE"),
        ("submit check", "--env-file", "--set 'environment.setup=[\"source FILE\"]'"),
        ("submit check", "--port", "--set serve.port=PORT"),
        ("submit check", "--user -u", "remove it: the job runs as you"),
        ("submit check", "--yes -y --force", "remove it: hpckit asks nothing"),
    )
    for command in (
        ("submit", "render", "check", "init", "tune") if commands == "submit check"
        else commands.split()
    )
    for typed in words.split()
}  # fmt: skip
"""Command and an option of other tools → what it is here; where `submit check`, of any job."""


def one_dash(args: Sequence[str], ctx: click.Context) -> click.UsageError | None:
    """Return the error of `-time 1:00`, which is `-t ime` to click; None without such a word."""
    own = {option for param in ctx.command.params for option in param.opts}
    for word in args:
        name = word.partition("=")[0]
        if name == "-np":
            return click.UsageError("-np is mpirun's; instead: -n RANKS -N NODES", ctx)
        if re.fullmatch(r"-[a-z]{2}[a-z-]+", name) and f"-{name}" in own:
            return click.UsageError(f"{name} has two dashes; instead: -{word}", ctx)
    return None


def unknown_option(error: click.NoSuchOption, ctx: click.Context) -> click.UsageError:
    """Return the error with the way to say an option of sbatch here, where it is one."""
    from hpckit.slurm.request import long_option
    from hpckit.spec.slurm_options import HABITS

    own = [option for param in ctx.command.params for option in (*param.opts, *param.secondary_opts)
           if option.startswith("-")]  # fmt: skip
    words = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    if wrong := one_dash(words, ctx):
        return wrong
    typed, command = error.option_name, ctx.info_name or ""
    name = long_option(typed).replace("_", "-")
    habit = HABITS.get(name, name)
    if habit == "nodes" and "--nodes" not in own:
        habit = "nodelist"  # of commands that look at nodes
    text = f"{ctx.command_path} has no {typed}"
    says = _instead(typed, name, command, words)
    if says is None and f"--{habit}" in own:
        says = f"--{habit}"
    if says is None and name in {"pty", "interactive"}:
        return click.UsageError("a batch job has no terminal; instead: salloc, or srun --pty", ctx)
    if says is None and "--set" in own:
        says = _of_sbatch(habit)
    if says is None and ctx.parent is None:
        says = _behind_command(typed, ctx.command)
    if says is None:
        return click.UsageError(text + _near(typed.replace("_", "-"), own), ctx)
    says = says.replace("nothing: ", "remove it: ")
    says = says if says.startswith("remove it") else f"instead: {says}"
    return click.UsageError(f"{text}; {says}", ctx)


def _instead(typed: str, name: str, command: str, words: Sequence[str]) -> str | None:
    """Return what an option of other tools is here; -v followed by a mount is docker's."""
    behind = next((after for word, after in pairwise(words) if word == typed), "")
    if typed == "-v" and ":/" in behind:
        typed = "--volume"
    return _INSTEAD.get(f"{command} {typed}") or _INSTEAD.get(f"{command} --{name}")


def _behind_command(typed: str, group: click.Command) -> str | None:
    """Return the command line with its options behind the command; None where that is unclear."""
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    names = group.list_commands(click.Context(group)) if isinstance(group, click.Group) else ()
    at = next((place for place in reversed(range(end)) if words[place] in names), None)
    if at is not None:
        return "hpckit " + shlex.join([words[at], *words[:at], *words[at + 1 :]])
    if typed in ("--wrap", "--command"):
        return "hpckit submit -- COMMAND"
    is_job = end < len(words) or words[-1].endswith(".toml")
    return "hpckit submit " + shlex.join(words) if is_job else None


_LIST: Final = "(hpckit jobs lists them)"
_COUNT: Final = regex(r"(?:\d+-)?(\d+)(?:x| ?nodes?| ?gpus?)?(?::\d+)?")
_WHOLE: Final = regex(r"'(.*)' is not a valid (?:integer|float)")
_CHOSEN: Final = regex(r"'(.*?)' is not one of (.*)\.")
_MORE: Final = {
    "jobs": "hpckit status {}",
    "status": "one job a command: {}",
    "cancel": "one job a command: {}",
    "logs": "one job a command: {}",
    "show": "one job a command: {}",
    "report": "two jobs: hpckit report JOB_ID --compare {}",
}
"""Command → what a second word of it may mean."""


_SUBCOMMANDS: Final = {
    **dict.fromkeys(("new", "add", "create", "draft"), "init"),
    **dict.fromkeys(("ls", "all"), "list"),
    **dict.fromkeys(("get", "cat", "describe", "inspect", "view", "draw"), "show"),
    **dict.fromkeys(("lint", "validate", "test", "verify"), "check"),
}
"""Word for a subcommand → its name, where there is one of that name."""


def misused(error: click.UsageError, ctx: click.Context) -> click.UsageError:
    """Return an error of click with what to type."""
    text = None
    if isinstance(error, click.BadOptionUsage):
        text = _without_value(error, ctx)
    elif isinstance(error, click.MissingParameter) and error.param is not None:
        name = error.param.make_metavar(ctx)
        text = f"which? {ctx.command_path} {name}{' ' + _LIST if 'JOB_ID' in name else ''}"
    elif isinstance(error, click.BadParameter) and error.param is not None:
        text = _other_value(error, error.param)
    elif error.message.startswith("No such command") and isinstance(ctx.command, click.Group):
        words = list(ctx.command.commands)
        typed = error.message.split("'")[1]
        meant = _SUBCOMMANDS.get(typed, typed)
        near = f"; did you mean {meant}?" if meant in words else _nearest(meant, words, cutoff=0.6)
        if not near and ctx.info_name == "sites":
            near = f"; did you mean `hpckit sites show {typed}`?"
        text = f"{ctx.command_path} has no {typed}{near or '; it has ' + ', '.join(words)}"
    elif "unexpected extra argument" in error.message and ctx.info_name in _MORE:
        more = error.message.partition("(")[2].rpartition(")")[0]
        jobs = [str(ctx.params.get("job_id") or ""), *more.split()]
        each = " && ".join(f"{ctx.command_path} {job}" for job in jobs if job)
        says = _MORE[ctx.info_name].format(each if "a command" in _MORE[ctx.info_name] else more)
        text = f"one word too many: {more}; instead: {says}"
    return error if text is None else click.UsageError(text, ctx)


def _without_value(error: click.BadOptionUsage, ctx: click.Context) -> str | None:
    """Return what an option lacks, or has too much."""
    option = next((one for one in ctx.command.params if error.option_name in one.opts), None)
    if option is None:
        return None
    if "requires" not in error.message:
        return f"{error.option_name} takes no value; instead: {error.option_name} alone"
    value = option.make_metavar(ctx)
    lists = f" {_LIST}" if "ID" in value else ""
    return f"{error.option_name} needs a value; expected {error.option_name} {value}{lists}"


def _other_value(error: click.BadParameter, option: click.Parameter) -> str | None:
    """Return which value an option may have in place of one that is no number, or no choice."""
    name = option.opts[-1] if isinstance(option, click.Option) else (option.name or "").upper()
    if wrong := _WHOLE.search(error.message):
        count = _COUNT.fullmatch(wrong[1])
        value = count[1] if count else option.metavar or "N"
        return f"{name}: got {wrong[1]!r}, expected one number: {name} {value}"
    if wrong := _CHOSEN.search(error.message):
        words = re.findall(r"'([^']*)'", wrong[2])
        near = _nearest(wrong[1].lower(), words, cutoff=0.5)
        return f"{name}: got {wrong[1]!r}{near or ','} expected one of: {', '.join(words)}"
    return None


def _of_sbatch(name: str) -> str | None:
    """Return how a job says an option of sbatch; None where it is none."""
    from hpckit.slurm.request import KNOWN, value_word
    from hpckit.spec.slurm_options import OWNED_BY_SBATCH

    if name not in KNOWN:
        return None
    says = OWNED_BY_SBATCH.get(name, f"--set slurm.extra.{name}={value_word(name)}")
    return f"--set {says}=VALUE" if "." in says and " " not in says else says


def _nearest(typed: str, words: Sequence[str], *, cutoff: float = 0.8) -> str:
    """Return a question after the word that is spelled nearest; "" where none is near."""
    import difflib

    near = difflib.get_close_matches(typed, words, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]}?" if near else ""


def _near(typed: str, own: Sequence[str]) -> str:
    """Return a question after the option that is spelled nearest, else the options, if few."""
    if near := _nearest(typed, own):
        return near
    listed = [option for option in own if option.startswith("--") or len(own) == 1]
    return f"; it has {', '.join(listed)}" if 0 < len(listed) <= _FEW else ""


def name_alone(text: str) -> str:
    """Return the name of a variable. Raises click.UsageError for one with a value."""
    if "=" in text:
        raise click.UsageError(f"--pass takes a name alone; instead: --env {text}")
    return text


def as_hpckit_says(args: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command line, those of sbatch's that click cannot read in its place.

    `--gpus-per-node h100:4` is two options here; --requeue is a switch, so that a job file behind
    it is no value.
    """
    words = iter(args)
    for typed in words:
        word = f"{typed}={next(words, '')}" if typed == "--gpus-per-node" else typed
        gpus = re.fullmatch(r"--gpus-per-node=([A-Za-z][\w.-]*):([0-9]+)", word, re.ASCII)
        if gpus is not None:
            yield from (f"--gpu-type={gpus[1]}", f"--gpus-per-node={gpus[2]}")
        else:
            yield re.sub("^--requeue=", "--set=slurm.requeue=", word)


def events(text: str) -> list[str]:
    """Return the events of --mail-type, `END,FAIL`."""
    return text.upper().split(",")


_GPUS: Final = r"([A-Za-z][\w.-]*:)?[0-9]{1,9}"
_COUNTS: Final = {"ntasks": r"[1-9][0-9]{0,8}", "gres": r"[\w.:,()=/-]+"}
_GPU_GRES: Final = regex(r"(?:^|,)(?:gres[:/])?gpu(?:[:=,]|$)")
COUNTED: Final = {
    "--ntasks": ("-n", "N", "Ranks of all nodes together."),
    "--gpus": ("-G", "[TYPE:]N", "GPUs of all nodes together."),
    "--gpus-per-task": ("", "N", "GPUs per rank; asked for per node, so that ranks see peers."),
    "--gres": ("", "LIST", "Generic resources per node: gpu:h100:8."),
}
"""sbatch's ways to count that a job file says per node → its letter, metavar and help."""


def count_per_node(
    params: Mapping[str, Any],
    values: dict[str, tuple[object, str]],
    words: list[str],
    *,
    is_over_file: bool,
) -> None:
    """Add what sbatch's ways of counting come to per node; `is_over_file`: what they override.

    Raises click.UsageError for what contradicts another option or cannot be said per node.
    """
    counted = {flag[2:]: params[flag[2:].replace("-", "_")] for flag in COUNTED}
    counted = {name: str(value) for name, value in counted.items() if value is not None}
    _refuse_counts(counted)
    beside = {
        name: str(values[key][0])
        for name in ("nodes", "ntasks-per-node", "cpus-per-task")
        if (key := f"resources.{name.replace('-', '_')}") in values
    }
    _refuse_missing(counted, beside, is_over_file=is_over_file)
    for name, text in counted.items():
        for key, value in _keys(name, counted, beside).items():
            said, option = values.setdefault(key, (value, f"--{name}"))
            if said != value:
                what = f"{key.rpartition('.')[2]} = {said} or {value}"
                raise click.UsageError(
                    f"{option} and --{name} {text} contradict each other ({what}): give one of them"
                )
            if option == f"--{name}":
                words += ["--set", f"{key}={value}"]


def _uneven(name: str, text: str, nodes: int) -> str:
    """Return the error of a count that is not the same on each node."""
    kind, colon, count = text.rpartition(":")
    option = "ntasks" if name == "ntasks" else "gpus"
    if not count.isdecimal():
        return f"--{name} {text} does not divide by {nodes} nodes"
    per_node = int(count) if int(count) < nodes else -(-int(count) // nodes)
    fewer = f", or --nodes {count}" if int(count) < nodes else ""
    return (f"--{name} counts all nodes, and {count} does not divide by {nodes};"
            f" instead: --{option}-per-node {kind}{colon}{per_node}{fewer}")  # fmt: skip


def _refuse_counts(counted: Mapping[str, str]) -> None:
    for name, text in counted.items():
        if re.fullmatch(_COUNTS.get(name, _GPUS), text, re.ASCII) is None:
            raise click.UsageError(f"--{name}: got {text!r}, expected {COUNTED[f'--{name}'][1]}")


def _refuse_missing(
    counted: Mapping[str, str], beside: Mapping[str, str], *, is_over_file: bool
) -> None:
    """Raise UsageError where a count is one of all nodes or ranks, and those are not given."""
    for name in ("ntasks", "gpus"):
        total = counted.get(name, "0").rpartition(":")[2]
        says_nodes = "nodes" in beside or {"ntasks", "ntasks-per-node"} <= {*counted, *beside}
        if not says_nodes and name in counted and (is_over_file or int(total) > 1):
            raise click.UsageError(f"--{name} counts all nodes: add --nodes")
    ranks = {"ntasks", "ntasks-per-node"} & {*counted, *beside}
    if is_over_file and "gpus-per-task" in counted and not ranks:
        raise click.UsageError("--gpus-per-task counts per rank: add --ntasks-per-node")


def _keys(name: str, counted: Mapping[str, str], beside: Mapping[str, str]) -> dict[str, object]:
    """Return what one of these options comes to per node."""
    from hpckit.script.slurm_words import job_keys
    from hpckit.slurm.request import Asked, Request

    def request(options: Mapping[str, str]) -> Request:
        return Request(options={option: Asked(value=text) for option, text in options.items()})

    asked = {**beside, name: counted[name]}
    if "ntasks" in counted:
        asked["ntasks"] = counted["ntasks"]
        # The ranks of a node follow from those of all, so that both are compared.
        asked["nodes"] = str(request(asked).nodes)
        asked.pop("ntasks-per-node", None)
    elif "nodes" not in asked:
        asked["nodes"] = "1"
    found = job_keys(request(asked))
    for left in found.left:
        if "nodes here" in left.because:
            raise click.UsageError(_uneven(name, counted[name], int(asked["nodes"])))
        raise click.UsageError(f"{left.option} needs [[component]] tables: {left.because}")
    keys = dict(found.keys)
    if "nodes" not in beside and "ntasks" not in counted:
        del keys["resources.nodes"]
    if name != "ntasks" and (name != "gres" or _GPU_GRES.search(counted[name])):
        keys.setdefault("resources.gpus_per_node", 0)
    return keys
