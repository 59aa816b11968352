"""`hpckit show`: what was submitted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpckit.cli import output
from hpckit.cli.job_argument import job_argument
from hpckit.errors import HpckitError

if TYPE_CHECKING:
    from hpckit.injob.run_commands import RunOptions
    from hpckit.model.slurm import JobEntry

_RUN = re.compile(r"^ *hpckit_run=\(.* run (.*--)\)$", re.MULTILINE)
_COMMAND = re.compile(r'^(?:exec )?"\$\{hpckit_run\[@\]\}" (.*?)(?: &)?$', re.MULTILINE)
_AGENT = '"${agent[@]}"'


@click.command("show")
@job_argument
@click.option("--script", is_flag=True, help="Print the script as it was submitted.")
@click.option("--runner", is_flag=True, help="Print what the runner does for it, as commands.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(job_id: str | None, *, script: bool, runner: bool, as_json: bool) -> None:
    """Show the job JOB_ID (the newest job without one)."""
    from hpckit import wiring
    from hpckit.app.track import find_job

    entry = find_job(wiring.job_index(), job_id)
    folder = Path(entry.folder)
    folders = wiring.job_folders()
    text = folders.read(folder, "job.sbatch")
    if script and not as_json:
        click.echo(text, nl=False)
        return
    if runner and not as_json:
        click.echo("\n".join(_runner_commands(text, entry.folder)))
        return
    effective = folders.read_json(folder, "effective.json")
    intent = folders.read_json(folder, "intent.json")
    if as_json:
        output.document(
            {
                "schema": "hpckit.job-record/1",
                "job_id": entry.job_id,
                "name": entry.name,
                "site": entry.site,
                "folder": entry.folder,
                "submitted_s": entry.created_s,
                "script_sha256": intent["script_sha256"],
                "script": text,
                "effective": effective,
            }
        )
        return
    _show(entry, effective, intent["script_sha256"])


def _show(entry: JobEntry, effective: Mapping[str, Any], script_sha256: str) -> None:
    output.labelled(
        [
            ("job", f"{entry.job_id}   {output.one_line(entry.name)}   site {entry.site}"),
            ("folder", entry.folder),
            ("script", f"job.sbatch   sha256 {script_sha256[:12]}"),
            ("digest", effective["digest"][:12]),
        ]
    )
    output.table(
        ("KEY", "VALUE", "FROM"), [output.origin_row(**one) for one in effective["origins"]]
    )
    output.labelled([("next", f"hpckit show {entry.job_id} --script")])


def _runner_commands(script: str, folder: str) -> Iterator[str]:
    """Give what the runner of a script does, a line each. Raises HpckitError."""
    from hpckit.injob.run_commands import read_options

    run, command = _RUN.search(script), _COMMAND.search(script.replace("\\\n", " "))
    read = read_options([*shlex.split(run[1]), "srun"]) if run else None
    if read is None or command is None:
        raise HpckitError(
            "the script of this job does not start hpckit's runner",
            hint="hpckit show --script prints the script",
        )
    options = read[0]
    rank = f"{_AGENT} rank --from {_rank_source(script)} --"
    words = re.sub(" +", " ", command[1].replace('"${hpckit_rank[@]}"', rank)).split(" ")
    yield f"export HPCKIT_JOB_FOLDER={shlex.quote(folder)}"
    yield 'agent=("${HPCKIT_PYTHON:-python3}" -I "$HPCKIT_JOB_FOLDER/hpckit-injob.pyz")'
    yield from _local_commands(options, words) if options.local else _step_commands(options, words)
    task = "${SLURM_ARRAY_TASK_ID:+array-$SLURM_ARRAY_TASK_ID/}"
    yield "# where that fails, its code is that of the first rank that failed:"
    yield f'read -r code _ <"$HPCKIT_JOB_FOLDER/logs/{task}failed-${{SLURM_RESTART_COUNT:-0}}"'


def _rank_source(script: str) -> str:
    source = re.search(r" rank --from (\S+) --", script)
    return "slurm" if source is None else source[1]


def _step_commands(options: RunOptions, words: Sequence[str]) -> Iterator[str]:
    from hpckit.injob.run_commands import option_of, ordered, sampler_command, through_entry

    is_ordered = options.order and words[0] == "srun"
    yield 'nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")'
    if options.order or options.bind:
        task = "${SLURM_ARRAY_TASK_ID:+array-$SLURM_ARRAY_TASK_ID/}"
        restart = "restart-${SLURM_RESTART_COUNT:-0}"
        yield f"export HPCKIT_PLACE=$HPCKIT_JOB_FOLDER/place/{task}{restart}"
    for name, is_on in (("HPCKIT_BIND", options.bind), ("HPCKIT_STRICT", options.strict)):
        if is_on:
            yield f"export {name}=1"
    if is_ordered:
        tasks = option_of(words, "--ntasks-per-node")
        plan = '"$HPCKIT_JOB_FOLDER/order.json"'
        yield f'hosts=$({_AGENT} order {plan} {tasks} "$HPCKIT_PLACE" <<<"$nodes")'
    yield "export MASTER_ADDR=${nodes%%$'\\n'*}"
    yield f'export MASTER_PORT=$({_AGENT} port --job-id "$SLURM_JOB_ID"' + (
        ' --array-task "${SLURM_ARRAY_TASK_ID:-}")'
    )
    if options.hz is not None:
        nodes = option_of(words, "--nodes")
        sampler = sampler_command([_AGENT], nodes, '"$HPCKIT_JOB_FOLDER"', options.hz, None)
        yield "# the sampler, without what the job asks for each task (SLURM_CPU*, SLURM_MEM*, …)"
        yield from _background(sampler)
    yield "# USR1 and USR2 are handed to the step, which has scancel's TERM from Slurm"
    if not is_ordered:
        yield " ".join(words)
        return
    words = through_entry(words, [_AGENT])
    yield f"SLURM_HOSTFILE=$hosts HPCKIT_ORDERED=1 {' '.join(ordered(words))}"
    yield "# without an order (hosts is empty), or where srun refuses it before any rank began:"
    numbered = "" if options.keep_numbers else "HPCKIT_RANK_MAP=$hosts "
    yield f"{numbered}{' '.join(words)}"


def _local_commands(options: RunOptions, words: Sequence[str]) -> Iterator[str]:
    from hpckit.injob.run_commands import sampler_command

    yield f'export MASTER_ADDR=127.0.0.1 MASTER_PORT=$({_AGENT} port --job-id "$HPCKIT_JOB_ID")'
    if options.hz is not None:
        sampler = sampler_command([_AGENT], None, '"$HPCKIT_JOB_FOLDER"', options.hz, None)
        yield from _background(["setsid", *sampler[sampler.index(_AGENT) :], "--parent", '"$$"'])
    yield "# TERM, INT, HUP, USR1 and USR2 are handed to the ranks"
    if options.kill_wait_s is not None:
        yield f"# the first that fails ends the others: TERM, after {options.kill_wait_s} s KILL"
    size = f"WORLD_SIZE={options.ranks} LOCAL_WORLD_SIZE={options.ranks} NODE_RANK=0"
    for rank in range(options.ranks or 0):
        yield f"RANK={rank} LOCAL_RANK={rank} {size} {' '.join(words)} &"
    if options.ranks is None:
        yield " ".join(words)


def _background(words: Sequence[str]) -> Iterator[str]:
    yield "export HPCKIT_LEDGER=1"
    yield f'{" ".join(words)} </dev/null >>"$HPCKIT_JOB_FOLDER/logs/sampler.log" 2>&1 &'
