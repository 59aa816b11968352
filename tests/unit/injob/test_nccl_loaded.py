"""Rank 0 keeps which NCCL it has loaded, for the next job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hpckit.injob.nccl_loaded import loaded_library

MAPS = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    kept = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print("mapped", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("path", "wheels", "release"),
    [
        ("lib/libnccl.so.2.27.5", [], "2.27.5"),
        ("s/nvidia/nccl/lib/libnccl.so.2", ["nvidia_nccl_cu12-2.26.2.post1.dist-info"], "2.26.2"),
        ("s/nvidia/nccl/lib/libnccl.so.2", ["nvidia_nccl_cu12-2.27.3.dist-info"], "2.27.3"),
        ("s/nvidia/nccl/lib/libnccl.so.2", [], None),
        ("lib/librccl.so.1.0.60400", [], None),
        ("lib/libother.so.1", [], "nothing"),
    ],
)
def test_what_a_child_has_mapped_is_told(
    tmp_path: Path, path: str, wheels: list[str], release: str | None
) -> None:
    """By its resolved name or the wheel beside it, in the command or below a shell in front."""
    library = tmp_path / path
    library.parent.mkdir(parents=True)
    library.write_bytes(b"x")
    for name in wheels:
        (tmp_path / "s" / name).mkdir()
    command = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", MAPS, str(library)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "mapped\n"
        found = loaded_library(child.pid)
        child.communicate("")
    expected = {"path": str(library), "release": release}
    assert found == (None if release == "nothing" else expected)
