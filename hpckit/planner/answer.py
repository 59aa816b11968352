"""The whole answer of a plan: memory, the layouts that fit, time with failures, power."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from hpckit.core.values import dataclass
from hpckit.planner.asked import Asked, Question, layout_of, question, training_of
from hpckit.planner.calibration import HELD_OUT_FRAC, UNVALIDATED_FRAC
from hpckit.planner.failures import (
    Reliability,
    TimeWithFailures,
    checkpoint_s,
    time_with_failures,
)
from hpckit.planner.fit import Change, Verdict, smallest_change, verdict
from hpckit.planner.layout import Layout, Precision, Training
from hpckit.planner.machine import Machine
from hpckit.planner.memory import Memory, adapter_parameters, memory
from hpckit.planner.model import ModelShape, parameters, step_flops
from hpckit.planner.power import Energy, run_energy
from hpckit.planner.search import Ranked, Ranking, rank
from hpckit.planner.step_time import Clock, StepTime

MOST_SHOWN: Final = 10
LONGEST_SEQ: Final = 8192
"""The longest sequences of which there are enough rows; longer ones come out too slow."""
_LEAST_S: Final = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What is asked beside the layout: how many tokens, what fails, what energy costs.

    `checkpoint_s` None is estimated from the model's size and the number of nodes.
    """

    tokens: float | None = None
    mttf_gpu_h: float | None = None
    checkpoint_s: float | None = None
    restart_s: float | None = None
    pue: float | None = None
    price_per_kwh: float | None = None
    currency: str = ""
    co2_g_per_kwh: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast a layout is; `uncertainty_frac` is what the frozen calibration leaves open.

    `hidden_s` is how long sharded weights move behind computing, which a slower network would not.
    """

    time: StepTime
    tokens_per_s: float
    mfu_frac: float
    causal_mfu_frac: float
    uncertainty_frac: float
    hidden_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What a run's energy costs, and the CO2 that it stands for; None is unknown."""

    cost: float | None
    currency: str
    co2_kg: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What `hpckit plan` says of a run; parts that nobody can know are None."""

    question: Question
    machine: Machine
    memory: Memory
    verdict: Verdict
    speed: Speed
    ranking: Ranking
    change: Change | None = None
    tokens: float | None = None
    honest: TimeWithFailures | None = None
    reliability: Reliability | None = None
    energy: Energy | None = None
    bill: Bill | None = None


def answer(model: ModelShape, asked: Asked, gpus: int, machine: Machine, wishes: Wishes) -> Answer:
    """Return the answer for so many GPUs: of the layout that is said, else of the fastest.

    Raises PlanError for a mesh, batch or split that cannot be.
    """
    training, assumed = training_of(model, asked, gpus)
    ranking = rank(model, training, asked, gpus, machine, most=MOST_SHOWN)
    layout = ranking.best[0].layout if ranking.best else ranking.closest
    if asked.has_layout or layout is None:
        found = question(model, asked, gpus)
    else:
        found = Question(model=model, training=training, layout=layout, assumed=assumed)
    room = memory(model, found.training, found.layout)
    said = verdict(room.device_bytes, machine.accelerator.memory_bytes)
    change = None
    if said is Verdict.NO:
        plain = layout_of(replace(asked, tp=asked.tp or 1), gpus)
        change = smallest_change(
            model,
            found.training,
            found.layout,
            machine.accelerator,
            said=plain,
            batch_grows=asked.global_batch is None,
        )
    speed = speed_of(model, found.training, found.layout, machine)
    made = Answer(
        question=found,
        machine=machine,
        memory=room,
        verdict=said,
        speed=speed,
        ranking=ranking,
        change=change,
    )
    return _over_time(made, wishes)


def speed_of(model: ModelShape, training: Training, layout: Layout, machine: Machine) -> Speed:
    """Return how fast a layout is."""
    clock = Clock(model, training, machine)
    speed = speed_from(model, training, layout, machine, clock.time(layout))
    return replace(speed, hidden_s=clock.hidden_s(layout))


def speed_from(
    model: ModelShape, training: Training, layout: Layout, machine: Machine, time: StepTime
) -> Speed:
    """Return how fast a layout of a known step time is."""
    card = machine.accelerator
    if machine.peak_flops is not None:  # a power cap changes no peak
        card = replace(card, flops=machine.peak_flops, flops_fp8=None)
    peak = card.peak_flops(fp8=training.precision == "fp8") * layout.gpus

    def mfu(attention_frac: float) -> float:
        flops = step_flops(
            model,
            seq=training.seq,
            sequences=training.global_batch,
            attention_frac=attention_frac,
        )
        if training.lora_rank is not None:  # frozen weights have no gradient
            flops *= 2 / 3
        return flops / time.step_s / peak

    return Speed(
        time=time,
        tokens_per_s=training.seq * training.global_batch / time.step_s,
        mfu_frac=mfu(1.0),
        causal_mfu_frac=mfu(0.5),
        uncertainty_frac=UNVALIDATED_FRAC
        if unvalidated(model, training, layout, machine)
        else HELD_OUT_FRAC,
    )


def unvalidated(
    model: ModelShape, training: Training, layout: Layout, machine: Machine
) -> tuple[str, ...]:
    """Return what of a run no published table at hand has, so that its time is less sure."""
    found = {
        machine.accelerator.name: not machine.is_calibrated,
        "experts": model.experts is not None,
        "context parallelism": layout.context > 1,
        "LoRA": training.lora_rank is not None,
        "fp8": training.precision is Precision.FP8,
        f"{training.seq} tokens": training.seq > LONGEST_SEQ,
    }
    return tuple(name for name, is_so in found.items() if is_so)


def _over_time(made: Answer, wishes: Wishes) -> Answer:
    """Return the answer with what a whole run takes, where it is known how long that is."""
    layout, machine = made.question.layout, made.machine
    nodes = max(1, layout.gpus // machine.node_gpus)
    write_s = wishes.checkpoint_s
    if write_s is None:
        rank_ = made.question.training.lora_rank
        model = made.question.model
        size = parameters(model) if rank_ is None else adapter_parameters(model, rank_)
        write_s = checkpoint_s(size, nodes)
    stated = Reliability(checkpoint_s=write_s)
    if wishes.mttf_gpu_h is not None:
        stated = replace(stated, mttf_gpu_h=wishes.mttf_gpu_h)
    if wishes.restart_s is not None:
        stated = replace(stated, restart_s=wishes.restart_s)
    ideal_s = 24 * 3600.0 * 30
    if wishes.tokens is not None:
        ideal_s = wishes.tokens / made.speed.tokens_per_s
    honest = time_with_failures(ideal_s, layout.gpus, stated)
    tdp_w = machine.accelerator.tdp_w
    energy = None
    if tdp_w is not None and math.isfinite(honest.expected_s):
        seconds = honest.expected_s if wishes.tokens is not None else 3600.0
        energy = run_energy(layout.gpus, tdp_w, made.speed.time.busy_frac, seconds, wishes.pue)
    bill = None
    if energy is not None and wishes.tokens is not None:
        bill = bill_of(energy, wishes)
    return replace(
        made,
        tokens=wishes.tokens,
        honest=honest,
        reliability=stated,
        energy=energy,
        bill=bill,
    )


def bill_of(energy: Energy, wishes: Wishes) -> Bill:
    """Return what the building's energy costs and emits, as far as factors are known."""
    price, grams = wishes.price_per_kwh, wishes.co2_g_per_kwh
    return Bill(
        cost=None if price is None else energy.facility_kwh * price,
        currency=wishes.currency,
        co2_kg=None if grams is None else energy.facility_kwh * grams / 1e3,
    )


