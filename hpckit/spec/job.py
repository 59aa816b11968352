"""The job file `hpckit.job/1` as a value: what to run, on what, started how.

Field names are Slurm's (sbatch(1), srun(1)); None means "not said", and what nobody said is
absent from the script.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    r"[A-Za-z_][A-Za-z0-9_]*\*?", "a shell variable name, or its beginning followed by *"
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
        return "shell, not a directive: options of sbatch belong under [slurm]"
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
    """`[resources]`: what is asked of the scheduler."""

    nodes: int = key("Nodes (`--nodes`).", default=1, check=between(1, MAX_COUNT))
    ntasks_per_node: int | None = optional(
        "Ranks on each node (`--ntasks-per-node`). Not said: one a node for plain, ray and "
        "tensorflow, one a GPU for the others.",
        between(1, MAX_COUNT),
    )
    cpus_per_task: int | None = optional(
        "CPUs of each rank (`--cpus-per-task`); repeated on srun, because Slurm 22.05 to 23.02 "
        "do not hand it down.",
        between(1, MAX_COUNT),
    )
    gpus_per_node: int | None = optional(
        "GPUs on each node (`--gpus-per-node`); all of a node's ranks see all of them.",
        between(0, MAX_COUNT),
    )
    gpu_type: str | None = optional(
        "GPU type as the cluster's gres.conf names it, such as `h100`; nothing without GPUs.",
        matching(r"[A-Za-z0-9][A-Za-z0-9_.-]*", "a GPU type such as h100"),
    )
    mem: str | None = optional("Memory of each node (`--mem`); `0` is all of it.", _SLURM_MEM)
    mem_per_cpu: str | None = optional("Memory for each CPU (`--mem-per-cpu`).", _SLURM_MEM)
    mem_per_gpu: str | None = optional("Memory for each GPU (`--mem-per-gpu`).", _SLURM_MEM)
    time_limit: str | None = optional("Time limit (`--time`) in Slurm's spelling.", _SLURM_TIME)
    exclusive: bool | None = key(
        "Whole nodes (`--exclusive`), with all their memory (`--mem=0`) unless a memory is named.",
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
    """`[launch]`: how the ranks are started; `kind` is one of the launchers."""

    kind: str = key("", default=PLAIN)
    mpi: str | None = optional(
        "MPI plugin for srun (`--mpi`), such as `pmix`. Not said: for `mpi` the site's, else the "
        "cluster's MpiDefault; where that is none the job is refused.",
        MPI_PLUGIN,
    )
    distribution: str = key(
        "Order of ranks over nodes and sockets (`--distribution`).",
        default="block:block",
        check=matching(
            r"(block|cyclic|plane=[1-9]\d*|\*)(:(block|cyclic|fcyclic|\*)){0,2}(,(No)?Pack)?",
            "block, cyclic or plane=N, and the same for sockets after a colon, such as block:block",
        ),
    )
    kill_on_bad_exit: bool = key(
        "End the job step when one rank fails (`--kill-on-bad-exit`), instead of hanging.",
        default=True,
    )
    wait_s: int = key(
        "Seconds after the first rank has ended at which the others are killed (`--wait`); 0 is "
        "never, as ranks may end minutes apart.",
        default=0,
        check=between(0, MAX_COUNT),
    )
    args: tuple[str, ...] = listed(
        "More options for the launcher itself, such as torchrun's `--max-restarts=1`.",
        both(one_line, matching(r"--?[a-z].*", "an option that begins with a dash")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRequest:
    """`[environment]`: what the command finds around it."""

    inherit: EnvInherit = key(
        "`all`: the submitting shell's variables reach the job, less those that a launch must "
        "set for itself (see `pass`); `none`: only HOME, USER, PATH and their like, and `pass`.",
        default=EnvInherit.ALL,
    )
    pass_: tuple[str, ...] = listed(
        "Variables let through by name although they are held back (`NCCL_*` and the like, or "
        'everything under `inherit = "none"`). Their values never enter the script.',
        _ENV_PATTERN,
    )
    secrets: tuple[str, ...] = listed(
        "Variables of the submitting shell that only the ranks get, by a file of the job folder "
        "(mode 0600, removed at the job's end): no script, command line or record of Slurm has "
        "their values.",
        settable_name,
    )
    secret_files: Mapping[str, str] = table(
        'The same, each the text of a file: `WANDB_API_KEY = "~/.wandb"`.',
        mapping(settable_name, one_line),
    )
    not_secrets: tuple[str, ...] = listed(
        "Keys and options whose text is let through although it is shaped like a token, such as "
        "`command` or `--env`.",
        one_line,
    )
    modules_purge: bool = key("Run `module purge` before loading modules.", default=False)
    modules: tuple[str, ...] = listed(
        "Modules to load, in this order; a failing one ends the job.", _module_name
    )
    venv: str | None = optional(
        "Python virtual environment to activate; a leading `~/` is the home of the user who runs "
        "the job.",
        one_line,
    )
    conda: str | None = optional("Conda environment to activate.", one_line)
    set: Mapping[str, str] = table(
        "Variables to export, quoted exactly: nothing in a value is expanded.", _ENV_TABLE
    )
    setup: tuple[str, ...] = listed(
        "Lines of shell, run as they stand after everything above.", _setup_line
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
            raise InvalidValue("secrets", name, "a variable that is not said elsewhere too")


_PATH: Final = r"/[A-Za-z0-9_.+@%/~-]*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest(Checked):
    """`[container]`: the image in which the ranks run; without `image` they run in none."""

    image: str | None = optional(
        "The image, as the runtime takes it: a file such as `~/pytorch.sif`, or a name such as "
        "`docker://ubuntu` (Apptainer) or `nvcr.io#nvidia/pytorch:25.01-py3` (Pyxis).",
        both(one_line, matching(r"[^-].*", "an image, not an option")),
    )
    runtime: ContainerRuntime | None = key(
        "What starts it. Not said: the site's (`[container]`), else `apptainer`.", default=None
    )
    mounts: tuple[str, ...] = listed(
        "Folders to have inside, `FROM[:TO[:ro]]`, besides the job folder and that in which the "
        "job runs.",
        matching(rf"~?{_PATH}(:{_PATH}(:r[ow])?)?", "FROM[:TO[:ro]] of whole paths"),
    )
    workdir: str | None = optional(
        "Folder inside in which the command runs. Not said: that in which the job runs.", one_line
    )
    args: tuple[str, ...] = listed(
        "More options: of `apptainer exec`, such as `--fakeroot`, or Pyxis's of srun, such as "
        "`--container-writable`.",
        both(one_line, matching(r"--?[A-Za-z].*", "an option that begins with a dash")),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        for word in self.args:
            if word in CLOSING_OPTIONS:
                raise InvalidValue("args", word, "an option that lets the environment in, by "
                                   "which ranks know their number")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest(Checked):
    """`[tune]`: the communication environment, and what the user decides of it."""

    env: Mapping[str, str] = table(
        "Variables such as `NCCL_DEBUG`; the user's word wins, and the script says so.", _ENV_TABLE
    )
    derive: bool = key(
        "Set what the inspected node and the site need, each variable with its reason.",
        default=True,
    )
    nccl: str | None = optional(
        "The release of NCCL or RCCL that the job loads, such as `2.27`; `hpckit tune JOB` finds "
        "it. Not said: what only some releases need is left out.",
        parses(NcclVersion.of, VERSION_EXPECTED),
    )
    plugin: NetPlugin | None = key(
        "The network plugin that the job loads, in place of the site's.", default=None
    )
    overlays: tuple[str, ...] = listed(
        "Overlays of the site file that are wanted.",
        matching(OVERLAY_PATTERN, "the name of an overlay"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRequest(Checked):
    """`[account]`: what is measured of the job for `hpckit report`."""

    enabled: bool = key(
        "Let each rank keep a ledger, and start a sampler on each node, beside the command.",
        default=True,
    )
    hz: float = key(
        "Readings of the sampler in a second.",
        default=1.0,
        check=between(_LEAST_HZ, _MOST_HZ),
        maximum=_MOST_HZ,
    )


_LAST_PORT: Final = 65535
_LONGEST_SIGNAL_S: Final = 65535
"""sbatch(1), --signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRequest(Checked):
    """`[serve]`: the command is a server, on the first node; it is ready once it answers."""

    port: int | None = optional(
        "TCP port at which it listens. `0`: a free one, which the ranks find in "
        "`HPCKIT_SERVE_PORT`. Not said: it is no server.",
        between(0, _LAST_PORT),
    )
    health: str | None = optional(
        "Path that HTTP answers with a status below 400 once it is ready, such as `/health`. Not "
        "said: it is ready when it takes connections.",
        matching(r"/[!-~]*", "a path such as /health"),
    )
    idle_limit: str | None = optional(
        "End the job when nobody has been connected for so long, in Slurm's spelling, such as "
        "`00:30:00`. Not said: never.",
        _SLURM_TIME,
    )
    drain_s: int | None = optional(
        "Seconds before the time limit at which it is asked to end (TERM), to finish what it has.",
        between(1, _LONGEST_SIGNAL_S),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("health", "idle_limit", "drain_s"):
            if self.port is None and getattr(self, name) is not None:
                raise InvalidValue(name, getattr(self, name), "port beside it")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRequest(Checked):
    """`[place]`: which node carries which ranks, and which cores each rank has."""

    order: bool = key(
        "Let the job order its nodes by the cluster's network when it starts, so that ranks which "
        "talk most are near each other. Without a network that Slurm knows, or on one "
        "node, nothing is changed.",
        default=True,
    )
    volume: Mapping[MeshAxis, float] = table(
        "Bytes that each rank gives to an axis of `[parallel]` in one step; not said: all axes "
        "count alike.",
        mapping(lambda _: None, between(0, MAX_VOLUME_BYTES)),
    )
    node_gbits: float | None = optional(
        "What a node's NICs carry together, in Gb/s; not said: 400 a GPU. Of a cluster it belongs "
        "into its site file, under `[job.place]`.",
        between(LEAST_NODE_GBITS, MOST_NODE_GBITS),
        maximum=MOST_NODE_GBITS,
    )
    oversubscription: float | None = optional(
        "How much less leads out of a leaf than into it, and so on above; not said: 2. Of a "
        "cluster it belongs into its site file, under `[job.place]`.",
        between(1, MOST_OVERSUBSCRIPTION),
        maximum=MOST_OVERSUBSCRIPTION,
    )
    bind: bool = key(
        "Let each rank bind itself to cores and memory near its GPU, where a node has several "
        "ranks.",
        default=True,
    )
    strict: bool = key(
        "End the job at once, with code 1, when a rank is not where it was planned, not on its "
        "cores, or has other `MASTER_*`, `NCCL_*`, `RCCL_*`, `UCX_*`, `HSA_*` than rank 0.",
        default=False,
    )


def _of(words: str) -> Check:
    return matching(words, f"one of {words.replace('|', ', ')}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest(Checked):
    """`[model]`: the model that is trained, so that a job it does not fit in is refused.

    With the mesh of `[parallel]`; the names are those of `hpckit plan`.
    """

    config: str | None = optional(
        "Its config.json, relative to the job file, or a name such as `Llama-3-70B`. Not said: a "
        "Megatron-LM command says it itself.",
        one_line,
    )
    gpu: str | None = optional(
        "Kind of GPU, such as `h100`. Not said: `resources.gpu_type`, else the partition's.",
        one_line,
    )
    seq: int | None = optional("Tokens of a sequence.", between(1, MAX_COUNT))
    global_batch: int | None = optional("Sequences of a step.", between(1, MAX_COUNT))
    micro_batch: int | None = optional("Sequences of a micro-batch.", between(1, MAX_COUNT))
    virtual: int | None = optional("Virtual pipeline stages on each GPU.", between(1, MAX_COUNT))
    zero: int | None = optional(
        "Stage of ZeRO: `1` is Megatron's distributed optimizer, `3` FSDP.", between(0, 3)
    )
    recompute: str | None = optional(
        "Activations that are computed again: `none`, `selective` or `full`.",
        _of("none|selective|full"),
    )
    precision: str | None = optional(
        "Precision of matrix products: `bf16`, `fp16` or `fp8`.", _of("bf16|fp16|fp8")
    )
    optimizer: str | None = optional(
        "Optimizer by its states: `adam`, `adam-bf16`, `adam-8bit`, `muon` or `sgd`.",
        _of("adam|adam-bf16|adam-8bit|muon|sgd"),
    )
    lora_rank: int | None = optional("Rank of LoRA adapters.", between(1, MAX_COUNT))
    quantized: bool = key("Frozen weights are kept in 4 bits (QLoRA).", default=False)
    vocab: int | None = optional(
        "Vocabulary, where a Megatron-LM command leaves it to its tokenizer.",
        between(1, MAX_COUNT),
    )
    offload: bool = key(
        "States or weights are kept off the GPU: whether the model fits is not looked at.",
        default=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A whole job: the value that a job file, a site's defaults and options make together."""

    schema: str = key(
        f'The format of this file: `"{JOB_SCHEMA}"`.',
        check=lambda value: None if value == JOB_SCHEMA else f'"{JOB_SCHEMA}"',
        const=JOB_SCHEMA,
    )
    name: str = key("Name of the job (`--job-name`).", check=one_line)
    command: tuple[str, ...] = key(
        "The program and its arguments, each quoted exactly: no shell reads them.",
        check=every(program_text),
        minItems=1,
    )
    chdir: str | None = optional(
        "Folder in which the job runs, relative to the job file. Not said: where `hpckit submit` "
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
        "The parallel mesh, innermost axis first; the product of all but `expert` is the number "
        "of ranks.",
        mapping(lambda _: None, between(1, MAX_COUNT)),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.command or not self.command[0]:
            raise InvalidValue("command", list(self.command), "a program and its arguments")
        if self.command[0].startswith("-"):
            raise InvalidValue("command", self.command[0], "a program first, not an option")
        self._check_serve()
        outside = self.environment.venv or self.environment.conda
        if self.container.image and outside:
            name = "venv" if self.environment.venv else "conda"
            expected = "none beside container.image: the command does not see it inside"
            raise InvalidValue(f"environment.{name}", outside, expected)

    def _check_serve(self) -> None:
        drain_s, limit = self.serve.drain_s, self.resources.time_limit
        limit_s = None if limit is None else parse_slurm_time_s(limit)
        if drain_s is not None and self.slurm.signal is not None:
            raise InvalidValue("serve.drain_s", drain_s, "none beside slurm.signal")
        if drain_s is not None and limit_s is not None and drain_s >= limit_s:
            raise InvalidValue("serve.drain_s", drain_s, f"less than the time limit, {limit}")
        if self.serve.port is not None and self.slurm.array is not None:
            raise InvalidValue("serve.port", self.serve.port, "none beside slurm.array")

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
