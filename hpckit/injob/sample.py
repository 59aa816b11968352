"""The sampler of one node: `injob sample` beside a job's ranks, `hpckit sample` by hand."""

from __future__ import annotations

import os
import sys
import time
from typing import NamedTuple

from hpckit.injob.talk import reason, sampler_on, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NoReturn

    from hpckit.adapters.sample_spool import SampleSpool
    from hpckit.app.sample import SampleEnd, SampleLoop
    from hpckit.injob.sample_parts import Node
    from hpckit.injob.topology_process import TopologyProcess
    from hpckit.sample_ports import JobWatch

LEAST_HZ, MOST_HZ = 0.01, 100.0
MOST_DURATION_S = 366 * 86400.0
_LAST_COPY_S = 1.5
_LAST_WORDS_S = 4.0
_MIB = 1024**2
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

    def words(self) -> list[str]:
        """The command line that asks for it."""
        words = ["--out", self.out, "--hz", repr(self.hz)]
        if self.duration_s is not None:
            words += ["--duration", repr(self.duration_s)]
        if self.parent is not None:
            words += ["--parent", str(self.parent)]
        if self.without:
            words += ["--without", ",".join(self.without)]
        return [*words, *([_BY_HAND] if self.by_hand else [])]


def sample(words: list[str], env: dict[str, str]) -> int | None:
    """Sample until the job ends; None for a wrong command line, else 0 whatever happens.

    `--out DIR` is the job folder, `--hz` 0.01 to 100 (1 unless said), `--duration` seconds,
    `--parent` a process whose end is the end. A sampler never fails a job: what went wrong is one
    line on stderr.
    """
    wish = wish_of(words)
    if wish is None:
        return None
    try:
        _Run(wish, words, env).run()
    except OSError as error:
        say(f"{sampler_on(env)}: {error.filename or ''}: {reason(error)}; sampling ends here")
    except Exception as error:  # noqa: BLE001  whatever it is, it must not fail the job
        say(f"{sampler_on(env)}: {type(error).__name__}: {error}; sampling ends here")
    return 0


def wish_of(words: list[str]) -> Wish | None:
    """The options, None where they are no command line of the sampler."""
    by_hand = _BY_HAND in words
    words = [word for word in words if word != _BY_HAND]
    given = dict(zip(words[::2], words[1::2], strict=False))
    if len(words) != 2 * len(given) or not given.keys() <= _OPTIONS.keys():
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


def _word(path: str) -> str:
    """A path as a word of bash; what cannot be seen is an escape that bash understands."""
    from shlex import quote

    if path.isprintable():
        return quote(path)
    return f"$'{''.join(map(_escaped, path))}'"


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":  # a byte that is no UTF-8, as Python keeps it
        return f"\\x{ord(char) - 0xDC00:02x}"
    if char in "\\'":
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"


