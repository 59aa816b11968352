"""`hpckit report` on real folders: what it prints, writes and refuses."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import shutil
from pathlib import Path

import click
import pytest

from hpckit.cli import report
from hpckit.core.errors import HpckitError, StorageFailed
from tests.fakes.account_files import MadeJob, write_accounts, write_topology
from tests.fakes.cli_jobs import call, document, ended_job, words
from tests.fakes.machines import dgx_h100
from tests.fakes.slurm_jobs import COMPLETED, FAILED, SlurmJob, slurm_job

__all__ = ["slurm_job"]

NOT_MEASURED = 'name = "n"\ncommand = ["true"]\n[account]\nenabled = false\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The accounts of a small job."""
    write_accounts(tmp_path, MadeJob(gpus=2, duration_s=60.0))
    return tmp_path


def refusal(*args: str | Path) -> HpckitError:
    """The error that the command ends with."""
    error = call("report", *args, refused=True).exception
    assert isinstance(error, HpckitError), error
    return error


def test_a_job_is_found_by_its_id() -> None:
    """The screen has the job's name, its end and its energy, and how to go on."""
    job = ended_job("echo")
    write_accounts(job.folder, MadeJob(gpus=2, duration_s=60.0))
    text = words(call("report", job.job_id).stdout)
    assert text.startswith(f"echo {job.job_id} · COMPLETED in")
    assert "Wh GPU (counter, 100 % covered)" in text
    assert text.endswith(f"next hpckit report {job.job_id} --html report.html")


def test_a_failed_job_points_at_its_logs() -> None:
    """After a failure the next command is the one that shows what the job printed."""
    job = ended_job("false", exit_code=1)
    write_accounts(job.folder, MadeJob(gpus=1, duration_s=10.0, exit_code=1))
    text = words(call("report", job.job_id).stdout)
    assert f"next hpckit logs {job.job_id} hpckit report {job.job_id} --html" in text


def test_a_job_without_accounts_says_why() -> None:
    """A job that ran without ledger and sampler is told so, with where to look."""
    job = ended_job()
    error = refusal(job.job_id)
    assert "was not measured: its script ended before" in error.message
    assert error.hint == f"hpckit show {job.job_id} --script shows what ran"


def test_a_job_that_was_not_to_be_measured_says_by_what() -> None:
    """The key that turned accounts off is named, and the command that says who set it."""
    error = refusal(ended_job(file_text=NOT_MEASURED).job_id)
    assert error.message.endswith("was not measured: it was submitted with account.enabled = false")
    assert error.hint is not None
    assert error.hint.endswith("shows where it is set; unset it to measure the next run")


def test_a_folder_in_place_of_an_id_is_told_the_option(folder: Path) -> None:
    """What lies there under the name that is no job's is read with --from."""
    error = refusal(folder)
    assert error.message == f"no job '{folder}' was submitted from here with hpckit"
    assert (
        error.hint == f"hpckit jobs lists them; to read that folder: hpckit report --from {folder}"
    )


def test_an_array_has_a_report_of_the_whole(slurm_job: SlurmJob) -> None:
    """What its tasks used together, those that stand out, and how to see one; all in JSON."""
    job = slurm_job({"46_3": COMPLETED, "46_4": FAILED}, array="3-4")
    folder = Path(job.folder)
    for task in ("3", "4"):
        write_accounts(folder, MadeJob(gpus=1, duration_s=10.0, array_task=task))
    text = words(call("report", "46").stdout)
    assert "46 · 2 measured tasks · 1 COMPLETED, 1 FAILED" in text
    assert re.search(r"GPUs [\d.]+ % useful of 20.0 GPU-seconds", text)
    assert re.search(r"task 4 FAILED in .* next hpckit report 46_3$", text)
    found = document("report", "46", "--json")
    assert (found["schema"], list(found["tasks"])) == ("hpckit.task-reports/1", ["3", "4"])
    assert "2 measured tasks" in words(call("report", "--from", folder).stdout)
    for option in ("--csv", "--svg"):
        assert "each task has its own report" in refusal("46", option).message


@pytest.mark.parametrize("name", ["job.toml", "account/restart-0/rank-0.ledger"])
def test_a_file_of_a_job_folder_leads_to_the_folder(name: str) -> None:
    """What is no Parquet is said to be a file where a folder is expected, with the folder."""
    job = ended_job()
    write_accounts(job.folder, MadeJob(gpus=1, duration_s=10.0))
    file = job.folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    error = refusal("--from", file)
    assert error.message == f"got the file {file}, expected a folder or a file that --parquet wrote"
    assert error.hint == f"hpckit report --from {job.folder}"


def test_a_removed_job_folder_says_what_would_help() -> None:
    """The folder, why it cannot be read, and that a copy can be."""
    job = ended_job()
    write_accounts(job.folder, MadeJob(gpus=1, duration_s=10.0))
    shutil.rmtree(job.folder)
    error = refusal(job.job_id)
    assert str(job.folder) in error.message
    assert error.hint is not None
    assert "hpckit report --from" in error.hint


