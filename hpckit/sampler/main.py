"""The sampler of one node: `injob sample` beside a job's ranks, `hpckit sample` by hand."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import NamedTuple

from hpckit.core.talk import reason, sampler_on, say
from hpckit.spec.folder_in_job import account_folder, samples_file, topology_file

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NoReturn

    from hpckit.node.node_file import NodeSettings
    from hpckit.sampler.guard import JobEnd, SignalClock
    from hpckit.sampler.loop import SampleLoop
    from hpckit.sampler.parts import Node
    from hpckit.sampler.spool import SampleSpool


class Place(NamedTuple):
    """Where a sampler's blocks are: `target` below `out` is where they belong."""

    out: str
    target: str
    reached: str | None
    """The file that has what was copied, None where none has."""
    kept: str | None
    """The file on this node that has the rest, None where there is none."""
    is_lost: bool
    """Whether something is in neither."""

    @property
    def is_whole(self) -> bool:
        """Whether all of it is where it belongs."""
        is_there = self.reached == f"{self.out}/{self.target}"
        return is_there and self.kept is None and not self.is_lost


def last_words(ticks: int, gpus: int, why: str, place: Place) -> str:
    """The lines for a person; `why` there is no GPU is NVML's error by its name, or a sentence."""
    what = f"{gpus} GPU{'s' * (gpus > 1)}" if gpus else "the host only"
    samples = f"{ticks} samples of {what}"
    path = place.reached or place.kept
    if path is None:
        return f" lost   {samples}: in no file\n"
    is_part = place.is_lost or (place.reached and place.kept)
    wrote = f" wrote  {'part of ' if is_part else ''}{samples} · {word(path)}\n"
    rest = f" rest   {word(place.kept)}\n" if place.reached and place.kept else ""
    note = ""
    if why and not gpus:
        note = f" note   no GPU: {why if ' ' in why else f'NVML {why}'}\n"
    return f"{wrote}{rest}{note} next   {_next(place, path)}\n"


def _next(place: Place, path: str) -> str:
    """A command line that brings together what there is, and reads it."""
    before = ""
    if place.reached and place.kept:
        before = f"cat {word(place.kept)} >> {word(path)} && "
    if path == f"{place.out}/{place.target}":
        folder = place.out
    elif path.endswith(f"/{place.target}"):
        folder = path.removesuffix(f"/{place.target}")
    else:
        folder = f"{path.removesuffix('.samples')}.d"
        file = f"{folder}/{os.path.basename(place.target)}"
        before += f"mkdir {word(folder)} && mv {word(path)} {word(file)} && "
    return f"{before}hpckit report --from {word(folder)}"


def word(path: str) -> str:
    """A path as a word of bash; what cannot be seen is an escape that bash understands."""
    from shlex import quote

    if path.isprintable():
        return quote(path)
    # With a double quote in it Python puts single ones around its bytes, as bash wants them.
    escaped = repr(os.fsencode(path) + b'"').removesuffix("\"'")
    return f"${escaped.removeprefix('b')}'"


_QUIET = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL})
"""What ends a job ends this too, and is nothing to be said."""


class TopologyProcess:
    """The process that reads a node's topology: started once, never waited for.

    `look` is called now and then, by the thread that samples.
    """

    def __init__(self, argv: list[str], env: Mapping[str, str]) -> None:
        self._argv = argv
        self._env = env
        self.pid: int | None = None
        """The process, None before its start and once its end was seen."""
        self._is_started = False

    def look(self) -> None:
        """Start it, or see whether it has ended."""
        if not self._is_started:
            self._is_started = True
            self._start()
        elif self.pid is not None:
            self._reap(self.pid)

    def end(self) -> None:
        """End it if it still runs."""
        pid, self.pid = self.pid, None
        if pid is not None:
            # Not reaped yet, so the number is still its own.
            os.kill(pid, signal.SIGKILL)

    def _start(self) -> None:
        # The sampler blocks or ignores most signals, and this must not: its time limit is one.
        changed = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
        try:
            self.pid = os.posix_spawn(
                self._argv[0], self._argv, self._env, setsigmask=(), setsigdef=changed
            )
        except OSError as error:
            say(f"{sampler_on(self._env)}: topology: {self._argv[0]}: {reason(error)}")

    def _reap(self, pid: int) -> None:
        try:
            ended, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            self.pid = None
            return
        if not ended:
            return
        self.pid = None
        code = os.waitstatus_to_exitcode(status)
        if code and -code not in _QUIET:
            why = "it took too long" if -code == signal.SIGALRM else f"it exited with {code}"
            say(f"{sampler_on(self._env)}: topology unknown: {why}")


