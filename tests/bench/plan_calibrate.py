"""Fits the eight constants of `hpckit plan`'s step time, and says how well (`make calibrate`).

On two tables alone: Megatron-LM's weak scaling on A100 and on H100, 19 rows. What is minimized is
the mean size of the relative errors, by steps along each constant that halve. With --check nothing
is fitted anew: exits 1 when the frozen constants are not those of the fit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields, replace

from hpckit.planner.calibration import FROZEN, Constants
from hpckit.planner.table import Run, best_layout, predict
from tests.bench.plan_tables import corpus, megatron_core, runs_of, sc21

BOUNDS = {
    "matmul_ampere": (0.5, 1.0),
    "matmul_hopper": (0.5, 1.0),
    "memory": (0.3, 0.95),
    "kernel_s": (0.0, 100e-6),
    "attention": (0.3, 1.3),
    "straggler": (0.0, 0.06),
    "overlap": (0.0, 1.0),
    "tensor_exposed": (0.1, 1.0),
}
START = Constants(
    matmul_ampere=0.9, matmul_hopper=0.85, memory=0.75, kernel_s=3e-5, attention=0.5,
    straggler=0.02, overlap=1.0, tensor_exposed=0.4,
)  # fmt: skip
STEPS = (0.2, 0.1, 0.05, 0.025, 0.0125, 0.00625, 0.003125)


def error(constants: Constants, runs: Sequence[Run]) -> float:
    """Return the mean size of the relative errors."""
    sizes = [
        abs(predict(run, best_layout(run, constants), constants) / run.published - 1)
        for run in runs
    ]
    return sum(sizes) / len(sizes)


def fit(runs: Sequence[Run], start: Constants = START) -> Constants:
    """Return the constants of the least error near a start: a search along each in turn."""
    found, least = start, error(start, runs)
    for step in STEPS:
        is_better = True
        while is_better:
            is_better = False
            for name, (low, high) in BOUNDS.items():
                for sign in (-1, 1):
                    value = getattr(found, name) + sign * step * (high - low)
                    tried = replace(found, **{name: min(high, max(low, value))})
                    size = error(tried, runs)
                    if size < least - 1e-7:
                        found, least, is_better = tried, size, True
    return found


def calibration_runs() -> list[Run]:
    """Return the 19 rows."""
    folder = corpus()
    first, _ = runs_of(folder / "megatron_sc21_weak_scaling.csv", sc21)
    second, _ = runs_of(folder / "megatron_core_h100_weak_scaling.csv", megatron_core)
    return [*first, *second]


def left_out_errors(runs: Sequence[Run], start: Constants) -> list[float]:
    """Return the error of each row when the constants are fitted on the others."""
    errors = []
    for number, run in enumerate(runs):
        others = [*runs[:number], *runs[number + 1 :]]
        constants = fit(others, start)
        errors.append(predict(run, best_layout(run, constants), constants) / run.published - 1)
    return errors


def main() -> int:
    """Print the constants and their errors; return 1 where the frozen ones differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare the frozen ones alone")
    options = parser.parse_args()
    runs = calibration_runs()
    found = fit(runs)
    print(f"{len(runs)} rows, {len(fields(found))} constants")
    for name, value in asdict(found).items():
        frozen = getattr(FROZEN, name)
        print(f"  {name:<16} {value:<10.4g} frozen {frozen:.4g}")
    print(f"mean error {100 * error(found, runs):.2f} %, frozen {100 * error(FROZEN, runs):.2f} %")
    if not options.check:
        left_out = left_out_errors(runs, found)
        sizes = [abs(size) for size in left_out]
        mean, most = sum(sizes) / len(sizes), max(sizes)
        print(f"leave one out: mean {100 * mean:.2f} %, at most {100 * most:.1f} %")
        for run, size in zip(runs, left_out, strict=True):
            print(f"  {100 * size:+6.2f} %  {run.machine.accelerator.name} {run.label}")
    differs = any(
        abs(getattr(found, name) - getattr(FROZEN, name)) > 0.02 * (high - low)
        for name, (low, high) in BOUNDS.items()
    )
    if differs:
        print("the frozen constants are not those of this fit: hpckit/planner/calibration.py")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
