"""What somebody asks of a plan: the values that are said, and what the rest is taken to be."""

from __future__ import annotations

from dataclasses import field, fields, replace

from hpckit.core.errors import PlanError
from hpckit.core.values import dataclass
from hpckit.planner.layout import (
    Layout,
    Optimizer,
    Precision,
    Recompute,
    Training,
    check_layout,
    data_degree,
)
from hpckit.planner.model import ModelShape

USUAL_SEQ = 4096
SEQUENCES_PER_GPU = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is said of a training run; None is not said. Names are those of the options."""

    seq: int | None = None
    global_batch: int | None = None
    micro_batch: int | None = None
    tp: int | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    pp: int | None = None
    vp: int | None = None
    dp: int | None = None
    zero: int | None = None
    shard: int | None = None
    recompute: Recompute | None = None
    precision: Precision | None = None
    optimizer: Optimizer | None = None
    grad_bytes: int | None = None
    lora_rank: int | None = None
    quantized: bool | None = None
    flash: bool | None = None
    sequence_parallel: bool | None = None

    def over(self, other: Asked) -> Asked:
        """Return what this says, and what `other` says beside it."""
        said = {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if getattr(self, one.name) is not None
        }
        return replace(other, **said)

    @property
    def has_layout(self) -> bool:
        """Return whether a degree of parallelism is said."""
        return any(
            size is not None for size in (self.tp, self.cp, self.ep, self.pp, self.vp, self.dp)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A run to be judged: `assumed` are the values that nobody said, in words."""

    model: ModelShape
    training: Training
    layout: Layout
    assumed: tuple[str, ...] = field(default=())


def question(model: ModelShape, asked: Asked, gpus: int) -> Question:
    """Return the run that is asked about on so many GPUs, what is not said filled in.

    Raises PlanError for a mesh, a batch or a split that cannot be.
    """
    layout = layout_of(asked, gpus)
    training, assumed = training_of(model, asked, gpus)
    if asked.has_layout:
        assumed += _unsaid(asked)
    check_layout(model, training, layout)
    return Question(model=model, training=training, layout=layout, assumed=assumed)


def _unsaid(asked: Asked) -> tuple[str, ...]:
    """Return the options of a layout that nobody said, with their defaults."""
    rows = (
        ("--tp 1", asked.tp),
        ("--pp 1", asked.pp),
        ("--micro-batch 1", asked.micro_batch),
        ("--zero 1", asked.zero),
        ("--recompute selective", asked.recompute),
    )
    return tuple(option for option, said in rows if said is None)


def layout_of(asked: Asked, gpus: int) -> Layout:
    """Return the layout that is said, what is left of the GPUs being data ranks."""
    layout = Layout(
        tensor=asked.tp or 1,
        context=asked.cp or 1,
        expert=asked.ep or 1,
        expert_tensor=asked.etp,
        pipeline=asked.pp or 1,
        virtual=asked.vp or 1,
        micro_batch=asked.micro_batch or 1,
        zero=1 if asked.zero is None else asked.zero,
        shard=asked.shard,
        recompute=asked.recompute or Recompute.SELECTIVE,
        sequence_parallel=asked.sequence_parallel is not False,
    )
    layout = replace(layout, data=data_degree(gpus, layout))
    if asked.dp is not None and asked.dp != layout.data:
        others = layout.tensor * layout.context * layout.pipeline
        raise PlanError(
            "the parallel degrees must multiply to the number of GPUs",
            have=f"{gpus} GPUs",
            need=f"{others * asked.dp} (tensor {layout.tensor} × context {layout.context} × "
            f"pipeline {layout.pipeline} × data {asked.dp})",
            hint=f"--dp {layout.data}, or --gpus {others * asked.dp}",
        )
    return layout


def training_of(model: ModelShape, asked: Asked, gpus: int) -> tuple[Training, tuple[str, ...]]:
    """Return what is trained, and what of it was assumed."""
    assumed = []
    seq = asked.seq
    if seq is None:
        seq = min(USUAL_SEQ, model.details.positions or USUAL_SEQ)
        assumed.append(f"--seq {seq}")
    batch = asked.global_batch
    if batch is None:
        batch = SEQUENCES_PER_GPU * gpus * (asked.micro_batch or 1)
        assumed.append(f"--global-batch {batch}")
    training = Training(
        seq=seq,
        global_batch=batch,
        precision=asked.precision or Precision.BF16,
        optimizer=asked.optimizer or Optimizer.ADAM,
        grad_bytes=asked.grad_bytes,
        lora_rank=asked.lora_rank,
        quantized=bool(asked.quantized),
        flash=asked.flash is not False,
    )
    if asked.precision is None:
        assumed.append(f"--precision {training.precision}")
    if asked.optimizer is None:
        assumed.append(f"--optimizer {training.optimizer}")
    return training, tuple(assumed)
