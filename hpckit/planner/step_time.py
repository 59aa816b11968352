"""The time of a training step, term by term, from a model's shape, its layout and the machine.

Structure: Narayanan et al. 2021 (arXiv:2104.04473, §2.2, §3) for the bubble and the volumes,
Korthikanti et al. 2022 (arXiv:2205.05198) for sequence parallelism and recomputing, nccl-tests'
doc/PERFORMANCE.md for bus bandwidth. The eight fitted constants are in `calibration`.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final

from hpckit.core.values import dataclass
from hpckit.planner.calibration import FROZEN, Constants
from hpckit.planner.layout import Framework, Layout, Precision, Recompute, Training, Zero
from hpckit.planner.machine import Machine
from hpckit.planner.memory import adapter_parameters, padded_vocab
from hpckit.planner.model import ModelShape, layer_parameters, parameters, routed_parameters

FLASH_FRAC: Final = (0.55, 0.35)
"""Of the peak that fused attention reaches, before and from Hopper on.

FlashAttention-2 (arXiv:2307.08691, figures 4 to 7): forward and backward, causal, 2k to 16k.
"""
TENSOR_CORE_ALIGNMENT: Final = 8
"""Elements of 16 bits: matrices whose rows are no multiple of 16 bytes miss the tensor cores.

NVIDIA, Matrix Multiplication Background User's Guide, "Requirements to use tensor cores".
"""
VECTOR_FRAC: Final = 1 / 16
"""Of the peak that is left without tensor cores: fp32 of A100 (19.5 of 312), of H100 (67 of 989).

That unfused attention falls so far was seen in BigScience's runs with heads of 108, 150 and 180.
"""
ATTENTION_BACKWARD: Final = 2.5
"""Work of fused attention's backward pass over its forward one (the same, §3.1)."""
OPTIMIZER_BYTES: Final = 50
"""Read and written a parameter: unscale, norm and clip 20, Adam 28, the copy in 16 bits 2."""
ACCUMULATE_BYTES: Final = 10
"""A parameter and micro-batch, where gradients are not added by the product that makes them."""
LOGIT_BYTES: Final = 32
"""A logit: eight passes over fp32 in the loss and its gradient."""
COLLECTIVE_S: Final = 20e-6
"""Latency of a collective in a node (NCCL, src/graph/tuning.cc)."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step by what takes them; `terms` add up to `step_s`."""

    terms: tuple[tuple[str, float], ...]

    @property
    def step_s(self) -> float:
        """Return the whole."""
        return sum(seconds for _, seconds in self.terms)

    @property
    def busy_frac(self) -> float:
        """Return the part in which the GPUs compute."""
        busy = sum(seconds for name, seconds in self.terms if name in ("compute", "recompute"))
        return busy / self.step_s

    def of(self, name: str) -> float:
        """Return the seconds of one term."""
        return next((seconds for term, seconds in self.terms if term == name), 0.0)


@dataclass(frozen=True, slots=True)
class _Layer:
    """Seconds of one layer and micro-batch on one GPU."""

    forward: float
    backward: float
    recompute: float
    tensor: float
    tensor_again: float
    context: float
    expert: float


