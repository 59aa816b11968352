"""All layouts of a run on so many GPUs, those that fit ranked by their predicted step time.

Degrees that are said stay as they are. Tried are tensor degrees within a node that divide the
heads, context degrees that leave a rank 4,096 tokens, pipeline degrees that divide the layers
(embedding and head counting as one each, or not), virtual stages, expert degrees, micro-batches
of 1 to 8 sequences, ZeRO 1, without pipeline 3, and recomputing nothing or all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from hpckit.core.values import dataclass
from hpckit.planner.asked import Asked
from hpckit.planner.calibration import FROZEN, Constants
from hpckit.planner.fit import Verdict, verdict
from hpckit.planner.layout import Layout, Recompute, Training, Zero, can_be
from hpckit.planner.machine import Machine
from hpckit.planner.memory import Memory, memory
from hpckit.planner.model import ModelShape
from hpckit.planner.step_time import Clock, StepTime

LEAST_TOKENS: Final = 4096
MICRO_BATCHES: Final = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A layout with its time and its memory."""

    layout: Layout
    time: StepTime
    memory: Memory
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What a search found: how many layouts are valid, how many fit, the best ones first.

    Where none fits, `closest` is that which needs least memory.
    """

    valid: int
    fitting: int
    best: tuple[Ranked, ...]
    closest: Layout | None = None


def layouts(
    model: ModelShape, training: Training, asked: Asked, gpus: int, machine: Machine
) -> Iterator[Layout]:
    """Yield every layout that can be."""
    for base in _meshes(model, training, asked, gpus, machine):
        for layout in _details(model, training, asked, base):
            if can_be(model, training, layout):
                yield layout


def _meshes(
    model: ModelShape, training: Training, asked: Asked, gpus: int, machine: Machine
) -> Iterator[Layout]:
    for tensor in _said_or(asked.tp, _tensor_degrees(model, machine, gpus)):
        for context in _said_or(asked.cp, _context_degrees(training, gpus // tensor)):
            for pipeline in _said_or(asked.pp, _pipeline_degrees(model)):
                rest, left = divmod(gpus, tensor * context * pipeline)
                if left or not rest or training.global_batch % rest:
                    continue
                if asked.dp is not None and asked.dp != rest:
                    continue
                yield Layout(tensor=tensor, context=context, pipeline=pipeline, data=rest)


def _said_or(said: int | None, tried: Sequence[int]) -> Sequence[int]:
    return tried if said is None else (said,)


def _tensor_degrees(model: ModelShape, machine: Machine, gpus: int) -> list[int]:
    most = min(machine.link_gpus, gpus)
    return [n for n in range(1, most + 1) if model.heads % n == 0 and gpus % n == 0]


def _context_degrees(training: Training, ranks: int) -> list[int]:
    most = max(1, training.seq // LEAST_TOKENS)
    return [n for n in range(1, min(most, ranks) + 1) if ranks % n == 0]


def _pipeline_degrees(model: ModelShape) -> list[int]:
    layers = model.layers
    return [n for n in range(1, layers + 1) if layers % n == 0 or (layers + 2) % n == 0]


def _details(model: ModelShape, training: Training, asked: Asked, base: Layout) -> Iterator[Layout]:
    sequences = training.global_batch // base.data
    stages = [1]
    if base.pipeline > 1:
        counted = model.layers if model.layers % base.pipeline == 0 else model.layers + 2
        each = counted // base.pipeline
        stages = [n for n in range(1, each + 1) if each % n == 0]
    zeros = (
        (Zero.OPTIMIZER, Zero.WEIGHTS)
        if base.pipeline == 1 and base.data * base.context > 1
        else (Zero.OPTIMIZER,)
    )
    recomputes = (asked.recompute,) if asked.recompute else (Recompute.SELECTIVE, Recompute.FULL)
    sizes = [n for n in _said_or(asked.micro_batch, MICRO_BATCHES) if sequences % n == 0]
    experts = _said_or(asked.ep, _expert_degrees(model, base))
    said = _said_or(asked.zero, zeros)
    for micro_batch, virtual, expert, zero, recompute in product(
        sizes, _said_or(asked.vp, stages), experts, said, recomputes
    ):
        if virtual == 1 or (sequences // micro_batch) % base.pipeline == 0:
            yield replace(
                base,
                micro_batch=micro_batch,
                virtual=virtual,
                expert=expert,
                expert_tensor=asked.etp,
                zero=zero,
                shard=asked.shard,
                recompute=recompute,
                sequence_parallel=asked.sequence_parallel is not False,
            )


def _expert_degrees(model: ModelShape, base: Layout) -> list[int]:
    if model.experts is None:
        return [1]
    ranks = base.tensor * base.context * base.data
    count = model.experts.count
    return [n for n in range(1, count + 1) if count % n == 0 and ranks % n == 0]


def rank(
    model: ModelShape,
    training: Training,
    asked: Asked,
    gpus: int,
    machine: Machine,
    *,
    most: int = 10,
    constants: Constants = FROZEN,
) -> Ranking:
    """Return the layouts that fit, fastest first."""
    clock = Clock(model, training, machine, constants)
    usable = machine.accelerator.memory_bytes
    found, valid = [], 0
    for layout in layouts(model, training, asked, gpus, machine):
        valid += 1
        room = memory(model, training, layout)
        said = verdict(room.device_bytes, usable)
        found.append((said, room, layout))
    fitting = [row for row in found if row[0] is Verdict.FITS]
    fitting = fitting or [row for row in found if row[0] is Verdict.TIGHT]
    timed = [
        Ranked(layout=layout, time=clock.time(layout), memory=room, verdict=said)
        for said, room, layout in fitting
    ]
    timed.sort(key=lambda row: row.time.step_s)
    closest = min(found, key=lambda row: row[1].device_bytes, default=None)
    return Ranking(
        valid=valid,
        fitting=len(fitting),
        best=tuple(timed[:most]),
        closest=None if timed or closest is None else closest[2],
    )
