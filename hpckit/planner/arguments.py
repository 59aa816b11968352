"""A framework's own arguments become a model's shape and what is asked of the run.

Megatron-LM's command line (`megatron/training/arguments.py`), and the keys that matter of YAML and
TOML files: NeMo and Megatron-Bridge, torchtitan, axolotl.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from hpckit.core.errors import ConfigError
from hpckit.planner.asked import Asked
from hpckit.planner.catalogue import known_model
from hpckit.planner.config_json import read_config, shape_of
from hpckit.planner.layout import Optimizer, Precision, Recompute
from hpckit.planner.model import Details, Experts, LatentAttention, ModelShape

_INTS: Final = {
    "--seq-length": "seq",
    "--global-batch-size": "global_batch",
    "--micro-batch-size": "micro_batch",
    "--tensor-model-parallel-size": "tp",
    "--context-parallel-size": "cp",
    "--expert-model-parallel-size": "ep",
    "--pipeline-model-parallel-size": "pp",
    "--num-virtual-stages-per-pipeline-rank": "vp",
}
_VALUES: Final = frozenset(
    (*_INTS, "--num-layers", "--hidden-size", "--num-attention-heads", "--num-query-groups",
     "--ffn-hidden-size", "--kv-channels", "--vocab-size", "--padded-vocab-size", "--num-experts",
     "--moe-router-topk", "--moe-ffn-hidden-size", "--moe-shared-expert-intermediate-size",
     "--max-position-embeddings", "--position-embedding-type", "--normalization",
     "--recompute-granularity", "--optimizer", "--fp8-format", "--q-lora-rank", "--kv-lora-rank",
     "--qk-head-dim", "--qk-pos-emb-head-dim", "--v-head-dim", "--moe-layer-freq",
     "--num-layers-per-virtual-pipeline-stage", "--expert-tensor-parallel-size",
     "--exp-avg-dtype", "--zero-stage", "--main-grads-dtype", "--data-parallel-sharding-strategy")
)  # fmt: skip


def is_megatron(words: Sequence[str]) -> bool:
    """Return whether a command names the shape of a model as Megatron-LM does."""
    names = {word.partition("=")[0] for word in words}
    return {"--num-layers", "--hidden-size", "--num-attention-heads"} <= names


class _Options:
    """The options of a command line, the last of a name."""

    def __init__(self, words: Sequence[str]) -> None:
        self._said: dict[str, str] = {}
        rest = iter(words)
        for word in rest:
            name, is_joined, value = word.partition("=")
            if name in _VALUES:
                self._said[name] = value if is_joined else next(rest, "")
            elif word.startswith("--"):
                self._said[name] = ""

    def has(self, name: str) -> bool:
        return name in self._said

    def text(self, name: str) -> str | None:
        return self._said.get(name)

    def number(self, name: str) -> int | None:
        value = self._said.get(name)
        if value is None:
            return None
        try:
            number = int(value)
        except ValueError:
            number = 0
        if number < 1:
            raise ConfigError(
                f"got {value!r}, expected a whole number", source="the command", key=name
            )
        return number

    def need(self, name: str, *, hint: str | None = None) -> int:
        number = self.number(name)
        if number is None:
            raise ConfigError("missing", source="the command", key=name, hint=hint)
        return number


def read_megatron(words: Sequence[str], vocab: int | None = None) -> tuple[ModelShape, Asked]:
    """Return the model and the run that a Megatron-LM command describes.

    `vocab` stands in for a vocabulary that only its tokenizer knows. Raises ConfigError.
    """
    options = _Options(words)
    hidden, heads = options.need("--hidden-size"), options.need("--num-attention-heads")
    gated = options.has("--swiglu")
    found = options.number("--padded-vocab-size") or options.number("--vocab-size") or vocab
    if found is None:
        hint = "give the tokenizer's vocabulary size: --vocab N"
        raise ConfigError("missing", source="the command", key="--vocab-size", hint=hint)
    groups = options.number("--num-query-groups")
    ffn = options.number("--ffn-hidden-size")
    model = ModelShape(
        name="Megatron-LM model",
        hidden=hidden,
        layers=options.need("--num-layers"),
        heads=heads,
        kv_heads=groups or heads,
        head_width=options.number("--kv-channels") or hidden // heads,
        ffn=ffn or (_swiglu_width(hidden) if gated else 4 * hidden),
        vocab=found,
        gated=gated,
        tied=not options.has("--untie-embeddings-and-output-weights"),
        experts=_experts(options, ffn or 4 * hidden),
        latent=_latent(options),
        details=_details(options, options.number("--kv-channels") or hidden // heads),
    )
    return model, _asked(options, model.layers)


def _details(options: _Options, head_width: int) -> Details:
    has_rms = (options.text("--normalization") or "").lower() == "rmsnorm"
    bias = not options.has("--disable-bias-linear")
    rotary = options.text("--position-embedding-type") == "rope" or options.has(
        "--use-rotary-position-embeddings"
    )
    positions = 0 if rotary else options.number("--max-position-embeddings")
    return Details(
        norm_width=1 if has_rms else 2,
        qkv_bias=bias or options.has("--add-qkv-bias"),
        out_bias=bias,
        mlp_bias=bias,
        query_key_norms=2 * head_width if options.has("--qk-layernorm") else 0,
        positions=positions or 0,
    )


def _swiglu_width(hidden: int) -> int:
    """Return the width that Megatron-LM gives a gated MLP by itself: two thirds, in 64s."""
    return int(4 * hidden * 2 / 3) // 64 * 64


def _experts(options: _Options, ffn: int) -> Experts | None:
    count = options.number("--num-experts")
    if count is None:
        return None
    return Experts(
        count=count,
        top_k=options.number("--moe-router-topk") or 2,
        ffn=options.number("--moe-ffn-hidden-size") or ffn,
        shared_ffn=options.number("--moe-shared-expert-intermediate-size") or 0,
        dense_layers=_dense_layers(options.text("--moe-layer-freq") or "1"),
        every=_every(options.text("--moe-layer-freq") or "1"),
    )


def _every(pattern: str) -> int:
    """Return of how many layers one has experts, where the pattern is a number."""
    return int(pattern) if pattern.isdecimal() and int(pattern) else 1


def _dense_layers(pattern: str) -> int:
    """Return the dense layers at the beginning of a pattern such as `([0]*3+[1]*58)`."""
    head = pattern.strip("()' ").partition("+")[0]
    if not head.startswith("[0]"):
        return 0
    number = head.partition("*")[2]
    return int(number) if number.isdecimal() else 1


def _latent(options: _Options) -> LatentAttention | None:
    if not options.has("--multi-latent-attention"):
        return None
    return LatentAttention(
        query_rank=options.number("--q-lora-rank"),
        kv_rank=options.number("--kv-lora-rank") or 512,
        plain_width=options.number("--qk-head-dim") or 128,
        rotary_width=options.number("--qk-pos-emb-head-dim") or 64,
        value_width=options.number("--v-head-dim") or 128,
    )


_DEGREES: Final = ("tp", "cp", "ep", "pp", "vp", "micro_batch")


def _asked(options: _Options, layers: int) -> Asked:
    """Return the run; what the command leaves out has Megatron-LM's own default."""
    numbers: dict[str, Any] = {key: options.number(name) for name, key in _INTS.items()}
    stages, of_stage = numbers["pp"], options.number("--num-layers-per-virtual-pipeline-stage")
    if stages and of_stage:
        numbers["vp"] = max(1, layers // (stages * of_stage))
    numbers |= {key: numbers[key] or 1 for key in _DEGREES}
    etp = options.number("--expert-tensor-parallel-size")
    numbers["etp"] = etp or (numbers["tp"] if options.has("--num-experts") else None)
    precision = Precision.FP16 if options.has("--fp16") else None
    precision = Precision.BF16 if options.has("--bf16") else precision
    precision = Precision.FP8 if options.has("--fp8-format") else precision
    granularity = options.text("--recompute-granularity")
    recompute = Recompute.NONE
    if granularity == "selective" or options.has("--recompute-activations"):
        recompute = Recompute.SELECTIVE
    recompute = Recompute.FULL if granularity == "full" else recompute
    is_bf16 = "bf16" in (options.text("--exp-avg-dtype") or "")
    optimizer = Optimizer.ADAM_BF16 if is_bf16 else Optimizer.ADAM
    is_short = options.has("--grad-reduce-in-bf16") or options.text("--main-grads-dtype") == "bf16"
    said = Asked(
        zero=_megatron_zero(options),
        grad_bytes=2 if is_short else None,
        recompute=recompute,
        precision=precision,
        optimizer=Optimizer.SGD if options.text("--optimizer") == "sgd" else optimizer,
        sequence_parallel=options.has("--sequence-parallel"),
    )
    return replace(said, **numbers)


def _megatron_zero(options: _Options) -> int:
    """Return what ranks share: FSDP's weights, the distributed optimizer's states, or nothing."""
    stage = options.text("--zero-stage")  # Megatron-DeepSpeed
    if options.has("--deepspeed") and stage in ("1", "2", "3"):
        return int(stage)
    strategies = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
    if options.has("--use-torch-fsdp2"):
        return 3
    if options.has("--use-megatron-fsdp") or options.has("--use-custom-fsdp"):
        said = options.text("--data-parallel-sharding-strategy") or "optim_grads_params"
        return strategies.get(said, 3)
    return 1 if options.has("--use-distributed-optimizer") else 0


def model_of_command(words: Sequence[str], vocab: int | None) -> tuple[ModelShape, Asked]:
    """Return the model and the run of a command after `--`. Raises ConfigError."""
    if is_megatron(words):
        return read_megatron(words, vocab)
    raise ConfigError(
        "the command does not describe a model",
        hint="give --num-layers, --hidden-size and --num-attention-heads (Megatron-LM), or MODEL",
    )


def model_of_file(text: str, name: str) -> tuple[ModelShape, Asked]:
    """Return the model and the run that a file describes, by its ending. Raises ConfigError."""
    if not name.endswith((".yaml", ".yml", ".toml")):
        return read_config(text, name), Asked()
    model, asked = read_settings(text, name)
    if model is None:
        raise ConfigError(
            "no known model name, and no hidden_size and num_layers",
            source=name,
            hint="give its config.json instead, and the rest as options",
        )
    return model, asked


# --- Files: the keys that matter, wherever in the file they stand.

_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "seq": ("seq_length", "seq_len", "sequence_len", "max_seq_length", "encoder_seq_length"),
    "global_batch": ("global_batch_size",),
    "micro_batch": ("micro_batch_size", "local_batch_size", "per_device_train_batch_size"),
    "tp": ("tensor_model_parallel_size", "tensor_parallel_degree", "tensor_parallel_size"),
    "cp": ("context_parallel_size", "context_parallel_degree"),
    "ep": ("expert_model_parallel_size", "expert_parallel_degree", "expert_parallel_size"),
    "pp": ("pipeline_model_parallel_size", "pipeline_parallel_degree"),
    "vp": ("virtual_pipeline_model_parallel_size",),
    "lora_rank": ("lora_r", "lora_rank"),
}
_DEEPEST: Final = 6
_MOST_KEYS: Final = 10_000
_MODELS: Final = ("base_model", "model_name_or_path", "hf_model_id", "tokenizer_path")


