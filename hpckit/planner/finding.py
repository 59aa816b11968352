"""A job whose model cannot fit on its GPUs: found before it queues.

What the job does not say is taken at its least: one token, all activations recomputed, states
shared as far as can be. It is an error where weights and the said optimizer's states do not fit in
16 bits, or where a Megatron-LM command says all of it; else a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from hpckit.core.errors import HpckitError, PlanError
from hpckit.core.fields import to_tree
from hpckit.core.findings import Level, Notice
from hpckit.core.late import regex
from hpckit.planner.accelerators import Accelerator, find_accelerator, of_site
from hpckit.planner.arguments import is_megatron, read_megatron
from hpckit.planner.asked import Asked, layout_of, training_of
from hpckit.planner.catalogue import known_model, model_named
from hpckit.planner.config_json import read_config
from hpckit.planner.fit import Change, Verdict, smallest_change, verdict
from hpckit.planner.job_file import planned_of
from hpckit.planner.layout import (
    Layout,
    Optimizer,
    Precision,
    Recompute,
    Training,
    Zero,
    check_layout,
)
from hpckit.planner.memory import QUANTIZED_BYTES, memory
from hpckit.planner.model import ModelShape, parameters
from hpckit.spec.job import JobSpec, MeshAxis
from hpckit.spec.site import SiteSpec

Read = Callable[[str], str | None]
"""The text of a file that a job names, None where there is none."""
_NOT_JUDGED: Final = regex(r"-.*(offload|cpu-optimizer|peft|lora).*|.*(text_generation|infer).*")
"""Words of a Megatron-LM command that keeps states elsewhere, or trains none."""
_SURE: Final = 1.1
"""Over the card's memory: of one name there are cards that differ by less."""
_LEAST_STATES: Final = {
    None: 0,
    Optimizer.SGD: 2,
    Optimizer.MUON: 4,
    Optimizer.ADAM_8BIT: 4,
    Optimizer.ADAM_BF16: 6,
    Optimizer.ADAM: 6,
}
"""Bytes of gradient and states a parameter that each optimizer needs at least, all in 16 bits.

Unsaid is one that updates weights while gradients are made, and keeps neither.
"""
_KEYS: Final[Mapping[str, str]] = {
    "--tp": "parallel.tensor",
    "--cp": "parallel.context",
    "--ep": "parallel.expert",
    "--pp": "parallel.pipeline",
    "--micro-batch": "model.micro_batch",
    "--zero": "model.zero",
    "--recompute": "model.recompute",
    "--optimizer": "model.optimizer",
}
"""Option of `hpckit plan` → key of a job file."""
_FLAGS: Final[Mapping[str, str]] = {
    "--tp": "--tensor-model-parallel-size",
    "--cp": "--context-parallel-size",
    "--ep": "--expert-model-parallel-size",
    "--pp": "--pipeline-model-parallel-size",
    "--micro-batch": "--micro-batch-size",
    "--zero": "--use-distributed-optimizer",
    "--recompute": "--recompute-granularity",
    "--optimizer": "--optimizer",
}
"""Option of `hpckit plan` → Megatron-LM's."""
_SOURCE: Final = "docs/reference/plan.md"


def model_notices(spec: JobSpec, site: SiteSpec, read: Read) -> Iterator[Notice]:
    """Yield that the job's model does not fit, or that it could not be read.

    Nothing is found of a job that names no model, of GPUs of an unknown kind, and of states that
    are kept off the GPU.
    """
    try:
        described = _described(spec, read)
        if described is None or not spec.resources.gpus_per_node:
            return
        model, asked, is_command = described
        card = _card(spec, site)
        if card is None:
            if spec.model.config is not None:
                yield _note("unknown whether the model fits: no GPU type given",
                            "--gpu-type, or model.gpu")  # fmt: skip
            return
        yield from _judged(spec, model, asked, card, is_command=is_command)
    except PlanError as error:
        yield _note(error.message, error.hint)
    except HpckitError as error:
        yield _note(f"model not checked: {error.message}", error.hint)


def _note(text: str, remedy: str | None) -> Notice:
    return Notice(level=Level.NOTE, subject="model", text=text, remedy=remedy, source=_SOURCE)


def _described(spec: JobSpec, read: Read) -> tuple[ModelShape, Asked, bool] | None:
    """Return the model, what is said of the run, and whether a command says it."""
    request = spec.model
    if request.offload or spec.serve.port is not None:
        return None
    parts = {name: getattr(spec, name) for name in ("model", "parallel", "resources", "command")}
    planned = planned_of(to_tree(parts), "the job")
    if request.config is not None:
        return _named(request.config, read), planned.asked, False
    if not is_megatron(spec.command) or any(map(_NOT_JUDGED.fullmatch, spec.command)):
        return None
    model, asked = read_megatron(spec.command, request.vocab)
    if "--recompute-modules" in spec.command:  # which of them is not looked at
        asked = replace(asked, recompute=Recompute.FULL)
    return model, planned.asked.over(asked), True


