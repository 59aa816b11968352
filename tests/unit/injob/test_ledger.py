"""The ledger of a rank, kept by the archive as a launcher starts it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.nvml_library import profile
from tests.unit.injob.conftest import Run, Start

Kept = Callable[..., tuple[int, list[dict[str, Any]]]]
SLURM = ("rank", "--from", "slurm", "--")


@pytest.fixture
def ledger_env(rank_env: dict[str, str]) -> dict[str, str]:
    """Rank 3 of 4, which is to keep a ledger; it sees no GPU."""
    return {**rank_env, "HPCKIT_LEDGER": "1", "CUDA_VISIBLE_DEVICES": ""}


def ledger(job_folder: Path, folder: str = "restart-0") -> Path:
    """The file of that rank."""
    return job_folder / "account" / folder / "rank-3.ledger"


def records(path: Path) -> list[dict[str, Any]]:
    """The lines of a ledger."""
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def test_a_rank_without_the_variable_keeps_none(
    run: Run, rank_env: dict[str, str], job_folder: Path
) -> None:
    """The job folder alone asks for a log, not for a ledger."""
    assert run(*SLURM, "true", env=rank_env).returncode == 0
    assert not (job_folder / "account").exists()


def test_the_first_line_says_who_the_rank_is(
    run: Run, ledger_env: dict[str, str], job_folder: Path
) -> None:
    """Its numbers, node, boot and job, by which its samples are found."""
    run(*SLURM, "true", env={**ledger_env, "SLURM_JOB_ID": "77", "SLURMD_NODENAME": "n9"})
    start = records(ledger(job_folder))[0]
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    assert start | {"schema": "hpckit.ledger/1", "record": "start"} == start
    assert [start[key] for key in ("rank", "local_rank", "world_size")] == [3, 1, 4]
    assert [start[key] for key in ("node", "boot_id", "job_id")] == ["n9", boot_id, "77"]
    assert (start["claim"], start["gpus"], start["visible"]) == ("none", [], "")


def test_both_ends_have_the_three_clocks(
    run: Run, ledger_env: dict[str, str], job_folder: Path
) -> None:
    """Each end is a moment of this machine, and the command lies between them.

    Both name the process, which says which of several starts in the file is an end's own. Files
    have 0600 and folders 0700.
    """
    before_ns = time.monotonic_ns()
    run(*SLURM, "sleep", "0.1", env=ledger_env)
    path = ledger(job_folder)
    start, end = both = records(path)
    moments = [before_ns, *(one["at"]["monotonic_ns"] for one in both), time.monotonic_ns()]
    assert moments == sorted(moments)
    assert moments[2] - moments[1] >= 1e8
    for one in both:
        assert abs(one["at"]["realtime_ns"] - time.time_ns()) < 60e9
        assert one["at"]["boottime_ns"] >= one["at"]["monotonic_ns"]
    assert start["pid"] == end["pid"] > 0
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent, path.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]


@pytest.mark.parametrize(
    ("script", "codes"),
    [
        ("exit 0", (0, 0)),
        ("exit 9", (9, 9)),
        ("kill -TERM $$", (-15, 143)),
    ],
)
def test_the_exit_code_is_noted_and_unchanged(
    run: Run, ledger_env: dict[str, str], job_folder: Path, script: str, codes: tuple[int, int]
) -> None:
    """Also that of a command that dies of a signal."""
    done = run(*SLURM, "sh", "-c", script, env=ledger_env)
    assert (done.returncode, records(ledger(job_folder))[-1]["exit_code"]) == codes


@pytest.mark.parametrize(("command", "code"), [("/nowhere/at-all", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_started_has_an_end(
    run: Run, ledger_env: dict[str, str], job_folder: Path, command: str, code: int
) -> None:
    """Its code is noted as it is returned, and it used nothing."""
    assert run(*SLURM, command, env=ledger_env).returncode == code
    end = records(ledger(job_folder))[-1]
    assert (end["exit_code"], end["cpu_user_s"], end["read_bytes"]) == (code, None, None)


def test_the_last_line_has_what_the_command_and_its_children_used(
    run: Run, ledger_env: dict[str, str], job_folder: Path
) -> None:
    """CPU seconds, the largest process, and every byte that was read and written."""
    work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; head -c 3000000 /dev/zero >$OUT"
    out = str(job_folder / "out")
    run(*SLURM, "sh", "-c", f"sh -c '{work}'; true", env={**ledger_env, "OUT": out})
    end = records(ledger(job_folder))[-1]
    assert end["cpu_user_s"] + end["cpu_system_s"] > 0
    assert end["max_rss_bytes"] > 500_000
    assert end["read_chars_bytes"] >= 3_000_000
    assert end["write_chars_bytes"] >= 3_000_000


def test_a_killed_rank_leaves_its_first_line(
    start: Start, ledger_env: dict[str, str], job_folder: Path
) -> None:
    """What SIGKILL took cannot write an end: the start alone says that it was killed."""
    with start(*SLURM, "sh", "-c", "echo up; sleep 20", env=ledger_env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.kill()
    assert [one["record"] for one in records(ledger(job_folder))] == ["start"]


def test_a_worker_that_is_started_again_adds_to_its_file(
    run: Run, ledger_env: dict[str, str], job_folder: Path
) -> None:
    """Torchrun's own restarts are further pairs of lines."""
    for code in ("1", "0"):
        run(*SLURM, "sh", "-c", f"exit {code}", env=ledger_env)
    assert [one.get("exit_code") for one in records(ledger(job_folder))] == [None, 1, None, 0]


