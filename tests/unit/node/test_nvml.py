"""NVML through nvidia-ml-py, from a library that refuses, hangs, loses a GPU or is not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpckit.node.capture.nvml_gpus import fabric_health
from hpckit.node.topology import Gpu, LinkKind, NvLinkRemote
from tests.fakes.nvml_library import HEAD, PROFILES, NvmlHost, build_fake_nvml, profile

WithProfile = Callable[[str], NvmlHost]

FOUR = 'gpus = 4\n[gpu]\nnuma = "0"\ncpus = "0-15"\nnvlinks = "18*switch"\n'

MIG = """
import pynvml as nvml
nvml.nvmlInit()
gpu = nvml.nvmlDeviceGetHandleByIndex(1)
mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1)
attributes = nvml.nvmlDeviceGetAttributes(mig)
same = nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(mig))
print(nvml.nvmlDeviceGetName(same), attributes.gpuInstanceSliceCount, attributes.memorySizeMB)
"""

WITHOUT_PYNVML = """
import sys
sys.modules["pynvml"] = None
from hpckit.node.capture.nvml import NvmlDriver
print(NvmlDriver().read().unknown[0].because)
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake library."""
    return build_fake_nvml(tmp_path_factory.getbasetemp() / "fake-nvml")


@pytest.fixture
def with_profile(library: Path, tmp_path: Path) -> WithProfile:
    """Makes a machine from the text of a profile."""
    return lambda text: NvmlHost(folder=library, profile=profile(tmp_path, text))


def of_profile(library: Path, name: str) -> NvmlHost:
    """The machine of a profile that comes with the library."""
    return NvmlHost(folder=library, profile=PROFILES / f"{name}.toml")


def refused(host: NvmlHost, limit_s: float = 30.0) -> str:
    """The reason of a look that shows no GPU."""
    look = host.look(limit_s)
    assert look.topology.gpus == ()
    (because,) = look.reasons("GPUs").values()
    return because.removeprefix("NVML: ")


def test_no_library(tmp_path: Path) -> None:
    """Where the library cannot be loaded the reading says LibraryNotFound."""
    # A file of this name that is no library ends the loader's search, also where there is a driver.
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    assert refused(NvmlHost(folder=tmp_path)) == "LibraryNotFound"


def test_no_nvidia_ml_py(library: Path) -> None:
    """Without nvidia-ml-py the reading says that it is not installed."""
    ran = NvmlHost(folder=library).python(WITHOUT_PYNVML)
    assert ran.stdout.strip().endswith("nvidia-ml-py is not installed")


def test_no_driver(tmp_path: Path, library: Path, with_profile: WithProfile) -> None:
    """An NVML without a driver, or without permission, is a reason and no error."""
    (tmp_path / "empty.toml").write_text(HEAD + 'error.nvmlInit = "DriverNotLoaded"')
    assert refused(NvmlHost(folder=library, profile=tmp_path / "empty.toml")) == "DriverNotLoaded"
    assert refused(with_profile('gpus = 1\nerror.nvmlInit = "NoPermission"\n')) == "NoPermission"
    assert refused(with_profile('gpus = 1\nerror.nvmlDeviceGetCount = "Unknown"\n')) == "Unknown"


def test_driver_that_hangs(with_profile: WithProfile) -> None:
    """An initialization that never returns is given up after the limit."""
    host = with_profile('gpus = 1\nerror.nvmlInit = "Hang"\n')
    assert refused(host, limit_s=0.2) == "no answer within 0.2 s"


def test_gpu_that_hangs(with_profile: WithProfile) -> None:
    """A GPU that never answers leaves those before it read, and names itself and those after it."""
    look = with_profile(FOUR + '[gpu.2]\nerror.nvmlDeviceGetSerial = "Hang"\n').look(limit_s=2)
    assert [gpu.memory_bytes is None for gpu in look.topology.gpus] == [False, False, True, True]
    assert look.reasons("GPU2") == {"everything": "NVML: no answer within 2 s"}
    assert look.reasons("GPU1") == {}


def test_lost_gpu(with_profile: WithProfile) -> None:
    """A GPU that is lost in the middle costs itself and the paths to it, nothing else."""
    look = with_profile(FOUR + '[gpu.2]\nerror.nvmlDeviceGetFieldValues = "GpuIsLost"\n').look()
    assert [gpu.cpus for gpu in look.topology.gpus] == ["0-15", "0-15", None, "0-15"]
    assert look.reasons("GPU2")["everything"] == "NVML: GpuIsLost"
    assert look.reasons("GPU0") == {"path to GPU2": "NVML: GpuIsLost"}
    assert look.topology.paths is not None
    assert look.topology.paths.cells[0] == ("X", "NV18", None, "NV18")


def test_lost_gpu_is_left_alone(with_profile: WithProfile) -> None:
    """After GpuIsLost a GPU is not asked again: what comes later is lost too."""
    text = '[gpu.2]\nerror.nvmlDeviceGetUUID = "GpuIsLost"\n'
    lost, other = with_profile(FOUR + text).look().topology.gpus[2:]
    assert (lost.name, lost.health and lost.health.power_w) == (None, None)
    assert other.health is not None
    assert other.health.power_w == 70.0


def test_gpu_without_handle(with_profile: WithProfile) -> None:
    """A GPU that NVML counts and does not hand out is there, with the reason."""
    look = with_profile(
        FOUR + '[gpu.0]\nerror.nvmlDeviceGetHandleByIndex = "NoPermission"\n'
    ).look()
    assert [gpu.uuid is None for gpu in look.topology.gpus] == [True, False, False, False]
    assert look.reasons("GPU0")["everything"] == "NVML: NoPermission"


def test_one_question_refused(with_profile: WithProfile) -> None:
    """A refused question is None with its reason: for one GPU, or once for all of them."""
    one = with_profile(FOUR + '[gpu.1]\nerror.nvmlDeviceGetPowerUsage = "NoPermission"\n').look()
    assert one.reasons("GPU1") == {"health.power_w": "NVML: NoPermission"}
    every = with_profile(FOUR + 'error.nvmlDeviceGetPowerUsage = "NotSupported"\n').look()
    assert every.reasons("GPUs")["health.power_w"] == "NVML: NotSupported"
    assert [one.topology.gpus[at].health.power_w for at in (0, 1)] == [70.0, None]  # type: ignore[union-attr]


def test_driver_before_535(with_profile: WithProfile) -> None:
    """Clocks event reasons are asked by their older name where the newer one is not there."""
    text = 'clocks_event_reasons = 0x40\nerror.nvmlDeviceGetCurrentClocksEventReasons = "{}"\n'
    old = with_profile(FOUR + text.format("FunctionNotFound")).look()
    assert [gpu.health and gpu.health.clocks_event_reasons for gpu in old.topology.gpus] == [
        ("HwThermalSlowdown",)
    ] * 4
    assert with_profile(FOUR + text.format("NotSupported")).look().reasons("GPUs")[
        "health.clocks_event_reasons"
    ] == ("NVML: NotSupported")


def test_dead_nvlink(library: Path) -> None:
    """One dead link of GPU5 leaves 17 to each of its peers, and 18 between the others."""
    look = of_profile(library, "dgx-h100-dead-nvlink").look()
    topology = look.topology
    down = {g.index: [n.index for n in g.nvlinks or () if not n.is_active] for g in topology.gpus}
    assert down == {at: [7] if at == 5 else [] for at in range(8)}
    assert {(5 in (link.a, link.b), link.count) for link in topology.gpu_links} == {
        (True, 17),
        (False, 18),
    }


def test_before_hopper_links_are_asked_one_by_one(with_profile: WithProfile) -> None:
    """A V100's links come from nvmlDeviceGetNvLinkState, whatever the field of later GPUs says."""
    text = 'gpus = 2\n[gpu]\nsm = "7.0"\nnvlink_version = "2.0"\nerror.field165 = "NotSupported"\n'
    host = with_profile(text + '[gpu.0]\nnvlinks = "2*1 - -"\n[gpu.1]\nnvlinks = "2*0 - -"\n')
    topology = host.look().topology
    assert [(link.count, link.bandwidth_bytes_per_s) for link in topology.gpu_links] == [(2, 50e9)]
    assert [gpu.is_mig for gpu in topology.gpus] == [False, False]


