"""A measured job's advice reaches the next one, and that one's report says whether it held."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from hpckit.cli.job_options import advised
from hpckit.cli.submitted import advice_words
from hpckit.core.errors import ConfigError, HpckitError
from hpckit.jobs.submit import Submission
from hpckit.spec.job_folder import RESULT_FILE
from tests.fakes.account_files import EPOCH_NS, MadeJob, write_accounts
from tests.fakes.cli_jobs import call, document, ended, ended_job, started_job, words
from tests.fakes.prepared import prepared

JOB = """\
schema = "hpckit.job/1"
name = "n"
command = ["true"]
[resources]
gpus_per_node = 2
time_limit = "8:00:00"  # a guess
[slurm]
partition = "main"
"""


BODY = JOB.partition("\n")[2]
"""The same as `prepared` takes it: without the schema."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A job file that asks for eight hours."""
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


@pytest.fixture
def measured() -> Submission:
    """A job of that file that completed after a minute, with accounts of two GPUs."""
    return with_accounts(ended_job(file_text=BODY))


def with_accounts(submission: Submission) -> Submission:
    """The job with what its samplers would have left of a minute (synthetic)."""
    made = MadeJob(gpus=2)
    write_accounts(submission.folder, made)
    path = submission.folder / RESULT_FILE
    begun_s = EPOCH_NS / 1e9
    times = {"started_s": begun_s, "ended_s": begun_s + made.duration_s}
    path.write_text(json.dumps({**json.loads(path.read_text()), **times}))
    return submission


def origins(found: dict[str, object]) -> dict[str, tuple[str, str]]:
    """The values of `render --json` by key, with their origin."""
    effective = found["effective"]
    assert isinstance(effective, dict)
    return {one["key"]: (one["value"], one["detail"]) for one in effective["origins"]}


def test_advice_stands_over_the_file(measured: Submission, file: Path) -> None:
    """The advised value has the report as its origin, all others keep theirs."""
    found = document("render", "--json", file, "--from-report", measured.job_id)
    values = origins(found)
    assert values["resources.time_limit"] == ('"0:10:00"', f"report {measured.job_id}")
    assert values["resources.gpus_per_node"] == ("2", "job.toml")


def test_an_option_stands_over_advice(measured: Submission, file: Path) -> None:
    """What is typed is what is meant."""
    found = document(
        "render", "--json", file, "--from-report", measured.job_id, "--time", "1:00:00"
    )
    assert origins(found)["resources.time_limit"] == ('"1:00:00"', "--time")


def test_the_script_says_what_a_report_advised(measured: Submission, file: Path) -> None:
    """The directive says the report and what was there before; --explain lists the origin."""
    args = ("render", file, "--site", "docker", "--from-report", measured.job_id)
    script = call(*args).stdout
    (line,) = (line for line in script.splitlines() if line.startswith("#SBATCH --time="))
    assert words(line) == f"#SBATCH --time=00:10:00 # report {measured.job_id} (was 8:00:00)"
    assert f"report {measured.job_id}" in call(*args, "--explain").stdout


def advised_job(measured: Submission, **options: object) -> Submission:
    """A job of the same file that takes the advice, started by nothing."""
    keys = {f"resources.{name}": value for name, value in options.items()}
    return started_job(file_text=BODY, advised=advised(measured.job_id), options=keys)


def test_a_script_can_be_rendered_again_from_its_folder(measured: Submission) -> None:
    """advice.json in place of the id gives the same bytes, and the script names it."""
    folder = advised_job(measured).folder
    args = (folder / "job.toml", "--site", "local", "--from-report", folder / "advice.json")
    script = call("render", *args).stdout
    assert script == (folder / "job.sbatch").read_text()
    assert "hpckit render job.toml --from-report advice.json --site local" in script


def test_the_new_folder_keeps_what_was_predicted(measured: Submission) -> None:
    """advice.json has each advice, whether it was applied, and the run that it is from."""
    advice = json.loads((advised_job(measured).folder / "advice.json").read_text())
    assert (advice["schema"], advice["job_id"]) == ("hpckit.advice/1", measured.job_id)
    assert [(one["key"], one["applied"]) for one in advice["advice"]] == [
        ("resources.time_limit", True)
    ]
    assert advice["baseline"]["elapsed_s"] == pytest.approx(60, abs=5)
    other = advised_job(measured, time_limit="1:00:00").folder
    advice = json.loads((other / "advice.json").read_text())
    assert [one["applied"] for one in advice["advice"]] == [False]


