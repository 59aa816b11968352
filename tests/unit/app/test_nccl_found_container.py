"""Which NCCL a job in a container loads, from its folder or its image.

The libraries are made by cc, the images by mksquashfs, a SIF by hand from its format: synthetic.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from hpckit.adapters.nccl_library import LibraryPlaces
from hpckit.adapters.process import ProcessRunner
from hpckit.app.nccl_found import find_nccl, look_at_nccl
from hpckit.errors import ParseError, ToolFailed, ToolMissing
from hpckit.model.nccl_found import NcclWhere
from tests.fakes.command_runner import FakeCommandRunner
from tests.fakes.nccl_tree import SITES, nccl, shared_library, torch, wheel

TOOLS = LibraryPlaces(ProcessRunner())
TO_WHEEL = "$ORIGIN/../../nvidia/nccl/lib"


@pytest.fixture
def rootfs(tmp_path: Path) -> Path:
    """A container with PyTorch, its wheels, and another NCCL where LD_LIBRARY_PATH leads."""
    root = tmp_path / "rootfs"
    (root / "usr/bin").mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    shutil.copy(Path(sys.executable).resolve(), root / f"usr/bin/{Path(SITES).parent.name}")
    (root / "usr/bin/python3").symlink_to(f"/usr/bin/{Path(SITES).parent.name}")
    sites = root / "usr/local" / SITES.replace("site-packages", "dist-packages")
    torch(sites, rpath=TO_WHEEL, is_runpath=True)
    wheel(sites, "2.27.3")
    nccl(root / "opt/nccl/lib", "2.26.2")
    (root / "etc").mkdir()
    (root / "etc/nccl.conf").write_text("NCCL_DEBUG=WARN\n")
    return root


def image_of(root: Path) -> Path:
    """An image of a folder, as enroot makes it."""
    if shutil.which("mksquashfs") is None or shutil.which("unsquashfs") is None:
        pytest.skip("no mksquashfs or unsquashfs here (squashfs-tools)")
    image = root.with_suffix(".sqsh")
    command = [
        "mksquashfs",
        str(root),
        str(image),
        "-quiet",
        "-no-progress",
        "-comp",
        "gzip",
        "-noappend",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return image


def sif_of(image: Path) -> Path:
    """The same in a SIF with one partition, laid out by apptainer/sif's sif.go."""
    content = image.read_bytes()
    numbers = struct.pack("<8q", 0, 0, 47, 48, 4096, 585 * 48, 32768, len(content))
    header = b"#!/usr/bin/env run-singularity\n\0".ljust(32, b"\0") + b"SIF_MAGIC\0"
    fields = struct.pack("<iBIIIqqqqqqq", 0x4004, 1, 1, 1, 0, 32768, len(content), 0, 0, 0, 0, 0)
    descriptor = fields + bytes(128) + struct.pack("<ii", 1, 2).ljust(384, b"\0")
    made = image.with_suffix(".sif")
    front = (header + b"01\0" + b"02\0" + bytes(16) + numbers).ljust(4096, b"\0") + descriptor
    made.write_bytes(front.ljust(32768, b"\0") + content)
    return made


@pytest.mark.parametrize("kind", ["folder", "sqsh", "sif"])
def test_a_container_is_told_by_its_folder_or_its_image(rootfs: Path, kind: str) -> None:
    """The same library, place and settings, whatever the container is kept in."""
    place = rootfs
    if kind != "folder":
        place = image_of(rootfs)
    if kind == "sif":
        place = sif_of(place)
    found, already = look_at_nccl(NcclWhere(container=str(place)), TOOLS)
    assert found.chosen is not None
    assert (str(found.version), found.chosen.how) == ("2.27.3", "RUNPATH of libtorch_cuda.so")
    assert found.path == f"/usr/local/lib/{Path(SITES).parent.name}/dist-packages" + (
        "/nvidia/nccl/lib/libnccl.so.2"
    )
    assert str(place) in found.place
    setting = already.of("NCCL_DEBUG")
    assert setting is not None
    assert (setting.value, setting.set_by) == ("WARN", "/etc/nccl.conf line 1")


@pytest.mark.parametrize("kind", ["folder", "sqsh"])
def test_the_image_s_own_variables_count(rootfs: Path, kind: str) -> None:
    """LD_LIBRARY_PATH of the image wins over the RUNPATH, and over the job's."""
    (rootfs / "etc/environment").write_text("PATH=/usr/bin\nLD_LIBRARY_PATH=/opt/nccl/lib\n")
    place = image_of(rootfs) if kind == "sqsh" else rootfs
    environment = {"LD_LIBRARY_PATH": "/nowhere"}
    found = find_nccl(NcclWhere(container=str(place), environment=environment), TOOLS)
    assert found.chosen is not None
    assert (str(found.version), found.chosen.how) == ("2.26.2", "LD_LIBRARY_PATH")


