"""The fake NVML's sensors and counters, against what a profile says, by a virtual clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hpckit.sampler.gpus import NvmlRefused
from hpckit.sampler.nvml_calls import NvmlCalls
from hpckit.sampler.nvml_counters import ALL_LINKS, NvmlFields
from tests.fakes.nvml_library import HEAD, PROFILES, build_fake_nvml
from tests.fakes.virtual_nvml import EPOCH_S, NS_PER_S, VirtualNvml, open_virtual

POWER_AVERAGE, POWER_INSTANT, ENERGY = 185, 186, 83
SQUARE = 'power_w = "square:100:600:1:0.5"\n'
SENSOR = "power_update_ms = {}\npower_window_ms = {}\n"
YEARS_S = 100_000_000

Open = Callable[[str], VirtualNvml]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake library and of `truth`."""
    return build_fake_nvml(tmp_path_factory.getbasetemp() / "fake-nvml")


@pytest.fixture
def opened(library: Path, tmp_path: Path) -> Iterator[Open]:
    """Opens a node of one GPU that has these keys."""
    with ExitStack() as stack:
        yield lambda keys: stack.enter_context(
            open_virtual(library, tmp_path, f"gpus = 1\n[gpu]\n{keys}")
        )


def readings(node: VirtualNvml, field: int, *moments_s: float) -> list[int | str]:
    """A field at each of these moments after the epoch."""
    found = []
    for moment in moments_s:
        node.set_s(moment)
        found.append(node.field(field))
    return found


def pynvml(node: VirtualNvml, code: str) -> object:
    """What Python prints as JSON that has this node as `nvml`, and its first GPU as `gpu`."""
    head = (
        "import json, pynvml as nvml\nnvml.nvmlInit()\ngpu = nvml.nvmlDeviceGetHandleByIndex(0)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", head + code],
        env={**os.environ, **node.environment},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    return json.loads(ran.stdout)


def test_every_call_takes_the_virtual_clock(opened: Open) -> None:
    """Power, energy and a field's time stamp are those of the moment in the clock's file."""
    node = opened('power_w = "0:0 1000:1000"\n')
    moment = node.set_s(500)
    fields = NvmlFields(node.gpu(), [(ENERGY, 0)])
    fields.read()
    assert node.gpu().number("nvmlDeviceGetPowerUsage") == 500_000
    assert node.gpu().energy_mj() == 125_000_000
    assert int.from_bytes(bytes(fields.buffer)[8:16], "little") == moment // 1000


