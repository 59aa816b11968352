"""A transformer's shape, its parameters and what they are made of.

Counts are those of the published implementations, to the parameter: the sum over a model's weights
as Hugging Face's `transformers` makes them. Sources of the formulae: Narayanan et al. 2021
(arXiv:2104.04473, eq. 2), DeepSeek-V2 (arXiv:2405.04434, §2.1, multi-head latent attention).
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from hpckit.core.values import dataclass

PADDED_TO: Final = 128
"""Megatron-LM pads the vocabulary to a multiple of this times the tensor degree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention: the ranks of the compressed queries, keys and values.

    `query_rank` is None where queries are not compressed. Widths are per head.
    """

    query_rank: int | None
    kv_rank: int
    plain_width: int
    rotary_width: int
    value_width: int

    @property
    def query_width(self) -> int:
        """Return the width of a head's query and key."""
        return self.plain_width + self.rotary_width


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts: `count` of them, `top_k` for each token, each `ffn` wide.

    `shared_ffn` is the whole width of the experts that every token passes. Layers before
    `dense_layers`, and those whose number plus one is no multiple of `every`, have a dense MLP.
    """

    count: int
    top_k: int
    ffn: int
    shared_ffn: int = 0
    shared_gate: bool = False
    router_bias: bool = False
    dense_layers: int = 0
    every: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What differs between families of one architecture, each worth a few thousand parameters.

    `norm_width` is the vectors of one norm (RMSNorm 1, LayerNorm 2, without weights 0);
    `query_key_norms` the parameters of both norms of a layer's attention.
    """

    norm_width: int = 1
    norms_per_layer: int = 2
    query_key_norms: int = 0
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    positions: int = 0
    embedding_norm: bool = False
    final_norm: bool = True
    sinks: bool = False
    embedding_width: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder of `layers` layers; widths in elements, `ffn` that of a dense MLP.

    `notes` say what of the model is not in these numbers.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    ffn: int
    vocab: int
    gated: bool = True
    tied: bool = False
    experts: Experts | None = None
    latent: LatentAttention | None = None
    details: Details = field(default_factory=Details)
    notes: tuple[str, ...] = ()

    @property
    def query_width(self) -> int:
        """Return the width of all queries together."""
        width = self.latent.query_width if self.latent else self.head_width
        return self.heads * width

    @property
    def value_width(self) -> int:
        """Return the width of what attention gives to its output projection."""
        return self.heads * (self.latent.value_width if self.latent else self.head_width)

    @property
    def mlp_matrices(self) -> int:
        """Return the matrices of an MLP: three where it is gated, else two."""
        return 3 if self.gated else 2

    def is_sparse(self, layer: int) -> bool:
        """Return whether a layer (from 0) has experts."""
        moe = self.experts
        return moe is not None and layer >= moe.dense_layers and (layer + 1) % moe.every == 0

    @property
    def sparse_layers(self) -> int:
        """Return how many layers have experts."""
        return sum(self.is_sparse(layer) for layer in range(self.layers))


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerParameters:
    """The parameters of a layer by how tensor parallelism treats them.

    `split` are divided by the tensor degree, `whole` are on each of its ranks (norms, the router,
    biases of outputs, latent projections), `routed` are those of the experts that are chosen from.
    """

    split: int
    whole: int
    routed: int = 0

    @property
    def total(self) -> int:
        """Return all of them."""
        return self.split + self.whole + self.routed


def layer_parameters(model: ModelShape, *, sparse: bool = False) -> LayerParameters:
    """Return the parameters of one layer, with experts or with a dense MLP."""
    details, hidden = model.details, model.hidden
    split, whole = _attention(model)
    whole += details.norms_per_layer * details.norm_width * hidden + details.query_key_norms
    moe = model.experts
    if not sparse or moe is None:
        more_split, more_whole = _mlp(model, model.ffn)
        return LayerParameters(split=split + more_split, whole=whole + more_whole)
    shared_split, shared_whole = _mlp(model, moe.shared_ffn) if moe.shared_ffn else (0, 0)
    router = moe.count * hidden + (hidden if moe.shared_gate else 0)
    router += moe.count if moe.router_bias else 0
    return LayerParameters(
        split=split + shared_split,
        whole=whole + shared_whole + router,
        routed=moe.count * sum(_mlp(model, moe.ffn)),
    )


def _attention(model: ModelShape) -> tuple[int, int]:
    """Return the parameters of attention that a tensor degree divides, and those it does not."""
    if model.latent is not None:
        return _latent_attention(model, model.latent)
    hidden, details = model.hidden, model.details
    kv_width = model.kv_heads * model.head_width
    split = hidden * (2 * model.query_width + 2 * kv_width)
    split += (model.query_width + 2 * kv_width) if details.qkv_bias else 0
    split += model.heads if details.sinks else 0
    return split, hidden if details.out_bias else 0


