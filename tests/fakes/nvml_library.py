"""NVML without a GPU: the library of docker/fake-nvml, built here and loaded in a process apart.

nvidia-ml-py loads one library in a process and keeps it, so each look is a process of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from hpckit.node.topology import NodeTopology

SOURCE = Path(__file__).resolve().parents[2] / "docker" / "fake-nvml"
PROFILES = SOURCE / "profiles"
LACKING = "no C compiler here (cc and make): the fake libnvidia-ml.so.1 cannot be built"

HEAD = 'schema = "hpckit.nvml-profile/1"\nsynthetic = true\n'

# The file that a node names would come before a test's wish to have no profile at all.
_NOWHERE = "/nonexistent/nvml-profile.toml"

_LOOK = """
import sys
import msgspec
from hpckit.node.capture.nvml import NvmlDriver
sys.stdout.buffer.write(msgspec.json.encode(NvmlDriver(float(sys.argv[1])).read()))
"""


def build_fake_nvml(folder: Path) -> Path:
    """Compile the library into `folder`, which becomes an entry of LD_LIBRARY_PATH."""
    if shutil.which("cc") is None or shutil.which("make") is None:
        if os.environ.get("HPCKIT_REQUIRE_CLUSTER") == "1":
            pytest.fail(f"HPCKIT_REQUIRE_CLUSTER=1, and {LACKING}")
        pytest.skip(LACKING)
    subprocess.run(["make", "--silent", "-C", str(SOURCE), f"OUT={folder}"], check=True)
    return folder


def profile(folder: Path, text: str) -> Path:
    """A profile file of these lines, below what every profile begins with."""
    path = folder / "profile.toml"
    path.write_text(HEAD + text)
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look at NVML gave."""

    topology: NodeTopology
    stderr: str

    def reasons(self, subject: str) -> dict[str, str]:
        """Why something of a subject is not known."""
        return {one.what: one.because for one in self.topology.unknown if one.subject == subject}


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlHost:
    """A machine with an NVML of its own: `folder` has a fake one, None is the real one's."""

    folder: Path | None
    profile: Path | None = None

    def environment(self) -> dict[str, str]:
        """What a process needs to load this NVML."""
        if self.folder is None:
            return dict(os.environ)
        named = str(self.profile or _NOWHERE)
        return {**os.environ, "LD_LIBRARY_PATH": str(self.folder), "HPCKIT_FAKE_NVML": named}

    def python(self, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python where this NVML is."""
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env=self.environment(),
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=True,
        )

    def look(self, limit_s: float = 30.0) -> Look:
        """Read NVML and understand it, as hpckit does."""
        ran = self.python(_LOOK, str(limit_s))
        topology = msgspec.json.decode(ran.stdout, type=NodeTopology)
        return Look(topology=topology, stderr=ran.stderr)
