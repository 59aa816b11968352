"""What a job folder says of its job: it may be a copy that somebody changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpckit.account.report import JobFacts
from hpckit.account.report_facts import (
    energy_site,
    facts_of_folder,
    facts_of_job,
    no_accounts,
)
from hpckit.account.store import FileSampleStore, FoundAccounts
from hpckit.core.fields import to_tree
from hpckit.slurm.values import JobId, JobState, JobStatus
from hpckit.spec.job_folder import (
    EFFECTIVE_FILE,
    INTENT_FILE,
    LOCAL_RESULT_SCHEMA,
    RESULT_FILE,
    RESULT_SCHEMA,
    SITE_FILE,
    SUBMITTED_FILE,
)
from hpckit.spec.site import SITE_SCHEMA, SiteSpec
from hpckit.spec.store import FileJobFolders
from tests.fakes.world import entry_of


def gpus_per_node(folder: Path, asked: object) -> int | None:
    """What is known of a folder whose effective job asks for this."""
    (folder / INTENT_FILE).write_text(json.dumps({"schema": "hpckit.intent/1", "job_id": "7"}))
    document = {"job": {"resources": {"gpus_per_node": asked}}}
    (folder / EFFECTIVE_FILE).write_text(json.dumps(document))
    return facts_of_folder(folder, FileJobFolders()).gpus_per_node


@pytest.mark.parametrize("asked", [None, "8", True, -1])
def test_a_number_that_cannot_be_is_none(tmp_path: Path, asked: object) -> None:
    """A folder may be anybody's, and is not believed."""
    assert gpus_per_node(tmp_path, asked) is None


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ({"nodes": 2, "gpus_per_node": 4}, 8),
        ({"nodes": 2}, 0),
        ({"nodes": 2, "gpus_per_node": -4}, None),
        ({"nodes": -2, "gpus_per_node": 4}, None),
        ({"nodes": 2, "gpus_per_node": "4"}, None),
    ],
)
def test_the_gpus_that_were_asked_for(
    tmp_path: Path, resources: dict[str, object], gpus: int | None
) -> None:
    """They are those of all nodes, 0 where none is asked for, and unknown where none can be."""
    (tmp_path / INTENT_FILE).write_text(json.dumps({"name": "x"}))
    (tmp_path / EFFECTIVE_FILE).write_text(json.dumps({"job": {"resources": resources}}))
    assert facts_of_folder(tmp_path, FileJobFolders()).gpus_asked == gpus


def facts(folder: Path, result: str, name: str = "x") -> JobFacts:
    """The facts of a folder whose result has these keys."""
    (folder / INTENT_FILE).write_text(f'{{"name": "{name}", "job_id": "7"}}')
    (folder / RESULT_FILE).write_text(f'{{"schema": "{RESULT_SCHEMA}", {result}}}')
    return facts_of_folder(folder, FileJobFolders())


def test_a_job_of_this_machine_ended_too(tmp_path: Path) -> None:
    """The result that a job without a scheduler leaves is taken like Slurm's."""
    (tmp_path / INTENT_FILE).write_text('{"name": "x", "job_id": "L7"}')
    result = f'{{"schema": "{LOCAL_RESULT_SCHEMA}", "state": "FAILED", "exit_code": 3}}'
    (tmp_path / RESULT_FILE).write_text(result)
    found = facts_of_folder(tmp_path, FileJobFolders())
    assert (found.state, found.exit_code) == ("FAILED", 3)


RUBBISH = (b'{"schema": "hpc', b"{}", b"[]", b"\xff\x00", b"")


