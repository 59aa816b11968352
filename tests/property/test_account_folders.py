"""Whatever bytes lie in an account folder, there is a report or a refusal, never a crash."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hpckit.account.page.exports import report_csv, report_document, report_openmetrics
from hpckit.account.page.screen import report_lines
from hpckit.account.values import JobReport
from hpckit.core.errors import HpckitError
from hpckit.core.hostlist import expand_hosts, fold_hosts
from tests.fakes.account_files import MadeJob, reported, write_accounts

_JOB = MadeJob(gpus=2, duration_s=20.0)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def report_or_refusal(folder: Path) -> JobReport | None:
    """The report, also in all its outputs, None for a refusal."""
    try:
        report = reported(folder)
    except HpckitError:
        return None
    assert len(report_lines(report, width=80)) <= 24
    json.dumps(report_document(report, "0"), allow_nan=False)
    report_csv(report)
    assert report_openmetrics(report).endswith("# EOF\n")
    return report


def check(report: JobReport | None) -> None:
    """What holds for every report: nothing negative, nothing more than there can be."""
    if report is None:
        return
    for gpu in report.gpus:
        assert gpu.energy.value_j is None or gpu.energy.value_j >= 0
        assert 0 <= gpu.energy.coverage_frac <= 1
        assert math.isclose(gpu.waste.total_gpu_s, gpu.held_s, rel_tol=1e-6, abs_tol=1e-3)
    held = report.energy.conservation
    if held is not None:
        assert abs(held.error_j) <= 1e-6 * max(1.0, held.gpus_j)


@given(samples=st.binary(max_size=2000), ledger=st.binary(max_size=500))
def test_any_bytes_give_a_report_or_a_refusal(samples: bytes, ledger: bytes) -> None:
    """Rubbish in the files of an incarnation never ends in another error."""
    with _folder() as folder:
        place = folder / "account" / "restart-0"
        place.mkdir(parents=True)
        (place / "node-n1.samples").write_bytes(samples)
        (place / "rank-0.ledger").write_bytes(ledger)
        check(report_or_refusal(folder))


@given(data=st.data())
def test_any_damage_to_good_files_is_survived(data: st.DataObject) -> None:
    """Bytes that changed or were cut off cost what they were of, and no more."""
    with _folder() as folder:
        place = write_accounts(folder, _JOB)
        for name in ("node-n000.samples", "rank-0.ledger"):
            whole = bytearray((place / name).read_bytes())
            for _ in range(data.draw(st.integers(0, 4))):
                at = data.draw(st.integers(0, len(whole) - 1))
                whole[at] = data.draw(st.integers(0, 255))
            cut = data.draw(st.integers(0, len(whole)))
            (place / name).write_bytes(bytes(whole[:cut]))
        check(report_or_refusal(folder))


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64),
    st.floats(),
    st.text(max_size=20),
    st.lists(st.integers(0, 3), max_size=3),
)


@given(st.sets(st.from_regex(r"[a-z]{1,4}-?[0-9]{1,4}", fullmatch=True), max_size=20))
def test_a_host_list_gives_its_names_back(names: set[str]) -> None:
    """expand(fold(x)) == x."""
    assert set(expand_hosts(fold_hosts(names))) == names
