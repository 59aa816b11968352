"""What a plan is read from: cards, commands, settings, tables, job files; and what is found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hpckit.core.errors import ConfigError, PlanError
from hpckit.core.findings import Level
from hpckit.planner.accelerators import accelerator_named, find_accelerator, of_site
from hpckit.planner.answer import Wishes, answer, at_other_sizes
from hpckit.planner.arguments import model_of_command, model_of_file, read_settings
from hpckit.planner.asked import Asked
from hpckit.planner.catalogue import CONFIGS, model_named
from hpckit.planner.finding import model_notices
from hpckit.planner.job_file import job_text, mesh_of, read_job, volumes
from hpckit.planner.layout import Layout, Optimizer, Precision, Recompute, Training
from hpckit.planner.machine import machine_of
from hpckit.planner.measured import settled, step_times
from hpckit.planner.memory import memory
from hpckit.planner.model import parameters
from hpckit.planner.picture import plan_html, plan_svg
from hpckit.planner.table import TARGETS, evaluate, read_table
from hpckit.script.launchers.registry import refuse_launch
from hpckit.spec.job import JobSpec, MeshAxis
from hpckit.spec.merge import effective_job
from hpckit.spec.site import AcceleratorSite, SitePartition, SiteSpec, generic_site
from tests.fakes.layers import job_layer

NAMES = {
    "h100": "H100-SXM5-80GB",
    "a100": "A100-SXM4-80GB",
    "a100_40gb": "A100-SXM4-40GB",
    "h100_80gb": "H100-SXM5-80GB",
    "A100-80GB-SXM": "A100-SXM4-80GB",
    "NVIDIA H100 80GB HBM3": "H100-SXM5-80GB",
    "NVIDIA H100 PCIe": "H100-PCIe-80GB",
    "NVIDIA A100-SXM4-40GB": "A100-SXM4-40GB",
    "NVIDIA A100 80GB PCIe": "A100-PCIe-80GB",
    "Tesla V100-SXM2-16GB": "V100-SXM2-16GB",
    "NVIDIA GH200 480GB": "GH200-96GB",
    "NVIDIA B200": "B200-SXM-180GB",
    "GB200 (per GPU)": "GB200",
    "AMD Instinct MI300X OAM": "MI300X",
    "TPU v4": "TPU v4",
}


@pytest.mark.parametrize(("said", "meant"), NAMES.items())
def test_a_card_is_found_by_any_of_its_names(said: str, meant: str) -> None:
    """The table's, Slurm's, and those of drivers."""
    assert accelerator_named(said).name == meant


@pytest.mark.parametrize(
    "said",
    ["gpu", "80GB", "v4", "rtx4090", "A30", "", "NVIDIA A100 80GB PCIe MIG 1g.10gb",
     "nvidia_h100_80gb_hbm3_1g.10gb"],
)  # fmt: skip
def test_a_name_that_means_no_card_is_none(said: str) -> None:
    """Nothing is guessed from a size, a part of a name, or a slice of a card."""
    assert find_accelerator(said) is None
    with pytest.raises(ConfigError, match="site file"):
        accelerator_named(said)


def test_a_sites_own_card_comes_first() -> None:
    """With what it does not say unknown."""
    own = AcceleratorSite(tflops=100, memory_mib=48_000, memory_gb_per_s=900, node_gpus=4)
    card = accelerator_named("h100", of_site({"h100": own}))
    assert (card.vendor, card.flops, card.tdp_w, card.scale_up_gpus) == ("site", 1e14, None, 1)


MEGATRON = (
    "torchrun pretrain_gpt.py --num-layers 96 --hidden-size 12288 --num-attention-heads 96"
    " --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1"
    " --global-batch-size 1536 --tensor-model-parallel-size 8 --pipeline-model-parallel-size=16"
    " --num-layers-per-virtual-pipeline-stage 3 --fp16 --use-distributed-optimizer"
    " --recompute-granularity full --sequence-parallel"
)


def test_a_megatron_command_says_model_and_run() -> None:
    """GPT-3 175B as Megatron-LM's example has it; its vocabulary is the tokenizer's."""
    with pytest.raises(ConfigError, match="--vocab N"):
        model_of_command(MEGATRON.split(), None)
    model, asked = model_of_command(MEGATRON.split(), 50257)
    assert parameters(model) == parameters(model_named("GPT-3-175B"))
    assert asked == Asked(
        seq=2048, global_batch=1536, micro_batch=1, tp=8, cp=1, ep=1, pp=16, vp=2, zero=1,
        recompute=Recompute.FULL, precision=Precision.FP16, optimizer=Optimizer.ADAM,
        sequence_parallel=True,
    )  # fmt: skip
    with pytest.raises(ConfigError, match="does not describe a model"):
        model_of_command(["python", "train.py"], None)


def test_a_modern_megatron_command_has_experts_and_latent_attention() -> None:
    """DeepSeek-V3's options give its parameters, but for Megatron-LM's other norms."""
    words = (
        "--num-layers 61 --hidden-size 7168 --num-attention-heads 128 --ffn-hidden-size 18432"
        " --swiglu --normalization RMSNorm --disable-bias-linear --vocab-size 129280"
        " --untie-embeddings-and-output-weights --multi-latent-attention --q-lora-rank 1536"
        " --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128"
        " --num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048"
        " --moe-shared-expert-intermediate-size 2048 --moe-layer-freq ([0]*3+[1]*58)"
        " --position-embedding-type rope --expert-model-parallel-size 64"
    )
    model, asked = model_of_command(words.split(), None)
    assert parameters(model) == parameters(model_named("DeepSeek-V3"))
    assert asked.ep == 64


AXOLOTL = """\
base_model: meta-llama/Llama-3.1-8B
sequence_len: 4096
micro_batch_size: 2
adapter: qlora
lora_r: 32
optimizer: adamw_bnb_8bit
gradient_checkpointing: true
"""
TORCHTITAN = """\
[model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
[activation_checkpoint]
mode = "full"
"""
NEMO = """\
model:
  hidden_size: 4096
  num_layers: 32
  num_attention_heads: 32
  ffn_hidden_size: 11008
  vocab_size: 32000
  encoder_seq_length: 4096
  tensor_model_parallel_size: 2
  activations_checkpoint_granularity: selective
trainer:
  precision: bf16-mixed
"""


def test_frameworks_files_say_what_matters() -> None:
    """YAML of axolotl, torchtitan's TOML, NeMo's YAML."""
    model, asked = read_settings(AXOLOTL, "a.yaml")
    assert model == model_named("Llama-3-8B")
    assert (asked.lora_rank, asked.quantized, asked.optimizer, asked.recompute) == (
        32, True, Optimizer.ADAM_8BIT, Recompute.FULL,
    )  # fmt: skip
    model, asked = read_settings(TORCHTITAN, "t.toml")
    assert model == model_named("Llama-3-70B")
    assert (asked.tp, asked.zero, asked.seq, asked.dp) == (8, 3, 8192, None)
    model, asked = model_of_file(NEMO, "n.yml")
    assert parameters(model) == parameters(model_named("Llama-2-7B"))
    assert (asked.tp, asked.seq, asked.recompute) == (2, 4096, Recompute.SELECTIVE)


@pytest.mark.parametrize("text", ["[]", "a: [", "hidden: 1", "micro_batch_size: two"])
def test_settings_without_a_model_are_refused(text: str) -> None:
    """No table, no YAML, no model, no number."""
    with pytest.raises(ConfigError, match=r"x\.yaml"):
        model_of_file(text, "x.yaml")


TABLE = """\
model,hidden,layers,heads,vocab,gpu,gpus,seq,global_batch,micro_batch,tp,pp,dp,recompute,step_s
,6144,48,64,51200,a100,8,2048,4,4,8,1,1,full,1.42
,6144,48,64,51200,a100,8,2048,4,4,8,2,1,full,1.42
,6144,48,63,51200,a100,8,2048,4,4,8,1,1,full,1.42
,6144,48,64,51200,a100,8,2048,4,4,8,1,1,full,-3
"""


def test_a_table_is_predicted_row_by_row() -> None:
    """Rows that cannot be are skipped, each with why; the rest has its error and the baseline's."""
    runs, skipped = read_table(TABLE, "t.csv")
    found = evaluate(runs, skipped)
    assert len(found.rows) == 1
    assert abs(found.rows[0].error_frac) < 0.05
    assert found.max_abs_error_frac == found.mean_abs_error_frac
    assert found.naive_mean_abs_error_frac == pytest.approx(0)  # fitted to this very row
    assert [line for line, _ in skipped] == [3, 4, 5]
    assert "parallel degrees must divide" in skipped[0][1]


def test_each_target_is_in_its_unit() -> None:
    """A run that takes as long as predicted has the tokens and FLOP/s that follow from it."""
    run = read_table(TABLE, "t.csv")[0][0]
    found = {
        target: evaluate([replace(run, target=target)]).rows[0].predicted for target in TARGETS
    }
    assert found["tokens_per_s_per_gpu"] == pytest.approx(4 * 2048 / 8 / found["step_s"])
    assert 1.2 < found["hw_tflops_per_gpu"] / found["model_tflops_per_gpu"] < 4 / 3
    assert 20 < found["peak_mem_gib"] < found["device_mem_gib"] < 80


def test_a_table_without_its_columns_is_refused() -> None:
    """With those that are needed."""
    with pytest.raises(ConfigError, match="missing columns; it has a, b") as error:
        read_table("a,b\n1,2\n", "t.csv")
    assert "step_s" in str(error.value)


def planned(asked: Asked) -> tuple[str, Layout]:
    """A job file of a plan of Llama-3-70B, and its layout."""
    name = "Llama-3-70B"
    made = answer(
        model_named(name),
        replace(asked, seq=4096, global_batch=256),
        64,
        machine_of(accelerator_named("h100")),
        Wishes(),
    )
    return job_text(made, config=name, command=["train"]), made.question.layout


@pytest.mark.parametrize("asked", [Asked(), Asked(tp=8, pp=2), Asked(tp=4, pp=4, vp=5)])
def test_a_written_plan_is_read_back_and_is_a_job(asked: Asked) -> None:
    """Its layout is the same, its mesh fills the ranks, and its volumes are those of its axes."""
    text, layout = planned(asked)
    read = read_job(text, "job.toml")
    assert (read.gpus, read.gpu, read.config) == (64, "H100-SXM5-80GB", "Llama-3-70B")
    again = answer(
        model_named("Llama-3-70B"), read.asked, 64, machine_of(accelerator_named("h100")), Wishes()
    )
    assert again.question.layout == layout
    spec = spec_of(text)
    assert spec.mesh_ranks == spec.ntasks == 64
    assert set(spec.place.volume) == set(spec.parallel)


def spec_of(text: str) -> JobSpec:
    """The job of a job file."""
    return effective_job([job_layer(text, "job.toml")], refuse_launch).spec


def test_volumes_are_the_papers() -> None:
    """Tensor: 8sbh(t-1)/t elements a layer (SC21, §3.2), so four all-reduces of 2sbh bytes."""
    model = model_named("GPT-3-175B")
    training = Training(seq=2048, global_batch=64)
    layout = Layout(tensor=8, pipeline=8, data=1, zero=0)
    sent = volumes(model, training, layout)
    assert set(sent) == {MeshAxis.TENSOR, MeshAxis.PIPELINE}
    assert sent[MeshAxis.TENSOR] == 64 * 12 * 4 * 2 * 2048 * 12288
    assert mesh_of(layout) == {MeshAxis.TENSOR: 8, MeshAxis.PIPELINE: 8}


def test_gpus_that_fill_no_nodes_are_refused() -> None:
    """With how many a node has."""
    made = answer(
        model_named("Llama-3-8B"), Asked(seq=4096, global_batch=48), 12,
        machine_of(accelerator_named("h100")), Wishes(),
    )  # fmt: skip
    with pytest.raises(PlanError, match="fill whole nodes: have 12 GPUs, need a multiple of 8"):
        job_text(made, config="x", command=[])


JOB = """\
schema = "hpckit.job/1"
name = "x"
command = ["python", "train.py"]
[resources]
nodes = 2
gpus_per_node = 8
gpu_type = "h100"
[launch]
kind = "torchrun"
[parallel]
tensor = 8
data = 2
[model]
config = "Llama-3-405B"
"""
SITE = generic_site()


def notices(text: str, site: SiteSpec = SITE, files: dict[str, str] | None = None) -> list[str]:
    """What is found of a job's model: level and text."""
    found = model_notices(spec_of(text), site, (files or {}).get)
    return [f"{one.level}: {one.text} -> {one.remedy}" for one in found]


def test_a_model_that_cannot_fit_is_an_error_with_what_would() -> None:
    """At its least: one token, all recomputed, all shared."""
    (found,) = notices(JOB)
    assert found.startswith(f"{Level.NOTE}: Llama-3-405B needs at least")
    assert "it may fit with weights and states in 16 bits" in found
    (found,) = notices(f'{JOB}zero = 3\noptimizer = "adam"\n')
    assert found.startswith(f"{Level.ERROR}: Llama-3-405B needs at least")
    (alone,) = notices(JOB.replace("nodes = 2", "nodes = 1").replace("data = 2", "data = 1"))
    assert alone.startswith(f"{Level.ERROR}: ")
    assert "but H100-SXM5-80GB has 86 GB" in found
    assert "resources.nodes = " in found
    assert "parallel.data = " in found
    assert "model.offload = true" in found


@pytest.mark.parametrize(
    "change",
    [
        ("Llama-3-405B", "Llama-3-8B"),
        ('config = "Llama-3-405B"', 'config = "Llama-3-405B"\noffload = true'),
        ('[model]\nconfig = "Llama-3-405B"\n', ""),
        ("nodes = 2", "nodes = 64"),
        ("gpus_per_node = 8\n", ""),
    ],
)
def test_nothing_is_said_of_what_may_fit(change: tuple[str, str]) -> None:
    """A smaller model, states off the GPU, no model, more nodes, no GPUs."""
    text = JOB.replace(*change)
    if "64" in change[1]:
        text = text.replace("data = 2", "data = 64")
    assert notices(text) == []


def test_what_is_unknown_is_a_note() -> None:
    """The kind of GPU, a file that is not there, a mesh that cannot be."""
    (kind,) = notices(JOB.replace('gpu_type = "h100"\n', ""))
    assert "no GPU type given" in kind
    (file,) = notices(JOB.replace("Llama-3-405B", "no/config.json"))
    assert "model not checked" in file
    (mesh,) = notices(JOB.replace("tensor = 8\ndata = 2", "tensor = 16\ncontext = 1"))
    assert not mesh.startswith(f"{Level.ERROR}: the mesh")
    assert all(Level.ERROR not in one.split(":")[0] for one in (kind, file))


def test_a_config_is_read_beside_the_job_and_a_partition_says_the_gpu() -> None:
    """The file by the name that the job has for it; the default partition's kind of GPU."""
    files = {"c.json": json.dumps(dict(CONFIGS["Llama-3-405B"]))}
    site = replace(
        SITE, partitions={"gpu": SitePartition(nodes=4, gpus_per_node=8, gpu_type="a100",
                                               default=True)},
    )  # fmt: skip
    text = JOB.replace("Llama-3-405B", "c.json").replace('gpu_type = "h100"\n', "")
    (found,) = notices(text, site, files)
    assert "A100-SXM4-80GB has 86" in found


def test_a_megatron_command_is_judged_without_a_model_table() -> None:
    """Its own options say the model, and the remedy is in their words; offloading is left alone."""
    command = MEGATRON.replace("--pipeline-model-parallel-size=16", "").split()
    words = [one for one in command if not one.startswith("--num-layers-per")]
    words = [*words, "--vocab-size", "50257", "--no-x"]
    at = words.index("3") if "3" in words else None
    if at is not None:
        del words[at]
    listed = ", ".join(f'"{one}"' for one in words)
    text = JOB.partition("[model]")[0].replace('"python", "train.py"', listed)
    (found,) = notices(text)
    assert "GB per GPU" in found
    assert "--pipeline-model-parallel-size" in found or "resources.nodes" in found
    for left_alone in ("--optimizer-cpu-offload", "--peft", "tools/run_text_generation_server.py"):
        assert notices(text.replace('"--no-x"', f'"{left_alone}"')) == []


LLAMA_70B = (
    "--num-layers 80 --hidden-size 8192 --num-attention-heads 64 --num-query-groups 8"
    " --ffn-hidden-size 28672 --swiglu --disable-bias-linear --normalization RMSNorm"
    " --seq-length 4096 --micro-batch-size 1 --global-batch-size 64 --bf16 --vocab-size 128256"
    " --untie-embeddings-and-output-weights --position-embedding-type rope"
    " --recompute-granularity full"
)


@pytest.mark.parametrize(
    ("words", "zero"),
    [
        ("--use-torch-fsdp2", 3),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params", 3),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy optim", 1),
        ("--deepspeed --zero-stage 2", 2),
        ("--use-distributed-optimizer", 1),
        ("", 0),
    ],
)
def test_every_way_to_share_states_is_read(words: str, zero: int) -> None:
    """Megatron-LM's and Megatron-DeepSpeed's; what shares weights fits where nothing else does."""
    command = f"{LLAMA_70B} {words}".split()
    assert model_of_command(command, None)[1].zero == zero
    listed = ", ".join(f'"{one}"' for one in ["python", *command])
    text = JOB.partition("[parallel]")[0].replace('"python", "train.py"', listed)
    found = notices(text.replace("nodes = 2", "nodes = 8"))
    assert bool(found) == (zero < 3)


