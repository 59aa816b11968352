"""Published figures beside predictions: a CSV table of runs, a row each, is evaluated.

The baseline beside it is one efficiency fitted to the whole table, without any topology: what a
prediction has to beat to be worth anything.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final, TypeVar

from hpckit.core.errors import ConfigError, HpckitError, PlanError
from hpckit.core.values import dataclass
from hpckit.planner.accelerators import accelerator_named
from hpckit.planner.asked import Asked, layout_of
from hpckit.planner.calibration import FROZEN, Constants
from hpckit.planner.catalogue import model_named
from hpckit.planner.fit import Verdict, verdict
from hpckit.planner.layout import (
    Framework,
    Layout,
    Optimizer,
    Precision,
    Recompute,
    Training,
    Zero,
    check_layout,
)
from hpckit.planner.machine import Machine, machine_of
from hpckit.planner.memory import memory
from hpckit.planner.model import Details, Experts, ModelShape, parameters, step_flops
from hpckit.planner.step_time import Clock

TARGETS: Final = (
    "step_s",
    "tokens_per_s_per_gpu",
    "model_tflops_per_gpu",
    "hw_tflops_per_gpu",
    "peak_mem_gib",
    "device_mem_gib",
)
"""What a row may publish; the first that it has counts."""
_TIMES: Final = TARGETS[:4]
UNITS: Final = {
    "step_s": "s",
    "tokens_per_s_per_gpu": "tokens/s per GPU",
    "model_tflops_per_gpu": "TFLOP/s per GPU",
    "hw_tflops_per_gpu": "TFLOP/s per GPU",
    "peak_mem_gib": "GiB",
    "device_mem_gib": "GiB",
}
COLUMNS: Final = frozenset(
    ("label", "model", "hidden", "layers", "heads", "kv_heads", "ffn", "vocab", "gated", "experts",
     "top_k", "gpu", "gpus", "seq", "global_batch", "micro_batch", "tp", "cp", "ep", "pp", "vp",
     "dp", "zero", "precision", "recompute", "optimizer", "grad_bytes", "framework",
     "fused_accumulation", "node_nic_gbits", "attention", *TARGETS)
)  # fmt: skip
_MOST: Final = 1e9
_MOST_LAYERS: Final = 10_000
_SHAPE: Final = ("hidden", "layers", "heads", "vocab")
_MEANT: Final = {
    "amp_bf16": "bf16",
    "amp_fp8": "fp8",
    "true": "full",
    "false": "none",
    "core_attn": "selective",
    "selective+sp": "selective",
}
"""How tables spell a precision and what is recomputed."""
Word = TypeVar("Word", bound=StrEnum)
_TRIED_MICRO_BATCHES: Final = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One row: a run and what was published of it.

    `open_degrees` are those that the row does not say, of which the fastest counts.
    """

    line_no: int
    label: str
    model: ModelShape
    training: Training
    layout: Layout
    machine: Machine
    target: str
    published: float
    open_degrees: tuple[str, ...] = ()
    attention_frac: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """A run with its prediction, and that of the baseline."""

    run: Run
    layout: Layout
    predicted: float
    naive: float

    @property
    def error_frac(self) -> float:
        """Return by what part the prediction is too high."""
        return self.predicted / self.run.published - 1

    @property
    def naive_error_frac(self) -> float:
        """Return the same of the baseline."""
        return self.naive / self.run.published - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A table's rows; `skipped` are (line, why), `ignored` columns that are not known."""

    rows: tuple[Evaluated, ...]
    skipped: tuple[tuple[int, str], ...]
    ignored: tuple[str, ...] = ()

    @property
    def mean_abs_error_frac(self) -> float:
        """Return the mean of the errors' sizes."""
        return _mean(abs(row.error_frac) for row in self.rows)

    @property
    def max_abs_error_frac(self) -> float:
        """Return the largest."""
        return max((abs(row.error_frac) for row in self.rows), default=0.0)

    @property
    def naive_mean_abs_error_frac(self) -> float:
        """Return the mean of the baseline's."""
        return _mean(abs(row.naive_error_frac) for row in self.rows)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def ignored_columns(text: str) -> tuple[str, ...]:
    """Return the columns of a table that nothing is done with, such as a source, or a slip."""
    names = text.removeprefix("\ufeff").lstrip().partition("\n")[0].split(",")
    return tuple(name.strip() for name in names if name.strip().lower() not in COLUMNS)