def test_who_set_a_variable_in_a_container_is_told(rootfs: Path) -> None:
    """The image's own value stands over the job's."""
    (rootfs / "etc/environment").write_text("PATH=/usr/bin\nNCCL_DEBUG=VERSION\n")
    job = {"NCCL_DEBUG": "INFO", "NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}
    set_by = dict.fromkeys(("NCCL_DEBUG", "NCCL_ALGO"), "[tune] env of the job")
    where = NcclWhere(container=str(rootfs), environment=job, set_by=set_by)
    settings = look_at_nccl(where, TOOLS)[1].settings
    assert [(one.name, one.value, one.set_by) for one in settings] == [
        ("NCCL_ALGO", "Ring", "[tune] env of the job"),
        ("NCCL_DEBUG", "VERSION", "the container's environment"),
        ("NCCL_PROTO", "LL", "environment"),
    ]


def test_apptainer_s_variables_count_and_the_host_s_path_does_not(rootfs: Path) -> None:
    """In a sandbox of apptainer LD_LIBRARY_PATH comes from the image or from APPTAINERENV_."""
    folder = rootfs / ".singularity.d/env"
    folder.mkdir(parents=True)
    (folder / "10-docker2singularity.sh").write_text('#!/bin/sh\nexport PATH="/usr/bin"\n')
    environment = {"LD_LIBRARY_PATH": "/opt/nccl/lib"}
    where = NcclWhere(container=str(rootfs), environment=environment)
    assert str(find_nccl(where, TOOLS).version) == "2.27.3"
    environment["APPTAINERENV_LD_LIBRARY_PATH"] = "/opt/nccl/lib"
    assert str(find_nccl(where, TOOLS).version) == "2.26.2"


def test_a_user_s_file_of_this_machine_is_told_as_one_that_may_count(
    rootfs: Path, tmp_path: Path
) -> None:
    """A home folder is often mounted into containers, and that cannot be known here."""
    (tmp_path / ".nccl.conf").write_text("NCCL_IB_TC=41\n")
    environment = {"HOME": str(tmp_path)}
    where = NcclWhere(container=str(rootfs), environment=environment, account_home=str(tmp_path))
    _, already = look_at_nccl(where, TOOLS)
    setting = already.of("NCCL_IB_TC")
    assert setting is not None
    assert setting.set_by == f"{tmp_path}/.nccl.conf line 1"
    assert already.notes == (
        f"{tmp_path}/.nccl.conf counts only if it is mounted into the container",
    )


def test_the_container_s_cache_is_read(tmp_path: Path) -> None:
    """A library that ldconfig knew of when the image was made is found by its name."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    root = tmp_path / "rootfs"
    nccl(root / "usr/odd", "2.19.3")
    (root / "etc").mkdir()
    (root / "etc/ld.so.conf").write_text("/usr/odd\n")
    if subprocess.run([ldconfig, "-r", root], check=False, capture_output=True).returncode:
        pytest.skip("ldconfig -r needs root's rights here")
    found = find_nccl(NcclWhere(container=str(root)), TOOLS)
    assert found.chosen is not None
    assert (str(found.version), found.chosen.how) == (
        "2.19.3",
        "the loader's cache, /etc/ld.so.cache",
    )


def test_an_image_without_unsquashfs_says_how_to_get_it(tmp_path: Path) -> None:
    """ToolMissing, with the command that installs it."""
    image = tmp_path / "a.sqsh"
    image.write_bytes(b"hsqs" + bytes(100))
    with pytest.raises(ToolMissing, match="apt-get install squashfs-tools"):
        find_nccl(NcclWhere(container=str(image)), LibraryPlaces(FakeCommandRunner({})))


def test_a_file_that_is_no_image_is_refused(tmp_path: Path) -> None:
    """Before any program is started."""
    image = tmp_path / "a.sqsh"
    image.write_text("not an image")
    with pytest.raises(ParseError, match="neither a squashfs nor a SIF"):
        find_nccl(NcclWhere(container=str(image)), LibraryPlaces(FakeCommandRunner({})))


def test_an_image_that_is_cut_short_is_refused_in_unsquashfs_words(rootfs: Path) -> None:
    """ToolFailed holds what it said."""
    image = image_of(rootfs)
    image.write_bytes(image.read_bytes()[:2000])
    with pytest.raises(ToolFailed, match="unsquashfs"):
        find_nccl(NcclWhere(container=str(image)), TOOLS)


def test_nothing_of_an_image_is_left_behind(
    rootfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was unpacked to be read is removed."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    shared_library(rootfs / "opt/nccl/lib/libnccl-net.so")
    find_nccl(NcclWhere(container=str(image_of(rootfs))), TOOLS)
    assert list((tmp_path / "tmp").iterdir()) == []
