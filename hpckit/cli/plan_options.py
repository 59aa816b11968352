"""The options of `hpckit plan`, and what they say together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import click

from hpckit import wiring
from hpckit.cli.fabric import BoundedFloat
from hpckit.cli.job_argument import complete_site

if TYPE_CHECKING:
    from hpckit.planner.asked import Asked

_MOST_GPUS: Final = 1 << 20
_MOST_PARAMETERS: Final = 1e15
_DTYPES: Final = ("fp32", "bf16", "fp16", "fp8", "int8", "int4", "nf4")


class PlanOptions(SimpleNamespace):
    """What `hpckit plan` is asked."""

    model: str | None
    params: float | None
    dtype: str | None
    gpu: str | None
    gpus: int | None
    site: str | None
    site_dirs: tuple[Path, ...]
    from_report: str | None
    node: str | None
    nodelist: str | None
    fabric: str | None
    node_gpus: int | None
    node_gbits: float | None
    tokens: float | None
    mttf_gpu_h: float | None
    checkpoint_s: float | None
    restart_s: float | None
    power_cap_w: float | None
    explain: bool
    write: str | None
    svg: str | None
    html: str | None
    gpu_power_w: float | None
    pue: float | None
    price_per_kwh: float | None
    co2_g_per_kwh: float | None
    currency: str
    vocab: int | None
    layers: int | None
    inference: bool
    batch: int
    json: bool
    words: tuple[str, ...]
    typed: tuple[str, ...]
    asked: Asked


def _size(flag: str, help_: str, most: int = _MOST_GPUS) -> Callable[..., Any]:
    return click.option(flag, type=click.IntRange(1, most), metavar="N", help=help_)


class _Number(BoundedFloat):
    """A count as people write it: 175e9, 7000000000 or 175B."""

    name = "number"

    def __init__(self) -> None:
        super().__init__(1, _MOST_PARAMETERS)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number. Raises click.BadParameter."""
        text = str(value).strip()
        factor = {"T": 1e12, "B": 1e9, "G": 1e9, "M": 1e6}.get(text[-1:].upper(), 1.0)
        try:
            number = float(text[:-1] if factor > 1 else text) * factor
        except ValueError:
            number = 0.0
        if not 1 <= number <= _MOST_PARAMETERS:
            self.fail(f"{value!r} is no number of parameters such as 175e9 or 70B", param, ctx)
        return number


