"""Models that are known by name: the keys of their published config.json that decide their shape.

Sources: huggingface.co/<publisher>/<model>/config.json; GPT-3: arXiv:2005.14165, table 2.1.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

from hpckit.core.errors import ConfigError
from hpckit.planner.config_json import shape_of
from hpckit.planner.model import ModelShape


def _decoder(  # noqa: PLR0917  the six numbers of a Llama, in the order of its papers
    kind: str, layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, vocab: int,
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        **more,
    }


CONFIGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "Llama-2-7B": _decoder("llama", 32, 4096, 32, 32, 11008, 32000),
    "Llama-2-13B": _decoder("llama", 40, 5120, 40, 40, 13824, 32000),
    "Llama-2-70B": _decoder("llama", 80, 8192, 64, 8, 28672, 32000),
    "Llama-3-8B": _decoder("llama", 32, 4096, 32, 8, 14336, 128256),
    "Llama-3-70B": _decoder("llama", 80, 8192, 64, 8, 28672, 128256),
    "Llama-3-405B": _decoder("llama", 126, 16384, 128, 8, 53248, 128256),
    "Llama-3.2-1B": _decoder(
        "llama", 16, 2048, 32, 8, 8192, 128256, head_dim=64, tie_word_embeddings=True
    ),
    "Llama-3.2-3B": _decoder(
        "llama", 28, 3072, 24, 8, 8192, 128256, head_dim=128, tie_word_embeddings=True
    ),
    "Mistral-7B": _decoder("mistral", 32, 4096, 32, 8, 14336, 32768),
    "Mixtral-8x7B": _decoder(
        "mixtral", 32, 4096, 32, 8, 14336, 32000, num_local_experts=8, num_experts_per_tok=2
    ),
    "Mixtral-8x22B": _decoder(
        "mixtral", 56, 6144, 48, 8, 16384, 32768, num_local_experts=8, num_experts_per_tok=2
    ),
    "Qwen2.5-7B": _decoder("qwen2", 28, 3584, 28, 4, 18944, 152064),
    "Qwen2.5-32B": _decoder("qwen2", 64, 5120, 40, 8, 27648, 152064),
    "Qwen2.5-72B": _decoder("qwen2", 80, 8192, 64, 8, 29568, 152064),
    "Qwen3-8B": _decoder("qwen3", 36, 4096, 32, 8, 12288, 151936, head_dim=128),
    "Qwen3-32B": _decoder("qwen3", 64, 5120, 64, 8, 25600, 151936, head_dim=128),
    "Qwen3-30B-A3B": _decoder(
        "qwen3_moe", 48, 2048, 32, 4, 6144, 151936, head_dim=128, num_experts=128,
        num_experts_per_tok=8, moe_intermediate_size=768,
    ),
    "Qwen3-235B-A22B": _decoder(
        "qwen3_moe", 94, 4096, 64, 4, 12288, 151936, head_dim=128, num_experts=128,
        num_experts_per_tok=8, moe_intermediate_size=1536,
    ),
    "DeepSeek-V3": _decoder(
        "deepseek_v3", 61, 7168, 128, 128, 18432, 129280, q_lora_rank=1536, kv_lora_rank=512,
        qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=256,
        num_experts_per_tok=8, n_shared_experts=1, moe_intermediate_size=2048,
        first_k_dense_replace=3,
    ),
    "Moonlight-16B-A3B": _decoder(
        "deepseek_v3", 27, 2048, 16, 16, 11264, 163840, kv_lora_rank=512, qk_nope_head_dim=128,
        qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=64, num_experts_per_tok=6,
        n_shared_experts=2, moe_intermediate_size=1408, first_k_dense_replace=1,
    ),
    "gpt-oss-120b": _decoder(
        "gpt_oss", 36, 2880, 64, 8, 2880, 201088, head_dim=64, num_local_experts=128,
        num_experts_per_tok=4,
    ),
    "GPT-2-XL": _decoder("gpt2", 48, 1600, 25, 25, 6400, 50257, n_positions=1024),
    "GPT-3-175B": _decoder("gpt2", 96, 12288, 96, 96, 49152, 50257, n_positions=2048),
    "OPT-175B": _decoder(
        "opt", 96, 12288, 96, 96, 49152, 50272, max_position_embeddings=2048
    ),
    "BLOOM-176B": _decoder("bloom", 70, 14336, 112, 112, 57344, 250880),
}  # fmt: skip


def _folded(name: str) -> str:
    """Return a name as people vary it: `meta-llama/Llama-3.1-70B` and `llama3-70b` are the same."""
    name = name.lower().rpartition("/")[2].replace("llama-3.1", "llama-3").removeprefix("meta-")
    name = re.sub(r"-(instruct|chat|base|hf|it|v0\.[0-9])(?=-|$)", "", name)
    return "".join(char for char in name if char.isalnum())


def known_model(name: str) -> ModelShape | None:
    """Return the shape of a model of the catalogue, None for a name that is not in it."""
    for own, tree in CONFIGS.items():
        if _folded(own) == _folded(name):
            return shape_of({**tree, "_name_or_path": own}, own)
    return None


def model_named(name: str) -> ModelShape:
    """Return the shape of a model of the catalogue. Raises ConfigError with the nearest names."""
    found = known_model(name)
    if found is not None:
        return found
    near = difflib.get_close_matches(_folded(name), [_folded(own) for own in CONFIGS], n=3)
    names = [own for own in CONFIGS if _folded(own) in near] or list(CONFIGS)[3:6]
    raise ConfigError(
        f"no such file or built-in model: {name!r}",
        hint=f"give its config.json, a name such as {', '.join(names)}, or --params N",
    )
