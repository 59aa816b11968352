"""What is decided about a job before it becomes text: directives, launch, and why."""

from __future__ import annotations

from hpckit.core.values import dataclass
from hpckit.spec.options import ArrayShape
from hpckit.spec.platform import CommLeft, CommProfile, CommSetting, ContainerRuntime


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One long option of sbatch or srun; `value` None is the bare option.

    `because` is shown beside it, None where the option speaks for itself.
    """

    name: str
    value: str | None = None
    because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSetting:
    """One variable that the job sets itself."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentPlan:
    """What the environment block does, in order."""

    modules_purge: bool = False
    modules: tuple[str, ...] = ()
    venv: str | None = None
    conda: str | None = None
    exports: tuple[EnvSetting, ...] = ()
    setup: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPlan:
    """How the job is measured: the sampler's readings in a second, as text."""

    hz: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePlan:
    """What the runner does about places.

    `order`: the nodes are ordered when the job starts; `renumber`: where srun takes no order, ranks
    are numbered by hpckit's own map. `bind`: each rank binds itself. `strict`: a rank that is
    elsewhere ends the job.
    """

    order: bool
    bind: bool
    strict: bool
    renumber: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """The container that the ranks run in.

    `runtime` and `image` are None where the command starts a container itself. `variables` have to
    win over the image's own values, as what begins with `env_prefix` does; None where an option of
    srun names them. `options` are of Apptainer's exec.
    """

    runtime: ContainerRuntime | None = None
    image: str | None = None
    options: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    workdir: str | None = None
    env_prefix: str | None = None
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServePlan:
    """The server that a job is: its port, 0 for a free one, and the path that tells its health."""

    port: int
    health: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """Everything that a script template shows, already decided.

    `directives` are sbatch's, `srun` the options of the step that starts the command, `starter` the
    words of a launcher in front of the ranks; `ntasks` and `ntasks_per_node` count ranks.
    `rank_source` is where a rank reads its number from (`injob rank --from`), `rank_options` what
    its entry is told besides, `rank_shell` what a shell does that becomes the command; `runner` the
    options of `injob run`; `local_ranks` how many ranks that starts without Slurm; `keeps_shell`
    that lines of `setup` may have set traps, so that the shell outlives the command. `account` is
    None for a job that is not to be measured, `place` where nothing is ordered or bound.
    `communication` are the variables of the communication block, `profile` the provider's file that
    comes before them, `left` what is not set and why; `container` is None where ranks run in
    none, `serve` where they are no server.
    """

    name: str
    kind: str
    directives: tuple[Option, ...]
    srun: tuple[Option, ...]
    environment: EnvironmentPlan
    communication: tuple[CommSetting, ...]
    command: tuple[str, ...]
    nodes: int
    ntasks: int
    ntasks_per_node: int
    rank_source: str
    starter: tuple[str, ...] = ()
    rank_options: tuple[str, ...] = ()
    rank_shell: str | None = None
    needs_runner: bool = False
    runner: tuple[str, ...] = ()
    local_ranks: int | None = None
    keeps_shell: bool = False
    kill_on_bad_exit: bool = True
    chdir: str | None = None
    array: ArrayShape | None = None
    account: AccountPlan | None = None
    place: PlacePlan | None = None
    profile: CommProfile | None = None
    left: tuple[CommLeft, ...] = ()
    container: ContainerPlan | None = None
    serve: ServePlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What produced a script, in words that are the same on every machine.

    `template_digest` is None for the packaged template, else the SHA-256 of the texts used.
    `reproduce` is the command line, each word still unquoted. `runner_digest` is the SHA-256 of the
    sources that run inside the job.
    """

    version: str
    site: str
    job_digest: str
    template: str
    template_digest: str | None
    reproduce: tuple[str, ...]
    runner_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A rendered script: its text, the SHA-256 of its UTF-8 bytes in hex, the templates used."""

    text: str
    sha256: str
    templates: tuple[str, ...]
