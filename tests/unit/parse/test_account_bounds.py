"""Numbers of ledgers and of META blocks that cannot be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hpckit.errors import ParseError
from hpckit.model.ledger import EnergyReading, RankEnd, RankStart
from hpckit.model.series import HostColumn, SampledGpu, SampleMeta
from hpckit.parse.account_bounds import BOUNDS
from hpckit.parse.sample_meta import parse_meta
from tests.fakes.ledgers import whole_ledger
from tests.unit.parse.test_ledger import END, GPU, START, lines

BEYOND = ("-1", "1" + "0" * 400)
BEYOND_REAL = ("-1.0", "1e308", "1e999", "-1e999", "NaN", "1" + "0" * 400)
META: dict[str, Any] = {
    "schema": "hpckit.samples/1",
    "node": "n1",
    "hz": 2.0,
    "gpus": [{"uuid": "GPU-0", "index": 0}],
    "host_columns": [{"name": "node_cpu_us", "kind": "counter"}],
}


def meta_with(raw: str, key: str, part: str = "") -> SampleMeta:
    """A META block with a number as it stands in the text, in the first of a part."""
    tree = json.loads(json.dumps(META))
    record = tree[part][0] if part else tree
    record[key] = "@"
    return parse_meta(json.dumps(tree).replace('"@"', raw).encode())


@pytest.mark.parametrize(
    "cls", [SampleMeta, SampledGpu, HostColumn, RankStart, RankEnd, EnergyReading]
)
def test_every_number_has_bounds(cls: type) -> None:
    """No number of a file but its clocks is taken as it comes."""
    fields = cls.__annotations__.items()
    numbers = {name for name, of in fields if of.split(" ")[0] in ("int", "float")}
    assert {name for name in numbers if not name.endswith("_ns")} == set(BOUNDS[cls])


@pytest.mark.parametrize("raw", BEYOND)
@pytest.mark.parametrize("key", ["array_task", "cpus", "memory_limit_bytes"])
def test_what_cannot_be_of_a_node_is_not_known(key: str, raw: str) -> None:
    """The number is None, and `host_refused` says why."""
    meta = meta_with(raw, key)
    assert getattr(meta, key) is None
    assert meta.host_refused[key].startswith(f"it is {raw[:9]}")
    assert "which cannot be: 0 to " in meta.host_refused[key]


@pytest.mark.parametrize("raw", BEYOND)
@pytest.mark.parametrize("key", ["memory_bytes", "max_sm_mhz"])
def test_what_cannot_be_of_a_gpu_is_not_known(key: str, raw: str) -> None:
    """The number is None, and `refused` of the GPU says why."""
    (gpu,) = meta_with(raw, key, "gpus").gpus
    assert getattr(gpu, key) is None
    assert key in gpu.refused


@pytest.mark.parametrize("raw", BEYOND_REAL)
def test_a_power_limit_that_cannot_be_is_not_known(raw: str) -> None:
    """No watts of JSON that are no watts are taken."""
    (gpu,) = meta_with(raw, "power_limit_w", "gpus").gpus
    assert gpu.power_limit_w is None


@pytest.mark.parametrize("raw", BEYOND_REAL)
def test_a_rate_that_cannot_be_is_the_usual_one(raw: str) -> None:
    """What depends on the rate is bounded; the file is read."""
    meta = meta_with(raw, "hz")
    assert meta.hz == 1.0
    assert "hz" in meta.host_refused


def test_an_index_that_cannot_be_is_unknown() -> None:
    """The GPU is reported on by its UUID."""
    (gpu,) = meta_with("-7", "index", "gpus").gpus
    assert gpu.index == -1


def test_a_column_that_begins_again_at_zero_does_at_its_size() -> None:
    """A counter cannot count modulo 0; which column it is, is said by its place."""
    meta = meta_with("0", "wraps_at", "host_columns")
    assert meta.host_columns[0].wraps_at is None
    assert "host_columns[0].wraps_at" in meta.host_refused


@pytest.mark.parametrize("raw", BEYOND)
@pytest.mark.parametrize("key", ["max_rss_bytes", "read_bytes", "write_bytes", "cpu_user_s"])
def test_what_cannot_be_of_a_ranks_end_is_left_out(key: str, raw: str) -> None:
    """The rest of the ledger stands, with a sentence."""
    text = lines(START, {**END, key: "@"}).replace('"@"', raw)
    (life,) = whole_ledger(text)
    assert life.end is not None
    assert getattr(life.end, key) is None
    assert life.left_out[0].startswith(f"{key} is left out: it is {raw[:9]}")


@pytest.mark.parametrize("raw", BEYOND_REAL)
def test_cpu_seconds_are_finite(raw: str) -> None:
    """NaN and infinities of Python's JSON are none."""
    (life,) = whole_ledger(lines(START, {**END, "cpu_system_s": "@"}).replace('"@"', raw))
    assert life.end is not None
    assert life.end.cpu_system_s is None


@pytest.mark.parametrize("raw", BEYOND)
def test_an_energy_that_cannot_be_is_refused(raw: str) -> None:
    """A reading without a number says why, as where the driver gave none."""
    text = lines({**START, "gpus": [{**GPU, "energy_mj": "@"}]}).replace('"@"', raw)
    (life,) = whole_ledger(text)
    (reading,) = life.start.gpus
    assert reading.energy_mj is None
    assert "cannot be" in (reading.refused or "")
    assert life.left_out[0].startswith("gpus[0].energy_mj is left out")


def test_a_rank_that_cannot_be_is_refused() -> None:
    """What a ledger cannot be without makes it none."""
    with pytest.raises(ParseError, match="rank is -1"):
        whole_ledger(lines({**START, "rank": -1}))


def test_a_long_number_is_shown_in_short() -> None:
    """A sentence does not hold all digits."""
    refused = meta_with("1" + "0" * 400, "cpus").host_refused["cpus"]
    assert "(401 digits)" in refused
    assert len(refused) < 120
