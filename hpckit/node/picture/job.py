"""A job on a node: what its picture says and shows of each GPU and NIC that the job had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from hpckit.core.svg import Look
from hpckit.core.units import format_indices
from hpckit.core.values import dataclass
from hpckit.node.topology import Nic

_HIGH_FRAC: Final = 0.7
_MIDDLE_FRAC: Final = 0.4
HIGH: Final = Look(fill="#9be9a8", stroke="#1a7f37", width=1.6)
MIDDLE: Final = Look(fill="#ffe28a", stroke="#9a6700", width=1.6)
LOW: Final = Look(fill="#ffb3ab", stroke="#cf222e", width=1.6)
NOT_MEASURED: Final = Look(fill="#e3e8ee", stroke="#57606a", width=1.6, dash="4 3")
NOT_OF_JOB: Final = Look(fill="#f6f8fa", stroke="#6e7781", dash="2 3")
TRAFFIC: Final = "#a8d4ff"
BUSY_NIC: Final = Look(fill=TRAFFIC, stroke="#0969da")
_LOOKS: Final = {
    f"useful {_HIGH_FRAC * 100:.0f} % or more": HIGH,
    f"{_MIDDLE_FRAC * 100:.0f} to {_HIGH_FRAC * 100:.0f} %": MIDDLE,
    f"below {_MIDDLE_FRAC * 100:.0f} %": LOW,
    "not measured": NOT_MEASURED,
    "not in this job": NOT_OF_JOB,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """What a job made of a GPU: `useful_frac` is None where nothing was measured.

    `is_slow` says that it held up its peers, or that its clock was held down.
    """

    ranks: tuple[int, ...] = ()
    useful_frac: float | None = None
    is_slow: bool = False

    def texts(self) -> tuple[str, str]:
        """Return `rank 3` and `59 %`."""
        words = f"{'rank' if len(self.ranks) == 1 else 'ranks'} {format_indices(self.ranks)}"
        return words if self.ranks else "no rank", self._share()

    def _share(self) -> str:
        return "not measured" if self.useful_frac is None else f"{self.useful_frac * 100:.0f} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class NicTraffic:
    """What went over a NIC: `text` is told, `load_frac` is relative to the busiest of the node."""

    text: str
    load_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOnNode:
    """A job on one node: `gpus` by their index there, `nics` by name."""

    title: str
    gpus: Mapping[int, GpuUse] = field(default_factory=dict)
    nics: Mapping[str, NicTraffic] = field(default_factory=dict)
    is_synthetic: bool = False

    def use(self, gpus: Sequence[int]) -> GpuUse | None:
        """Return the use of GPUs that share a box as one; None of those that the job had not."""
        uses = [self.gpus[gpu] for gpu in gpus if gpu in self.gpus]
        if len(uses) < 2:  # noqa: PLR2004  nothing to sum up
            return uses[0] if uses else None
        shares = [use.useful_frac for use in uses if use.useful_frac is not None]
        return GpuUse(
            ranks=tuple(sorted({rank for use in uses for rank in use.ranks})),
            useful_frac=sum(shares) / len(shares) if shares else None,
            is_slow=any(use.is_slow for use in uses),
        )

    def traffic(self, nic: Nic) -> NicTraffic | None:
        """Return what went over a NIC, where that was measured."""
        return self.nics.get(nic.name)


def use_look(use: GpuUse | None) -> Look:
    """Return how the box of a GPU is filled."""
    if use is None:
        return NOT_OF_JOB
    if use.useful_frac is None:
        return NOT_MEASURED
    if use.useful_frac >= _HIGH_FRAC:
        return HIGH
    return MIDDLE if use.useful_frac >= _MIDDLE_FRAC else LOW


def legend(looks: Sequence[Look]) -> list[tuple[str, Look]]:
    """Return what the fills mean; those that the picture lacks are left out but for the shares."""
    shares = (HIGH, MIDDLE, LOW) if set(looks) - {NOT_OF_JOB} else ()
    return [(text, look) for text, look in _LOOKS.items() if look in shares or look in looks]
