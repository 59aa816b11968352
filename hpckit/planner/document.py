"""A plan as one JSON document, `hpckit.fit/1`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from hpckit.planner.accelerators import Accelerator
from hpckit.planner.answer import Answer, Speed, speed_from
from hpckit.planner.fit import (
    BYTES_OF,
    TRAINING_BYTES,
    Change,
    Serving,
    gpus_that_hold,
    serving_terms,
    verdict,
)
from hpckit.planner.layout import Layout
from hpckit.planner.memory import Memory, Term
from hpckit.planner.model import ModelShape, active_parameters, parameters
from hpckit.planner.power import Facility
from hpckit.planner.search import Ranked
from hpckit.planner.table import Evaluation

FIT_SCHEMA: Final = "hpckit.fit/1"


def term_trees(terms: Iterable[Term]) -> list[dict[str, object]]:
    """Return terms with their formula and source."""
    return [
        {
            "name": term.name,
            "bytes": round(term.bytes_),
            "formula": term.formula,
            "source": term.source,
        }
        for term in terms
    ]


def layout_tree(layout: Layout) -> dict[str, object]:
    """Return a layout by the names of the options."""
    return {
        "tp": layout.tensor,
        "cp": layout.context,
        "ep": layout.expert,
        "pp": layout.pipeline,
        "vp": layout.virtual,
        "dp": layout.data,
        "micro_batch": layout.micro_batch,
        "zero": layout.zero,
        "recompute": str(layout.recompute),
        "gpus": layout.gpus,
    }


def model_tree(model: ModelShape) -> dict[str, object]:
    """Return what a model is, in numbers."""
    return {
        "name": model.name,
        "parameters": parameters(model),
        "active_parameters": active_parameters(model),
        "layers": model.layers,
        "hidden": model.hidden,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "vocab": model.vocab,
        "notes": list(model.notes),
    }


def accelerator_tree(accelerator: Accelerator) -> dict[str, object]:
    """Return the figures of a card; null is unknown."""
    return {
        "name": accelerator.name,
        "memory_bytes": accelerator.memory_bytes,
        "flops": accelerator.flops,
        "tdp_w": accelerator.tdp_w,
    }


def memory_tree(found: Memory, usable_bytes: float) -> dict[str, object]:
    """Return the memory of the fullest GPU; the bytes of `terms` add up to `peak_bytes`."""
    terms = term_trees(found.terms)
    return {
        "verdict": str(verdict(found.device_bytes, usable_bytes)),
        "peak_bytes": sum(int(str(term["bytes"])) for term in terms),
        "device_bytes": round(found.device_bytes),
        "usable_bytes": round(usable_bytes),
        "stage": found.stage.index,
        "terms": terms,
        "outside": term_trees(found.outside),
    }


def speed_tree(speed: Speed) -> dict[str, Any]:
    """Return the time of a step; both conventions of MFU, full and causal attention."""
    return {
        "step_s": speed.time.step_s,
        "uncertainty_frac": speed.uncertainty_frac,
        "tokens_per_s": speed.tokens_per_s,
        "mfu": speed.mfu_frac,
        "mfu_causal": speed.causal_mfu_frac,
        "terms": [{"name": name, "s": seconds} for name, seconds in speed.time.terms],
    }


def answer_tree(made: Answer) -> dict[str, Any]:
    """Return the whole answer about a run."""
    question, training = made.question, made.question.training
    card = made.machine.accelerator
    return {
        "schema": FIT_SCHEMA,
        "model": model_tree(question.model),
        "accelerator": accelerator_tree(card),
        "gpus": question.layout.gpus,
        "node_gpus": made.machine.node_gpus,
        "training": {
            "seq": training.seq,
            "global_batch": training.global_batch,
            "precision": str(training.precision),
            "optimizer": str(training.optimizer),
        },
        "assumed": list(question.assumed),
        "layout": layout_tree(question.layout),
        "memory": memory_tree(made.memory, card.memory_bytes),
        "change": _change_tree(made.change),
        "time": speed_tree(made.speed),
        "layouts_valid": made.ranking.valid,
        "layouts_fitting": made.ranking.fitting,
        "layouts": [_ranked_tree(made, row) for row in made.ranking.best],
        **_run_tree(made),
    }


def _change_tree(change: Change | None) -> dict[str, object] | None:
    if change is None:
        return None
    return {
        "options": change.options,
        "layout": layout_tree(change.layout),
        "device_bytes": round(change.memory.device_bytes),
    }


def _ranked_tree(made: Answer, row: Ranked) -> dict[str, object]:
    question = made.question
    speed = speed_from(question.model, question.training, row.layout, made.machine, row.time)
    return {
        **layout_tree(row.layout),
        **speed_tree(speed),
        "verdict": str(row.verdict),
        "peak_bytes": round(row.memory.peak_bytes),
        "device_bytes": round(row.memory.device_bytes),
    }


def _run_tree(made: Answer) -> dict[str, Any]:
    honest, energy = made.honest, made.energy
    return {
        "tokens": made.tokens,
        "failures": None
        if honest is None or made.reliability is None
        else {
            "mttf_gpu_h": made.reliability.mttf_gpu_h,
            "mtbf_s": honest.mtbf_s,
            "checkpoint_s": made.reliability.checkpoint_s,
            "restart_s": made.reliability.restart_s,
            "interval_s": honest.interval_s,
            "ideal_s": honest.ideal_s if made.tokens is not None else None,
            "expected_s": _finite(honest.expected_s) if made.tokens is not None else None,
            "ettr_frac": honest.ettr_frac,
        },
        "power": None
        if energy is None
        else {
            "gpu_share_w": energy.gpu_share_w,
            "it_w": energy.it_w,
            "facility_w": energy.facility_w,
            "heat_w": energy.it_w,
            "rack_w": energy.rack_w,
            "it_kwh": energy.it_kwh if made.tokens is not None else None,
            "facility_kwh": energy.facility_kwh if made.tokens is not None else None,
            "cost": None if made.bill is None else made.bill.cost,
            "currency": None if made.bill is None else made.bill.currency or None,
            "co2_kg": None if made.bill is None else made.bill.co2_kg,
        },
    }


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def serving_tree(model: ModelShape, serving: Serving, accelerator: Accelerator) -> dict[str, Any]:
    """Return the answer to whether a model that serves fits."""
    terms = term_trees(serving_terms(model, serving))
    peak = sum(int(str(term["bytes"])) for term in terms)
    return {
        "schema": FIT_SCHEMA,
        "model": model_tree(model),
        "accelerator": accelerator_tree(accelerator),
        "serving": {
            "batch": serving.batch,
            "context": serving.context,
            "tp": serving.tensor,
            "pp": serving.pipeline,
        },
        "memory": {
            "verdict": str(verdict(peak, accelerator.memory_bytes)),
            "peak_bytes": peak,
            "usable_bytes": accelerator.memory_bytes,
            "terms": terms,
        },
    }


def rough_tree(count: float, dtype: str, accelerator: Accelerator | None) -> dict[str, Any]:
    """Return what a number of parameters alone tells."""
    size = count * BYTES_OF[dtype]
    tree: dict[str, Any] = {
        "schema": FIT_SCHEMA,
        "parameters": count,
        "dtype": dtype,
        "weights_bytes": size,
        "training_bytes": count * TRAINING_BYTES,
    }
    if accelerator is not None:
        tree["accelerator"] = accelerator_tree(accelerator)
        tree["verdict"] = str(verdict(size, accelerator.memory_bytes))
        tree["gpus_to_serve"] = gpus_that_hold(size, accelerator)
        tree["gpus_to_train"] = gpus_that_hold(count * TRAINING_BYTES, accelerator)
    return tree


def facility_tree(gpus: int, gpu_w: float, found: Facility) -> dict[str, Any]:
    """Return the power of GPUs, machines and building in W."""
    return {
        "schema": FIT_SCHEMA,
        "gpus": gpus,
        "gpu_w": gpu_w,
        "power": {
            "gpus_w": found.gpus_w,
            "it_w": [found.it_w.least, found.it_w.most],
            "facility_w": [found.facility_w.least, found.facility_w.most],
            "heat_w": [found.it_w.least, found.it_w.most],
        },
    }


EVALUATION_SCHEMA: Final = "hpckit.evaluation/1"


def evaluation_tree(found: Evaluation) -> dict[str, Any]:
    """Return predictions beside published figures; errors in per cent of the published."""
    return {
        "schema": EVALUATION_SCHEMA,
        "mean_abs_err_pct": 100 * found.mean_abs_error_frac,
        "max_abs_err_pct": 100 * found.max_abs_error_frac,
        "naive_mean_abs_err_pct": 100 * found.naive_mean_abs_error_frac,
        "rows": [
            {
                "line": row.run.line_no,
                "label": row.run.label,
                "target": row.run.target,
                "published": row.run.published,
                "predicted": row.predicted,
                "err_pct": 100 * row.error_frac,
                "naive_err_pct": 100 * row.naive_error_frac,
                "layout": layout_tree(row.layout),
            }
            for row in found.rows
        ],
        "ignored": list(found.ignored),
        "skipped": [{"line": line_no, "why": why} for line_no, why in found.skipped],
    }
