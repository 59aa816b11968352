"""A planned layout as a job file: its mesh, its volumes for `hpckit place`, the framework's words.

Reads a job file's `[model]` back as well, so that `hpckit plan job.toml` judges what it says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from hpckit.core.errors import ConfigError, PlanError
from hpckit.core.fields import to_tree
from hpckit.core.text import visible
from hpckit.core.units import format_duration
from hpckit.core.values import dataclass
from hpckit.planner.answer import Answer
from hpckit.planner.asked import Asked
from hpckit.planner.layout import Layout, Optimizer, Precision, Recompute, Training, Zero
from hpckit.planner.model import ModelShape, parameters, routed_parameters
from hpckit.spec.job import JOB_SCHEMA, MeshAxis
from hpckit.spec.merge import effective_job, file_layers

_NEVER_S: Final = 14 * 86400.0
"""From this interval on nobody needs to be told to write checkpoints."""


def volumes(model: ModelShape, training: Training, layout: Layout) -> Mapping[MeshAxis, float]:
    """Return the bytes that a rank gives to each axis in one step, as `[place.volume]` takes them.

    Of an all-reduce its size; a gather and a scatter are half of one each. Narayanan et al. 2021
    (arXiv:2104.04473, §3.2).
    """
    number = layout.micro_batches(training)
    layers = model.layers / layout.pipeline
    tokens = training.seq / layout.context * layout.micro_batch
    block = 2.0 * tokens * model.hidden
    routed = routed_parameters(model)
    local = (parameters(model) - routed) / layout.tensor + routed / layout.expert_split
    local /= layout.pipeline
    blocks = 6 if layout.recompute is Recompute.FULL else 4
    grads = training.gradient_bytes * local
    data: float = grads if layout.zero == Zero.NOTHING else (grads + 2 * local) / 2
    if layout.zero >= Zero.GRADIENTS:
        passes = 3 if layout.zero == Zero.WEIGHTS else 2  # gathered once or twice, scattered once
        data = number * passes * 2 * local / 2
    moe = model.experts
    copies = 0.0
    if moe is not None:
        copies = 4 * number * model.sparse_layers / layout.pipeline * moe.top_k * block
    kv = 4.0 * tokens * model.kv_heads * model.head_width / layout.tensor
    found = {
        MeshAxis.TENSOR: number * layers * blocks * block,
        MeshAxis.CONTEXT: number * layers * 1.5 * layout.context * kv,
        MeshAxis.EXPERT: copies / layout.tensor,
        MeshAxis.DATA: data,
        MeshAxis.PIPELINE: number * layout.virtual * block / layout.tensor,
    }
    sizes = mesh_of(layout)
    return {axis: found[axis] for axis in sizes}


def mesh_of(layout: Layout) -> Mapping[MeshAxis, int]:
    """Return the degrees above one, innermost first, as Megatron-LM orders ranks."""
    degrees = {
        MeshAxis.TENSOR: layout.tensor,
        MeshAxis.CONTEXT: layout.context,
        MeshAxis.EXPERT: layout.expert,
        MeshAxis.DATA: layout.data,
        MeshAxis.PIPELINE: layout.pipeline,
    }
    return {axis: size for axis, size in degrees.items() if size > 1}


def framework_words(model: ModelShape, training: Training, layout: Layout) -> Sequence[str]:
    """Return the layout in Megatron-LM's options, none where it cannot run the layout.

    Its FSDP goes with neither experts that are spread nor pipelines, and it has no adapters.
    """
    is_spread = layout.expert > 1 or layout.pipeline > 1
    if training.lora_rank is not None or (layout.zero == Zero.WEIGHTS and is_spread):
        return ()
    degrees = (
        ("--tensor-model-parallel-size", layout.tensor),
        ("--context-parallel-size", layout.context),
        ("--expert-model-parallel-size", layout.expert),
        ("--pipeline-model-parallel-size", layout.pipeline),
    )
    words = [word for name, size in degrees if size > 1 for word in (name, str(size))]
    words += ["--micro-batch-size", str(layout.micro_batch)]
    words += ["--seq-length", str(training.seq), "--global-batch-size", str(training.global_batch)]
    if layout.virtual > 1:
        words += ["--num-virtual-stages-per-pipeline-rank", str(layout.virtual)]
    if layout.zero == Zero.OPTIMIZER:
        words += ["--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather"]
    if layout.zero == Zero.WEIGHTS:
        words += ["--use-torch-fsdp2", "--no-gradient-accumulation-fusion"]
        words += ["--ckpt-format", "torch_dist", "--untie-embeddings-and-output-weights"]
    if layout.tensor > 1 and layout.sequence_parallel:
        words += ["--sequence-parallel", "--tp-comm-overlap"]
    if model.layers % (layout.pipeline * layout.virtual):
        words += ["--account-for-embedding-in-pipeline-split"]
        words += ["--account-for-loss-in-pipeline-split"]
    if layout.recompute is Recompute.FULL:
        words += ["--recompute-granularity", "full", "--recompute-method", "uniform"]
        words += ["--recompute-num-layers", "1"]
    words += {"bf16": ["--bf16"], "fp16": ["--fp16"], "fp8": ["--bf16", "--fp8-format", "hybrid"]}[
        training.precision
    ]
    return words


def job_text(
    made: Answer, *, config: str | None, command: Sequence[str], node_gbits: float | None = None
) -> str:
    """Return a job file of the answer's layout.

    `config` is how the model is called, None where a command says it. Raises PlanError for GPUs
    that do not fill whole nodes.
    """
    layout, training = made.question.layout, made.question.training
    per_node = min(made.machine.node_gpus, layout.gpus)
    if layout.gpus % per_node:
        raise PlanError(
            "the job must fill whole nodes",
            have=f"{layout.gpus} GPUs",
            need=f"a multiple of {per_node}",
            hint="give the GPUs per node: --node-gpus N",
        )
    name = visible(made.question.model.name.rpartition("/")[2]).lower()
    lines = [
        *_comments(made),
        f'schema = "{JOB_SCHEMA}"',
        f"name = {_toml(name)}",
        *([f"command = {_toml(list(command))}"] if command else []),
        "",
        "[resources]",
        f"nodes = {layout.gpus // per_node}",
        f"gpus_per_node = {per_node}",
        "",
        "[launch]",
        'kind = "torchrun"',
        *_mesh_lines(made),
        *([] if node_gbits is None else ["", "[place]", f"node_gbits = {node_gbits:g}"]),
        "",
        "[model]",
        *_model_lines(made, config),
    ]
    if config is not None:
        words = " ".join(framework_words(made.question.model, training, layout))
        lines += ["", "# Equivalent Megatron-LM options:", f"# {words}"] if words else []
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _comments(made: Answer) -> Iterator[str]:
    speed, honest = made.speed, made.honest
    yield f"# Planned by hpckit: {made.question.layout.words()}."
    yield (
        f"# Step time {speed.time.step_s:.3g} s ± {100 * speed.uncertainty_frac:.0f} %; "
        f"memory {made.memory.device_bytes / 1e9:.3g} of "
        f"{made.machine.accelerator.memory_bytes / 1e9:.3g} GB per GPU."
    )
    if honest is not None and honest.interval_s < _NEVER_S:
        yield f"# Write a checkpoint about every {format_duration(honest.interval_s)}."


def _mesh_lines(made: Answer) -> Iterator[str]:
    layout = made.question.layout
    sizes = mesh_of(layout)
    if not sizes:
        return
    yield from ("", "[parallel]               # innermost first")
    for axis, size in sizes.items():
        yield f"{axis} = {size}"
    sent = volumes(made.question.model, made.question.training, layout)
    yield from ("", "[place.volume]           # bytes per rank and step")
    for axis, volume in sent.items():
        yield f"{axis} = {volume:.3g}"


def _model_lines(made: Answer, config: str | None) -> Iterator[str]:
    layout, training = made.question.layout, made.question.training
    said: dict[str, object] = {
        "config": config,
        "gpu": made.machine.accelerator.name,
        "seq": training.seq,
        "global_batch": training.global_batch,
        "micro_batch": layout.micro_batch,
        "virtual": layout.virtual if layout.virtual > 1 else None,
        "zero": layout.zero,
        "recompute": str(layout.recompute),
        "precision": str(training.precision),
        "optimizer": str(training.optimizer),
        "lora_rank": training.lora_rank,
        "quantized": True if training.quantized else None,
    }
    for key, value in said.items():
        if value is not None:
            yield f"{key} = {_toml(value)}"


# --- Back again.


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a job file says of its model: how it is called, the run, the GPUs."""

    config: str | None
    command: tuple[str, ...]
    asked: Asked
    gpus: int | None
    gpu: str | None
    vocab: int | None


