"""Memory of the fullest GPU, term by term, each with its formula and source.

Sources: Rajbhandari et al. 2019 (arXiv:1910.02054, ZeRO), Korthikanti et al. 2022
(arXiv:2205.05198, table 2 and §4.2.3), Megatron-LM `theoretical_memory_usage.py`, NVIDIA
aiconfigurator `systems/*.yaml` (what a process takes beside its tensors). The transient term and
its factor 4 were chosen on SimuMax's measured B200 runs of a shortened Llama-3-70B.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpckit.core.values import dataclass
from hpckit.planner.layout import Layout, Optimizer, Precision, Recompute, Training, Zero
from hpckit.planner.model import (
    PADDED_TO,
    ModelShape,
    embedding_parameters,
    head_parameters,
    layer_parameters,
)

STATE_BYTES: Final = {
    Optimizer.ADAM: 8,
    Optimizer.ADAM_BF16: 4,
    Optimizer.ADAM_8BIT: 2,
    Optimizer.MUON: 4,
    Optimizer.SGD: 4,
}
"""Bytes of state a trained parameter, beside the fp32 copy of it (4)."""
MASTER_BYTES: Final = 4
QUANTIZED_BYTES: Final = 0.52
"""Of a frozen parameter in NF4 with its scales (QLoRA, arXiv:2305.14314, §3)."""
CONTEXT_BYTES: Final = 1.2e9
"""What the driver and the libraries of a process take on a GPU."""
COMMUNICATOR_BYTES: Final = 0.36e9
"""NCCL's buffers of one set of communicators (aiconfigurator: 0.34 to 0.39 GB)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One part of the memory: `formula` with its numbers, `source` of the rule."""

    name: str
    bytes_: float
    formula: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The memory of a GPU of one pipeline stage; `peak_bytes` is the sum of its terms."""

    index: int
    layers: int
    terms: tuple[Term, ...]

    @property
    def peak_bytes(self) -> float:
        """Return the peak of what the framework allocates."""
        return sum(term.bytes_ for term in self.terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory of a layout: that of its fullest stage, and what lies outside of the allocator.

    `peak_bytes` is what `torch.cuda.max_memory_allocated` shows; `outside_bytes` (the driver's
    context, communicators) is what nvidia-smi shows more.
    """

    stage: Stage
    outside: tuple[Term, ...]

    @property
    def terms(self) -> tuple[Term, ...]:
        """Return the terms that add up to the peak."""
        return self.stage.terms

    @property
    def peak_bytes(self) -> float:
        """Return the peak of what the framework allocates."""
        return self.stage.peak_bytes

    @property
    def outside_bytes(self) -> float:
        """Return what the process takes beside it."""
        return sum(term.bytes_ for term in self.outside)

    @property
    def device_bytes(self) -> float:
        """Return all that the process takes of the GPU."""
        return self.peak_bytes + self.outside_bytes


def memory(model: ModelShape, training: Training, layout: Layout) -> Memory:
    """Return the memory of the fullest stage of a layout."""
    indices = sorted({0, min(1, layout.pipeline - 1), layout.pipeline - 1})
    stages = [stage_memory(model, training, layout, index) for index in indices]
    return Memory(
        stage=max(stages, key=lambda stage: stage.peak_bytes), outside=tuple(_outside(layout))
    )


def stage_layers(model: ModelShape, layout: Layout, index: int) -> tuple[int, ...]:
    """Return the layers of a pipeline stage, by number.

    Even where the stages divide them; else embedding and head count as a layer each where that
    divides (BLOOM: 70 layers on 12 stages); else the first stages have one more.
    """
    chunks = layout.pipeline * layout.virtual
    if model.layers % chunks and (model.layers + 2) % chunks == 0:
        size = (model.layers + 2) // chunks
        bounds = [max(0, min(model.layers, n * size - 1)) for n in range(chunks + 1)]
        bounds[-1] = model.layers
    else:
        size, more = divmod(model.layers, chunks)
        bounds = [n * size + min(n, more) for n in range(chunks + 1)]
    own = range(index, chunks, layout.pipeline)
    return tuple(layer for n in own for layer in range(bounds[n], bounds[n + 1]))


