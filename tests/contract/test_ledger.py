"""A rank's ledger on the fake NVML of docker/fake-nvml: GPUs, energies, and what may go wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.nvml_library import profile

Kept = Callable[..., tuple[int, list[dict[str, Any]]]]
FOUR = """
gpus = 4
epoch_s = 1704067200
[gpu]
name = "Synthetic"
power_limit_w = 500
power_w = 200
"""


@pytest.fixture
def kept(library: Path, injob_archive: Path, tmp_path: Path) -> Kept:
    """Run a command as local rank 1 of 2 on a machine of that profile: its code and its ledger."""
    (tmp_path / "logs").mkdir()

    def keep(
        text: str, *command: str, env: Mapping[str, str] | None = None
    ) -> tuple[int, list[dict[str, Any]]]:
        given = {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(library),
            "HPCKIT_FAKE_NVML": str(profile(tmp_path, text)),
            "HPCKIT_JOB_FOLDER": str(tmp_path),
            "HPCKIT_LEDGER": "1",
            **{"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
            **(env or {}),
        }
        rank = (sys.executable, "-I", str(injob_archive), "rank", "--from", "env", "--", *command)
        path = tmp_path / "account" / "restart-0" / "rank-1.ledger"
        path.unlink(missing_ok=True)
        done = subprocess.run(rank, env=given, capture_output=True, timeout=60, check=False)
        assert done.stderr == b""
        return done.returncode, [json.loads(line) for line in path.read_text().splitlines()]

    return keep


def test_the_energy_is_that_of_the_ranks_gpus(kept: Kept) -> None:
    """Counter at the end less counter at the start is power times the time between the readings."""
    code, (start, end) = kept(FOUR, "sh", "-c", "sleep 0.5; exit 3")
    assert (code, start["claim"], start["nvml_refused"]) == (3, "local-rank", None)
    for first, last in zip(start["gpus"], end["gpus"], strict=True):
        assert first["uuid"] == last["uuid"]
        time_s = (last["monotonic_ns"] - first["monotonic_ns"]) / 1e9
        assert time_s > 0.5
        assert last["energy_mj"] - first["energy_mj"] == pytest.approx(200e3 * time_s, rel=0.1)


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetUUID"])
def test_a_driver_that_hangs_holds_nothing_up(kept: Kept, call: str) -> None:
    """The command runs, its code is its own, and both lines are there."""
    code, (start, end) = kept(f'error.{call} = "Hang"\n{FOUR}', "sh", "-c", "exit 7")
    assert (code, start["nvml_refused"], start["gpus"]) == (7, "late", [])
    assert (end["exit_code"], end["gpus"]) == (7, [])


def test_what_the_driver_does_not_tell_has_its_reason(kept: Kept) -> None:
    """NVML's own error is kept, of the whole or of a counter."""
    _, (start, _) = kept(f'error.nvmlInit = "DriverNotLoaded"\n{FOUR}', "true")
    assert (start["claim"], start["nvml_refused"]) == ("none", "DriverNotLoaded")
    text = f'{FOUR}error.nvmlDeviceGetTotalEnergyConsumption = "NotSupported"\n'
    _, (start, end) = kept(text, "true")
    readings = [*start["gpus"], *end["gpus"]]
    assert {(one["energy_mj"], one["refused"]) for one in readings} == {(None, "NotSupported")}
    assert end["updates"] == []


@pytest.mark.parametrize(("lost", "refused"), [(0, [None, None]), (3, [None, "GpuIsLost"])])
def test_a_lost_gpu_takes_the_energy_of_its_own_rank_alone(
    kept: Kept, lost: int, refused: list[str | None]
) -> None:
    """The rank of the last two of four GPUs has what they tell, whichever is lost."""
    _, (start, end) = kept(f'{FOUR}[gpu.{lost}]\nlost_s = "0-"\n', "true")
    assert (start["claim"], start["nvml_refused"]) == ("local-rank", None)
    for readings in (start["gpus"], end["gpus"]):
        assert [one["refused"] for one in readings] == refused
        assert [one["energy_mj"] is None for one in readings] == [bool(why) for why in refused]


def test_what_is_kept_of_a_counter_is_true_however_late_it_was_read(kept: Kept) -> None:
    """Of a counter of 100 ms each update is within 4 ms behind a renewal, each reading of its own.

    That holds on a machine that is busy too: there, fewer are kept.
    """
    text = f"{FOUR}energy_update_ms = 100\nsensor_phase_ms = 37\n"
    for start, end in until_followed(kept, text):
        offset_ns = realtime_offset_ns()
        for first, last in zip(start["gpus"], end["gpus"], strict=True):
            updates, readings = (told_of(first, end[name]) for name in ("updates", "readings"))
            assert updates or readings
            for one in updates:
                # A reading's moment is the middle of what the driver took, at most 2 ms.
                assert (one["monotonic_ns"] + offset_ns - 36e6) % 100e6 < 6e6
            told = sorted([first, *updates, *readings, last], key=lambda one: one["monotonic_ns"])
            for one, other in pairwise(told):
                renewed = [(at["monotonic_ns"] + offset_ns - 37e6) // 100e6 for at in (one, other)]
                steps = (other["energy_mj"] - one["energy_mj"]) / 20e3
                assert abs(steps - (renewed[1] - renewed[0])) <= 1


def until_followed(kept: Kept, text: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Both lines of longer and longer runs, until all counters were seen to change near the end.

    A busy machine may see no change of a run in time.
    """
    for length_s in (0.7, 1.5, 3):
        _, (start, end) = kept(text, "sleep", f"{length_s}")
        yield start, end
        if all(is_followed(last, end["updates"]) for last in end["gpus"]):
            return
    pytest.skip("a machine with time for the reader: no run has two updates of each GPU")


def is_followed(last: dict[str, Any], updates: list[dict[str, Any]]) -> bool:
    """Whether two updates of a GPU came before its last reading, one not long before it."""
    ages_ns = [last["monotonic_ns"] - one["monotonic_ns"] for one in told_of(last, updates)]
    before_ns = [age_ns for age_ns in ages_ns if age_ns >= 0]
    return len(before_ns) >= 2 and min(before_ns) < 1e9


def told_of(gpu: dict[str, Any], readings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the same GPU."""
    return [one for one in readings if one["uuid"] == gpu["uuid"]]


def realtime_offset_ns() -> int:
    """CLOCK_REALTIME less CLOCK_MONOTONIC, of the pair that was read within the least time."""
    pairs = []
    for _ in range(100):
        before_ns, now_ns = time.monotonic_ns(), time.time_ns()
        pairs.append((time.monotonic_ns() - before_ns, now_ns - before_ns))
    return min(pairs)[1]


def test_a_slice_counts_as_its_gpu(kept: Kept) -> None:
    """The counter of a GPU that is split is that of the whole; one visible GPU is the rank's."""
    text = f'{FOUR}[gpu.2]\nuuid = "GPU-2"\nmig = true\nmig_devices = "3g.40gb 1g.10gb"\n'
    _, (start, _) = kept(text, "true", env={"CUDA_VISIBLE_DEVICES": "MIG-GPU-2-01"})
    assert (start["claim"], [gpu["uuid"] for gpu in start["gpus"]]) == ("visible", ["GPU-2"])
