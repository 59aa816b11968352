"""The job file `hpckit.job/1` as a value: what to run, on what, started how.

Field names are Slurm's (sbatch(1), srun(1)); None means "not said", and what nobody said is
absent from the script.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from math import prod
from typing import Final

from hpckit.core.errors import InvalidValue
from hpckit.core.fields import (
    MAX_COUNT,
    Check,
    Checked,
    between,
    both,
    check_fields,
    every,
    key,
    listed,
    mapping,
    matching,
    one_line,
    optional,
    parses,
    program_text,
    settable_name,
    table,
)
from hpckit.core.units import MEM_EXPECTED, TIME_EXPECTED, parse_slurm_mem_bytes, parse_slurm_time_s
from hpckit.core.values import dataclass
from hpckit.spec.platform import (
    CLOSING_OPTIONS,
    OVERLAY_PATTERN,
    VERSION_EXPECTED,
    ContainerRuntime,
    NcclVersion,
    NetPlugin,
)
from hpckit.spec.slurm_options import MPI_PLUGIN, SlurmOptions

JOB_SCHEMA = "hpckit.job/1"
_LEAST_HZ, _MOST_HZ = 0.01, 100
MAX_VOLUME_BYTES = 1e18
LEAST_NODE_GBITS, MOST_NODE_GBITS = 0.001, 1e6
MOST_OVERSUBSCRIPTION = 1000

_ENV_PATTERN = matching(
    r"[A-Za-z_][A-Za-z0-9_]*\*?", "a shell variable name, or a prefix followed by *"
)
_ENV_TABLE = mapping(settable_name, program_text)
_DIRECTIVES = ("#SBATCH", "#PBS", "#BSUB")
"""What sbatch reads as its options; those of other schedulers even after the first command."""
_SLURM_TIME = parses(parse_slurm_time_s, TIME_EXPECTED)
_SLURM_MEM = parses(parse_slurm_mem_bytes, MEM_EXPECTED)


def _setup_line(line: str) -> str | None:
    wrong = program_text(line) or one_line(line.replace("\n", " ").replace("\t", " "))
    if wrong is not None:
        return wrong
    if line.endswith("\\"):
        return "a line that does not end in a backslash"
    if any(part.lstrip().startswith(_DIRECTIVES) for part in line.splitlines()):
        return "a shell command, not a directive: sbatch options belong under [slurm]"
    return None


def _module_name(value: str) -> str | None:
    if value.startswith("-"):
        return "a module to load (a leading - would unload it)"
    return one_line(value)


class EnvInherit(StrEnum):
    """Which variables of the submitting shell reach the job."""

    ALL = "all"
    NONE = "none"


class MeshAxis(StrEnum):
    """One axis of the parallel mesh, as training frameworks call them."""

    TENSOR = "tensor"
    CONTEXT = "context"
    DATA = "data"
    PIPELINE = "pipeline"
    EXPERT = "expert"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRequest:
    """`[resources]`: what the job requests from the scheduler."""

    nodes: int = key("Number of nodes (`--nodes`).", default=1, check=between(1, MAX_COUNT))
    ntasks_per_node: int | None = optional(
        "Ranks per node (`--ntasks-per-node`). Default: 1 for plain, ray and tensorflow; one per "
        "GPU for the other launchers.",
        between(1, MAX_COUNT),
    )
    cpus_per_task: int | None = optional(
        "CPUs per rank (`--cpus-per-task`). Also passed to srun, because Slurm 22.05 to 23.02 do "
        "not inherit it from sbatch.",
        between(1, MAX_COUNT),
    )
    gpus_per_node: int | None = optional(
        "GPUs per node (`--gpus-per-node`). Every rank sees all GPUs of its node.",
        between(0, MAX_COUNT),
    )
    gpu_type: str | None = optional(
        "GPU type as in the cluster's gres.conf, such as `h100`. Ignored for jobs without GPUs.",
        matching(r"[A-Za-z0-9][A-Za-z0-9_.-]*", "a GPU type such as h100"),
    )
    mem: str | None = optional("Memory per node (`--mem`); `0` is all of it.", _SLURM_MEM)
    mem_per_cpu: str | None = optional("Memory per CPU (`--mem-per-cpu`).", _SLURM_MEM)
    mem_per_gpu: str | None = optional("Memory per GPU (`--mem-per-gpu`).", _SLURM_MEM)
    time_limit: str | None = optional("Time limit (`--time`), in Slurm's time format.", _SLURM_TIME)
    exclusive: bool | None = key(
        "Do not share nodes with other jobs (`--exclusive`). Also requests all their memory "
        "(`--mem=0`), unless a memory is set.",
        default=None,
    )

    def __post_init__(self) -> None:
        check_fields(self)
        said = [name for name in ("mem", "mem_per_cpu", "mem_per_gpu") if getattr(self, name)]
        if len(said) > 1:
            raise InvalidValue(said[1], getattr(self, said[1]), f"only one of {', '.join(said)}")


PLAIN: Final = "plain"
"""The launcher of a job that says none; the launchers themselves are hpckit.script.launchers."""
ONE_A_NODE: Final = frozenset((PLAIN, "ray", "tensorflow"))
"""Launchers that start one rank a node, whatever its GPUs, unless a job says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest(Checked):
    """`[launch]`: how the ranks are started. `kind` names the launcher."""

    kind: str = key("", default=PLAIN)
    mpi: str | None = optional(
        'MPI plugin for srun (`--mpi`), such as `pmix`. Default for `kind = "mpi"`: the site\'s, '
        "then the cluster's MpiDefault. If that is none, the job is refused.",
        MPI_PLUGIN,
    )
    distribution: str = key(
        "Order of ranks over nodes and sockets (`--distribution`).",
        default="block:block",
        check=matching(
            r"(block|cyclic|plane=[1-9]\d*|\*)(:(block|cyclic|fcyclic|\*)){0,2}(,(No)?Pack)?",
            "block, cyclic or plane=N for nodes, then a colon and the same for sockets, such as "
            "block:block",
        ),
    )
    kill_on_bad_exit: bool = key(
        "End the job step when one rank fails (`--kill-on-bad-exit`), so that the others do not "
        "hang.",
        default=True,
    )
    wait_s: int = key(
        "Seconds after the first rank has ended until Slurm kills the others (`--wait`). 0: "
        "never, because ranks may end minutes apart.",
        default=0,
        check=between(0, MAX_COUNT),
    )
    args: tuple[str, ...] = listed(
        "Extra options for the launcher, such as `--max-restarts=1` for torchrun.",
        both(one_line, matching(r"--?[a-z].*", "an option that starts with a dash")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRequest:
    """`[environment]`: variables, modules and Python environment of the command."""

    inherit: EnvInherit = key(
        "`all`: the job inherits the variables of the submitting shell, except those that hpckit "
        "blocks (see `pass`). `none`: only HOME, USER, PATH and similar, and those in `pass`.",
        default=EnvInherit.ALL,
    )
    pass_: tuple[str, ...] = listed(
        "Variables to export although hpckit blocks them (`NCCL_*`, `SLURM_*` and others, or all "
        'with `inherit = "none"`). Their values are not written to the script.',
        _ENV_PATTERN,
    )
    secrets: tuple[str, ...] = listed(
        "Variables of the submitting shell that only the ranks get. They are passed in a file of "
        "the job folder (mode 0600, removed at the end of the job), so that no script, command "
        "line or Slurm record holds their values.",
        settable_name,
    )
    secret_files: Mapping[str, str] = table(
        'Secrets read from files: `WANDB_API_KEY = "~/.wandb"`.',
        mapping(settable_name, one_line),
    )
    not_secrets: tuple[str, ...] = listed(
        "Keys and options that may hold text that looks like a token, such as `command` or "
        "`--env`.",
        one_line,
    )
    modules_purge: bool = key("Run `module purge` before loading modules.", default=False)
    modules: tuple[str, ...] = listed(
        "Modules to load, in this order. If one fails, the job ends.", _module_name
    )
    venv: str | None = optional(
        "Python virtual environment to activate. A leading `~/` is the home of the user who runs "
        "the job.",
        one_line,
    )
    conda: str | None = optional("Conda environment to activate.", one_line)
    set: Mapping[str, str] = table(
        "Variables to export. Values are quoted: nothing in them is expanded.", _ENV_TABLE
    )
    setup: tuple[str, ...] = listed(
        "Shell commands to run after everything above, unchanged.", _setup_line
    )

    @property
    def has_secrets(self) -> bool:
        """Whether the ranks get secrets."""
        return bool(self.secrets or self.secret_files)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.venv is not None and self.conda is not None:
            raise InvalidValue("conda", self.conda, "either venv or conda, not both")
        twice = {*self.secrets, *self.secret_files} & {*self.set, *self.pass_}
        twice |= {*self.secrets} & {*self.secret_files}
        if twice:
            name = min(twice)
            raise InvalidValue(
                "secrets",
                name,
                "a variable in only one of secrets, secret_files, set and pass",
            )


_PATH: Final = r"/[A-Za-z0-9_.+@%/~-]*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest(Checked):
    """`[container]`: the image in which the ranks run. Without `image`, no container is used."""

    image: str | None = optional(
        "Image as the runtime accepts it: a file such as `~/pytorch.sif`, or a name such as "
        "`docker://ubuntu` (Apptainer) or `nvcr.io#nvidia/pytorch:25.01-py3` (Pyxis).",
        both(one_line, matching(r"[^-].*", "an image, not an option")),
    )
    runtime: ContainerRuntime | None = key(
        "Container runtime. Default: the site's (`[container]`), then `apptainer`.", default=None
    )
    mounts: tuple[str, ...] = listed(
        "Folders to mount, `FROM[:TO[:ro]]`. The job folder and the working directory are always "
        "mounted.",
        matching(rf"~?{_PATH}(:{_PATH}(:r[ow])?)?", "FROM[:TO[:ro]] with absolute paths"),
    )
    workdir: str | None = optional(
        "Working directory inside the container. Default: the job's working directory.", one_line
    )
    args: tuple[str, ...] = listed(
        "Extra options: for `apptainer exec`, such as `--fakeroot`, or Pyxis options for srun, "
        "such as `--container-writable`.",
        both(one_line, matching(r"--?[A-Za-z].*", "an option that starts with a dash")),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        for word in self.args:
            if word in CLOSING_OPTIONS:
                raise InvalidValue("args", word, "an option that keeps the environment, from which "
                                   "ranks know their number")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest(Checked):
    """`[tune]`: the NCCL or RCCL environment, and the user's overrides."""

    env: Mapping[str, str] = table(
        "Variables such as `NCCL_DEBUG`. They override hpckit's and the site's values; the script "
        "shows it.",
        _ENV_TABLE,
    )
    derive: bool = key(
        "Set the variables that the inspected node and the site need. The script shows the reason "
        "for each.",
        default=True,
    )
    nccl: str | None = optional(
        "NCCL or RCCL release that the job loads, such as `2.27`; `hpckit tune JOB` finds it. "
        "Default: unknown, so variables that only some releases need are left out.",
        parses(NcclVersion.of, VERSION_EXPECTED),
    )
    plugin: NetPlugin | None = key(
        "NCCL network plugin that the job loads, instead of the site's.", default=None
    )
    overlays: tuple[str, ...] = listed(
        "Overlays of the site file to apply.",
        matching(OVERLAY_PATTERN, "the name of an overlay"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRequest(Checked):
    """`[account]`: what is measured for `hpckit report`."""

    enabled: bool = key(
        "Measure the job: a ledger for each rank and a sampler on each node. Without it there is "
        "no `hpckit report`.",
        default=True,
    )
    hz: float = key(
        "Sampler readings per second.",
        default=1.0,
        check=between(_LEAST_HZ, _MOST_HZ),
        maximum=_MOST_HZ,
    )


_LAST_PORT: Final = 65535
_LONGEST_SIGNAL_S: Final = 65535
"""sbatch(1), --signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRequest(Checked):
    """`[serve]`: the command is a server on the first node; it is ready when it answers."""

    port: int | None = optional(
        "TCP port on which the server listens. `0`: any free port; the ranks find it in "
        "`HPCKIT_SERVE_PORT`. Default: the command is not a server.",
        between(0, _LAST_PORT),
    )
    health: str | None = optional(
        "HTTP path that returns a status below 400 when the server is ready, such as `/health`. "
        "Default: ready when it accepts connections.",
        matching(r"/[!-~]*", "a path such as /health"),
    )
    idle_limit: str | None = optional(
        "End the job after this time without a connection, in Slurm's time format, such as "
        "`00:30:00`. Default: never.",
        _SLURM_TIME,
    )
    drain_s: int | None = optional(
        "Seconds before the time limit at which the server gets TERM, to finish open requests.",
        between(1, _LONGEST_SIGNAL_S),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("health", "idle_limit", "drain_s"):
            if self.port is None and getattr(self, name) is not None:
                raise InvalidValue(name, getattr(self, name), "serve.port to be set too")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRequest(Checked):
    """`[place]`: order of the nodes, and cores of each rank."""

    order: bool = key(
        "Order the job's nodes by the cluster's network when the job starts, so that ranks that "
        "communicate most are close. No effect on one node, or where Slurm has no topology.",
        default=True,
    )
    volume: Mapping[MeshAxis, float] = table(
        "Bytes that each rank sends along an axis of `[parallel]` per step. Default: the same for "
        "all axes.",
        mapping(lambda _: None, between(0, MAX_VOLUME_BYTES)),
    )
    node_gbits: float | None = optional(
        "Total NIC bandwidth of a node in Gb/s. Default: 400 per GPU. Set it for the whole "
        "cluster in the site file, under `[job.place]`.",
        between(LEAST_NODE_GBITS, MOST_NODE_GBITS),
        maximum=MOST_NODE_GBITS,
    )
    oversubscription: float | None = optional(
        "Oversubscription of a leaf switch: downlink ÷ uplink bandwidth, the same at each level "
        "above. Default: 2. Set it for the whole cluster in the site file, under `[job.place]`.",
        between(1, MOST_OVERSUBSCRIPTION),
        maximum=MOST_OVERSUBSCRIPTION,
    )
    bind: bool = key(
        "Bind each rank to the cores and memory near its GPU, on nodes with several ranks.",
        default=True,
    )
    strict: bool = key(
        "End the job at once, with exit code 1, if a rank is not on its planned node or cores, or "
        "its `MASTER_*`, `NCCL_*`, `RCCL_*`, `UCX_*` or `HSA_*` variables differ from rank 0's.",
        default=False,
    )


def _of(words: str) -> Check:
    return matching(words, f"one of {words.replace('|', ', ')}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest(Checked):
    """`[model]`: the model to train. hpckit refuses a job whose GPUs it does not fit.

    With the mesh of `[parallel]`; the names are those of `hpckit plan`.
    """

    config: str | None = optional(
        "The model's config.json, relative to the job file, or a name such as `Llama-3-70B`. "
        "Default: read from a Megatron-LM command.",
        one_line,
    )
    gpu: str | None = optional(
        "GPU model, such as `h100`. Default: `resources.gpu_type`, then the partition's.",
        one_line,
    )
    seq: int | None = optional("Sequence length in tokens.", between(1, MAX_COUNT))
    global_batch: int | None = optional(
        "Global batch size in sequences per step.", between(1, MAX_COUNT)
    )
    micro_batch: int | None = optional("Micro-batch size in sequences.", between(1, MAX_COUNT))
    virtual: int | None = optional("Virtual pipeline stages per GPU.", between(1, MAX_COUNT))
    zero: int | None = optional(
        "ZeRO stage: `1` is Megatron's distributed optimizer, `3` is FSDP.", between(0, 3)
    )
    recompute: str | None = optional(
        "Activation recomputation: `none`, `selective` or `full`.",
        _of("none|selective|full"),
    )
    precision: str | None = optional(
        "Precision of matrix products: `bf16`, `fp16` or `fp8`.", _of("bf16|fp16|fp8")
    )
    optimizer: str | None = optional(
        "Optimizer, and the precision of its states: `adam`, `adam-bf16`, `adam-8bit`, `muon` or "
        "`sgd`.",
        _of("adam|adam-bf16|adam-8bit|muon|sgd"),
    )
    lora_rank: int | None = optional("Rank of LoRA adapters.", between(1, MAX_COUNT))
    quantized: bool = key("Keep the frozen weights in 4 bits (QLoRA).", default=False)
    vocab: int | None = optional(
        "Vocabulary size, if a Megatron-LM command leaves it to the tokenizer.",
        between(1, MAX_COUNT),
    )
    offload: bool = key(
        "Optimizer states or weights are offloaded from the GPU. hpckit then does not check "
        "whether the model fits.",
        default=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A whole job: the value that a job file, a site's defaults and options make together."""

    schema: str = key(
        f'Format of this file: `"{JOB_SCHEMA}"`.',
        check=lambda value: None if value == JOB_SCHEMA else f'"{JOB_SCHEMA}"',
        const=JOB_SCHEMA,
    )
    name: str = key("Name of the job (`--job-name`).", check=one_line)
    command: tuple[str, ...] = key(
        "Program and its arguments. Each is quoted: no shell interprets them.",
        check=every(program_text),
        minItems=1,
    )
    chdir: str | None = optional(
        "Working directory of the job, relative to the job file. Default: where `hpckit submit` "
        "was called.",
        one_line,
    )
    resources: ResourceRequest = field(default_factory=ResourceRequest)
    launch: LaunchRequest = field(default_factory=LaunchRequest)
    environment: EnvironmentRequest = field(default_factory=EnvironmentRequest)
    slurm: SlurmOptions = field(default_factory=SlurmOptions)
    container: ContainerRequest = field(default_factory=ContainerRequest)
    tune: TuneRequest = field(default_factory=TuneRequest)
    account: AccountRequest = field(default_factory=AccountRequest)
    place: PlaceRequest = field(default_factory=PlaceRequest)
    serve: ServeRequest = field(default_factory=ServeRequest)
    model: ModelRequest = field(default_factory=ModelRequest)
    parallel: Mapping[MeshAxis, int] = table(
        "Parallel mesh, innermost axis first. The product of all axes except `expert` is the "
        "number of ranks.",
        mapping(lambda _: None, between(1, MAX_COUNT)),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.command or not self.command[0]:
            raise InvalidValue("command", list(self.command), "a program and its arguments")
        if self.command[0].startswith("-"):
            raise InvalidValue(
                "command", self.command[0], "a program as the first word, not an option"
            )
        self._check_serve()
        outside = self.environment.venv or self.environment.conda
        if self.container.image and outside:
            name = "venv" if self.environment.venv else "conda"
            expected = "none together with container.image: the container does not see it"
            raise InvalidValue(f"environment.{name}", outside, expected)

    def _check_serve(self) -> None:
        drain_s, limit = self.serve.drain_s, self.resources.time_limit
        limit_s = None if limit is None else parse_slurm_time_s(limit)
        if drain_s is not None and self.slurm.signal is not None:
            raise InvalidValue("serve.drain_s", drain_s, "none together with slurm.signal")
        if drain_s is not None and limit_s is not None and drain_s >= limit_s:
            raise InvalidValue("serve.drain_s", drain_s, f"less than the time limit, {limit}")
        if self.serve.port is not None and self.slurm.array is not None:
            raise InvalidValue("serve.port", self.serve.port, "none together with slurm.array")

    @property
    def ntasks_per_node(self) -> int:
        """Ranks on each node, after the default of the launch kind."""
        if self.resources.ntasks_per_node is not None:
            return self.resources.ntasks_per_node
        if self.launch.kind in ONE_A_NODE:
            return 1
        return self.resources.gpus_per_node or 1

    @property
    def ntasks(self) -> int:
        """Ranks of the whole job."""
        return self.resources.nodes * self.ntasks_per_node

    @property
    def mesh_ranks(self) -> int | None:
        """Ranks that the parallel mesh needs, None without a mesh.

        Expert parallelism splits the data axis and takes no ranks of its own.
        """
        sizes = [size for axis, size in self.parallel.items() if axis is not MeshAxis.EXPERT]
        return prod(sizes) if sizes else None
