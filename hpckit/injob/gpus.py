"""The GPUs that this process may open, of NVIDIA through NVML, else of AMD through sysfs."""

from __future__ import annotations

from hpckit.injob.gpu_watch import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hpckit.adapters.nvml_calls import NvmlCalls, NvmlHandle
    from hpckit.injob.gpu_watch import Gpu


class _NvidiaGpu:
    __slots__ = ("_handle", "uuid")

    def __init__(self, handle: NvmlHandle) -> None:
        self._handle = handle
        self.uuid = handle.text("nvmlDeviceGetUUID")

    def energy_mj(self) -> int:
        from hpckit.adapters.nvml_calls import NvmlRefused

        try:
            return self._handle.energy_mj()
        except NvmlRefused as error:
            raise Refused(error.reason) from error


class _LostGpu:
    """A GPU that its driver has lost: it keeps its place, and the others keep theirs."""

    __slots__ = ("_reason", "uuid")

    def __init__(self, index: int, reason: str) -> None:
        self._reason = reason
        self.uuid = f"index-{index}"

    def energy_mj(self) -> int:
        raise Refused(self._reason)


def find_gpus(
    visible: str | None,
    library: str = "libnvidia-ml.so.1",
    drm: str = "/sys/class/drm",
    dev: str = "/dev",
) -> tuple[list[Gpu], str | None]:
    """The GPUs in the driver's order, which is that of their PCI addresses.

    The uuid of one that is lost is `index-` and its place. The second value is `visible` with
    slices of GPUs (MIG) replaced by these. Raises Refused where NVML does not answer, and no GPU of
    AMD is there either.
    """
    try:
        from hpckit.adapters.nvml_calls import NvmlCalls, NvmlRefused
    except ImportError as error:
        raise Refused("this Python has no ctypes") from error
    try:
        nvml = NvmlCalls(library)
        return _openable(nvml, nvml.count(), dev), _without_slices(nvml, visible)
    except NvmlRefused as error:
        if error.reason == "LibraryNotFound":
            from hpckit.adapters.amd_energy import amd_gpus

            found: list[Gpu] = [*amd_gpus(drm)]
            if found:
                return found, visible
        raise Refused(error.reason) from error


def _openable(nvml: NvmlCalls, count: int, dev: str) -> list[Gpu]:
    # The count includes GPUs that a job without them may not open: nvml.h.
    from hpckit.adapters.nvml_calls import NvmlRefused

    found: list[Gpu] = []
    answering, lost = [], []
    for index in range(count):
        try:
            handle = nvml.gpu(index)
            found.append(_NvidiaGpu(handle))
            answering.append(handle)
        except NvmlRefused as error:
            if error.reason != "NoPermission":
                lost.append(_LostGpu(index, error.reason))
                found.append(lost[-1])
    if lost and not _opens_others(answering, dev):
        return [gpu for gpu in found if gpu not in lost]
    return found


def _opens_others(answering: list[NvmlHandle], dev: str) -> bool:
    from hpckit.adapters.nvml_calls import NvmlRefused
    from hpckit.adapters.nvml_devices import opens_others

    try:
        known = {handle.number("nvmlDeviceGetMinorNumber") for handle in answering}
    except NvmlRefused:
        return True
    return opens_others(known, dev)


def _without_slices(nvml: NvmlCalls, visible: str | None) -> str | None:
    if visible is None or "MIG-" not in visible:
        return visible
    return ",".join(_whole(nvml, word) for word in visible.split(","))


def _whole(nvml: NvmlCalls, word: str) -> str:
    """The UUID of the GPU that a slice is of; any other word as it is."""
    from hpckit.adapters.nvml_calls import NvmlRefused

    if not word.startswith("MIG-"):
        return word
    try:
        return nvml.gpu_of_slice(word).text("nvmlDeviceGetUUID")
    except NvmlRefused:
        return word