def test_experts_are_divided_by_tensor_ranks_or_by_experts() -> None:
    """Alone they are split as other matrices are; spread over ranks each rank has whole ones."""
    mixtral, training = model_named("Mixtral-8x7B"), Training(seq=4096, global_batch=16)

    def weights(tensor: int, data: int, expert: int = 1) -> float:
        found = memory(mixtral, training, Layout(tensor=tensor, data=data, expert=expert))
        return next(term.bytes_ for term in found.terms if term.name == "weights")

    alone = weights(tensor=8, data=2)
    assert alone == pytest.approx(2 * parameters(mixtral) / 8, rel=0.01)
    assert weights(tensor=8, data=2, expert=8) == pytest.approx(alone, rel=0.01)
    assert weights(tensor=2, data=8, expert=8) > alone


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\ufeff" + TABLE, None),
        (TABLE.replace("\n", "\r"), None),
        ("\n\n" + TABLE.replace("hidden,layers", " Hidden , layers"), None),
        (TABLE.replace("2048", "1e300"), "expected a number"),
        (TABLE.replace(",48,", ",1000000,"), "expected a whole number from 1 to 10000"),
        (TABLE.replace(",64,51200", ",70000,51200"), "at most hidden 6144"),
    ],
)
def test_tables_from_spreadsheets_are_read_and_vast_numbers_are_not(
    text: str, said: str | None
) -> None:
    """A byte order mark, other line ends, blank lines, blanks in the header; one clear reason."""
    runs, skipped = read_table(text, "t.csv")
    assert len(runs) == (said is None)
    assert said is None or said in skipped[0][1]