@pytest.mark.parametrize("content", [None, b"short"])
def test_clock_that_is_no_clock(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    """A clock's file that is not there, or has no 8 bytes, is a refusal of nvmlInit."""
    clock = tmp_path / "clock"
    if content is not None:
        clock.write_bytes(content)
    monkeypatch.setenv("HPCKIT_FAKE_NVML", str(PROFILES / "dgx-h100.toml"))
    monkeypatch.setenv("HPCKIT_FAKE_NVML_CLOCK", str(clock))
    with pytest.raises(NvmlRefused, match="Unknown"):
        NvmlCalls(str(library / "libfake-nvml.so"))


@pytest.mark.parametrize(
    ("keys", "field", "at_s", "watts"),
    [
        # Without sensor keys power is of the moment, as average too.
        ("", POWER_INSTANT, 0.499, 600),
        ("", POWER_INSTANT, 0.5, 100),
        ("", POWER_AVERAGE, 0.5, 100),
        # Else it is the mean over the window that the last update ended.
        (SENSOR.format(100, 25), POWER_INSTANT, 0.51, 600),  # the window of 0.475 to 0.5
        (SENSOR.format(100, 25), POWER_INSTANT, 0.61, 100),
        (SENSOR.format(100, 100), POWER_INSTANT, 0.599, 600),
        (SENSOR.format(100, 1000), POWER_INSTANT, 0.7, 350),
        (SENSOR.format(20, 10), POWER_INSTANT, 0.519, 600),
        (SENSOR.format(20, 10), POWER_INSTANT, 0.52, 100),
        (SENSOR.format(30, 20), POWER_INSTANT, 0.519, 350),  # half of the window of 0.49 to 0.51
        # Updates are as many ms after the epoch as the phase says.
        ("power_update_ms = 100\nsensor_phase_ms = 30\n", POWER_INSTANT, 0.529, 600),
        ("power_update_ms = 100\nsensor_phase_ms = 30\n", POWER_INSTANT, 0.53, 100),
        # The average is over a second, or over what the profile says.
        (SENSOR.format(100, 25), POWER_AVERAGE, 9.8, 350),
        (SENSOR.format(100, 25) + "power_average_ms = 250\n", POWER_AVERAGE, 9.8, 100),
        # The power's gain, and a frozen power, to its end or for ever.
        ("power_gain = 0.5\nenergy_gain = 1.1\n", POWER_INSTANT, 0, 300),
        ('power_frozen_s = "0.25-1"\n', POWER_AVERAGE, 0.75, 600),
        ('power_frozen_s = "0.25-1"\n', POWER_INSTANT, 1.5, 100),
        ('power_frozen_s = "0.25-"\n', POWER_INSTANT, 9.75, 600),
    ],
)
def test_a_reading_of_power(opened: Open, keys: str, field: int, at_s: float, watts: int) -> None:
    """600 W in the first half of each second, and 100 W in the other."""
    assert readings(opened(SQUARE + keys), field, at_s) == [watts * 1000]


@pytest.mark.parametrize(("usage", "watts"), [("average", 350), ("instant", 100)])
def test_usage_is_one_or_the_other(opened: Open, usage: str, watts: int) -> None:
    """NvmlDeviceGetPowerUsage means what the key says."""
    node = opened(f'{SQUARE}power_update_ms = 100\npower_usage = "{usage}"\n')
    node.set_s(9.8)
    assert node.gpu().number("nvmlDeviceGetPowerUsage") == watts * 1000


def test_counter_may_add_up_the_windows_alone(opened: Open) -> None:
    """With energy_window what the sensor does not see is in no counter."""
    load = 'power_w = "square:100:600:0.1:0.5"\n'  # high where the sensor never looks
    node = opened(f"{load}power_update_ms = 100\npower_window_ms = 25\nenergy_window = true\n")
    first, last = readings(node, ENERGY, 100, 110)
    assert int(last) - int(first) == 1_000_000
    moment = EPOCH_S * NS_PER_S
    assert node.true_nj(moment + 100 * NS_PER_S, moment + 110 * NS_PER_S) == 3_500 * NS_PER_S


def test_counter_of_windows_agrees_where_they_see_everything(opened: Open) -> None:
    """With a window as long as the time between updates the sum of windows is the truth."""
    node = opened(
        'power_w = "0:72 10:72 12:655 30:690 31:420 33:680 50:690 52:75 60:72"\n'
        "power_update_ms = 100\npower_window_ms = 100\nenergy_window = true\n"
    )
    for span in ((0, 37), (YEARS_S, YEARS_S + 91)):
        first, last = readings(node, ENERGY, *span)
        truth = node.true_nj(*(node.set_s(moment) for moment in span))
        assert abs((int(last) - int(first)) * 1_000_000 - truth) <= 2_000_000


def test_windows_that_never_repeat_are_refused(opened: Open) -> None:
    """A period that no small number of updates fills is a wrong profile with energy_window."""
    with pytest.raises(NvmlRefused) as refused:
        opened('power_w = "0:1 1.000000007:2"\npower_update_ms = 100\nenergy_window = true\n')
    assert refused.value.reason == "Unknown"


@pytest.mark.parametrize(
    ("keys", "moments_s", "counted_j"),
    [
        # Between two updates the counter stands, and at each it is the true energy.
        (
            "energy_update_ms = 100\nsensor_phase_ms = 40\n",
            (0.139, 0.14, 0.239, 0.24),
            (4, 14, 14, 24),
        ),
        # At a reset it is 0 at once, and counts on; `every` repeats for ever.
        ('energy_reset_s = "12 40"\n', (11.5, 12, 13, 40.25), (1150, 0, 100, 25)),
        (
            'energy_update_ms = 100\nenergy_reset_s = "0.95"\n',
            (0.94, 0.96, 1.0),
            (90, 0, 5),
        ),
        (
            'energy_reset_s = "12 40 every:60"\n',
            (59, 61, 72.5, YEARS_S // 60 * 60 + 41),
            (1900, 2100, 50, 100),
        ),
        # A jump stays, downwards too, until a reset.
        ('energy_jump_j = "10:-500 20:+1000"\n', (9.5, 10, 20), (950, 500, 2500)),
        ('energy_jump_j = "5:-100"\nenergy_reset_s = "10"\n', (6, 11), (500, 100)),
        ("energy_wraps_mj = 1000000\n", (9.5, 10.5), (950, 50)),
        # A frozen counter stands, and then shows what it would have shown.
        ('energy_frozen_s = "10-20 every:60"\n', (10, 19.9, 20, 79), (1000, 1000, 2000, 7000)),
        # A counter's gain leaves the power as it is.
        ("power_gain = 0.95\nenergy_gain = 1.1\n", (10,), (1100,)),
    ],
)
def test_faults_of_a_counter(
    opened: Open, keys: str, moments_s: tuple[float, ...], counted_j: tuple[int, ...]
) -> None:
    """At 100 W a counter shows so many joules at each moment."""
    node = opened(f"power_w = 100\n{keys}")
    assert readings(node, ENERGY, *moments_s) == [1000 * joules for joules in counted_j]


def test_counter_of_a_moved_waveform_begins_at_zero(opened: Open) -> None:
    """A shape that is moved later still counts from the epoch on."""
    node = opened('power_w = "square:100:600:1:0.5:0.25"\n')
    assert readings(node, ENERGY, 0, 0.25, 0.5) == [0, 25_000, 175_000]


def test_gpu_is_lost_for_a_time(opened: Open) -> None:
    """Inside the span every call of the GPU is GpuIsLost, and its handle too."""
    node = opened('lost_s = "10-20"\n')
    gpu = node.gpu()
    node.set_s(15)
    for ask in (gpu.energy_mj, node.gpu, NvmlFields(gpu, [(ENERGY, 0)]).read):
        with pytest.raises(NvmlRefused, match="GpuIsLost"):
            ask()
    node.set_s(20)
    assert gpu.energy_mj() == 1_400_000


@pytest.mark.parametrize(
    ("field", "key"),
    [
        (74, "sw_power_cap"),
        (75, "sw_thermal"),
        (75, "hw_thermal"),
        (76, "sync_boost"),
        (77, "board_limit"),
        (269, "sw_thermal"),
        (270, "hw_thermal"),
        (271, "hw_power_brake"),
    ],
)
def test_throttling_counts_ns(opened: Open, field: int, key: str) -> None:
    """Each cause's field counts the ns for which its waveform held the clocks down."""
    node = opened(f'{key} = "square:0:0.5:10:0.2"\n')
    assert readings(node, field, 1, 15, YEARS_S) == [
        500_000_000,
        2 * NS_PER_S,
        YEARS_S // 10 * NS_PER_S,
    ]


@pytest.mark.parametrize("field", [74, 75, 76, 77, 138, 139, 197, 198, 202, 204, 269, 270, 271])
def test_what_no_waveform_says_is_not_supported(opened: Open, field: int) -> None:
    """A counter whose key is not written is NotSupported, not 0."""
    assert readings(opened(""), field, 10) == ["NotSupported"]


def test_causes_are_shown_as_bits(opened: Open) -> None:
    """What holds the clocks down at this moment is a bit of the clocks' event reasons."""
    node = opened(
        'clocks_event_reasons = 1\nsw_power_cap = "square:0:1:10:0.5"\n'
        'hw_thermal = "square:0:1:20:0.5"\nsw_thermal = 0\n'
    )
    code = "print(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))"
    found = []
    for moment in (1, 6, 11, 16):
        node.set_s(moment)
        found.append(pynvml(node, code))
    assert found == [0x4D, 0x49, 0x05, 0x01]


TRAFFIC = 'nvlinks = "4*switch"\nnvlink_tx_mb_per_s = 1024\nnvlink_rx_mb_per_s = 2048\n'


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        ("4.0", {138: 10_000_000, 139: 20_000_000, 202: "NotSupported", 204: "NotSupported"}),
        (
            "5.0",
            {138: "NotSupported", 139: "NotSupported", 202: 10_240_000_000, 204: 20_480_000_000},
        ),
    ],
)
def test_nvlink_traffic(opened: Open, version: str, fields: dict[int, int | str]) -> None:
    """Up to NVLink 4 traffic is in KiB of 138 and 139, from 5 on in bytes of 202 and 204."""
    node = opened(f'{TRAFFIC}nvlink_version = "{version}"\n')
    node.set_s(10)
    assert {field: node.field(field, ALL_LINKS) for field in fields} == fields


