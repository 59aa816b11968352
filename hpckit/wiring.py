"""The composition root: it builds what the use cases are handed, for commands and programs."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from hpckit.core.errors import StorageFailed

if TYPE_CHECKING:
    from hpckit.account.fold import FoldRequest, NodeFold
    from hpckit.account.store import SlurmEnergies
    from hpckit.comm.library_search import Person
    from hpckit.core.files import Clock, FileResources
    from hpckit.core.process import Runner
    from hpckit.fabric.ask import FabricProbe
    from hpckit.jobs.draft import Caller
    from hpckit.jobs.index import SqliteJobIndex
    from hpckit.jobs.limits import LimitsProbe
    from hpckit.jobs.parts import Submitter
    from hpckit.jobs.submit import SubmitTools
    from hpckit.jobs.track import TrackTools
    from hpckit.node.capture.nvml import NvmlDriver
    from hpckit.node.capture.sysfs import SysfsFiles
    from hpckit.node.remote import SrunProbe
    from hpckit.script.live import User
    from hpckit.script.template_cache import TemplateCache
    from hpckit.slurm.ask import SlurmCli
    from hpckit.slurm.release import TopologyKind
    from hpckit.slurm.values import ClusterView, JobEntry, PartitionRules
    from hpckit.spec.merge import Layer
    from hpckit.spec.pace import SubmitterKind
    from hpckit.spec.store import FileJobFolders


def _talk(text: str) -> None:
    """Print a line that is not the result; nothing in it steers the terminal."""
    from hpckit.core.text import visible

    print(visible(text, most=1000), file=sys.stderr)


def home() -> Path:
    """The user's home folder; `/` where there is none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def workdir() -> Path:
    """The folder where hpckit was called. Raises StorageFailed when it was removed."""
    try:
        return Path.cwd()
    except OSError as error:
        raise StorageFailed(f"the current folder no longer exists: {error.strerror}") from error


def resources(site_dirs: Sequence[Path] = (), template_dirs: Sequence[Path] = ()) -> FileResources:
    """Site files and templates along the search path."""
    from hpckit.core.files import FileResources, search_path

    return FileResources(
        search_path(os.environ, home()), site_dirs=site_dirs, template_dirs=template_dirs
    )


def user_defaults() -> tuple[str | None, Layer | None]:
    """The user's default site, and the layer of the other defaults in `config.toml`.

    Raises ConfigError; Untrusted for a file that somebody else could change.
    """
    from hpckit.core.files import text_of

    path = user_config()
    text = text_of(path)
    if text is None:
        return None, None
    from hpckit.core.trust import must_be_ours
    from hpckit.spec.merge import parse_user_file

    must_be_ours(path)
    # Inside a job SBATCH_* are those of that job: they do not reach sbatch.
    environment = {} if "SLURM_JOB_ID" in os.environ else os.environ
    return parse_user_file(text, str(path), environment)


def user_config() -> Path:
    """The file of the user's own defaults, there or not."""
    from hpckit.core.files import xdg_folder

    return xdg_folder(os.environ, "XDG_CONFIG_HOME", home()) / "hpckit" / "config.toml"


def user_site() -> str | None:
    """The user's default of --site."""
    return user_defaults()[0]


def cluster_site(site_dirs: Sequence[Path] = ()) -> tuple[str, str] | None:
    """The site whose file names the cluster that is here, and that cluster; None without one."""
    from hpckit.slurm.conf import cluster_name

    cluster = cluster_name(os.environ)
    if cluster is None:
        return None
    from hpckit.jobs.sites import site_of_cluster

    name = site_of_cluster(resources(site_dirs), cluster)
    return None if name is None else (name, cluster)


def site_and_defaults(site: str | None) -> tuple[str | None, Layer | None]:
    """The site of a program's job, by the rule of --site, and the user's other defaults.

    Unless it is named: HPCKIT_SITE, the user's own, the one that names this cluster. Raises as
    `user_defaults`.
    """
    own, defaults = user_defaults()
    site = site or os.environ.get("HPCKIT_SITE") or own
    here = None if site else cluster_site()
    return here[0] if here else site, defaults


def template_cache() -> TemplateCache:
    """Compiled templates, under $XDG_CACHE_HOME; those of hpckit 0.1 were not sandboxed."""
    from hpckit.script.template_cache import TemplateCache

    return TemplateCache(_caches() / "sandboxed-templates")


def _caches() -> Path:
    from hpckit.core.files import xdg_folder

    return _private(xdg_folder(os.environ, "XDG_CACHE_HOME", home()) / "hpckit")


