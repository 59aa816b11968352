"""The fake NVML in this process, with a clock that a test sets: an hour passes in one assignment.

One at a time: `nvmlInit` reads the profile and the clock's name, and others after `close` only.
The library has a name of its own, so that it is no driver to whatever else this process does.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from hpckit.sampler.nvml_calls import NvmlCalls, NvmlHandle, reason_of
from hpckit.sampler.nvml_counters import NvmlFields
from tests.fakes.nvml_library import HEAD

EPOCH_S = 1704067200
"""When the waveforms of a profile begin that does not say it: 2024-01-01."""

NS_PER_S = 1_000_000_000


class VirtualNvml:
    """A node with the GPUs of a profile, at a time that `set_s` says."""

    def __init__(self, library: Path, profile: Path, clock: Path) -> None:
        """Open the library of a folder. Raises NvmlRefused where the profile is wrong."""
        clock.write_bytes(bytes(8))
        with clock.open("r+b") as file:
            self._clock = mmap.mmap(file.fileno(), 8)
        self.environment = {
            "HPCKIT_FAKE_NVML": str(profile),
            "HPCKIT_FAKE_NVML_CLOCK": str(clock),
            "LD_LIBRARY_PATH": str(library),
        }
        self.set_s(0)
        with _environment(self.environment):
            self.nvml = NvmlCalls(str(library / "libfake-nvml.so"))

    def __enter__(self) -> VirtualNvml:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the library go, so that the next to open it reads its own profile."""
        self.nvml.call("nvmlShutdown")

    def set_s(self, seconds: float) -> int:
        """Let it be so many seconds after the epoch; the moment in ns since 1970."""
        return self.set_ns(EPOCH_S * NS_PER_S + round(seconds * NS_PER_S))

    def set_ns(self, realtime_ns: int) -> int:
        """Let it be this moment, in ns since 1970."""
        self._clock[:] = struct.pack("<q", realtime_ns)
        return realtime_ns

    def gpu(self, index: int = 0) -> NvmlHandle:
        """A GPU. Raises NvmlRefused."""
        return self.nvml.gpu(index)

    def field(self, field_id: int, scope: int = 0, gpu: int = 0) -> int | str:
        """A field's number now, or why there is none."""
        fields = NvmlFields(self.gpu(gpu), [(field_id, scope)])
        fields.read()
        # nvmlFieldValue_t: type, return value and value, of which an unsigned int is 4 bytes.
        kind, code, value = struct.unpack_from("<24xiiQ", fields.buffer)
        return reason_of(code) if code else int(value & 0xFFFFFFFF if kind == 1 else value)

    def true_nj(self, from_ns: int, to_ns: int, gpu: int = 0) -> int:
        """Nanojoules that the GPU of this place in the profile really drew, in ns since 1970."""
        drawn = ctypes.c_ulonglong()
        self.nvml.call(
            "hpckitFakeEnergyNj",
            ctypes.c_uint(gpu),
            ctypes.c_longlong(from_ns),
            ctypes.c_longlong(to_ns),
            ctypes.byref(drawn),
        )
        return drawn.value


@contextlib.contextmanager
def _environment(added: dict[str, str]) -> Iterator[None]:
    """The library reads its variables in nvmlInit, and nothing else shall see them."""
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def open_virtual(library: Path, folder: Path, text: str) -> VirtualNvml:
    """A node of these lines of a profile, below its head; its files are in `folder`."""
    path = folder / "virtual.toml"
    path.write_text(HEAD + text)
    return VirtualNvml(library, path, folder / "clock")
