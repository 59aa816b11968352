"""`hpckit sample`, as a person starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpckit.model.samples import Block, read_blocks


def hpckit(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    root = str(Path(__file__).resolve().parents[3])
    return subprocess.run(
        [sys.executable, "-m", "hpckit", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": root, "SLURMD_NODENAME": "n1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_folder_is_made_and_the_next_command_said(tmp_path: Path) -> None:
    """It ends with what was written, and what reads it."""
    done = hpckit("sample", "--out", "new/samples", "--duration", "0.2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    path = "new/samples/account/restart-0/node-n1.samples"
    assert path in done.stdout
    assert done.stdout.splitlines()[-1] == " next   hpckit report --from new/samples"
    blocks = list(read_blocks((tmp_path / path).read_bytes()))
    assert all(isinstance(one, Block) for one in blocks)


def test_nothing_is_shown_where_nobody_looks(tmp_path: Path) -> None:
    """Without a terminal there is no line of progress."""
    done = hpckit("sample", "--out", ".", "--hz", "50", "--duration", "0.2", cwd=tmp_path)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--hz", "101", "0.01<=x<=100"),
        ("--hz", "0", "0.01<=x<=100"),
        ("--duration", "0", "0<x<=31622400"),
        ("--duration", "-1", "0<x<=31622400"),
    ],
)
def test_error_says_the_range(tmp_path: Path, option: str, value: str, said: str) -> None:
    """A rate or a time that cannot be is a usage error with what can be."""
    done = hpckit("sample", "--out", ".", option, value, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("option", "value"),
    [("--hz", "nan"), ("--duration", "nan"), ("--duration", "inf"), ("--out", "")],
)
def test_no_number_is_a_rate(tmp_path: Path, option: str, value: str) -> None:
    """What is no finite number is a usage error too, and so is no folder; the option is named."""
    done = hpckit("sample", "--out", ".", option, value, cwd=tmp_path)
    assert done.returncode == 2
    assert f"Invalid value for '{option}'" in done.stderr
    assert "hpckit sample" in done.stderr


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A file in the folder's place is named."""
    (tmp_path / "file").touch()
    done = hpckit("sample", "--out", "file/below", "--duration", "0.1", cwd=tmp_path)
    assert done.returncode == 7
    assert "file/below" in done.stderr


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a b", "'a b'"),
        ("a\x1b[31m\nb'\\é", "$'a\\U0000001b[31m\\U0000000ab\\'\\\\é'"),
    ],
)
def test_the_next_command_can_be_pasted(tmp_path: Path, name: str, shown: str) -> None:
    """A folder with any name is a word of the shell, and steers no terminal."""
    done = hpckit("sample", "--out", name, "--duration", "0.1", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == f" next   hpckit report --from {shown}"
    assert len(done.stdout.splitlines()) == 3
    word = subprocess.run(
        ["bash", "-c", f"printf %s {shown}"],
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=True,
    )
    assert word.stdout.decode() == name
