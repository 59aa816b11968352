"""A job's report as JSON, CSV and OpenMetrics: what other programs rely on."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from docs.generate import report_schema
from hpckit.account.page.exports import COLUMNS, report_csv, report_document, report_openmetrics
from hpckit.account.values import SPLIT_GPU, JobReport, Share
from tests.fakes.reports import clean, gpu_account, rank_account, training, unknown


def metrics(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The samples of an OpenMetrics text, by name and labels; ValueError where it is none.

    The strict parser of another project reads it.
    """
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def rows(report: JobReport) -> list[dict[str, str]]:
    """The rows of a report's CSV."""
    return list(csv.DictReader(io.StringIO(report_csv(report))))


def document(report: JobReport, *, curves: bool = False) -> Any:
    """A report's document as a reader of JSON gets it; NaN and the like are refused."""
    text = json.dumps(report_document(report, "0.0.0", curves=curves), allow_nan=False)
    return json.loads(text)


@pytest.mark.parametrize("curves", [False, True])
@pytest.mark.parametrize("report", [training(), clean()])
def test_the_document_is_what_its_schema_says(report: JobReport, *, curves: bool) -> None:
    """Another implementation of JSON Schema accepts it."""
    jsonschema.validate(document(report, curves=curves), report_schema())


def test_the_document_has_the_keys_that_outside_checks_rely_on() -> None:
    """Energy with provenance, GPUs, ranks, waste by class and findings are under fixed keys."""
    made = document(training())
    assert made["schema"] == "hpckit.report/1"
    for scope in ("gpu", "node"):
        assert {"value_j", "plus_minus_j", "source", "coverage_frac"} <= set(made["energy"][scope])
    classes = ("no_process", "idle", "spin", "useful", "unknown")
    assert set(made["waste"]) == {f"{word}_gpu_s" for word in classes}
    assert [len(made[key]) for key in ("gpus", "ranks", "findings")] == [16, 16, 1]


def test_curves_are_there_only_where_they_are_wanted() -> None:
    """Without --curves a document stays small."""
    assert document(training())["gpus"][0]["curves"] == []
    assert document(training(), curves=True)["gpus"][0]["curves"][0]["values"] == [500.0, None]


def test_csv_has_a_row_for_each_gpu_and_incarnation() -> None:
    """The columns are fixed, and each GPU is under its rank."""
    made = rows(training())
    assert list(made[0]) == list(COLUMNS)
    assert [row["ranks"] for row in made] == [str(rank) for rank in range(16)]


def test_csv_tells_zero_from_missing() -> None:
    """A measured zero is 0, what was not measured is empty, as is all of which nothing is known."""
    gpu = replace(gpu_account(0), energy=unknown("no counter"), idle_remainder_j=0.0)
    (row,) = rows(replace(clean(), gpus=(gpu,)))
    assert (row["energy_j"], row["energy_plus_minus_j"]) == ("", "")
    assert (row["idle_remainder_j"], row["no_process_gpu_s"]) == ("0.0", "0.0")
    gpu = replace(gpu_account(0), waste=Share(unknown_gpu_s=60.0))
    (row,) = rows(replace(training(), gpus=(gpu,)))
    told = [row[f"{word}_gpu_s"] for word in ("no_process", "idle", "spin", "useful", "unknown")]
    assert told == ["", "", "", "", "60.0"]


def test_openmetrics_has_no_class_of_time_without_a_sample() -> None:
    """Only that it is unknown is measured."""
    found = metrics(report_openmetrics(replace(training(), waste=Share(unknown_gpu_s=60.0))))
    classes = [dict(labels)["class"] for name, labels in found if "job_gpu_time" in name]
    assert classes == ["unknown"]


@pytest.mark.parametrize("name", ['a,"b"\nc', "=1+1", "@SUM(A1)", "-2", "+cmd"])
def test_csv_survives_any_name(name: str) -> None:
    """A name with commas, quotes and lines stays one field, and no spreadsheet computes it."""
    (row,) = rows(replace(clean(), gpus=(replace(gpu_account(0), name=name),)))
    assert row["gpu_name"].removeprefix("'") == name
    assert not row["gpu_name"].startswith(("=", "@", "-", "+"))


