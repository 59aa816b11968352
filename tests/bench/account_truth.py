"""How far reported energies are from the truth, on simulated sensors and on the fake NVML.

An error is a share of the truth. A counter that is renewed every 100 ms cannot place the two ends
of a job better than that: a figure is the root of the mean square of the errors over all waveforms,
and beside it stand what 95 of 100 jobs keep, and the worst.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpckit.account.values import Energy
from tests.bench.account_figures import PROFILES, Bench, Figure, Step
from tests.fakes.energy_truth import SENSINGS, counter_job, integrated_job
from tests.fakes.sensors import WAVEFORMS
from tests.fakes.virtual_nvml import VirtualNvml

LIMITS_PCT = {1.0: 5.0, 10.0: 1.0, 60.0: 1.0}
UPDATES_S = (0.02, 0.1)
LEAST_COVERED_PCT = 95.0
SENSORS = ("h100-sensor", "a100-sensor")

Job = tuple[float, Energy]


class Off(NamedTuple):
    """What one job was off by, as a share of the truth, and whether its interval held that."""

    frac: float
    held: bool
    half_width_frac: float


def offs(run: Callable[[int, str], Job], seeds: int) -> dict[str, list[Off]]:
    """The errors of jobs of every waveform, spread over the cores."""
    with ProcessPoolExecutor() as pool:
        made = {waveform: pool.submit(_offs_of, run, waveform, seeds) for waveform in WAVEFORMS}
        return {waveform: future.result() for waveform, future in made.items()}


def counters(bench: Bench) -> Iterator[Figure]:
    """Energies by counter and ledger, with samples and without."""
    seeds = bench.pick(1000, 60)
    for length_s, limit_pct in LIMITS_PCT.items():
        for update_s in UPDATES_S:
            for has_samples in (False, True):
                run = partial(
                    _counted, length_s=length_s, has_samples=has_samples, update_s=update_s
                )
                name = f"counter of {1000 * update_s:g} ms, {length_s:g} s"
                name += ", samples" if has_samples else ", ledger alone"
                yield _error(name, offs(run, seeds), limit_pct)


def intervals(bench: Bench) -> Iterator[Figure]:
    """Energies by integration: how often the stated 95 % interval holds the truth."""
    seeds = bench.pick(1000, 60)
    for name in SENSINGS:
        found = offs(partial(_integrated, sensing=name), seeds)
        covered = {wave: 100 * np.mean([one.held for one in jobs]) for wave, jobs in found.items()}
        least = min(covered, key=lambda wave: covered[wave])
        widths = [one.half_width_frac for jobs in found.values() for one in jobs]
        yield Figure(
            name=f"integrated, {name}: truth in the ±",
            value=float(np.mean(list(covered.values()))), unit="%", limit=LEAST_COVERED_PCT,
            at_least=True,
            beside=f"{seeds} seeds a waveform; least {covered[least]:.1f} % ({least}); "
            f"median ± {100 * float(np.median(widths)):.0f} %",
        )  # fmt: skip


def played(bench: Bench) -> Iterator[Figure]:
    """Ranks of a second and of ten on the fake NVML, their ledgers, and what `report` says."""
    jobs = bench.pick(20, 4)
    for length_s in (1.0, 10.0):
        for sensor in SENSORS:
            found = _played(bench, sensor, length_s, jobs)
            yield _error(f"played, {sensor}, {length_s:g} s", {sensor: found}, LIMITS_PCT[length_s])


def _counted(
    seed: int, waveform: str, *, length_s: float, has_samples: bool, update_s: float
) -> Job:
    return counter_job(seed, waveform, length_s, has_samples=has_samples, update_s=update_s)


def _integrated(seed: int, waveform: str, *, sensing: str) -> Job:
    return integrated_job(seed, waveform, SENSINGS[sensing])


def _offs_of(run: Callable[[int, str], Job], waveform: str, seeds: int) -> list[Off]:
    return [_off(*run(seed, waveform)) for seed in range(seeds)]


def _off(truth_j: float, energy: Energy) -> Off:
    """One job; without a value it is off by the whole."""
    if energy.value_j is None or energy.plus_minus_j is None:
        return Off(1.0, held=False, half_width_frac=1.0)
    off_j = abs(energy.value_j - truth_j)
    return Off(off_j / truth_j, off_j <= energy.plus_minus_j, energy.plus_minus_j / truth_j)


def _error(name: str, found: dict[str, list[Off]], limit_pct: float) -> Figure:
    errors = {wave: 100 * np.array([one.frac for one in jobs]) for wave, jobs in found.items()}
    whole = np.concatenate(list(errors.values()))
    worst = max(errors, key=lambda wave: float(errors[wave].max()))
    return Figure(
        name=f"{name}: rms error", value=float(np.sqrt(np.mean(whole**2))), unit="%",
        limit=limit_pct,
        beside=f"of {len(whole)} jobs 95 of 100 {np.quantile(whole, 0.95):.2f} %, "
        f"worst {whole.max():.2f} % ({worst})",
    )  # fmt: skip


def _played(bench: Bench, sensor: str, length_s: float, jobs: int) -> list[Off]:
    """Jobs of two ranks, each with a GPU of its own, that begin at any phase of the sensors."""
    environ = bench.environ(PROFILES / f"{sensor}.toml")
    folders = [bench.place("played") for _ in range(jobs)]
    started = []
    for folder in folders:
        (folder / "logs").mkdir()
        started += [_rank(bench, environ, folder, rank, length_s) for rank in "01"]
        time.sleep(0.137)
    for process in started:
        process.wait()
    clock = bench.place("clock") / "now"
    with VirtualNvml(bench.fake, PROFILES / f"{sensor}.toml", clock) as node:
        return [off for folder in folders for off in _offs_of_ranks(bench, folder, node)]


def _rank(
    bench: Bench, environ: dict[str, str], folder: Path, rank: str, length_s: float
) -> subprocess.Popen[bytes]:
    env = {
        **environ, "HPCKIT_JOB_FOLDER": str(folder),
        "HPCKIT_LEDGER": "1", "RANK": rank, "LOCAL_RANK": rank,
        "WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": rank,
    }  # fmt: skip
    argv = bench.injob("rank", "--from", "env", "--", "sleep", str(length_s))
    return subprocess.Popen(argv, env=env)


def _offs_of_ranks(bench: Bench, folder: Path, node: VirtualNvml) -> Iterator[Off]:
    argv = bench.hpckit("report", "--from", str(folder), "--json")
    said = subprocess.run(argv, env=bench.user_environ(), check=True, stdout=subprocess.PIPE)
    reported = {one["rank"]: one["energy"] for one in json.loads(said.stdout)["ranks"]}
    for path in folder.rglob("*.ledger"):
        start, end = (json.loads(line) for line in path.read_text().splitlines())
        span = (start["at"]["realtime_ns"], end["at"]["realtime_ns"])
        truth_j = node.true_nj(*span, gpu=start["rank"]) / 1e9
        energy = reported[start["rank"]]
        yield Off(
            abs(energy["value_j"] - truth_j) / truth_j,
            abs(energy["value_j"] - truth_j) <= energy["plus_minus_j"],
            energy["plus_minus_j"] / truth_j,
        )


STEPS = (
    Step("truth:counter", "energies by counter", counters),
    Step("truth:interval", "energies by integration", intervals),
    Step("truth:played", "energies of ranks on the fake NVML", played),
)
