"""The topology that the sampler has read beside its samples; GPUs and machines are synthetic."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from hpckit.node.capture.snapshot import parse_snapshot
from hpckit.node.node_file import NodeSettings
from hpckit.sampler.main import TopologyProcess, write_topology
from tests.fakes.nvml_library import HEAD
from tests.unit.injob.conftest import Start

LIMIT_S: Final = 60.0
TARGET: Final = "account/restart-0/node-n1.topology.json"


@pytest.fixture
def sampler(tmp_path: Path, start: Start) -> Callable[..., subprocess.Popen[bytes]]:
    """Start a sampler whose job folder is `tmp_path`."""

    def started(env: Mapping[str, str] = {}) -> subprocess.Popen[bytes]:
        words = ("sample", "--out", str(tmp_path), "--hz", "5")
        return start(*words, env={"SLURMD_NODENAME": "n1", **env})

    return started


def ended(process: subprocess.Popen[bytes]) -> str:
    """End a sampler, and give what it said."""
    process.terminate()
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    return err.decode()


def wait_for(path: Path) -> None:
    """Return once the file is there."""
    until = time.monotonic() + LIMIT_S
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_the_sampler_has_its_node_read(
    tmp_path: Path, library: Path, sampler: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Soon after its start the file is there, for its owner alone, as `inspect` reads it."""
    (tmp_path / "gpus.toml").write_text(HEAD + 'gpus = 2\n[gpu]\nname = "NVIDIA H100"\n')
    process = sampler(
        {"LD_LIBRARY_PATH": str(library), "HPCKIT_FAKE_NVML": str(tmp_path / "gpus.toml")}
    )
    wait_for(tmp_path / TARGET)
    assert ended(process) == ""
    topology = parse_snapshot((tmp_path / TARGET).read_text())
    assert [gpu.name for gpu in topology.gpus] == ["NVIDIA H100"] * 2
    assert (tmp_path / TARGET).stat().st_mode & 0o777 == 0o600
    left = sorted(path.name for path in (tmp_path / TARGET).parent.iterdir())
    assert left == ["node-n1.samples", "node-n1.topology.json"]


def test_it_can_be_left_out(
    tmp_path: Path, sampler: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """HPCKIT_TOPOLOGY=0 starts no second process."""
    process = sampler({"HPCKIT_TOPOLOGY": "0"})
    wait_for(tmp_path / "account/restart-0/node-n1.samples")
    time.sleep(0.5)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    assert (children, ended(process)) == ("", "")
    assert not (tmp_path / TARGET).exists()


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    """A node is read once an incarnation: a sampler that begins again leaves the file alone."""
    (tmp_path / TARGET).parent.mkdir(parents=True)
    (tmp_path / TARGET).write_text("first")
    write_topology(str(tmp_path), TARGET, "n1", NodeSettings(sysroot=str(tmp_path)))
    assert (tmp_path / TARGET).read_text() == "first"


def test_a_job_folder_that_was_removed_stays_so(tmp_path: Path, start: Start) -> None:
    """One line says it, the exit code is 0, and no folder is made.

    A process whose parent is another, as once its sampler is gone, writes nothing.
    """
    orphan = start("topology", str(tmp_path), TARGET, "1")
    assert (orphan.communicate(timeout=LIMIT_S), orphan.returncode) == ((b"", b""), 0)
    assert list(tmp_path.glob("account")) == []
    gone = tmp_path / "gone"
    env = {"SLURMD_NODENAME": "n1", "SLURM_ARRAY_TASK_ID": "5"}
    process = start("topology", str(gone), TARGET, str(os.getpid()), env=env)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    who = "sampler on n1, array task 5"
    assert err.decode() == f"hpckit: {who}: topology: {gone}: No such file or directory\n"
    assert not gone.exists()


def sleeping(tmp_path: Path, code: str) -> TopologyProcess:
    """A process that was started, and runs this until it is over."""
    code = f"{code}; open({str(tmp_path / 'on')!r}, 'w'); import time; time.sleep(300)"
    words = [sys.executable, "-I", "-S", "-c", code]
    process = TopologyProcess(words, {"SLURMD_NODENAME": "n1"})
    process.look()
    wait_for(tmp_path / "on")
    return process


def reaped(process: TopologyProcess) -> None:
    """Look until it has no process any more."""
    until = time.monotonic() + LIMIT_S
    while process.pid is not None:
        assert time.monotonic() < until
        process.look()
        time.sleep(0.02)


def test_a_process_that_takes_too_long_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The alarm that ends it makes one line."""
    reaped(sleeping(tmp_path, "import signal; signal.setitimer(signal.ITIMER_REAL, 0.3)"))
    # A Python that was removed since fails nothing either.
    process = TopologyProcess(["/nonexistent/python"], {"SLURMD_NODENAME": "n1"})
    process.look()
    process.look()
    process.end()
    assert capfd.readouterr().err.splitlines() == [
        "hpckit: sampler on n1: topology unknown: it took too long",
        "hpckit: sampler on n1: topology: /nonexistent/python: No such file or directory",
    ]


def test_it_ends_with_the_sampler(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """end() kills it and does not wait, and nothing is said."""
    process = sleeping(tmp_path, "pass")
    pid = process.pid
    assert pid is not None
    process.end()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    process.look()
    assert (process.pid, capfd.readouterr().err) == (None, "")