def test_the_report_of_the_next_job_says_whether_it_held(measured: Submission) -> None:
    """Predicted beside measured, on the screen and in JSON."""
    after = with_accounts(ended(advised_job(measured)))
    (outcome,) = document("report", "--json", after.job_id)["outcomes"]
    assert (outcome["held"], outcome["quantity"]) == (True, "elapsed_s")
    screen = words(call("report", after.job_id).stdout)
    assert f"by report {measured.job_id}: resources.time_limit 0:10:00: confirmed" in screen


def test_what_was_applied_is_said_in_a_few_words(measured: Submission) -> None:
    """The values and their report, or that it changes nothing."""
    advice = advised(measured.job_id)
    job = prepared(BODY, site="local", advised=advice)
    assert advice_words(job) == f'resources.time_limit "0:10:00"   by report {measured.job_id}'
    job = prepared(BODY, site="local", advised=advice, options={"resources.time_limit": "1"})
    assert advice_words(job) == f"report {measured.job_id} changes nothing"


def test_a_command_takes_advice_too(file: Path) -> None:
    """Without a job file the layer is over nothing but the site."""
    before = with_accounts(ended_job("true"))
    found = document(
        "render", "--json", "--site", "local", "--from-report", before.job_id, "--", "true"
    )
    assert "resources.time_limit" not in origins(found)


def test_the_report_is_a_patch_of_the_job_file(measured: Submission, file: Path) -> None:
    """patch(1) takes it, and the file then says the advice beside its comment."""
    patch = call("report", "--patch", measured.job_id).stdout
    assert document("report", "--json", measured.job_id)["advice_patch"] == patch
    subprocess.run(["patch", str(file)], input=patch.encode(), check=True, timeout=60)
    assert file.read_text() == JOB.replace('"8:00:00"', '"0:10:00"')


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ("gpus_per_node = 2", "resources.gpus_per_node was 2, now 4"),
        ("[resources]", "parallel was not set, now data 1"),
    ],
)
def test_a_report_of_another_job_is_refused(
    measured: Submission, file: Path, change: str, word: str
) -> None:
    """Other hardware, or another mesh: the advice would not be about this job."""
    new = "gpus_per_node = 4" if "gpus" in change else "parallel = { data = 1 }\n[resources]"
    file.write_text(JOB.replace(change, new))
    error = call("render", file, "--from-report", measured.job_id, refused=True).exception
    assert isinstance(error, ConfigError)
    assert word in error.message


def test_an_option_is_not_taken_for_the_job() -> None:
    """`--from-report --wait` lacks the job."""
    result = call("submit", "--from-report", "--wait", "--", "true")
    assert result.exit_code == 2
    assert "got the option --wait, expected a job ID" in result.stderr


def test_a_job_that_is_not_known_is_refused(file: Path) -> None:
    """And one that left no accounts."""
    error = call("render", file, "--from-report", "4711", refused=True).exception
    assert isinstance(error, HpckitError)
    bare = started_job(file_text=BODY)
    error = call("render", file, "--from-report", bare.job_id, refused=True).exception
    assert isinstance(error, HpckitError)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "x"}', '{"schema": "hpckit.advice/1"}']
)
def test_a_file_that_is_no_advice_is_refused(file: Path, tmp_path: Path, text: str) -> None:
    """With what it should have been."""
    (tmp_path / "advice.json").write_text(text)
    call_args = ("render", file, "--from-report", tmp_path / "advice.json")
    assert isinstance(call(*call_args, refused=True).exception, ConfigError)


def test_a_chain_takes_advice_by_stage(measured: Submission, tmp_path: Path) -> None:
    """A report is of one job: which stage is meant must be said."""
    path = tmp_path / "chain.toml"
    path.write_text(
        'schema = "hpckit.job/1"\nname = "n"\n[resources]\ngpus_per_node = 2\n'
        '[slurm]\npartition = "main"\n'
        '[[stages]]\nname = "a"\ncommand = ["true"]\n'
    )
    args = ("submit", "--dry-run", "--site", "docker", path, "--from-report", measured.job_id)
    assert isinstance(call(*args, refused=True).exception, ConfigError)
    assert "#SBATCH" in call(*args, "--stage", "a").stdout