def test_a_folder_that_cannot_be_made_is_one_warning(
    run: Run, ledger_env: dict[str, str], job_folder: Path
) -> None:
    """The command runs all the same, and its code is its own."""
    (job_folder / "account").write_text("in the way")
    done = run(*SLURM, "sh", "-c", "echo out; exit 4", env=ledger_env)
    assert (done.returncode, done.stdout) == (4, b"out\n")
    where = b"account/restart-0/rank-3.ledger"
    assert done.stderr == b"hpckit: no ledger: " + where + b" cannot be written: Not a directory\n"


def test_a_full_disk_is_one_warning(run: Run, ledger_env: dict[str, str], job_folder: Path) -> None:
    """A line that does not fit ends the ledger, not the job, which has it open no longer."""
    path = ledger(job_folder)
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/full")
    out = job_folder / "descriptors"
    script = "readlink /proc/$PPID/fd/* >$OUT; exit 4"
    done = run(*SLURM, "sh", "-c", script, env={**ledger_env, "OUT": str(out)})
    assert done.returncode == 4
    assert done.stderr.count(b"\n") == 1
    assert done.stderr.endswith(b"No space left on device\n")
    assert "/dev/full" not in out.read_text(encoding="utf-8").splitlines()


def test_an_end_that_cannot_be_written_does_not_hold_the_rank(
    start: Start, ledger_env: dict[str, str], job_folder: Path
) -> None:
    """A file system that hangs costs the end a second, and the exit code stays."""
    path = ledger(job_folder)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    gate = job_folder / "gate"
    wait = f"echo up; while [ ! -e {gate} ]; do sleep 0.02; done; exit 5"
    with start(*SLURM, "sh", "-c", wait, env=ledger_env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        _fill(path)
        begun_s = time.monotonic()
        gate.touch()
        assert process.wait(30) == 5
        assert 0.9 < time.monotonic() - begun_s < 20
    os.close(reader)


def test_a_signal_that_comes_before_the_command_reaches_it(
    start: Start, ledger_env: dict[str, str], job_folder: Path, tmp_path: Path
) -> None:
    """Also where slurmstepd signals every process of the step, of which the command was none."""
    path = ledger(job_folder)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)  # no one reads: the ledger's begin waits
    shell = tmp_path / "slurmstepd"
    shutil.copy("/bin/bash", shell)
    via = [str(shell), "-c", '"$@" & echo $!; wait $!; exit $?', "sh"]
    with start(*SLURM, "sleep", "20", via=via, env=ledger_env) as process:
        assert process.stdout is not None
        entry = int(process.stdout.readline())
        while not _catches(entry, signal.SIGTERM):
            time.sleep(0.01)
        os.kill(entry, signal.SIGTERM)
        reader = os.open(path, os.O_RDONLY)
        assert process.wait(10) == 128 + signal.SIGTERM
    os.close(reader)


def _catches(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split(maxsplit=1)[0], 16)
    return bool(caught >> (number - 1) & 1)


def _fill(fifo: Path) -> None:
    """Leave no room in a pipe, so that whoever writes to it waits."""
    writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    for size in (4096, 1):
        try:
            while True:
                os.write(writer, b"x" * size)
        except BlockingIOError:
            continue
    os.close(writer)


FOUR = """
gpus = 4
epoch_s = 1704067200
[gpu]
name = "Synthetic"
power_limit_w = 500
power_w = 200
"""


@pytest.fixture
def kept(run: Run, rank_env: dict[str, str], library: Path, job_folder: Path) -> Kept:
    """Run a command as local rank 1 of 2 on a machine of a profile: its code and its ledger."""

    def keep(text: str, *command: str, **env: str) -> tuple[int, list[dict[str, Any]]]:
        machine = {
            "LD_LIBRARY_PATH": str(library),
            "HPCKIT_FAKE_NVML": str(profile(job_folder, text)),
            "HPCKIT_LEDGER": "1",
        }
        ledger(job_folder).unlink(missing_ok=True)
        done = run(*SLURM, *command, env={**rank_env, **machine, **env})
        assert done.stderr == b""
        return done.returncode, records(ledger(job_folder))

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
            for one in updates:
                # A reading's moment is the middle of what the driver took, at most 2 ms.
                assert (one["monotonic_ns"] + offset_ns - 36e6) % 100e6 < 6e6
            told = sorted([first, *updates, *readings, last], key=lambda one: one["monotonic_ns"])
            for one, other in pairwise(told):
                renewed = [(at["monotonic_ns"] + offset_ns - 37e6) // 100e6 for at in (one, other)]
                steps = (other["energy_mj"] - one["energy_mj"]) / 20e3
                assert abs(steps - (renewed[1] - renewed[0])) <= 1


def until_followed(kept: Kept, text: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Both lines of longer and longer runs, until two changes of each counter were seen in time.

    On a busy machine none may be: then each counter was read late, but before the end.
    """
    followed = set[str]()
    for length_s in (0.7, 1.5, 3, 6):
        _, (start, end) = kept(text, "sleep", f"{length_s}")
        yield start, end
        if all(len(told_of(gpu, end["updates"])) >= 2 for gpu in end["gpus"]):
            return
        for gpu in end["gpus"]:
            readings = told_of(gpu, [*end["updates"], *end["readings"]])
            if any(one["monotonic_ns"] < gpu["monotonic_ns"] for one in readings):
                followed.add(gpu["uuid"])
    assert len(followed) == 2, "the reader followed no counter"


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
    _, (start, _) = kept(text, "true", CUDA_VISIBLE_DEVICES="MIG-GPU-2-01")
    assert (start["claim"], [gpu["uuid"] for gpu in start["gpus"]]) == ("visible", ["GPU-2"])
