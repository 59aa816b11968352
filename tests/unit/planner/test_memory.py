"""Memory of the fullest GPU, against measured runs and against the papers' formulae."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.planner.accelerators import accelerator_named
from hpckit.planner.catalogue import model_named
from hpckit.planner.fit import (
    Serving,
    Verdict,
    cache_bytes_per_token,
    gpus_that_hold,
    most_tokens,
    serving_terms,
    smallest_change,
    verdict,
)
from hpckit.planner.layout import Layout, Optimizer, Recompute, Training, Zero, check_layout
from hpckit.planner.memory import layer_activation_bytes, memory, stage_layers, stage_memory
from hpckit.planner.model import Details, ModelShape, parameters
from hpckit.planner.table import evaluate
from tests.bench import plan_tables
from tests.corpus import corpus_file

GIB = 2**30


def gpt(hidden: int, layers: int, heads: int) -> ModelShape:
    """A GPT as Megatron-LM's papers have it."""
    return ModelShape(
        name="gpt", hidden=hidden, layers=layers, heads=heads, kv_heads=heads,
        head_width=hidden // heads, ffn=4 * hidden, vocab=51200, gated=False, tied=True,
        details=Details(norm_width=2, qkv_bias=True, out_bias=True, mlp_bias=True),
    )  # fmt: skip


def test_measured_peaks_are_met() -> None:
    """Every one of SimuMax's measured B200 runs within 5 %, 2 % on average."""
    file = corpus_file("planning/simumax_b200_llama70b.csv")
    found = evaluate(*plan_tables.runs_of(file, plan_tables.simumax))
    assert len(found.rows) == 16
    assert found.max_abs_error_frac < 0.05
    assert found.mean_abs_error_frac < 0.02


def test_a_sparse_model_with_latent_attention_is_met() -> None:
    """Moonlight on eight H100, as Megatron-Bridge measured it, within 5 %."""
    file = corpus_file("planning/memory_measured_misc.csv")
    found = evaluate(*plan_tables.runs_of(file, plan_tables.misc_memory))
    rows = [row for row in found.rows if "Moonlight-16B none" in row.run.label]
    assert [abs(row.error_frac) < 0.05 for row in rows] == [True]


SHAPES = {"22B": (6144, 48, 64, 8, 1, 1, 4), "175B": (12288, 96, 96, 8, 8, 3, 1),
          "530B": (20480, 105, 128, 8, 35, 3, 1), "1T": (25600, 128, 160, 8, 64, 1, 1)}  # fmt: skip
"""Hidden, layers, heads, tensor, pipeline, virtual, micro-batch (Korthikanti, table 3)."""


@pytest.mark.parametrize("recompute", ["none", "seq_parallel_selective"])
def test_activations_are_korthikantis(recompute: str) -> None:
    """Figure 1 of the paper, which its table 2 computes: to the digit."""
    with corpus_file("planning/korthikanti_memory_fig1.csv").open() as opened:
        rows = [row for row in csv.DictReader(opened) if row["recompute"] == recompute]
    assert len(rows) == 4
    for row in rows:
        hidden, layers, heads, tensor, pipeline, virtual, size = SHAPES[row["model"]]
        is_none = recompute == "none"
        layout = Layout(
            tensor=tensor, micro_batch=size, sequence_parallel=not is_none,
            recompute=Recompute.NONE if is_none else Recompute.SELECTIVE,
        )  # fmt: skip
        training = Training(seq=2048, global_batch=size, flash=False)
        each = layer_activation_bytes(gpt(hidden, layers, heads), training, layout)
        in_flight = 1 + (pipeline - 1) / (pipeline * virtual) if virtual > 1 else 1
        assert each * layers * in_flight / GIB == pytest.approx(
            float(row["activations_gib"]), rel=1e-6
        )


def test_the_terms_are_the_peak() -> None:
    """Nothing is in the peak that no term says, and all are above zero."""
    training = Training(seq=4096, global_batch=256)
    found = memory(model_named("Llama-3-70B"), training, Layout(tensor=8, data=8))
    assert sum(term.bytes_ for term in found.terms) == found.peak_bytes
    assert all(term.bytes_ > 0 and term.formula and term.source for term in found.terms)
    assert found.device_bytes == found.peak_bytes + found.outside_bytes


def test_states_are_zeros_table() -> None:
    """16 bytes a parameter; 4 + 12/D; 2 + 14/D; 16/D with 16-bit gradients (ZeRO, §3)."""
    model, training = model_named("Llama-3-8B"), Training(seq=64, global_batch=8, grad_bytes=2)
    expected = {0: 16, 1: 4 + 12 / 8, 2: 2 + 14 / 8, 3: 16 / 8}
    for zero, each in expected.items():
        found = memory(model, training, Layout(data=8, zero=zero))
        states = {"weights", "gradients", "optimizer"}
        size = sum(term.bytes_ for term in found.terms if term.name in states)
        assert size / parameters(model) == pytest.approx(each)