def read_settings(text: str, source: str) -> tuple[ModelShape | None, Asked]:
    """Return the model that a framework's YAML or TOML names, None for none, and the run.

    Raises ConfigError for text that is neither.
    """
    tree = _tree(text, source)
    flat: dict[str, Any] = {}
    _flatten(tree, flat)
    numbers: dict[str, Any] = {}
    for key, names in _KEYS.items():
        numbers[key] = _number(flat, names, source)
    said = Asked(
        zero=_zero(flat),
        recompute=_recompute(flat),
        precision=_precision(flat),
        optimizer=Optimizer.ADAM_8BIT if "8bit" in str(flat.get("optimizer", "")) else None,
        quantized=True if flat.get("load_in_4bit") or flat.get("adapter") == "qlora" else None,
    )
    return _model(flat, source), replace(said, **numbers)


def _tree(text: str, source: str) -> Mapping[str, Any]:
    import yaml

    try:
        tree = tomllib.loads(text) if source.endswith(".toml") else yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"not valid YAML or TOML: {error}", source=source) from None
    if not isinstance(tree, dict):
        raise ConfigError("expected a mapping of keys to values", source=source)
    return tree


def _flatten(tree: Mapping[str, Any], flat: dict[str, Any], depth: int = 0) -> None:
    for key, value in tree.items():
        if isinstance(value, dict):
            if depth < _DEEPEST:
                _flatten(value, flat, depth + 1)
        elif len(flat) < _MOST_KEYS:
            flat.setdefault(str(key), value)


