"""Any file at all is a machine or a ParseError, and soon."""

from __future__ import annotations

import contextlib
import gzip
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.errors import HpckitError, ParseError
from hpckit.node.capture.snapshot import inspect_capture
from hpckit.node.picture.picture import node_svg
from hpckit.node.rules.rules import node_findings
from hpckit.node.show import node_lines
from hpckit.node.tree_text import matrix_text
from tests.sizes import costly

RECORDS = Path(__file__).resolve().parents[1] / "records"
FAMILIES = ("nvidia-smi", "nccl", "hwloc", "rocm-smi", "amd-smi")
SEEDS = sorted(
    path
    for path in RECORDS.rglob("*")
    if path.is_file()
    and path.relative_to(RECORDS).parts[0].startswith(FAMILIES)
    and path.suffix in {".txt", ".xml", ".json", ".csv"}
    and path.name != "provenance.txt"
)
STARTS = [
    "<system ",
    "<topology>",
    '{"schema": "hpckit.',
    "\tGPU0\tGPU1\n",
    "GPU0   XGMI",
    "\x1f\x8b",
    "<?xml version='1.0'?>",
    "ACCESS TABLE:\n",
    "=== Weight between two GPUs ===\n",
    "BZh9",
]
NAMES = [
    "sys/devices/system/cpu/cpu0/topology/core_id",
    "sys/devices/system/node/node0/cpulist",
    "sys/class/infiniband/mlx5_0/ports/1/rate",
    "sys/class/kfd/kfd/topology/nodes/0/gpu_id",
    "sys/class/kfd/kfd/topology/nodes/0/properties",
    "sys/bus/pci/devices/0000:00:00.0/class",
    "../etc/passwd",
    "/etc/passwd",
    "a" * 300,
]


def shown(data: bytes) -> None:
    """Everything that `hpckit inspect` does with a file; a refusal is a ParseError."""
    try:
        machines = inspect_capture(data, "capture")
    except ParseError as error:
        assert error.line_no >= 1
        return
    for machine in machines:
        findings = node_findings(machine)
        node_lines(machine, findings)
        node_svg(machine, findings)
        with contextlib.suppress(HpckitError):
            matrix_text(machine)


@given(st.binary(max_size=2000))
def test_any_bytes(data: bytes) -> None:
    """Bytes without any sense are refused."""
    shown(data)


@given(st.sampled_from(STARTS), st.text(max_size=400))
def test_any_text_after_a_start_that_is_known(start: str, rest: str) -> None:
    """What begins as a capture and goes on as anything is a machine or a ParseError."""
    shown((start + rest).encode("utf-8", "surrogatepass"))


def test_there_are_records_of_every_format() -> None:
    """The next test changes a record of each format that is one file."""
    families = {path.relative_to(RECORDS).parts[0].split("-")[0] for path in SEEDS}
    assert families >= {"nvidia", "nccl", "hwloc", "rocm", "amd"}


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: str(path.relative_to(RECORDS)))
@costly(0.2)
@given(data=st.data())
def test_a_capture_that_was_changed(path: Path, data: st.DataObject) -> None:
    """A record with a piece cut out, doubled or replaced is a machine or a ParseError."""
    whole = path.read_bytes()
    first = data.draw(st.integers(0, len(whole)))
    last = data.draw(st.integers(first, min(len(whole), first + 60)))
    piece = data.draw(
        st.one_of(
            st.binary(max_size=8),
            st.sampled_from([b"\0", b"-1", b"9" * 400, b"\n\n", b"\xff", b'"', b"<", b"GPU0"]),
            st.just(whole[first:last] * 2),
        )
    )
    shown(whole[:first] + piece + whole[last:])


@given(st.dictionaries(st.sampled_from(NAMES), st.binary(max_size=80), max_size=6), st.booleans())
def test_any_archive(files: dict[str, bytes], is_packed: bool) -> None:
    """An archive of anything under names of /sys is a machine or a ParseError."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    shown(gzip.compress(buffer.getvalue()) if is_packed else buffer.getvalue())
