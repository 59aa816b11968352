"""What a reading of NVML means: links, paths, health, and what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.node.capture.nvml import (
    Answer,
    NvmlC2cReading,
    NvmlDeviceReading,
    NvmlFabricReading,
    NvmlHealthReading,
    NvmlLinkReading,
    NvmlPairReading,
    NvmlPcieReading,
    NvmlReading,
    NvmlRefusal,
)
from hpckit.node.capture.nvml_node import parse_nvml
from hpckit.node.topology import LinkKind, NvLinkRemote, Unknown

NOT_SUPPORTED = NvmlRefusal(reason="NotSupported")
VERSION_4 = 6
TO_GPU, TO_NPU, TO_SWITCH, UNKNOWN_TYPE = 0, 1, 2, 255


def address(index: int) -> str:
    """The bus id of a GPU as NVML writes it."""
    return f"00000000:{index + 16:02X}:00.0"


def device(
    index: int, *, links: Answer[tuple[NvmlLinkReading, ...]] = NOT_SUPPORTED
) -> NvmlDeviceReading:
    """A GPU that says who and where it is."""
    return NvmlDeviceReading(
        index=index,
        name="NVIDIA H100 80GB HBM3",
        uuid=f"GPU-{index}",
        links=links,
        memory_affinity=(1,),
        pcie=NvmlPcieReading(bus_id=address(index)),
    )


def link(
    index: int,
    remote_type: Answer[int] = TO_SWITCH,
    remote_bus_id: Answer[str] = NOT_SUPPORTED,
    *,
    state: int = 1,
    version: int = VERSION_4,
) -> NvmlLinkReading:
    """An NVLink, active unless told."""
    return NvmlLinkReading(
        index=index,
        state=state,
        version=version,
        remote_type=remote_type,
        remote_bus_id=remote_bus_id,
    )


def switched(count: int, *, down: int = 0) -> tuple[NvmlLinkReading, ...]:
    """Links to switches, the last of them down."""
    return tuple(link(at, state=int(at < count - down)) for at in range(count))


def pair(a: int, b: int, ancestor: Answer[int] = 50, p2p: Answer[int] = 0) -> NvmlPairReading:
    """Two GPUs of which each may read and write the other's memory."""
    return NvmlPairReading(a=a, b=b, ancestor=ancestor, p2p_read=p2p, p2p_write=p2p)


def two(one: NvmlDeviceReading, other: NvmlDeviceReading, between: NvmlPairReading) -> NvmlReading:
    """A node with two GPUs."""
    return NvmlReading(driver_version="570.86.15", devices=(one, other), pairs=(between,))


def test_refusal_of_all() -> None:
    """A reading that was refused is a node of which the GPUs are not known, with the reason."""
    topology = parse_nvml(NvmlReading(refused=NvmlRefusal(reason="DriverNotLoaded")))
    because = "NVML: DriverNotLoaded"
    assert topology.unknown == (Unknown(subject="GPUs", what="gpus", because=because),)


@pytest.mark.parametrize(
    ("ancestor", "word"),
    [(0, "PIX"), (10, "PIX"), (20, "PXB"), (30, "PHB"), (40, "NODE"), (50, "SYS")],
)
def test_ancestor(ancestor: int, word: str) -> None:
    """Without NVLinks the path is the nearest common ancestor, in nvidia-smi's word."""
    topology = parse_nvml(two(device(0), device(1), pair(0, 1, ancestor)))
    assert topology.paths is not None
    assert topology.paths.cells == (("X", word), (word, "X"))
    assert topology.gpu_links == ()


def test_ancestor_that_is_not_told() -> None:
    """An ancestor that NVML refuses, or that it counts in a way of its own, is no path."""
    for ancestor, reason in ((NOT_SUPPORTED, "NotSupported"), (60, "ancestor 60")):
        topology = parse_nvml(two(device(0), device(1), pair(0, 1, ancestor)))
        assert topology.paths is not None
        assert topology.paths.cells[0][1] is None
        entry = Unknown(subject="GPU0", what="path to GPU1", because=f"NVML: {reason}")
        assert entry in topology.unknown