def test_active_links_share_the_traffic(opened: Open) -> None:
    """A link has its part of the whole, and a dead one none."""
    node = opened(f'{TRAFFIC}dead_nvlinks = "3"\n')
    node.set_s(9)
    assert [node.field(138, link) for link in range(5)] == [
        3_000_000,
        3_000_000,
        3_000_000,
        0,
        "InvalidArgument",
    ]


def test_pcie_traffic(opened: Open) -> None:
    """PCIe's counters are bytes, and wrap where the profile says."""
    node = opened("pcie_tx_mb_per_s = 10\npcie_rx_mb_per_s = 30\npcie_wraps_bytes = 250000000\n")
    assert readings(node, 197, 10) == [100_000_000]
    assert readings(node, 198, 10) == [50_000_000]


def test_waveforms_of_the_state(opened: Open) -> None:
    """Memory, utilization, temperature and clocks follow their waveforms."""
    node = opened(
        'memory_bytes = 1000\nmemory_used_bytes = "0:0 10:900"\nmemory_reserved_bytes = 50\n'
        'utilization_pct = "0:0 10:100"\nmemory_utilization_pct = "0:10 10:20"\n'
        'temperature_c = "0:30 10:80"\ngraphics_mhz = "0:1000 10:2000"\n'
        'memory_mhz = "0:100 10:1600"\nmax_graphics_mhz = 2100\n'
    )
    node.set_s(5)
    assert pynvml(
        node,
        "v2 = nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2)\n"
        "rates = nvml.nvmlDeviceGetUtilizationRates(gpu)\n"
        "print(json.dumps([nvml.nvmlDeviceGetMemoryInfo(gpu).used,\n"
        "    [v2.total, v2.reserved, v2.used, v2.free], rates.gpu, rates.memory,\n"
        "    nvml.nvmlDeviceGetTemperature(gpu, 0),\n"
        "    [nvml.nvmlDeviceGetClockInfo(gpu, kind) for kind in (1, 2)],\n"
        "    [nvml.nvmlDeviceGetMaxClockInfo(gpu, kind) for kind in (1, 2)]]))",
    ) == [500, [1000, 50, 450, 500], 50, 15, 55, [1500, 850], [2100, 1600]]


