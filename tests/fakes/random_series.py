"""Synthetic random series: samples of jobs whose true means are known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpckit.account.sample_format import GPU_COLUMNS, MISSING
from hpckit.account.samples import GPU_DTYPE, SampleChunk, SampledGpu, SampleMeta

Floats = NDArray[np.float64]
STARTED_S = 1_760_000_000.0


def ar1(rng: np.random.Generator, rows: int, count: int, phi: float) -> Floats:
    """AR(1) processes of variance 1, stationary from the first value on."""
    noise = rng.standard_normal((rows, count)) * np.sqrt(1 - phi**2)
    values = np.empty((rows, count))
    values[:, 0] = rng.standard_normal(rows)
    for at in range(1, count):
        values[:, at] = phi * values[:, at - 1] + noise[:, at]
    return values


def job_power(
    rng: np.random.Generator, boards: Floats, count: int, phi: float, *, shared: float = 10.0
) -> Floats:
    """Power around 500 W: what boards differ by, what all GPUs share, and each GPU's own noise."""
    common = shared * ar1(rng, 1, count, phi)
    return 500.0 + boards[:, None] + common + 10.0 * ar1(rng, len(boards), count, phi)


def chunk_of(columns: dict[str, Floats], *, hz: float = 1.0, first: str = "GPU-") -> SampleChunk:
    """A chunk of these columns (GPUs × ticks) in the file's own units; others are not measured."""
    gpus, ticks = next(iter(columns.values())).shape
    rows = np.zeros(gpus * ticks, GPU_DTYPE)
    for column in GPU_COLUMNS:
        rows[column.name] = MISSING[GPU_DTYPE[column.name].itemsize]
    rows["gpu"] = np.tile(np.arange(gpus, dtype=np.uint8), ticks)
    for name, values in columns.items():
        rows[name] = np.round(values.T.reshape(-1)).astype(GPU_DTYPE[name])
    period_ns = int(1e9 / hz)
    times = np.repeat(np.arange(ticks, dtype=np.int64) * period_ns, gpus)
    meta = SampleMeta(
        node="n1",
        hz=hz,
        synthetic=True,
        gpus=tuple(SampledGpu(uuid=f"{first}{place}", index=place) for place in range(gpus)),
    )
    return SampleChunk(
        meta=meta,
        gpu_ns=times,
        gpu=rows,
        host_ns=np.zeros(0, np.int64),
        host=np.zeros((0, 0), np.uint64),
        realtime_offset_ns=int(STARTED_S * 1e9),
        boottime_offset_ns=0,
    )