LEAST_HZ, MOST_HZ = 0.01, 100.0
MOST_DURATION_S = 366 * 86400.0
_LAST_COPY_S = 1.5
_LAST_COPY_BY_HAND_S = 30.0
"""After Ctrl-C or the end of --duration no KILL follows, and a disk may be busy."""
_LAST_WORDS_S = 4.0
_REFUSED, _BUG = 7, 70
"""Exit codes by hand, those of hpckit.core.errors."""
_OPTIONS = {"--out": "", "--hz": "1", "--duration": "", "--parent": "", "--without": ""}
_BY_HAND = "--by-hand"


class Wish(NamedTuple):
    """What the command line asks; `without` are GPUs that hung an earlier attempt."""

    out: str
    hz: float
    duration_s: float | None
    parent: int | None
    without: tuple[str, ...]
    by_hand: bool


def sample(words: list[str], env: dict[str, str]) -> int | None:
    """Sample until the job ends; None for a wrong command line, else 0 whatever happens in a job.

    `--out DIR` is the job folder, `--hz` 0.01 to 100 (1 unless said), `--duration` seconds,
    `--parent` a process whose end is the end. A sampler never fails a job: what went wrong is one
    line on stderr.
    """
    wish = wish_of(words)
    if wish is None:
        return None
    code = 0
    try:
        _no_closed_streams()
        _Run(wish, words, env).run()
    except OSError as error:
        say(f"{sampler_on(env)}: {error.filename or ''}: {reason(error)}; sampling stops here")
        code = _REFUSED
    except Exception as error:  # noqa: BLE001  whatever it is, it must not fail the job
        say(f"{sampler_on(env)}: {type(error).__name__}: {error}; sampling stops here")
        code = _BUG
    return code if wish.by_hand else 0


def wish_of(words: list[str]) -> Wish | None:
    """The options, of one that is there twice the last; None for no command line."""
    by_hand = _BY_HAND in words
    words = [word for word in words if word != _BY_HAND]
    given = dict(zip(words[::2], words[1::2], strict=False))
    if len(words) % 2 or not given.keys() <= _OPTIONS.keys():
        return None
    options = {**_OPTIONS, **given}
    try:
        hz = float(options["--hz"])
        duration_s = float(options["--duration"]) if options["--duration"] else None
        parent = int(options["--parent"]) if options["--parent"] else None
    except ValueError:
        return None
    if not LEAST_HZ <= hz <= MOST_HZ:
        say(f"sampler: --hz {options['--hz']} is outside {LEAST_HZ} to {MOST_HZ:g}")
        return None
    if not options["--out"] or not (duration_s is None or 0 < duration_s <= MOST_DURATION_S):
        return None
    without = tuple(filter(None, options["--without"].split(",")))
    return Wish(options["--out"], hz, duration_s, parent, without, by_hand)