def test_links_without_a_count(with_profile: WithProfile) -> None:
    """Where NVML does not count the links, as many are tried as the architecture can have."""
    host = with_profile(
        'gpus = 1\n[gpu]\nsm = "8.0"\nnvlinks = "5*npu"\nerror.field91 = "NotSupported"\n'
    )
    (gpu,) = host.look().topology.gpus
    assert [link.remote for link in gpu.nvlinks or ()] == [NvLinkRemote.NPU] * 5


def test_gpu_without_nvlink(with_profile: WithProfile) -> None:
    """A GPU that has no NVLink has none, which is not the same as not known."""
    (gpu,) = with_profile('gpus = 1\n[gpu]\nsm = "8.9"\n').look().topology.gpus
    assert gpu.nvlinks == ()


def test_virtual_machine(with_profile: WithProfile) -> None:
    """Links whose end a virtual machine does not show are taken as ending at switches."""
    host = with_profile('gpus = 2\n[gpu]\nvirtualization = 1\nnvlinks = "18*hidden"\n')
    look = host.look()
    assert look.topology.host.is_virtual_machine is True
    assert [(link.count, link.is_switched) for link in look.topology.gpu_links] == [(18, True)]
    assert look.reasons("GPUs")["nvlinks.remote"] == "NVML: device type 255"
    assert look.topology.gpus[0].numa_index is None