def _private(folder: Path) -> Path:
    """The same folder, closed to others where somebody's umask had left it open."""
    from hpckit.core.trust import narrow

    before = narrow(folder)
    if before is not None:
        _talk(f" {folder} was accessible to other users (mode {before}); changed to 0700")
    return folder


def cluster_probe() -> FabricProbe:
    """What asks Slurm about its cluster; the answers are kept under $XDG_CACHE_HOME."""
    from hpckit.fabric.ask import FabricProbe

    return FabricProbe(_slurm(), _caches() / "clusters", clock(), os.environ)


def user() -> User:
    """Who would submit: the name, and those of the groups."""
    import grp
    import pwd

    from hpckit.script.live import User

    groups = set()
    for gid in {os.getegid(), *os.getgroups()}:
        with contextlib.suppress(KeyError):
            groups.add(grp.getgrgid(gid).gr_name)
    return User(name=pwd.getpwuid(os.geteuid()).pw_name, groups=frozenset(groups))


def limits_probe(probe: FabricProbe | None = None) -> LimitsProbe:
    """What asks a cluster for the limits of this user's jobs."""
    from hpckit.jobs.limits import LimitsProbe

    return LimitsProbe(slurm=_slurm(), probe=probe or cluster_probe(), clock=clock(), user=user())


def live_cluster() -> tuple[ClusterView, Sequence[PartitionRules], TopologyKind | None]:
    """What the cluster that is here says of itself now. Raises AdapterError, ParseError."""
    from hpckit.script.releases import live_dialect
    from hpckit.spec.site import generic_site

    view = cluster_probe().look(None, fresh=True)
    dialect = live_dialect(generic_site(), view.config)
    return view, _slurm().partition_rules(None), dialect.topology


def job_index() -> SqliteJobIndex:
    """The index of this user's jobs, under $XDG_STATE_HOME."""
    from hpckit.core.files import xdg_folder
    from hpckit.jobs.index import SqliteJobIndex

    state = _private(xdg_folder(os.environ, "XDG_STATE_HOME", home()) / "hpckit")
    return SqliteJobIndex(state / "jobs.sqlite")


def submitter(kind: SubmitterKind) -> Submitter:
    """What starts jobs at a site."""
    from hpckit.spec.pace import SubmitterKind

    if kind is SubmitterKind.SLURM:
        from hpckit.jobs.slurm_submit import SlurmSubmitter

        return SlurmSubmitter(command_runner(), clock(), _slurm())
    from hpckit.jobs.local import LocalSubmitter

    return LocalSubmitter()


def track_tools() -> TrackTools:
    """Everything that tracking uses."""
    from hpckit.jobs.track import TrackTools
    from hpckit.spec.pace import recorded_pace

    folders = job_folders()
    made: dict[SubmitterKind, Submitter] = {}
    kinds: dict[str, SubmitterKind] = {}

    def submitter_of(entry: JobEntry) -> Submitter:
        # Read once a job: waiting for thousands must not open as many files every minute.
        if entry.submission not in kinds:
            kinds[entry.submission] = recorded_pace(entry, folders).submitter
        kind = kinds[entry.submission]
        if kind not in made:
            made[kind] = submitter(kind)
        return made[kind]

    return TrackTools(submitter_of=submitter_of, index=job_index(), folders=folders, clock=clock())


def clock() -> Clock:
    """The machine's own clock."""
    from hpckit.core.files import SystemClock

    return SystemClock()


def job_folders() -> FileJobFolders:
    """Job folders on the file system."""
    from hpckit.spec.store import FileJobFolders

    return FileJobFolders()


_MANY_ROWS = 5e6
"""From so many samples on the start of other processes is earned back."""


def fold_all(
    function: Callable[[FoldRequest], NodeFold], requests: Sequence[FoldRequest]
) -> Iterable[NodeFold]:
    """Nodes folded in the order of the requests, those of a large job by all CPUs."""
    if sum(one.evidence.expected_rows for one in requests) < _MANY_ROWS:
        return map(function, requests)
    from hpckit.core.process import in_processes

    return in_processes(function, requests)


def slurm_energies() -> SlurmEnergies:
    """What asks Slurm's accounting for the energy of nodes."""
    from hpckit.account.store import SlurmEnergies

    return SlurmEnergies(_slurm(), cluster_probe())


def _slurm() -> SlurmCli:
    """What asks Slurm: its commands, or pyslurm where HPCKIT_SLURM_API names it.

    Raises ConfigError.
    """
    from hpckit.slurm.ask import SlurmCli

    api = os.environ.get("HPCKIT_SLURM_API")
    if not api:
        return SlurmCli(command_runner(), clock())
    from hpckit.core.errors import ConfigError
    from hpckit.slurm.pyslurm_ask import SETTING, SlurmLibrary

    if api != "pyslurm":
        raise ConfigError(f"got {api!r}, expected pyslurm or unset", key=SETTING)
    return SlurmLibrary(command_runner(), clock(), _pyslurm)


