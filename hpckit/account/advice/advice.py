"""What a measured job says about the next one: changes to the job file, each with its evidence.

Less is advised only from a run that completed, and only where it saves enough to be worth a
change; more where the run shows that it was too little. What was not measured advises nothing.
`gpu_type` is never advised: another type changes how long the job takes, which no report of this
one tells.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import shlex
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import unified_diff
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from hpckit.account.advice.outcome import (
    AdvisedJob,
    MeasuredRun,
    advice_document,
    advice_findings,
    outcomes,
)
from hpckit.account.advice.rules import cpu_advice, gpu_advice, memory_advice, time_advice
from hpckit.account.values import ADVICE_SCHEMA, Advice, AdviceOutcome, JobReport
from hpckit.core.document import convert
from hpckit.core.errors import ConfigError, HpckitError, NoSuchFile, StorageFailed
from hpckit.core.late import regex
from hpckit.spec.job import JobSpec
from hpckit.spec.job_folder import ADVICE_FILE, EFFECTIVE_FILE, INTENT_FILE, JOB_FILE, SCRIPT_FILE

if TYPE_CHECKING:
    from hpckit.spec.store import FileJobFolders


def advise(report: JobReport, spec: JobSpec) -> tuple[Advice, ...]:
    """The changes to the job file that a report speaks for, in the order of the file's keys.

    `spec` is the effective job that was measured. A job without faults that asks for what it
    needs gets none.
    """
    run = MeasuredRun(report=report, spec=spec)
    found = [*gpu_advice(run)]
    smaller = dataclasses.replace(run, spec=with_advice(spec, found))
    cpus, time = cpu_advice(smaller), time_advice(run)
    if time and any(one.now is not None and int(one.proposed) < int(one.now) for one in cpus):
        # On fewer CPUs the job may take longer than this run.
        words = "keep the time limit until a run on fewer CPUs shows how long it takes"
        cpus = tuple(replace(one, because=f"{one.because}; {words}") for one in cpus)
        time = ()
    found += cpus
    # Memory per GPU or CPU is per one of those that are left.
    smaller = dataclasses.replace(run, spec=with_advice(spec, found))
    return (*found, *memory_advice(smaller), *time)


def values_of(advice: Sequence[Advice]) -> Mapping[str, str | int]:
    """Each key that is advised about and its new value, typed as the job file types it."""
    numbers = {f"resources.{name}" for name in ("nodes", "gpus_per_node", "cpus_per_task")}
    return {one.key: int(one.proposed) if one.key in numbers else one.proposed for one in advice}


def with_advice(spec: JobSpec, advice: Sequence[Advice]) -> JobSpec:
    """The job with these changes; they are all of `[resources]`."""
    changes: dict[str, Any] = {
        key.removeprefix("resources."): value for key, value in values_of(advice).items()
    }
    return dataclasses.replace(spec, resources=dataclasses.replace(spec.resources, **changes))


# The text is edited, not written anew, so that comments, order and spelling stay. Every edit that
# could be right is tried and the first that TOML reads as the intended change is taken: what a
# line looks like (in a string of many lines, say) is no proof of what it is.

OPTION_OF: Final[Mapping[str, str]] = {
    "resources.nodes": "--nodes",
    "resources.gpus_per_node": "--gpus-per-node",
    "resources.cpus_per_task": "--cpus-per-task",
    "resources.mem": "--mem",
    "resources.time_limit": "--time",
}
"""The option of `hpckit submit` for each key that has its own; any other goes with `--set`."""
_TABLE = regex(r"\s*\[\s*([A-Za-z0-9_\"'-]+)\s*\]\s*(#.*)?", re.ASCII)
_ANY_HEADER = regex(r"\s*\[")
_VALUE = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[0-9A-Za-z_+.:-]+)"""
_MOST_TRIES = 1000


def patch_text(advice: Sequence[Advice], toml_text: str, name: str = "job.toml") -> str | None:
    """The advice as a unified diff of the job file; empty where the file says all of it already.

    None where the file cannot be edited by lines: it has stages, or spells the key in a way that
    only a person should change. `options_text` then says the same.
    """
    if (changed := patched(advice, toml_text)) is None:
        return None
    diff = unified_diff(
        _lines(toml_text), _lines(changed), fromfile=name, tofile=f"{name} (advised)"
    )
    ended = [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in diff
    ]
    return "".join(ended)


def options_text(advice: Sequence[Advice]) -> str:
    """The advice as options of `hpckit submit`."""
    options = ((OPTION_OF.get(one.key), one) for one in advice)
    return " ".join(
        f"{option} {one.proposed}" if option else f"--set {one.key}={one.proposed}"
        for option, one in options
    )


def patched(advice: Sequence[Advice], toml_text: str) -> str | None:
    """The job file's text with the advice in it, None where that takes a person."""
    text = toml_text
    for key, value in values_of(advice).items():
        edited = _with_value(text, key, value)
        if edited is None:
            return None
        text = edited
    return text


