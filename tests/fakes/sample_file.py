"""Sample files as a sampler writes them, with made-up numbers. Everything here is synthetic."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from typing import Any

import numpy as np

from hpckit.account.sample_format import (
    EVENTS,
    GPU,
    HOST,
    META,
    SAMPLES_SCHEMA,
    BlockHeader,
    encode_block,
)
from hpckit.account.samples import GPU_DTYPE, Fill

MONOTONIC_NS = 7_000_000_000
REALTIME_NS = 1_700_000_000_000_000_000


def block(kind: int, record_bytes: int, payload: bytes, sequence: int, at_s: float = 0) -> bytes:
    """One block that begins `at_s` after the file."""
    at_ns = round(at_s * 1e9)
    clocks = (REALTIME_NS + at_ns, MONOTONIC_NS + at_ns, MONOTONIC_NS + at_ns + 5)
    return encode_block(BlockHeader(kind, record_bytes, 0, sequence, *clocks), payload)


def pieces_of(data: bytes, most_bytes: int) -> AbstractContextManager[Fill]:
    """What reads a file in pieces of so many bytes at most, for SampleReader."""
    file = BytesIO(data)
    return nullcontext(lambda buffer: file.readinto(buffer[:most_bytes]))


def meta_block(
    gpus: int = 2, sequence: int = 0, *, tree: Mapping[str, Any] | None = None, **more: Any
) -> bytes:
    """A META of one host column and `gpus` GPUs; `more` and `tree` are put over it."""
    whole: Mapping[str, Any] = {
        "schema": SAMPLES_SCHEMA,
        "node": "n1",
        "hz": 1.0,
        "synthetic": True,
        "gpus": [
            {"uuid": f"GPU-{place}", "index": place, "energy": "counter", "power": "average"}
            for place in range(gpus)
        ],
        "host_columns": [{"name": "cgroup.cpu_usage_us", "kind": "counter"}],
        **more,
        **(tree or {}),
    }
    return block(META, 1, json.dumps(whole).encode(), sequence)


def gpu_block(sequence: int, at_s: float, *, ticks: int = 5, gpus: int = 2) -> bytes:
    """A tick a second, all GPUs in turn, 300 W, 1 J for each second since the file began."""
    rows = np.zeros(ticks * gpus, GPU_DTYPE)
    rows["gpu"] = np.tile(np.arange(gpus), ticks)
    rows["dt_us"] = np.repeat(np.arange(ticks), gpus) * 1_000_000
    rows["power_mw"] = 300_000
    rows["energy_mj"] = np.repeat(1000 * (round(at_s) + np.arange(ticks)), gpus)
    return block(GPU, GPU_DTYPE.itemsize, rows.tobytes(), sequence, at_s)


def host_block(sequence: int, at_s: float, values: Sequence[int]) -> bytes:
    """A host record a second."""
    rows = np.zeros(len(values), [("dt_us", "<u4"), ("zero", "<u4"), ("value", "<u8")])
    rows["dt_us"] = np.arange(len(values)) * 1_000_000
    rows["value"] = values
    return block(HOST, 16, rows.tobytes(), sequence, at_s)


def events_block(sequence: int, at_s: float, *lines: str) -> bytes:
    """Lines of events."""
    return block(EVENTS, 1, "\n".join(lines).encode(), sequence, at_s)


def sample_file(seconds: int = 20, gpus: int = 2) -> bytes:
    """META, then a block of GPU and one of HOST each five seconds."""
    parts = [meta_block(gpus)]
    for place in range(seconds // 5):
        parts.append(gpu_block(len(parts), 5 * place, gpus=gpus))
        parts.append(host_block(len(parts), 5 * place, range(5 * place, 5 * place + 5)))
    return b"".join(parts)
