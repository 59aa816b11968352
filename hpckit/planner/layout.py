"""How a training run is split over GPUs, and what it trains with.

n = tensor · context · pipeline · data; expert parallelism divides the ranks of data, context and
tensor again and multiplies nothing (Megatron-LM, `parallel_state.py`).
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

from hpckit.core.errors import PlanError
from hpckit.core.values import dataclass
from hpckit.planner.model import ModelShape


class Recompute(StrEnum):
    """What of the activations is computed again in the backward pass."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Precision(StrEnum):
    """In what the matrices are multiplied."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"


class Optimizer(StrEnum):
    """What keeps state for each parameter that is trained."""

    ADAM = "adam"
    ADAM_BF16 = "adam-bf16"
    ADAM_8BIT = "adam-8bit"
    MUON = "muon"
    SGD = "sgd"


class Zero(IntEnum):
    """What ranks with the same weights share: ZeRO's stages (arXiv:1910.02054, §3)."""

    NOTHING = 0
    OPTIMIZER = 1
    GRADIENTS = 2
    WEIGHTS = 3


class Framework(StrEnum):
    """What runs the training, as far as it decides what is sent and kept."""

    MEGATRON = "megatron"
    DEEPSPEED = "deepspeed"
    FSDP = "fsdp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What is trained: `global_batch` sequences of `seq` tokens a step.

    `grad_bytes` a parameter; None is 4 with bf16 and fp8 (Megatron's main gradients), 2 with fp16.
    `lora_rank` trains adapters of that rank alone; `quantized` keeps the frozen weights in 4 bits.
    Without `flash` the scores of attention are stored unless they are recomputed; `dropout` keeps
    masks, None where the MLP is not gated (GPT as its papers train it).
    """

    seq: int
    global_batch: int
    precision: Precision = Precision.BF16
    optimizer: Optimizer = Optimizer.ADAM
    grad_bytes: int | None = None
    lora_rank: int | None = None
    quantized: bool = False
    flash: bool = True
    dropout: bool | None = None
    framework: Framework | None = None
    fused_accumulation: bool = True

    def framework_of(self, layout: Layout) -> Framework:
        """Return the framework; of a layout that only one of them runs, that one.

        Pipelines with ZeRO 1 and full recomputing are DeepSpeed's in the published record
        (GPT-NeoX, MT-NLG, BLOOM).
        """
        if self.framework is not None:
            return self.framework
        if layout.zero >= Zero.GRADIENTS:
            return Framework.FSDP
        is_deepspeed = layout.zero == 1 and layout.pipeline > 1 and not self.flash
        return Framework.DEEPSPEED if is_deepspeed else Framework.MEGATRON

    def is_accumulated_apart(self, layout: Layout) -> bool:
        """Return whether each micro-batch's gradients are added by a pass of their own."""
        return not self.fused_accumulation or self.framework_of(layout) is Framework.DEEPSPEED

    def overlaps(self, layout: Layout) -> bool:
        """Return whether tensor and data communication hides behind products.

        So in software that has fused attention too, but for DeepSpeed's pipelines.
        """
        return self.flash and self.framework_of(layout) is Framework.MEGATRON

    @property
    def gradient_bytes(self) -> int:
        """Return the bytes of one gradient."""
        if self.grad_bytes is not None:
            return self.grad_bytes
        return 2 if self.precision is Precision.FP16 else 4

    def kept_gradient_bytes(self, layout: Layout) -> int:
        """Return the bytes of gradients that stay in memory for each parameter.

        DeepSpeed's bf16 optimizer keeps them in both precisions.
        """
        is_twice = self.framework_of(layout) is Framework.DEEPSPEED and self.gradient_bytes > 2  # noqa: PLR2004
        return self.gradient_bytes + (2 if is_twice else 0)

    def has_dropout(self, model: ModelShape) -> bool:
        """Return whether masks of dropout are kept."""
        return not model.gated if self.dropout is None else self.dropout


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One way to split a run: degrees of parallelism, micro-batch in sequences, what is sharded.

    `zero` is the stage of ZeRO (1 is Megatron's distributed optimizer, 3 FSDP); `shard` is how
    many ranks share what it divides, None for all of data and context (HSDP: fewer).
    `expert_tensor` is the tensor degree of experts; None is 1 where they are spread over ranks,
    else that of the rest.
    """

    tensor: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int | None = None
    pipeline: int = 1
    virtual: int = 1
    data: int = 1
    micro_batch: int = 1
    zero: int = 1
    shard: int | None = None
    recompute: Recompute = Recompute.SELECTIVE
    sequence_parallel: bool = True

    @property
    def gpus(self) -> int:
        """Return how many GPUs the layout takes."""
        return self.tensor * self.context * self.pipeline * self.data

    @property
    def expert_split(self) -> int:
        """Return over how many ranks the experts of a stage are divided."""
        if self.expert_tensor is not None:
            return self.expert * self.expert_tensor
        return self.tensor if self.expert == 1 else self.expert

    @property
    def shard_ranks(self) -> int:
        """Return how many ranks share the states that ZeRO divides."""
        return self.shard or self.data * self.context

    @property
    def expert_shard_ranks(self) -> int:
        """Return how many ranks hold the same experts, and share their states."""
        return max(1, self.tensor * self.context * self.data // self.expert_split)

    def micro_batches(self, training: Training) -> int:
        """Return how many micro-batches a step has on each data rank."""
        return training.global_batch // (self.data * self.micro_batch)

    def words(self) -> str:
        """Return the degrees above one, as people write them: `tp8 pp4 dp16 mb1`."""
        degrees = (
            ("tp", self.tensor),
            ("cp", self.context),
            ("ep", self.expert),
            ("pp", self.pipeline),
            ("vp", self.virtual),
            ("dp", self.data),
        )
        said = [f"{name}{size}" for name, size in degrees if size > 1] or ["dp1"]
        words = [*said, f"mb{self.micro_batch}", f"zero{self.zero}"]
        if self.recompute is not Recompute.SELECTIVE:
            words.append(f"recompute={self.recompute}")
        return " ".join(words)


def check_layout(model: ModelShape, training: Training, layout: Layout) -> None:
    """Raise PlanError for a layout that cannot be, with the constraint and the nearest that can."""
    _divides("the tensor degree must divide the attention heads", model.heads, layout.tensor)
    if model.kv_heads % layout.tensor and layout.tensor % model.kv_heads:
        raise PlanError(
            "the tensor degree must fit the key-value heads",
            have=f"{model.kv_heads} key-value heads, tensor degree {layout.tensor}",
            need="a divisor or a multiple of the heads",
            hint=f"--tp {nearest_divisor(model.kv_heads, layout.tensor)}",
        )
    chunks = layout.pipeline * layout.virtual
    # Embedding and head may count as a layer each, and be alone on a virtual stage.
    if chunks > model.layers and (model.layers + 2) % chunks:
        raise PlanError(
            "too few layers for the pipeline stages",
            have=f"{model.layers} layers",
            need=f"at least one for each of {chunks} stages (pp × vp)",
            hint=f"--pp {nearest_divisor(model.layers, layout.pipeline)} --vp 1",
        )
    if layout.virtual > 1:
        if (model.layers + 2) % chunks:  # embedding and head may count as a layer each
            _divides(
                "pipeline stages × virtual stages must divide the layers", model.layers, chunks
            )
        if layout.pipeline == 1:
            raise PlanError(
                "virtual stages need a pipeline",
                have="pipeline degree 1",
                need="2 or more",
                hint="--vp 1",
            )
    if training.seq % (layout.context * 2) and layout.context > 1:
        raise PlanError(
            "twice the context degree must divide the sequence",
            have=f"{training.seq} tokens",
            need=f"a multiple of {2 * layout.context} (each rank takes a piece of both halves)",
            hint=f"--cp {nearest_divisor(training.seq // 2, layout.context)}",
        )
    _check_experts(model, layout)
    _check_batch(training, layout)


def can_be(model: ModelShape, training: Training, layout: Layout) -> bool:
    """Return whether a layout breaks no constraint."""
    try:
        check_layout(model, training, layout)
    except PlanError:
        return False
    return True


def _check_experts(model: ModelShape, layout: Layout) -> None:
    if layout.expert == 1:
        return
    if model.experts is None:
        raise PlanError(
            "expert parallelism needs experts",
            have=f"{model.name} without experts",
            need="a mixture of experts",
            hint="--ep 1",
        )
    _divides(
        "the expert degree must divide the experts", model.experts.count, layout.expert, "--ep"
    )
    ranks = layout.tensor * layout.context * layout.data
    _divides(
        "the expert ranks must divide the ranks of a pipeline stage",
        ranks,
        layout.expert_split,
        "--ep",
    )


def _check_batch(training: Training, layout: Layout) -> None:
    if layout.shard is not None and (layout.data * layout.context) % layout.shard:
        raise PlanError(
            "the ranks that share states must divide the data and context ranks",
            have=f"{layout.data * layout.context} / {layout.shard}",
            need="a divisor",
            hint=f"--shard {nearest_divisor(layout.data * layout.context, layout.shard)}",
        )
    each = layout.data * layout.micro_batch
    if training.global_batch % each:
        near = max(each, round(training.global_batch / each) * each)
        raise PlanError(
            "data ranks × micro-batch must divide the global batch",
            have=f"{training.global_batch} sequences",
            need=f"a multiple of {each} ({layout.data} × {layout.micro_batch})",
            hint=f"--global-batch {near}",
        )
    number = layout.micro_batches(training)
    if layout.virtual > 1 and number % layout.pipeline:
        near = max(1, round(number / layout.pipeline)) * layout.pipeline * each
        raise PlanError(
            "the pipeline degree must divide the micro-batches of interleaved stages",
            have=f"{number} micro-batches per data rank",
            need=f"a multiple of the pipeline degree {layout.pipeline}",
            hint=f"--global-batch {near}, or --vp 1",
        )


def _divides(constraint: str, whole: int, degree: int, option: str = "--tp") -> None:
    if whole % degree == 0:
        return
    option = "--vp 1 --pp" if "stages ×" in constraint else option
    raise PlanError(
        constraint,
        have=f"{whole} / {degree}",
        need=f"a divisor of {whole}",
        hint=f"{option} {nearest_divisor(whole, degree)}",
    )


def nearest_divisor(whole: int, degree: int) -> int:
    """Return the largest divisor of `whole` that is at most `degree`."""
    return next(n for n in range(min(degree, max(whole, 1)), 0, -1) if whole % n == 0)


def data_degree(gpus: int, layout: Layout) -> int:
    """Return the data degree that fills the GPUs. Raises PlanError where none does."""
    others = layout.tensor * layout.context * layout.pipeline
    if gpus % others:
        lower, upper = gpus // others * others, -(-gpus // others) * others
        near = " or ".join(f"--gpus {n}" for n in dict.fromkeys((lower, upper)) if n)
        raise PlanError(
            "the parallel degrees must divide the number of GPUs",
            have=f"{gpus} GPUs",
            need=f"a multiple of {others} (tensor {layout.tensor} × context {layout.context} × "
            f"pipeline {layout.pipeline})",
            hint=near,
        )
    return gpus // others