class _Run:
    def __init__(self, wish: Wish, words: list[str], env: Mapping[str, str]) -> None:
        from hpckit.sampler.guard import Beat

        self._wish = wish
        self._words = words
        self._env = env
        self._name = env.get("SLURMD_NODENAME") or os.uname().nodename
        self._folder = account_folder(
            env.get("SLURM_RESTART_COUNT", ""), env.get("SLURM_ARRAY_TASK_ID", "")
        )
        self._target = f"{self._folder}/{samples_file(self._name)}"
        self._beat = Beat()
        self._spool: SampleSpool | None = None
        self._loop: SampleLoop | None = None
        self._topology: TopologyProcess | None = None
        self._sampling_since_s = 0.0
        self._place: Place | None = None
        self._node: Node | None = None
        self._ends: frozenset[int] = frozenset()
        self._clock: SignalClock | None = None
        self._is_unsaid = False
        self._is_closed = False

    def run(self) -> None:
        """Begin, sample, end; ends the process where everything went well."""
        from hpckit.sampler.guard import Guard, SignalClock, listen
        from hpckit.sampler.spool import SampleSpool

        self._ends = ends = listen(by_hand=self._wish.by_hand)
        self._clock = clock = SignalClock(ends)
        os.nice(19)
        _first_to_go()
        Guard(self._beat, ends, self._hung)
        self._spool = spool = SampleSpool(self._wish.out, self._target, say=self._say)
        try:
            self._sample(spool, clock)
        finally:
            for sentence in self._close(spool, self._last_copy_s()):
                self._say(sentence)
        self._say_last()
        # Without waiting for a thread that a dead file system may hold.
        os._exit(self._code(is_over=not self._is_unsaid))

    def _sample(self, spool: SampleSpool, clock: SignalClock) -> None:
        """Sample to the end."""
        from zlib import crc32

        from hpckit.sampler.guard import LIMIT_S
        from hpckit.sampler.loop import SampleLoop, SamplePlan, SampleTools
        from hpckit.sampler.parts import Node

        wish = self._wish
        self._node = node = Node(self._env, wish.hz, wish.without, self._beat)
        tools = SampleTools(
            gpus=node.gpus,
            host=node.host,
            sink=spool,
            clock=clock,
            watch=self._watch(node),
            beat=self._beat,
            progress=self._progress(),
        )
        plan = SamplePlan(
            hz=wish.hz,
            duration_s=wish.duration_s,
            meta=node.meta(self._name),
            phase=crc32(self._name.encode()) / 2**32,
        )
        self._loop = loop = SampleLoop(plan, tools)
        self._sampling_since_s = time.monotonic()
        self._beat.begun_ns = time.monotonic_ns()
        self._beat.limit_s = LIMIT_S
        loop.run()

    def _close(self, spool: SampleSpool, limit_s: float) -> list[str]:
        """End the copy and keep the rest; what is to be said of it, once nothing is left to do."""
        if self._topology is not None:
            self._topology.end()
        kept = spool.close(limit_s, self._hurry())
        out, target = self._wish.out, self._target
        sentences = [f"{out}/{target}: not written in time"] if spool.is_unwritten else []
        if kept is not None:
            sentences.append(f"not all samples reached {out}; the rest is in {kept} on this node")
        if self._wish.by_hand:
            if spool.is_unsynced:
                why = "not synced in time; the last samples may be lost"
                sentences.append(f"{out}/{target}: {why}")
            self._place = Place(out, target, spool.reached, kept, spool.is_lost)
        self._is_closed = True
        return sentences

    def _last_copy_s(self) -> float:
        """How long the end may wait for the folder: KILL soon follows TERM, HUP and a job's end."""
        heard = None if self._clock is None else self._clock.heard
        is_job = not self._wish.by_hand or "SLURM_JOB_ID" in self._env
        if is_job or heard not in (None, signal.SIGINT):
            return _LAST_COPY_S
        show(b"\r writing the last samples \x1b[K")
        return _LAST_COPY_BY_HAND_S

    def _hurry(self) -> Callable[[], bool]:
        """Asks whether somebody wants the end once more while the folder is waited for."""
        from_ns = time.monotonic_ns() + int(_LAST_COPY_S * 1e9)

        def is_hurried() -> bool:
            # Waiting hangs nowhere: the guard counts from each look.
            self._beat.begun_ns = now_ns = time.monotonic_ns()
            return now_ns >= from_ns and bool(signal.sigpending() & self._ends)

        return is_hurried

    def _say(self, text: str) -> None:
        say(f"{sampler_on(self._env)}: {text}")

    def _command(self) -> list[str]:
        """The words that started this process, up to its verb."""
        before = sys.orig_argv[: len(sys.orig_argv) - len(self._words)]
        return [sys.executable, *before[1:]]

    def _watch(self, node: Node) -> JobEnd:
        from hpckit.binding.plan_in_job import number_in
        from hpckit.sampler.guard import JobEnd

        return JobEnd(
            end_s=number_in(self._env, "SLURM_JOB_END_TIME"),
            parent=self._wish.parent,
            # By hand nobody else's processes are waited for: Ctrl-C ends it.
            processes=None if self._wish.by_hand else node.processes,
        )

    def _progress(self) -> Callable[[int, float], None]:
        if self._env.get("HPCKIT_TOPOLOGY") != "0":
            target = f"{self._folder}/{topology_file(self._name)}"
            words = ["topology", self._wish.out, target, str(os.getpid())]
            self._topology = TopologyProcess([*self._command()[:-1], *words], self._env)
        topology, is_shown = self._topology, self._wish.by_hand and os.isatty(2)

        def progress(ticks: int, seconds: float) -> None:
            if topology is not None:
                topology.look()
            if is_shown:
                line = f"\r sampling  {seconds:.0f} s · {ticks} ticks · Ctrl-C ends it "
                show(line.encode())

        return progress

    def _say_last(self) -> None:
        """Tell a person what there is; where standard output does not take it, on the other."""
        if self._place is None or self._loop is None or self._node is None:
            return

        show(b"\r\x1b[K")
        gpus = sum(len(counters.describe()) for counters in self._node.gpus)
        why = self._node.refused.get("nvidia", "")
        text = last_words(self._loop.ticks, gpus, why, self._place)
        why_not = "not writable"

        def tell() -> None:
            nonlocal why_not
            try:
                os.write(1, text.encode("utf-8", "surrogateescape"))
                why_not = ""
            except OSError as error:
                why_not = reason(error)

        self._beat.begun_ns = 0
        self._is_unsaid = True
        _in_time(tell)
        self._is_unsaid = bool(why_not)
        if why_not:
            _in_time(lambda: self._say(f"standard output: {why_not}\n{text.rstrip()}"))

    def _code(self, *, is_over: bool = True) -> int:
        """A job's sampler always ends with 0; by hand a person is told."""
        if not self._wish.by_hand:
            return 0
        return 0 if is_over and self._place is not None and self._place.is_whole else _REFUSED

    def _hung(self, is_asked: bool) -> NoReturn:
        """What is under way does not return: write what there is, and go on without that GPU.

        Whatever fails here this process ends: it would hear no request to end any more.
        """
        gpu = self._beat.gpu
        wish, left_s = self._wish, self._wish.duration_s
        if left_s is not None and self._loop is not None:
            left_s -= time.monotonic() - self._sampling_since_s
        is_over = is_asked or (left_s is not None and left_s <= 0)
        is_end = is_over or gpu is None or gpu in wish.without
        try:
            _in_time(lambda: self._say(self._why_it_hangs()), 1.0)
            sentences: list[str] = []
            _in_time(lambda: sentences.extend(self._keep_what_there_is(is_end)))
            # Standard error may lie where nothing answers, or be a terminal that was stopped.
            _in_time(lambda: list(map(self._say, sentences)))
            if not is_end and gpu is not None:
                again = ["--without", ",".join((*wish.without, gpu))]
                again += [] if left_s is None else ["--duration", repr(left_s)]
                try:
                    os.execv(sys.executable, [*self._command(), *self._words, *again])
                except OSError as error:
                    why = f"{sys.executable}: {error.strerror}; sampling stops here"
                    _in_time(lambda: self._say(why))
            _in_time(self._say_last, 2 * _LAST_WORDS_S)
        finally:
            os._exit(self._code(is_over=is_over and not self._is_unsaid))

    def _why_it_hangs(self) -> str:
        gpu = self._beat.gpu
        if gpu is not None:
            return f"the driver does not answer for {gpu}; it is no longer sampled"
        late_s = (time.monotonic_ns() - self._beat.begun_ns) / 1e9
        if self._loop is None:
            return f"sampling did not start within {late_s:.0f} s, and stops here"
        return f"a system call did not return for {late_s:.0f} s; sampling stops here"

    def _keep_what_there_is(self, is_end: bool) -> list[str]:
        """Write it, and end the copy; what is to be said then."""
        loop, spool = self._loop, self._spool
        if self._is_closed or spool is None:
            return []
        if loop is not None:
            (loop.end_hung if is_end else loop.keep_written)()
        return self._close(spool, _LAST_COPY_S)