def read_table(text: str, source: str) -> tuple[list[Run], list[tuple[int, str]]]:
    """Return the runs of a CSV table, and the rows that are none, each with why.

    Raises ConfigError for a table without the columns that are needed.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").lstrip("\n")
    try:
        listed = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise ConfigError(f"not CSV: {error}", source=source) from None
    names = [name.strip().lower() for name in listed[0]] if listed else []
    columns = set(names)
    has_shape = "model" in columns or columns.issuperset(_SHAPE)
    if not has_shape or not columns.intersection(TARGETS) or "gpu" not in columns:
        raise ConfigError(
            f"missing columns; it has {', '.join(names)[:200] or 'none'}",
            source=source,
            hint=f"give model, or {', '.join(_SHAPE)}; gpu, gpus, seq, global_batch; and one of"
            f" {', '.join(TARGETS)}",
        )
    runs, skipped = [], []
    for line_no, cells in enumerate(listed[1:], start=2):
        row = dict(zip(names, cells, strict=False))
        if not any(cells):
            continue
        try:
            runs.append(read_run(row, line_no, source))
        except HpckitError as error:
            skipped.append((line_no, error.message))
    return runs, skipped


def read_run(row: Mapping[str, str | None], line_no: int, source: str) -> Run:
    """Return the run of one row. Raises ConfigError, PlanError."""
    cells = _Cells(row, source)
    target = next((name for name in TARGETS if cells.text(name)), None)
    if target is None:
        raise ConfigError(f"no value for any of {', '.join(TARGETS)}", source=source)
    model = _model(cells)
    machine = machine_of(
        accelerator_named(cells.text("gpu")), nic_gbits=cells.number("node_nic_gbits")
    )
    asked = _asked(cells)
    layout = layout_of(replace(asked, sequence_parallel=_is_split(asked)), cells.need("gpus"))
    is_modern = model.gated or machine.is_recent or layout.zero >= Zero.GRADIENTS
    training = _training(cells, layout, is_modern=is_modern)
    open_degrees: tuple[str, ...] = () if asked.micro_batch else ("micro_batch",)
    if asked.vp is None and layout.pipeline > 1 and "vp" in row:
        open_degrees += ("vp",)
    run = Run(
        line_no=line_no,
        label=cells.text("label") or model.name,
        model=model,
        training=training,
        layout=layout,
        machine=machine,
        target=target,
        published=cells.decimal(target) or 0.0,
        open_degrees=open_degrees,
        attention_frac=0.5 if cells.text("attention") == "causal" else 1.0,
    )
    if run.published <= 0:
        raise ConfigError(f"got {cells.text(target)!r}, expected a number above 0", key=target)
    check_layout(model, training, layout)
    return run


def _asked(cells: _Cells) -> Asked:
    return Asked(
        tp=cells.number("tp"),
        cp=cells.number("cp"),
        ep=cells.number("ep"),
        pp=cells.number("pp"),
        vp=cells.number("vp"),
        dp=cells.number("dp"),
        zero=Zero.WEIGHTS
        if cells.text("zero").lower() == "fsdp"
        else cells.number("zero", least=0, most=3),
        micro_batch=cells.number("micro_batch"),
        recompute=cells.word("recompute", Recompute),
    )


def _training(cells: _Cells, layout: Layout, *, is_modern: bool) -> Training:
    """Return what a row trains; `is_modern` runs have fused attention, as far as a table tells.

    GPTs on cards before H100 were trained without it, but by FSDP.
    """
    return Training(
        seq=cells.need("seq"),
        global_batch=cells.need("global_batch"),
        precision=cells.word("precision", Precision) or Precision.BF16,
        optimizer=cells.word("optimizer", Optimizer) or Optimizer.ADAM,
        grad_bytes=cells.number("grad_bytes"),
        flash=is_modern,
        dropout=False if layout.zero >= Zero.GRADIENTS else None,
        framework=cells.word("framework", Framework),
        fused_accumulation=cells.number("fused_accumulation", least=0) != 0,
    )


def _is_split(asked: Asked) -> bool:
    """Whether a row's run has sequence parallelism: it came with selective recomputing."""
    return asked.recompute is not Recompute.FULL


