"""The GPUs of a rank's node, from the fake library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hpckit.injob.counter import read
from hpckit.injob.ledger import find_gpus
from hpckit.sampler.gpus import NvmlRefused
from tests.fakes.nvml_library import build_fake_nvml
from tests.fakes.virtual_nvml import VirtualNvml, open_virtual

if TYPE_CHECKING:
    from hpckit.injob.counter import Gpu

Found = Callable[..., "list[Gpu]"]
THREE = '[gpu]\nname = "Synthetic"\npower_w = 300\n'


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake library, built once."""
    return build_fake_nvml(tmp_path_factory.mktemp("fake-nvml"))


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """A /dev without device files."""
    (tmp_path / "dev").mkdir()
    return tmp_path / "dev"


@pytest.fixture
def found(library: Path, tmp_path: Path, dev: Path) -> Iterator[Found]:
    """What a rank finds on a machine with three GPUs and these lines in its profile."""
    opened: list[VirtualNvml] = []

    def find(text: str, head: str = "") -> list[Gpu]:
        node = open_virtual(library, tmp_path, f"{head}gpus = 3\n{THREE}{text}")
        opened.append(node)
        node.set_s(100)
        return find_gpus(str(library / "libfake-nvml.so"), dev=str(dev))[0]

    yield find
    for node in opened:
        node.close()
        node.close()  # what find_gpus opened too, which a rank keeps to its end


def test_a_lost_gpu_keeps_its_place(found: Found) -> None:
    """Its reading says why it has no energy, and the others are at their places and are read."""
    gpus = found('[gpu.1]\nlost_s = "0-"\n')
    readings = [read(gpu) for gpu in gpus]
    assert [one["uuid"].startswith("GPU-") for one in readings] == [True, False, True]
    assert readings[1]["uuid"] == "index-1"
    assert [one["refused"] for one in readings] == [None, "GpuIsLost", None]
    assert [one["energy_mj"] is None for one in readings] == [False, True, False]


def test_a_gpu_of_another_job_is_not_counted(found: Found) -> None:
    """What may not be opened has no place: CUDA counts without it."""
    gpus = found('[gpu.0]\nerror.nvmlDeviceGetHandleByIndex = "NoPermission"\n')
    assert [gpu.uuid.startswith("GPU-") for gpu in gpus] == [True, True]


@pytest.mark.parametrize(("minors", "count"), [((1, 2), 2), ((0, 1, 2), 3)])
def test_a_lost_gpu_is_ours_if_its_file_opens(
    found: Found, dev: Path, minors: tuple[int, ...], count: int
) -> None:
    """Where all device files that open are those of GPUs that answer, it is another job's."""
    for minor in minors:
        (dev / f"nvidia{minor}").touch()
    (dev / "nvidiactl").touch()
    assert len(found('[gpu.0]\nlost_s = "0-"\n')) == count


def test_a_driver_that_counts_no_gpus_is_quoted(found: Found) -> None:
    """What holds for the whole driver is raised."""
    with pytest.raises(NvmlRefused, match="Unknown"):
        found("", 'error.nvmlDeviceGetCount = "Unknown"\n')