def show(text: bytes) -> None:
    """Show a person a line on a terminal, if there is one, and it was not stopped with Ctrl-S."""
    import select

    poll = select.poll()
    poll.register(2, select.POLLOUT)
    if os.isatty(2) and poll.poll(0):
        os.write(2, text)


def _no_closed_streams() -> None:
    """What the sampler opens is never taken for a standard stream: closed ones take nothing."""
    while (fd := os.open(os.devnull, os.O_RDONLY)) <= 2:  # noqa: PLR2004  0, 1 and 2
        pass
    os.close(fd)


def _in_time(work: Callable[[], object], limit_s: float = _LAST_WORDS_S) -> None:
    """Do what may hang: on this node, or in the job folder, where standard error is."""
    import threading

    thread = threading.Thread(target=work, daemon=True)
    until_s = time.monotonic() + limit_s
    thread.start()
    thread.join(limit_s)
    if time.monotonic() > until_s + 1:  # the process was stopped meanwhile, and the work too
        thread.join(limit_s)


def _first_to_go() -> None:
    """Where the job's memory is out the kernel ends this, and its child, before any rank."""
    try:
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(b"1000")
    except OSError:
        return


# --- What a node looks like, written beside its samples by the process that the sampler starts.
_TOPOLOGY_S = 60
"""Then it is killed, whatever it does."""
_WORDS = 3
_PR_SET_PDEATHSIG = 1
"""Source: linux/prctl.h."""