PIDS = "print(json.dumps([one.pid for one in nvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu)]))"


def test_processes_are_as_many_as_the_waveform_says(opened: Open) -> None:
    """Those that are named come first, and others have numbers that no process has."""
    node = opened('processes = "square:0:3:10:0.5"\nprocess_pids = "41 42"\n')
    node.set_s(1)
    assert pynvml(node, PIDS) == [41, 42, 4200002]
    node.set_s(6)
    assert pynvml(node, PIDS) == []


def test_processes_of_a_file(opened: Open, tmp_path: Path) -> None:
    """The file that names processes is read at each call."""
    named = tmp_path / "pids"
    node = opened(f'process_pids_file = "{named}"\n')
    assert pynvml(node, PIDS) == []
    named.write_text("7\n8 9\n")
    assert pynvml(node, PIDS) == [7, 8, 9]


def test_samples_are_those_of_the_updates(opened: Open) -> None:
    """The driver's ring has the readings of the last updates after the one seen last.

    Without power_samples the ring is NotSupported.
    """
    node = opened('power_w = "0:0 100:1000"\npower_update_ms = 100\npower_samples = 5\n')
    node.set_s(10.05)
    samples = pynvml(
        node,
        f"seen = {(EPOCH_S * 10 + 97) * 100_000}\n"
        "kind, found = nvml.nvmlDeviceGetSamples(gpu, nvml.NVML_TOTAL_POWER_SAMPLES, seen)\n"
        "print(json.dumps([[one.timeStamp, one.sampleValue.uiVal] for one in found]))",
    )
    assert samples == [[(EPOCH_S * 10 + tenth) * 100_000, tenth * 1000] for tenth in (98, 99, 100)]
    refused = (
        "try: nvml.nvmlDeviceGetSamples(gpu, 0, 0)\n"
        "except nvml.NVMLError_NotSupported: print('true')"
    )
    assert pynvml(opened(""), refused) is True


