"""A GPU's NVLinks and its links to a Grace CPU, as NVML tells of them."""

from __future__ import annotations

from typing import Any, Final

from hpckit.adapters.nvml_session import NvmlGpu
from hpckit.model.nvml_reading import Answer, NvmlC2cReading, NvmlLinkReading, NvmlRefusal

_MOST_LINKS: Final = 36  # nvml.h: NVML_NVLINK_MAX_LINKS
_MOST_C2C: Final = 64
_HOPPER: Final = (9, 0)
# Where NVML does not count them. NCCL, src/graph/xml.cc: the most links by compute capability.
_MOST_BY_CAPABILITY: Final = (((6, 0), 0), ((7, 0), 4), ((8, 0), 6), ((9, 0), 12))
_MOST_SINCE_HOPPER: Final = 18


def nvlinks(
    gpu: NvmlGpu, capability: Answer[tuple[int, int]]
) -> Answer[tuple[NvmlLinkReading, ...]]:
    """The links that a GPU has, those that are down too; the first refusal where it has none."""
    nvml = gpu.nvml
    (count,) = gpu.fields([(nvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 0)])
    links = range(min(_count(count, capability), _MOST_LINKS))
    if not links:
        return ()
    states = _states(gpu, links, capability)
    speeds = gpu.fields([(nvml.NVML_FI_DEV_NVLINK_GET_SPEED, link) for link in links])
    there = [
        _link(gpu, link, states[link], speeds[link])
        for link in links
        if not _is_beyond(states[link])
    ]
    refused = [one.state for one in there if isinstance(one.state, NvmlRefusal)]
    if refused and len(refused) == len(there):
        return refused[0]
    return tuple(there)


def _count(count: Answer[int], capability: Answer[tuple[int, int]]) -> int:
    if not isinstance(count, NvmlRefusal):
        return count
    if isinstance(capability, NvmlRefusal):
        return _MOST_SINCE_HOPPER
    for below, most in _MOST_BY_CAPABILITY:
        if capability < below:
            return most
    return _MOST_SINCE_HOPPER


def _states(
    gpu: NvmlGpu, links: range, capability: Answer[tuple[int, int]]
) -> dict[int, Answer[int]]:
    """1 for an active link. As NCCL: from Hopper on by a field, before by a call for each."""
    states: dict[int, Answer[int]] = {}
    if isinstance(capability, NvmlRefusal) or capability >= _HOPPER:
        field = gpu.nvml.NVML_FI_DEV_NVLINK_GET_STATE
        states = dict(zip(links, gpu.fields([(field, link) for link in links]), strict=True))
    for link in links:
        if isinstance(states.get(link, NvmlRefusal(reason="")), NvmlRefusal):
            states[link] = gpu.ask("nvmlDeviceGetNvLinkState", link)
    return states


def _is_beyond(state: Answer[int]) -> bool:
    """Whether the GPU has no such link: nvml.h gives InvalidArgument for it."""
    return isinstance(state, NvmlRefusal) and state.reason == "InvalidArgument"


def _link(gpu: NvmlGpu, link: int, state: Answer[int], speed: Answer[int]) -> NvmlLinkReading:
    if state != 1:
        return NvmlLinkReading(index=link, state=state, speed_mb_per_s=speed)
    return NvmlLinkReading(
        index=link,
        state=state,
        speed_mb_per_s=speed,
        version=gpu.ask("nvmlDeviceGetNvLinkVersion", link),
        remote_type=gpu.ask("nvmlDeviceGetNvLinkRemoteDeviceType", link),
        remote_bus_id=_bus_id(gpu.ask("nvmlDeviceGetNvLinkRemotePciInfo", link)),
    )


def _bus_id(answer: Answer[Any]) -> Answer[str]:
    """An address, also one that is no text: NVML answers so for what a machine does not show."""
    if isinstance(answer, NvmlRefusal):
        return answer
    try:
        return str(answer.busId)
    except UnicodeDecodeError:
        return NvmlRefusal(reason="an answer that is no text")


def c2c_links(
    gpu: NvmlGpu, capability: Answer[tuple[int, int]]
) -> Answer[tuple[NvmlC2cReading, ...]]:
    """The links to the GPU's own CPU, which Grace has; none before Hopper."""
    if not isinstance(capability, NvmlRefusal) and capability < _HOPPER:
        return ()
    nvml = gpu.nvml
    (count,) = gpu.fields([(nvml.NVML_FI_DEV_C2C_LINK_COUNT, 0)])
    if isinstance(count, NvmlRefusal):
        return count
    links = range(min(count, _MOST_C2C))
    if not links:
        return ()
    status, rate = nvml.NVML_FI_DEV_C2C_LINK_GET_STATUS, nvml.NVML_FI_DEV_C2C_LINK_GET_MAX_BW
    answers = gpu.fields([(field, link) for link in links for field in (status, rate)])
    return tuple(
        NvmlC2cReading(status=answers[2 * link], mb_per_s=answers[2 * link + 1]) for link in links
    )