class _Run:
    def __init__(self, wish: Wish, words: list[str], env: Mapping[str, str]) -> None:
        from hpckit.adapters.sample_guard import Beat

        self._wish = wish
        self._words = words
        self._env = env
        self._beat = Beat()
        self._spool: SampleSpool | None = None
        self._loop: SampleLoop | None = None
        self._topology: TopologyProcess | None = None
        self._sampling_since_s = 0.0

    def run(self) -> None:
        """Begin, sample, end; ends the process where everything went well."""
        from hpckit.adapters.sample_clock import listen
        from hpckit.adapters.sample_guard import Guard
        from hpckit.adapters.sample_spool import SampleSpool

        ends = listen(by_hand=self._wish.by_hand)
        os.nice(19)
        _first_to_go()
        Guard(self._beat, ends, self._hung)
        self._spool = spool = SampleSpool(self._wish.out, self._target(), say=self._say)
        try:
            end, gpus, why = self._sample(spool, ends)
        finally:
            self._close(spool)
        self._leave(end, gpus, why)

    def _sample(self, spool: SampleSpool, ends: frozenset[int]) -> tuple[SampleEnd, int, str]:
        """Sample to the end; how it ended, how many GPUs there were, and why none of NVIDIA's."""
        from zlib import crc32

        from hpckit.adapters.sample_clock import SignalClock
        from hpckit.adapters.sample_guard import LIMIT_S
        from hpckit.app.sample import SampleLoop, SamplePlan, SampleTools
        from hpckit.injob.sample_parts import Node

        wish = self._wish
        node = Node(self._env, wish.hz, wish.without, self._beat)
        tools = SampleTools(
            gpus=node.gpus,
            host=node.host,
            sink=spool,
            clock=SignalClock(ends),
            watch=self._watch(node),
            beat=self._beat,
            progress=self._progress(),
        )
        name = self._name()
        plan = SamplePlan(
            hz=wish.hz,
            duration_s=wish.duration_s,
            meta=node.meta(name),
            phase=crc32(name.encode()) / 2**32,
        )
        self._loop = loop = SampleLoop(plan, tools)
        self._sampling_since_s = time.monotonic()
        self._beat.begun_ns = time.monotonic_ns()
        self._beat.limit_s = LIMIT_S
        end = loop.run()
        return end, sum(len(one.describe()) for one in node.gpus), node.refused.get("nvidia", "")

    def _close(self, spool: SampleSpool) -> None:
        if self._topology is not None:
            self._topology.end()
        kept = spool.close(_LAST_COPY_S)
        if kept is not None:
            self._say(f"not all reached {self._wish.out}; the rest is in {kept} on this node")

    def _say(self, text: str) -> None:
        say(f"{sampler_on(self._env)}: {text}")

    def _name(self) -> str:
        return self._env.get("SLURMD_NODENAME") or os.uname().nodename

    def _target(self) -> str:
        from hpckit.model.account_files import samples_file

        return f"{self._folder()}/{samples_file(self._name())}"

    def _folder(self) -> str:
        from hpckit.model.account_files import account_folder

        restart = self._env.get("SLURM_RESTART_COUNT", "")
        return account_folder(restart, self._env.get("SLURM_ARRAY_TASK_ID", ""))

    def _command(self) -> list[str]:
        """The words that started this process, up to its verb."""
        before = sys.orig_argv[: len(sys.orig_argv) - len(self._words)]
        return [sys.executable, *before[1:]]

    def _topology_process(self) -> TopologyProcess | None:
        """What reads the node's topology once sampling goes; HPCKIT_TOPOLOGY=0 leaves it out."""
        from hpckit.injob.topology_process import TopologyProcess
        from hpckit.model.account_files import topology_file

        if self._env.get("HPCKIT_TOPOLOGY") == "0":
            return None
        target = f"{self._folder()}/{topology_file(self._name())}"
        words = ["topology", self._wish.out, target, str(os.getpid())]
        return TopologyProcess([*self._command()[:-1], *words], self._env)

    def _watch(self, node: Node) -> JobWatch:
        from hpckit.adapters.job_watch import JobEnd

        end = self._env.get("SLURM_JOB_END_TIME", "")
        return JobEnd(
            end_s=float(end) if end.isascii() and end.isdigit() else None,
            parent=self._wish.parent,
            # By hand nobody else's processes are waited for: Ctrl-C ends it.
            processes=None if self._wish.by_hand else node.processes,
        )

    def _progress(self) -> Callable[[int, float], None]:
        self._topology = topology = self._topology_process()
        is_shown = self._wish.by_hand and os.isatty(2)

        def show(ticks: int, seconds: float) -> None:
            if topology is not None:
                topology.look()
            if not is_shown:
                return
            line = f"\r sampling  {seconds:.0f} s · {ticks} ticks · Ctrl-C ends it "
            os.write(2, line.encode())

        return show

    def _leave(self, end: SampleEnd, gpus: int, why: str) -> NoReturn:
        """End without waiting for a thread that a dead file system may hold."""
        if self._wish.by_hand:
            if os.isatty(2):
                os.write(2, b"\r\x1b[K")
            path = f"{self._wish.out}/{self._target()}"
            sys.stdout.write(
                f" wrote  {end.ticks} samples of {_what(gpus)} · {_word(path)}\n{_note(gpus, why)}"
                f" next   hpckit report --from {_word(self._wish.out)}\n"
            )
            sys.stdout.flush()
        os._exit(0)

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
            _in_time(lambda: self._keep_what_there_is(is_end))
            if not is_end and gpu is not None:
                self._begin_again(wish._replace(duration_s=left_s, without=(*wish.without, gpu)))
        finally:
            os._exit(0)

    def _begin_again(self, wish: Wish) -> None:
        try:
            os.execv(sys.executable, [*self._command(), *wish.words()])
        except OSError as error:
            why = f"{sys.executable}: {reason(error)}; sampling ends here"
            _in_time(lambda: self._say(why))

    def _keep_what_there_is(self, is_end: bool) -> None:
        gpu, loop = self._beat.gpu, self._loop
        is_writing = loop is not None and loop.is_writing
        if gpu is not None:
            self._say(f"the driver does not answer for {gpu}; it is left out from here on")
        else:
            what = "a write on this node" if is_writing else "a call of the system"
            late_s = (time.monotonic_ns() - self._beat.begun_ns) / 1e9
            self._say(f"{what} did not return for {late_s:.0f} s; sampling ends here")
        if loop is not None and not is_writing:
            if is_end:
                loop.end_hung()
            else:
                loop.keep_written()
        if self._spool is not None:
            self._close(self._spool)


def _in_time(work: Callable[[], None]) -> None:
    """Do what may hang: on this node, or in the job folder, where standard error is."""
    import threading

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(_LAST_WORDS_S)


def _first_to_go() -> None:
    """Where the job's memory is out the kernel ends this, and its child, before any rank."""
    try:
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(b"1000")
    except OSError:
        return


def _what(gpus: int) -> str:
    return f"{gpus} GPU{'s' * (gpus > 1)}" if gpus else "the host alone"


def _note(gpus: int, why: str) -> str:
    """Why no GPU was sampled: NVML's error by its name, or a sentence."""
    if gpus or not why:
        return ""
    return f" note   no GPU: {why if ' ' in why else f'NVML {why}'}\n"