GPM = """
import os, struct
def sample(second):
    with open(os.environ["HPCKIT_FAKE_NVML_CLOCK"], "r+b") as clock:
        clock.write(struct.pack("<q", 1704067200 * 10**9 + second * 10**9))
    return nvml.nvmlGpmSampleGet(gpu, nvml.nvmlGpmSampleAlloc())
def metrics(*ids):
    get = nvml.c_nvmlGpmMetricsGet_t()
    get.version = nvml.NVML_GPM_METRICS_GET_VERSION
    get.numMetrics = len(ids)
    get.sample1, get.sample2 = sample(2), sample(8)
    for at, number in enumerate(ids):
        get.metrics[at].metricId = number
    nvml.nvmlGpmMetricsGet(get)
    return [one.value if not one.nvmlReturn else -one.nvmlReturn for one in get.metrics[:len(ids)]]
"""


def test_gpm_gives_means_between_two_samples(opened: Open) -> None:
    """A metric is its waveform's mean from the first sample to the second."""
    node = opened(
        'gpm = true\nsm_active_pct = "0:0 10:100"\ntensor_active_pct = "square:0:60:4:0.5"\n'
        "dram_active_pct = 12.5\nsm_occupancy_pct = 33\npcie_tx_mb_per_s = 1048.576\n"
    )
    found = pynvml(node, GPM + "print(json.dumps(metrics(2, 3, 5, 10, 20, 4)))")
    assert found == pytest.approx([50, 33, 20, 12.5, 1000, -3])


@pytest.mark.parametrize(("keys", "is_supported"), [("", 0), ("gpm = true\n", 1)])
def test_gpm_only_where_the_profile_has_it(opened: Open, keys: str, is_supported: int) -> None:
    """Without `gpm` the device does not support it, and a sample is NotSupported."""
    code = (
        "support = nvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice\n"
        "try: sample(1)\n"
        "except nvml.NVMLError_NotSupported: support -= 10\n"
        "print(support)"
    )
    assert pynvml(opened(keys), GPM + code) == (1 if is_supported else -10)


DEVICES = """
import ctypes, os, sys
library = ctypes.CDLL("libnvidia-ml.so.1")
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)  # root may open what its mode forbids
library.nvmlInit_v2()
count, handle, minor, index = ctypes.c_uint(), ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_uint()
library.nvmlDeviceGetCount_v2(ctypes.byref(count))
print(count.value)
for place in range(count.value):
    library.nvmlDeviceGetHandleByIndex_v2(place, ctypes.byref(handle))
    library.nvmlDeviceGetMinorNumber(handle, ctypes.byref(minor))
    library.nvmlDeviceGetIndex(handle, ctypes.byref(index))
    print(index.value, minor.value)
"""