def _latent_attention(model: ModelShape, latent: LatentAttention) -> tuple[int, int]:
    hidden, heads = model.hidden, model.heads
    bias = model.details.qkv_bias
    split = latent.kv_rank * heads * (latent.plain_width + latent.value_width)
    split += heads * latent.value_width * hidden
    whole = hidden * (latent.kv_rank + latent.rotary_width) + latent.kv_rank
    whole += (latent.kv_rank + latent.rotary_width) if bias else 0
    whole += hidden if model.details.out_bias else 0
    if latent.query_rank is None:
        return split + hidden * heads * latent.query_width, whole
    whole += hidden * latent.query_rank + latent.query_rank + (latent.query_rank if bias else 0)
    return split + latent.query_rank * heads * latent.query_width, whole


def _mlp(model: ModelShape, ffn: int) -> tuple[int, int]:
    split = model.mlp_matrices * model.hidden * ffn
    if not model.details.mlp_bias:
        return split, 0
    return split + (model.mlp_matrices - 1) * ffn, model.hidden


def embedding_parameters(model: ModelShape) -> LayerParameters:
    """Return the parameters before the first layer: embedding, positions, their norm."""
    details = model.details
    width = details.embedding_width or model.hidden
    whole = details.positions * model.hidden
    whole += details.norm_width * model.hidden if details.embedding_norm else 0
    whole += 2 * width * model.hidden if width != model.hidden else 0
    return LayerParameters(split=model.vocab * width, whole=whole)


def head_parameters(model: ModelShape) -> LayerParameters:
    """Return the parameters after the last layer: the norm, and the head where it is its own."""
    details = model.details
    split = 0 if model.tied else model.vocab * (details.embedding_width or model.hidden)
    split += model.vocab if details.head_bias else 0
    whole = details.norm_width * model.hidden if details.final_norm else 0
    return LayerParameters(split=split, whole=whole)


def parameters(model: ModelShape) -> int:
    """Return the number of a model's parameters."""
    sparse = model.sparse_layers
    layers = (model.layers - sparse) * layer_parameters(model).total
    if sparse:
        layers += sparse * layer_parameters(model, sparse=True).total
    return layers + embedding_parameters(model).total + head_parameters(model).total


def routed_parameters(model: ModelShape) -> int:
    """Return the parameters of the experts that are chosen from, of all layers."""
    sparse = model.sparse_layers
    return sparse * layer_parameters(model, sparse=True).routed if sparse else 0


def active_parameters(model: ModelShape) -> int:
    """Return the parameters that one token passes: all but the experts not chosen for it."""
    moe = model.experts
    if moe is None:
        return parameters(model)
    idle = (moe.count - moe.top_k) * (sum(_mlp(model, moe.ffn)))
    return parameters(model) - model.sparse_layers * idle


def step_flops(
    model: ModelShape, *, seq: int, sequences: int, attention_frac: float = 1.0
) -> float:
    """Return the FLOPs that the mathematics of one step needs, forward and backward.

    `sequences` of `seq` tokens; `attention_frac` is 1 where attention is counted in full (PaLM,
    arXiv:2204.02311, app. B) and 0.5 where causal attention counts half (Megatron-LM since 2024).
    Recomputed work is not in it. Matrices count 6 FLOPs a parameter and token, lookups none.
    """
    tokens = float(seq * sequences)
    matrices = model.layers * _matrix_parameters(model) + _sparse_difference(model)
    head = model.vocab * (model.details.embedding_width or model.hidden)
    scores = model.layers * seq * (model.query_width + model.value_width) * attention_frac
    return 6.0 * tokens * (matrices + head + scores)


def _matrix_parameters(model: ModelShape) -> int:
    """Return the weights of a dense layer's matrices, without norms and biases."""
    return _attention_matrices(model) + model.mlp_matrices * model.hidden * model.ffn


def _attention_matrices(model: ModelShape) -> int:
    if model.latent is None:
        kv_width = model.kv_heads * model.head_width
        return model.hidden * (2 * model.query_width + 2 * kv_width)
    split, whole = _latent_attention(model, model.latent)
    norms = model.latent.kv_rank + (model.latent.query_rank or 0)
    return split + whole - norms


def _sparse_difference(model: ModelShape) -> int:
    """Return what layers with experts pass more than dense ones, all layers together."""
    moe = model.experts
    if moe is None:
        return 0
    active = model.mlp_matrices * model.hidden * (moe.top_k * moe.ffn + moe.shared_ffn)
    active += moe.count * model.hidden
    return model.sparse_layers * (active - model.mlp_matrices * model.hidden * model.ffn)
