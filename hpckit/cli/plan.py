"""`hpckit plan`: does the model fit on these GPUs, and what they draw."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.plan_options import PlanOptions, plan_options
from hpckit.core.errors import ConfigError

if TYPE_CHECKING:
    from hpckit.planner.accelerators import Accelerator
    from hpckit.planner.answer import Answer, Wishes
    from hpckit.planner.asked import Asked
    from hpckit.planner.machine import Machine
    from hpckit.planner.model import ModelShape
    from hpckit.spec.site import SiteSpec

_COMMAND: Final = "hpckit.plan.command"
_TYPED: Final = "hpckit.plan.typed"
_EXAMPLES: Final = """\b
Examples:
  hpckit plan Llama-3-70B --gpu h100 --gpus 64 --tp 8
  hpckit plan --params 175e9 --gpu a100        what a number of parameters tells
  hpckit plan --gpus 10000 --gpu-power-w 400   what GPUs and their building draw
  hpckit plan evaluate TABLE.csv               predictions beside published figures
"""


class _PlanCommand(click.Command):
    """`hpckit plan`, whose words after `--` are a framework's command; `evaluate` is its own."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:  # fmt: skip
        """Hand `evaluate` to the command of that name."""
        if args[:1] == ["evaluate"]:
            name = f"{info_name} evaluate"
            return evaluate_command.make_context(name, args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words after the first `--` apart."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[at + 1 :])
            args = args[:at]
        ctx.meta[_TYPED] = tuple(args)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Say in the usage line that a command may follow."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


@click.command("evaluate")
@click.argument("table", type=click.Path(allow_dash=True), metavar="TABLE.csv")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def evaluate_command(*, table: str, as_json: bool) -> None:
    """Print predictions beside the published figures of TABLE, and their errors.

    Columns: model, or hidden, layers, heads, vocab (and kv_heads, ffn, gated, experts, top_k);
    gpu, gpus, seq, global_batch, micro_batch, tp, cp, ep, pp, vp, dp, zero, precision, recompute;
    and one of step_s, tokens_per_s_per_gpu, model_tflops_per_gpu, hw_tflops_per_gpu,
    peak_mem_gib. Of micro_batch and vp that a row leaves empty the fastest counts. Also known are
    label, optimizer, grad_bytes, framework (megatron, deepspeed, fsdp), node_nic_gbits (of all NICs
    of a node), fused_accumulation (0, 1), attention (full, causal) and device_mem_gib (nvidia-smi).
    """
    from hpckit.planner import document, show
    from hpckit.planner.table import evaluate, ignored_columns, read_table

    read = wiring.model_file(table)
    if read is None:
        raise ConfigError(f"no such file: {table}")
    found = replace(evaluate(*read_table(*read)), ignored=ignored_columns(read[0]))
    if not found.rows:
        line_no, why = found.skipped[0] if found.skipped else (1, "no rows")
        raise ConfigError(f"no row can be evaluated; line {line_no}: {why}", source=table)
    if as_json:
        output.document(document.evaluation_tree(found))
    else:
        output.say(show.evaluation_lines(found, width=output.screen_width()))


@click.command("plan", cls=_PlanCommand, epilog=_EXAMPLES)
@click.argument("model", required=False, metavar="[MODEL]")
@plan_options
@click.pass_context
def plan_command(ctx: click.Context, /, *, as_json: bool, **params: Any) -> None:
    """Show whether MODEL fits on the GPUs, how to split it, how long it takes and what it draws.

    MODEL is a config.json, a name such as Llama-3-70B, or a YAML or TOML file of a framework;
    Megatron-LM's command line goes after --. No GPU, no weights and no network are needed.
    """
    options = _options(ctx, params, as_json=as_json)
    if options.from_report is not None:
        _compare(options, options.from_report)
    elif options.params is not None:
        _rough(options)
    elif options.model is None and not options.words:
        _power(options)
    else:
        _fit(options)


def _options(ctx: click.Context, params: dict[str, Any], *, as_json: bool) -> PlanOptions:
    from hpckit.planner.asked import Asked
    from hpckit.planner.layout import Optimizer, Precision, Recompute

    asked = Asked(
        **{name: params.pop(name) for name in
           ("seq", "global_batch", "micro_batch", "tp", "cp", "ep", "pp", "vp", "dp", "zero",
            "shard")},
        recompute=_word(Recompute, params.pop("recompute")),
        precision=_word(Precision, params.pop("precision")),
        optimizer=_word(Optimizer, params.pop("optimizer")),
        grad_bytes=None if (said := params.pop("grad_bytes")) is None else int(said),
        lora_rank=params.pop("lora"),
        quantized=params.pop("qlora") or None,
    )  # fmt: skip
    if asked.quantized and asked.lora_rank is None:
        raise click.UsageError("--qlora goes with --lora RANK")
    batch = params.pop("batch")
    options = PlanOptions(
        **params,
        asked=asked,
        json=as_json,
        words=ctx.meta.get(_COMMAND, ()),
        typed=ctx.meta.get(_TYPED, ()),
        batch=batch or 1,
        currency="",
    )
    _check_together(options, has_batch=batch is not None)
    return options


def _word(kind: Any, said: str | None) -> Any:
    return None if said is None else kind(said)


def _check_together(options: PlanOptions, *, has_batch: bool) -> None:
    """Raise click.UsageError for options that say two things, or would do nothing."""
    said = [options.model is not None, options.params is not None, bool(options.words)]
    if sum(said) > 1:
        raise click.UsageError("one of MODEL, --params and a command after -- says the model")
    if options.from_report is not None and any(said):
        raise click.UsageError("--from-report takes the model from the job")
    if has_batch and not options.inference:
        raise click.UsageError("--batch goes with --inference; of training it is --global-batch")
    _check_unused(options)
    if not any(said) and options.gpus is None and options.from_report is None:
        raise click.UsageError(
            "what is to be planned: MODEL, --params N, or --gpus N with --gpu or --gpu-power-w"
        )


_OF_A_RUN: Final = ("write", "svg", "html", "tokens", "nodelist", "power_cap_w")
"""Options of a training run."""


def _check_unused(options: PlanOptions) -> None:
    """Raise click.UsageError for an option that another one makes idle."""
    rows = (
        (options.json, "--json", ("write", "svg", "html")),
        (options.write is not None, "--write", ("svg", "html", "layers")),
        (options.from_report is not None, "--from-report", ("json", "gpus", *_OF_A_RUN)),
        (options.inference, "--inference", _OF_A_RUN),
        (options.params is not None, "--params", ("gpus", "inference", "node", *_OF_A_RUN)),
        (options.node is not None, "--node", ("node_gpus", "node_gbits")),
        (options.model is None and not options.words, "no MODEL", _OF_A_RUN),
        (not options.inference and options.params is None, "training (--precision says it)",
         ("dtype",)),
        (options.fabric is not None and options.nodelist is None, "--fabric without --nodelist",
         ("fabric",)),
    )  # fmt: skip
    for is_said, name, others in rows:
        for other in others:
            if is_said and getattr(options, other):
                flag = f"--{other.replace('_', '-')}"
                raise click.UsageError(f"{name} does nothing with {flag}")
    if options.params is not None and options.asked != type(options.asked)():
        raise click.UsageError("--params answers roughly: it takes no layout and no adapters")
    if options.write is not None and (options.asked.grad_bytes or options.asked.shard):
        raise click.UsageError("--write: a job file has no key for --grad-bytes and --shard")


def _accelerator(options: PlanOptions) -> Accelerator | None:
    from hpckit.planner.accelerators import accelerator_named, of_site

    if options.gpu is None:
        return None
    card, _, count = options.gpu.rpartition(":")
    if card and count.isdecimal():
        raise click.UsageError(f"--gpu is a name alone; instead: --gpu {card} --gpus {count}")
    site = _site(options)
    return accelerator_named(options.gpu, () if site is None else of_site(site.accelerators))


def _site(options: PlanOptions) -> SiteSpec | None:
    if options.site is None:
        return None
    from hpckit.jobs.sites import load_site

    return load_site(wiring.resources(options.site_dirs), options.site)


def _rough(options: PlanOptions) -> None:
    from hpckit.planner import document, show

    accelerator = _accelerator(options)
    count, dtype = options.params or 0.0, options.dtype or "bf16"
    if options.json:
        output.document(document.rough_tree(count, dtype, accelerator))
    else:
        output.say(show.rough_lines(count, dtype, accelerator, output.screen_width()))


def _power(options: PlanOptions) -> None:
    from hpckit.planner import document, show
    from hpckit.planner.power import facility

    accelerator = _accelerator(options)
    rated_w = None if accelerator is None else accelerator.tdp_w
    gpu_w = options.gpu_power_w or rated_w
    if gpu_w is None:
        if accelerator is None:
            raise click.UsageError("--gpu NAME or --gpu-power-w W says what a GPU draws")
        raise ConfigError(
            f"the rated power of {accelerator.name} is unknown: its maker publishes none",
            hint="--gpu-power-w W",
        )
    gpus = options.gpus or 1
    found = facility(gpus, gpu_w, options.pue)
    if options.json:
        output.document(document.facility_tree(gpus, gpu_w, found))
    else:
        kind = accelerator.name if accelerator else "GPU"
        output.say(show.facility_lines(gpus, gpu_w, found, kind, output.screen_width()))


def _model(options: PlanOptions) -> tuple[ModelShape, Asked]:
    """Return the model and what its file or command says of the run; options override it."""
    from hpckit.planner.arguments import model_of_command
    from hpckit.planner.asked import Asked
    from hpckit.planner.catalogue import known_model, model_named

    if options.words:
        model, asked = model_of_command(options.words, options.vocab)
    elif (found := known_model(options.model or "")) is not None:
        model, asked = found, Asked()
    elif (read := wiring.model_file(options.model or "")) is not None:
        model, asked = _of_file(options, *read)
    else:
        model, asked = model_named(options.model or ""), Asked()
    if options.layers is not None:
        model = replace(model, layers=options.layers)
    return model, options.asked.over(asked)


def _of_file(options: PlanOptions, text: str, name: str) -> tuple[ModelShape, Asked]:
    """Return what a file says: a model's, a framework's, or a job file with `[model]`."""
    from hpckit.planner.arguments import model_of_command, model_of_file
    from hpckit.planner.catalogue import known_model
    from hpckit.planner.job_file import is_job_file, read_job

    if not name.endswith(".toml") or not is_job_file(text):
        return model_of_file(text, name)
    planned = read_job(text, name)
    options.vocab = options.vocab or planned.vocab
    options.gpus = options.gpus or planned.gpus
    options.gpu = options.gpu or planned.gpu
    if planned.config is None:
        model, asked = model_of_command(planned.command, options.vocab)
        return model, planned.asked.over(asked)
    options.model = planned.config
    found = known_model(planned.config)
    if found is not None:
        return found, planned.asked
    config = Path(name).parent / planned.config
    read = wiring.model_file(str(config))
    if read is None:
        raise ConfigError(f"no such file: {config}", source=name, key="model.config")
    options.model = str(config)
    return model_of_file(*read)[0], planned.asked


def _fit(options: PlanOptions) -> None:
    from hpckit.planner import document, show
    from hpckit.planner.answer import answer
    from hpckit.planner.fit import fewest_gpus
    from hpckit.planner.machine import capped

    model, asked = _model(options)
    machine = _machine(options)
    if options.inference:
        _serve(options, model, machine.accelerator)
        return
    if options.power_cap_w is not None:
        machine = capped(machine, options.power_cap_w)
    asked = _precise(asked, machine)
    gpus = _gpus(options, machine)
    gpus = gpus or fewest_gpus(model, asked, machine.accelerator).layout.gpus
    wishes = _wishes(options)
    made = answer(model, asked, gpus, machine, wishes)
    made, crossing = _on_fabric(options, made)
    if options.json:
        output.document(document.answer_tree(made))
        return
    if options.write is not None:
        _write(options, made)
        return
    lines = show.answer_lines(
        made, width=output.screen_width(), command=_again(options, made),
        explain=options.explain, crossing=crossing,
    )  # fmt: skip
    if options.svg is not None or options.html is not None:
        from hpckit.planner.answer import at_other_sizes

        sizes = at_other_sizes(model, asked, gpus, machine, wishes)
        _draw(options, made, sizes, [line.text for line in lines])
    output.say(lines)
    for file in filter(None, (options.svg, options.html)):
        output.talk(f" wrote {file}")


def _compare(options: PlanOptions, job: str) -> None:
    """Print what a job measured beside what was predicted of it."""
    from hpckit.api import measured_job
    from hpckit.planner.answer import Wishes, answer
    from hpckit.planner.job_file import planned_of
    from hpckit.planner.measured import Measured, compared_lines, settled, step_times

    found = measured_job(job)
    planned = planned_of(found.job, f"job {job}")
    gpus = found.gpus or planned.gpus or 1
    options.gpu = options.gpu or planned.gpu or found.gpu_name
    if planned.config is None:
        from hpckit.planner.arguments import model_of_command

        model, asked = model_of_command(planned.command, options.vocab)
        asked = planned.asked.over(asked)
    else:
        options.model, asked = planned.config, planned.asked
        model = _model(options)[0]
    made = answer(model, options.asked.over(asked), gpus, _machine(options), Wishes())
    training = made.question.training
    times = step_times(found.log, training.seq * training.global_batch / gpus)
    measured = Measured(
        step_s=settled(times), steps=len(times), power_w=found.power_w, peak_bytes=found.peak_bytes
    )
    output.say(compared_lines(made, measured))


def _machine(options: PlanOptions) -> Machine:
    """Return the machine that is said, with what its site's file says of it and of energy."""
    machine, site = _said_machine(options), _site(options)
    if site is None:
        return machine
    energy = site.energy
    options.pue = options.pue or energy.pue
    options.price_per_kwh = options.price_per_kwh or energy.price_per_kwh
    options.co2_g_per_kwh = options.co2_g_per_kwh or energy.co2_g_per_kwh
    options.currency = energy.currency or ""
    return replace(machine, step_scale=site.planner.step_scale or 1.0)


def _said_machine(options: PlanOptions) -> Machine:
    """Return the machine that is said: a kind of GPU, or a node that was inspected."""
    from hpckit.planner.machine import machine_of, machine_of_node

    if options.node is not None:
        from hpckit.node.capture.snapshot import inspect_capture

        node = inspect_capture(*wiring.read_capture(options.node))[0]
        return machine_of_node(node, _accelerator(options))
    accelerator = _accelerator(options)
    if accelerator is None:
        raise click.UsageError("--gpu NAME says on what, such as --gpu h100; or --node FILE")
    if options.gpu_power_w is not None:
        accelerator = replace(accelerator, tdp_w=options.gpu_power_w)
    return machine_of(accelerator, node_gpus=options.node_gpus, nic_gbits=options.node_gbits)


def _precise(asked: Asked, machine: Machine) -> Asked:
    """Return what is asked in a precision that the card has. Raises PlanError."""
    from hpckit.core.errors import PlanError
    from hpckit.planner.layout import Precision

    card = machine.accelerator
    if card.has_bf16:
        return asked
    if asked.precision is Precision.BF16:
        raise PlanError(
            f"{card.name} multiplies no bf16", have="fp16", need="bf16", hint="--precision fp16"
        )
    return replace(asked, precision=asked.precision or Precision.FP16)


def _wishes(options: PlanOptions) -> Wishes:
    from hpckit.planner.answer import Wishes

    return Wishes(
        tokens=options.tokens,
        mttf_gpu_h=options.mttf_gpu_h,
        checkpoint_s=options.checkpoint_s,
        restart_s=options.restart_s,
        pue=options.pue,
        price_per_kwh=options.price_per_kwh,
        currency=options.currency,
        co2_g_per_kwh=options.co2_g_per_kwh,
    )


def _gpus(options: PlanOptions, machine: Machine) -> int | None:
    """Return the GPUs that are said, or those of the nodes that are."""
    if options.nodelist is None:
        return options.gpus
    from hpckit.cli.fabric import nodes_of

    gpus = len(nodes_of(options.nodelist)) * machine.node_gpus
    if options.gpus not in (None, gpus):
        raise click.UsageError(f"--nodelist has {gpus} GPUs, --gpus says {options.gpus}")
    return gpus


def _on_fabric(options: PlanOptions, made: Answer) -> tuple[Answer, Sequence[str]]:
    """Return the answer on the fabric of the nodes that are said, and which groups cross it."""
    if options.nodelist is None:
        return made, ()
    from hpckit.cli.fabric import fabric_of, nodes_of
    from hpckit.planner.on_fabric import ranked_on

    topology = fabric_of(options.fabric, None)
    found, cost = ranked_on(made, nodes_of(options.nodelist), topology)
    return found, cost.crossing


def _draw(
    options: PlanOptions, made: Answer, sizes: Sequence[Answer], lines: Sequence[str]
) -> None:
    """Write the picture, and the page around it."""
    from hpckit.planner.picture import plan_html, plan_svg

    picture = plan_svg(made, sizes)
    if options.svg is not None:
        wiring.write_whole(options.svg, picture)
    if options.html is not None:
        wiring.write_whole(options.html, plan_html(made, picture, lines))


def _write(options: PlanOptions, made: Answer) -> None:
    """Write the layout as a job file."""
    from hpckit.core.errors import PlanError
    from hpckit.planner.fit import Verdict
    from hpckit.planner.job_file import framework_words, job_text

    if made.verdict is Verdict.NO:
        change = made.change.options if made.change else None
        raise PlanError(
            "memory of a GPU",
            have=f"{made.machine.accelerator.memory_bytes / 1e9:.3g} GB",
            need=f"{made.memory.device_bytes / 1e9:.3g} GB",
            hint=change,
        )
    file = str(options.write)
    config, command = None if options.words else options.model, options.words
    if config == "-":
        raise click.UsageError("--write names the model's file in the job: give a file, not -")
    if config is not None and wiring.model_file(config) is not None:
        config = os.path.relpath(config, Path(file).parent)
    if command:
        question = made.question
        command = (*command, *framework_words(question.model, question.training, question.layout))
    text = job_text(made, config=config, command=command, node_gbits=options.node_gbits)
    wiring.write_new(file, text)
    program = "" if command else " -- python train.py"
    output.result(f" wrote {file}: {made.question.layout.words()}")
    output.result(f" next  hpckit check {file}{program} · hpckit submit {file}{program}")


def _again(options: PlanOptions, made: Answer) -> str:
    """Return the command that comes next: the same with what makes it fit, or written down."""
    if made.change is None:
        if str(options.model).endswith(".toml"):
            return f"hpckit check {shlex.quote(str(options.model))}"
        gpus = () if options.gpus else ("--gpus", str(made.question.layout.gpus))
        changed = [*gpus, "--write", "job.toml"]
    else:
        changed = made.change.options.split()
        if options.gpus is None and "--gpus" not in changed:
            changed += ["--gpus", str(made.change.layout.gpus)]
    idle = {"--dp"} if made.change is not None else set()
    typed = [word for word in options.typed if word != "--explain"]
    words = [*_without(typed, {*changed[::2], *idle, "--svg", "--html"}), *changed]
    command = f"hpckit plan {shlex.join(words)}"
    return f"{command} -- {shlex.join(options.words)}" if options.words else command


def _without(words: Sequence[str], names: Collection[str]) -> Iterator[str]:
    """Yield words of a command line without these options and their values."""
    rest = iter(words)
    for word in rest:
        if word in names:
            next(rest, None)
        elif word.partition("=")[0] not in names:
            yield word


def _serve(options: PlanOptions, model: ModelShape, accelerator: Accelerator) -> None:
    from hpckit.planner import document, show
    from hpckit.planner.fit import BYTES_OF, Serving

    asked = options.asked
    pipeline = asked.pp or 1
    tensor = asked.tp or max(1, (options.gpus or 1) // pipeline)
    if model.heads % tensor:
        raise click.UsageError(f"--tp {tensor} does not divide the {model.heads} attention heads")
    if options.gpus not in (None, tensor * pipeline):
        raise click.UsageError(
            f"--gpus {options.gpus} is not --tp {tensor} × --pp {pipeline}: one copy is looked at"
        )
    serving = Serving(
        context=asked.seq or 4096,
        batch=options.batch,
        weight_bytes=BYTES_OF[options.dtype or "bf16"],
        tensor=tensor,
        pipeline=pipeline,
    )
    if options.json:
        output.document(document.serving_tree(model, serving, accelerator))
    else:
        output.say(show.serving_lines(model, serving, accelerator, width=output.screen_width()))