def _named(name: str, read: Read) -> ModelShape:
    found = known_model(name)
    if found is not None:
        return found
    text = read(name)
    if text is None:
        return model_named(name)
    return read_config(text, name)


def _card(spec: JobSpec, site: SiteSpec) -> Accelerator | None:
    """Return the job's kind of GPU: said, or that of its partition where the site tells it."""
    name = spec.model.gpu or spec.resources.gpu_type
    if name is None:
        partitions = [
            one
            for key, one in site.partitions.items()
            if key == spec.slurm.partition or (spec.slurm.partition is None and one.default)
        ]
        kinds = {one.gpu_type for one in partitions}
        name = kinds.pop() if len(kinds) == 1 else None
    return None if name is None else find_accelerator(name, of_site(site.accelerators))


def _judged(
    spec: JobSpec, model: ModelShape, asked: Asked, card: Accelerator, *, is_command: bool
) -> Iterator[Notice]:
    gpus = spec.resources.nodes * (spec.resources.gpus_per_node or 0)
    training, layout = _at_least(asked, gpus)
    check_layout(model, training, layout)
    found, usable = memory(model, training, layout), card.memory_bytes
    if verdict(found.device_bytes, usable) is not Verdict.NO:
        return
    is_sure = not _is_guessed(model) and _surely(model, asked, layout) > _SURE * usable
    is_sure = is_sure or (is_command and found.device_bytes > _SURE * usable)
    change = _usual_change(model, asked, gpus, card)
    doubt = "" if is_sure else "; it may fit with weights and states in 16 bits"
    yield Notice(
        level=Level.ERROR if is_sure else Level.NOTE,
        subject="model",
        text=f"{model.name} needs at least {found.device_bytes / 1e9:.0f} GB per GPU"
        f" ({layout.words()}), but {card.name} has {usable / 1e9:.0f} GB{doubt}",
        remedy=(_in_words(change, spec, is_stated=not is_command) if change else "use larger GPUs")
        + "; set model.offload = true if states are kept off the GPU",
        source=_SOURCE,
    )


def _usual_change(model: ModelShape, asked: Asked, gpus: int, card: Accelerator) -> Change | None:
    """Return what makes the run fit as `hpckit plan` judges it, the rest being as usual."""
    return smallest_change(model, training_of(model, asked, gpus)[0], layout_of(asked, gpus), card)


def _at_least(asked: Asked, gpus: int) -> tuple[Training, Layout]:
    """Return the run and its layout, what is not said being what takes least."""
    layout = layout_of(asked, gpus)
    layout = replace(
        layout,
        zero=Zero.WEIGHTS if asked.zero is None else asked.zero,
        recompute=asked.recompute or Recompute.FULL,
    )
    each = layout.data * layout.micro_batch
    return Training(
        seq=asked.seq or 2 * layout.context,
        global_batch=asked.global_batch or each * layout.pipeline,
        precision=asked.precision or Precision.BF16,
        optimizer=asked.optimizer or Optimizer.ADAM_8BIT,
        grad_bytes=asked.grad_bytes or (None if asked.precision else 2),
        lora_rank=asked.lora_rank,
        quantized=bool(asked.quantized),
    ), layout


def _is_guessed(model: ModelShape) -> bool:
    """Return whether the model's family is unknown, and its shape read as another's."""
    return any("is unknown" in note for note in model.notes)


def _surely(model: ModelShape, asked: Asked, layout: Layout) -> float:
    """Return the bytes that a GPU surely needs: weights in 16 bits, or 4, and the least states."""
    each = QUANTIZED_BYTES if asked.quantized else 2.0
    states = 0 if asked.lora_rank is not None else _LEAST_STATES[asked.optimizer]
    everywhere = layout.gpus
    apart = layout.tensor * layout.pipeline * layout.expert
    zero = Zero.WEIGHTS if asked.zero is None else asked.zero
    return parameters(model) * (
        each / (everywhere if zero == Zero.WEIGHTS else apart)
        + states / (everywhere if zero >= Zero.OPTIMIZER else apart)
    )


def _in_words(change: Change, spec: JobSpec, *, is_stated: bool) -> str:
    """Return a change as keys of the job file, or as options of the Megatron-LM command."""
    words = change.options.split()
    parts: list[str] = []
    for name, value in zip(words[::2], words[1::2], strict=True):
        if name == "--gpus":
            nodes = -(-int(value) // (spec.resources.gpus_per_node or 1))
            parts.append(f"resources.nodes = {nodes}")
        elif name in _FLAGS and not is_stated:
            fsdp = "--use-torch-fsdp2" if value == "3" else _FLAGS[name]
            parts.append(fsdp if name == "--zero" else f"{_FLAGS[name]} {value}")
        elif name in _KEYS:
            parts.append(f"{_KEYS[name]} = " + (value if value.isdecimal() else f'"{value}"'))
    if MeshAxis.DATA in spec.parallel:
        parts.append(f"parallel.data = {change.layout.data}")
    return ", ".join(parts)