_OPTIONS: Final = (
    click.option(
        "--params", type=_Number(), help="Parameters alone, such as 175e9: a rough answer."
    ),
    click.option("--dtype", type=click.Choice(_DTYPES), help="Of the weights.  [default: bf16]"),
    click.option("--gpu", metavar="NAME", help="Kind of GPU, such as h100 or A100-SXM4-40GB."),
    _size("--gpus", "GPUs of the run.  [default: as few as fit]"),
    click.option(
        "--node",
        type=click.Path(allow_dash=True),
        metavar="FILE",
        help="An inspected node (`hpckit inspect --json`): its GPUs and NICs.",
    ),
    click.option(
        "--nodelist",
        metavar="LIST",
        help="The nodes, such as 'n[001-064]': their fabric counts, Slurm's or that of --fabric.",
    ),
    click.option(
        "--fabric",
        type=click.Path(allow_dash=True),
        metavar="FILE",
        help="With --nodelist: the network, a FILE as `hpckit fabric` takes it.",
    ),
    _size("--node-gpus", "GPUs of a node.  [default: of the GPU's usual node]", 1024),
    click.option(
        "--node-gbits",
        type=BoundedFloat(0.001, 1e6),
        metavar="GBITS",
        help="What a node's NICs carry together.  [default: of the GPU's usual node]",
    ),
    _size("--seq", "Tokens of a sequence.  [default: 4096]", 1 << 30),
    _size("--global-batch", "Sequences of a step.  [default: 4 per GPU]", 1 << 30),
    _size("--micro-batch", "Sequences of a micro-batch.", 1 << 20),
    _size("--tp", "Tensor parallel degree."),
    _size("--cp", "Context parallel degree."),
    _size("--ep", "Expert parallel degree."),
    _size("--pp", "Pipeline parallel degree."),
    _size("--vp", "Virtual pipeline stages on each GPU (interleaved schedule)."),
    _size("--dp", "Data parallel degree.  [default: what is left of the GPUs]"),
    click.option(
        "--zero",
        type=click.IntRange(0, 3),
        metavar="STAGE",
        help="ZeRO stage: 1 is Megatron's distributed optimizer, 3 is FSDP.  [default: 1 where a"
        " degree is given, else the fastest]",
    ),
    _size("--shard", "Ranks that share sharded states (HSDP).  [default: all of data and context]"),
    click.option(
        "--recompute",
        type=click.Choice(["none", "selective", "full"]),
        help="Activations that the backward pass computes again; with fused attention selective is"
        " none.  [default: selective where a degree is given, else the fastest]",
    ),
    click.option(
        "--precision",
        type=click.Choice(["bf16", "fp16", "fp8"]),
        help="Of matrix products.  [default: bf16]",
    ),
    click.option(
        "--optimizer",
        type=click.Choice(["adam", "adam-bf16", "adam-8bit", "muon", "sgd"]),
        help="Optimizer, by its states.  [default: adam]",
    ),
    click.option(
        "--grad-bytes",
        type=click.Choice(["2", "4"]),
        help="Bytes of a gradient.  [default: 4, with fp16 2]",
    ),
    _size("--lora", "Train LoRA adapters of this rank alone.", 1 << 16),
    click.option("--qlora", is_flag=True, help="With --lora: frozen weights in 4 bits."),
    _size("--layers", "Keep so many layers of the model.", 10_000),
    _size(
        "--vocab", "Vocabulary, where a Megatron-LM command leaves it to the tokenizer.", 1 << 24
    ),
    click.option(
        "--inference", is_flag=True, help="Memory to serve the model: weights and KV cache."
    ),
    _size("--batch", "With --inference: requests at once.  [default: 1]", 1 << 20),
    click.option("--tokens", type=_Number(), help="Tokens to train on: time, failures and energy."),
    click.option(
        "--mttf-gpu-h",
        type=BoundedFloat(1, 1e9),
        metavar="HOURS",
        help="GPU-hours between failures of a job.  [default: 50700, Llama 3's]",
    ),
    click.option(
        "--checkpoint-s",
        type=BoundedFloat(0.001, 1e6),
        metavar="S",
        help="Seconds that a checkpoint stops training.  [default: 14 bytes a parameter"
        " at 2 GB/s a node]",
    ),
    click.option(
        "--restart-s",
        type=BoundedFloat(0, 1e6),
        metavar="S",
        help="Seconds from a failure to training again.  [default: 600]",
    ),
    click.option(
        "--power-cap-w",
        type=BoundedFloat(50, 1e5),
        metavar="W",
        help="Power that a GPU may draw.  [default: its rating]",
    ),
    click.option(
        "--explain", is_flag=True, help="All terms, and why the best layout beats others."
    ),
    click.option("--svg", metavar="FILE", help="Draw memory, step times and energy as a picture."),
    click.option("--html", metavar="FILE", help="The same as a page, with the answer."),
    click.option(
        "--site-dir",
        "site_dirs",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Folder of site files, searched first.",
    ),
    click.option(
        "--site",
        default=wiring.user_site,
        envvar="HPCKIT_SITE",
        shell_complete=complete_site,
        help="Take GPUs, PUE and the scale of step times from this site's file.",
    ),
    click.option(
        "--from-report",
        metavar="JOB_ID",
        help="Compare the step time, memory and power that a job measured with its prediction.",
    ),
    click.option("--write", metavar="FILE", help="Write the layout as a job file."),
    click.option(
        "--gpu-power-w",
        type=BoundedFloat(1, 1e5),
        metavar="W",
        help="Rated power of a GPU.  [default: that of --gpu]",
    ),
    click.option(
        "--price-per-kwh",
        type=BoundedFloat(0, 1e6),
        metavar="PRICE",
        help="With --tokens: price of a kWh.  [default: the site's]",
    ),
    click.option(
        "--co2-g-per-kwh",
        type=BoundedFloat(0, 1e5),
        metavar="GRAMS",
        help="With --tokens: CO2 of a kWh.  [default: the site's]",
    ),
    click.option(
        "--pue",
        type=BoundedFloat(1, 5),
        help="Power of the building over that of the machines.  [default: 1.1 to 1.58]",
    ),
    click.option("--json", "as_json", is_flag=True, help="One JSON document, hpckit.fit/1."),
)


def plan_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `hpckit plan`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function