def test_accounts_that_cannot_be_read_have_a_remedy() -> None:
    """Where only what is no file lies below account/, the command that shows it is named."""
    job = ended_job()
    (job.folder / "account").mkdir(exist_ok=True)
    (job.folder / "account" / "restart-0").symlink_to("nowhere")
    error = refusal(job.job_id)
    assert "has no readable accounts" in error.message
    assert error.hint is not None
    assert f"ls -lR {job.folder}" in error.hint


def test_a_folder_needs_no_job(folder: Path) -> None:
    """--from reads a folder wherever it lies."""
    made = document("report", "--from", folder, "--json")
    assert (made["schema"], len(made["gpus"]), made["job"]["job_id"]) == (
        "hpckit.report/1",
        2,
        "4242",
    )
    assert made["job"]["synthetic"] is True


def test_an_account_folder_is_that_of_its_job() -> None:
    """`--from JOB_FOLDER/account` says of the job what `--from JOB_FOLDER` says."""
    job = ended_job()
    write_accounts(job.folder, MadeJob(gpus=1, duration_s=10.0))
    whole = document("report", "--from", job.folder, "--json")
    assert whole["job"]["state"] == "COMPLETED"
    assert document("report", "--from", job.folder / "account", "--json") == whole


def test_an_empty_folder_says_what_is_expected(tmp_path: Path) -> None:
    """A folder without accounts is refused with what one is."""
    error = refusal("--from", tmp_path)
    assert f"the folder {tmp_path} has no accounts" in error.message
    assert error.hint is not None
    assert "hpckit sample --out" in error.hint


def test_csv_and_openmetrics_are_printed(folder: Path) -> None:
    """The two have stdout for themselves."""
    rows = list(csv.DictReader(io.StringIO(call("report", "--from", folder, "--csv").stdout)))
    assert [row["gpu_index"] for row in rows] == ["0", "1"]
    assert call("report", "--from", folder, "--openmetrics").stdout.endswith("# EOF\n")


def test_the_node_of_a_job_is_a_picture(folder: Path) -> None:
    """--svg prints the picture alone, of the node that is asked for."""
    assert call("report", "--from", folder, "--svg").stdout.startswith("<svg ")
    error = refusal("--from", folder, "--svg", "--node", "elsewhere")
    assert error.message == "elsewhere is not a node of this job"


@pytest.mark.parametrize(
    ("args", "words_of_it"),
    [
        (("--json", "--csv"), "--json and --csv exclude each other"),
        (("--csv", "--openmetrics"), "--csv and --openmetrics exclude each other"),
        (("--curves",), "--curves is for --json alone"),
        (("--compare", "", "4242"), "--compare needs two jobs"),
        (("--csv", "x.csv"), "--csv takes no file, it prints: --csv > x.csv"),
        (("--svg", "x.svg"), "--svg takes no file, it prints: --svg > x.svg"),
        (("--node", "n1"), "--node is for --svg alone"),
        (("--from", ".", "--json", "a/b.json"), "--json takes no file"),
        (("--json", "my out.json"), "--json > 'my out.json'"),
        (("4242", "--from", "."), "JOB_ID and --from exclude each other"),
        (("--html", "x", "--parquet", "x"), "--html and --parquet cannot be one file"),
        (("--html", "x", "--parquet", "./x"), "--html and --parquet cannot be one file"),
        (("--html", ""), "--html needs the name of a file"),
    ],
)
def test_options_that_do_not_go_together(args: tuple[str, ...], words_of_it: str) -> None:
    """One output has stdout, and each file is one thing."""
    result = call("report", *args)
    assert result.exit_code == 2
    assert words_of_it in click.unstyle(result.stderr)


def test_a_parquet_file_is_the_whole_account(folder: Path, tmp_path: Path) -> None:
    """The report on the archive is that on the folder, to the last digit."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    archive = tmp_path / "job.parquet"
    said = call("report", "--from", folder, "--parquet", archive).stderr
    assert f"wrote {archive}: 122 GPU samples" in said
    archived = document("report", "--from", archive, "--json", "--curves")
    archived["missing"].clear()  # what is of the job folder alone
    assert archived == document("report", "--from", folder, "--json", "--curves")


def test_a_page_is_written_whole(folder: Path, tmp_path: Path) -> None:
    """--html writes one file and says where; the screen is printed all the same."""
    page = tmp_path / "report.html"
    result = call("report", "--from", folder, "--html", page)
    assert f"wrote {page}" in result.stderr
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")
    assert "kJ GPU" in words(result.stdout) or "Wh GPU" in words(result.stdout)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_page_shows_a_node_with_its_ranks(tmp_path: Path) -> None:
    """Of nodes without a finding one is drawn on the page, with its topology and its ranks."""
    place = write_accounts(tmp_path, MadeJob(nodes=2, gpus=1, duration_s=3.0))
    for node in ("n000", "n001"):
        write_topology(place, node, dgx_h100())
    call("report", "--from", tmp_path, "--html", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count('<figure class="topology">') == 1
    assert '<figure class="topology"><figcaption>n000</figcaption>' in page
    assert "NVSwitch" in page


def test_a_place_that_cannot_be_written_is_refused(folder: Path, tmp_path: Path) -> None:
    """The error names the file."""
    error = refusal("--from", folder, "--html", tmp_path / "gone" / "report.html")
    assert isinstance(error, StorageFailed)
    assert "report.html cannot be written: No such file" in error.message
    assert error.hint is not None
    assert error.hint.startswith(f"mkdir -p {tmp_path / 'gone'} first")


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    """Any other file is said to be none."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    other = tmp_path / "x.parquet"
    other.write_bytes(b"PAR1 nothing of the kind PAR1")
    assert "cannot be read as Parquet" in refusal("--from", other).message


