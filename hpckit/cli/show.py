"""`hpckit show`: what was submitted, and what the runner does of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_argument import job_argument, picked, submitted_script
from hpckit.core.errors import HpckitError
from hpckit.core.late import regex
from hpckit.spec.folder_in_job import COMPONENTS_FOLDER

if TYPE_CHECKING:
    from hpckit.injob.runner import RunOptions
    from hpckit.slurm.values import JobEntry

_RUN = regex(r"^ *hpckit_run=\(.* run (.*--)\)$", re.MULTILINE)
_COMMAND = regex(r'^(?:exec )?"\$\{hpckit_run\[@\]\}" (.*?)(?: &)?$', re.MULTILINE)
_COMPONENTS = regex(r'^ *exec "\$\{hpckit\[@\]\}" run (.*?) -- (srun .*)$', re.MULTILINE)
_AGENT = '"${agent[@]}"'


@click.command("show")
@job_argument
@click.option("--script", is_flag=True, help="Print the submitted script.")
@click.option("--runner", is_flag=True, help="Print what the runner does, as shell commands.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def show_command(job_id: str | None, *, script: bool, runner: bool, as_json: bool) -> None:
    """Show what was submitted as JOB_ID (default: the newest job)."""
    from hpckit.jobs.track import find_job

    entry = find_job(wiring.job_index(), job_id)
    folder = Path(entry.folder)
    folders = wiring.job_folders()
    text = submitted_script(entry)
    if script and not as_json:
        output.as_file(text)
        return
    if runner and not as_json:
        click.echo("\n".join(_runner_commands(text, entry.folder)))
        return
    effective = folders.read_json(folder, "effective.json", "digest", "origins")
    intent = folders.read_json(folder, "intent.json", "script_sha256")
    if as_json:
        output.document(
            {
                "schema": "hpckit.job-record/1",
                **picked(entry, "job_id", "name", "site", "folder", "submitted_s=created_s"),
                "script_sha256": str(intent["script_sha256"]),
                "script": text,
                "effective": effective,
            }
        )
        return
    _show(entry, effective, str(intent["script_sha256"]))


def _show(entry: JobEntry, effective: Mapping[str, Any], script_sha256: str) -> None:
    output.labelled(
        [
            ("job", f"{entry.job_id}   {output.one_line(entry.name)}   site {entry.site}"),
            ("folder", entry.folder),
            ("script", f"job.sbatch   sha256 {script_sha256[:12]}"),
            ("digest", str(effective["digest"])[:12]),
        ]
    )
    output.table(
        ("KEY", "VALUE", "FROM"), [output.origin_row(**one) for one in effective["origins"]]
    )
    output.labelled([("next", f"hpckit show {entry.job_id} --script")])


def _runner_commands(script: str, folder: str) -> Iterator[str]:
    """Give what the runner of a script does, a line each. Raises HpckitError."""
    from hpckit.injob.runner import read_options

    joined = re.sub(r" *\\\n *", " ", script)
    if components := _COMPONENTS.findall(joined):
        for run, command in components:
            yield from _component_commands(run, command, folder)
        return
    run, command = _RUN.search(script), _COMMAND.search(joined)
    read = read_options([*shlex.split(run[1]), "srun"]) if run else None
    if read is None or command is None:
        raise HpckitError(
            "this job's script does not use hpckit's runner",
            hint="hpckit show --script",
        )
    options = read[0]
    rank = f"{_AGENT} rank {_rank_options(script)} --"
    words = command[1].replace('"${hpckit_rank[@]}"', rank).split(" ")
    yield f"export HPCKIT_JOB_FOLDER={shlex.quote(folder)}"
    yield 'agent=("${HPCKIT_PYTHON:-python3}" -I "$HPCKIT_JOB_FOLDER/hpckit-injob.pyz")'
    yield from _local_commands(options, words) if options.local else _step_commands(options, words)
    task = "${SLURM_ARRAY_TASK_ID:+array-$SLURM_ARRAY_TASK_ID/}"
    yield "# where that fails, its code is that of the first rank that failed:"
    yield f'read -r code _ <"$HPCKIT_JOB_FOLDER/logs/{task}failed-${{SLURM_RESTART_COUNT:-0}}"'


def _component_commands(run: str, command: str, folder: str) -> Iterator[str]:
    """Give what the runner of a component does, once `injob components` lets it begin."""
    from hpckit.injob.runner import option_of, read_options

    read = read_options([*shlex.split(run), "--", "srun"])
    words = command.replace('"${hpckit[@]}"', _AGENT).split(" ")
    if read is None:
        return
    options = read[0]
    own = shlex.quote(f"{folder}/{COMPONENTS_FOLDER}/{options.component}")
    group = option_of(words, "--het-group")
    yield f"# {options.component}: SLURM_* are those of its group, SLURM_*_HET_GROUP_{group}"
    yield f"export HPCKIT_JOB_FOLDER={own}"
    yield f'agent=("${{HPCKIT_PYTHON:-python3}}" -I {shlex.quote(folder)}/hpckit-injob.pyz)'
    yield "# injob components says when it begins and where the others are, and ends its step"
    yield from _step_commands(options, words)


def _rank_options(script: str) -> str:
    options = re.search(r" rank (--from \S+.*) --\)", script)
    return "--from slurm" if options is None else options[1]


def _step_commands(options: RunOptions, words: Sequence[str]) -> Iterator[str]:
    from hpckit.injob.runner import (
        option_of,
        ordered,
        sampler_command,
        sampler_step,
        through_entry,
    )

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
    task = option_of(words, "--het-group") or "${SLURM_ARRAY_TASK_ID:-}"
    yield f'export MASTER_PORT=$({_AGENT} port --job-id "$SLURM_JOB_ID" --array-task "{task}")'
    yield from _serve_commands(options)
    if options.hz is not None:
        step = sampler_step(option_of(words, "--nodes"), option_of(words, "--het-group"))
        sampler = sampler_command([_AGENT], step, '"$HPCKIT_JOB_FOLDER"', options.hz, None)
        yield "# the sampler, without what the job asks for each task (SLURM_CPU*, SLURM_MEM*, …)"
        yield from _background(sampler)
    yield "# USR1 and USR2 are handed to the step, which has scancel's TERM from Slurm"
    words = through_entry(words, [_AGENT])
    if not is_ordered:
        yield " ".join(words)
        return
    yield f"SLURM_HOSTFILE=$hosts HPCKIT_ORDERED=1 {' '.join(ordered(words))}"
    yield "# without an order (hosts is empty), or where srun refuses it before any rank began:"
    numbered = "" if options.keep_numbers else "HPCKIT_RANK_MAP=$hosts "
    yield f"{numbered}{' '.join(words)}"


def _serve_commands(options: RunOptions) -> Iterator[str]:
    if options.serve is not None:
        yield f"# it looks at the server ({options.serve}) twice a second until that answers, and"
        yield "# leaves its address in serve-*; idle, or on TERM, it ends the step by scancel"


def _local_commands(options: RunOptions, words: Sequence[str]) -> Iterator[str]:
    from hpckit.injob.runner import sampler_command

    yield f'export MASTER_ADDR=127.0.0.1 MASTER_PORT=$({_AGENT} port --job-id "$HPCKIT_JOB_ID")'
    if options.hz is not None:
        sampler = sampler_command([_AGENT], (), '"$HPCKIT_JOB_FOLDER"', options.hz, None)
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
