"""The command line called in this process, and jobs for it to find without running any."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner, Result

from hpckit import wiring
from hpckit.account.advice.outcome import AdvisedJob
from hpckit.cli.main import cli
from hpckit.jobs.draft import PackedJobFolders
from hpckit.jobs.local_record import LocalResult, write_record
from hpckit.jobs.submit import Submission, SubmitTools, submit
from hpckit.slurm.values import JobState
from hpckit.spec.job_folder import RESULT_FILE
from tests.fakes.packed import PACKED, warm_cache
from tests.fakes.prepared import prepared
from tests.fakes.submitter import FakeSubmitter
from tests.fakes.world import nothing_held


def call(*args: str | Path, stdin: str | bytes = "", refused: bool = False) -> Result:
    """What the command line does with `args`; an error must be one that was expected.

    Errors of hpckit are left in `exception`: `main` is what turns them into exit codes.
    """
    if args[:1] == ("submit",):
        warm_cache()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        result = CliRunner().invoke(cli, [str(arg) for arg in args], input=stdin)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    failed = result.exception is not None and not isinstance(result.exception, SystemExit)
    assert failed == refused, (result.exception, result.output)
    return result


def document(*args: str | Path, stdin: str | bytes = "") -> dict[str, Any]:
    """The one JSON document that the command line prints."""
    value: dict[str, Any] = json.loads(call(*args, stdin=stdin).stdout)
    return value


def words(text: str) -> str:
    """Text with every run of blanks and line ends as one space."""
    return " ".join(click.unstyle(text).split())


def started_job(
    *command: str,
    file_text: str | None = None,
    advised: AdvisedJob | None = None,
    options: Mapping[str, object] | None = None,
    option_words: Sequence[str] = (),
) -> Submission:
    """A job in this user's folders and index that nothing runs."""
    tools = SubmitTools(
        submitter=FakeSubmitter(),
        folders=PackedJobFolders(PACKED),
        index=wiring.job_index(),
        clock=wiring.clock(),
        interrupts_held=nothing_held,
    )
    job = prepared(
        file_text,
        site="local",
        command=command,
        advised=advised,
        options=options,
        option_words=option_words,
    )
    return submit(job, wiring.caller(), tools)


def ended_job(
    *command: str,
    exit_code: int = 0,
    logs: dict[str, bytes] | None = None,
    file_text: str | None = None,
) -> Submission:
    """A job that ended with this code after 2.5 s and left these logs."""
    words = command or (() if file_text else ("true",))
    submission = started_job(*words, file_text=file_text)
    for name, data in (logs or {}).items():
        (submission.folder / "logs" / name).write_bytes(data)
    return ended(submission, exit_code)


def ended(submission: Submission, exit_code: int = 0) -> Submission:
    """The same job after its end."""
    now_s = time.time()
    state = JobState.FAILED if exit_code else JobState.COMPLETED
    result = LocalResult(
        exit_code=exit_code,
        exit_signal=None,
        state=state,
        reason=None,
        started_s=now_s - 2.5,
        ended_s=now_s,
    )
    write_record(submission.folder, RESULT_FILE, result)
    wiring.job_index().update([replace(submission.entry, state=JobState.RUNNING)])
    return submission


def write_site(folder: Path, name: str, description: str) -> Path:
    """A site file in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(f'schema = "hpckit.site/1"\nname = "{name}"\ndescription = "{description}"\n')
    return path


def config_home() -> Path:
    """The user's configuration."""
    return Path(os.environ["XDG_CONFIG_HOME"]) / "hpckit"