class Clock:
    """Times layouts of one model, run and machine; what layouts share is computed once."""

    def __init__(
        self,
        model: ModelShape,
        training: Training,
        machine: Machine,
        constants: Constants = FROZEN,
    ) -> None:
        self._model = model
        self._training = training
        self._machine = machine
        self._constants = constants
        self._layers: dict[tuple[object, ...], _Layer] = {}
        fp8 = training.precision is Precision.FP8
        self._matmul = machine.matmul_flops(constants, fp8=fp8)
        self._memory = machine.accelerator.memory_bytes_per_s * constants.memory

    @cached_property
    def _parameters(self) -> tuple[float, float]:
        """Return the parameters that are trained: those that tensor ranks share, and experts'."""
        if self._training.lora_rank is not None:
            return float(adapter_parameters(self._model, self._training.lora_rank)), 0.0
        routed = routed_parameters(self._model)
        return float(parameters(self._model) - routed), float(routed)

    def time(self, layout: Layout) -> StepTime:
        """Return the time of a step of a layout."""
        training = self._training
        framework = training.framework_of(layout)
        dense, sparse = self._layer(layout, sparse=False), None
        sparse_frac = self._model.sparse_layers / self._model.layers
        if sparse_frac:
            sparse = self._layer(layout, sparse=True)
        layer = _mixed(dense, sparse, sparse_frac)
        number = layout.micro_batches(training)
        layers = self._model.layers / layout.pipeline
        local = self._local_parameters(layout)
        forward = layers * layer.forward
        backward = layers * (layer.backward + layer.recompute)
        gather = self._gathered(layout, layer, layers) if layout.zero >= Zero.GRADIENTS else 0.0
        extra = self._accumulate(local, training.is_accumulated_apart(layout))
        sends = self._sends(layout, framework)
        talk = layers * (layer.tensor + layer.tensor_again + layer.context + layer.expert)
        stage = forward + backward + talk + gather + extra + sends
        head = self._head(layout)  # the last stage has it, and the slowest one sets the pace
        terms = {
            "compute": number * (forward + layers * layer.backward + head + extra),
            "recompute": number * layers * layer.recompute,
            "tensor": number * layers * (layer.tensor + layer.tensor_again),
            "context": number * layers * layer.context,
            "expert": number * layers * layer.expert,
            "shards": number * gather,
            "pipeline sends": number * sends,
            "bubble": (layout.pipeline - 1) / layout.virtual * stage,
        }
        terms["stragglers"] = self._waiting(layout) * sum(terms.values())
        terms["data"] = self._once_a_step(layout, framework, (forward, backward))
        sharded = layout.shard_ranks if layout.zero else 1
        terms["optimizer"] = OPTIMIZER_BYTES * local / sharded / self._memory
        scale = self._machine.step_scale
        return StepTime(
            tuple((name, scale * seconds) for name, seconds in terms.items() if seconds)
        )

    def _waiting(self, layout: Layout) -> float:
        """Return the part by which ranks wait for the slowest: the most of n normal spreads."""
        ranks = layout.data * layout.context
        return self._constants.straggler * math.sqrt(2 * math.log(ranks)) if ranks > 1 else 0.0

    def _once_a_step(
        self, layout: Layout, framework: Framework, passes: tuple[float, float]
    ) -> float:
        if layout.zero < Zero.GRADIENTS:
            return self._data(layout, framework, passes)
        return self._replicas(layout) if layout.shard else 0.0

    # --- One layer.

    def _layer(self, layout: Layout, *, sparse: bool) -> _Layer:
        key = (
            layout.tensor, layout.context, layout.expert, layout.micro_batch, layout.recompute,
            layout.sequence_parallel, sparse, self._expert_level(layout),
        )  # fmt: skip
        found = self._layers.get(key)
        if found is None:
            found = self._layers[key] = self._time_layer(layout, sparse=sparse)
        return found

    def _tokens(self, layout: Layout) -> float:
        return self._training.seq / layout.context * layout.micro_batch

    def _time_layer(self, layout: Layout, *, sparse: bool) -> _Layer:
        training = self._training
        forward, backward = self._products(layout, sparse=sparse)
        attention = self._attention(layout)
        moved = self._moved(layout, sparse=sparse)
        kernel = self._constants.kernel_s
        forward += attention[0] + moved / self._memory + 4 * kernel
        backward += attention[1] + 1.5 * moved / self._memory + 4 * kernel
        once = self._tensor_collective(layout)
        exposed = self._constants.tensor_exposed if training.overlaps(layout) else 1.0
        # With sequence parallelism inputs are gathered again for the weights' gradient.
        times = 5 if layout.sequence_parallel and layout.tensor > 1 else 4
        recompute = again = 0.0
        if layout.recompute is Recompute.FULL:
            recompute, again = forward, 2 * once * exposed
        elif layout.recompute is Recompute.SELECTIVE and not training.flash:
            recompute = self._scores(layout, passes=11) + self._score_products(layout) / 2
        return _Layer(
            forward=forward,
            backward=backward,
            recompute=recompute,
            tensor=times * once * exposed,
            tensor_again=again,
            context=self._context(layout, attention[0]),
            expert=self._expert(layout) if sparse else 0.0,
        )

    def _products(self, layout: Layout, *, sparse: bool) -> tuple[float, float]:
        """Return the time of the matrix products of attention's projections and the MLP."""
        model, tokens, tensor = self._model, self._tokens(layout), layout.tensor
        weights = layer_parameters(model, sparse=False).split
        moe = model.experts
        kernels = 4
        if sparse and moe is not None:
            each = model.mlp_matrices * model.hidden
            weights -= each * model.ffn
            weights += each * (moe.top_k * moe.ffn + moe.shared_ffn)
            kernels = 6
        forward = 2 * tokens * weights / tensor / self._matmul + kernels * self._constants.kernel_s
        # Frozen matrices have no gradient of their own: the backward pass is half as long.
        return forward, forward if self._training.lora_rank is not None else 2 * forward

    def _score_products(self, layout: Layout) -> float:
        """Return the time of the two products of unfused attention, forward."""
        model, rate = self._model, self._matmul
        if model.head_width % TENSOR_CORE_ALIGNMENT:
            rate = self._machine.accelerator.flops * VECTOR_FRAC
        width = (model.query_width + model.value_width) / layout.tensor
        return 2 * self._tokens(layout) * self._training.seq * width / rate

    def _scores(self, layout: Layout, *, passes: float) -> float:
        """Return the time to move the scores of attention, `passes` bytes each."""
        scores = self._model.heads / layout.tensor * self._training.seq * self._tokens(layout)
        return scores * passes / self._memory

    def _attention(self, layout: Layout) -> tuple[float, float]:
        """Return the time of attention itself, forward and backward."""
        kernel = self._constants.kernel_s
        model = self._model
        if not self._training.flash:
            products = self._score_products(layout) + 2 * kernel
            return (
                products + self._scores(layout, passes=11),
                2 * products + self._scores(layout, passes=13),
            )
        width = (model.query_width + model.value_width) / layout.tensor
        work = self._tokens(layout) * self._training.seq * width  # half of it is masked
        frac = FLASH_FRAC[self._machine.is_recent] * self._constants.attention
        once = work / (self._machine.accelerator.flops * frac)
        return once + kernel, ATTENTION_BACKWARD * once + kernel

    def _moved(self, layout: Layout, *, sparse: bool) -> float:
        """Return the bytes that norms, residuals, dropout and activation functions move."""
        model, tokens = self._model, self._tokens(layout)
        outside = 20 + (2 if self._training.has_dropout(model) else 0)
        split = layout.tensor if layout.sequence_parallel else 1
        inside = (6 if model.gated else 4) * model.ffn
        moe = model.experts
        if sparse and moe is not None:
            inside = 6 * (moe.top_k * moe.ffn + moe.shared_ffn) + 8 * moe.top_k * model.hidden
        return tokens * (outside * model.hidden / split + inside / layout.tensor)

    # --- Communication.

    def _ring(self, ranks: int, per_node: int, size: float) -> float:
        """Return the time to gather or scatter `size` bytes among ranks, `per_node` on each node.

        Within nodes first, then between them (hierarchical): each rank has its own NIC.
        """
        inside = max(1, min(per_node, ranks))
        nodes = ranks / inside
        machine = self._machine
        time = (inside - 1) / inside * size / machine.link_bytes_per_s
        if nodes > 1:
            time += (nodes - 1) / nodes * size / inside / machine.network_bytes_per_s
        return time

    def _tensor_collective(self, layout: Layout) -> float:
        """Return the time of one all-reduce of a micro-batch's activations, one block of two.

        As an all-reduce is a reduce-scatter and an all-gather, four are a layer's.
        """
        if layout.tensor == 1:
            return 0.0
        size = 2 * self._tokens(layout) * self._model.hidden
        ring = self._ring(layout.tensor, self._machine.link_gpus, size)
        return 2 * ring + COLLECTIVE_S

    def _context(self, layout: Layout, attention: float) -> float:
        """Return what the ring of keys and values takes beyond the attention that hides it."""
        if layout.context == 1:
            return 0.0
        model = self._model
        width = model.kv_heads * model.head_width
        if model.latent is not None:
            width = model.heads * model.latent.query_width
        hop = 4 * self._tokens(layout) * width / layout.tensor
        spans = layout.tensor * layout.context <= self._machine.link_gpus
        rate = self._machine.link_bytes_per_s if spans else self._machine.network_bytes_per_s
        transfer = 3 * (layout.context - 1) * hop / rate
        return max(0.0, transfer - (1 + ATTENTION_BACKWARD) * attention)

    def _expert_level(self, layout: Layout) -> bool:
        """Return whether the ranks that share experts are within a node."""
        return layout.expert_split <= self._machine.link_gpus

    def _expert(self, layout: Layout) -> float:
        """Return the time of four all-to-alls: dispatch and combine, forward and backward."""
        moe = self._model.experts
        if moe is None or layout.expert == 1:
            return 0.0
        size = moe.top_k * self._tokens(layout) / layout.tensor * self._model.hidden * 2
        size *= (layout.expert - 1) / layout.expert
        if self._expert_level(layout):
            return 4 * (size / self._machine.link_bytes_per_s + COLLECTIVE_S)
        inside = max(1, self._machine.link_gpus * layout.expert // layout.expert_split)
        away = size * (layout.expert - inside) / max(1, layout.expert - 1)
        return 4 * (away / self._machine.network_bytes_per_s + COLLECTIVE_S)

    def _sends(self, layout: Layout, framework: Framework) -> float:
        """Return what a micro-batch's sends between stages take, forward and backward.

        DeepSpeed's ranks send the whole each; Megatron-LM's share it (scatter/gather, §4.1).
        """
        if layout.pipeline == 1:
            return 0.0
        size = 2 * self._tokens(layout) * self._model.hidden
        if framework is not Framework.DEEPSPEED:
            size /= layout.tensor
        return 2 * layout.virtual * (size / self._machine.network_bytes_per_s + COLLECTIVE_S)

    def _local_parameters(self, layout: Layout) -> float:
        dense, routed = self._parameters
        return (dense / layout.tensor + routed / layout.expert_split) / layout.pipeline

    def _ranks_per_node(self, layout: Layout) -> int:
        return max(1, self._machine.link_gpus // layout.tensor)

    def _data(self, layout: Layout, framework: Framework, passes: tuple[float, float]) -> float:
        """Return what the exchange of gradients and weights takes once a step, beyond overlap."""
        ranks = layout.data * layout.context
        if ranks == 1:
            return 0.0
        forward, backward = passes
        dense, routed = self._parameters
        counts = (
            dense / layout.tensor / layout.pipeline,
            routed / layout.expert_split / layout.pipeline,
        )
        grads = float(self._training.gradient_bytes)
        gather = self._exchange(layout, counts, 2 if layout.zero else grads)
        if framework is Framework.DEEPSPEED and layout.zero:
            grads *= 2  # an all-reduce, where Megatron-LM scatters
        scatter = self._exchange(layout, counts, grads)
        if self._training.overlaps(layout):
            scatter = max(0.0, scatter - self._constants.overlap * backward)
            gather = max(0.0, gather - self._constants.overlap * forward)
        return scatter + gather

    def _gathered(self, layout: Layout, layer: _Layer, layers: float) -> float:
        """Return what gathering sharded weights takes beyond the computing that hides it."""
        once = self._exchange(layout, self._held(layout), 2) / layers
        backward = layer.backward + layer.recompute
        again = 2 * once if layout.zero >= Zero.WEIGHTS else once
        return layers * (max(0.0, once - layer.forward) + max(0.0, again - backward))

    def hidden_s(self, layout: Layout) -> float:
        """Return how long sharded weights move behind computing in a step (ZeRO 2 and 3)."""
        if layout.zero < Zero.GRADIENTS:
            return 0.0
        times = 3 if layout.zero >= Zero.WEIGHTS else 2
        number = layout.micro_batches(self._training)
        moved = number * times * self._exchange(layout, self._held(layout), 2)
        return max(0.0, moved - self.time(layout).of("shards") / self._machine.step_scale)

    def _held(self, layout: Layout) -> tuple[float, float]:
        """Return the parameters that a rank computes with: all but experts, and experts."""
        routed = routed_parameters(self._model)
        dense = parameters(self._model) - routed
        return (
            dense / layout.tensor / layout.pipeline,
            routed / layout.expert_split / layout.pipeline,
        )

    def _exchange(self, layout: Layout, counts: tuple[float, float], each: float) -> float:
        """Return the time to gather or scatter parameters of `each` bytes among their ranks.

        Experts are shared by the ranks that have the same ones, which lie on more nodes.
        """
        dense, routed = counts
        ranks = (
            layout.shard_ranks if layout.zero >= Zero.GRADIENTS else layout.data * layout.context
        )
        time = self._ring(ranks, self._ranks_per_node(layout), dense * each)
        if routed:
            per_node = max(1, self._machine.link_gpus // layout.expert_split)
            time += self._ring(layout.expert_shard_ranks, per_node, routed * each)
        return time

    def _replicas(self, layout: Layout) -> float:
        """Return the all-reduce between replicas of a sharded group (HSDP)."""
        replicas = layout.data * layout.context // layout.shard_ranks
        local = self._local_parameters(layout)
        return 2 * self._ring(replicas, 1, 2 * local / layout.shard_ranks) if replicas > 1 else 0.0

    # --- The rest of a step.

    def _head(self, layout: Layout) -> float:
        model, tokens = self._model, self._tokens(layout)
        vocab = padded_vocab(model, layout.tensor) / layout.tensor
        return 6 * tokens * model.hidden * vocab / self._matmul + (
            tokens * vocab * LOGIT_BYTES / self._memory
        )

    def _accumulate(self, local: float, is_apart: bool) -> float:
        return ACCUMULATE_BYTES * local / self._memory if is_apart else 0.0


def _mixed(dense: _Layer, sparse: _Layer | None, sparse_frac: float) -> _Layer:
    """Return the mean layer of a model that has some with experts."""
    if sparse is None:
        return dense
    names = ("forward", "backward", "recompute", "tensor", "tensor_again", "context", "expert")
    return _Layer(
        *(
            (1 - sparse_frac) * getattr(dense, name) + sparse_frac * getattr(sparse, name)
            for name in names
        )
    )


def step_time(
    model: ModelShape,
    training: Training,
    layout: Layout,
    machine: Machine,
    constants: Constants = FROZEN,
) -> StepTime:
    """Return the time of a step of one layout."""
    return Clock(model, training, machine, constants).time(layout)
