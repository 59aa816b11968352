"""NVIDIA's figures through the fake library, at a time that the test sets."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from struct import calcsize
from typing import Any

import pynvml
import pytest

from hpckit.account.sample_format import GPU_COLUMNS, GPU_RECORD, MISSING
from hpckit.sampler.gpus import openable, visible_places
from hpckit.sampler.guard import Beat
from hpckit.sampler.nvml import GET_BYTES, NvmlSlow
from hpckit.sampler.nvml_calls import NvmlCalls, parent_in, shown_gpus
from hpckit.sampler.nvml_counters import NvmlCounters, Unwrapped
from tests.fakes.virtual_nvml import VirtualNvml, open_virtual

Row = dict[str, int | None]
Machine = Callable[[str], VirtualNvml]

BUSY = """
gpus = 2
driver_version = "570.1"
[gpu]
name = "NVIDIA H100 80GB HBM3"
memory_bytes = 85899345920
memory_reserved_bytes = 1048576
memory_used_bytes = 2097152
nvlink_version = "4.0"
nvlink_mb_per_s = 26562
nvlinks = "18*switch"
gpm = true
power_w = 500
utilization_pct = 80
memory_utilization_pct = 30
sm_active_pct = 70
tensor_active_pct = 12.5
dram_active_pct = 25
temperature_c = 60
graphics_mhz = 1500
sw_power_cap = 0.5
sw_thermal = 0
hw_thermal = 0.25
hw_power_brake = 0
nvlink_tx_mb_per_s = 1024
nvlink_rx_mb_per_s = 2048
pcie_tx_mb_per_s = 100
pcie_rx_mb_per_s = 50
processes = 2
"""
NO_FIELDS = BUSY + 'error.nvmlDeviceGetFieldValues = "NotSupported"\n'
LOST = BUSY + '[gpu.0]\nlost_s = "0-"\n'


@pytest.fixture
def machine(library: Path, tmp_path: Path) -> Iterator[Machine]:
    """Opens machines of a profile, closed at the test's end."""
    with ExitStack() as stack:
        yield lambda text: stack.enter_context(open_virtual(library, tmp_path, text))


def rows_of(counters: NvmlCounters) -> list[Row]:
    """One reading: each GPU's columns by name, None where it is not measured."""
    buffer = bytearray(GPU_RECORD.size * 8)
    end = counters.read_into(buffer, 0, time.monotonic_ns() - 10**9)
    missing = [MISSING[calcsize(f"<{column.code}")] for column in GPU_COLUMNS]
    return [
        {
            column.name: None if value == hole else value
            for column, hole, value in zip(GPU_COLUMNS, missing, values, strict=True)
        }
        for values in GPU_RECORD.iter_unpack(buffer[:end])
    ]


def counters_of(nvml: NvmlCalls, hz: float = 1.0) -> NvmlCounters:
    """All GPUs of the machine."""
    return NvmlCounters(nvml, range(nvml.count()), hz, Beat())


class Older(NvmlCalls):
    """A library that lacks some functions."""

    def __init__(self, name: str, lacks: tuple[str, ...]) -> None:
        self._lacks = lacks
        super().__init__(name)

    def function(self, *names: str) -> Any:
        """The first that there is, or FunctionNotFound."""
        return super().function(*(name for name in names if name not in self._lacks))


def older(library: Path, *lacks: str) -> NvmlCalls:
    """The opened machine's library without these functions."""
    found = Older(str(library / "libfake-nvml.so"), lacks)
    found.call("nvmlShutdown")  # the machine has it open
    return found


def difference(machine: VirtualNvml, counters: NvmlCounters, name: str, seconds: float) -> int:
    """What a counter of the first GPU gains in so many seconds."""
    machine.set_s(100)
    before = rows_of(counters)[0][name]
    machine.set_s(100 + seconds)
    after = rows_of(counters)[0][name]
    assert before is not None
    assert after is not None
    return after - before