@functools.cache  # many ask Slurm in one command, and a probe is a process
def _pyslurm() -> Any:
    """The module pyslurm, None where it cannot be used, which is said."""
    from hpckit.slurm.pyslurm_ask import SETTING, import_pyslurm, probe_pyslurm

    found = probe_pyslurm(command_runner())
    if found.is_usable:
        return import_pyslurm()

    why = "not installed" if found.release is None else f"{found.release}, {found.refused}"
    _talk(f" {SETTING}: pyslurm cannot be used ({why}); using Slurm's commands")
    return None


def command_runner() -> Runner:
    """External commands, on record in the file that HPCKIT_COMMAND_LOG names."""
    from hpckit.core.process import ListeningRunner, LoggedRunner

    def say(program: str) -> None:

        _talk(f" waiting for {program} (no answer for 2 s)")

    runner = ListeningRunner(slow=say)
    path = os.environ.get("HPCKIT_COMMAND_LOG")
    return LoggedRunner(runner, Path(path), clock()) if path else runner


def interrupt_on_signals() -> None:
    """SIGTERM and a closed session undo or complete a submission as Ctrl-C does.

    Not where one is ignored: under nohup(1) a closed session changes nothing.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def submit_tools(kind: SubmitterKind, *, checks: bool = True) -> SubmitTools:
    """Everything that a submission uses; without `checks` the cluster is not looked at first.

    Raises ToolMissing without sbatch, before anything is written.
    """
    from hpckit.core.errors import ToolMissing
    from hpckit.core.process import interrupts_held
    from hpckit.jobs.draft import PackedJobFolders
    from hpckit.jobs.submit import SubmitTools
    from hpckit.spec.pace import SubmitterKind

    is_slurm = kind is SubmitterKind.SLURM
    if is_slurm and not is_on_path("sbatch"):
        from hpckit.jobs.slurm_submit import WHERE_SBATCH_IS

        raise ToolMissing("sbatch was not found", hint=WHERE_SBATCH_IS)
    probe = cluster_probe() if is_slurm else None
    return SubmitTools(
        submitter=submitter(kind),
        folders=PackedJobFolders(_caches()),
        index=job_index(),
        clock=clock(),
        interrupts_held=interrupts_held,
        probe=probe,
        limits=None if probe is None else limits_probe(probe).ask,
        checks=checks,
    )


def _shell_environment() -> dict[str, str]:
    """The environment as the shell gave it: Python adds LC_CTYPE in the C locale (PEP 538)."""
    environment = dict(os.environ)
    try:
        given = Path("/proc/self/environ").read_bytes()
    except OSError:
        return environment
    if not any(entry.startswith(b"LC_CTYPE=") for entry in given.split(b"\0")):
        environment.pop("LC_CTYPE", None)
    return environment


def person() -> Person:
    """Whose shell this is."""
    from hpckit.comm.library_search import Person
    from hpckit.core.files import account_home

    return Person(environment=_shell_environment(), home=str(home()), account_home=account_home())


def caller() -> Caller:
    """Who submits now."""
    import uuid

    from hpckit.core.files import user_name
    from hpckit.jobs.draft import Caller
    from hpckit.jobs.process_tree import own_start_s
    from hpckit.slurm.conf import cluster_name

    return Caller(
        environment=_shell_environment(),
        workdir=workdir(),
        home=home(),
        python=sys.executable,
        uuid_hex=uuid.uuid4().hex,
        host=os.uname().nodename,
        pid=os.getpid(),
        pid_started_s=own_start_s(),
        user=os.environ.get("USER") or user_name(),
        slurm_cluster=cluster_name(os.environ),
    )


_CAPTURE_HINTS = {
    errno.EISDIR: "give a file; for a folder with a node's sys/ and proc/, use "
    "hpckit inspect --sysroot",
    errno.EINVAL: "to read a pipe, use standard input: -",
}


def read_capture(
    file: str, *, size_hint: str | None = None, missing_hint: str | None = None
) -> tuple[bytes, str]:
    """The bytes of a capture and how it is called; `-` is standard input.

    The hints are what to do about one that is too large or is not there. Raises StorageFailed.
    """
    from hpckit.core.files_in_job import MOST_BYTES, read_regular

    if file == "-":
        if sys.stdin is None:
            raise StorageFailed("standard input is closed")
        data = sys.stdin.buffer.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            too_large = f"standard input is larger than {MOST_BYTES // 1024**2} MiB"
            raise StorageFailed(too_large, hint=size_hint)
        return data, "standard input"
    try:
        return read_regular(Path(file)), file
    except OSError as error:
        hints = {errno.EFBIG: size_hint, errno.ENOENT: missing_hint, **_CAPTURE_HINTS}
        hint = hints.get(error.errno or 0)
        raise StorageFailed(f"{file} cannot be read: {error.strerror}", hint=hint) from error
    except ValueError as error:  # a name with a NUL byte
        raise StorageFailed(f"{file} cannot be read: {error}") from error


def model_file(name: str) -> tuple[str, str] | None:
    """The text of a file and how it is called, None where there is none; `-` is standard input.

    A folder is that of a model: its config.json. Raises StorageFailed.
    """
    from hpckit.core.files import text_of

    if name == "-":
        data, called = read_capture(name)
        return data.decode("utf-8", errors="replace"), called
    text = text_of(Path(name))
    return None if text is None else (text, name)


def copy_examples(folder: str) -> None:
    """Copy hpckit's examples. Raises StorageFailed, ConfigError for a folder that holds files."""
    import shutil

    from hpckit.core.errors import ConfigError
    from hpckit.core.files import packaged_examples

    try:
        if Path(folder).is_dir() and any(Path(folder).iterdir()):
            hint = "name a folder that is new: hpckit demo DIR"
            raise ConfigError("is not empty", source=folder, hint=hint)
        shutil.copytree(packaged_examples(), folder, dirs_exist_ok=True)
    except OSError as error:
        raise StorageFailed(f"cannot copy the examples to {folder}: {error}") from error