def test_openmetrics_keeps_the_rules_of_its_text_format() -> None:
    """Every line is what the specification allows, and the energy of the job is in it.

    A name stays one label, and a rank that was started again does not repeat a sample.
    """
    report = clean()
    odd = replace(report.job, name='a"b\\c\nd')
    again = metrics(
        report_openmetrics(replace(report, job=odd, ranks=(*report.ranks, report.ranks[0])))
    )
    assert any(("name", 'a"b\\c\nd') in labels for _, labels in again)
    found = metrics(report_openmetrics(training()))
    assert len(found) > 200
    job = {("job", "4242"), ("name", "train"), ("synthetic", "true"), ("scope", "gpu")}
    assert found["hpckit_job_energy_joules", frozenset(job)] == pytest.approx(9.12 * 3.6e6)


def test_openmetrics_has_no_sample_of_what_was_not_measured() -> None:
    """A missing value is no zero."""
    gpu = replace(gpu_account(0), energy=unknown("no counter"), util_mean_pct=None)
    found = metrics(report_openmetrics(replace(clean(), gpus=(gpu,))))
    names = {name for name, _ in found}
    assert "hpckit_gpu_energy_joules" not in names
    assert "hpckit_gpu_held_seconds" in names


def test_a_split_gpu_is_marked_in_every_output() -> None:
    """Who sums energies by machine sees that the whole of a GPU is counted that MIG splits."""
    report = clean()
    split = replace(report.energy.gpu, scope=SPLIT_GPU, plus_minus_j=None)
    gpu = replace(report.gpus[0], energy=split)
    report = replace(report, gpus=(gpu,), energy=replace(report.energy, gpu=split))
    assert document(report)["gpus"][0]["energy"]["scope"] == "split-gpu"
    assert rows(report)[0]["energy_scope"] == "split-gpu"
    marked = {
        name for name, labels in metrics(report_openmetrics(report)) if ("mig", "true") in labels
    }
    assert {"hpckit_job_energy_joules", "hpckit_gpu_energy_joules"} <= marked


def test_openmetrics_has_all_lives_of_a_rank() -> None:
    """A rank that was started again has the energy of all of its lives, and the largest peak."""
    first = replace(rank_account(0), max_rss_bytes=7 * 2**30, cpu_s=10.0)
    again = replace(first, max_rss_bytes=5 * 2**30, cpu_s=2.5)
    found = metrics(report_openmetrics(replace(training(), ranks=(first, again))))
    told = {name: value for (name, _), value in found.items() if "_rank_" in name}
    assert told["hpckit_rank_energy_joules"] == 2 * (first.energy.value_j or 0.0)
    assert told["hpckit_rank_cpu_seconds"] == 12.5
    assert told["hpckit_rank_memory_peak_bytes"] == 7 * 2**30


def test_openmetrics_has_no_part_of_a_rank_for_the_whole() -> None:
    """Where one life is not known the rank has no sample, rather than that of the others."""
    first = replace(rank_account(0), cpu_s=10.0)
    again = replace(first, cpu_s=None)
    found = metrics(report_openmetrics(replace(training(), ranks=(first, again))))
    names = {name for name, _ in found}
    assert "hpckit_rank_cpu_seconds" not in names
    assert "hpckit_rank_energy_joules" in names


def test_a_report_on_nothing_is_still_one() -> None:
    """A job without GPUs, ranks and nodes has all three outputs."""
    report = replace(clean(), gpus=(), ranks=(), nodes=())
    jsonschema.validate(document(report), report_schema())
    assert rows(report) == []
    metrics(report_openmetrics(report))


@pytest.mark.parametrize("writer", [report_csv, report_openmetrics])
def test_no_text_steers_a_terminal(writer: Callable[[JobReport], str]) -> None:
    """Control characters of names are written as JSON would."""
    name = "\x1b]0;T\x07\x1b[31mH100\r\x9b31m\x00"
    report = training()
    gpus = tuple(replace(gpu, name=name, node=name, uuid=name) for gpu in report.gpus[:1])
    text = writer(replace(report, gpus=gpus, job=replace(report.job, name=name)))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    assert "\\u001b[31mH100\\u000d" in text.replace("\\\\", "\\")
