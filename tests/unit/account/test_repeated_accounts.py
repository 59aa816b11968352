"""Accounts that are there more than once, and files in which there is nothing: all are told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hpckit.account.compare.compare import side_of
from hpckit.account.gather import Gathered, gather
from hpckit.account.parquet.archive import archive
from hpckit.account.parquet.store import ParquetStore
from hpckit.account.sample_format import HEADER_BYTES, Block, read_blocks
from hpckit.account.store import FileSampleStore
from hpckit.core.errors import HpckitError
from hpckit.spec.store import FileJobFolders
from tests.fakes.account_files import MadeJob, reported, write_accounts

STORE = FileSampleStore()


def place_of(folder: Path) -> Path:
    """The accounts of a job with two GPUs."""
    return write_accounts(folder, MadeJob(gpus=2, duration_s=60.0))


def found(folder: Path) -> Gathered:
    """What lies there."""
    return gather(STORE, STORE.find(folder))


def test_a_life_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    """Within a file, and in a copy under another rank's name; each file is one sentence."""
    place = place_of(tmp_path)
    before = reported(tmp_path)
    text = (place / "rank-0.ledger").read_text()
    (place / "rank-0.ledger").write_text(text * 3)
    (place / "rank-7.ledger").write_text(text)
    after = reported(tmp_path)
    assert (after.ranks, after.energy) == (before.ranks, before.energy)
    assert after.missing == tuple(
        f"restart-0/rank-{rank}.ledger is a copy of restart-0/rank-0.ledger: counted once"
        for rank in (0, 7)
    )


def test_a_rank_without_a_ledger_is_told(tmp_path: Path) -> None:
    """The others know how many ranks there were; while the job runs it may still come."""
    place = place_of(tmp_path)
    (place / "rank-0.ledger").unlink()
    told = "rank 0 of 2 left no readable ledger: its usage counts for no rank"
    assert reported(tmp_path).missing == (told,)
    running = reported(tmp_path, is_running=True)
    assert told not in running.missing


def test_samples_of_a_copied_file_count_once(tmp_path: Path) -> None:
    """Under another node's name."""
    place = place_of(tmp_path)
    before = reported(tmp_path)
    (place / "node-z.samples").write_bytes((place / "node-n000.samples").read_bytes())
    after = reported(tmp_path)
    assert after.energy == before.energy
    assert after.gpus == before.gpus
    (told,) = after.missing
    assert told.startswith("restart-0/node-z.samples is a copy of restart-0/node-n000.samples")


def test_of_copies_the_longest_counts(tmp_path: Path) -> None:
    """What was copied during the job comes first by name, and hides nothing of the whole."""
    place = place_of(tmp_path)
    before = reported(tmp_path)
    samples = (place / "node-n000.samples").read_bytes()
    (place / "node-a.samples").write_bytes(samples[: len(samples) // 2])
    ledger = (place / "rank-1.ledger").read_text()
    (place / "rank-00.ledger").write_text(ledger.splitlines(keepends=True)[0])
    after = reported(tmp_path)
    assert (after.energy, after.gpus, after.ranks) == (before.energy, before.gpus, before.ranks)


@pytest.mark.parametrize(("sizes", "most"), [((2, 2), 2), ((None, None), None), ((None, 5), 5)])
def test_a_comparison_knows_how_many_ranks_there_were(
    tmp_path: Path, sizes: tuple[int | None, ...], most: int | None
) -> None:
    """The most that any rank of the last incarnation says, None where none does."""
    place = place_of(tmp_path)
    for number, size in enumerate(sizes):
        path = place / f"rank-{number}.ledger"
        start, end = path.read_text().splitlines(keepends=True)
        path.write_text(json.dumps({**json.loads(start), "world_size": size}) + "\n" + end)
    side = side_of(reported(tmp_path), found(tmp_path), STORE, FileJobFolders())
    assert side.world_size == most


def test_a_copied_incarnation_is_no_other_one(tmp_path: Path) -> None:
    """The job was not requeued because its folder lies there under a second number."""
    place = place_of(tmp_path)
    before = reported(tmp_path)
    shutil.copytree(place, place.parent / "restart-1")
    after = reported(tmp_path)
    assert (after.incarnations, after.energy) == (before.incarnations, before.energy)
    assert len(after.missing) == 3


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "rank-5.ledger is empty, expected the start record of a rank"),
        (bytes(5000), "rank-5.ledger is not a ledger: 5,000 zero bytes"),
        (b'{"schema"', "rank-5.ledger has no complete start record: it begins with '{\"schema\"'"),
        (b'{"record": "x"}\n', "rank-5.ledger has no complete start record: it begins with"),
    ],
)
def test_a_ledger_of_nothing_is_told(tmp_path: Path, data: bytes, said: str) -> None:
    """What a full disk or a lost node leaves in the place of a ledger is a sentence."""
    (place_of(tmp_path) / "rank-5.ledger").write_bytes(data)
    (told,) = reported(tmp_path).missing
    assert told.startswith(said)


