"""What nccl-tests measured, and what NCCL logged of the same run.

Words are those of nccl-tests (src/util.cu) and of NCCL. Bandwidth is in bytes a second, where
nccl-tests prints units of 10^9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from hpckit.comm.run.log_lines import NcclLog
from hpckit.core.values import dataclass
from hpckit.spec.platform import NcclVersion

COLLECTIVES: Final = MappingProxyType(
    {
        "all_reduce": "AllReduce",
        "all_gather": "AllGather",
        "reduce_scatter": "ReduceScatter",
        "broadcast": "Broadcast",
        "reduce": "Reduce",
        "alltoall": "AllToAll",
        "alltoallv": "AllToAllv",
        "gather": "Gather",
        "scatter": "Scatter",
        "sendrecv": "SendRecv",
        "hypercube": "HyperCube",
    }
)
"""Name of a program without `_perf` → the collective in NCCL's words. Source: nccl-tests, src."""

PLATEAU_SPAN: Final = 4
"""Rows within this factor of the largest size show the plateau."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BusbwFigures:
    """One measurement: `wrong` is None where results were not checked (`N/A`)."""

    time_s: float
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    wrong: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BusbwRow:
    """One size; a placement that was not measured is None.

    `type`, `redop` and `root` are None where the layout has no such column; `root` is -1 where
    there is none, as nccl-tests prints it.
    """

    size_bytes: int
    elements: int
    type: str | None = None
    redop: str | None = None
    root: int | None = None
    out_of_place: BusbwFigures | None = None
    in_place: BusbwFigures | None = None
    line_no: int = 1

    @property
    def figures(self) -> tuple[BusbwFigures, ...]:
        """What was measured, out of place first."""
        return tuple(one for one in (self.out_of_place, self.in_place) if one is not None)

    @property
    def busbw_bytes_per_s(self) -> float | None:
        """The better of both placements."""
        return max((one.busbw_bytes_per_s for one in self.figures), default=None)

    @property
    def wrong(self) -> int:
        """Wrong elements of both placements, those that were checked."""
        return sum(one.wrong or 0 for one in self.figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankDevice:
    """One rank as the header names it; `bus` is `0000:07:00`, or `0x07` of older ones."""

    rank: int
    pid: int
    host: str
    device: int
    bus: str
    gpu: str
    group: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclTest:
    """One program of nccl-tests; None is what its output does not say.

    `collective_unknown` is why there is no collective. `ranks` are those that the output names,
    `gpus_per_rank` how many GPUs each of them stands for: JSON names the first of each process
    alone. `unread` counts lines in the table that are
    no whole row. `environment` are NCCL's variables as the JSON output lists them.
    """

    program: str | None = None
    collective: str | None = None
    collective_unknown: str | None = None
    version: str | None = None
    library: NcclVersion | None = None
    ranks: tuple[RankDevice, ...] = ()
    gpus_per_rank: int = 1
    rows: tuple[BusbwRow, ...] = ()
    average_busbw_bytes_per_s: float | None = None
    out_of_bounds: int | None = None
    most_bytes: int | None = None
    environment: tuple[tuple[str, str], ...] = ()
    unread: int = 0
    line_no: int = 1

    @property
    def plateau_bytes_per_s(self) -> float | None:
        """The best bus bandwidth of the sizes within PLATEAU_SPAN of the largest."""
        most = max((row.size_bytes for row in self.rows), default=0)
        large = (row for row in self.rows if row.size_bytes * PLATEAU_SPAN >= most > 0)
        found = (row.busbw_bytes_per_s for row in large)
        return max((one for one in found if one is not None), default=None)

    @property
    def rank_count(self) -> int:
        """Ranks that ran together, 0 where the output names none; copies of one rank are one."""
        return len({one.rank for one in self.ranks}) * self.gpus_per_rank

    @property
    def hosts(self) -> tuple[str, ...]:
        """Nodes of its ranks, in their order."""
        return tuple(dict.fromkeys(rank.host for rank in self.ranks))

    @property
    def copies(self) -> int:
        """Runs that wrote into one table, each of which names the same ranks."""
        return max(Counter(one.rank for one in self.ranks).values(), default=1)

    @property
    def nodes(self) -> int:
        """Nodes of its ranks, of one copy where there are several; 0 where it names none."""
        return -(-len(self.hosts) // self.copies)

    @property
    def groups(self) -> int:
        """Groups that ran side by side, each of which is what its bus bandwidth is of."""
        return len({one.group for one in self.ranks})


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclRun:
    """What one file tells: the tests in their order, and NCCL's log where it has lines of it."""

    tests: tuple[NcclTest, ...] = ()
    log: NcclLog | None = None

    @property
    def test_nodes(self) -> int:
        """Nodes of the test on most of them, 0 where none names its ranks."""
        return max((test.nodes for test in self.tests), default=0)

    @property
    def alike(self) -> tuple[NcclTest, ...]:
        """The tests on as many nodes and ranks as the first that names them; all that name none."""
        shapes = [(one.nodes, one.rank_count) for one in self.tests]
        first = next((one for one in shapes if one[0]), None)
        pairs = zip(self.tests, shapes, strict=True)
        return tuple(test for test, shape in pairs if shape == first or not shape[0])


# --- Which collective a table of nccl-tests is of, where the output does not name its program.
# Releases before 2.17.4 do not. Bus bandwidth is algorithm bandwidth by a factor that belongs to
# the collective, which two of those that reduce have to themselves. Source: nccl-tests,
# doc/PERFORMANCE.md, and the columns `redop` and `root` of src/*.cu.

_FEWEST: Final = 2
_LEAST_TOLD: Final = 1e9
"""Both figures are printed to 0.01 GB/s: from 1 GB/s on their ratio is exact to 2 %."""
_EXACT: Final = 0.03


def collective_of(rows: Sequence[BusbwRow], ranks: int) -> str | None:
    """AllReduce or ReduceScatter, where the factor says so; None for all others, and if unsure."""
    if ranks < _FEWEST or not rows:
        return None
    row = max(rows, key=lambda one: one.size_bytes)
    is_reduced = row.redop not in (None, "none") and row.root in (None, -1)
    figures = [one for one in row.figures if one.algbw_bytes_per_s >= _LEAST_TOLD]
    if not is_reduced or not figures:
        return None
    part = (ranks - 1) / ranks
    for factor, name in ((2 * part, "AllReduce"), (part, "ReduceScatter")):
        ratios = (one.busbw_bytes_per_s / one.algbw_bytes_per_s for one in figures)
        if all(abs(ratio - factor) <= _EXACT * factor for ratio in ratios):
            return name
    return None
