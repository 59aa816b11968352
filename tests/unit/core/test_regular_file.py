"""What lies where a file should be is read if it is one."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import psutil
import pytest

from hpckit.core.files_in_job import MOST_BYTES, read_regular


def test_a_file_costs_what_it_holds(tmp_path: Path) -> None:
    """The bytes come as they are, and take no more memory than a small file needs."""
    (tmp_path / "a").write_bytes(b"x\r\n")
    tracemalloc.start()
    try:
        assert read_regular(tmp_path / "a") == b"x\r\n"
        assert tracemalloc.get_traced_memory()[1] < 1024**2
    finally:
        tracemalloc.stop()


def test_what_is_no_file_is_refused_and_closed(tmp_path: Path) -> None:
    """A folder, a FIFO, a device and a file that is far too large are OSError, and stay closed."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "device").symlink_to("/dev/zero")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    before = psutil.Process().num_fds()
    for name in (".", "fifo", "device", "large") * 20:
        with pytest.raises(OSError, match=r"directory|no regular file|is over 64 MiB"):
            read_regular(tmp_path / name)
    assert psutil.Process().num_fds() < before + 20