def test_switched_links() -> None:
    """Through switches a pair has what the one of them with fewer active links has."""
    reading = two(device(0, links=switched(18)), device(1, links=switched(18, down=1)), pair(0, 1))
    (found,) = parse_nvml(reading).gpu_links
    assert (found.count, found.is_switched, found.is_p2p) == (17, True, True)
    assert found.bandwidth_bytes_per_s == 17 * 25e9


def test_direct_links_come_before_switched_ones() -> None:
    """Links that end at the peer count, and those to a switch beside them do not."""
    ends = [(0, 1), (1, 0)]
    one, other = (
        device(at, links=(*(link(n, TO_GPU, address(to)) for n in range(2)), link(2)))
        for at, to in ends
    )
    (found,) = parse_nvml(two(one, other, pair(0, 1))).gpu_links
    assert (found.count, found.is_switched) == (2, False)


def test_remote_is_found_by_its_address() -> None:
    """Where the kind of the other end is not told, the address of a GPU of this node tells it."""
    one, other = (
        device(at, links=(link(0, NOT_SUPPORTED, address(to)),)) for at, to in ((0, 1), (1, 0))
    )
    (found,) = parse_nvml(two(one, other, pair(0, 1))).gpu_links
    assert (found.count, found.is_switched) == (1, False)


@pytest.mark.parametrize("bus_id", [NOT_SUPPORTED, "", "\x01\x02", "FFFFFFFF:FF:FF.0"])
def test_remote_that_a_virtual_machine_hides(bus_id: Answer[str]) -> None:
    """A link whose end is not told is taken as one to a switch, and that it was is said."""
    hidden = (link(0, UNKNOWN_TYPE, bus_id),)
    topology = parse_nvml(two(device(0, links=hidden), device(1, links=hidden), pair(0, 1)))
    assert [found.is_switched for found in topology.gpu_links] == [True]
    assert ("GPUs", "nvlinks.remote") in {(one.subject, one.what) for one in topology.unknown}


def test_links_to_a_gpu_that_is_not_shown() -> None:
    """Links to a GPU that this process does not see are no links to those that it sees."""
    elsewhere = (link(0, TO_GPU, address(7)),)
    reading = two(device(0, links=elsewhere), device(1, links=elsewhere), pair(0, 1, 40))
    topology = parse_nvml(reading)
    assert topology.gpu_links == ()
    assert topology.paths is not None
    assert topology.paths.cells[0][1] == "NODE"


@pytest.mark.parametrize(
    ("read", "write", "is_p2p"),
    [
        (0, 0, True),
        (0, 5, False),
        (2, 0, False),
        (0, NOT_SUPPORTED, None),
        (NOT_SUPPORTED, 0, None),
    ],
)
def test_p2p(read: Answer[int], write: Answer[int], is_p2p: bool | None) -> None:
    """P2P needs both reading and writing; what is not told of either is not known."""
    between = NvmlPairReading(a=0, b=1, ancestor=50, p2p_read=read, p2p_write=write)
    reading = two(device(0, links=switched(2)), device(1, links=switched(2)), between)
    assert [found.is_p2p for found in parse_nvml(reading).gpu_links] == [is_p2p]


def test_links_to_the_cpu() -> None:
    """NVLinks of POWER and C2C links of Grace end at the CPU beside the GPU."""
    npu = tuple(link(at, TO_NPU, version=2) for at in range(3))
    c2c = tuple(NvmlC2cReading(status=int(at < 9), mb_per_s=44_712) for at in range(10))
    one = device(0, links=npu)
    topology = parse_nvml(NvmlReading(devices=(one, replace(device(1), c2c=c2c))))
    power, grace = topology.cpu_links
    assert (power.kind, power.count, power.bandwidth_bytes_per_s) == (LinkKind.NVLINK, 3, 75e9)
    assert (grace.kind, grace.count) == (LinkKind.C2C, 9)
    assert grace.bandwidth_bytes_per_s == pytest.approx(9 * 44_712e6)
    assert (power.numa_index, grace.gpu_index) == (0, 1)


def test_rate_of_a_version_to_come() -> None:
    """An NVLink of a version without a known rate has the one that NVML gives for the wire."""
    new = tuple(
        replace(link(at), version=NvmlRefusal(reason="NotSupported"), speed_mb_per_s=60_000)
        for at in range(2)
    )
    (found,) = parse_nvml(two(device(0, links=new), device(1, links=new), pair(0, 1))).gpu_links
    assert found.bandwidth_bytes_per_s == 120e9


