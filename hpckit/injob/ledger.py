"""A rank's ledger: a line before its command starts, a line after its end.

It never fails, and waits for a driver, and at its end for a file system, no longer than a second.
It begins where the rank's log has just been opened. Format: docs/reference/account-files.md.
"""

from __future__ import annotations

import _thread
import errno
import os
import time

from hpckit.core.files_in_job import make_folder, read_bytes
from hpckit.core.talk import json_text, reason, say
from hpckit.injob.counter import GpuWatch, visible_devices
from hpckit.sampler.gpus import NvmlRefused, amd_gpus, openable
from hpckit.spec.folder_in_job import LEDGER_SCHEMA, account_folder, ledger_file

TYPE_CHECKING = False

if TYPE_CHECKING:
    import resource

    from hpckit.core.identity import Identity
    from hpckit.injob.counter import Gpu
    from hpckit.sampler.gpus import ParentOf


WRITE_LIMIT_S = 1.0
"""How long the end of a rank waits for the file system, at most."""


class Ledger:
    """One rank's file; given up with one warning where it cannot be written."""

    def __init__(self, env: dict[str, str], rank: int, identity: Identity) -> None:
        """Take `env` as the command has it, and begin to ask for its GPUs."""
        self._env = env
        self._rank = rank
        self._identity = identity
        folder = account_folder(
            env.get("SLURM_RESTART_COUNT", ""), env.get("SLURM_ARRAY_TASK_ID", "")
        )
        self._path = f"{folder}/{ledger_file(rank)}"
        self._watch = GpuWatch(find_gpus, env, identity)
        self._fd: int | None = None
        self._io: dict[str, int] = {}
        self._io_before: dict[str, int] = {}

    def begin(self) -> None:
        """Write the first line, as soon as the driver has answered or is late."""
        found = self._watch.first()
        try:
            fd = self._opened()
            try:
                _write(fd, self._first_line(found))
            except OSError:
                os.close(fd)
                raise
            self._fd = fd
            self._io_before = _io_of_children()
        except OSError as error:
            say(f"no ledger: {self._path} cannot be written: {reason(error)}")

    def watch(self, pid: int) -> None:
        """Note which NCCL the command loads; rank 0 speaks for all."""
        if self._fd is not None and self._rank == 0:
            # Loaded there alone: the start of a rank is on the job's clock.
            from hpckit.injob.nccl_loaded import watch_library

            watch_library(pid, self._add)

    def _add(self, record: dict[str, object]) -> None:
        try:
            fd = self._opened()
            try:
                _write(fd, _line(record))
            finally:
                os.close(fd)
        except OSError:
            return

    def note_io(self) -> None:
        """Read what the command and its descendants did, once it has been waited for."""
        if self._fd is not None:
            before = self._io_before
            self._io = {
                name: max(0, number - before[name])
                for name, number in _io_of_children().items()
                if name in before
            }

    def finish(self, exit_code: int, usage: resource.struct_rusage | None = None) -> None:
        """Write the last line; `usage` is that of the command, None if it was never started."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        line = self._last_line(exit_code, usage)
        # The rank log may have nothing to write any more when a file system goes away: this must
        # not be what the end of the job hangs on.
        done = _thread.allocate_lock()
        done.acquire()

        def write() -> None:
            # Closed here as well: a close waits for the server (NFS), as would that at the exit.
            try:
                try:
                    _write(fd, line)
                finally:
                    os.close(fd)
            except OSError as error:
                say(f"the end of the ledger cannot be written: {reason(error)}")
            done.release()

        try:
            _thread.start_new_thread(write, ())
        except RuntimeError:
            write()
        done.acquire(timeout=WRITE_LIMIT_S)

    def _opened(self) -> int:
        job_folder = self._env.get("HPCKIT_JOB_FOLDER", "")
        path = os.path.join(job_folder, self._path)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            # The first rank of an incarnation makes its folder; one that another has made will do.
            for part in self._path.split("/")[:-1]:
                job_folder = os.path.join(job_folder, part)
                make_folder(job_folder)
            return os.open(path, flags, 0o600)

    def _first_line(self, found: dict[str, object]) -> bytes:
        status = _text("/proc/self/status").partition("\nCpus_allowed_list:")[2]
        cpus = status.partition("\n")[0].strip()
        return _line(
            {
                "schema": LEDGER_SCHEMA,
                "record": "start",
                "rank": self._rank,
                "local_rank": self._identity.local_rank,
                "world_size": self._identity.world_size,
                "node": self._env.get("SLURMD_NODENAME") or os.uname().nodename,
                "pid": os.getpid(),
                "boot_id": _text("/proc/sys/kernel/random/boot_id").strip() or None,
                "job_id": self._env.get("SLURM_JOB_ID"),
                "cpus": cpus or None,
                "at": _moment(),
                "visible": visible_devices(self._env),
                **found,
            }
        )

    def _last_line(self, exit_code: int, usage: resource.struct_rusage | None) -> bytes:
        at, gpus = _moment(), self._watch.last()
        return _line(
            {
                "record": "end",
                "pid": os.getpid(),
                "at": at,
                **gpus,
                "exit_code": exit_code,
                "cpu_user_s": None if usage is None else round(usage.ru_utime, 6),
                "cpu_system_s": None if usage is None else round(usage.ru_stime, 6),
                "max_rss_bytes": None if usage is None else usage.ru_maxrss * 1024,
                "read_chars_bytes": self._io.get("rchar"),
                "write_chars_bytes": self._io.get("wchar"),
                "read_bytes": self._io.get("read_bytes"),
                "write_bytes": self._io.get("write_bytes"),
            }
        )


def _write(fd: int, line: bytes) -> None:
    written = os.write(fd, line)
    if written < len(line):
        # What is left of the line is not written: readers skip a line that is cut short.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _line(record: dict[str, object]) -> bytes:
    return (json_text(record) + "\n").encode("ascii")


def _moment() -> dict[str, object]:
    return {
        "realtime_ns": time.time_ns(),
        "monotonic_ns": time.monotonic_ns(),
        "boottime_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
    }


def _io_of_children() -> dict[str, int]:
    """The counters of /proc/PID/io of all children that were waited for.

    /proc/self/io counts them with this process's own threads, whose own are in task/TID/io. That
    of a child that has ended is for root alone to read. Source: fs/proc/base.c,
    do_io_accounting; kernel/exit.c, wait_task_zombie (Linux 5.14 to 6.18).
    """
    found = _io_counters("/proc/self/io")
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return {}
    for thread in threads:
        for name, number in _io_counters(f"/proc/self/task/{thread}/io").items():
            if name in found:
                found[name] -= number
    return found


def _io_counters(path: str) -> dict[str, int]:
    fields = (line.partition(": ") for line in _text(path).splitlines())
    return {name: int(number) for name, _, number in fields if number.isdigit()}


def _text(path: str) -> str:
    return read_bytes(path, 1 << 14).decode("utf-8", "replace")


def find_gpus(
    library: str = "libnvidia-ml.so.1", drm: str = "/sys/class/drm", dev: str = "/dev"
) -> tuple[list[Gpu], ParentOf]:
    """The GPUs in the driver's order, which is that of their PCI addresses.

    The uuid of one that is lost is `index-` and its place. Beside them is what tells of which GPU a
    slice (MIG) is one. Raises NvmlRefused where NVML does not answer, and no GPU of AMD is there
    either.
    """
    try:
        from hpckit.sampler.nvml_calls import NvmlCalls, parent_in, shown_gpus
    except ImportError as error:
        raise NvmlRefused("this Python has no ctypes") from error
    try:
        nvml = NvmlCalls(library)
        gpus = openable(shown_gpus(nvml, dev))
    except NvmlRefused as error:
        if error.reason == "LibraryNotFound":
            amds = amd_gpus(drm)
            if amds:
                return [*amds], lambda _: None
        raise
    for gpu in gpus:
        gpu.uuid = gpu.uuid or f"index-{gpu.place}"
    return [*gpus], parent_in(nvml)
