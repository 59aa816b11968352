"""Whether a model fits on its GPUs, and the smallest change that makes it fit."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from itertools import count
from typing import Final, NamedTuple

from hpckit.core.errors import PlanError
from hpckit.core.values import dataclass
from hpckit.planner.accelerators import Accelerator
from hpckit.planner.asked import Asked, Question, question
from hpckit.planner.layout import Layout, Optimizer, Recompute, Training, Zero, can_be
from hpckit.planner.memory import CONTEXT_BYTES, QUANTIZED_BYTES, Memory, Term, memory
from hpckit.planner.model import ModelShape, parameters

TIGHT_FRAC: Final = 0.9
"""Of the card's memory: above it fragmentation decides.

Megatron-Bridge's memory guide: a run with 58.8 of 80 GB allocated ended out of memory until
`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.
"""
_MOST_TRIED: Final = 4000
_MOST_GPUS: Final = 1 << 20


class Verdict(StrEnum):
    """Whether a job has room."""

    FITS = "fits"
    TIGHT = "tight"
    NO = "does not fit"


def verdict(device_bytes: float, usable_bytes: float) -> Verdict:
    """Return whether what a process takes has room in what the driver reports."""
    if device_bytes > usable_bytes:
        return Verdict.NO
    return Verdict.TIGHT if device_bytes > TIGHT_FRAC * usable_bytes else Verdict.FITS


class Change(NamedTuple):
    """What to say differently, in options of `hpckit plan`, and what comes of it."""

    options: str
    layout: Layout
    training: Training
    memory: Memory


def smallest_change(
    model: ModelShape,
    training: Training,
    layout: Layout,
    accelerator: Accelerator,
    *,
    may_grow: bool = True,
    said: Layout | None = None,
    batch_grows: bool = False,
) -> Change | None:
    """Return the least change of a run that fits, None where none does.

    Changes that cost no speed come first, more GPUs last; without `may_grow` their number stays.
    `said` is the layout that the options give beside those of the change, None for this one. A
    batch that nobody said grows with the GPUs.
    """
    most_tensor = max(layout.tensor, accelerator.scale_up_gpus)
    growth = Growth(may_grow=may_grow, batch_grows=batch_grows)
    for _, tried_layout, tried_training in _changes(model, training, layout, growth):
        if tried_layout.tensor > most_tensor:
            continue
        found = memory(model, tried_training, tried_layout)
        if verdict(found.device_bytes, accelerator.memory_bytes) is Verdict.FITS:
            before = tried_training if batch_grows else training
            words = _difference(
                (replace(before, optimizer=training.optimizer), said or layout),
                (tried_training, tried_layout),
            )
            return Change(words, tried_layout, tried_training, found)
    return None


def best_question(model: ModelShape, asked: Asked, gpus: int, accelerator: Accelerator) -> Question:
    """Return the run on so many GPUs: as it is said, or the least split of it that fits.

    Where none fits it is the one without any. Raises PlanError.
    """
    found = question(model, asked, gpus)
    if asked.has_layout:
        return found
    changed = smallest_change(model, found.training, found.layout, accelerator, may_grow=False)
    return found if changed is None else replace(found, layout=changed.layout)


def fewest_gpus(model: ModelShape, asked: Asked, accelerator: Accelerator) -> Question:
    """Return the run on the fewest GPUs, a power of two times the mesh, on which it fits.

    Raises PlanError where none does.
    """
    others = (asked.tp or 1) * (asked.cp or 1) * (asked.pp or 1)
    gpus = others * (asked.dp or 1)
    while gpus <= _MOST_GPUS:
        found = best_question(model, asked, gpus, accelerator)
        size = memory(model, found.training, found.layout).device_bytes
        if verdict(size, accelerator.memory_bytes) is Verdict.FITS:
            return found
        if asked.dp is not None:
            return found
        gpus *= 2
    raise PlanError(
        "GPU memory",
        have=f"{accelerator.memory_bytes / 1e9:.3g} GB on {accelerator.name}",
        need=f"more, even on {_MOST_GPUS} GPUs",
        hint="use more tensor or pipeline parallelism: --tp, --pp",
    )


class Growth(NamedTuple):
    """Whether more GPUs may be taken, and whether the batch grows with them."""

    may_grow: bool
    batch_grows: bool


def _changes(
    model: ModelShape, training: Training, layout: Layout, growth: Growth
) -> Iterator[tuple[float, Layout, Training]]:
    """Yield what can be, the nearest first: each step is a doubling or a notch (Dijkstra)."""
    order = count()
    queue = [(0.0, next(order), layout, training)]
    seen = {(layout, training)}
    for _ in range(_MOST_TRIED):
        if not queue:
            return
        cost, _, here, trained = heapq.heappop(queue)
        if can_be(model, trained, here):
            yield cost, here, trained
        for more, there, then in _steps(model, trained, here, growth):
            if (there, then) not in seen:
                seen.add((there, then))
                heapq.heappush(queue, (cost + more, next(order), there, then))


def _steps(
    model: ModelShape, training: Training, layout: Layout, growth: Growth
) -> Iterator[tuple[float, Layout, Training]]:
    """Yield what is one step from a run, each with its cost: what it takes from speed, roughly."""
    if layout.micro_batch > 1:
        yield 1.0, replace(layout, micro_batch=layout.micro_batch // 2), training
    for cost, there in (*_more_sharing(layout), *_more_recompute(training, layout)):
        yield cost, there, training
    if layout.data % 2 == 0:
        for cost, there in _finer_splits(layout):
            yield cost, there, training
    if model.experts and layout.expert < model.experts.count:
        yield 1.2, replace(layout, expert=2 * layout.expert), training
    if growth.may_grow and layout.gpus * 2 <= _MOST_GPUS:
        grown, batch = replace(layout, data=2 * layout.data), training.global_batch
        is_even = batch % (grown.data * grown.micro_batch) == 0 and not growth.batch_grows
        cost, batch = (4.0, batch) if is_even else (5.0, 2 * batch)
        yield cost, grown, replace(training, global_batch=batch)
    if training.optimizer is Optimizer.ADAM and training.lora_rank is None:
        yield 6.0, layout, replace(training, optimizer=Optimizer.ADAM_8BIT)


def _more_sharing(layout: Layout) -> Iterator[tuple[float, Layout]]:
    if layout.zero == Zero.NOTHING and layout.data * layout.context > 1:
        yield 0.5, replace(layout, zero=Zero.OPTIMIZER)
    elif layout.zero < Zero.WEIGHTS and layout.pipeline == 1 and layout.data > 1:
        yield 1.5, replace(layout, zero=layout.zero + 1)


def _more_recompute(training: Training, layout: Layout) -> Iterator[tuple[float, Layout]]:
    if layout.recompute is Recompute.NONE and not training.flash:
        yield 1.0, replace(layout, recompute=Recompute.SELECTIVE)
    elif layout.recompute is not Recompute.FULL:
        yield 2.0, replace(layout, recompute=Recompute.FULL)


def _finer_splits(layout: Layout) -> Iterator[tuple[float, Layout]]:
    half = layout.data // 2
    yield 1.6, replace(layout, data=half, tensor=2 * layout.tensor)
    if layout.zero < Zero.GRADIENTS:
        yield 1.8, replace(layout, data=half, pipeline=2 * layout.pipeline)
    yield 1.9, replace(layout, data=half, context=2 * layout.context)


def _difference(before: tuple[Training, Layout], after: tuple[Training, Layout]) -> str:
    """Return what changed, in options of the command."""
    (trained, laid), (training, layout) = before, after
    rows = (
        ("--gpus", laid.gpus, layout.gpus),
        ("--tp", laid.tensor, layout.tensor),
        ("--cp", laid.context, layout.context),
        ("--ep", laid.expert, layout.expert),
        ("--pp", laid.pipeline, layout.pipeline),
        ("--micro-batch", laid.micro_batch, layout.micro_batch),
        ("--global-batch", trained.global_batch, training.global_batch),
        ("--zero", laid.zero, layout.zero),
        ("--recompute", laid.recompute, layout.recompute),
        ("--optimizer", trained.optimizer, training.optimizer),
    )
    return " ".join(f"{name} {new}" for name, old, new in rows if old != new)


# --- What a model needs to answer, not to learn.


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Inference: `batch` requests of `context` tokens each, weights of `weight_bytes` a number."""

    context: int
    batch: int
    weight_bytes: float = 2
    tensor: int = 1
    pipeline: int = 1


def cache_bytes_per_token(model: ModelShape) -> float:
    """Return the bytes of keys and values, in 16 bits, that all layers keep of one token.

    Latent attention keeps the compressed vector and the rotary key alone (DeepSeek-V2, §2.1.3).
    """
    if model.latent is not None:
        return model.layers * (model.latent.kv_rank + model.latent.rotary_width) * 2
    return 2 * model.layers * model.kv_heads * model.head_width * 2


def serving_terms(model: ModelShape, serving: Serving) -> tuple[Term, ...]:
    """Return the memory of one GPU that serves: weights, cache, and what a process takes."""
    split = serving.tensor * serving.pipeline
    count_ = parameters(model)
    per_token = cache_bytes_per_token(model)
    # Keys and values are whole on each rank where there are fewer heads than ranks.
    cache_split = serving.pipeline * (1 if model.latent else min(serving.tensor, model.kv_heads))
    tokens = serving.batch * serving.context
    return (
        Term(
            name="weights",
            bytes_=serving.weight_bytes * count_ / split,
            formula=f"{serving.weight_bytes:g} B × {count_ / 1e9:.4g}G parameters"
            + (f" / {split} GPUs" if split > 1 else ""),
            source="the data type of the weights",
        ),
        Term(
            name="KV cache",
            bytes_=per_token * tokens / cache_split,
            formula=f"{per_token / 1e3:.4g} kB per token × {tokens} tokens"
            + (f" / {cache_split}" if cache_split > 1 else ""),
            source="DeepSeek-V2 §2.1.3 (arXiv:2405.04434), table 1"
            if model.latent
            else "2 × layers × key-value heads × head width",
        ),
        Term(
            name="driver context",
            bytes_=CONTEXT_BYTES,
            formula="context and libraries of a process",
            source="nvidia-smi of a process without tensors",
        ),
    )


def most_tokens(model: ModelShape, serving: Serving, usable_bytes: float) -> int:
    """Return how many tokens of cache have room beside the weights, 90 % of the card used."""
    weights, cache, context = serving_terms(model, replace(serving, batch=1, context=1))
    room = TIGHT_FRAC * usable_bytes - weights.bytes_ - context.bytes_
    return max(0, int(room / cache.bytes_))


# --- The rough answer: a number of parameters alone.

BYTES_OF: Final = {
    "fp32": 4.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5,
    "nf4": QUANTIZED_BYTES,
}
TRAINING_BYTES: Final = 16
"""A parameter in mixed precision with Adam: 2 + 2 + 12 (ZeRO, arXiv:1910.02054, §3.1)."""


def gpus_that_hold(size_bytes: float, accelerator: Accelerator) -> int:
    """Return the fewest GPUs, a power of two, that hold so many bytes in nine tenths of theirs."""
    room = TIGHT_FRAC * accelerator.memory_bytes - CONTEXT_BYTES
    gpus = 1
    while gpus * room < size_bytes:
        gpus *= 2
    return gpus
