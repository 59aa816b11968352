"""The rank entry: the one process between a launcher and the user's command."""

from __future__ import annotations

import os
import sys

from hpckit.core.files_in_job import make_folder
from hpckit.core.identity import SOURCES, identify
from hpckit.core.talk import reason, restart_words, say

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable

    from hpckit.core.identity import Identity
    from hpckit.injob.ledger import Ledger


_OPTIONS = ("", "--tf-config", "--ray", "--horovod")
_COMMAS = 4  # between the five fields of an identity
_OF_THE_STEP = ("SLURM_HOSTFILE", "SLURM_DISTRIBUTION", "HPCKIT_ORDERED")


def rank(words: list[str], env: dict[str, str]) -> int | None:
    """Run a rank's command and return its exit code; None when `words` is no command line.

    The command gets the rank's identity as torch's variables unless `env` itself holds them
    (`--from env`). With a job folder in HPCKIT_JOB_FOLDER both output streams are copied to the
    rank's log; without one the command replaces this process. HPCKIT_LEDGER=1 adds the rank's
    ledger. 127 is a command that was not
    found, 126 one that cannot be run; a command killed by a signal takes this process with it.
    """
    read = _read(words)
    if read is None:
        return None
    source, option, command = read
    identity = identify(source, env)
    exports = {} if source == "env" else identity.exports()
    env = {**without_coerced_locale(env), **exports}
    path = _rank_log_path(source, identity.rank, env)
    log = None if path is None else _open_rank_log(path, restart_words(env))

    def failed(code: int) -> None:
        if path is not None and identity.rank is not None:
            _record_failure(path, env.get("SLURM_RESTART_COUNT", ""), str(identity.rank), code)

    env = _own_steps(_placed(env, identity, log, failed), source, identity)
    try:
        command, env, _held = _through(option, command, env, identity, log)
    except SystemExit:
        failed(1)
        raise
    ledger = None if log is None else _ledger(env, identity)
    if not identity.local_rank:
        _warn_of_missing_workdir(env.get("HPCKIT_WORKDIR", ""), log)
    from hpckit.injob.supervise import replace, supervise

    try:
        if log is None:
            replace(command, env)
        return supervise(command, env, log, failed, ledger)
    except OSError as error:
        code = not_started(command[0], identity.rank, error, log)
        failed(code)
        if ledger is not None:
            ledger.finish(code)
        return code


def _read(words: list[str]) -> tuple[str, str, list[str]] | None:
    """Return where the rank's number is from, an option or nothing, and the command."""
    if words[:1] != ["--from"] or "--" not in words[2:4]:
        return None
    source, at = words[1], words.index("--", 2)
    option, command = "".join(words[2:at]), words[at + 1 :]
    is_source = source in SOURCES or source.count(",") == _COMMAS
    return (source, option, command) if is_source and option in _OPTIONS and command else None


def _through(
    option: str, command: list[str], env: dict[str, str], identity: Identity, log: int | None
) -> tuple[list[str], dict[str, str], object]:
    """Return the command and its environment, and what is to be kept while it runs."""
    if option == "--tf-config":
        from hpckit.injob.tf_config import Workers

        workers = Workers(env, identity, log)
        return command, {**env, **workers.exports()}, workers
    if option == "--horovod":
        from hpckit.injob.horovod import Meeting

        meeting = Meeting(env, identity, log)
        return command, {**env, **meeting.exports()}, meeting
    if option == "--ray":
        agent = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv) + 1]
        command = [*agent, "ray", "--", *command]
    return command, env, None


def node(words: list[str], env: dict[str, str]) -> int | None:
    """Run a launcher that starts the ranks of one node; None when `words` is no command line.

    It is the first thing that the step runs on this node: that it began is said here. Where
    hpckit's own map numbers the nodes, SLURM_PROCID is the node's number in it. A launcher that
    fails before any rank has, as one that is not installed, gives the job its code.
    """
    if words[:1] != ["--"] or not words[1:]:
        return None
    from hpckit.binding.in_job import begin
    from hpckit.injob.supervise import attend

    def failed(code: int) -> None:
        if path is not None:
            _record_failure(path, env.get("SLURM_RESTART_COUNT", ""), "launcher", code)

    if env.get("HPCKIT_PLACE"):
        begin(env["HPCKIT_PLACE"])
    path = _rank_log_path("slurm", 0, env)
    env = _own_steps(without_coerced_locale(env), "slurm", identify("slurm", env))
    try:
        return attend(words[1:], env, failed)
    except OSError as error:
        code = not_started(words[1], None, error, None)
        failed(code)
        return code