class _Cells:
    """The cells of a row; an empty one was not published."""

    def __init__(self, row: Mapping[str, str | None], source: str) -> None:
        self._row = row
        self._source = source

    def text(self, name: str) -> str:
        return (self._row.get(name) or "").strip()

    def decimal(self, name: str) -> float | None:
        text = self.text(name)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not abs(value) <= _MOST:  # not-a-number too
            raise ConfigError(
                f"got {text[:40]!r}, expected a number", source=self._source, key=name
            )
        return value

    def number(self, name: str, *, least: int = 1, most: float = _MOST) -> int | None:
        value = self.decimal(name)
        if value is None:
            return None
        if value != int(value) or not least <= value <= most:
            raise ConfigError(
                f"got {self.text(name)!r}, expected a whole number from {least} to {most:g}",
                source=self._source,
                key=name,
            )
        return int(value)

    def need(self, name: str) -> int:
        value = self.number(name)
        if value is None:
            raise ConfigError("missing", source=self._source, key=name)
        return value

    def word(self, name: str, kind: type[Word]) -> Word | None:
        text = self.text(name).lower()
        if not text:
            return None
        text = _MEANT.get(text, text)
        try:
            return kind(text)
        except ValueError:
            raise ConfigError(
                f"got {text!r}, expected one of {', '.join(kind)}", source=self._source, key=name
            ) from None


def _model(cells: _Cells) -> ModelShape:
    name, layers = cells.text("model"), cells.number("layers", most=_MOST_LAYERS)
    if not cells.text("hidden"):
        model = model_named(name)
        return replace(model, layers=layers or model.layers)
    hidden, heads = cells.need("hidden"), cells.need("heads")
    if heads > hidden:
        raise ConfigError(f"got {heads}, expected at most hidden {hidden}", key="heads")
    gated = cells.number("gated", least=0) == 1
    count = cells.number("experts", least=0, most=_MOST_LAYERS)
    ffn = cells.number("ffn") or 4 * hidden
    details = Details()
    if not gated:
        seq = cells.number("seq") or 0
        details = Details(norm_width=2, qkv_bias=True, out_bias=True, mlp_bias=True, positions=seq)
    return ModelShape(
        name=name or f"{hidden} × {layers}",
        hidden=hidden,
        layers=cells.need("layers"),
        heads=heads,
        kv_heads=cells.number("kv_heads") or heads,
        head_width=hidden // heads,
        ffn=ffn,
        vocab=cells.need("vocab"),
        gated=gated,
        tied=not gated,
        experts=Experts(count=count, top_k=cells.number("top_k") or 2, ffn=ffn) if count else None,
        details=details,
    )


# --- Predictions.


def evaluate(
    runs: Sequence[Run],
    skipped: Sequence[tuple[int, str]] = (),
    constants: Constants = FROZEN,
) -> Evaluation:
    """Return the predictions for runs, and the baseline's."""
    layouts = [best_layout(run, constants) for run in runs]
    naive = _naive(runs)
    return Evaluation(
        rows=tuple(
            Evaluated(
                run=run,
                layout=layout,
                predicted=predict(run, layout, constants),
                naive=baseline,
            )
            for run, layout, baseline in zip(runs, layouts, naive, strict=True)
        ),
        skipped=tuple(skipped),
    )