@pytest.mark.parametrize(
    "change",
    ['seq = "4k"', "seq = 0", "seqq = 4096", "zero = 7", "micro_batch = -1", 'recompute = "some"'],
)
def test_a_job_file_is_checked_before_it_is_planned(change: str) -> None:
    """By the rules of its keys."""
    with pytest.raises(ConfigError, match=r"job\.toml: model\."):
        read_job(f"{JOB}{change}\n", "job.toml")


def test_step_times_are_read_from_logs() -> None:
    """Megatron-LM's, torchtitan's by tokens a second, and a plain word; the first fifth is left."""
    megatron = "iteration 5 | elapsed time per iteration (ms): 1250.5 | lm loss"
    titan = "step: 10  loss: 5.1  memory: 40GiB(50%)  tps: 8,192  tflops: 400"
    assert step_times([megatron, titan, "step_time: 0.5 s", "x"], 8192) == [1.2505, 1.0, 0.5]
    assert settled([9.0, 1.0, 1.1, 1.2, 1.3]) == pytest.approx(1.15)
    assert settled([]) is None


def test_the_picture_shows_stages_layouts_and_sizes() -> None:
    """One SVG, whose parts say what they are; the page around it needs no other file."""
    model, asked = model_named("Llama-3-70B"), Asked(seq=4096, global_batch=256, tp=8, pp=4)
    machine = machine_of(accelerator_named("h100"))
    made = answer(model, asked, 64, machine, Wishes())
    picture = plan_svg(made, at_other_sizes(model, asked, 64, machine, Wishes()))
    for words in ("stage 0: activations", "stage 3: logits", ": bubble", "128 GPUs", "GPU memory:"):
        assert words in picture
    page = plan_html(made, picture, ["a < b"])
    assert "a &lt; b" in page
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
