"""AMD's GPUs from a synthetic /sys, shaped as amdgpu's documentation says."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from hpckit.account.sample_format import GPU_COLUMNS, GPU_RECORD, MISSING
from hpckit.injob.ledger import find_gpus
from hpckit.sampler.amd import AmdCounters
from hpckit.sampler.gpus import NvmlRefused, amd_devices, amd_gpus

HWMON = "hwmon/hwmon3"
FILES = {
    "vendor": "0x1002",
    "unique_id": "beef",
    "product_name": "AMD Instinct MI250X",
    "gpu_busy_percent": "93",
    "mem_busy_percent": "40",
    "mem_info_vram_used": str(3 * 2**20),
    "mem_info_vram_total": str(64 * 2**30),
    f"{HWMON}/power1_average": "450000000",
    f"{HWMON}/power1_cap": "560000000",
    f"{HWMON}/temp1_input": "61000",
    f"{HWMON}/freq1_input": "1700000000",
    f"{HWMON}/freq2_input": "1600000000",
}
NO_LIBRARY = "libhpckit-has-no-such.so.1"


def gpu(root: Path, card: int, address: str, **changed: str | None) -> None:
    """A card's device folder, a link as in sysfs; None leaves a file out."""
    device = root / "devices" / address
    for name, text in {**FILES, **changed}.items():
        if text is not None:
            (device / name).parent.mkdir(parents=True, exist_ok=True)
            (device / name).write_text(f"{text}\n")
    folder = root / "drm" / f"card{card}"
    folder.mkdir(parents=True)
    (folder / "device").symlink_to(device)
    (root / "kfd").mkdir(exist_ok=True)


def described(root: Path) -> tuple[dict[str, int | None], dict[str, Any]]:
    """The first GPU's columns, None where they are not measured, and what META says of it."""
    counters = AmdCounters(list(enumerate(amd_devices(f"{root}/drm"))))
    buffer = bytearray(GPU_RECORD.size * 4)
    counters.read_into(buffer, 0, time.monotonic_ns())
    sizes = {"I": 4, "B": 1, "Q": 8, "H": 2}
    row = {
        column.name: None if value == MISSING[sizes[column.code]] else value
        for column, value in zip(GPU_COLUMNS, GPU_RECORD.unpack_from(buffer), strict=True)
    }
    return row, counters.describe()[0]


def test_a_gpus_figures(tmp_path: Path) -> None:
    """Each file is converted to its column's unit, and META names the GPU and its limits."""
    gpu(tmp_path, 1, "0000:c1:00.0")
    row, meta = described(tmp_path)
    figures = {"util_pct": 93, "mem_util_pct": 40, "temp_c": 61, "power_mw": 450_000}
    assert row | figures | {"mem_used_mib": 3, "sm_mhz": 1700, "mem_mhz": 1600} == row
    names = {"uuid": "GPU-beef", "name": "AMD Instinct MI250X", "pci": "0000:c1:00.0"}
    limits = {"vendor": "amd", "power": "average", "power_limit_w": 560, "memory_bytes": 64 * 2**30}
    assert meta | names | limits == meta


@pytest.mark.parametrize(
    ("files", "column", "value"),
    [
        ({}, "energy_mj", None),
        ({f"{HWMON}/energy1_input": "15300000"}, "energy_mj", 15300),
        # The second die of an MI250X has no power of its own, which is not 0 W.
        ({f"{HWMON}/power1_average": None}, "power_mw", None),
    ],
)
def test_what_a_kernel_does_not_tell_is_missing(
    tmp_path: Path, files: dict[str, str | None], column: str, value: int | None
) -> None:
    """Most have no energy1_input: the column is missing, never 0, and META says why."""
    gpu(tmp_path, 0, "0000:c1:00.0", **files)
    row, meta = described(tmp_path)
    assert row[column] == value
    assert (meta[column.partition("_")[0]] is None) == (value is None)
    assert (column in meta["refused"]) == (value is None)


@pytest.fixture
def drm(tmp_path: Path) -> Path:
    """/sys/class/drm of two GPUs of AMD, the one at the lower address second, and a display."""
    gpu(tmp_path, 0, "0000:c1:00.0", unique_id="f00d")
    gpu(tmp_path, 1, "0000:41:00.0", **{f"{HWMON}/energy1_input": "1234567"})
    gpu(tmp_path, 2, "0000:01:00.0", vendor="0x102b")
    (tmp_path / "drm" / "card0-DP-1").mkdir()
    return tmp_path / "drm"


def test_gpus_are_in_the_order_of_their_addresses(drm: Path) -> None:
    """As ROCm counts them, with those that have no counter; a card of another maker is none."""
    first, second = amd_gpus(str(drm))
    assert (first.uuid, first.energy_mj(), second.uuid) == ("GPU-beef", 1234, "GPU-f00d")
    with pytest.raises(ValueError, match="no energy1_input"):
        second.energy_mj()
    (drm / "card1" / "device" / "unique_id").unlink()
    assert amd_gpus(str(drm))[0].uuid == "GPU-0000:41:00.0"


OPENED = """
import encodings.ascii, os, sys  # a codec is loaded when it is first wanted, and may be root's
from hpckit.sampler.gpus import amd_gpus
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)  # root may open what its mode forbids
for gpu in amd_gpus(f"{sys.argv[1]}/drm", sys.argv[1]):
    print(gpu.uuid)
"""


def test_gpus_of_other_jobs_are_not_counted() -> None:
    """ROCm numbers from 0 those whose device files this process may open."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "dri").mkdir()
        for card, mode in ((0, 0o666), (1, 0o000), (2, 0o666)):
            gpu(folder, card, f"0000:{card}1:00.0", unique_id=str(card))
            render = f"renderD{128 + card}"
            (folder / "drm" / f"card{card}" / "device" / "drm" / render).mkdir(parents=True)
            (folder / "dri" / render).touch()
            (folder / "dri" / render).chmod(mode)
        done = subprocess.run(
            [sys.executable, "-c", OPENED, name], capture_output=True, check=True, timeout=60
        )
    assert done.stdout.split() == [b"GPU-0", b"GPU-2"]


def test_a_card_for_a_screen_is_none(drm: Path, tmp_path: Path) -> None:
    """Without /sys/class/kfd nothing can compute on it; and no folder is no GPU."""
    (tmp_path / "kfd").rmdir()
    assert amd_gpus(str(drm)) == amd_gpus(str(tmp_path / "none")) == []


def test_amds_gpus_are_found_where_nvml_is_not(drm: Path, tmp_path: Path) -> None:
    """With neither, the reason is that NVML's library is not there."""
    gpus, _ = find_gpus(NO_LIBRARY, str(drm))
    assert [gpu.uuid for gpu in gpus] == ["GPU-beef", "GPU-f00d"]
    with pytest.raises(NvmlRefused, match="LibraryNotFound"):
        find_gpus(NO_LIBRARY, str(tmp_path / "none"))