def is_job_file(text: str) -> bool:
    """Return whether a TOML text is a job file."""
    return JOB_SCHEMA in text


def read_job(text: str, source: str) -> Planned:
    """Return what a job file says of its model. Raises ConfigError, for keys that there are not."""
    layer = file_layers(text, source, None)[0]
    # A command may come from the command line; here it does not matter.
    tree = {"name": "plan", "command": ["true"], **layer.tree}
    spec = effective_job([replace(layer, tree=tree)], lambda *_: None).spec
    return planned_of(to_tree(spec), source)


def planned_of(tree: Mapping[str, Any], source: str) -> Planned:
    """Return what a job says of its model, its file decoded. Raises ConfigError."""
    model, mesh = tree.get("model", {}), tree.get("parallel", {})
    resources = tree.get("resources", {})
    kinds = {"recompute": Recompute, "precision": Precision, "optimizer": Optimizer}
    try:
        said: dict[str, Any] = {
            key: kind(model[key]) for key, kind in kinds.items() if model.get(key)
        }
    except ValueError as error:
        raise ConfigError(f"{error}", source=source, key="model") from None
    per_node = resources.get("gpus_per_node")
    return Planned(
        config=model.get("config"),
        command=tuple(map(str, tree.get("command", ()))),
        asked=Asked(
            seq=model.get("seq"),
            global_batch=model.get("global_batch"),
            micro_batch=model.get("micro_batch"),
            tp=mesh.get("tensor"),
            cp=mesh.get("context"),
            ep=mesh.get("expert"),
            pp=mesh.get("pipeline"),
            dp=mesh.get("data"),
            vp=model.get("virtual"),
            zero=model.get("zero"),
            lora_rank=model.get("lora_rank"),
            quantized=model.get("quantized") or None,
            **said,
        ),
        gpus=None if per_node is None else per_node * resources.get("nodes", 1),
        gpu=model.get("gpu") or resources.get("gpu_type"),
        vocab=model.get("vocab"),
    )
