"""Account folders as ranks and samplers would leave them, made up at once and marked synthetic."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpckit.account.gather import SampleStore, gather
from hpckit.account.report import JobFacts, ReportTools, report_of
from hpckit.account.sample_format import (
    EVENTS,
    GPU,
    GPU_RECORD,
    HOST,
    META,
    SAMPLES_SCHEMA,
    BlockHeader,
    encode_block,
)
from hpckit.account.samples import GPU_DTYPE
from hpckit.account.store import FileSampleStore
from hpckit.account.values import JobReport, SlurmEnergy
from hpckit.core.fields import to_tree
from hpckit.node.topology import TOPOLOGY_SCHEMA, NodeTopology
from hpckit.spec.energy_site import EnergySite
from hpckit.spec.folder_in_job import account_folder, ledger_file, samples_file, topology_file

EPOCH_NS = 1_780_000_000 * 10**9
"""CLOCK_REALTIME where the made-up jobs begin."""
BOOTED_NS = 5_000 * 10**9
"""CLOCK_MONOTONIC there."""
FLUSH_S = 5.0
HOST_COLUMNS: tuple[tuple[str, str], ...] = (
    ("job_cpu_us", "counter"),
    ("job_memory_bytes", "gauge"),
    ("job_memory_peak_bytes", "gauge"),
    ("job_oom_kills", "counter"),
    ("sampler_step_cpu_us", "counter"),
)

Columns = Mapping[str, NDArray[Any]]


def busy(at_s: NDArray[np.float64], gpu: int) -> Columns:
    """A GPU that computes all the time, at a power between 500 and 600 W."""
    power_w = 550 + 50 * np.sin(at_s / 7 + gpu)
    return {
        "util_pct": np.full(len(at_s), 98),
        "power_mw": power_w * 1000,
        "tensor_active_pct100": np.full(len(at_s), 5500),
        "processes": np.full(len(at_s), 1),
    }


def unused(at_s: NDArray[np.float64], gpu: int) -> Columns:
    """A GPU on which nothing ever runs."""
    del gpu
    nothing = np.zeros(len(at_s))
    return {
        "util_pct": nothing,
        "power_mw": nothing + 90_000,
        "mem_used_mib": nothing + 1,
        "sm_active_pct100": nothing,
        "tensor_active_pct100": nothing,
        "dram_active_pct100": nothing,
        "processes": nothing,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeJob:
    """What is to be made: `shape` gives the columns of a GPU (its number on the node) over time.

    `ledgers` writes one of each rank, a rank a GPU; `killed` are ranks without a last line.
    """

    nodes: int = 1
    gpus: int = 8
    duration_s: float = 60.0
    hz: float = 1.0
    restart: int = 0
    array_task: str = ""
    begins_s: float = 0.0
    shape: Callable[[NDArray[np.float64], int], Columns] = busy
    ledgers: bool = True
    samples: bool = True
    killed: frozenset[int] = frozenset()
    exit_code: int = 0
    meta: Mapping[str, Any] = field(default_factory=dict)
    gpu_meta: Mapping[str, Any] = field(default_factory=dict)


def write_accounts(folder: Path, job: MadeJob) -> Path:
    """Make the accounts of `job` below the job folder; gives the folder of the incarnation."""
    place = folder / account_folder(str(job.restart), job.array_task)
    place.mkdir(parents=True)
    rows = _gpu_rows(job)
    blocks = _data_blocks(job, rows) if job.samples else b""
    for node in range(job.nodes):
        name = f"n{node:03d}"
        if job.samples:
            head = _json_block(job, META, meta_of(job, name), 0)
            (place / samples_file(name)).write_bytes(head + blocks)
        if job.ledgers:
            for gpu in range(job.gpus):
                rank = node * job.gpus + gpu
                text = ledger_text(job, name, rank, gpu, rows)
                (place / ledger_file(rank)).write_text(text)
    return place


def write_topology(place: Path, node: str, topology: NodeTopology) -> Path:
    """The topology of a node as its sampler leaves it in the folder of an incarnation."""
    document = {"schema": TOPOLOGY_SCHEMA, "hpckit": "0.0.0", **to_tree(topology)}
    path = place / topology_file(node)
    path.write_text(json.dumps(document))
    return path


def uuid_of(node: str, gpu: int) -> str:
    """The UUID of a made-up GPU."""
    return f"GPU-{node}-{gpu:04d}"


def meta_of(job: MadeJob, node: str) -> dict[str, Any]:
    """The META block of a node."""
    gpu: dict[str, Any] = {
        "name": "NVIDIA H100 80GB HBM3",
        "vendor": "nvidia",
        "power_limit_w": 700.0,
        "memory_bytes": 80 * 1024**3,
        "max_sm_mhz": 1980,
        "energy": "counter",
        "power": "average",
        "scope": "gpu",
        "mig": False,
        "refused": {},
    }
    gpu.update(job.gpu_meta)
    return {
        "schema": SAMPLES_SCHEMA,
        "node": node,
        "job_id": "4242",
        "array_task": int(job.array_task) if job.array_task else None,
        "restart": job.restart,
        "boot_id": f"boot-{node}",
        "hz": job.hz,
        "synthetic": True,
        "hpckit": "0.0.0",
        "cpus": 96,
        "memory_limit_bytes": 512 * 1024**3,
        "exclusive": True,
        "gpus": [
            {
                "uuid": uuid_of(node, number),
                "index": number,
                "pci": f"0000:{number:02x}:00.0",
                **gpu,
            }
            for number in range(job.gpus)
        ],
        "host_columns": [
            {"name": name, "kind": kind, "wraps_at": None} for name, kind in HOST_COLUMNS
        ],
        "host_refused": {"rapl": "permission denied"},
        **job.meta,
    }


def _gpu_rows(job: MadeJob) -> NDArray[np.void]:
    """The rows of one node, tick by tick, shape (ticks, gpus)."""
    ticks = round(job.duration_s * job.hz) + 1
    at_s = np.arange(ticks) / job.hz
    rows = np.zeros((ticks, job.gpus), dtype=GPU_DTYPE)
    plain = {
        "mem_util_pct": 40,
        "temp_c": 61,
        "mem_used_mib": 62_000,
        "sm_mhz": 1755,
        "mem_mhz": 2619,
        "sm_active_pct100": 9000,
        "dram_active_pct100": 4200,
    }
    for name, value in plain.items():
        rows[name] = value
    for gpu in range(job.gpus):
        rows["gpu"][:, gpu] = gpu
        for name, values in job.shape(at_s, gpu).items():
            rows[name][:, gpu] = values
        power_w = rows["power_mw"][:, gpu] / 1000
        steps_j = (power_w[1:] + power_w[:-1]) / 2 / job.hz
        rows["energy_mj"][1:, gpu] = np.cumsum(steps_j) * 1000
        rows["energy_mj"][:, gpu] += 10**9 * (gpu + 1)
        for name in ("nvlink_tx_mib", "nvlink_rx_mib", "pcie_tx_mib", "pcie_rx_mib"):
            rows[name][:, gpu] = at_s * 100
    return rows


def _data_blocks(job: MadeJob, rows: NDArray[np.void]) -> bytes:
    a_block = max(1, round(FLUSH_S * job.hz))
    steps_us = np.arange(a_block) / job.hz * 1e6
    parts = [_json_block(job, EVENTS, {"t_ns": _clock(job, 0)[1], "event": "begin"}, 1)]
    host = np.dtype([("dt_us", "<u4"), ("zero", "<u4"), ("values", "<u8", (len(HOST_COLUMNS),))])
    sequence = 2
    for at in range(0, len(rows), a_block):
        piece = rows[at : at + a_block]
        piece["dt_us"] = steps_us[: len(piece), None]
        clocks = _clock(job, at / job.hz)
        header = BlockHeader(GPU, GPU_RECORD.size, 0, sequence, *clocks)
        parts.append(encode_block(header, piece.tobytes()))
        host_rows = np.zeros(len(piece), dtype=host)
        host_rows["dt_us"] = steps_us[: len(piece)]
        since_s = (at + np.arange(len(piece))) / job.hz
        host_rows["values"][:, 0] = since_s * 12e6
        host_rows["values"][:, 1:3] = 200 * 1024**3
        host_rows["values"][:, 4] = since_s * 1000
        header = BlockHeader(HOST, host.itemsize, 0, sequence + 1, *clocks)
        parts.append(encode_block(header, host_rows.tobytes()))
        sequence += 2
    end = {"t_ns": _clock(job, job.duration_s)[1], "event": "end", "reason": "job"}
    parts.append(_json_block(job, EVENTS, end, sequence, job.duration_s))
    return b"".join(parts)


def _clock(job: MadeJob, at_s: float) -> tuple[int, int, int]:
    since_ns = round((job.begins_s + at_s) * 1e9)
    return EPOCH_NS + since_ns, BOOTED_NS + since_ns, BOOTED_NS + since_ns


def _json_block(
    job: MadeJob, kind: int, value: Mapping[str, Any], sequence: int, at_s: float = 0.0
) -> bytes:
    header = BlockHeader(kind, 1, 0, sequence, *_clock(job, at_s))
    return encode_block(header, json.dumps(value).encode() + b"\n")


def ledger_text(job: MadeJob, node: str, rank: int, gpu: int, rows: NDArray[np.void]) -> str:
    """The ledger of a rank that had one GPU all the time."""
    first = _moment(job, 0.0)
    start = {
        "schema": "hpckit.ledger/1",
        "record": "start",
        "rank": rank,
        "local_rank": gpu,
        "world_size": job.nodes * job.gpus,
        "node": node,
        "pid": 1000 + rank,
        "boot_id": f"boot-{node}",
        "job_id": "4242",
        "cpus": "0-95",
        "at": first,
        "visible": str(gpu),
        "claim": "visible",
        "gpus": [_reading(node, gpu, first, rows[0, gpu])],
        "nvml_init_ms": 12.5,
    }
    if rank in job.killed:
        return json.dumps(start) + "\n"
    last = _moment(job, job.duration_s)
    end = {
        "record": "end",
        "at": last,
        "gpus": [_reading(node, gpu, last, rows[-1, gpu])],
        "updates": [],
        "exit_code": job.exit_code,
        "cpu_user_s": job.duration_s * 1.2,
        "cpu_system_s": job.duration_s * 0.1,
        "max_rss_bytes": 12 * 1024**3,
        "read_chars_bytes": 10**9,
        "write_chars_bytes": 10**8,
        "read_bytes": 10**9,
        "write_bytes": 10**8,
    }
    return json.dumps(start) + "\n" + json.dumps(end) + "\n"


def _moment(job: MadeJob, at_s: float) -> dict[str, int]:
    clocks = _clock(job, at_s)
    return dict(zip(("realtime_ns", "monotonic_ns", "boottime_ns"), clocks, strict=True))


def _reading(node: str, gpu: int, at: Mapping[str, int], row: np.void) -> dict[str, Any]:
    return {
        "uuid": uuid_of(node, gpu),
        "monotonic_ns": at["monotonic_ns"],
        "energy_mj": int(row["energy_mj"]),
        "refused": None,
    }


def reported(
    folder: Path,
    site: EnergySite | None = None,
    slurm: SlurmEnergy | None = None,
    store: SampleStore | None = None,
    **facts: Any,
) -> JobReport:
    """The report on the accounts in a folder, with what Slurm says of their job."""
    store = store or FileSampleStore()
    tools = ReportTools(store=store, slurm_energy=None if slurm is None else lambda: slurm)
    gathered = gather(store, store.find(folder))
    return report_of(gathered, tools, JobFacts(**facts), site or EnergySite(), curves=True)