def test_links_refused_by_an_error() -> None:
    """No NVLink and not known are two things: NotSupported is the first, an error the second."""
    topology = parse_nvml(
        two(device(0), device(1, links=NvmlRefusal(reason="Unknown")), pair(0, 1, 10))
    )
    assert [gpu.nvlinks for gpu in topology.gpus] == [(), None]
    assert Unknown(subject="GPU1", what="nvlinks", because="NVML: Unknown") in topology.unknown


def test_numa_of_several_nodes() -> None:
    """A GPU beside several NUMA nodes has no one node, and says which there are."""
    one = replace(device(0), memory_affinity=(0b1001, 1), cpu_affinity=(0, 0b110))
    (gpu,) = parse_nvml(NvmlReading(devices=(one,))).gpus
    assert (gpu.numa_index, gpu.memory_numa, gpu.cpus) == (None, "0,3,64", "65-66")


def test_empty_affinity_is_unknown() -> None:
    """A virtual machine's empty masks are no affinity, not one to nothing."""
    one = replace(device(0), memory_affinity=(), cpu_affinity=(0, 0))
    topology = parse_nvml(NvmlReading(devices=(one,)))
    assert (topology.gpus[0].cpus, topology.gpus[0].numa_index) == (None, None)
    told = {entry.what: entry.because for entry in topology.unknown}
    assert told["numa_index"] == told["cpus"] == "NVML: an empty set"


@pytest.mark.parametrize("number", [0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, -1])
def test_number_for_no_value(number: int) -> None:
    """NVML's number for "not available" is not a power, nor a NUMA node."""
    one = replace(device(0), numa_node_id=number, health=NvmlHealthReading(power_mw=number))
    topology = parse_nvml(NvmlReading(devices=(one,)))
    assert topology.gpus[0].own_numa_index is None
    assert topology.gpus[0].health is not None
    assert topology.gpus[0].health.power_w is None
    assert {entry.what for entry in topology.unknown} == {"own_numa_index", "health.power_w"}


def test_clocks_event_reasons() -> None:
    """Bits become NVML's names; one that is newer than this code stays a number."""
    one = replace(device(0), health=NvmlHealthReading(clocks_event_reasons=0x1C1 | 1 << 40))
    health = parse_nvml(NvmlReading(devices=(one,))).gpus[0].health
    assert health is not None
    assert health.clocks_event_reasons == (
        "GpuIdle",
        "HwThermalSlowdown",
        "HwPowerBrakeSlowdown",
        "DisplayClockSetting",
        "0x10000000000",
    )


def test_health() -> None:
    """Milliwatts become watts, and the four of the remapped rows their own fields."""
    one = replace(
        device(0),
        health=NvmlHealthReading(
            remapped_rows=(3, 1, 1, 0), ecc_mode=(0, 1), power_mw=512_345, power_limit_mw=700_000
        ),
    )
    health = parse_nvml(NvmlReading(devices=(one,))).gpus[0].health
    assert health is not None
    assert (health.remapped_rows_correctable, health.remapped_rows_uncorrectable) == (3, 1)
    assert (health.remapping_pending, health.remapping_failed) == (True, False)
    assert (health.ecc_enabled, health.power_w, health.power_limit_w) == (False, 512.345, 700.0)


@pytest.mark.parametrize(
    ("mask", "summary", "health"),
    [
        (0, None, None),
        (0, 0, None),
        (0b10, None, "HEALTHY"),
        (0b01, None, "UNHEALTHY (DEGRADED_BW)"),
        (0b10_0000 | 5 << 8, 2, "UNHEALTHY (INSUFFICIENT_NVLINKS)"),
        (0b01_0000, 3, "LIMITED_CAPACITY (ROUTE_UNHEALTHY)"),
        (1 << 8, 1, "HEALTHY"),
    ],
)
def test_fabric_health(mask: int, summary: int | None, health: str | None) -> None:
    """A fabric's health is NVML's summary, or that of the mask, with what is wrong."""
    info = NvmlFabricReading(
        cluster_uuid="ab" * 16,
        status=0,
        clique_id=7,
        state=3,
        health_mask=mask,
        health_summary=summary,
    )
    fabric = parse_nvml(NvmlReading(devices=(replace(device(0), fabric=info),))).gpus[0].fabric
    assert fabric is not None
    assert (fabric.state, fabric.clique_id, fabric.health) == ("COMPLETED", 7, health)
    assert fabric.cluster_uuid == "abababab-abab-abab-abab-abababababab"


