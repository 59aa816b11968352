"""NVLinks and C2C links, from what NVML answered about each."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.model.hardware import CpuLink, Gpu, GpuLink, LinkKind, NvLink, NvLinkRemote
from hpckit.model.link_rates import NVLINK_BYTES_PER_S
from hpckit.model.nvml_reading import (
    Answer,
    NvmlC2cReading,
    NvmlDeviceReading,
    NvmlLinkReading,
    NvmlPairReading,
    NvmlRefusal,
)
from hpckit.model.pci import PciAddress, pci_address
from hpckit.parse.nvml_words import NVLINK_VERSIONS, P2P_OK, REMOTES, Doubts

_ACTIVE = 1
_BYTES_PER_MB = 1e6


def links_of(
    answer: Answer[tuple[NvmlLinkReading, ...]], doubts: Doubts
) -> tuple[tuple[NvLink, ...] | None, str | None]:
    """A GPU's links and their version.

    nvmlDeviceGetNvLinkState(): NotSupported is a GPU that has none.
    """
    if isinstance(answer, NvmlRefusal) and answer.reason == "NotSupported":
        return (), None
    readings = doubts.known("nvlinks", answer)
    if readings is None:
        return None, None
    return tuple(_link(one, doubts) for one in readings), _version(readings)


def _link(reading: NvmlLinkReading, doubts: Doubts) -> NvLink:
    state = doubts.number(f"nvlinks.{reading.index}.is_active", reading.state)
    remote = reading.remote_type
    kind = None if isinstance(remote, NvmlRefusal) else REMOTES.get(remote)
    if kind is None and state == _ACTIVE:
        reason = remote.reason if isinstance(remote, NvmlRefusal) else f"device type {remote}"
        doubts.note("nvlinks.remote", f"NVML: {reason}")
    return NvLink(
        index=reading.index,
        is_active=None if state is None else state == _ACTIVE,
        remote=kind,
        remote_pci=_address(reading.remote_bus_id),
    )


def _address(answer: Answer[str]) -> PciAddress | None:
    """Where the other end is; a virtual machine shows none, or one without sense."""
    if isinstance(answer, NvmlRefusal):
        return None
    try:
        return pci_address(answer)
    except ValueError:
        return None


def _version(readings: Sequence[NvmlLinkReading]) -> str | None:
    """That of the first link that says one; the links of a GPU are alike."""
    for one in readings:
        if not isinstance(one.version, NvmlRefusal) and one.version in NVLINK_VERSIONS:
            return NVLINK_VERSIONS[one.version]
    return None


def _bytes_per_s(device: NvmlDeviceReading, gpu: Gpu) -> float | None:
    """Of one link in one direction: as the version has it, else the rate on the wire."""
    rate = NVLINK_BYTES_PER_S.get(gpu.nvlink_version or "")
    if rate is not None:
        return rate
    if isinstance(device.links, NvmlRefusal):
        return None
    for one in device.links:
        speed = one.speed_mb_per_s
        if one.state == _ACTIVE and not isinstance(speed, NvmlRefusal) and speed > 0:
            return speed * _BYTES_PER_MB
    return None


class LinkEnds:
    """Where the active NVLinks of each GPU of a node end."""

    def __init__(self, gpus: Sequence[Gpu], devices: Sequence[NvmlDeviceReading]) -> None:
        self._gpus = {gpu.index: gpu for gpu in gpus}
        self._by_address = {gpu.pci: gpu.index for gpu in gpus if gpu.pci is not None}
        self._rates = {
            gpu.index: _bytes_per_s(device, gpu) for gpu, device in zip(gpus, devices, strict=True)
        }

    def _active(self, index: int) -> list[NvLink]:
        return [link for link in self._gpus[index].nvlinks or () if link.is_active]

    def _peer(self, link: NvLink) -> int | None:
        """The GPU at the other end, told by its address."""
        return None if link.remote_pci is None else self._by_address.get(link.remote_pci)

    def _is_switched(self, link: NvLink) -> bool:
        """Whether a link ends at a switch.

        One whose end NVML does not tell is taken as one, as NCCL does: the switches of a virtual
        machine are outside it (src/graph/xml.cc, "not visible, assuming NVSwitch").
        """
        if link.remote is None:
            return self._peer(link) is None
        return link.remote is NvLinkRemote.SWITCH

    def between(self, pair: NvmlPairReading) -> GpuLink | None:
        """The links between two GPUs, the direct ones before those through switches."""
        is_switched = False
        there = [link for link in self._active(pair.a) if self._peer(link) == pair.b]
        back = [link for link in self._active(pair.b) if self._peer(link) == pair.a]
        if not there and not back:
            is_switched = True
            there = [link for link in self._active(pair.a) if self._is_switched(link)]
            back = [link for link in self._active(pair.b) if self._is_switched(link)]
        count = min(len(there), len(back))
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
            is_switched=is_switched,
            is_p2p=_is_p2p(pair),
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


def _is_p2p(pair: NvmlPairReading) -> bool | None:
    """Whether each may read and write the other's memory; None if that is not told."""
    if isinstance(pair.p2p_read, NvmlRefusal) or isinstance(pair.p2p_write, NvmlRefusal):
        return None
    return pair.p2p_read == P2P_OK and pair.p2p_write == P2P_OK


def c2c_of(gpu: Gpu, answer: Answer[tuple[NvmlC2cReading, ...]], doubts: Doubts) -> CpuLink | None:
    """The C2C links to a GPU's own CPU; a GPU without them does not support the question."""
    if isinstance(answer, NvmlRefusal) and answer.reason in {"NotSupported", "InvalidArgument"}:
        return None
    readings = doubts.known("cpu_links", answer)
    active = [one for one in readings or () if one.status == _ACTIVE]
    if not active:
        return None
    rates = [one.mb_per_s for one in active if not isinstance(one.mb_per_s, NvmlRefusal)]
    is_known = len(rates) == len(active) and all(rates)
    return CpuLink(
        gpu_index=gpu.index,
        kind=LinkKind.C2C,
        numa_index=gpu.numa_index,
        count=len(active),
        bandwidth_bytes_per_s=sum(rates) * _BYTES_PER_MB if is_known else None,
    )
