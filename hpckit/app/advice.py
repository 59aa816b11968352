"""The closed loop: a report's advice, its way into the next job, and what became of it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from hpckit.decide.advice import advise, values_of
from hpckit.decide.advice_outcome import advice_document, outcomes
from hpckit.decide.advice_patch import OPTION_OF, options_text, patch_text
from hpckit.decide.advice_words import advice_findings
from hpckit.errors import ConfigError, HpckitError, NoSuchFile, StorageFailed
from hpckit.model.account import ADVICE_SCHEMA, Advice, AdviceOutcome, JobReport
from hpckit.model.advised import AdvisedJob
from hpckit.model.job import JobSpec
from hpckit.model.job_folder import (
    ADVICE_FILE,
    EFFECTIVE_FILE,
    INTENT_FILE,
    JOB_FILE,
    SCRIPT_FILE,
)
from hpckit.parse.document import convert

if TYPE_CHECKING:
    from hpckit.adapters.job_folder import FileJobFolders

REPRODUCE = "reproduce:"
_REPRODUCE_LINE = re.compile(r"^# --- reproduce[^:\n]*: hpckit render(?: (.*))?$", re.MULTILINE)
"""In the header of a script: templates/base.sbatch.j2."""
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
        sentence = "no advice: the job's folder does not say what it asked for"
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
        raise StorageFailed(f"{folder / EFFECTIVE_FILE} does not say what the job was")
    return convert(dict(job), JobSpec, str(folder / EFFECTIVE_FILE))


def advised_job(report: JobReport, folder: Path, folders: FileJobFolders) -> AdvisedJob:
    """The advice of a report for the next job. Raises HpckitError where it cannot have any."""
    if not report.nodes and not report.gpus:
        raise HpckitError(
            f"job {report.job.job_id} has no accounts to advise from",
            hint=f"hpckit report {report.job.job_id} says what is missing",
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
    too long to be typed, or is not there, it is named.
    """
    begin, end = "hpckit submit", f"--from-report {report_id}"
    reproduced = _reproduced(folder, folders)
    if reproduced is None:
        return f"{begin} … {end}"
    typed, command = reproduced
    options = _without(typed, [one.key for one in advice])
    after = ["--", *command] if command else []
    shown = " ".join([begin, *map(shlex.quote, options), end, *map(shlex.quote, after)])
    if len(shown) <= _MOST_TYPED:
        return shown
    but = "" if options == typed else ", without the options that are advised"
    return f"{begin} … {end} (… as at {REPRODUCE} in: hpckit show {report_id} --script{but})"


def _without(options: Sequence[str], keys: Collection[str]) -> list[str]:
    """Options as hpckit writes them in a script, less those that set one of these keys."""
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
    """What was typed after `hpckit submit`: job file and options, and the command."""
    try:
        lines = _REPRODUCE_LINE.findall(folders.read(folder, SCRIPT_FILE))
        file = folders.read_json(folder, INTENT_FILE).get("file")
        words = shlex.split(lines[0])
    except (StorageFailed, ValueError, IndexError):
        return None
    at = words.index("--") if "--" in words else len(words)
    options, command = words[:at], words[at + 1 :]
    if "--from-report" in options:
        taken = options.index("--from-report")
        del options[taken : taken + 2]
    if options[:1] == [JOB_FILE]:
        if not isinstance(file, str) or file in ("", "-") or not file.isprintable():
            return None
        options[0] = file
    return options, command


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
            f"is no advice of hpckit: {error!r}",
            source=source,
            hint="give the id of a job, or the advice.json of a job folder",
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
        return (), (f"what became of earlier advice: {why}",)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return (), (f"what became of earlier advice: {ADVICE_FILE} is no advice of hpckit",)


def _patch(advice: tuple[Advice, ...], folder: Path, folders: FileJobFolders) -> str | None:
    """The advice as a diff of the job file, None without one."""
    if not advice:
        return None
    try:
        text = folders.read(folder, JOB_FILE)
    except StorageFailed:
        return None
    try:
        given = folders.read_json(folder, INTENT_FILE).get("file")
    except StorageFailed:
        given = None
    is_name = isinstance(given, str) and given not in ("", "-") and given.isprintable()
    return patch_text(advice, text, str(given) if is_name else JOB_FILE)