def test_gpus_whose_device_is_forbidden_are_hidden(library: Path) -> None:
    """A GPU whose device file may not be opened is not counted, and one without a file is."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for minor, mode in ((0, 0o000), (1, 0o666), (2, 0o000)):
            (folder / f"nvidia{minor}").touch()
            (folder / f"nvidia{minor}").chmod(mode)
        path = folder / "profile.toml"
        path.write_text(f'{HEAD}gpus = 4\ndevice_files = "{folder}/nvidia"\n')
        ran = subprocess.run(
            [sys.executable, "-c", DEVICES],
            env={**os.environ, "LD_LIBRARY_PATH": str(library), "HPCKIT_FAKE_NVML": str(path)},
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=True,
        )
    assert ran.stdout.split() == ["2", "0", "1", "1", "3"]


@pytest.mark.parametrize(
    ("wave", "moment_s", "watts"),
    [
        ("0:10 5:10 5:90 10:90", 4.999, 10),
        ("0:10 5:10 5:90 10:90", 5, 90),
        ("square:10:90:4:0.25", 0.999, 90),
        ("square:10:90:4:0.25", 1, 10),
        ("square:10:90:4:0.25:0.5", 0.499, 10),
        ("square:10:90:4:0.25:0.5", 0.5, 90),
        ("sine:0:100:8", 2, 100),
        ("sine:0:100:8:2", 2, 50),
        ("7.25", 1e6, 7.25),
        (" ".join(f"{at}:{at}" for at in range(512)), 510.75, 510.75),
    ],
)
def test_shapes(opened: Open, wave: str, moment_s: float, watts: float) -> None:
    """Steps, squares and sines have the values that their texts say; 512 points are taken whole."""
    node = opened(f'power_w = "{wave}"\n')
    assert readings(node, POWER_INSTANT, moment_s) == [round(watts * 1000)]


def test_steps_are_the_same_for_a_seed(opened: Open) -> None:
    """The levels of `steps` lie between its bounds, differ, and are those of its seed."""
    node = opened('power_w = "steps:100:700:64:64:5"\n')
    levels = [int(level) for level in readings(node, POWER_INSTANT, *range(128))]
    assert levels[:64] == levels[64:]
    assert len(set(levels)) > 60
    assert 100_000 <= min(levels) < 200_000
    assert 600_000 < max(levels) <= 700_000


@pytest.mark.parametrize(
    "line",
    [
        'power_w = "square:100:600:1:1.5"',
        'power_w = "square:100:600:1"',
        'power_w = "triangle:1:2:3"',
        'power_w = "0:1 5:2 4:3"',
        'power_w = "0:1 0:2"',
        'power_w = "' + " ".join(f"{at}:{at}" for at in range(513)) + '"',
        'energy_reset_s = "40 12"',
        'energy_reset_s = "12 40 every:30"',
        'energy_frozen_s = "20-10"',
        'energy_jump_j = "12"',
        'power_usage = "both"',
        "power_gain = 11",
        "power_samples = 10001",
        "energy_window = true",
        "sw_thermal = 2",
        'process_pids = "12 a"',
    ],
)
def test_wrong_value(opened: Open, line: str) -> None:
    """A value that means nothing is a wrong profile."""
    with pytest.raises(NvmlRefused, match="Unknown"):
        opened(line + "\n")


@pytest.mark.parametrize(
    ("keys", "words", "joules"),
    [
        # Exact after years, and without faults.
        (f'{SQUARE}power_gain = 0.5\nenergy_reset_s = "5"\n', (), "3650.000000600"),
        ("pcie_tx_mb_per_s = 3\n", ("pcie_tx_mb_per_s",), "30.750000003"),
    ],
)
def test_truth_says_the_joules(
    library: Path, tmp_path: Path, keys: str, words: tuple[str, ...], joules: str
) -> None:
    """`truth` prints the joules of a GPU, or a key's integral, between two moments."""
    path = tmp_path / "truth.toml"
    path.write_text(f"{HEAD}gpus = 1\n[gpu]\n{keys}")
    start = (EPOCH_S + YEARS_S) * NS_PER_S
    argv = [str(library / "truth"), str(path), "0", str(start), str(start + 10_250_000_001), *words]
    assert subprocess.run(argv, capture_output=True, check=True).stdout.decode() == f"{joules}\n"


@pytest.mark.parametrize(
    "name", ["a100-sensor", "h100-sensor", "dgx-h100-busy", "dgx-h100-troubled"]
)
def test_profiles_of_sensors_count_the_truth(library: Path, tmp_path: Path, name: str) -> None:
    """Over a whole hour every GPU's counter is the truth, but for an update at each end."""
    with VirtualNvml(library, PROFILES / f"{name}.toml", tmp_path / "clock") as node:
        for index in range(node.nvml.count()):
            begin = node.set_s(YEARS_S)
            first = node.gpu(index).energy_mj()
            end = node.set_s(YEARS_S + 3600)
            counted_j = (node.gpu(index).energy_mj() - first) / 1000
            assert counted_j == pytest.approx(node.true_nj(begin, end, index) / NS_PER_S, abs=100)
