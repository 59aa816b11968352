"""The loader's cache is read as ldconfig writes it."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from hpckit.errors import ParseError
from hpckit.parse.ld_cache import parse_ld_cache
from tests.fakes.nccl_tree import nccl

LDCONFIG = shutil.which("ldconfig") or shutil.which("/sbin/ldconfig")


@pytest.mark.parametrize("form", ["new", "compat"])
def test_ldconfig_and_the_reader_agree(tmp_path: Path, form: str) -> None:
    """A cache that ldconfig writes for a folder names what lies there, in both formats."""
    if LDCONFIG is None:
        pytest.skip("no ldconfig here")
    nccl(tmp_path / "lib", "2.27.3")
    conf = tmp_path / "ld.so.conf"
    conf.write_text(f"{tmp_path}/lib\n")
    cache = tmp_path / "cache"
    command = [LDCONFIG, "-c", form, "-X", "-f", str(conf), "-C", str(cache)]
    subprocess.run(command, check=True)
    entries = parse_ld_cache(cache.read_bytes())
    (found,) = (entry for entry in entries if entry.name.startswith("libnccl"))
    assert found == ("libnccl.so.2", f"{tmp_path}/lib/libnccl.so.2")


@pytest.mark.parametrize(
    "data",
    [b"", b"text", b"glibc-ld.so.cache1.1", b"glibc-ld.so.cache1.1" + struct.pack("<I", 9) * 9],
    ids=["empty", "text", "header", "entries"],
)
def test_what_is_no_cache_is_refused(data: bytes) -> None:
    """A text, and a cache that is cut short, are ParseError."""
    with pytest.raises(ParseError, match=r"ld\.so\.cache"):
        parse_ld_cache(data)


def test_a_cache_whose_names_lie_over_each_other_is_refused() -> None:
    """Else a file of some MiB would become gigabytes of names."""
    header = b"glibc-ld.so.cache1.1" + struct.pack("<II", 1000, 0) + bytes(20)
    text_at = len(header) + 1000 * 24
    entry = struct.pack("<iIIIQ", 0, text_at, text_at, 0, 0)
    with pytest.raises(ParseError, match="lie over each other"):
        parse_ld_cache(header + 1000 * entry + b"x" * 4000 + b"\0")