def _number(flat: Mapping[str, Any], names: Sequence[str], source: str) -> int | None:
    for name in names:
        value = flat.get(name)
        if value is None or isinstance(value, bool):
            continue
        if isinstance(value, int) and value >= 1:
            return value
        if value == -1:  # torchtitan: what is left
            continue
        raise ConfigError(f"got {value!r}, expected a whole number", source=source, key=name)
    return None


def _model(flat: Mapping[str, Any], source: str) -> ModelShape | None:
    for key in _MODELS:
        name = flat.get(key)
        if isinstance(name, str) and (found := known_model(name)) is not None:
            return found
    flavor, name = flat.get("flavor"), flat.get("name")
    if isinstance(flavor, str) and isinstance(name, str):  # torchtitan
        return known_model(f"{name.replace('llama', 'Llama-')}-{flavor}")
    if isinstance(flat.get("hidden_size"), int) and isinstance(flat.get("num_layers"), int):
        return shape_of({**flat, "model_type": "llama"}, source)
    return None


def _zero(flat: Mapping[str, Any]) -> int | None:
    deepspeed = str(flat.get("deepspeed", ""))
    for stage in (3, 2, 1):
        if f"zero{stage}" in deepspeed or flat.get("stage") == stage:
            return stage
    if flat.get("fsdp") or flat.get("fsdp_config") or "data_parallel_shard_degree" in flat:
        return 3
    return 1 if flat.get("use_distributed_optimizer") else None


def _recompute(flat: Mapping[str, Any]) -> Recompute | None:
    granularity = flat.get("recompute_granularity") or flat.get(
        "activations_checkpoint_granularity"
    )
    if granularity in ("full", "selective"):
        return Recompute(granularity)
    if flat.get("gradient_checkpointing") or flat.get("mode") == "full":
        return Recompute.FULL
    return None


def _precision(flat: Mapping[str, Any]) -> Precision | None:
    said = str(flat.get("precision", ""))
    if flat.get("fp8") or "fp8" in said:
        return Precision.FP8
    if flat.get("bf16") or "bf16" in said:
        return Precision.BF16
    return Precision.FP16 if flat.get("fp16") or said.startswith("16") else None
