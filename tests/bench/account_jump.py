"""The sampler's loop at its highest rate, under a clock that jumps from tick to tick.

`python -m tests.bench.account_jump OUT HZ TICKS`: loop, GPUs, host columns, spool and copier are
those of `injob sample`; CLOCK_MONOTONIC, and the time of the fake NVML
(HPCKIT_FAKE_NVML_CLOCK), pass only by waiting. It prints one JSON object: the resident set after
30 s of that time, and at the end.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import resource
import struct
import sys
import time
from pathlib import Path

from hpckit.account.sample_format import Moment
from hpckit.sampler.guard import Beat, JobEnd, SignalClock
from hpckit.sampler.loop import SampleLoop, SamplePlan, SampleTools
from hpckit.sampler.parts import Node
from hpckit.sampler.spool import SampleSpool
from hpckit.spec.folder_in_job import account_folder, samples_file

WARM_UP_S = 30.0
_NS = 1_000_000_000


class JumpClock(SignalClock):
    """Time that passes by waiting alone."""

    def __init__(self, file: Path) -> None:
        """`file` is what the fake NVML takes for its clock."""
        super().__init__(())
        file.write_bytes(bytes(8))
        with file.open("r+b") as shown:
            self._shown = mmap.mmap(shown.fileno(), 8)
        self._realtime_ns = time.time_ns()
        self._begin_ns = self._now_ns = time.monotonic_ns()
        self._show()
        self.warm_bytes: int | None = None

    def now(self) -> Moment:
        """The three clocks."""
        since_ns = self._now_ns - self._begin_ns
        return Moment(self._realtime_ns + since_ns, self._now_ns, self._now_ns)

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return self._now_ns

    def wait_until(self, monotonic_ns: int) -> bool:
        """Go there at once."""
        self._now_ns = max(self._now_ns, monotonic_ns)
        self._show()
        if self.warm_bytes is None and self._now_ns - self._begin_ns >= WARM_UP_S * _NS:
            self.warm_bytes = resident_bytes()
        return False

    def _show(self) -> None:
        self._shown[:] = struct.pack("<q", self.now().realtime_ns)


def resident_bytes() -> int:
    """The resident set of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main(out: str, hz: float, ticks: int) -> int:
    """Sample `ticks` periods after warming up, and print what the memory did."""
    clock = JumpClock(Path(os.environ["HPCKIT_FAKE_NVML_CLOCK"]))
    # GPUs date their records by the system's clock, which must be the same one.
    vars(time).update(monotonic_ns=clock.monotonic_ns)
    beat = Beat()
    node = Node({}, hz, (), beat)
    target = f"{account_folder('', '')}/{samples_file('n1')}"
    spool = SampleSpool(out, target, say=lambda line: print(line, file=sys.stderr))
    plan = SamplePlan(hz=hz, duration_s=WARM_UP_S + ticks / hz, meta=node.meta("n1"))
    endless = JobEnd(end_s=None, parent=None, processes=None)
    tools = SampleTools(
        gpus=node.gpus, host=node.host, sink=spool, clock=clock, watch=endless, beat=beat
    )
    gc.freeze()
    gc.disable()
    loop = SampleLoop(plan, tools)
    loop.run()
    found = {"ticks": loop.ticks, "warm_bytes": clock.warm_bytes, "end_bytes": resident_bytes()}
    spool.close(60.0)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
