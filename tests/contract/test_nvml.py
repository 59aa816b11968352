"""What every NVML does, as hpckit reads it: the fake of docker/fake-nvml, and a driver's own."""

from __future__ import annotations

import ctypes
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpckit.node.path import PathKind, link_count, path_kind
from tests.fakes.nvml_library import PROFILES, Look, NvmlHost, build_fake_nvml

FAKES = sorted(path.stem for path in PROFILES.glob("*.toml"))

SAMPLE = """
import json, time, pynvml as nvml
nvml.nvmlInit()
samples = []
for _ in range(200):
    samples.append([
        [nvml.nvmlDeviceGetTotalEnergyConsumption(gpu), nvml.nvmlDeviceGetPowerUsage(gpu)]
        for gpu in map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
    ])
print(json.dumps(samples))
"""


def has_driver() -> bool:
    """Whether this machine has a GPU's driver with its NVML."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return bool(library.nvmlInit_v2() == 0)


@pytest.fixture(scope="module", params=[*FAKES, *(["driver"] if has_driver() else [])])
def host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NvmlHost]:
    """A machine with each profile and, where there is one, this machine with its GPUs."""
    if request.param == "driver":
        yield NvmlHost(folder=None)
        return
    library = build_fake_nvml(tmp_path_factory.getbasetemp() / "fake-nvml")
    yield NvmlHost(folder=library, profile=Path(PROFILES / f"{request.param}.toml"))


@pytest.fixture(scope="module")
def look(host: NvmlHost) -> Look:
    """One look at the machine."""
    return host.look()


def test_every_gpu_says_who_it_is(look: Look) -> None:
    """Each GPU has a name, an architecture and memory, and a UUID and an address of its own."""
    gpus = look.topology.gpus
    assert gpus
    assert all(gpu.name and gpu.architecture and gpu.memory_bytes for gpu in gpus)
    assert len({gpu.uuid for gpu in gpus} - {None}) == len(gpus)
    assert len({gpu.pci for gpu in gpus} - {None}) == len(gpus)


def test_indices_follow_the_addresses(look: Look) -> None:
    """NVML counts GPUs in the order of their PCI addresses."""
    addresses = [gpu.pci or "" for gpu in look.topology.gpus]
    assert addresses == sorted(addresses)


def test_two_looks_see_one_machine(host: NvmlHost, look: Look) -> None:
    """A second look gives the same GPUs, links and paths."""
    again = host.look().topology
    assert [gpu.uuid for gpu in again.gpus] == [gpu.uuid for gpu in look.topology.gpus]
    assert again.gpu_links == look.topology.gpu_links
    assert again.paths == look.topology.paths


def test_every_two_gpus_have_a_path_both_ways(look: Look) -> None:
    """The table of paths is square and symmetric, with X on its diagonal alone."""
    paths = look.topology.paths
    assert paths is not None
    for at, row in enumerate(paths.cells):
        assert [path_kind(cell or "") is PathKind.SELF for cell in row] == [
            other == at for other in range(len(paths.devices))
        ]
        assert [paths.cells[other][at] for other in range(len(row))] == list(row)


def test_links_are_what_the_path_says(look: Look) -> None:
    """A pair has NVLinks where its path is NV, and as many."""
    paths = look.topology.paths
    assert paths is not None
    links = {(link.a, link.b): link.count for link in look.topology.gpu_links}
    for a, b in itertools.combinations(range(len(paths.devices)), 2):
        assert link_count(paths.cells[a][b] or "") == links.get((a, b))


def test_what_is_none_has_a_reason(look: Look) -> None:
    """Health that NVML does not tell is named among the unknown, for the GPU or for all."""
    for gpu in look.topology.gpus:
        told = {**look.reasons("GPUs"), **look.reasons(f"GPU{gpu.index}")}
        assert gpu.health is not None
        assert gpu.health.power_w is not None or "health.power_w" in told
        assert gpu.health.temperature_c is not None or "health.temperature_c" in told
        assert gpu.health.ecc_enabled is not None or "health.ecc_enabled" in told


def test_energy_never_falls(host: NvmlHost) -> None:
    """Of two readings of a GPU's energy counter the later one is not the smaller."""
    samples = json.loads(host.python(SAMPLE).stdout)
    for before, after in itertools.pairwise(samples):
        assert all(a[0] <= b[0] for a, b in zip(before, after, strict=True))