def test_fabric_without_a_name() -> None:
    """An HGX board's fabric reaches no other node: it has no cluster and no clique."""
    info = NvmlFabricReading(cluster_uuid="00" * 16, status=10, clique_id=0, state=2, health_mask=0)
    fabric = parse_nvml(NvmlReading(devices=(replace(device(0), fabric=info),))).gpus[0].fabric
    assert fabric is not None
    assert (fabric.cluster_uuid, fabric.clique_id) == (None, None)
    assert (fabric.state, fabric.status) == ("IN_PROGRESS", "Timeout")


def test_pcie() -> None:
    """The link of a GPU is in lanes and GT/s; ids are split into device and vendor."""
    pcie = NvmlPcieReading(
        bus_id="00000008:01:00.0",
        device_id=0x233010DE,
        subsystem_id=0x16C110DE,
        generation=1,
        width=8,
        max_generation=5,
        max_width=16,
    )
    (found,) = parse_nvml(NvmlReading(devices=(replace(device(0), pcie=pcie),))).pci
    assert found.address == "0008:01:00.0"
    assert (found.vendor_id, found.device_id, found.subsystem_device_id) == (0x10DE, 0x2330, 0x16C1)
    assert found.link is not None
    assert (found.link.speed_gt_per_s, found.link.width) == (2.5, 8)
    assert (found.link.max_speed_gt_per_s, found.link.max_width) == (32.0, 16)


def test_pcie_without_sense() -> None:
    """An address that is none, no lanes and a generation to come are not known."""
    pcie = NvmlPcieReading(bus_id="no address", generation=9, width=0)
    odd = parse_nvml(NvmlReading(devices=(replace(device(0), pcie=pcie),)))
    assert (odd.gpus[0].pci, odd.pci) == (None, ())
    pcie = replace(pcie, bus_id=address(0))
    (found,) = parse_nvml(NvmlReading(devices=(replace(device(0), pcie=pcie),))).pci
    assert found.link is not None
    assert (found.link.speed_gt_per_s, found.link.width) == (None, None)


def test_remote_of_a_link() -> None:
    """A link says what is at its other end; one that is down does not."""
    links = (link(0, TO_GPU, address(1)), link(1), link(2, NOT_SUPPORTED, state=0))
    (gpu,) = parse_nvml(NvmlReading(devices=(device(0, links=links),))).gpus
    assert gpu.nvlinks is not None
    assert [one.remote for one in gpu.nvlinks] == [NvLinkRemote.GPU, NvLinkRemote.SWITCH, None]
    assert [one.is_active for one in gpu.nvlinks] == [True, True, False]
    assert (gpu.nvlinks[0].remote_pci, gpu.nvlink_version) == ("0000:11:00.0", "4.0")


def test_what_holds_of_all_is_said_once() -> None:
    """A reason that all GPUs share is one entry, of `GPUs`; one that some share is one of each."""
    refused = NvmlRefusal(reason="NoPermission")
    devices = tuple(replace(device(at), serial=refused) for at in range(3))
    for kept, subjects in ((devices, {"GPUs"}), ((*devices[:2], device(2)), {"GPU0", "GPU1"})):
        unknown = parse_nvml(NvmlReading(devices=kept)).unknown
        assert {entry.subject for entry in unknown if entry.what == "serial"} == subjects


readings = st.lists(st.from_type(NvmlDeviceReading), max_size=4).flatmap(
    lambda devices: st.builds(
        NvmlReading,
        devices=st.just(tuple(replace(one, index=at) for at, one in enumerate(devices))),
        pairs=st.lists(
            st.builds(
                replace,
                st.from_type(NvmlPairReading),
                a=st.just(0),
                b=st.integers(0, max(0, len(devices) - 1)),
            ),
            max_size=3 if devices else 0,
        ).map(tuple),
    )
)


@given(readings)
def test_any_reading_is_a_topology(reading: NvmlReading) -> None:
    """Whatever NVML answers, there is a topology with each GPU that was read."""
    topology = parse_nvml(reading)
    assert [gpu.index for gpu in topology.gpus] == [one.index for one in reading.devices]