def stage_memory(model: ModelShape, training: Training, layout: Layout, index: int) -> Stage:
    """Return the memory of a GPU of pipeline stage `index` (from 0)."""
    layers = stage_layers(model, layout, index)
    has_embedding, has_head = index == 0, index == layout.pipeline - 1
    sparse = sum(model.is_sparse(layer) for layer in layers)
    share = _share(model, layout, (len(layers) - sparse, sparse), has_embedding, has_head)
    terms = [
        *_states(model, training, layout, share),
        *_activations(model, training, layout, index, (len(layers) - sparse, sparse)),
        *_transients(model, training, layout, has_embedding=has_embedding, has_head=has_head),
    ]
    return Stage(
        index=index,
        layers=len(layers),
        terms=tuple(term for term in terms if term.bytes_ > 0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """Parameters on one GPU; experts apart, which other ranks share. `layer` is the largest."""

    dense: float
    routed: float
    layer: float


def _share(
    model: ModelShape,
    layout: Layout,
    layers: tuple[int, int],
    has_embedding: bool,
    has_head: bool,
) -> _Share:
    tensor = layout.tensor
    dense = routed = largest = 0.0
    for count, sparse in zip(layers, (False, True), strict=True):
        if count:
            layer = layer_parameters(model, sparse=sparse)
            of_layer = layer.split / tensor + layer.whole
            dense += count * of_layer
            routed += count * layer.routed / layout.expert_split
            largest = max(largest, of_layer + layer.routed / layout.expert_split)
    scale = padded_vocab(model, tensor) / model.vocab
    ends = []
    if has_embedding:
        ends.append(embedding_parameters(model))
    if has_head:
        ends.append(head_parameters(model))
        if model.tied and not has_embedding:  # the last stage has a copy of the embedding
            dense += embedding_parameters(model).split * scale / tensor
    dense += sum(end.split * scale / tensor + end.whole for end in ends)
    return _Share(dense=dense, routed=routed, layer=largest)


def padded_vocab(model: ModelShape, tensor: int) -> int:
    """Return the vocabulary as a tensor degree pads it; unpadded where there is none."""
    step = PADDED_TO * tensor
    return model.vocab if tensor == 1 else -(-model.vocab // step) * step


def _states(model: ModelShape, training: Training, layout: Layout, share: _Share) -> Iterator[Term]:
    """Yield weights, gradients and the optimizer's state."""
    if training.lora_rank is not None:
        yield from _adapter_states(model, training, layout, share)
        return
    zero, ranks, expert_ranks = layout.zero, layout.shard_ranks, layout.expert_shard_ranks

    def bytes_of(each: float, *, is_sharded: bool) -> float:
        if not is_sharded:
            return each * (share.dense + share.routed)
        return each * (share.dense / ranks + share.routed / expert_ranks)

    def formula(each: float, *, is_sharded: bool) -> str:
        count = _short(share.dense + share.routed)
        return f"{each:g} B × {count} parameters" + (
            f" / {ranks} ranks" if is_sharded and ranks > 1 else ""
        )

    rows = _state_rows(training, layout)
    for name, each, is_sharded in rows:
        yield Term(
            name=name,
            bytes_=bytes_of(each, is_sharded=is_sharded),
            formula=formula(each, is_sharded=is_sharded),
            source="ZeRO (arXiv:1910.02054) §3; Megatron-LM theoretical_memory_usage.py",
        )
    if zero >= Zero.WEIGHTS and ranks > 1:
        yield Term(
            name="gathered layers",
            bytes_=2 * 2 * share.layer,
            formula=f"2 layers × 2 B × {_short(share.layer)} parameters",
            source="torchtitan FSDP2: one in use, one prefetched",
        )


def _state_rows(training: Training, layout: Layout) -> tuple[tuple[str, float, bool], ...]:
    """Return (name, bytes a parameter, whether ranks share it) of what is kept of a parameter.

    FSDP's shards are the fp32 parameters themselves; elsewhere weights are in 16 bits, with a copy
    in fp32 beside the optimizer's states. Transformer Engine keeps an fp8 copy.
    """
    zero, states = layout.zero, STATE_BYTES[training.optimizer]
    if zero >= Zero.WEIGHTS:
        weights, gradients, master = MASTER_BYTES, MASTER_BYTES, 0
    else:
        weights = 3 if training.precision is Precision.FP8 else 2
        gradients, master = training.kept_gradient_bytes(layout), MASTER_BYTES
    return (
        ("weights", weights, zero >= Zero.WEIGHTS),
        ("gradients", gradients, zero >= Zero.GRADIENTS),
        ("optimizer", states + master, zero >= Zero.OPTIMIZER),
    )


def adapter_parameters(model: ModelShape, rank: int) -> int:
    """Return the parameters of LoRA's adapters on every matrix of attention and MLP."""
    hidden = model.hidden
    kv_width = model.kv_heads * model.head_width
    attention = 2 * (hidden + model.query_width) + 2 * (hidden + kv_width)
    mlp = model.mlp_matrices * (hidden + model.ffn)
    return model.layers * rank * (attention + mlp)


def _adapter_states(
    model: ModelShape, training: Training, layout: Layout, share: _Share
) -> Iterator[Term]:
    frozen, each = share.dense + share.routed, QUANTIZED_BYTES if training.quantized else 2
    ranks = layout.shard_ranks if layout.zero >= Zero.WEIGHTS else 1
    yield Term(
        name="weights",
        bytes_=each * frozen / ranks,
        formula=f"{each:g} B × {_short(frozen)} frozen parameters"
        + (f" / {ranks} ranks" if ranks > 1 else ""),
        source="QLoRA (arXiv:2305.14314) §3" if training.quantized else "LoRA (arXiv:2106.09685)",
    )
    trained = adapter_parameters(model, training.lora_rank or 0) / (layout.tensor * layout.pipeline)
    per = 2 + training.gradient_bytes + MASTER_BYTES + STATE_BYTES[training.optimizer]
    yield Term(
        name="adapters",
        bytes_=per * trained,
        formula=f"{per} B × {_short(trained)} parameters of rank {training.lora_rank}",
        source="LoRA (arXiv:2106.09685) §4.1: rank × (in + out) per matrix",
    )


def _activations(
    model: ModelShape,
    training: Training,
    layout: Layout,
    index: int,
    layers: tuple[int, int],
) -> Iterator[Term]:
    """Yield what the forward pass keeps for the backward pass, of all micro-batches in flight."""
    if not sum(layers):  # embedding or head alone
        return
    in_flight = micro_batches_in_flight(layout, training, index)
    kinds = [
        (count, layer_activation_bytes(model, training, layout, sparse=sparse))
        for count, sparse in zip(layers, (False, True), strict=True)
        if count
    ]
    flight = f" × {in_flight:.3g} micro-batches in flight" if in_flight != 1 else ""
    source = "Korthikanti et al. 2022, table 2 and §4.2.3"
    if layout.recompute is not Recompute.FULL:
        size = sum(count * each for count, each in kinds)
        whole = sum(layers)
        yield Term(
            name="activations",
            bytes_=size * in_flight,
            formula=f"{whole} layers × {size / whole / 1e6:.4g} MB{flight}",
            source=source,
        )
        return
    kept = _input_bytes(model, training, layout)
    yield Term(
        name="activations",
        bytes_=kept * sum(layers) * in_flight,
        formula=f"{sum(layers)} layers × {kept / 1e6:.4g} MB (their inputs){flight}",
        source=source,
    )
    yield Term(
        name="recomputed layer",
        bytes_=max(each for _, each in kinds) - kept,
        formula="what one layer keeps while its backward pass runs",
        source=source,
    )


def micro_batches_in_flight(layout: Layout, training: Training, index: int) -> float:
    """Return how many micro-batches' activations a stage holds, in units of all its layers.

    1F1B: stages − index. Interleaved: the chunks of Megatron-LM's warm-up
    (`forward_backward_pipelining_with_interleaving`), over the chunks of a micro-batch.
    """
    number = max(1, layout.micro_batches(training))
    after = layout.pipeline - index
    if layout.virtual == 1:
        return min(after, number)
    chunks = 2 * (after - 1) + (layout.virtual - 1) * layout.pipeline + 1
    return min(chunks, number * layout.virtual) / layout.virtual


def _tokens(training: Training, layout: Layout) -> float:
    """Return the tokens of a micro-batch on one rank, before tensor parallelism splits them."""
    return training.seq / layout.context * layout.micro_batch


def _input_bytes(model: ModelShape, training: Training, layout: Layout) -> float:
    split = layout.tensor if layout.sequence_parallel else 1
    return 2.0 * _tokens(training, layout) * model.hidden / split


def layer_activation_bytes(
    model: ModelShape, training: Training, layout: Layout, *, sparse: bool = False
) -> float:
    """Return what one layer keeps of one micro-batch for its backward pass, without recomputing.

    Korthikanti's count, tensor by tensor: 34·s·b·h for a GPT with dropout, and for a Llama
    (12 + 4k/a + 6f/h)·s·b·h. With tensor parallelism all is divided; without sequence parallelism
    the inputs of norms, attention and MLP are not.
    """
    hidden, tensor = model.hidden, layout.tensor
    norms = model.details.norms_per_layer
    linear = 1 if training.precision is Precision.FP8 else 2
    mask = 2 if training.has_dropout(model) else 0
    outside = 2 * hidden * norms + 2 * linear * hidden + mask * hidden
    inside = _attention_activation(model, linear)
    if not training.flash and layout.recompute is Recompute.NONE:
        inside += 5.0 * model.heads * training.seq / layout.context
    middle = 3 * 2 if model.gated else 2 * 2
    middle -= 2 - linear
    moe = model.experts
    if sparse and moe is not None:
        # Copies of each token for its experts, before and after them.
        inside += moe.top_k * (middle * moe.ffn + 2 * linear * hidden)
        inside += middle * moe.shared_ffn
    else:
        inside += middle * model.ffn
    outside_split = tensor if layout.sequence_parallel else 1
    return _tokens(training, layout) * (outside / outside_split + inside / tensor)


def _attention_activation(model: ModelShape, linear: int) -> float:
    """Return the bytes a token of queries, keys, values and the output of attention."""
    if model.latent is None:
        kv_width = model.kv_heads * model.head_width
        return 2 * model.query_width + 4 * kv_width + linear * model.value_width
    latent = model.latent
    ranks = latent.kv_rank + latent.rotary_width + (latent.query_rank or 0)
    return 2 * 2 * ranks + 4 * model.query_width + (2 + linear) * model.value_width


def _transients(
    model: ModelShape, training: Training, layout: Layout, *, has_embedding: bool, has_head: bool
) -> Iterator[Term]:
    vocab = padded_vocab(model, layout.tensor) / layout.tensor
    if (has_embedding or has_head) and training.lora_rank is None:
        yield Term(
            name="embedding gradient",
            bytes_=4.0 * vocab * model.hidden,
            formula=f"4 B × {_short(vocab)} vocabulary × {model.hidden} hidden",
            source="fitted to SimuMax's measured B200 runs",
        )
    if has_head:
        tokens = _tokens(training, layout)
        yield Term(
            name="logits",
            bytes_=4.0 * tokens * vocab,
            formula=f"4 B × {_short(tokens)} tokens × {_short(vocab)} vocabulary",
            source="fp32 logits of the loss; fitted to SimuMax's measured B200 runs",
        )


def _outside(layout: Layout) -> Iterator[Term]:
    yield Term(
        name="driver context",
        bytes_=CONTEXT_BYTES,
        formula="context and libraries of a process",
        source="1 to 2 GB; nvidia-smi of a process without tensors",
    )
    degrees = (layout.tensor, layout.context, layout.expert, layout.pipeline, layout.data)
    sets = sum(degree > 1 for degree in degrees)
    if sets:
        yield Term(
            name="communicators",
            bytes_=sets * COMMUNICATOR_BYTES,
            formula=f"{sets} sets × {COMMUNICATOR_BYTES / 1e9:g} GB",
            source="aiconfigurator systems/*.yaml (nccl_mem)",
        )


def _short(number: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.4g}{unit}"
    return f"{number:g}"
