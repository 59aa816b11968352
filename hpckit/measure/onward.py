"""Samples of one node in the order of time: what goes back in it was there before.

A file that was joined twice, or that two samplers wrote at once, repeats times.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from hpckit.measure.rows import Times
from hpckit.model.series import SampleChunk

_HOST = ""


class Onward(Struct):
    """Takes a node's chunks one after the other; `repeated` rows were left out."""

    last_ns: dict[str, int] = field(default_factory=dict)
    repeated: int = 0

    def of(self, chunk: SampleChunk, shift_ns: int) -> SampleChunk:
        """The chunk without rows at or before the last one of their GPU, or of the host."""
        uuids = [gpu.uuid for gpu in chunk.meta.gpus]
        at_ns = chunk.gpu_ns
        if not self._is_onward(at_ns, uuids, shift_ns):
            kept = np.ones(len(at_ns), bool)
            for place, uuid in enumerate(uuids):
                mine = np.flatnonzero(chunk.gpu["gpu"] == place)
                kept[mine] = self._kept(at_ns[mine], uuid, shift_ns)
            chunk = replace(chunk, gpu_ns=at_ns[kept], gpu=chunk.gpu[kept])
        if not self._is_onward(chunk.host_ns, [_HOST], shift_ns):
            kept = self._kept(chunk.host_ns, _HOST, shift_ns)
            chunk = replace(chunk, host_ns=chunk.host_ns[kept], host=chunk.host[kept])
        return chunk

    def _is_onward(self, at_ns: Times, whose: list[str], shift_ns: int) -> bool:
        """Whether all rows go on in time, as those of a sampler do: then they are taken."""
        if not len(at_ns):
            return True
        last_ns = max((self.last_ns[one] for one in whose if one in self.last_ns), default=None)
        if last_ns is not None and int(at_ns[0]) + shift_ns <= last_ns:
            return False
        # The GPUs of one tick may have one time.
        back = at_ns[1:] < at_ns[:-1] if len(whose) > 1 else at_ns[1:] <= at_ns[:-1]
        if bool(back.any()):
            return False
        self.last_ns |= dict.fromkeys(whose, int(at_ns[-1]) + shift_ns)
        return True

    def _kept(self, at_ns: Times, whose: str, shift_ns: int) -> NDArray[np.bool_]:
        """Which rows of one GPU, or of the host, come after all that were before them."""
        if not len(at_ns):
            return np.ones(0, bool)
        times = at_ns + shift_ns
        most = np.maximum.accumulate(times)
        before = np.empty_like(most)
        before[0] = self.last_ns.get(whose, int(times[0]) - 1)
        np.maximum(most[:-1], before[0], out=before[1:])
        kept: NDArray[np.bool_] = times > before
        self.last_ns[whose] = max(int(before[0]), int(most[-1]))
        self.repeated += int(np.count_nonzero(~kept))
        return kept