def test_mig(library: Path) -> None:
    """MIG devices are counted on the GPU that is split."""
    host = of_profile(library, "a100-mig")
    gpus = host.look().topology.gpus
    assert [(gpu.is_mig, gpu.mig_devices) for gpu in gpus] == [(False, None), (True, 3)]
    assert host.python(MIG).stdout.strip() == "NVIDIA A100-SXM4-80GB MIG 2g.20gb 2 20480"


def test_platform_numbers_above_127(with_profile: WithProfile) -> None:
    """Slots that nvidia-ml-py cannot decode as a character are read all the same."""
    host = with_profile('gpus = 1\n[gpu]\nplatform_slot = 200\nplatform_chassis_serial = "S1"\n')
    platform = host.look().topology.gpus[0].platform
    assert platform is not None
    assert (platform.slot_number, platform.chassis_serial) == (200, "S1")


def test_no_gpu(with_profile: WithProfile) -> None:
    """A driver without GPUs is an empty node, not a refusal."""
    topology = with_profile("gpus = 0\n").look().topology
    assert topology.gpus == ()
    assert topology.unknown == ()
    assert topology.host.driver_version == "570.86.15-synthetic"


def test_fake_says_that_it_is_one(library: Path) -> None:
    """What comes from a profile is marked synthetic."""
    assert of_profile(library, "gh200").look().topology.source.is_synthetic


def one_gpu(host: NvmlHost) -> Gpu:
    """The only GPU of a machine."""
    (gpu,) = host.look().topology.gpus
    return gpu


def test_ancestors(with_profile: WithProfile) -> None:
    """Without NVLinks the path is the nearest common ancestor, in nvidia-smi's word."""
    text = 'gpus = 6\n[gpu]\nancestors = "X PIX PXB PHB NODE SYS"\n'
    topology = with_profile(text).look().topology
    assert topology.paths is not None
    assert topology.paths.cells[0] == ("X", "PIX", "PXB", "PHB", "NODE", "SYS")
    assert topology.gpu_links == ()


def test_direct_links_come_before_switched_ones(with_profile: WithProfile) -> None:
    """Links that end at the peer count, and those to a switch beside them do not."""
    text = 'gpus = 2\n[gpu.0]\nnvlinks = "2*1 switch"\n[gpu.1]\nnvlinks = "2*0 switch"\n'
    (link,) = with_profile(text).look().topology.gpu_links
    assert (link.count, link.is_switched, link.is_p2p) == (2, False, True)


def test_p2p_that_is_refused(with_profile: WithProfile) -> None:
    """A pair whose P2P status is not OK cannot use its links for it; an error is not known."""
    for text, is_p2p in (
        ('[gpu.0]\np2p = "OK CNS"\n', False),
        ('error.nvmlDeviceGetP2PStatus = "Unknown"\n', None),
    ):
        (link,) = (
            with_profile(f'gpus = 2\n[gpu]\nnvlinks = "2*switch"\n{text}').look().topology.gpu_links
        )
        assert link.is_p2p is is_p2p


def test_links_to_the_cpu(with_profile: WithProfile) -> None:
    """NVLinks of POWER and C2C links of Grace end at the CPU beside the GPU."""
    power = '[gpu.0]\nsm = "7.0"\nnvlinks = "3*npu"\nnvlink_version = "2.0"\n'
    grace = '[gpu.1]\nsm = "9.0"\nc2c_links = 9\nc2c_mb_per_s = 44712\n'
    found = with_profile(f'gpus = 2\n[gpu]\nnuma = "0"\n{power}{grace}').look().topology.cpu_links
    assert [(link.kind, link.count, link.numa_index) for link in found] == [
        (LinkKind.NVLINK, 3, 0),
        (LinkKind.C2C, 9, 0),
    ]
    assert [link.bandwidth_bytes_per_s for link in found] == [75e9, pytest.approx(9 * 44_712e6)]


