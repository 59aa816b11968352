"""NVIDIA's own wheels tell their release, and cost some milliseconds of reading.

The libraries are real; PyTorch beside them is made by cc, with its wheel's RPATH: synthetic.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hpckit.adapters.nccl_library import LibraryPlaces
from hpckit.app.nccl_found import find_nccl
from hpckit.model.nccl_found import NcclWhere
from tests.fakes.command_runner import FakeCommandRunner
from tests.fakes.nccl_tree import python_environment, torch
from tests.fakes.nccl_wheels import LIBRARY, WHEELS, wheel_sites

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nccl-wheels")]
TOOLS = LibraryPlaces(FakeCommandRunner({}))
BUILDS = {"2.21.5": "cuda12.4", "2.27.3": "cuda12.9", "2.30.7": "cuda13.3"}


@pytest.mark.parametrize("version", list(WHEELS))
def test_a_wheel_s_library_tells_its_release(tmp_path: Path, version: str) -> None:
    """By a constant in it, which is the version of the wheel, in less than a second."""
    real = wheel_sites(version)
    sites = python_environment(tmp_path)
    torch(sites, rpath="$ORIGIN/../../nvidia/nccl/lib")
    (sites / "nvidia").symlink_to(real / "nvidia")
    began_s = time.monotonic()
    found = find_nccl(NcclWhere(python=str(tmp_path)), TOOLS)
    assert time.monotonic() - began_s < 1
    assert found.chosen is not None
    assert (str(found.version), found.chosen.build) == (version, BUILDS[version])
    assert (found.path, found.chosen.version_from) == (str(real / LIBRARY), "the file itself")


def test_two_releases_are_told_apart(tmp_path: Path) -> None:
    """The one that LD_LIBRARY_PATH leads to loses against the wheel of the environment."""
    sites = python_environment(tmp_path)
    torch(sites, rpath="$ORIGIN/../../nvidia/nccl/lib")
    (sites / "nvidia").symlink_to(wheel_sites("2.27.3") / "nvidia")
    listed = (wheel_sites("2.21.5") / LIBRARY).parent
    where = NcclWhere(python=str(tmp_path), environment={"LD_LIBRARY_PATH": str(listed)})
    found = find_nccl(where, TOOLS)
    assert [str(found.version), *(str(one.version) for one in found.others)] == ["2.27.3", "2.21.5"]