def at_other_sizes(
    model: ModelShape, asked: Asked, gpus: int, machine: Machine, wishes: Wishes
) -> tuple[Answer, ...]:
    """Return the answers for half to four times the GPUs, the same batch: time against energy."""
    free = replace(
        asked, tp=None, cp=None, ep=None, pp=None, vp=None, dp=None,
        global_batch=training_of(model, asked, gpus)[0].global_batch,
    )  # fmt: skip
    found = []
    for size in (gpus // 4, gpus // 2, gpus, 2 * gpus, 4 * gpus):
        if size < 1:
            continue
        made = answer(model, free, size, machine, wishes)
        if made.verdict is not Verdict.NO and made.ranking.best:
            found.append(made)
    return tuple(found)


def explained(first: Ranked, other: Ranked) -> str:
    """Return why one layout is faster than another: the terms that differ most."""
    names = dict.fromkeys([name for name, _ in (*first.time.terms, *other.time.terms)])
    differences = sorted(
        ((other.time.of(name) - first.time.of(name), name) for name in names),
        key=lambda pair: -abs(pair[0]),
    )
    words = [
        f"{name} {seconds:+.3g} s" for seconds, name in differences[:3] if abs(seconds) >= _LEAST_S
    ]
    return ", ".join(words) or "same time, fewer degrees"
