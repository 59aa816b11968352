"""Captures of real machines: each is read, told apart by its content, and judged with care."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from hpckit.core.errors import ParseError
from hpckit.core.findings import Severity
from hpckit.node.capture.snapshot import inspect_capture
from hpckit.node.rules.rules import node_findings
from tests.corpus import corpus_file, corpus_files
from tests.fakes.slurm_records import record_text

CAPTURES = (
    "nvidia-smi-topo/**/*.txt",
    "nccl-topo-xml/**/*.xml",
    "hwloc-xml/*",
    "rocm/**/*.txt",
    "kfd-sysfs/*",
    "ib-fabric/*sys-class-infiniband*",
)


@pytest.mark.parametrize("path", corpus_files(*CAPTURES))
def test_every_capture_is_read(path: Path) -> None:
    """Each capture gives a machine with CPUs, GPUs or NICs in it, whatever its file is called."""
    machines = inspect_capture(path.read_bytes(), "capture")
    assert machines
    for machine in machines:
        assert machine.cpu.cpus or machine.gpus or machine.nics or machine.numa_nodes


@pytest.mark.parametrize("path", corpus_files("nvidia-smi-topo/**/*.txt"))
def test_no_healthy_design_is_a_warning(path: Path) -> None:
    """None of the recorded matrices has a finding above a note: by-design mixes are no faults."""
    for machine in inspect_capture(path.read_bytes(), "capture"):
        odd = [one for one in node_findings(machine) if one.severity is not Severity.NOTE]
        assert odd == []


def test_hwloc_and_nvidia_smi_agree() -> None:
    """PRRTE's turin is what its `topo -m` says: NV6 between all four GPUs, NUMA 1, 2, 6 and 7."""
    data = corpus_file("hwloc-xml/prrte-turin-4gpu-nvml.xml").read_bytes()
    (machine,) = inspect_capture(data, "turin")
    assert machine.paths is not None
    assert [[cell for cell in row[:4] if cell != "X"] for row in machine.paths.cells[:4]] == [
        ["NV6"] * 3
    ] * 4
    assert [gpu.numa_index for gpu in machine.gpus] == [1, 2, 6, 7]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x1f\x8b" + b"\0" * 20,
        bz2.compress(b"no tar"),
        b"<?xml version='1.0'?><html/>",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]><system>&b;</system>",
        b"{}",
        "Übersicht".encode("utf-16"),
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    """What holds no machine raises ParseError."""
    with pytest.raises(ParseError):
        inspect_capture(data, "thing")


def test_a_text_that_is_too_long_is_refused_at_once() -> None:
    """No tool prints more than 8 MiB of a node."""
    with pytest.raises(ParseError, match="up to 8388608 bytes"):
        inspect_capture(b"GPU0 GPU1\n" * 2**20, "thing")


@pytest.mark.parametrize(
    "text",
    [
        "$ lspci\n01:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2901] (rev a1)\n",
        "0000:00:00.0 0600: 8086:09a2 (rev 20)\n",
        "-+-[0000:80]-+-00.0  Intel Corporation Device 09a2\n",
    ],
)
def test_the_text_of_lspci_is_refused_with_what_is_read_instead(text: str) -> None:
    """It is no capture, and the error names the files that hold more than it."""
    with pytest.raises(ParseError, match="lspci output is not supported") as caught:
        inspect_capture(text.encode(), "lspci.txt")
    assert "`hpckit inspect --json`" in str(caught.value)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_text_is_that_text(pack: Callable[[bytes], bytes]) -> None:
    """A capture may be compressed, whatever it is."""
    data = record_text("rocm-smi-6.4", "synthetic-report").encode()
    assert inspect_capture(pack(data), "x") == inspect_capture(data, "x")
    document = b'<system version="1"><cpu numaid="0"/></system>'
    assert inspect_capture(pack(document), "x") == inspect_capture(document, "x")


def test_a_text_that_unpacks_to_too_much_is_refused() -> None:
    """64 MiB of text are the most, however small they were."""
    data = gzip.compress(b"x" * (64 * 1024**2 + 1), 1)
    with pytest.raises(ParseError, match="unpacks to more text than a capture"):
        inspect_capture(data, "x")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_text_that_is_cut_off_is_refused(pack: Callable[[bytes], bytes]) -> None:
    """Half of a capture is not read as a whole one."""
    data = pack(record_text("rocm-smi-6.4", "synthetic-report").encode())
    with pytest.raises(ParseError, match="cannot be unpacked"):
        inspect_capture(data[:-20], "x")


def test_an_archive_from_before_posix_is_one() -> None:
    """Its header has no magic word, and NULs, which no text has: what it lacks is a machine."""
    header = b"etc/motd".ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + b"00000000000\0" * 2
    blank = header + b" " * 8
    header = (header + f"{sum(blank + b'0'):06o}\0 ".encode() + b"0").ljust(512, b"\0")
    with pytest.raises(ParseError, match="no machine in this archive"):
        inspect_capture(gzip.compress(header + b"\0" * 1024), "x")
