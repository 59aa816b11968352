"""Samples of one node in the order of time: what goes back in it is left out.

A file that was joined twice, or that two samplers wrote at once, repeats times; one to which an
older part was joined has them late.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from hpckit.measure.rows import Times
from hpckit.model.series import SampleChunk

_HOST = ""


class Onward(Struct):
    """Takes a node's chunks one after the other; `left_out` counts the rows that went back."""

    last_ns: dict[str, int] = field(default_factory=dict)
    left_out: int = 0

    def of(self, chunk: SampleChunk, shift_ns: int) -> SampleChunk:
        """The chunk without rows at or before the last one of their GPU, or of the host."""
        uuids = [gpu.uuid for gpu in chunk.meta.gpus]
        at_ns, places = chunk.gpu_ns, chunk.gpu["gpu"]
        if not self._is_onward(at_ns, places, uuids, shift_ns):
            kept = np.ones(len(at_ns), bool)
            for place, uuid in enumerate(uuids):
                mine = np.flatnonzero(places == place)
                kept[mine] = self._kept(at_ns[mine], uuid, shift_ns)
            chunk = replace(chunk, gpu_ns=at_ns[kept], gpu=chunk.gpu[kept])
        if not self._is_onward(chunk.host_ns, np.zeros(len(chunk.host_ns)), [_HOST], shift_ns):
            kept = self._kept(chunk.host_ns, _HOST, shift_ns)
            chunk = replace(chunk, host_ns=chunk.host_ns[kept], host=chunk.host[kept])
        return chunk

    def _is_onward(
        self, at_ns: Times, places: NDArray[Any], whose: list[str], shift_ns: int
    ) -> bool:
        """Whether all rows go on in time, as those of a sampler do: then they are taken."""
        if not len(at_ns):
            return True
        last_ns = max((self.last_ns[one] for one in whose if one in self.last_ns), default=None)
        if last_ns is not None and int(at_ns[0]) + shift_ns <= last_ns:
            return False
        if bool((at_ns[1:] < at_ns[:-1]).any()):
            return False
        # GPUs of one tick may have one time, each once.
        same = np.flatnonzero(at_ns[1:] == at_ns[:-1])
        if bool((places[same + 1] <= places[same]).any()):
            return False
        # Most often the last tick has a row of each GPU.
        last = dict(zip(places[-len(whose) :].tolist(), at_ns[-len(whose) :].tolist(), strict=True))
        for place, uuid in enumerate(whose):
            before = at_ns[:0] if place in last else at_ns[places == place]
            if len(before):
                last[place] = int(before[-1])
            if place in last:
                self.last_ns[uuid] = last[place] + shift_ns
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
        self.left_out += int(np.count_nonzero(~kept))
        return kept
