"""What a rank's ledger says: who it was, and its counters when it began and when it ended."""

from __future__ import annotations

from msgspec import Struct


class Moment(Struct, frozen=True, kw_only=True):
    """One moment in nanoseconds: CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME."""

    realtime_ns: int
    monotonic_ns: int
    boottime_ns: int


class EnergyReading(Struct, frozen=True, kw_only=True):
    """A GPU's energy counter at a moment of the monotonic clock.

    `energy_mj` is millijoules since the driver was loaded, None with the reason in `refused`
    (nvml.h's error in pynvml's spelling). `uuid` is NVML's, or `GPU-<unique_id>` of AMD's sysfs.
    """

    uuid: str
    monotonic_ns: int
    energy_mj: int | None
    refused: str | None = None


class RankStart(Struct, frozen=True, kw_only=True):
    """A rank's first line. `gpus` are those that are taken to be this rank's; `claim` says by what.

    `claim` is `visible` (it sees these alone), `local-rank` (it sees its node's GPUs, and has the
    share of its LOCAL_RANK as frameworks do), `all` (it sees more than one can be told apart) or
    `none`. `visible` is CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES as it stood. `nvml_refused`
    is why NVML told nothing: an error of nvml.h in pynvml's spelling, or `late` where it had not
    answered when the command had to start.
    """

    rank: int
    local_rank: int | None
    world_size: int | None
    node: str
    pid: int
    boot_id: str | None
    at: Moment
    gpus: tuple[EnergyReading, ...] = ()
    claim: str = "none"
    visible: str | None = None
    job_id: str | None = None
    cpus: str | None = None
    nvml_init_ms: float | None = None
    nvml_refused: str | None = None

    @property
    def identity(self) -> tuple[str, str | None, int, int, int]:
        """What no other life has: a process of one boot that began at this nanosecond."""
        return self.node, self.boot_id, self.rank, self.pid, self.at.monotonic_ns


class RankEnd(Struct, frozen=True, kw_only=True):
    """A rank's last line; what could not be read is None.

    CPU seconds, memory peak (bytes, the largest process) and IO (bytes, /proc/PID/io) are of the
    command and of all descendants that it waited for. `exit_code` is 128+N after signal N.
    `updates` are changes of the counters, at the moment they were seen at, within 4 ms: the first
    after the start, the last before the end, and the one after the end. One of the energy that
    `gpus` has, at a later moment, is no change: the counter was still the same then. `readings`
    are other readings: the first ones where the start says `late`, and what was read just before
    changes, by which it is known whether any between two of them was missed. `pid` is that of the
    start, which tells whose end it is; older files have none.
    """

    at: Moment
    pid: int | None = None
    exit_code: int | None = None
    gpus: tuple[EnergyReading, ...] = ()
    updates: tuple[EnergyReading, ...] = ()
    readings: tuple[EnergyReading, ...] = ()
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    max_rss_bytes: int | None = None
    read_chars_bytes: int | None = None
    write_chars_bytes: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None


class RankLedger(Struct, frozen=True, kw_only=True):
    """Both ends of a rank; `end` None is one that was killed, or still runs.

    `left_out` has a sentence where its end is there again.
    """

    start: RankStart
    end: RankEnd | None = None
    left_out: tuple[str, ...] = ()