def test_gauges_of_a_busy_gpu(machine: Machine) -> None:
    """Each gauge has the profile's number."""
    row = rows_of(counters_of(machine(BUSY).nvml))[0]
    expected = {
        "gpu": 0,
        "util_pct": 80,
        "mem_util_pct": 30,
        "temp_c": 60,
        "power_mw": 500_000,
        "mem_used_mib": 2,
        "sm_mhz": 1500,
        "processes": 2,
    }
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("column", "gain"),
    [
        ("energy_mj", 5_000_000),
        ("sw_power_cap_ms", 5000),
        ("sw_thermal_ms", 0),
        ("hw_thermal_ms", 2500),
        ("hw_power_brake_ms", 0),
        ("nvlink_tx_mib", 9765),
        ("nvlink_rx_mib", 19531),
        ("pcie_tx_mib", 953),
        ("pcie_rx_mib", 476),
    ],
)
@pytest.mark.parametrize("nvlink", ["4.0", "5.0"])
def test_counters_of_a_busy_gpu(machine: Machine, nvlink: str, column: str, gain: int) -> None:
    """In ten seconds each counter gains what the profile's rate says, in its unit.

    Blackwell's fields of NVLink are others, and in bytes.
    """
    node = machine(BUSY.replace("4.0", nvlink))
    assert difference(node, counters_of(node.nvml), column, 10) == pytest.approx(gain, abs=1)


def test_profile_is_the_mean_between_two_readings(machine: Machine) -> None:
    """GPM has no value at first, then hundredths of a percent."""
    node = machine(BUSY)
    counters = counters_of(node.nvml)
    first = rows_of(counters)[0]
    assert first["sm_active_pct100"] is None
    time.sleep(0.15)
    node.set_s(1)
    row = rows_of(counters)[0]
    names = ("sm_active_pct100", "tensor_active_pct100", "dram_active_pct100")
    assert [row[name] for name in names] == [7000, 1250, 2500]


def test_what_a_gpu_lacks_is_not_measured(machine: Machine) -> None:
    """A column without an answer is missing, never 0, with NVML's reason in META."""
    text = (
        BUSY
        + 'error.field83 = "NotSupported"\nerror.nvmlDeviceGetTemperature = "NoPermission"\n'
        + 'error.nvmlDeviceGetTotalEnergyConsumption = "NotSupported"\n'
    )
    counters = counters_of(machine(text).nvml)
    row, described = rows_of(counters)[0], counters.describe()[0]
    assert (row["energy_mj"], row["temp_c"]) == (None, None)
    assert described["energy"] is None
    assert described["refused"]["energy_mj"] == "NotSupported"
    assert described["refused"]["temp_c"] == "NoPermission"


def test_a_gpu_without_any_field_has_a_record(machine: Machine) -> None:
    """What calls of their own tell is measured, the rest is missing with the reason."""
    node = machine(NO_FIELDS)
    counters = counters_of(node.nvml)
    row, described = rows_of(counters)[0], counters.describe()[0]
    assert (row["power_mw"], row["util_pct"], row["nvlink_tx_mib"]) == (500_000, 80, None)
    assert (described["energy"], described["power"]) == ("counter", "usage")
    assert described["refused"]["pcie_rx_mib"] == "NotSupported"
    assert difference(node, counters, "energy_mj", 10) == pytest.approx(5_000_000, abs=1)


NO_CAUSES = BUSY.replace("sw_thermal = 0", "sw_thermal = 0.125") + (
    'error.field269 = "NotSupported"\nerror.field270 = "NotSupported"\n'
)


def test_older_drivers_have_one_counter_of_heat(machine: Machine) -> None:
    """Field 75 counts what software and hardware slow down, and META says that it is both."""
    node = machine(NO_CAUSES)
    counters = counters_of(node.nvml)
    assert difference(node, counters, "sw_thermal_ms", 10) == pytest.approx(3750, abs=1)
    assert rows_of(counters)[0]["hw_thermal_ms"] is None
    refused = counters.describe()[0]["refused"]
    assert "sw_thermal_ms" in refused["hw_thermal_ms"]
    assert "sw_thermal_ms" not in refused