def _own_steps(env: dict[str, str], source: str, identity: Identity) -> dict[str, str]:
    """The environment without what would order the steps that the command starts itself.

    Where hpckit's own map numbers the ranks, Slurm's variables have those numbers too: many
    programs read them.
    """
    kept = env
    if env.get("HPCKIT_ORDERED") == "1":
        kept = {name: env[name] for name in env if name not in _OF_THE_STEP}
    if source != "slurm" or not env.get("HPCKIT_RANK_MAP"):
        return kept
    numbers = {"SLURM_PROCID": identity.rank, "SLURM_NODEID": identity.node_rank}
    return {**kept, **{name: str(at) for name, at in numbers.items() if at is not None}}


def _warn_of_missing_workdir(workdir: str, log: int | None) -> None:
    # slurmd then starts the job in /tmp, and says so to the log of the script alone.
    if workdir and not os.path.isdir(workdir):
        say(
            f"warning: {workdir} does not exist on this node: the command runs in {os.getcwd()}",
            log,
        )


def _rank_log_path(source: str, rank: int | None, env: dict[str, str]) -> str | None:
    job_folder = env.get("HPCKIT_JOB_FOLDER", "")
    if rank is None:
        say(f"no rank log: the environment has no rank number (--from {source})")
        return None
    if not job_folder:
        return None
    logs, array_task = os.path.join(job_folder, "logs"), env.get("SLURM_ARRAY_TASK_ID", "")
    if array_task.isascii() and array_task.isdigit():
        logs = os.path.join(logs, f"array-{array_task}")
    return os.path.join(logs, f"rank-{rank}.log")


def _open_rank_log(path: str, restart: str) -> int | None:
    """Open a rank's log for appending, for its owner alone, and return the descriptor.

    What an earlier run of a requeued job printed stays before the line `restart`.

    An array task's folder is made; any other folder that is missing, or a file that cannot be
    opened, gives one warning and None, since the job matters more than its log.
    """
    folder = os.path.dirname(path)
    log = None
    try:
        if os.path.basename(folder).startswith("array-"):
            make_folder(folder)
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if restart:
            os.write(log, f"hpckit: {restart}\n".encode())
    except OSError as error:
        if log is None:
            say(f"no rank log: {path} cannot be opened: {reason(error)}")
    return log


def _record_failure(log_path: str, restart: str, who: str, code: int) -> None:
    """Write `failed-<restart>` beside a rank's log, unless another has: its code and rank.

    The batch script returns this code: launchers report how the ranks ended that the first
    failing one took with it.
    """
    name = f"failed-{restart if restart.isascii() and restart.isdigit() else 0}"
    path = os.path.join(os.path.dirname(log_path), name)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.write(fd, f"{code} {who}\n".encode())
        os.close(fd)
    except OSError:
        return


def _placed(
    env: dict[str, str], identity: Identity, log: int | None, failed: Callable[[int], None]
) -> dict[str, str]:
    """Bind this rank where that was planned, and leave what proves where it is.

    Raises SystemExit where a rank is elsewhere and the job wants to end then.
    """
    if not env.get("HPCKIT_PLACE") or identity.rank is None or identity.local_rank is None:
        return env
    from hpckit.binding.in_job import place

    try:
        return place(env, identity, log)
    except SystemExit:
        failed(1)
        raise


def _ledger(env: dict[str, str], identity: Identity) -> Ledger | None:
    if identity.rank is None or env.get("HPCKIT_LEDGER") != "1":
        return None
    # Loaded where it is wanted alone: the start of a rank is on the job's clock.
    from hpckit.injob.ledger import Ledger

    return Ledger(env, identity.rank, identity)


def not_started(name: str, rank: int | None, error: OSError, log: int | None) -> int:
    """Say why a command could not be started, and return the exit code that a shell gives."""
    who = "" if rank is None else f"rank {rank}: "
    # The system reports a script's missing interpreter as a missing file.
    missing = isinstance(error, FileNotFoundError)
    script = missing and "/" in name and os.path.exists(name)
    code, sentence = 127, f"{who}command not found: {name}"
    if not missing or script:
        why = "its interpreter is missing" if script else reason(error)
        code, sentence = 126, f"{who}cannot run {name}: {why}"
    say(sentence, log)
    return code


def without_coerced_locale(env: dict[str, str]) -> dict[str, str]:
    """Return the environment that this process was started with."""
    # Python sets LC_CTYPE when it starts in the C locale (PEP 538), isolated or not; the command
    # must see the environment that the launcher gave.
    if not env.get("LC_CTYPE", "").startswith(("C.", "UTF-8")):
        return env
    try:
        with open("/proc/self/environ", "rb") as stream:
            before = stream.read().split(b"\0")
    except OSError:
        return env
    env = {name: value for name, value in env.items() if name != "LC_CTYPE"}
    for entry in before:
        if entry.startswith(b"LC_CTYPE="):
            env["LC_CTYPE"] = os.fsdecode(entry[len(b"LC_CTYPE=") :])
    return env
