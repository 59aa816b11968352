"""How reading and judging grow with their input: of twice as much, at most thrice the time.

What is read comes from anywhere, so no text may cost the square of its length. A figure is the CPU
time of the whole by that of half of it, each the least of a few. Exits 1 when one is over its
limit. All of it is made up.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from hpckit.account.gather import NodeEvidence, claims_of
from hpckit.account.ledger import EnergyReading, Moment, RankLedger, RankStart
from hpckit.account.store import FileSampleStore
from hpckit.comm.lint import lint_text
from hpckit.comm.lint_rule import LintFacts
from hpckit.comm.run.nccl_tests import parse_nccl_run
from hpckit.comm.run.rules import shortfall_findings
from hpckit.core.errors import ParseError
from hpckit.fabric.file import parse_fabric
from hpckit.fabric.ibnetdiscover import parse_ibnetdiscover
from hpckit.node.capture.nvidia_smi import parse_topo_matrix
from hpckit.node.places import places
from hpckit.node.topology import Nic, NodeTopology, Source
from hpckit.spec.platform import NcclVersion
from tests.ib_fabrics import two_tier

MOST = 3.0
CHARACTERS = 60_000
FACTS = LintFacts(interfaces=("eth0",), nics=("mlx5_0", "mlx5_10"), nodes=2, is_vm=False)
TEXTS: dict[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
    "a script, lint": (
        lambda text: lint_text(text.encode(), "job.sh", nccl=NcclVersion.of("2.27.3"), facts=FACTS),
        (
            *("$(", '"$(', "<<a\n", "((x ", "((x) ", "`\\", "$(<<a ", "bash -c 'A=1 x'; "),
            *('bash -c "', "srun -n ", "#SBATCH --export=a=,\n", "sbatch <<E\nA=1 x\nE\n"),
            *("export NCCL_IB_HCA=a\nsrun --export=B=1 x\n", "A='b c' bash -c \"$A\"; "),
        ),
    ),
    "NCCL's log": (
        parse_nccl_run,
        (
            *("NCCL INFO ", "a", "NCCL INFO a comm 0x1 rank 1 nranks 2 parent x\n", "\x1b["),
            *("1024 256 float\n", "busbw size algbw ", "NCCL INFO NET/IB : Using [0]={"),
        ),
    ),
    "nvidia-smi topo": (parse_topo_matrix, ("GPU0 ", "GPU0 CPU Affinity\n", "GPU0 GPU1\n")),
    "a fabric": (
        lambda text: parse_fabric(text, "topology.conf"),
        ("\n", "\\", "SwitchName=a Nodes=a[1]", "a ", "- topology: ", "h: ", "topology: ["),
    ),
}


def lives(count: int) -> Callable[[], object]:
    """Return the claims of a rank that began so often."""

    def life(at: int) -> RankLedger:
        reading = EnergyReading(uuid="GPU-1", monotonic_ns=at, energy_mj=1)
        moment = Moment(realtime_ns=at, monotonic_ns=at, boottime_ns=at)
        return RankLedger(
            start=RankStart(
                rank=0, local_rank=0, world_size=1, node="n1", pid=at, boot_id=None, at=moment,
                gpus=(reading,), claim="visible",
            )
        )  # fmt: skip

    evidence = NodeEvidence(
        node="n1", restart=0, begin_ns=0, end_ns=count, realtime_offset_ns=0, boot_id=None,
        lives=tuple(map(life, range(count))),
    )  # fmt: skip
    return lambda: claims_of(FileSampleStore(), evidence, is_running=True)


def nodes_of_a_log(count: int) -> Callable[[], object]:
    """Return the judgement of a log of so many nodes."""
    said = (
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
        "comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0",
        "comm 0x1 rank 0 nranks 2 cudaDev 0 busId 7000 commId 0x1 - Init COMPLETE",
    )
    run = parse_nccl_run(
        "".join(f"n{at}:{at}:2 [0] NCCL INFO {line}\n" for at in range(count) for line in said)
    )
    return lambda: shortfall_findings(run)


def cabled(count: int) -> Callable[[], object]:
    """Return the reading of so many leaves of 32 nodes."""
    text = two_tier(1, count, 32, 16, 1).text()
    return lambda: parse_ibnetdiscover(text)


def nics(count: int) -> Callable[[], object]:
    """Return the places of so many NICs of which nothing else is known."""
    made = tuple(Nic(index=at, name=f"e{at}") for at in range(count))
    node = NodeTopology(source=Source(format="fake"), nics=made)
    return lambda: places(node)


MADE = {
    "lives of a rank": (lives, 4000),
    "nodes of a log": (nodes_of_a_log, 2000),
    "an InfiniBand fabric": (cabled, 64),
    "NICs without a place": (nics, 4000),
}


def spent_s(act: Callable[[], object]) -> float:
    """Return the least CPU time of a few runs."""
    times_s = []
    for _ in range(2):
        begun_s = time.process_time()
        with suppress(ParseError):
            act()
        times_s.append(time.process_time() - begun_s)
    return max(min(times_s), 1e-3)


def growth(half: Callable[[], object], whole: Callable[[], object]) -> float:
    """Return how many times as long as its half the whole takes."""
    return spent_s(whole) / spent_s(half)


def measured() -> Iterator[tuple[str, float]]:
    """Yield the name of each figure with its value."""
    for name, (read, pieces) in TEXTS.items():
        for piece in pieces:
            text = piece * (CHARACTERS // len(piece))
            half = piece * (CHARACTERS // len(piece) // 2)
            yield f"{name}: {piece!r}", growth(partial(read, half), partial(read, text))
    for name, (make, count) in MADE.items():
        yield name, growth(make(count // 2), make(count))


def main() -> int:
    """Measure, print, and return 1 when a figure is over its limit."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    worst = 0.0
    for name, value in measured():
        print(f"{value:5.2f} x  {'ok' if value <= MOST else 'OVER'}  {name}", flush=True)
        worst = max(worst, value)
    return int(worst > MOST)


if __name__ == "__main__":
    raise SystemExit(main())