def test_older_drivers_list_processes(machine: Machine, library: Path) -> None:
    """In the first version's memory in use is what the driver reserves."""
    machine(BUSY.replace("processes = 2", 'process_pids = "100 101 102"'))
    lacks = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMemoryInfo_v2")
    counters = counters_of(older(library, *lacks))
    row = rows_of(counters)[0]
    assert (row["processes"], row["mem_used_mib"]) == (3, 3)
    assert counters.describe()[0]["memory_bytes"] == 85899345920
    assert counters.events()[0]["pids"] == [100, 101, 102]


def test_meta_of_a_gpu(machine: Machine) -> None:
    """META names the GPU as the driver does."""
    gpu = counters_of(machine(BUSY + '[gpu.1]\npci = "0000:3a:00.0"\n').nvml).describe()[1]
    expected = {
        "index": 1,
        "pci": "0000:3a:00.0",
        "vendor": "nvidia",
        "memory_bytes": 85899345920,
        "power_limit_w": 700,
        "energy": "counter",
        "scope": "gpu",
        "mig": False,
    }
    assert gpu | expected == gpu


@pytest.mark.parametrize(
    ("hz", "more", "key", "value"),
    [
        (1.0, "", "power", "average"),
        (9.9, "", "power", "average"),
        (10.0, "", "power", "instant"),
        # Without the fields nvmlDeviceGetPowerUsage is taken.
        (1.0, 'error.field185 = "NotSupported"\n', "power", "usage"),
        (1.0, 'error.field83 = "NotSupported"\n', "energy", "counter"),
        # The counters of a GH200 are those of the module.
        (1.0, 'name = "NVIDIA GH200 480GB"\n', "scope", "module"),
    ],
)
def test_what_is_measured(machine: Machine, hz: float, more: str, key: str, value: str) -> None:
    """Below 10 Hz power is the mean of a second; what stands in for a field has its name."""
    text = BUSY.replace('name = "NVIDIA H100 80GB HBM3"\n', "") if "name" in more else BUSY
    node = machine(text + more)
    counters = counters_of(node.nvml, hz)
    meta = counters.describe()[0]
    assert (meta[key], meta["refused"]) == (value, {})
    assert rows_of(counters)[0]["power_mw"] == 500_000
    assert difference(node, counters, "energy_mj", 10) == pytest.approx(5_000_000, abs=1)


@pytest.mark.parametrize("text", [BUSY, NO_FIELDS])
def test_lost_gpu_is_left_out(machine: Machine, text: str) -> None:
    """Of a GPU that falls off the bus one event tells, and the other goes on."""
    node = machine(text + '[gpu.0]\nlost_s = "50-"\n')
    counters = counters_of(node.nvml)
    counters.events()
    node.set_s(60)
    assert [row["gpu"] for row in rows_of(counters)] == [1]
    lost = [event for event in counters.events() if event["event"] == "gpu-lost"]
    assert lost == [{"event": "gpu-lost", "gpu": 0, "why": "GpuIsLost"}]
    assert [row["gpu"] for row in rows_of(counters)] == [1]


def test_processes_are_told_when_they_change(machine: Machine, tmp_path: Path) -> None:
    """Numbers of processes are an event once, and again when they are others."""
    pids = tmp_path / "pids"
    pids.write_text("100 101")
    node = machine(BUSY.replace("processes = 2", f'process_pids_file = "{pids}"'))
    counters = counters_of(node.nvml)
    assert counters.events()[0] == {"event": "processes", "gpu": 0, "pids": [100, 101]}
    assert counters.events() == []
    pids.write_text("")
    time.sleep(1.05)
    rows_of(counters)
    assert counters.events()[0]["pids"] == []


def test_more_processes_than_there_is_room_for(machine: Machine) -> None:
    """Whenever they are too many to be listed their number says so, and it is not refused."""
    node = machine(BUSY.replace("processes = 2", "processes = 200"))
    refused: dict[str, str] = {}
    slow = NvmlSlow(node.gpu(), refused)
    for seconds in (2, 4):
        slow.refresh(time.monotonic_ns() + seconds * 10**9)
        assert (slow.processes, "processes" in refused) == (254, False)


