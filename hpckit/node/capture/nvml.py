"""NVML's answers as a topology: GPUs, their links, and the paths between them.

Sources: nvml.h (enums, units); NCCL src/graph/xml.cc (what a link's hidden end is taken for).
Besides hpckit this needs the standard library and pynvml only: it also runs inside jobs.
"""

from __future__ import annotations

import ctypes
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from hpckit.node.capture.nvml_ask import Answer, Doubts, NvmlGpu, NvmlLibrary, NvmlRefusal
from hpckit.node.capture.nvml_gpus import NvmlDevice, read_device, silent_device
from hpckit.node.path import PathKind, PathTable
from hpckit.node.topology import (
    CpuLink,
    GpuLink,
    Host,
    LinkKind,
    NodeTopology,
    NvLink,
    NvLinkRemote,
    Source,
    Unknown,
)

LIBRARY: Final = "libnvidia-ml.so.1"
DEFAULT_LIMIT_S: Final = 30.0
"""Without persistence mode the first question starts the driver on each GPU: seconds for eight."""

# nvmlGpuTopologyLevel_t. INTERNAL is two GPUs of one board behind the board's own switch (K80).
_ANCESTORS: Final = {
    0: PathKind.PIX,
    10: PathKind.PIX,
    20: PathKind.PXB,
    30: PathKind.PHB,
    40: PathKind.NODE,
    50: PathKind.SYS,
}


class NvmlDriver:
    """NVIDIA's driver through NVML, waited for `limit_s` seconds."""

    def __init__(self, limit_s: float = DEFAULT_LIMIT_S) -> None:
        self._limit_s = limit_s

    def read(self) -> NodeTopology:
        """Return what NVML shows of this node: its GPUs by NVML's index, in the order of addresses.

        Never raises for what NVML, its library or a GPU refuses: that is None. Where NVML told
        nothing, the reason is the one entry of `unknown`. A driver that calls itself synthetic
        makes the source so. A broken driver can hang in any call: after the limit the GPUs read so
        far are there, and the others say that they did not answer.
        """
        if not _is_there(LIBRARY):
            return _refused("LibraryNotFound", Host())
        try:
            import pynvml
        except ImportError:
            reason = "LibraryNotFound: the Python package nvidia-ml-py is not installed"
            return _refused(reason, Host())
        survey = _Survey(NvmlLibrary(pynvml))
        # A daemon: what hangs in the driver must not hold the process that only wanted to look.
        thread = threading.Thread(target=survey.run, name="nvml", daemon=True)
        thread.start()
        thread.join(self._limit_s)
        return survey.topology(NvmlRefusal(reason=f"no answer within {self._limit_s:g} s"))


def _is_there(library: str) -> bool:
    """Return whether a library loads: to ask takes a tenth of importing pynvml."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


class _Pair(NamedTuple):
    """Two GPUs, `a` before `b`: nvmlGpuTopologyLevel_t, and if each may use the other's memory."""

    a: int
    b: int
    ancestor: Answer[int]
    is_p2p: bool | None = None