def test_two_jobs_are_compared(measured: Submission) -> None:
    """By ids, on the screen and as a document; the same recipe is said."""
    other = with_accounts(ended_job(file_text=BODY))
    args = ("report", "--compare", measured.job_id, other.job_id)
    assert "recipe the same" in words(call(*args).stdout)
    found = document(*args, "--json")
    assert found["schema"] == "hpckit.comparison/1"
    assert found["a"]["synthetic"]
    assert {one["name"] for one in found["quantities"]} >= {"power_w", "elapsed_s"}


def test_the_next_command_names_the_file_as_it_was_given(tmp_path: Path) -> None:
    """The report's last line can be run as it stands, and so can patch(1) with its diff."""
    job = with_accounts(ended_job(file_text=BODY))
    intent = json.loads((job.folder / "intent.json").read_text())
    assert intent["file"] == "job.toml"
    (job.folder / "intent.json").write_text(json.dumps({**intent, "file": "my runs/a.toml"}))
    text = words(call("report", job.job_id).stdout)
    assert text.endswith(f"hpckit submit 'my runs/a.toml' --site local --from-report {job.job_id}")
    assert call("report", "--patch", job.job_id).stdout.startswith("--- my runs/a.toml\n")


def without_a_file(
    *command: str, typed: Sequence[str] = ("--time", "8:00:00", "--gpus-per-node", "2")
) -> Submission:
    """A measured job that was submitted with options and a command alone."""
    options = {"resources.time_limit": "8:00:00", "resources.gpus_per_node": 2}
    job = with_accounts(ended(started_job(*command, options=options, option_words=typed)))
    intent = json.loads((job.folder / "intent.json").read_text())
    (job.folder / "intent.json").write_text(json.dumps({**intent, "file": ""}))
    return job


def test_a_job_without_a_file_is_submitted_by_its_command() -> None:
    """The next command has what was typed but for what is advised, and can be typed."""
    job = without_a_file("sleep", "30 s")
    text = words(call("report", job.job_id).stdout)
    assert "resources.time_limit 8:00:00 → 0:10:00" in text
    typed = f"--site local --gpus-per-node 2 --from-report {job.job_id} -- sleep '30 s'"
    assert text.endswith(f"hpckit submit {typed}")


def test_a_set_option_does_not_stand_over_advice_either() -> None:
    """Whichever way the value was given."""
    job = without_a_file("true", typed=("--set", "resources.time_limit=8:00:00", "--mem", "4G"))
    text = words(call("report", job.job_id).stdout)
    assert text.endswith(f"hpckit submit --site local --mem 4G --from-report {job.job_id} -- true")


def test_a_command_too_long_to_type_is_that_job_again() -> None:
    """The screen is not filled with it, and the advice is in what is submitted again."""
    job = without_a_file("true", "x" * 300)
    text = words(call("report", job.job_id).stdout)
    again = ("--again", job.job_id, "--from-report", job.job_id)
    assert text.endswith(f"hpckit submit {' '.join(again)}")
    assert "0:10:00" in call("submit", "--dry-run", *again).stdout


def test_a_report_of_another_job_says_how_to_submit_as_measured(measured: Submission) -> None:
    """What differs in words of the job file, and the options that make it the same again."""
    error = call(
        "submit", "--dry-run", "--from-report", measured.job_id, "--", "true", refused=True
    )
    said = words(str(error.exception))
    assert "resources.gpus_per_node was 2, now not set" in said
    assert "--set resources.gpus_per_node=2" in said
    assert f"hpckit show {measured.job_id} --script" in said
    assert "None" not in said


def test_the_options_that_measure_again_can_be_pasted() -> None:
    """Several stand side by side, as on a command line; what is to be left out comes after."""
    text = BODY.replace("[slurm]", "ntasks_per_node = 8\n[slurm]")
    job = with_accounts(ended_job(file_text=text))
    error = call(
        "submit", "--dry-run", "--mem", "4G", "--from-report", job.job_id, "--", "true",
        refused=True,
    )  # fmt: skip
    said = words(str(error.exception))
    assert "--set resources.gpus_per_node=2 --set" in said
    assert "=8 --set slurm.partition=main, or the" in said


def test_the_page_has_a_command_for_each_piece_of_advice(
    measured: Submission, tmp_path: Path
) -> None:
    """It submits the job as it was with that change, without what the change replaces."""
    call("report", measured.job_id, "--html", tmp_path / "r.html")
    commands = re.findall(
        r'<p class="command"><code>(.*?)</code>', (tmp_path / "r.html").read_text()
    )
    assert commands == ["hpckit submit job.toml --site local --time 0:10:00"]