@pytest.mark.parametrize(
    ("data", "said"), [(b"", "has no samples"), (bytes(5000), "is not a sample file")]
)
def test_samples_of_nothing_are_told(tmp_path: Path, data: bytes, said: str) -> None:
    """A sample file that is empty, or all 0, is a sentence too."""
    (place_of(tmp_path) / "node-x.samples").write_bytes(data)
    (told,) = reported(tmp_path).missing
    assert told.startswith(f"node-x.samples {said}")


def test_where_nothing_can_be_read_the_error_tells_what_is_expected(tmp_path: Path) -> None:
    """What is damaged of the job's own files is named beside its accounts."""
    place = tmp_path / "account" / "restart-0"
    place.mkdir(parents=True)
    (place / "rank-0.ledger").write_bytes(b"")
    with pytest.raises(HpckitError, match=r"rank-0\.ledger is empty.*; intent\.json is") as error:
        reported(tmp_path, missing=("intent.json is damaged: it is empty",))
    assert "complete rank ledgers" in (error.value.hint or "")


def test_samples_that_are_joined_twice_count_once(tmp_path: Path) -> None:
    """Within one file too, whether its description is repeated or not; it is one sentence."""
    place = place_of(tmp_path)
    before = reported(tmp_path)
    (file,) = place.glob("*.samples")
    data = file.read_bytes()
    first = next(one for one in read_blocks(data) if isinstance(one, Block))
    for again in (data, data[HEADER_BYTES + len(first.payload) :]):
        file.write_bytes(data + again)
        after = reported(tmp_path)
        assert after.gpus == before.gpus
        assert [one.psi_frac for one in after.nodes] == [one.psi_frac for one in before.nodes]
        (told,) = after.missing
        assert told.endswith("repeats of others, or written late")


def test_an_archive_has_what_the_report_counts(tmp_path: Path) -> None:
    """Rows that go back in time are not in it, and the report of it is the same."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    place = place_of(tmp_path)
    (file,) = place.glob("*.samples")
    file.write_bytes(file.read_bytes() * 2)
    before = reported(tmp_path)
    path = tmp_path / "a.parquet"
    rows, _ = archive(found(tmp_path), STORE, path, lambda *_: None)
    after = reported(path, store=ParquetStore(path))
    assert after.missing == ()
    assert [one.energy for one in after.gpus] == [one.energy for one in before.gpus]
    assert [one.samples for one in before.nodes] == [one.samples for one in after.nodes] == [rows]


def test_an_empty_ledger_of_a_running_job_is_early(tmp_path: Path) -> None:
    """Another node may have made it a moment ago; of a job that ended it is told."""
    place = place_of(tmp_path)
    (place / "rank-9.ledger").touch()
    running = reported(tmp_path, is_running=True)
    assert running.missing == ()
    (missing,) = reported(tmp_path).missing
    assert missing == "rank-9.ledger is empty, expected the start record of a rank"