def best_layout(run: Run, constants: Constants = FROZEN) -> Layout:
    """Return the run's layout, what it leaves open chosen as the fastest that fits."""
    if not run.open_degrees or run.target not in _TIMES:
        return run.layout
    clock = Clock(run.model, run.training, run.machine, constants)
    tried = list(_completed(run))
    usable = run.machine.accelerator.memory_bytes
    fitting = [
        layout
        for layout in tried
        if verdict(memory(run.model, run.training, layout).device_bytes, usable) is not Verdict.NO
    ]
    return min(fitting or tried, key=lambda layout: clock.time(layout).step_s)


def _completed(run: Run) -> Iterator[Layout]:
    layout = run.layout
    sizes = _TRIED_MICRO_BATCHES if "micro_batch" in run.open_degrees else (layout.micro_batch,)
    stages = [layout.virtual]
    if "vp" in run.open_degrees:
        each = run.model.layers // layout.pipeline
        stages = [n for n in range(1, each + 1) if each % n == 0]
    for micro_batch in sizes:
        for virtual in stages:
            tried = replace(layout, micro_batch=micro_batch, virtual=virtual)
            try:
                check_layout(run.model, run.training, tried)
            except PlanError:
                continue
            yield tried


def predict(run: Run, layout: Layout, constants: Constants = FROZEN) -> float:
    """Return what a run should publish, in the unit of its target."""
    if run.target == "peak_mem_gib":
        return memory(run.model, run.training, layout).peak_bytes / 2**30
    if run.target == "device_mem_gib":
        return memory(run.model, run.training, layout).device_bytes / 2**30
    step_s = Clock(run.model, run.training, run.machine, constants).time(layout).step_s
    return _of_time(run, layout, step_s)


def _of_time(run: Run, layout: Layout, step_s: float) -> float:
    """Return a step's time in the unit of the target."""
    training = run.training
    if run.target == "tokens_per_s_per_gpu":
        return training.seq * training.global_batch / layout.gpus / step_s
    if run.target == "model_tflops_per_gpu":
        return model_flops(run, run.attention_frac) / layout.gpus / step_s / 1e12
    if run.target == "hw_tflops_per_gpu":
        return hardware_flops(run) / layout.gpus / step_s / 1e12
    return step_s


def model_flops(run: Run, attention_frac: float = 1.0) -> float:
    """Return the FLOPs of a step that the mathematics needs."""
    training = run.training
    return step_flops(
        run.model,
        seq=training.seq,
        sequences=training.global_batch,
        attention_frac=attention_frac,
    )


def hardware_flops(run: Run) -> float:
    """Return the FLOPs of a step with what full recomputing does again: all but the head."""
    flops = model_flops(run)
    if run.layout.recompute is not Recompute.FULL:
        return flops
    head = 6.0 * run.training.seq * run.training.global_batch * run.model.hidden * run.model.vocab
    return flops + (flops - head) / 3


def _naive(runs: Sequence[Run]) -> list[float]:
    """Return the baseline: one efficiency for all rows, that which fits them best."""
    timed = [run for run in runs if run.target in _TIMES]
    ideal = {id(run): _of_time(run, run.layout, _ideal_s(run)) for run in timed}
    ratios = [math.log(run.published / ideal[id(run)]) for run in timed]
    fitted = math.exp(_mean(ratios)) if ratios else 1.0
    return [ideal[id(run)] * fitted if id(run) in ideal else _naive_memory(run) for run in runs]


def _ideal_s(run: Run) -> float:
    fp8 = run.training.precision is Precision.FP8
    peak = run.machine.accelerator.peak_flops(fp8=fp8)
    return hardware_flops(run) / (run.layout.gpus * peak)


def _naive_memory(run: Run) -> float:
    """Return 16 bytes a parameter over the GPUs that share them, and no activations."""
    layout = run.layout
    shared = layout.tensor * layout.pipeline * (layout.shard_ranks if layout.zero else 1)
    states = 4 / (layout.tensor * layout.pipeline) + 12 / shared
    return parameters(run.model) * states / 2**30
