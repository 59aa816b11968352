"""AMD's energy counters out of a made-up sysfs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hpckit.injob.counter import Refused
from hpckit.injob.ledger import find_gpus
from hpckit.sampler.amd_energy import amd_gpus

OPENED = """
import encodings.ascii, os, sys  # a codec is loaded when it is first wanted, and may be root's
from hpckit.sampler.amd_energy import amd_gpus
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)  # root may open what its mode forbids
for gpu in amd_gpus(f"{sys.argv[1]}/drm", sys.argv[1]):
    print(gpu.uuid)
"""
NO_LIBRARY = "libhpckit-has-no-such.so.1"


@pytest.fixture
def drm(tmp_path: Path) -> Path:
    """/sys/class/drm of two GPUs of AMD, the one at the lower address second, and a display."""
    folder = tmp_path / "drm"
    folder.mkdir()
    (tmp_path / "kfd").mkdir()
    cards = [
        ("card0", "0000:c1:00.0", "0x1002", "f00d"),
        ("card1", "0000:41:00.0", "0x1002", "beef"),
    ]
    cards.append(("card2", "0000:01:00.0", "0x102b", ""))
    for name, address, vendor, unique_id in cards:
        device = tmp_path / "devices" / address
        hwmon = device / "hwmon" / "hwmon7"
        hwmon.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        if unique_id:
            (device / "unique_id").write_text(f"{unique_id}\n")
            (hwmon / "energy1_input").write_text("1234567\n")
        (folder / name).mkdir()
        (folder / name / "device").symlink_to(os.path.relpath(device, folder / name))
    (folder / "card0-DP-1").mkdir()
    return folder


def test_gpus_are_in_the_order_of_their_addresses(drm: Path) -> None:
    """As ROCm counts them; a card of another maker is none."""
    assert [gpu.uuid for gpu in amd_gpus(str(drm))] == ["GPU-beef", "GPU-f00d"]


def test_microjoules_become_millijoules(drm: Path) -> None:
    """Hwmon counts in microjoules."""
    assert amd_gpus(str(drm))[0].energy_mj() == 1234


def test_a_gpu_without_a_counter_keeps_its_place(drm: Path) -> None:
    """Most kernels have no energy1_input, and ROCR_VISIBLE_DEVICES counts those GPUs too."""
    (drm / "card1" / "device" / "hwmon" / "hwmon7" / "energy1_input").unlink()
    gpus = amd_gpus(str(drm))
    assert [gpu.uuid for gpu in gpus] == ["GPU-beef", "GPU-f00d"]
    with pytest.raises(ValueError, match="no energy1_input"):
        gpus[0].energy_mj()


def test_a_gpu_without_a_unique_id_has_its_address(drm: Path) -> None:
    """As the sampler names it."""
    (drm / "card1" / "device" / "unique_id").unlink()
    assert amd_gpus(str(drm))[0].uuid == "GPU-0000:41:00.0"


def test_gpus_of_other_jobs_are_not_counted() -> None:
    """ROCm numbers from 0 those whose device files this process may open."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for card, mode in ((0, 0o666), (1, 0o000), (2, 0o666)):
            device = folder / "devices" / f"0000:{card}1:00.0"
            (device / "drm" / f"renderD{128 + card}").mkdir(parents=True)
            (device / "vendor").write_text("0x1002\n")
            (device / "unique_id").write_text(f"{card}\n")
            (folder / "drm" / f"card{card}").mkdir(parents=True)
            (folder / "drm" / f"card{card}" / "device").symlink_to(device)
            (folder / "kfd").mkdir(exist_ok=True)
            (folder / "dri").mkdir(exist_ok=True)
            (folder / "dri" / f"renderD{128 + card}").touch()
            (folder / "dri" / f"renderD{128 + card}").chmod(mode)
        told = subprocess.run(
            [sys.executable, "-c", OPENED, name], capture_output=True, check=True, timeout=60
        )
    assert told.stdout.split() == [b"GPU-0", b"GPU-2"]


def test_a_card_for_a_screen_is_none(drm: Path, tmp_path: Path) -> None:
    """Without /sys/class/kfd nothing can compute on it."""
    (tmp_path / "kfd").rmdir()
    assert amd_gpus(str(drm)) == []


def test_a_machine_without_sysfs_has_none(tmp_path: Path) -> None:
    """No folder is no GPU, and no error."""
    assert amd_gpus(str(tmp_path / "none")) == []


def test_amds_gpus_are_found_where_nvml_is_not(drm: Path) -> None:
    """They are asked for where there is no library of NVIDIA's."""
    gpus, visible = find_gpus("1", NO_LIBRARY, str(drm))
    assert ([gpu.uuid for gpu in gpus], visible) == (["GPU-beef", "GPU-f00d"], "1")


def test_a_machine_without_gpus_quotes_nvml(tmp_path: Path) -> None:
    """With neither, the reason is that NVML's library is not there."""
    with pytest.raises(Refused, match="LibraryNotFound"):
        find_gpus(None, NO_LIBRARY, str(tmp_path))
