"""AMD GPUs from a synthetic /sys, shaped as amdgpu's documentation says."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hpckit.account.sample_format import GPU_COLUMNS, GPU_RECORD, MISSING
from hpckit.sampler.amd import AmdCounters, amd_devices, shown_amd

FILES = {
    "vendor": "0x1002",
    "unique_id": "18cef97ba6a4de0b",
    "product_name": "AMD Instinct MI250X",
    "gpu_busy_percent": "93",
    "mem_busy_percent": "40",
    "mem_info_vram_used": str(3 * 2**20),
    "mem_info_vram_total": str(64 * 2**30),
    "hwmon/hwmon3/power1_average": "450000000",
    "hwmon/hwmon3/power1_cap": "560000000",
    "hwmon/hwmon3/temp1_input": "61000",
    "hwmon/hwmon3/freq1_input": "1700000000",
    "hwmon/hwmon3/freq2_input": "1600000000",
}


def gpu(root: Path, card: int, address: str, **changed: str) -> None:
    """A card's device folder, a link as in sysfs."""
    device = root / "sys/devices/pci0000:00" / address
    for name, text in {**FILES, **changed}.items():
        path = device / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    folder = root / f"sys/class/drm/card{card}"
    folder.mkdir(parents=True)
    (folder / "device").symlink_to(device)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node with one GPU."""
    gpu(tmp_path, 1, "0000:c1:00.0")
    return tmp_path


def row_of(root: Path) -> dict[str, int | None]:
    """The first GPU's columns, None where they are not measured."""
    counters = AmdCounters(list(enumerate(amd_devices(str(root)))))
    buffer = bytearray(GPU_RECORD.size * 4)
    counters.read_into(buffer, 0, time.monotonic_ns())
    sizes = {"I": 4, "B": 1, "Q": 8, "H": 2}
    return {
        column.name: None if value == MISSING[sizes[column.code]] else value
        for column, value in zip(GPU_COLUMNS, GPU_RECORD.unpack_from(buffer), strict=True)
    }


def test_gauges(root: Path) -> None:
    """Each file is converted to its column's unit."""
    row = row_of(root)
    expected = {
        "util_pct": 93,
        "mem_util_pct": 40,
        "temp_c": 61,
        "power_mw": 450_000,
        "mem_used_mib": 3,
        "sm_mhz": 1700,
        "mem_mhz": 1600,
    }
    assert {name: row[name] for name in expected} == expected


def test_no_counter_is_not_zero(root: Path) -> None:
    """Most kernels have no energy1_input: the column is missing, and META says why."""
    assert row_of(root)["energy_mj"] is None
    described = AmdCounters([(0, amd_devices(str(root))[0])]).describe()[0]
    assert described["energy"] is None
    assert "energy1_input" in described["refused"]["energy_mj"]


def test_energy_where_the_kernel_has_it(tmp_path: Path) -> None:
    """energy1_input is in µJ."""
    gpu(tmp_path, 0, "0000:c1:00.0", **{"hwmon/hwmon3/energy1_input": "15300000"})
    assert row_of(tmp_path)["energy_mj"] == 15300


def test_odd_half_of_an_mi250x_has_no_power(tmp_path: Path) -> None:
    """The second die of a package has no power of its own, which is not 0 W."""
    gpu(tmp_path, 0, "0000:c6:00.0")
    (tmp_path / "sys/devices/pci0000:00/0000:c6:00.0/hwmon/hwmon3/power1_average").unlink()
    assert row_of(tmp_path)["power_mw"] is None
    assert AmdCounters([(0, amd_devices(str(tmp_path))[0])]).describe()[0]["power"] is None


def test_meta_of_a_gpu(root: Path) -> None:
    """META names the GPU, its address and its limits."""
    described = AmdCounters([(0, amd_devices(str(root))[0])]).describe()[0]
    expected = {
        "uuid": "GPU-18cef97ba6a4de0b",
        "name": "AMD Instinct MI250X",
        "pci": "0000:c1:00.0",
        "vendor": "amd",
        "power": "average",
        "power_limit_w": 560,
        "memory_bytes": 64 * 2**30,
    }
    assert {name: described[name] for name in expected} == expected


def test_gpus_are_in_the_order_of_their_addresses(tmp_path: Path) -> None:
    """As ROCm counts them, whatever the cards' numbers; other vendors are left out."""
    gpu(tmp_path, 0, "0000:c6:00.0", unique_id="b")
    gpu(tmp_path, 1, "0000:c1:00.0", unique_id="a")
    gpu(tmp_path, 2, "0000:01:00.0", vendor="0x1a03")
    shown = shown_amd(amd_devices(str(tmp_path)))
    assert [one.uuid for one in shown] == ["GPU-a", "GPU-b"]
