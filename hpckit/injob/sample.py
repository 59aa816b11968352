"""The sampler of one node: `injob sample` beside a job's ranks, `hpckit sample` by hand."""

from __future__ import annotations

import gc
import os
import socket
import sys
from typing import NamedTuple

from hpckit import __version__
from hpckit.injob.talk import reason, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hpckit.adapters.sample_spool import SampleSpool
    from hpckit.app.sample import SampleEnd, SampleLoop, SampleTools
    from hpckit.sample_ports import GpuCounters

LEAST_HZ, MOST_HZ = 0.01, 100.0
_LAST_COPY_S = 1.5
_OPTIONS = {"--out": "", "--hz": "1", "--duration": "", "--parent": "", "--without": ""}
_FLAGS = ("--by-hand",)


class Wish(NamedTuple):
    """What the command line asks; `without` are GPUs that hung an earlier attempt."""

    out: str
    hz: float
    duration_s: float | None
    parent: int | None
    without: tuple[str, ...]
    by_hand: bool


def sample(words: list[str], env: dict[str, str]) -> int | None:
    """Sample until the job ends; None for a wrong command line, else 0 whatever happens.

    `--out DIR` is the job folder, `--hz` 0.01 to 100 (1), `--duration` seconds, `--parent` a
    process whose end is the end. A sampler never fails a job: what went wrong is one line on
    stderr.
    """
    wish = wish_of(words)
    if wish is None:
        return None
    try:
        _run(wish, env)
    except OSError as error:
        say(f"sampler: {error.filename or ''}: {reason(error)}; sampling ends here")
    except Exception as error:  # noqa: BLE001  whatever it is, it must not fail the job
        say(f"sampler: {type(error).__name__}: {error}; sampling ends here")
    return 0


def wish_of(words: list[str]) -> Wish | None:
    """The options, None where they are no command line of the sampler."""
    by_hand = _FLAGS[0] in words
    words = [word for word in words if word not in _FLAGS]
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
    if not options["--out"] or not LEAST_HZ <= hz <= MOST_HZ:
        return None
    without = tuple(filter(None, options["--without"].split(",")))
    return Wish(options["--out"], hz, duration_s, parent, without, by_hand)


def _run(wish: Wish, env: dict[str, str]) -> None:
    from hpckit.adapters.sample_clock import SignalClock, listen
    from hpckit.adapters.sample_spool import SampleSpool
    from hpckit.app.sample import SampleLoop, SamplePlan, SampleTools
    from hpckit.model.account_files import account_folder, samples_file

    ends = listen(by_hand=wish.by_hand)
    os.nice(19)
    node = env.get("SLURMD_NODENAME") or socket.gethostname()
    folder = account_folder(env.get("SLURM_RESTART_COUNT", ""), env.get("SLURM_ARRAY_TASK_ID", ""))
    spool = SampleSpool(wish.out, f"{folder}/{samples_file(node)}", say=say)
    tools = SampleTools(
        gpus=_gpus(wish, env),
        host=NoHost(),
        sink=spool,
        clock=SignalClock(ends),
        watch=NoWatch(),
    )
    plan = SamplePlan(hz=wish.hz, duration_s=wish.duration_s, meta=_meta(node, env))
    loop = SampleLoop(plan, tools)
    # Nothing that a tick makes is part of a cycle: collecting would cost time and find nothing.
    gc.collect()
    gc.freeze()
    gc.disable()
    loop.run()
    _close(spool)


def _close(spool: SampleSpool) -> None:
    kept = spool.close(_LAST_COPY_S)
    if kept is not None:
        say(f"sampler: not all could be copied to the job folder; the rest is in {kept}")
    sys.stdout.flush()
    # The interpreter would wait for a thread that a dead file system may hold.
    os._exit(0)


def _meta(node: str, env: dict[str, str]) -> dict[str, object]:
    return {
        "node": node,
        "job_id": env.get("SLURM_JOB_ID"),
        "array_task": _number(env.get("SLURM_ARRAY_TASK_ID")),
        "restart": _number(env.get("SLURM_RESTART_COUNT")) or 0,
        "boot_id": _text("/proc/sys/kernel/random/boot_id"),
        "synthetic": False,
        "hpckit": __version__,
        "cpus": os.cpu_count(),
        "memory_limit_bytes": None,
        "exclusive": None,
    }


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return None


def _gpus(wish: Wish, env: dict[str, str]) -> list[GpuCounters]:
    from hpckit.adapters.nvml_calls import NvmlCalls, NvmlRefused
    from hpckit.adapters.nvml_counters import NvmlCounters

    try:
        nvml = NvmlCalls()
        return [NvmlCounters(nvml, range(nvml.count()), wish.hz)]
    except NvmlRefused:
        return []


class NoHost:
    def columns(self):
        return ()

    def refused(self):
        return {}

    def read(self):
        return ()

    def changed(self):
        return False


class NoWatch:
    def over(self):
        return None

    def has_ranks(self):
        return False