@pytest.mark.parametrize("name", [INTENT_FILE, SUBMITTED_FILE, RESULT_FILE, EFFECTIVE_FILE])
@pytest.mark.parametrize("data", RUBBISH)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    """Cut short, empty, of another kind or binary: a sentence with its name and why."""
    (tmp_path / INTENT_FILE).write_text('{"name": "x", "job_id": "7"}')
    assert facts_of_folder(tmp_path, FileJobFolders()).missing == ()
    (tmp_path / name).write_bytes(data)
    (told,) = facts_of_folder(tmp_path, FileJobFolders()).missing
    assert told.startswith((f"{name} is damaged: ", f"{name} cannot be read: "))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (RESULT_FILE, '{"schema": "hpckit.intent/1"}', "its schema is 'hpckit.intent/1', expected"),
        (RESULT_FILE, '{"state": "FAILED"}', "its schema is None, expected hpckit.result/1 or"),
        (EFFECTIVE_FILE, '{"job": []}', "it has no job.resources (the job's request)"),
    ],
)
def test_json_that_is_something_else_is_named(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    """A result that is none, and an effective job without one, are not passed over."""
    (tmp_path / INTENT_FILE).write_text('{"name": "x"}')
    (tmp_path / name).write_text(text)
    (told,) = facts_of_folder(tmp_path, FileJobFolders()).missing
    assert told.startswith(f"{name} is damaged: {said}")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            RESULT_FILE,
            '{"schema": "hpckit.result/9"}',
            "got 'hpckit.result/9', expected hpckit.result/1 or hpckit.local-result/1",
        ),
        (
            EFFECTIVE_FILE,
            '{"schema": "hpckit.effective-job/2", "spec": {}}',
            "got 'hpckit.effective-job/2', expected hpckit.effective-job/1",
        ),
    ],
)
def test_a_document_of_another_version_is_not_damaged(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    """What a later hpckit wrote is whole: the row says which version, and which is read."""
    (tmp_path / INTENT_FILE).write_text('{"name": "x"}')
    (tmp_path / name).write_text(text)
    (told,) = facts_of_folder(tmp_path, FileJobFolders()).missing
    assert told == f"{name} has a different version: {said}"


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING, JobState.REQUEUED])
@pytest.mark.parametrize("job_id", ["4242", "Laa"])
def test_what_a_job_has_not_written_yet_is_not_missing(
    tmp_path: Path, state: JobState, job_id: str
) -> None:
    """Its number, its run and its result come later, or never: none of them is a row."""
    (tmp_path / INTENT_FILE).write_text('{"name": "x"}')
    status = JobStatus(job_id=JobId(job_id), state=state)
    entry = entry_of(job_id, tmp_path, state)
    assert facts_of_job(entry, status, None, FileJobFolders()).missing == ()
    assert energy_site(tmp_path, FileJobFolders())[1] == ()
    assert FileSampleStore().find(tmp_path) == FoundAccounts()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"schema": "hpckit.site/2"}, "got 'hpckit.site/2', expected hpckit.site/1"),
        ({"energy": {"rue": 1}}, "got the key energy.rue, expected the keys of hpckit.site/1"),
    ],
)
def test_a_site_of_another_version_is_not_damaged(
    tmp_path: Path, changed: dict[str, object], said: str
) -> None:
    """By its schema, or by a key that this version does not have."""
    tree = to_tree(SiteSpec(schema=SITE_SCHEMA, name="here"))
    (tmp_path / SITE_FILE).write_text(json.dumps({**tree, **changed}))
    site, told = energy_site(tmp_path, FileJobFolders())
    assert site.pue is None
    assert told == (f"{SITE_FILE} has a different version: {said}",)


@pytest.mark.parametrize("data", [*RUBBISH, b'{"energy": {"pue": -1}}', b'{"energy": 1}'])
def test_a_damaged_site_is_named(tmp_path: Path, data: bytes) -> None:
    """Without it there are no energy factors, which is not what the site said."""
    (tmp_path / SITE_FILE).write_bytes(data)
    site, (told,) = energy_site(tmp_path, FileJobFolders())
    assert site.pue is None
    assert told.startswith((f"{SITE_FILE} is damaged: ", f"{SITE_FILE} cannot be read: "))
    assert told.count(SITE_FILE) == 1


def test_a_site_that_is_whole_or_not_there_is_not_named(tmp_path: Path) -> None:
    """What `hpckit sample` wrote has none."""
    assert energy_site(tmp_path, FileJobFolders())[1] == ()
    (tmp_path / SITE_FILE).write_text(
        json.dumps(to_tree(SiteSpec(schema=SITE_SCHEMA, name="here")))
    )
    assert energy_site(tmp_path, FileJobFolders())[1] == ()


def why(facts: JobFacts, found: FoundAccounts, folder: Path) -> str:
    """The error as it is printed."""
    return str(no_accounts(facts, found, FileJobFolders(), folder))


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("PENDING", "it has not run yet (PENDING)"),
        ("REQUEUED", "it waits to run again (REQUEUED)"),
        ("CANCELLED", "it did not run (CANCELLED)"),
        ("A_NEW_WORD", "it did not run (A_NEW_WORD)"),
    ],
)
def test_a_job_that_waits_is_not_said_to_be_over(state: str, words: str, tmp_path: Path) -> None:
    """What will run is told from what will not, and both name the command that says more."""
    said = why(JobFacts(job_id="7", state=state), FoundAccounts(), tmp_path)
    assert words in said
    assert said.endswith("fix: hpckit status 7")


def test_an_account_that_is_no_table_says_nothing(tmp_path: Path) -> None:
    """A list in its place in effective.json turned nothing off, and is no error of hpckit."""
    (tmp_path / "effective.json").write_text('{"job": {"account": [1]}}')
    said = why(JobFacts(job_id="7", folder=str(tmp_path)), FoundAccounts(), tmp_path)
    assert "was not measured: its script ended before" in said
