"""How many bytes a sample of a GPU takes: in the job folder, and archived as Parquet."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hpckit.account.sample_format import GPU, HEADER_BYTES, Block, read_blocks
from tests.bench.account_cost import jumped
from tests.bench.account_figures import Bench, Figure, Step, missing
from tests.bench.account_processes import ran

MOST_LIVE = 80.0
MOST_ARCHIVED = 30.0


def an_hour(hz: int, bench: Bench) -> Iterator[Figure]:
    """Eight GPUs for an hour, sampled by the sampler under a clock that jumps."""
    seconds = bench.pick(3600, 600)
    folder = bench.place("bytes")
    jumped(bench, hz, seconds * hz, folder)
    (path,) = folder.rglob("*.samples")
    samples, gpu_bytes = gpu_samples(path)
    span = f"{seconds // 60} min at {hz} Hz"
    # Host columns are samples of the node, one a second whatever the GPUs' rate and number.
    whole_b = path.stat().st_size / samples
    beside = f"{whole_b:.1f} B with the host's columns, META and events"
    yield Figure(
        name=f"{span}: a GPU sample, live", value=gpu_bytes / samples, unit="B",
        limit=MOST_LIVE, beside=beside,
    )  # fmt: skip
    name = f"{span}: a GPU sample, archived"
    if importlib.util.find_spec("pyarrow") is None:
        yield missing(name, "no pyarrow here: `pip install pyarrow`")
        return
    archive = folder / "all.parquet"
    argv = bench.hpckit("report", "--from", str(folder), "--parquet", str(archive))
    ran(argv, bench.user_environ())
    yield Figure(name=name, value=archive.stat().st_size / samples, unit="B", limit=MOST_ARCHIVED)


def gpu_samples(path: Path) -> tuple[int, int]:
    """How many samples of a GPU a file has, and the bytes of their blocks."""
    blocks = [one for one in read_blocks(path.read_bytes()) if isinstance(one, Block)]
    gpu = [one for one in blocks if one.header.kind == GPU]
    samples = sum(len(one.payload) // one.header.record_bytes for one in gpu)
    return samples, sum(HEADER_BYTES + len(one.payload) for one in gpu)


STEPS = tuple(
    Step(f"bytes:{hz}hz", f"bytes of a GPU sample at {hz} Hz", partial(an_hour, hz))
    for hz in (1, 10)
)