def topology(words: list[str], env: dict[str, str]) -> int | None:
    """Write this node's topology; None for a wrong command line, else 0 whatever happens.

    The words are the job folder, the file below it, and the process that started this one, with
    which it ends. What went wrong is one line on stderr.
    """
    if len(words) != _WORDS or not (words[2].isascii() and words[2].isdigit()):
        return None
    root, target, parent = words
    signal.alarm(_TOPOLOGY_S)
    if not _ends_with(int(parent)):
        return 0
    try:
        write_topology(root, target, env.get("SLURMD_NODENAME") or os.uname().nodename)
    except OSError as error:
        say(f"{sampler_on(env)}: topology: {error.filename or target}: {reason(error)}")
    except Exception as error:  # noqa: BLE001  whatever it is, it must not fail the job
        say(f"{sampler_on(env)}: topology: {type(error).__name__}: {error}")
    return 0


def write_topology(root: str, target: str, node: str, settings: NodeSettings | None = None) -> None:
    """Write the document to `target` below `root`, at once or not at all, unless it is there.

    `settings` are in place of the node's own. Raises OSError, HpckitError.
    """
    path = f"{root}/{target}"
    if os.path.lexists(path):
        return
    import json

    from hpckit import __version__
    from hpckit.core.files_in_job import make_folders, write_whole
    from hpckit.node.probe import topology_tree
    from hpckit.node.topology import TOPOLOGY_SCHEMA

    head = {"schema": TOPOLOGY_SCHEMA, "hpckit": __version__}
    tree = {**head, **topology_tree(node, driver_s=30, settings=settings)}
    data = json.dumps(tree, separators=(",", ":")).encode()
    # A job folder that was removed stays so; what lies in it is made.
    os.stat(root)
    make_folders(os.path.dirname(path))
    write_whole(path, data)


def _ends_with(parent: int) -> bool:
    """Let the kernel end this process with `parent`; false where that is gone already."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    except (ImportError, OSError, AttributeError):
        # The time limit holds all the same.
        pass
    return os.getppid() == parent