class _Survey:
    """One look as it grows; `topology` may be called while `run` hangs in another thread."""

    def __init__(self, nvml: NvmlLibrary) -> None:
        self._nvml = nvml
        self._is_over = False
        self._versions: tuple[Answer[str], ...] = ()
        self._refused: NvmlRefusal | None = None
        self._count = 0
        self._devices: list[NvmlDevice] = []
        self._pairs: list[_Pair] = []

    def run(self) -> None:
        """Ask everything."""
        begun = self._nvml.ask("nvmlInit")
        if isinstance(begun, NvmlRefusal):
            self._refused = begun
        else:
            self._look()
            self._nvml.ask("nvmlShutdown")
        self._is_over = True

    def _look(self) -> None:
        self._versions = (
            self._nvml.ask("nvmlSystemGetDriverVersion"),
            self._nvml.ask("nvmlSystemGetNVMLVersion"),
        )
        count: Answer[int] = self._nvml.ask("nvmlDeviceGetCount")
        if isinstance(count, NvmlRefusal):
            self._refused = count
            return
        self._count = count
        gpus = [NvmlGpu(self._nvml, index) for index in range(count)]
        for gpu in gpus:
            self._devices.append(read_device(gpu))
        for a, one in enumerate(gpus):
            for other in gpus[a + 1 :]:
                self._pairs.append(_pair(one, other))

    def topology(self, late: NvmlRefusal) -> NodeTopology:
        """Return what is known now; GPUs that nobody has asked yet are `late`."""
        devices = list(self._devices)
        unread = range(len(devices), self._count)
        devices += [silent_device(index, late.reason) for index in unread]
        doubts = Doubts("host")
        driver_version, nvml_version = self._versions or (late, late)
        guests = {device.is_guest for device in devices} - {None}
        host = Host(
            driver_version=doubts.text("driver_version", driver_version),
            nvml_version=doubts.text("nvml_version", nvml_version),
            is_virtual_machine=True in guests if guests else None,
        )
        refused = self._refused if self._is_over or self._count else late
        if refused is not None:
            return _refused(refused.reason, host)
        return _node(devices, list(self._pairs), host, doubts)


def _refused(reason: str, host: Host) -> NodeTopology:
    unknown = (Unknown("GPUs", "gpus", f"NVML: {reason}"),)
    return NodeTopology(source=_source(host), host=host, unknown=unknown)


def _source(host: Host) -> Source:
    # The fake library of docker/fake-nvml says so where a driver says its version.
    is_synthetic = "synthetic" in (host.driver_version or "")
    return Source(format="nvml", is_live=True, is_synthetic=is_synthetic)


def _node(
    devices: Sequence[NvmlDevice], pairs: Sequence[_Pair], host: Host, doubts: Doubts
) -> NodeTopology:
    ends = _LinkEnds(devices)
    links = tuple(link for pair in pairs if (link := ends.between(pair)))
    paths, path_doubts = _paths(devices, pairs, links)
    return NodeTopology(
        source=_source(host),
        host=host,
        gpus=tuple(device.gpu for device in devices),
        gpu_links=links,
        cpu_links=tuple(
            link
            for device in devices
            for link in (ends.to_cpu(device.gpu.index), device.c2c)
            if link is not None
        ),
        pci=tuple(device.pci for device in devices if device.pci is not None),
        paths=paths,
        unknown=(*doubts.found(), *_shared([one.doubts for one in devices]), *path_doubts),
    )


def _pair(one: NvmlGpu, other: NvmlGpu) -> _Pair:
    """Asked from `a` to `b` alone: NVML answers the same the other way around."""
    if other.lost is not None:
        return _Pair(one.index, other.index, other.lost)
    ancestor = one.ask("nvmlDeviceGetTopologyCommonAncestor", other.handle)
    # As numbers: nvidia-ml-py's NVML_P2P_CAPS_INDEX_READ is a tuple, by a stray comma.
    caps = (0, one.nvml.NVML_P2P_CAPS_INDEX_WRITE)
    statuses = [one.ask("nvmlDeviceGetP2PStatus", other.handle, cap) for cap in caps]
    is_told = not any(isinstance(status, NvmlRefusal) for status in statuses)
    return _Pair(one.index, other.index, ancestor, statuses == [0, 0] if is_told else None)


def _shared(doubts: Iterable[Doubts]) -> tuple[Unknown, ...]:
    """What is not known of GPUs; what holds of each of several that answer is said of `GPUs`."""
    everyone = list(doubts)
    answering = [one for one in everyone if not one.is_silent]
    counts = Counter((entry.what, entry.because) for one in answering for entry in one.found())
    of_all = {
        key for key, count in counts.items() if len(answering) > 1 and count == len(answering)
    }
    entries: dict[Unknown, None] = {}
    for one in everyone:
        for entry in one.found():
            is_of_all = not one.is_silent and (entry.what, entry.because) in of_all
            entries[replace(entry, subject="GPUs") if is_of_all else entry] = None
    return tuple(entries)