def test_links_refused_by_an_error(with_profile: WithProfile) -> None:
    """No NVLink and not known are two things: NotSupported is the first, an error the second."""
    text = '[gpu.1]\nerror.nvmlDeviceGetNvLinkState = "Unknown"\nerror.field165 = "Unknown"\n'
    look = with_profile(FOUR + text).look()
    assert look.topology.gpus[1].nvlinks is None
    assert look.reasons("GPU1")["nvlinks"] == "NVML: Unknown"


def test_affinities(with_profile: WithProfile) -> None:
    """A GPU beside several NUMA nodes has no one node; an empty mask is not known."""
    several = one_gpu(with_profile('gpus = 1\n[gpu]\nnuma = "0,3,64"\ncpus = "65-66"\n'))
    assert (several.numa_index, several.memory_numa, several.cpus) == (None, "0,3,64", "65-66")
    look = with_profile("gpus = 1\n").look()
    assert (look.topology.gpus[0].cpus, look.topology.gpus[0].numa_index) == (None, None)
    assert look.reasons("GPU0")["numa_index"] == "NVML: empty set"


def test_health(with_profile: WithProfile) -> None:
    """Bits become NVML's names, milliwatts watts, and each of the remapped rows its own field."""
    health = one_gpu(
        with_profile(
            "gpus = 1\n[gpu]\nclocks_event_reasons = 0x1C1\necc = false\npower_limit_w = 600\n"
            "remapped_correctable = 3\nremapped_uncorrectable = 1\nremapping_pending = true\n"
        )
    ).health
    assert health is not None
    assert health.clocks_event_reasons == (
        *("GpuIdle", "HwThermalSlowdown", "HwPowerBrakeSlowdown", "DisplayClockSetting"),
    )
    assert (health.remapped_rows_correctable, health.remapped_rows_uncorrectable) == (3, 1)
    assert (health.remapping_pending, health.remapping_failed) == (True, False)
    assert (health.ecc_enabled, health.power_limit_w) == (False, 600.0)


@pytest.mark.parametrize(
    ("mask", "summary", "health"),
    [
        (0, 0, None),
        (0b10, 0, "HEALTHY"),
        (0b01, 0, "UNHEALTHY (DEGRADED_BW)"),
        (0b10_0000 | 5 << 8, 2, "UNHEALTHY (INSUFFICIENT_NVLINKS)"),
        (0b01_0000, 3, "LIMITED_CAPACITY (ROUTE_UNHEALTHY)"),
        (1 << 8, 1, "HEALTHY"),
    ],
)
def test_fabric_health(mask: int, summary: int, health: str | None) -> None:
    """A fabric's health is NVML's summary, or that of the mask, with what is wrong."""
    assert fabric_health(mask, summary) == health


def test_fabric_without_a_name(with_profile: WithProfile) -> None:
    """An HGX board's fabric reaches no other node: it has no cluster and no clique."""
    text = 'gpus = 1\n[gpu]\nfabric_state = "IN_PROGRESS"\nfabric_status = 10\n'
    fabric = one_gpu(with_profile(text)).fabric
    assert fabric is not None
    assert (fabric.cluster_uuid, fabric.clique_id) == (None, None)
    assert (fabric.state, fabric.status) == ("IN_PROGRESS", "Timeout")


def test_pcie(with_profile: WithProfile) -> None:
    """The link of a GPU is in lanes and GT/s, not known without sense; ids are split."""
    text = 'gpus = 1\n[gpu]\npci = "0008:01:00.0"\ndevice_id = 0x233010de\npcie_width = {}\n'
    text += "pcie_generation = {}\npcie_max_generation = 5\npcie_max_width = 16\n"
    for width, generation, known in ((8, 1, (2.5, 8)), (0, 9, (None, None))):
        (found,) = with_profile(text.format(width, generation)).look().topology.pci
        assert (found.address, found.vendor_id, found.device_id) == ("0008:01:00.0", 0x10DE, 0x2330)
        assert found.link is not None
        assert (found.link.speed_gt_per_s, found.link.width) == known
        assert (found.link.max_speed_gt_per_s, found.link.max_width) == (32.0, 16)