def test_slow_figures_are_asked_ten_times_a_second_at_most(machine: Machine) -> None:
    """Within 100 ms the last answer stands, while counters go on."""
    node = machine(BUSY.replace("utilization_pct = 80", 'utilization_pct = "0:0 100:100 100:0"'))

    def two() -> tuple[float, Any, Any]:
        node.set_s(0)
        counters = counters_of(node.nvml)
        begun = time.monotonic()
        first = rows_of(counters)[0]
        node.set_s(50)
        return time.monotonic() - begun, first, rows_of(counters)[0]

    # A busy machine may take longer than 100 ms from one to the next: the quickest pair counts.
    _, first, second = min((two() for _ in range(20)), key=lambda pair: pair[0])
    assert second["util_pct"] == first["util_pct"]
    assert second["energy_mj"] != first["energy_mj"]


def test_the_temperature_is_asked_once_a_second(machine: Machine) -> None:
    """Utilization is asked ten times a second; of temperature the last answer stands longer."""
    hot = BUSY.replace("utilization_pct = 80", 'utilization_pct = "0:0 100:100"')
    node = machine(hot.replace("temperature_c = 60", 'temperature_c = "0:60 100:80"'))
    node.set_s(0)
    slow = NvmlSlow(node.gpu(), {})
    begun_ns = time.monotonic_ns()
    node.set_s(50)
    slow.refresh(begun_ns + 500_000_000)
    assert (slow.gauges[0], slow.gauges[2]) == (50, 60)
    slow.refresh(begun_ns + 1_500_000_000)
    assert slow.gauges[2] == 70


def test_a_lost_gpu_is_shown_at_its_place(machine: Machine, tmp_path: Path) -> None:
    """It has no name, and counts among those that open.

    Where all files are those of GPUs that answer, the control group hides it: it is another job's.
    """
    nvml = machine(LOST).nvml
    assert "synthetic" in nvml.driver_version()
    for is_ours in (True, False):
        shown = shown_gpus(nvml, dev=str(tmp_path))
        assert [(gpu.uuid == "", gpu.opens) for gpu in shown] == [(True, is_ours), (False, True)]
        (tmp_path / "nvidia1").touch()
    assert [gpu["index"] for gpu in counters_of(nvml).describe()] == [1]


def test_a_gpu_of_another_job_is_not_counted(machine: Machine, tmp_path: Path) -> None:
    """What may not be opened has no place: CUDA counts without it."""
    text = BUSY + '[gpu.0]\nerror.nvmlDeviceGetHandleByIndex = "NoPermission"\n'
    shown = shown_gpus(machine(text).nvml, dev=str(tmp_path))
    assert [(gpu.place, gpu.minor) for gpu in openable(shown)] == [(1, 1)]


def test_mig_device_has_a_gpu(machine: Machine) -> None:
    """A MIG device's uuid leads to that of its GPU, the old form without asking."""
    text = BUSY + '[gpu.1]\nmig = true\nmig_devices = "3g.40gb 1g.10gb"\nuuid = "GPU-split"\n'
    nvml = machine(text).nvml
    parent_of = parent_in(nvml)
    assert visible_places("MIG-GPU-abc/3/0", ["GPU-abc"], parent_of) == [0]
    # The environment may have a byte that is no UTF-8.
    assert parent_of("MIG-no-such") is parent_of("MIG-\udcff") is None
    assert counters_of(nvml).describe()[1]["mig"] is True


def test_counter_of_32_bits_goes_on() -> None:
    """A counter of bytes that begins anew at 2³² is followed; one of 64 bits was reset."""
    for counts, told in (
        ((2**32 - 2**20, 2**20, 2**21), [4095, 4097, 4098]),
        ((2**33, 2**20), [8192, 1]),
    ):
        counter = Unwrapped()
        assert [counter.mib(count) for count in counts] == told


def test_the_buffer_of_gpm_holds_the_whole_structure() -> None:
    """It has room for nvmlGpmMetricsGet_t as nvidia-ml-py declares it, however few are asked."""
    assert ctypes.sizeof(pynvml.c_nvmlGpmMetricsGet_t) <= GET_BYTES
