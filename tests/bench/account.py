"""What accounts of jobs are held to: every figure beside its limit and the command that shows it.

Parts are truth, cost, crash, speed, ledger and bytes; `--only` takes parts and steps
(`--only truth,cost:10hz`). Everything runs on synthetic GPUs (docker/fake-nvml, simulated sensors)
and made-up job folders. CPU is read by clock_getcpuclockid(3), and includes what the fake driver
computes. Exits 1 when a figure is over its limit. `--quick` takes shorter times and fewer seeds,
which say less; `--whole` measures 1,024 GPUs in place of the sizes it is projected from, and
36,000 ticks in 6 minutes of real time. What cannot be measured here is listed with the reason.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench import (
    account_bytes,
    account_cost,
    account_crash,
    account_ledger,
    account_speed,
    account_truth,
)
from tests.bench.account_figures import Bench, Step

STEPS: tuple[Step, ...] = (
    *account_truth.STEPS,
    *account_cost.STEPS,
    *account_crash.STEPS,
    *account_speed.STEPS,
    *account_ledger.STEPS,
    *account_bytes.STEPS,
)
PARTS = tuple(dict.fromkeys(step.part for step in STEPS))


def chosen(only: str | None) -> list[Step]:
    """The steps that `--only` names, all without it. Raises ArgumentTypeError."""
    if only is None:
        return list(STEPS)
    words = set(only.split(","))
    unknown = words - {*PARTS, *(step.name for step in STEPS)}
    if unknown:
        names = ", ".join([*PARTS, *(step.name for step in STEPS)])
        raise argparse.ArgumentTypeError(f"{sorted(unknown)[0]!r} is none of {names}")
    return [step for step in STEPS if {step.part, step.name} & words]


def measure(bench: Bench, steps: Sequence[Step], *, as_json: bool) -> list[dict[str, Any]]:
    """Every figure of these steps; a table is printed as it grows."""
    rows: list[dict[str, Any]] = []
    for step in steps:
        command = step.command(bench)
        print(f"\n{command}", file=sys.stderr if as_json else sys.stdout, flush=True)
        for figure in step.figures(bench):
            rows.append(figure.row(step.name, command))
            if not as_json:
                print(figure.line(), flush=True)
    return rows


def main() -> int:
    """Measure, print, and return 1 when a figure is over its limit."""
    options = argparse.ArgumentParser(
        prog="python -m tests.bench.account", description=__doc__.partition("\n\n")[0]
    )
    options.add_argument(
        "--only", type=chosen, default=list(STEPS), metavar="PART,STEP", help=", ".join(PARTS)
    )
    options.add_argument("--json", action="store_true", help="print one JSON document")
    options.add_argument("--quick", action="store_true", help="shorter times, which say less")
    options.add_argument("--whole", action="store_true", help="nothing projected or sped up")
    given = options.parse_args()
    if not given.json:
        print("synthetic GPUs and jobs" + ("; --quick: these say less" if given.quick else ""))
    with tempfile.TemporaryDirectory(prefix="hpckit-bench-") as folder:
        bench = Bench(Path(folder), quick=given.quick, whole=given.whole)
        rows = measure(bench, given.only, as_json=given.json)
    over = [row for row in rows if row["kept"] is False]
    if given.json:
        document = {
            "schema": "hpckit.bench/1", "suite": "account", "quick": given.quick,
            "whole": given.whole, "synthetic": True, "figures": rows,
        }  # fmt: skip
        print(json.dumps(document, indent=2))
    else:
        lacking = sum(row["kept"] is None for row in rows)
        print(f"\n{len(rows)} figures, {len(over)} over, {lacking} not measured")
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
