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
from hpckit.sampler.nvml_counters import NvmlFields
from tests.fakes.nvml_library import HEAD, PROFILES
from tests.fakes.virtual_nvml import EPOCH_S, NS_PER_S, VirtualNvml, open_virtual

POWER_AVERAGE, POWER_INSTANT, ENERGY = 185, 186, 83
SQUARE = 'power_w = "square:100:600:1:0.5"\n'
SENSOR = "power_update_ms = {}\npower_window_ms = {}\n"
YEARS_S = 100_000_000
LATE_S = YEARS_S // 60 * 60
UPDATE = "power_update_ms = 100\n"

Open = Callable[[str], VirtualNvml]


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


@pytest.mark.parametrize(
    ("keys", "field", "moments_s", "watts"),
    [
        # Without sensor keys power is of the moment, as average too.
        ("", POWER_INSTANT, (0.499, 0.5), (600, 100)),
        ("", POWER_AVERAGE, (0.5,), (100,)),
        # Else it is the mean over the window that the last update ended.
        (SENSOR.format(100, 25), POWER_INSTANT, (0.51, 0.61), (600, 100)),
        (SENSOR.format(100, 1000), POWER_INSTANT, (0.7,), (350,)),
        (SENSOR.format(30, 20), POWER_INSTANT, (0.519,), (350,)),
        (f"{UPDATE}sensor_phase_ms = 30\n", POWER_INSTANT, (0.529, 0.53), (600, 100)),
        # The average is over a second, or over what the profile says.
        (SENSOR.format(100, 25), POWER_AVERAGE, (9.8,), (350,)),
        (f"{UPDATE}power_average_ms = 250\n", POWER_AVERAGE, (9.8,), (100,)),
        # The power's gain, and a frozen power, to its end or for ever.
        ("power_gain = 0.5\nenergy_gain = 1.1\n", POWER_INSTANT, (0,), (300,)),
        ('power_frozen_s = "0.25-1"\n', POWER_INSTANT, (0.75, 1.5), (600, 100)),
        ('power_frozen_s = "0.25-"\n', POWER_INSTANT, (9.75,), (600,)),
    ],
)
def test_a_reading_of_power(
    opened: Open, keys: str, field: int, moments_s: tuple[float, ...], watts: tuple[int, ...]
) -> None:
    """600 W in the first half of each second, and 100 W in the other."""
    assert readings(opened(SQUARE + keys), field, *moments_s) == [1000 * one for one in watts]


@pytest.mark.parametrize(
    ("wave", "moments_s", "watts"),
    [
        ("0:10 5:10 5:90 10:90", (4.999, 5), (10, 90)),
        ("square:10:90:4:0.25:0.5", (0.499, 0.5), (10, 90)),
        ("sine:0:100:8:2", (2, 4), (50, 100)),
        (" ".join(f"{at}:{at}" for at in range(512)), (510.75,), (510.75,)),
    ],
)
def test_shapes(
    opened: Open, wave: str, moments_s: tuple[float, ...], watts: tuple[float, ...]
) -> None:
    """Steps, squares and sines have the values that their texts say; 512 points are taken whole."""
    node = opened(f'power_w = "{wave}"\n')
    assert readings(node, POWER_INSTANT, *moments_s) == [round(1000 * one) for one in watts]


@pytest.mark.parametrize(
    ("keys", "moments_s", "counted_j"),
    [
        # Between two updates the counter stands, and at each it is the true energy.
        ("energy_update_ms = 100\nsensor_phase_ms = 40\n", (0.139, 0.14, 0.239), (4, 14, 14)),
        # At a reset it is 0 at once, and counts on; `every` repeats for ever.
        ('energy_reset_s = "12 40"\n', (11.5, 12, 13, 40.25), (1150, 0, 100, 25)),
        ('energy_reset_s = "12 40 every:60"\n', (61, 72.5, LATE_S + 41), (2100, 50, 100)),
        # A jump stays, downwards too, until a reset.
        ('energy_jump_j = "10:-500 20:+1000"\n', (9.5, 10, 20), (950, 500, 2500)),
        ('energy_jump_j = "5:-100"\nenergy_reset_s = "10"\n', (6, 11), (500, 100)),
        ("energy_wraps_mj = 1000000\n", (9.5, 10.5), (950, 50)),
        # A frozen counter stands, and then shows what it would have shown.
        ('energy_frozen_s = "10-20 every:60"\n', (19.9, 20, 79), (1000, 2000, 7000)),
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
        *((74, "sw_power_cap"), (75, "sw_thermal"), (75, "hw_thermal"), (76, "sync_boost")),
        *((77, "board_limit"), (269, "sw_thermal"), (270, "hw_thermal"), (271, "hw_power_brake")),
    ],
)
def test_throttling_counts_ns(opened: Open, field: int, key: str) -> None:
    """Each cause's field counts the ns for which its waveform held the clocks down."""
    node = opened(f'{key} = "square:0:0.5:10:0.2"\n')
    in_years = YEARS_S // 10 * NS_PER_S
    assert readings(node, field, 1, 15, YEARS_S) == [500_000_000, 2 * NS_PER_S, in_years]


def test_what_no_waveform_says_is_not_supported(opened: Open) -> None:
    """A counter whose key is not written is NotSupported, not 0."""
    node = opened("")
    fields = (74, 75, 76, 77, 138, 139, 197, 198, 202, 204, 269, 270, 271)
    assert {node.field(field) for field in fields} == {"NotSupported"}


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
        'power_w = "triangle:1:2:3"',
        'power_w = "0:1 5:2 4:3"',
        'power_w = "' + " ".join(f"{at}:{at}" for at in range(513)) + '"',
        'energy_reset_s = "40 12"',
        'energy_frozen_s = "20-10"',
        'power_usage = "both"',
        "power_samples = 10001",
        "energy_window = true",
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
