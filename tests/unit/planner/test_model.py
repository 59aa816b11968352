"""A model's parameters, to the parameter."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import ConfigError
from hpckit.planner.catalogue import CONFIGS, known_model, model_named
from hpckit.planner.config_json import read_config, shape_of
from hpckit.planner.model import ModelShape, active_parameters, parameters, step_flops
from tests.bench.plan import PARAMETERS

RECORD = Path(__file__).parents[2] / "records/transformers-5.24/configs/output.json"
"""Made by us: each class of transformers 5.24.0 built on torch's meta device, its default
configuration and the sum over its parameters."""
FAMILIES = json.loads(RECORD.read_text())
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 11008,
    "vocab_size": 32000,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_named_models_have_what_their_weights_hold(name: str) -> None:
    """The nine models whose published weights were counted."""
    assert parameters(model_named(name)) == PARAMETERS[name]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_counts_as_its_own_code_does(family: str) -> None:
    """The modules of transformers hold as many parameters as its config.json says here."""
    row = FAMILIES[family]
    model = shape_of(row["config"], family)
    assert parameters(model) == row["parameters"]
    assert not model.notes or "MTP" in model.notes[0]


def test_a_token_passes_the_chosen_experts_alone() -> None:
    """Mixtral 8x7B has 12.9 billion active parameters, Qwen3-30B-A3B 3.3 (their model cards)."""
    assert round(active_parameters(model_named("Mixtral-8x7B")) / 1e9, 1) == 12.9
    assert round(active_parameters(model_named("Qwen3-30B-A3B")) / 1e9, 1) == 3.4
    assert round(active_parameters(model_named("DeepSeek-V3")) / 1e9) == 38
    assert active_parameters(model_named("Llama-3-8B")) == parameters(model_named("Llama-3-8B"))


def test_flops_are_those_of_the_papers() -> None:
    """72BsLh²(1 + s/6h + V/12Lh) of a GPT; half of attention is what a causal mask leaves."""
    model = ModelShape(
        name="gpt", hidden=12288, layers=96, heads=96, kv_heads=96, head_width=128, ffn=49152,
        vocab=51200, gated=False,
    )  # fmt: skip
    h, layers, s, vocab, batch = 12288, 96, 2048, 51200, 64
    paper = 72 * batch * s * layers * h**2 * (1 + s / (6 * h) + vocab / (12 * layers * h))
    assert step_flops(model, seq=s, sequences=batch) == pytest.approx(paper)
    causal = 72 * batch * s * layers * h**2 * (1 + s / (12 * h) + vocab / (12 * layers * h))
    assert step_flops(model, seq=s, sequences=batch, attention_frac=0.5) == pytest.approx(causal)


def test_a_nested_config_is_that_of_the_language_model() -> None:
    """Of a multimodal model the text_config counts, and that is said."""
    model = read_config(json.dumps({"model_type": "llava", "text_config": LLAMA}), "c.json")
    assert parameters(model) == PARAMETERS["Llama-2-7B"]
    assert any("only the language model" in note for note in model.notes)


def test_an_unknown_family_is_read_and_said() -> None:
    """The shape counts; that its details are unknown is a note."""
    model = shape_of({**LLAMA, "model_type": "brandnew"}, "c.json")
    assert parameters(model) == PARAMETERS["Llama-2-7B"]
    assert "brandnew is unknown" in model.notes[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_attention_heads": None}, "num_attention_heads: missing"),
        ({"num_attention_heads": 30}, "expected a divisor of hidden_size 4096 (such as 16)"),
        ({"num_key_value_heads": 5}, "expected a divisor of the 32 attention heads"),
        ({"vocab_size": "many"}, "expected a whole number"),
        ({"hidden_size": None, "hiddensize": 4096}, "the file has 'hiddensize'"),
        ({"mamba_d_state": 16}, "a hybrid with state space layers"),
        ({"is_encoder_decoder": True}, "an encoder-decoder model"),
        ({"model_type": "new", "my_num_experts": 8}, "unknown keys describe the experts"),
        ({"num_experts": 4, "num_experts_per_tok": 8}, "at most the 4 experts"),
    ],
)
def test_what_is_no_decoder_is_refused_by_its_key(change: dict[str, object], words: str) -> None:
    """Each says which key, what was got and what was expected."""
    with pytest.raises(ConfigError) as error:
        shape_of({**LLAMA, **change}, "c.json")
    assert words in str(error.value)


def test_text_that_is_no_object_is_refused() -> None:
    """No JSON, and JSON of another kind."""
    for text in ("{", "[]", "[" * 100_000):
        with pytest.raises(ConfigError, match=r"c\.json: "):
            read_config(text, "c.json")


def test_a_name_is_found_as_people_write_it() -> None:
    """With its publisher, in small letters, as a 3.1 of the same shape; a wrong one has hints."""
    assert known_model("meta-llama/Llama-3.1-70B") == known_model("llama3-70b")
    assert known_model("Llama-3-71B") is None
    with pytest.raises(ConfigError, match="a name such as"):
        model_named("Llama-3-71B")
    assert all(model_named(name).name == name for name in CONFIGS)


def test_fewer_layers_are_fewer_parameters() -> None:
    """A shortened model, as benchmarks run it."""
    model = model_named("Llama-3-70B")
    assert parameters(replace(model, layers=12)) == parameters(model) - 68 * 855_654_400
