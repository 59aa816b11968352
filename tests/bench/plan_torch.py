"""Counts of `hpckit plan` beside PyTorch's own: parameters on the meta device, bytes on the CPU.

Needs torch and transformers, which hpckit does not. Every family that hpckit reads is built from
its class's default configuration without memory; a small Llama then takes a step of AdamW on the
CPU, and the bytes of its weights, gradients and states are counted. Exits 1 where a count differs.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

from hpckit.core.errors import ConfigError
from hpckit.planner.config_json import FAMILIES, shape_of
from hpckit.planner.layout import Layout, Training
from hpckit.planner.memory import memory
from hpckit.planner.model import parameters

SMALL = {
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 688,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
}


def on_meta(torch: Any, transformers: Any) -> bool:
    """Print the families whose count differs; return whether none does."""
    equal = differing = 0
    for family in FAMILIES:
        try:
            config = transformers.CONFIG_MAPPING[family]()
            with torch.device("meta"):
                built = transformers.AutoModelForCausalLM.from_config(config)
            tree = {**json.loads(config.to_json_string(use_diff=False)), "model_type": family}
            counted = parameters(shape_of(tree, family))
        except (KeyError, TypeError, ValueError, ConfigError) as error:
            print(f"  {family}: its default configuration builds none ({str(error)[:60]})")
            continue
        published = sum(one.numel() for one in built.parameters())
        equal += counted == published
        if counted != published:
            differing += 1
            print(f"  {family}: {counted} here, {published} by its own code")
    print(f"meta device: {equal} families equal, {differing} differ")
    return not differing


def on_cpu(torch: Any, transformers: Any) -> bool:
    """Print the bytes of a real model after a step of AdamW; return whether they are as planned."""
    built = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL))
    optimizer = torch.optim.AdamW(built.parameters())
    tokens = torch.randint(0, SMALL["vocab_size"], (1, 16))
    built(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    weights = sum(one.numel() * one.element_size() for one in built.parameters())
    grads = sum(one.grad.numel() * one.grad.element_size() for one in built.parameters())
    moments = sum(
        one.numel() * one.element_size()
        for state in optimizer.state.values()
        for name, one in state.items()
        if name != "step"
    )
    model = shape_of({**SMALL, "model_type": "llama"}, "small")
    # fp32 parameters, gradients and two moments are what a single rank of FSDP holds.
    found = memory(model, Training(seq=16, global_batch=1), Layout(zero=3))
    planned = {term.name: round(term.bytes_) for term in found.terms}
    measured = {"weights": weights, "gradients": grads, "optimizer": moments}
    for name, size in measured.items():
        print(f"CPU: {name} {size} bytes, planned {planned[name]}")
    return all(planned[name] == size for name, size in measured.items())


def main() -> int:
    """Compare both; return 1 where a count differs, 2 without torch."""
    try:
        torch, transformers = map(importlib.import_module, ("torch", "transformers"))
    except ImportError as error:
        print(f"{error}: pip install torch transformers", file=sys.stderr)
        return 2
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    is_equal = on_meta(torch, transformers)
    return int(not (on_cpu(torch, transformers) and is_equal))


if __name__ == "__main__":
    sys.exit(main())