@pytest.mark.parametrize("by_id", [True, False])
def test_damaged_files_of_the_job_are_named_everywhere(tmp_path: Path, *, by_id: bool) -> None:
    """Each is in the document and on the page, whether the job is named by its id or folder."""
    job = ended_job()
    write_accounts(job.folder, MadeJob(gpus=1, duration_s=10.0))
    names = ["intent.json", "submitted.json", "effective.json", "site.json", "advice.json"]
    for name in names:
        (job.folder / name).write_text('{"schema": "hpc')
    asked = [job.job_id] if by_id else ["--from", job.folder]
    found = document("report", *asked, "--json", "--html", tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    told = " ".join(found["missing"])
    assert all(f"{name} is damaged: Unterminated" in told for name in names[:4])
    assert all(f"{name} is damaged: Unterminated" in page for name in names[:4])
    assert found["energy"]["gpu"]["value_j"] > 0


def without_gpus(folder: Path) -> Path:
    """The accounts of a job of one rank that asked for no GPU."""
    place = write_accounts(folder, MadeJob(gpus=1, duration_s=10.0, samples=False))
    path = place / "rank-0.ledger"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, "gpus": []}) + "\n" for line in lines))
    return folder


def test_rows_of_no_gpu_are_a_header_and_a_note(tmp_path: Path) -> None:
    """The output stays what a program expects, and a person is told why it is empty."""
    result = call("report", "--from", without_gpus(tmp_path), "--csv")
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr == "note  no GPU was measured in this job: there are no rows\n"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Be one."""
        return True


def test_the_progress_line_is_gone_before_the_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comparison does not begin on the line that said how far it was."""
    monkeypatch.setattr(report, "_QUIET_S", 0.0)
    terminal = _Terminal()
    options = report.ReportOptions(as_json=False, site=None, curves=False)
    with contextlib.redirect_stderr(terminal), contextlib.redirect_stdout(terminal):
        report.show_comparison(options, (str(folder), str(folder)))
    shown, _, answer = terminal.getvalue().rpartition("\r\x1b[K")
    assert "nodes read" in shown
    assert answer.startswith(" A  ")


def test_a_job_with_gpus_and_one_without_are_not_compared(folder: Path, tmp_path: Path) -> None:
    """The error says which of them has none, and why."""
    error = refusal("--compare", folder, without_gpus(tmp_path / "bare"))
    assert error.message.startswith("B has no measured GPU (no rank or sampler reported one)")
    assert error.message.endswith("expected GPUs in both or in neither")
    assert error.hint is not None


def test_another_sites_factors_can_be_taken(folder: Path) -> None:
    """--site gives the factors where the folder has none."""
    assert document("report", "--from", folder, "--json", "--site", "local")["cost"]["pue"] is None


def test_the_factors_of_the_jobs_own_site_count() -> None:
    """What site.json of the folder says is used."""
    job = ended_job()
    write_accounts(job.folder, MadeJob(gpus=1, duration_s=10.0))
    site = json.loads((job.folder / "site.json").read_text())
    site["energy"] = {"pue": 1.5, "price_per_kwh": 0.2, "currency": "EUR"}
    (job.folder / "site.json").write_text(json.dumps(site))
    cost = document("report", job.job_id, "--json")["cost"]
    assert (cost["pue"], cost["currency"]) == (1.5, "EUR")
    assert cost["facility_j"] > 0


def test_the_next_command_names_the_folder_as_the_shell_takes_it(tmp_path: Path) -> None:
    """A folder with a blank in its name can be copied from the screen."""
    folder = tmp_path / "my runs"
    write_accounts(folder, MadeJob(gpus=1, duration_s=10.0))
    text = "".join(call("report", "--from", folder).stdout.split())  # a long path is wrapped
    wanted = f"next hpckit report --from '{folder}' --html report.html"
    assert text.endswith("".join(wanted.split()))