def _with_value(text: str, key: str, value: str | int) -> str | None:
    before = _read(text)
    table, _, name = key.partition(".")
    if before is None or "stages" in before or not isinstance(before.get(table, {}), dict):
        return None
    wanted = copy.deepcopy(before)
    wanted.setdefault(table, {})[name] = value
    if wanted == before:
        return text
    spelled = f'"{value}"' if isinstance(value, str) else str(value)
    lines = _lines(text)
    edits = chain(_replaced(lines, name, spelled), _added(lines, table, name, spelled))
    return next((edit for edit in islice(edits, _MOST_TRIES) if _read(edit) == wanted), None)


def _read(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _lines(text: str) -> list[str]:
    """Lines with their ends; TOML ends them with LF or CRLF alone, unlike `splitlines`."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _replaced(lines: Sequence[str], name: str, spelled: str) -> Iterator[str]:
    given = re.compile(rf"(?<![A-Za-z0-9_-])[\"']?{name}[\"']?[ \t]*=[ \t]*({_VALUE})", re.ASCII)
    for at, line in enumerate(lines):
        for match in given.finditer(line):
            edited = line[: match.start(1)] + spelled + line[match.end(1) :]
            yield _joined(lines[:at], edited, lines[at + 1 :])


def _added(lines: Sequence[str], table: str, name: str, spelled: str) -> Iterator[str]:
    """The key where its table is: under its header, beside its dotted keys, in its braces."""
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    for at, line in enumerate(lines):
        header = _TABLE.fullmatch(line.rstrip("\r\n"))
        if header is not None and header[1].strip("\"'") == table:
            last = _last_of_table(lines, at)
            indent = re.match(r"[ \t]*", lines[last])
            new = f"{indent[0] if indent and last > at else ''}{name} = {spelled}{end}"
            yield _joined(_closed(lines[: last + 1], end), new, lines[last + 1 :])
    for at, line in enumerate(lines):
        if re.match(rf"[ \t]*{table}[ \t]*\.", line):
            new = f"{table}.{name} = {spelled}{end}"
            yield _joined(_closed(lines[: at + 1], end), new, lines[at + 1 :])
        for match in re.finditer(rf"{table}[ \t]*=[ \t]*\{{[ \t]*", line):
            comma = "" if line[match.end() :].startswith("}") else ", "
            edited = f"{line[: match.end()]}{name} = {spelled}{comma}{line[match.end() :]}"
            yield _joined(lines[:at], edited, lines[at + 1 :])
    blank = [end] if lines and lines[-1].strip() else []
    yield _joined([*_closed(lines, end), *blank], f"[{table}]{end}{name} = {spelled}{end}", ())


def _last_of_table(lines: Sequence[str], header: int) -> int:
    """The last line of a table that says something: before blank lines, comments, the next one."""
    last = header
    for at in range(header + 1, len(lines)):
        if _ANY_HEADER.match(lines[at]):
            break
        if lines[at].strip() and not lines[at].lstrip().startswith("#"):
            last = at
    return last


def _closed(lines: Sequence[str], end: str) -> list[str]:
    if not lines or lines[-1].endswith("\n"):
        return list(lines)
    return [*lines[:-1], lines[-1] + end]


def _joined(before: Sequence[str], line: str, after: Sequence[str]) -> str:
    return "".join((*before, line, *after))


_REPRODUCE_LINE = regex(r"^# (?:--- )?reproduce[^:\n]*: hpckit render(?: (.*))?$", re.MULTILINE)
"""In the header of a script: templates/base.sbatch.j2; older ones have the dashes."""
_MOST_TYPED = 200
"""Characters of a command that is shown whole."""


def with_advice_of(report: JobReport, folder: Path, folders: FileJobFolders) -> JobReport:
    """The report with its advice, and with what became of the advice that its job had taken.

    `folder` is the job's. One that does not say what the job was gives no advice, and says so in
    `missing`.
    """
    try:
        spec = measured_job(folder, folders)
    except HpckitError:
        sentence = "no advice: the job folder does not record what the job requested"
        return replace(report, missing=(*report.missing, sentence))
    advice = advise(report, spec)
    told, missing = _outcomes(report, spec, folder, folders)
    return replace(
        report,
        missing=(*report.missing, *missing),
        advice=advice,
        advice_patch=_patch(advice, folder, folders),
        advice_options=options_text(advice),
        outcomes=told,
        findings=(*report.findings, *advice_findings(report, spec)),
    )


def measured_job(folder: Path, folders: FileJobFolders) -> JobSpec:
    """The effective job of a job folder. Raises StorageFailed, ConfigError."""
    job = folders.read_json(folder, EFFECTIVE_FILE).get("job")
    if not isinstance(job, dict):
        raise StorageFailed(f"{folder / EFFECTIVE_FILE} has no `job` object")
    return convert(dict(job), JobSpec, str(folder / EFFECTIVE_FILE))


def advised_job(report: JobReport, folder: Path, folders: FileJobFolders) -> AdvisedJob:
    """The advice of a report for the next job. Raises HpckitError where it cannot have any."""
    if not report.nodes and not report.gpus:
        raise HpckitError(
            f"job {report.job.job_id} has no measurements to take advice from",
            hint=f"hpckit report {report.job.job_id} shows what is missing",
        )
    spec = measured_job(folder, folders)
    advice = advise(report, spec)
    return AdvisedJob(
        report_id=report.job.job_id or folder.name,
        values=values_of(advice),
        document=advice_document(report, spec, advice, ()),
    )


def next_submission(
    folder: Path, folders: FileJobFolders, report_id: str, advice: Sequence[Advice]
) -> str:
    """The command that submits a job like this one with the advice of its report.

    It is the line of the job's script that reproduces it: with the job file as it was given, its
    options and its command, but without options that would stand over the advice. Where that is
    too long to be typed, or is not there, it is that job again.
    """
    begin, end = "hpckit submit", f"--from-report {report_id}"
    again = f"{begin} --again {report_id} {end}"
    reproduced = _reproduced(folder, folders)
    if reproduced is None:
        return again
    typed, command = reproduced
    options = _without(typed, [one.key for one in advice])
    shown = " ".join([begin, *map(shlex.quote, options), end, *map(shlex.quote, _after(command))])
    return shown if len(shown) <= _MOST_TYPED else again


def submissions(
    folder: Path, folders: FileJobFolders, report_id: str, advice: Sequence[Advice]
) -> tuple[str, ...]:
    """The commands that submit a job like this one with each piece of advice, then with all of it.

    None where it is unknown how it was submitted.
    """
    reproduced = _reproduced(folder, folders)
    if reproduced is None or not advice:
        return ()
    typed, command = reproduced
    changes = [([one.key], shlex.split(options_text((one,)))) for one in advice]
    changes.append(([one.key for one in advice], ["--from-report", report_id]))
    return tuple(
        shlex.join(["hpckit", "submit", *_without(typed, keys), *options, *_after(command)])
        for keys, options in changes
    )


def _after(command: Sequence[str]) -> list[str]:
    return ["--", *command] if command else []


def _without(options: Sequence[str], keys: Collection[str]) -> list[str]:
    names = {OPTION_OF.get(key) for key in keys}
    left, words = [], iter(options)
    for word in words:
        if word in names:
            next(words, None)
        elif word == "--set":
            value = next(words, "")
            left += [] if value.partition("=")[0] in keys else [word, value]
        else:
            left.append(word)
    return left


def _reproduced(folder: Path, folders: FileJobFolders) -> tuple[list[str], list[str]] | None:
    try:
        lines = _REPRODUCE_LINE.findall(folders.read(folder, SCRIPT_FILE))
        words = shlex.split(lines[0])
    except (StorageFailed, ValueError, IndexError):
        return None
    at = words.index("--") if "--" in words else len(words)
    options, command = words[:at], words[at + 1 :]
    if "--from-report" in options:
        taken = options.index("--from-report")
        del options[taken : taken + 2]
    if options[:1] == [JOB_FILE]:
        file = _given_file(folder, folders)
        if file is None:
            return None
        options[0] = file
    return options, command


def _given_file(folder: Path, folders: FileJobFolders) -> str | None:
    """The job file as it was named, where it has a name that can be typed."""
    try:
        file = folders.read_json(folder, INTENT_FILE).get("file")
    except StorageFailed:
        return None
    return file if isinstance(file, str) and file not in ("", "-") and file.isprintable() else None


def read_advice(text: str, source: str) -> AdvisedJob:
    """The advice that a job folder has in `advice.json`. Raises ConfigError for anything else."""
    try:
        document: Any = json.loads(text)
        if document["schema"] != ADVICE_SCHEMA:
            raise ConfigError(
                f"got schema {document['schema']!r}, expected {ADVICE_SCHEMA!r}", source=source
            )
        advice = [
            Advice(key=one["key"], now=one["now"], proposed=one["proposed"], because=one["because"])
            for one in document["advice"]
        ]
        values = values_of(advice)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"is not hpckit advice: {error!r}",
            source=source,
            hint="pass a job ID, or the advice.json of a job folder",
        ) from error
    return AdvisedJob(report_id=str(document.get("job_id")), values=values, document=document)


def _outcomes(
    report: JobReport, spec: JobSpec, folder: Path, folders: FileJobFolders
) -> tuple[tuple[AdviceOutcome, ...], tuple[str, ...]]:
    """What became of earlier advice, and that it cannot be told where its file is none."""
    try:
        document: Mapping[str, Any] = folders.read_json(folder, ADVICE_FILE)
        if document.get("schema") == ADVICE_SCHEMA:
            return outcomes(document, report, spec), ()
    except NoSuchFile:
        return (), ()
    except StorageFailed as error:
        why = error.message.removeprefix(f"{folder}/")
        return (), (f"outcome of earlier advice unknown: {why}",)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return (), (f"outcome of earlier advice unknown: {ADVICE_FILE} is not hpckit advice",)


def _patch(advice: tuple[Advice, ...], folder: Path, folders: FileJobFolders) -> str | None:
    if not advice:
        return None
    try:
        text = folders.read(folder, JOB_FILE)
    except StorageFailed:
        return None
    return patch_text(advice, text, _given_file(folder, folders) or JOB_FILE)
