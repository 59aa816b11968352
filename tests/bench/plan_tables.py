"""Published tables in the columns of `hpckit plan evaluate`, from the corpus's own columns.

What a table leaves out and its source states elsewhere stands here, each with the source.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from hpckit.planner.table import Run, read_table

COLUMNS = (
    "label", "model", "hidden", "layers", "heads", "kv_heads", "ffn", "vocab", "gated", "gpu",
    "gpus", "seq", "global_batch", "micro_batch", "tp", "cp", "ep", "pp", "vp", "dp", "zero",
    "precision", "recompute", "optimizer", "grad_bytes", "framework", "fused_accumulation",
    "node_nic_gbits", "step_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu",
    "hw_tflops_per_gpu", "peak_mem_gib", "device_mem_gib",
)  # fmt: skip
Row = Mapping[str, str]
MPT = {
    "125m": (768, 12, 12), "350m": (1024, 24, 16), "760m": (1536, 24, 12), "1b": (2048, 24, 16),
    "3b": (2560, 32, 20), "7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 48, 56),
    "70b": (8192, 80, 64),
}  # fmt: skip
"""Hidden, layers, heads of MPT (llm-foundry, scripts/train/yamls/pretrain)."""


def _kept(row: Row, names: str) -> dict[str, object]:
    return {name: row[name] for name in names.split() if row.get(name)}


def sc21(row: Row) -> dict[str, object]:
    """Narayanan et al. 2021, table 1: interleaved (§5.1), gradients added by their own pass.

    `--no-gradient-accumulation-fusion` came later: until then there was no other way.
    """
    kept = _kept(row, "hidden layers heads vocab gpu gpus seq global_batch tp pp dp recompute")
    return {
        **kept,
        **_kept(row, "hw_tflops_per_gpu"),
        "label": f"{row['params_b']}B",
        "zero": 0,
        "fused_accumulation": 0,
    }


def megatron_core(row: Row) -> dict[str, object]:
    """Megatron-LM README, weak scaling on H100: with the distributed optimizer."""
    kept = _kept(row, "hidden layers heads vocab gpu gpus seq global_batch tp pp dp precision")
    return {
        **kept,
        **_kept(row, "model_tflops_per_gpu"),
        "label": f"{row['params_b']}B",
        "zero": 1,
    }


def korthikanti(row: Row) -> Iterable[dict[str, object]]:
    """Korthikanti et al. 2022, tables 3 and 5: on Selene's A100-80GB, vocabulary 51,200 (§6)."""
    kept = _kept(row, "hidden layers heads gpus seq global_batch micro_batch tp pp dp")
    for recompute, column in (
        ("full", "step_s_full_recompute"),
        ("selective", "step_s_seq_parallel_selective"),
    ):
        yield {
            **kept,
            "label": f"{row['model']} {recompute}",
            "gpu": "A100-SXM4-80GB",
            "vocab": 51200,
            "vp": row["interleave"],
            "zero": 0,
            "recompute": recompute,
            "step_s": row[column],
        }


def bigscience(
    row: Row, target: str = "step_s", *, with_inferred: bool = False
) -> dict[str, object] | None:
    """tr11-176B chronicles: Megatron-DeepSpeed on Jean Zay, four 100 Gb/s links a node.

    Heads that a row leaves out are 64, of hidden 14,400 96 as the rows that print them say; the
    vocabulary is BLOOM's. Layers that a row leaves out follow from its parameters
    (12 · layers · hidden²); such rows are left out unless wanted.
    """
    published = row["step_s"] if target == "step_s" else row["peak_mem_gb_smi"]
    if not published or not (row["tp"] and row["pp"] and row["dp"] and row["micro_batch"]):
        return None
    if not row["layers"] and not with_inferred:
        return None
    hidden = int(row["hidden"])
    layers = row["layers"] or str(round(float(row["params_b"]) * 1e9 / (12 * hidden**2)))
    return {
        **_kept(row, "hidden gpus global_batch micro_batch tp pp dp"),
        "label": row["section"],
        "layers": layers,
        "heads": row["heads"] or (96 if hidden == 14400 else 64),
        "vocab": 250880,
        "gpu": "A100-SXM4-80GB",
        "seq": 2048,
        "vp": 1,
        "zero": row["zero_stage"],
        "recompute": "full",
        "framework": "deepspeed",
        "node_nic_gbits": 400,
        target: published,
    }


