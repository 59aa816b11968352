"""Sample files: whole, in pieces, damaged, and what is none."""

from __future__ import annotations

import numpy as np
import pytest

from hpckit.account.sample_format import GPU, GPU_RECORD, MAGIC, Block, Damage, read_blocks
from hpckit.account.samples import FileCondition, SampleChunk, SampleReader
from hpckit.core.errors import ParseError
from tests.fakes.sample_file import (
    MONOTONIC_NS,
    REALTIME_NS,
    block,
    events_block,
    gpu_block,
    meta_block,
    pieces_of,
    sample_file,
)


def read(data: bytes, piece: int = 1 << 20) -> tuple[list[SampleChunk], FileCondition]:
    """All chunks of a file in pieces of so many bytes, and its condition."""
    reader = SampleReader(pieces_of(data, piece))
    return list(reader), reader.condition


def test_times_are_those_of_the_monotonic_clock() -> None:
    """A row's time is its block's clock and its microseconds; the other clocks are offsets."""
    data = sample_file(10, gpus=1)
    chunks, condition = read(data)
    assert condition == FileCondition()
    seconds = [MONOTONIC_NS + one * 1_000_000_000 for one in range(10)]
    assert chunks[0].gpu_ns.tolist() == seconds
    assert chunks[0].host_ns.tolist() == seconds
    assert chunks[0].gpu_ns.dtype == np.int64
    assert chunks[0].host.tolist() == [[at] for at in range(10)]
    assert chunks[0].realtime_offset_ns == REALTIME_NS - MONOTONIC_NS
    assert chunks[0].boottime_offset_ns == 5


@pytest.mark.parametrize("piece", [1, 7, 43, 44, 45, 1000])
def test_pieces_of_any_size_give_the_same_rows(piece: int) -> None:
    """Where a file is cut into pieces does not matter."""
    data = sample_file()
    whole, condition = read(data)
    parts, same = read(data, piece)
    rows = np.concatenate([chunk.gpu for chunk in parts])
    assert (rows == np.concatenate([chunk.gpu for chunk in whole])).all()
    assert same == condition


def test_what_meta_does_not_know_is_passed_over() -> None:
    """Keys of a later version are no error."""
    gpus = [{"uuid": "GPU-0", "index": 0, "colour": "green"}]
    chunks, _ = read(meta_block(moon=1, tree={"gpus": gpus}) + gpu_block(1, 0, gpus=1))
    assert len(chunks) == 1


def test_a_file_that_was_cut_short_says_so() -> None:
    """A last block that is not whole is lost."""
    chunks, condition = read(sample_file(10)[:-3])
    assert condition.is_cut_short
    assert sum(len(chunk.host) for chunk in chunks) == 5


@pytest.mark.parametrize("begin", [0, 10])
def test_a_block_behind_false_beginnings_is_found(begin: int) -> None:
    """Damage ends where the next block begins; places are those in what is given."""
    damage, block = read_blocks(memoryview(bytes(begin) + MAGIC * 1000 + gpu_block(0, 0))[begin:])
    assert damage == Damage(0, 4000, is_tail=False)
    assert isinstance(block, Block)


HOST_AT = 44 + 10 * GPU_RECORD.size + 50
"""In the first HOST block behind META."""


@pytest.mark.parametrize("place", [0, 70, HOST_AT, 5000])
def test_damage_in_equal_blocks_costs_its_block_alone(place: int) -> None:
    """Of blocks that are checked together the damaged one is lost, header or payload."""
    data = bytearray(sample_file(600))
    data[len(meta_block()) + place] ^= 4
    chunks, condition = read(bytes(data))
    rows = sum(len(chunk.gpu) // 2 + len(chunk.host) for chunk in chunks)
    assert (rows, condition.lost_blocks) == (1195, 1)
    assert condition.lost_bytes == 44 + (5 * 16 if place == HOST_AT else 10 * GPU_RECORD.size)
    assert not condition.is_cut_short


def test_a_hole_in_the_numbers_is_lost_blocks() -> None:
    """Blocks that are not there are counted by their sequence."""
    _, condition = read(meta_block() + gpu_block(1, 0) + gpu_block(5, 20))
    assert (condition.lost_blocks, condition.lost_bytes) == (3, 0)


def test_a_second_sampler_begins_at_zero() -> None:
    """A number that begins again is another sampler's, and nothing is lost."""
    chunks, condition = read(sample_file(5) + sample_file(5, gpus=1))
    assert [len(chunk.meta.gpus) for chunk in chunks] == [2, 1]
    assert condition.lost_blocks == 0


def test_rows_of_unknown_gpus_are_damage() -> None:
    """A row whose GPU is none of META's is dropped and counted."""
    chunks, condition = read(meta_block(gpus=1) + gpu_block(1, 0, ticks=1, gpus=3))
    assert chunks[0].gpu["gpu"].tolist() == [0]
    assert condition.lost_bytes == 2 * GPU_RECORD.size


def test_an_unknown_kind_is_passed_over() -> None:
    """Blocks that a later version writes are no damage."""
    reader = SampleReader(meta_block() + block(9, 4, b"12345678", 1) + gpu_block(2, 0))
    assert len(list(reader)) == 1
    assert reader.condition.lost_bytes == 0


def test_a_record_of_another_size_is_damage() -> None:
    """Rows that are not this version's are lost, and nothing is guessed."""
    chunks, condition = read(meta_block() + block(GPU, 80, bytes(160), 1))
    assert not chunks
    assert condition.lost_bytes == 44 + 160


def test_events_are_objects() -> None:
    """Lines of events are read; a line that is none costs itself."""
    data = meta_block() + events_block(1, 0, '{"t_ns": 1, "event": "begin"}', "{", "[1]")
    chunks, condition = read(data)
    assert [event["event"] for event in chunks[0].events] == ["begin"]
    assert condition.lost_bytes == 4


def test_an_empty_file_has_nothing() -> None:
    """A sampler that was killed before its first block left nothing, and that is no error."""
    assert read(b"") == ([], FileCondition())  # fmt: skip


@pytest.mark.parametrize("data", [b"time,power\n1,2\n", b"\0" * 5000, b"HKT1" + bytes(100)])
def test_another_file_is_refused(data: bytes) -> None:
    """What does not begin as a sample file is none."""
    with pytest.raises(ParseError, match="not a sample file"):
        read(data)


@pytest.mark.parametrize(
    ("more", "what"),
    [({"schema": "hpckit.samples/9"}, "samples/9"), ({"hz": "fast"}, "hz"), ({"gpus": 3}, "gpus")],
)
def test_a_meta_that_is_none_is_refused(more: dict[str, object], what: str) -> None:
    """Another schema, and values of another type, name themselves."""
    with pytest.raises(ParseError, match=what):
        read(meta_block(tree=more))


def test_blocks_without_their_description_are_told() -> None:
    """A file whose META is damaged is refused as that, not as another file, or an empty one."""
    data = bytearray(sample_file())
    for at in (0, 60):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        with pytest.raises(ParseError, match="no complete META block, so its"):
            read(bytes(damaged))