class _LinkEnds:
    """Where the active NVLinks of each GPU of a node end."""

    def __init__(self, devices: Sequence[NvmlDevice]) -> None:
        self._gpus = {device.gpu.index: device.gpu for device in devices}
        self._by_address = {one.gpu.pci: one.gpu.index for one in devices if one.gpu.pci}
        self._rates = {one.gpu.index: one.link_bytes_per_s for one in devices}

    def _active(self, index: int) -> list[NvLink]:
        return [link for link in self._gpus[index].nvlinks or () if link.is_active]

    def _peer(self, link: NvLink) -> int | None:
        return None if link.remote_pci is None else self._by_address.get(link.remote_pci)

    def _is_switched(self, link: NvLink) -> bool:
        """Whether a link ends at a switch.

        One whose end NVML does not tell is taken as one, as NCCL does: the switches of a virtual
        machine are outside it (src/graph/xml.cc, "not visible, assuming NVSwitch").
        """
        if link.remote is None:
            return self._peer(link) is None
        return link.remote is NvLinkRemote.SWITCH

    def between(self, pair: _Pair) -> GpuLink | None:
        """The links between two GPUs, the direct ones before those through switches."""
        here, there = self._active(pair.a), self._active(pair.b)
        direct = (
            sum(self._peer(link) == pair.b for link in here),
            sum(self._peer(link) == pair.a for link in there),
        )
        switched = (sum(map(self._is_switched, here)), sum(map(self._is_switched, there)))
        count = min(direct if any(direct) else switched)
        if not count:
            return None
        rates = [self._rates[pair.a], self._rates[pair.b]]
        known = [rate for rate in rates if rate is not None]
        return GpuLink(
            a=pair.a,
            b=pair.b,
            kind=LinkKind.NVLINK,
            count=count,
            bandwidth_bytes_per_s=count * min(known) if len(known) == len(rates) else None,
            is_switched=not any(direct),
            is_p2p=pair.is_p2p,
        )

    def to_cpu(self, index: int) -> CpuLink | None:
        """The NVLinks to the CPU beside a GPU, which POWER has."""
        count = sum(link.remote is NvLinkRemote.NPU for link in self._active(index))
        if not count:
            return None
        rate = self._rates[index]
        return CpuLink(
            gpu_index=index,
            kind=LinkKind.NVLINK,
            numa_index=self._gpus[index].numa_index,
            count=count,
            bandwidth_bytes_per_s=None if rate is None else count * rate,
        )


def _paths(
    devices: Sequence[NvmlDevice], pairs: Sequence[_Pair], links: Sequence[GpuLink]
) -> tuple[PathTable | None, list[Unknown]]:
    """What `nvidia-smi topo -m` prints between GPUs: NVLinks before the nearest common ancestor."""
    if not devices:
        return None, []
    cells: dict[tuple[int, int], str] = {
        (link.a, link.b): f"{PathKind.NV}{link.count}" for link in links
    }
    unknown: list[Unknown] = []
    for a, b, ancestor, _ in pairs:
        if (a, b) in cells:
            continue
        kind = None if isinstance(ancestor, NvmlRefusal) else _ANCESTORS.get(ancestor)
        if kind is not None:
            cells[a, b] = kind
            continue
        reason = ancestor.reason if isinstance(ancestor, NvmlRefusal) else f"ancestor {ancestor}"
        unknown.append(Unknown(f"GPU{a}", f"path to GPU{b}", f"NVML: {reason}"))
    indices = [device.gpu.index for device in devices]
    rows = (
        tuple(PathKind.SELF if a == b else cells.get((min(a, b), max(a, b))) for b in indices)
        for a in indices
    )
    names = tuple(f"GPU{index}" for index in indices)
    return PathTable(devices=names, cells=tuple(rows), is_recorded=True), unknown