def mosaic(row: Row) -> dict[str, object] | None:
    """llm-foundry's benchmarks: FSDP; rows in fp8 are left out, which was new and slower then."""
    if "bf16" not in row["precision"]:
        return None
    hidden, layers, heads = MPT[row["model"]]
    return {
        **_kept(row, "gpu gpus seq global_batch micro_batch tokens_per_s_per_gpu"),
        "label": f"{row['model']} {row['gpu']} s{row['seq']}",
        "hidden": hidden,
        "layers": layers,
        "heads": heads,
        "vocab": 50368,
        "dp": row["gpus"],
        "zero": 3 if row["sharding"] == "FULL_SHARD" else 2,
        "precision": "bf16",
        "recompute": "full" if row["activation_checkpointing"] == "True" else "none",
    }


def simumax(row: Row, target: str = "peak_mem_gib") -> dict[str, object]:
    """SimuMax docs/b200: Llama-3-70B with fewer layers, flash attention, distributed optimizer."""
    published = {
        "peak_mem_gib": row["measured_peak_alloc_gib"],
        "step_s": float(row["measured_step_ms"]) / 1e3,
    }
    return {
        **_kept(row, "gpus seq tp cp ep pp dp"),
        "label": f"{row['layers_kept']} layers",
        "model": "Llama-3-70B",
        "layers": row["layers_kept"],
        "gpu": "B200",
        "global_batch": int(row["dp"]) * int(row["micro_batches"]),
        "micro_batch": 1,
        "vp": 1,
        "zero": 1,
        "recompute": "none",
        target: published[target],
    }


MISC_MODELS = {
    "Llama2-7B": "Llama-2-7B",
    "Llama3-70B SFT": "Llama-3-70B",
    "Moonlight-16B": "Moonlight-16B-A3B",
}


def misc_memory(row: Row) -> dict[str, object] | None:
    """Megatron-LM PR 482 (soft) and Megatron-Bridge's memory guides.

    Megatron-Bridge's fine-tuning recipe of Moonlight keeps gradients and moments in bf16
    (recipes/moonlight/h100/moonlight_16b.py); its data degree is 4 on 8 GPUs.
    """
    if not row["tp"] or row["model"] not in MISC_MODELS:
        return None
    is_moonlight = row["model"] == "Moonlight-16B"
    return {
        **_kept(row, "gpus seq tp pp vp cp ep micro_batch global_batch precision"),
        "label": f"{row['source']} {row['model']} {row['recompute']}",
        "model": MISC_MODELS[row["model"]],
        "gpu": row["gpu"],
        "zero": 1,
        "optimizer": "adam-bf16" if is_moonlight else "adam",
        "grad_bytes": 2 if is_moonlight else "",
        "peak_mem_gib": float(row["peak_alloc_gb"]) * 1e9 / 2**30,
    }


def corpus() -> Path:
    """Return the folder of the published tables, where HPCKIT_CORPUS says it is."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("HPCKIT_CORPUS") or beside) / "planning"


def converted(
    file: Path, convert: Callable[[Row], dict[str, object] | Iterable[dict[str, object]] | None]
) -> str:
    """Return a table of the corpus in the columns of `hpckit plan evaluate`."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    with file.open(newline="") as opened:
        for row in csv.DictReader(opened):
            made = convert(row)
            if made is not None:
                writer.writerows([made] if isinstance(made, dict) else made)
    return text.getvalue()


def runs_of(
    file: Path, convert: Callable[[Row], dict[str, object] | Iterable[dict[str, object]] | None]
) -> tuple[list[Run], list[tuple[int, str]]]:
    """Return the runs of a table of the corpus, and the rows that are none."""
    return read_table(converted(file, convert), file.name)
