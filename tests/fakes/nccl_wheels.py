"""NVIDIA's own NCCL, from its wheels: downloaded once, kept for other runs, never executed here."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import pytest

WHEELS = {
    "2.21.5": "nvidia-nccl-cu12",
    "2.27.3": "nvidia-nccl-cu12",
    "2.30.7": "nvidia-nccl-cu13",
}
LIBRARY = "nvidia/nccl/lib/libnccl.so.2"
_LIMIT_S = 600


@cache
def wheel_sites(version: str) -> Path:
    """A folder that holds the library and the dist-info of a wheel, as site-packages would.

    Skips the test that asks where the package index does not answer.
    """
    folder = Path(tempfile.gettempdir()) / f"hpckit-nccl-wheels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sites = folder / version
        if not sites.is_dir():
            _fetch(f"{WHEELS[version]}=={version}", sites)
    return sites


def _fetch(requirement: str, sites: Path) -> None:
    with tempfile.TemporaryDirectory(dir=sites.parent) as made:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", made]
        done = subprocess.run(
            [*command, "--only-binary=:all:", requirement],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        found = list(Path(made).glob("*.whl"))
        if done.returncode or not found:
            pytest.skip(f"pip download {requirement} failed: no package index, or no such wheel")
        unpacked = Path(made) / "unpacked"
        with zipfile.ZipFile(found[0]) as archive:
            names = [n for n in archive.namelist() if n == LIBRARY or ".dist-info/" in n]
            archive.extractall(unpacked, names)
        unpacked.rename(sites)