@given(
    name=st.sampled_from(["Llama-3-8B", "Mixtral-8x7B", "GPT-3-175B", "DeepSeek-V3"]),
    tensor=st.sampled_from([1, 2, 4, 8]),
    data=st.sampled_from([1, 2, 8, 64]),
    size=st.sampled_from([1, 2, 4]),
    seq=st.sampled_from([512, 4096]),
    optimizer=st.sampled_from(list(Optimizer)),
)
def test_more_sharing_and_recomputing_never_need_more(  # noqa: PLR0917
    name: str, tensor: int, data: int, size: int, seq: int, optimizer: Optimizer
) -> None:
    """ZeRO 1 to 3 in order (3 gathers two layers beside its shards), full recomputing and none."""
    model = model_named(name)
    training = Training(seq=seq, global_batch=64 * 4, optimizer=optimizer)
    layout = Layout(tensor=tensor, data=data, micro_batch=size)

    def peak(**changes: object) -> float:
        return memory(model, training, replace(layout, **changes)).peak_bytes  # type: ignore[arg-type]

    stages = [peak(zero=zero) for zero in (Zero.NOTHING, Zero.OPTIMIZER, Zero.GRADIENTS)]
    assert stages == sorted(stages, reverse=True)
    full, none = peak(recompute=Recompute.FULL), peak(recompute=Recompute.NONE)
    assert full <= none * (1 + 1e-9)
    found = memory(model, training, replace(layout, zero=Zero.WEIGHTS))
    gathered = sum(term.bytes_ for term in found.terms if term.name == "gathered layers")
    assert found.peak_bytes - gathered <= stages[-1] * (1 + 1e-9) or data == 1


@given(layers=st.integers(1, 130), stages=st.integers(1, 64), virtual=st.sampled_from([1, 2, 3]))
def test_each_layer_has_one_stage(layers: int, stages: int, virtual: int) -> None:
    """However layers are dealt, each is on one stage, and no stage differs by more than two."""
    model = replace(model_named("Llama-3-8B"), layers=layers)
    if stages * virtual > layers or (virtual > 1 and layers % (stages * virtual)):
        return
    layout = Layout(pipeline=stages, virtual=virtual)
    dealt = [stage_layers(model, layout, index) for index in range(stages)]
    assert sorted(layer for own in dealt for layer in own) == list(range(layers))
    sizes = [len(own) for own in dealt]
    assert max(sizes) - min(sizes) <= 2


def test_blooms_stages_count_embedding_and_head() -> None:
    """70 layers on 12 stages: five on the first and the last, six on the others."""
    model, layout = model_named("BLOOM-176B"), Layout(pipeline=12)
    assert [len(stage_layers(model, layout, index)) for index in (0, 1, 10, 11)] == [5, 6, 6, 5]
    training = Training(seq=2048, global_batch=24)
    assert stage_memory(model, training, layout, 0).layers == 5


def test_the_smallest_change_fits_and_is_named() -> None:
    """What `hpckit plan` proposes fits and can be; more GPUs come last."""
    model, card = model_named("Llama-3-70B"), accelerator_named("h100")
    training, layout = Training(seq=4096, global_batch=256), Layout(data=64)
    change = smallest_change(model, training, layout, card)
    assert change is not None
    assert verdict(change.memory.device_bytes, card.memory_bytes) is Verdict.FITS
    check_layout(model, change.training, change.layout)
    assert change.layout.gpus == 64
    assert "--gpus" not in change.options
    alone = smallest_change(model, replace(training, global_batch=1), Layout(), card)
    assert alone is not None
    assert "--gpus" in alone.options
    assert smallest_change(model, training, layout, card, may_grow=False) is not None


def test_lora_trains_its_adapters_alone() -> None:
    """An 8B model in 4 bits with adapters of rank 16 has room on a card of 40 GB; in full not."""
    model, card = model_named("Llama-3-8B"), accelerator_named("a100-40gb")
    layout = Layout(recompute=Recompute.FULL)
    small = Training(seq=2048, global_batch=1, lora_rank=16, quantized=True)
    assert memory(model, small, layout).device_bytes < 12e9
    full = replace(small, lora_rank=None, quantized=False)
    assert memory(model, full, layout).device_bytes > card.memory_bytes


def test_serving_is_weights_and_cache() -> None:
    """Two bytes a weight; 320 kB a token of Llama-3-70B, 69 of DeepSeek-V3 (its paper, table 1)."""
    llama = model_named("Llama-3-70B")
    assert cache_bytes_per_token(llama) == 2 * 80 * 8 * 128 * 2
    assert cache_bytes_per_token(model_named("DeepSeek-V3")) == 61 * (512 + 64) * 2
    serving = Serving(context=8192, batch=32, tensor=4)
    weights, cache, _ = serving_terms(llama, serving)
    assert weights.bytes_ == 2 * parameters(llama) / 4
    assert cache.bytes_ == 327_680 * 8192 * 32 / 4
    card = accelerator_named("h100")
    most = most_tokens(llama, serving, card.memory_bytes)
    full = replace(serving, context=1, batch=most)
    size = sum(term.bytes_ for term in serving_terms(llama, full))
    assert 0.89 < size / card.memory_bytes <= 0.9


def test_a_hundred_and_seventy_five_billion() -> None:
    """350 GB at two bytes need five cards of 80 GB, so eight; one does not hold them."""
    card = accelerator_named("A100-SXM4-80GB")
    assert verdict(350e9, card.memory_bytes) is Verdict.NO
    assert gpus_that_hold(350e9, card) == 8


def test_of_nvidia_smi_the_error_is_known() -> None:
    """BigScience's figures are of nvidia-smi: within 20 % on average, and said so in the bench."""
    file = corpus_file("planning/bigscience_a100_176b_layouts.csv")
    convert = partial(plan_tables.bigscience, target="device_mem_gib")
    found = evaluate(*plan_tables.runs_of(file, convert))
    assert found.mean_abs_error_frac < 0.2