def schema_text(name: str) -> str:
    """Return the JSON Schema of this name, such as `job`."""
    from hpckit.core.files import packaged_schema

    return packaged_schema(name).read_text(encoding="utf-8")


def is_on_path(program: str) -> bool:
    """Return whether a program is found by PATH."""
    import shutil

    return shutil.which(program) is not None


def write_new(file: str, text: str) -> None:
    """Write a file that is not there yet. Raises StorageFailed."""
    if Path(file).exists():
        raise StorageFailed(f"{file} already exists", hint="--force, or another file: -o FILE")
    write_whole(file, text)


def write_whole(file: str, text: str) -> None:
    """Write a file that a user asked for. Raises StorageFailed."""
    from hpckit.core.files import whole_file

    with whole_file(Path(file)) as opened:
        opened.write(text.encode())


def gpu_driver() -> NvmlDriver:
    """NVIDIA's driver."""
    from hpckit.node.capture.nvml import NvmlDriver

    return NvmlDriver()


def node_probes(sysroot: str | None) -> tuple[SysfsFiles, NvmlDriver, str | None]:
    """What reads this node, and its name if it stands in for another machine.

    `sysroot` is in place of `/`.
    """
    from hpckit.node.capture.sysfs import SysfsFiles
    from hpckit.node.node_file import node_settings

    settings = node_settings()
    files = SysfsFiles(Path(sysroot or settings.sysroot))
    return files, gpu_driver(), os.uname().nodename if settings.is_synthetic else None


def node_names() -> tuple[str, ...]:
    """All nodes that Slurm knows. Raises AdapterError."""
    from hpckit.slurm.squeue import parse_sinfo_nodes, sinfo_nodes_argv

    answer = _slurm().ask(sinfo_nodes_argv(None))
    return tuple(node.name for node in parse_sinfo_nodes(answer.stdout))


def node_probe(shared: Path) -> SrunProbe:
    """What asks other nodes through srun; `shared` is a folder that they share with this host."""
    from hpckit.injob.archive import pack_injob
    from hpckit.node.remote import SrunProbe

    python = os.environ.get("HPCKIT_PYTHON") or sys.executable
    return SrunProbe(
        _slurm(), command_runner(), shared, python, lambda archive: pack_injob(archive, _caches())
    )


def become_sampler(folder: str, words: Sequence[str]) -> NoReturn:
    """Become the sampler of jobs, which has a third of this process's memory.

    Raises StorageFailed when `folder` cannot be made.
    """
    from hpckit.core.files import dead_link

    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why, hint = dead_link(Path(folder)) or (f"{folder}: {error.strerror}", None)
        raise StorageFailed(why, hint=hint) from error
    root = str(Path(__file__).resolve().parents[1])
    code = f"import sys; sys.path.insert(0, {root!r}); from hpckit.injob.main import main; "
    code += "sys.exit(main(sys.argv[1:]))"
    argv = [sys.executable, "-I", "-c", code, "sample", "--by-hand", *words]
    # Ctrl-C waits until the sampler hears it: what stands before that would end with a traceback.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.execv(sys.executable, argv)  # noqa: S606  the same interpreter, a list of words
