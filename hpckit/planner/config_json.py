"""A Hugging Face `config.json` becomes a model's shape; nothing is fetched, no weights are read.

Each family's row says what its files leave out because its code decides it (transformers,
`models/*/configuration_*.py` and `modeling_*.py`).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, Final

from hpckit.core.errors import ConfigError
from hpckit.core.text import visible
from hpckit.core.values import dataclass
from hpckit.planner.model import Details, Experts, LatentAttention, ModelShape

_MOST: Final = 10**9
_MOST_LAYERS: Final = 10_000
"""Of layers and experts, and of any other number; more is a slip."""

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv"),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "head_width": ("head_dim",),
    "experts": ("num_local_experts", "n_routed_experts", "num_experts"),
    "top_k": ("num_experts_per_tok", "num_experts_per_token", "moe_topk"),
    "positions": ("n_positions", "max_position_embeddings"),
}
"""What is needed → the keys under which families keep it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What the code of a family (its `model_type`) decides.

    A bias is True, False, or the key that says so; `ffn_times` is the MLP's width in hidden
    widths where no key gives it; `query_key_norm` is "head" for a norm of one head's width and
    "whole" for one over all heads.
    """

    layer_norm: bool = False
    norm_width: int | None = None
    norms_per_layer: int = 2
    gated: bool = True
    tied: bool = False
    qkv_bias: bool | str = False
    out_bias: bool | str = False
    mlp_bias: bool | str = False
    head_bias: bool = False
    positions: bool = False
    more_positions: int = 0
    embedding_norm: bool = False
    query_key_norm: str | None = None
    query_key_norm_key: str | None = None
    ffn_times: int | None = None
    shared_gate: bool = False
    router_bias: bool = False
    sinks: bool = False


_GPT: Final = Family(
    layer_norm=True, gated=False, tied=True, qkv_bias=True, out_bias=True, mlp_bias=True,
    ffn_times=4,
)  # fmt: skip
_LLAMA: Final = Family(
    qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias"
)  # fmt: skip
_QWEN3: Final = Family(qkv_bias="attention_bias", out_bias="attention_bias", query_key_norm="head")

FAMILIES: Final[Mapping[str, Family]] = {
    "llama": _LLAMA,
    "mistral": Family(),
    "ministral": Family(),
    "mixtral": Family(),
    "qwen2": Family(qkv_bias=True),
    "qwen2_moe": Family(qkv_bias=True, shared_gate=True),
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "gemma": Family(tied=True),
    "gemma2": Family(tied=True, norms_per_layer=4),
    "gemma3_text": Family(tied=True, norms_per_layer=4, query_key_norm="head"),
    "phi": Family(
        layer_norm=True, norms_per_layer=1, gated=False, qkv_bias=True, out_bias=True,
        mlp_bias=True, head_bias=True,
    ),
    "phi3": Family(),
    "gpt2": Family(
        layer_norm=True, gated=False, tied=True, qkv_bias=True, out_bias=True, mlp_bias=True,
        ffn_times=4, positions=True,
    ),
    "gpt_bigcode": Family(
        layer_norm=True, gated=False, tied=True, qkv_bias=True, out_bias=True, mlp_bias=True,
        ffn_times=4, positions=True,
    ),
    "gpt_neo": Family(
        layer_norm=True, gated=False, tied=True, out_bias=True, mlp_bias=True, ffn_times=4,
        positions=True,
    ),
    "gpt_neox": Family(
        layer_norm=True, gated=False, qkv_bias=True, out_bias=True, mlp_bias=True,
    ),
    "gptj": Family(
        layer_norm=True, norms_per_layer=1, gated=False, mlp_bias=True, head_bias=True,
        ffn_times=4,
    ),
    "opt": Family(
        layer_norm=True, gated=False, tied=True, qkv_bias=True, out_bias=True, mlp_bias=True,
        positions=True, more_positions=2,
    ),
    "bloom": Family(
        layer_norm=True, gated=False, tied=True, qkv_bias=True, out_bias=True, mlp_bias=True,
        ffn_times=4, embedding_norm=True,
    ),
    "falcon": Family(
        layer_norm=True, norms_per_layer=1, gated=False, tied=True, qkv_bias="bias",
        out_bias="bias", mlp_bias="bias", ffn_times=4,
    ),
    "mpt": Family(norm_width=1, gated=False, tied=True, ffn_times=4),
    "starcoder2": Family(
        layer_norm=True, gated=False, tied=True, qkv_bias="use_bias", out_bias="use_bias",
        mlp_bias="use_bias",
    ),
    "stablelm": Family(layer_norm=True, qkv_bias="use_qkv_bias"),
    "cohere": Family(
        norms_per_layer=1, tied=True, qkv_bias="attention_bias", out_bias="attention_bias",
    ),
    "cohere2": Family(
        norms_per_layer=1, tied=True, qkv_bias="attention_bias", out_bias="attention_bias",
    ),
    "olmo": Family(norm_width=0, qkv_bias="attention_bias", out_bias="attention_bias"),
    "olmo2": Family(
        qkv_bias="attention_bias", out_bias="attention_bias", query_key_norm="whole"
    ),
    "olmoe": Family(
        qkv_bias="attention_bias", out_bias="attention_bias", query_key_norm="whole"
    ),
    "granite": _LLAMA,
    "granitemoe": Family(),
    "llama4_text": _LLAMA,
    "smollm3": _LLAMA,
    "deepseek_v2": Family(qkv_bias="attention_bias", out_bias="attention_bias"),
    "deepseek_v3": Family(qkv_bias="attention_bias", out_bias="attention_bias"),
    "kimi_k2": Family(qkv_bias="attention_bias", out_bias="attention_bias"),
    "glm4": Family(norms_per_layer=4, qkv_bias="attention_bias"),
    "glm4_moe": Family(
        qkv_bias="attention_bias", query_key_norm="head", query_key_norm_key="use_qk_norm"
    ),
    "gpt_oss": Family(
        qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias=True, router_bias=True,
        sinks=True,
    ),
}  # fmt: skip

_NO_DECODER: Final = {
    "is_encoder_decoder": "an encoder-decoder model",
    "ssm_cfg": "a state space model",
    "mamba_d_state": "a hybrid with state space layers",
    "state_size": "a state space model",
    "linear_num_value_heads": "a hybrid with linear attention",
    "layers_block_type": "a hybrid of several kinds of layers",
}
"""Keys of what is no decoder of attention and MLPs → what it is."""


def read_config(text: str, source: str) -> ModelShape:
    """Return the shape of the model that a config.json describes; `source` is its file's name.

    Raises ConfigError for what is no JSON object, a key that is missing, a value that cannot be,
    and a model that is no decoder of attention and MLPs.
    """
    try:
        tree = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        hint = "give the model's config.json, or the folder that it is in"
        raise ConfigError(f"not JSON: {error}", source=source, hint=hint) from None
    return shape_of(tree, source)


def shape_of(tree: object, source: str) -> ModelShape:
    """Return the shape that a decoded config.json describes. Raises ConfigError."""
    if not isinstance(tree, dict):
        raise ConfigError("expected a JSON object, as in a config.json", source=source)
    inner = tree.get("text_config") or tree.get("llm_config") or tree.get("language_config")
    outer = tree
    if isinstance(inner, dict):
        tree = {**{k: v for k, v in tree.items() if k == "tie_word_embeddings"}, **inner}
    for key, what in _NO_DECODER.items():
        if tree.get(key) not in (None, False):
            raise ConfigError(
                f"{what}: hpckit plan reads only decoders of attention and MLPs",
                source=source,
                key=key,
                hint="--params N gives a rough answer",
            )
    kind = str(tree.get("model_type") or outer.get("model_type") or "llama")
    return _Reader(tree, source, kind, is_nested=isinstance(inner, dict)).shape()


class _Reader:
    """One config.json, with the defaults of its family."""

    def __init__(self, tree: Mapping[str, Any], source: str, kind: str, *, is_nested: bool) -> None:
        self._tree = tree
        self._is_nested = is_nested
        self._source = source
        self._kind = kind
        self._family = FAMILIES.get(kind, _LLAMA)

    def shape(self) -> ModelShape:
        hidden, heads = self._need("hidden"), self._need("heads")
        latent = self._latent()
        head_width = latent.query_width if latent else self._number("head_width")
        head_width = head_width or self._whole(hidden, heads)
        kv_heads = self._kv_heads(heads)
        if kv_heads > heads or heads % kv_heads:
            raise self._wrong("kv_heads", kv_heads, f"a divisor of the {heads} attention heads")
        tied = self._tree.get("tie_word_embeddings")
        return ModelShape(
            name=self._name(),
            hidden=hidden,
            layers=self._need("layers"),
            heads=heads,
            kv_heads=kv_heads,
            head_width=head_width,
            ffn=self._ffn(hidden),
            vocab=self._need("vocab"),
            gated=self._family.gated,
            tied=self._family.tied if tied is None else bool(tied),
            experts=self._experts(),
            latent=latent,
            details=self._details(hidden, heads, kv_heads, head_width),
            notes=self._notes(),
        )

    def _notes(self) -> tuple[str, ...]:
        notes = []
        if self._kind not in FAMILIES:
            notes.append(f"model_type {self._kind} is unknown, read as Llama (RMSNorm, gated MLP)")
        if self._number("num_nextn_predict_layers", least=0):
            notes.append("multi-token prediction layers (MTP) are not counted")
        if self._is_nested:
            notes.append("only the language model: vision and audio encoders are not counted")
        return tuple(notes)

    def _name(self) -> str:
        name = self._tree.get("_name_or_path")
        return visible(name if isinstance(name, str) and name else self._kind, 60)

    def _number(self, what: str, *, least: int = 1) -> int | None:
        """Return what is under one of the keys for `what`, None where there is none."""
        for key in KEYS.get(what, (what,)):
            value = self._tree.get(key)
            if value is None:
                continue
            if isinstance(value, list):  # a width for each layer
                if len(set(map(str, value))) != 1:
                    raise self._wrong(key, "several values", "the same in every layer")
                value = value[0]
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            most = _MOST_LAYERS if what in ("layers", "experts") else _MOST
            if not is_whole or not least <= value <= most:
                raise self._wrong(key, value, f"a whole number from {least} to {most}")
            return int(value)
        return None

    def _need(self, what: str) -> int:
        value = self._number(what)
        if value is not None:
            return value
        keys = KEYS.get(what, (what,))
        others = [key for key in self._tree if self._tree[key] is not None]
        near = difflib.get_close_matches(keys[0], others, n=1, cutoff=0.8)
        raise ConfigError(
            "missing" + (f"; the file has {near[0]!r}" if near else ""),
            source=self._source,
            key=keys[0],
            hint=f"a decoder's config.json has {' or '.join(keys)}",
        )

    def _wrong(self, what: str, got: object, expected: str) -> ConfigError:
        keys = KEYS.get(what, (what,))
        key = next((one for one in keys if one in self._tree), keys[0])
        return ConfigError(f"got {got!r}, expected {expected}", source=self._source, key=key)

    def _whole(self, hidden: int, heads: int) -> int:
        if hidden % heads:
            near = next(n for n in range(heads, 0, -1) if hidden % n == 0)
            expected = f"a divisor of hidden_size {hidden} (such as {near}), or a head_dim"
            raise self._wrong("heads", heads, expected)
        return hidden // heads

    def _kv_heads(self, heads: int) -> int:
        if self._kind in ("falcon", "gpt_bigcode"):
            if self._kind == "falcon" and self._tree.get("new_decoder_architecture"):
                return self._number("kv_heads") or heads
            return 1 if self._tree.get("multi_query", True) else heads
        nested = self._tree.get("attn_config")
        own = nested.get("kv_n_heads") if isinstance(nested, dict) else None
        if isinstance(own, int) and own > 0:
            return own
        return self._number("kv_heads") or heads

    def _ffn(self, hidden: int) -> int:
        own = self._number("intermediate_size_mlp") or self._number("ffn")
        if own is not None:
            return own
        ratio = self._number("expansion_ratio")
        if ratio is not None:
            return hidden * ratio
        if self._family.ffn_times is not None:
            return hidden * self._family.ffn_times
        moe = self._number("moe_intermediate_size")
        return moe if moe is not None else self._need("ffn")

    def _experts(self) -> Experts | None:
        count = self._number("experts", least=0)
        if not count:
            self._refuse_unknown_experts()
            return None
        ffn = self._number("moe_intermediate_size") or self._number("expert_ffn_hidden_size")
        ffn = ffn or self._need("ffn")
        top_k = self._need("top_k")
        if top_k > count:
            raise self._wrong("top_k", top_k, f"at most the {count} experts")
        shared = self._number("shared_expert_intermediate_size", least=0) or 0
        shared = shared or (self._number("n_shared_experts", least=0) or 0) * ffn
        if self._kind == "llama4_text":
            shared = ffn
        return Experts(
            count=count,
            top_k=top_k,
            ffn=ffn,
            shared_ffn=shared,
            shared_gate=self._family.shared_gate and shared > 0,
            router_bias=self._family.router_bias,
            dense_layers=self._number("first_k_dense_replace", least=0) or 0,
            every=self._number("decoder_sparse_step")
            or self._number("interleave_moe_layer_step")
            or 1,
        )

    def _refuse_unknown_experts(self) -> None:
        if self._kind in FAMILIES:
            return
        for key, value in self._tree.items():
            is_count = isinstance(value, int) and not isinstance(value, bool) and value > 1
            if "expert" in key and is_count:
                raise ConfigError(
                    f"unknown keys describe the experts of {self._kind}",
                    source=self._source,
                    key=key,
                    hint=f"use one of {', '.join(KEYS['experts'])}; or --params N",
                )

    def _latent(self) -> LatentAttention | None:
        kv_rank = self._number("kv_lora_rank", least=0)
        if not kv_rank:
            return None
        return LatentAttention(
            query_rank=self._number("q_lora_rank", least=0) or None,
            kv_rank=kv_rank,
            plain_width=self._need("qk_nope_head_dim"),
            rotary_width=self._need("qk_rope_head_dim"),
            value_width=self._need("v_head_dim"),
        )

    def _details(self, hidden: int, heads: int, kv_heads: int, width: int) -> Details:
        family = self._family
        norm_width = family.norm_width
        if norm_width is None:
            norm_width = 2 if family.layer_norm else 1
        positions = self._number("positions") if family.positions else None
        embedding = self._number("word_embed_proj_dim")
        norms = {None: 0, "head": 2 * width, "whole": (heads + kv_heads) * width}
        of_heads = norms[family.query_key_norm]
        if family.query_key_norm_key and not self._tree.get(family.query_key_norm_key):
            of_heads = 0
        return Details(
            norm_width=norm_width,
            norms_per_layer=self._norms(),
            query_key_norms=of_heads,
            qkv_bias=self._says(family.qkv_bias),
            out_bias=self._says(family.out_bias),
            mlp_bias=self._says(family.mlp_bias),
            head_bias=family.head_bias,
            positions=0 if positions is None else positions + family.more_positions,
            embedding_norm=family.embedding_norm,
            sinks=family.sinks,
            embedding_width=None if embedding in (None, hidden) else embedding,
        )

    def _norms(self) -> int:
        if self._kind != "falcon":
            return self._family.norms_per_layer
        if self._tree.get("new_decoder_architecture"):
            return self._number("num_ln_in_parallel_attn") or 2
        return 1 if self._tree.get("parallel_attn", True) else 2

    def _says(self, bias: bool | str) -> bool:
        if isinstance(bias, bool):
            return bias
        default = bias in ("use_bias",) or (self._kind == "gpt_oss")
        return bool(self._tree.get(bias, default))
