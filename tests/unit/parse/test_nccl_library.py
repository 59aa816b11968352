"""Releases, wheels and plugins are told by what stands in files and in their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.model.comm import CommLibrary, NcclVersion, NetPlugin
from hpckit.model.nccl_found import LibraryStrings, NcclBuild, SharedLibrary
from hpckit.parse.nccl_library import (
    library_of,
    library_strings,
    name_version,
    plugin_of,
    wheel_root,
    wheel_version,
)
from tests.fakes.nccl_tree import shared_library

NCCL, RCCL = CommLibrary.NCCL, CommLibrary.RCCL


def strings_of(path: Path) -> LibraryStrings:
    """What the constants of a file tell."""
    data = path.read_bytes()
    return library_strings(lambda at, size: data[at : at + size], str(path))


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("NCCL version 2.21.5+cuda12.4", (NCCL, NcclVersion(2, 21, 5), "cuda12.4")),
        ("NCCL version 2.4.8+cuda10.1", (NCCL, NcclVersion(2, 4, 8), "cuda10.1")),
        ("NCCL version 2.29.0rc1+cuda13.0", (NCCL, NcclVersion(2, 29, 0), "cuda13.0")),
        ("RCCL version 2.18.3+hip6.0", (RCCL, NcclVersion(2, 18, 3), "hip6.0")),
        ("RCCL version : 2.22.3", (RCCL, NcclVersion(2, 22, 3), None)),
        ("This is only available for NCCL version >= 2.4.", None),
        ("Found NCCL version 2.27.3", None),
    ],
)
def test_a_release_is_what_the_library_prints_of_itself(
    tmp_path: Path, text: str, build: tuple[CommLibrary, NcclVersion, str | None] | None
) -> None:
    """Sentences about other releases, as PyTorch has them, are none."""
    found = strings_of(shared_library(tmp_path / "liba.so", text)).build
    told = None
    if build is not None:
        told = NcclBuild(library=build[0], version=build[1], build=build[2])
    assert found == told


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("nvidia_nccl_cu12-2.27.3.dist-info", "torch"), "2.27.3"),
        (("nvidia_nccl_cu12-2.26.2.post1.dist-info",), "2.26.2"),
        (("nvidia_nccl_cu12-2.27.3.dist-info", "nvidia_nccl_cu13-2.30.7.dist-info"), None),
        (("nvidia_cublas_cu12-12.9.0.dist-info",), None),
    ],
)
def test_two_wheels_in_one_place_tell_nothing(names: tuple[str, ...], told: str | None) -> None:
    """Only one of them can be there, and which one is not known."""
    found = wheel_version(names)
    assert (str(found[0]) if found else None) == told


def test_a_place_and_a_name_tell_what_they_can() -> None:
    """RCCL's file name has ROCm's release, not its own."""
    assert wheel_root("/s/nvidia/nccl/lib/libnccl.so.2") == "/s"
    assert wheel_root("/usr/lib/libnccl.so.2") is None
    assert name_version("/usr/lib/libnccl.so.2.27.3") == NcclVersion(2, 27, 3)
    assert name_version("/opt/rocm/lib/librccl.so.1.0.60200") is None
    assert (library_of("/a/librccl.so.1"), library_of("/a/libnccl.so.2")) == (RCCL, NCCL)


@pytest.mark.parametrize(
    ("path", "needed", "marks", "plugin"),
    [
        ("/a/libnccl-net-aws-ofi.so", (), (), NetPlugin.AWS_OFI),
        ("/a/librccl-net.so", ("libfabric.so.1",), (), NetPlugin.AWS_OFI),
        ("/a/libnccl-net.so", (), ("FasTrak",), NetPlugin.TCPXO),
        ("/a/libnccl-net.so", (), ("GPUDirectTCPX",), NetPlugin.TCPX),
        ("/usr/local/gib/lib64/libnccl-net_internal.so", (), (), NetPlugin.GIB),
        ("/a/libnccl-net.so", ("libucp.so.0",), (), NetPlugin.HPCX),
        ("/a/libnccl-net.so", ("libc.so.6",), (), None),
    ],
)
def test_a_plugin_is_told_by_name_need_constant_or_folder(
    path: str, needed: tuple[str, ...], marks: tuple[str, ...], plugin: NetPlugin | None
) -> None:
    """And where none of them tells it, it is not known."""
    library = SharedLibrary(path=path, machine="x86_64", needed=needed)
    assert plugin_of(library, path, marks) is plugin
