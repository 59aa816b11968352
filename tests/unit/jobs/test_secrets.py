"""Secrets by reference: read from the shell or a private file, and refused without showing them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpckit.core.errors import ConfigError, StorageFailed
from hpckit.jobs.secrets import secrets_of
from hpckit.spec.job import EnvironmentRequest


def read(tmp_path: Path, shell: dict[str, str], **request: Any) -> dict[str, str]:
    """The secrets of a request whose job file and home are in `tmp_path`."""
    return secrets_of(EnvironmentRequest(**request), shell, tmp_path, tmp_path)


def private(path: Path, data: bytes, mode: int = 0o600) -> Path:
    """A file of this mode."""
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_from_the_shell_and_from_files(tmp_path: Path) -> None:
    """A variable as it is set; a file beside the job file or at home, less its last newline."""
    private(tmp_path / "key", b"line 1\nline 2\n")
    files = {"A": "key", "B": "~/key", "C": str(tmp_path / "key")}
    values = read(tmp_path, {"T": " x "}, secrets=("T",), secret_files=files)
    assert values == {"T": " x ", **dict.fromkeys("ABC", "line 1\nline 2")}


@pytest.mark.parametrize("shell", [{}, {"T": ""}])
def test_a_variable_that_is_not_set(tmp_path: Path, shell: dict[str, str]) -> None:
    """It is named, with a way to set it that leaves no trace in the shell's history."""
    with pytest.raises(ConfigError, match="T is not set in this shell") as caught:
        read(tmp_path, shell, secrets=("T",))
    assert "read -rs T" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("data", "mode", "says"),
    [
        (b"secret", 0o640, "other users can read"),
        (b"secret", 0o602, "can be changed by"),
        (b"", 0o600, "expected up to 64 KiB"),
        (b"\n", 0o600, "expected up to 64 KiB"),
        (b"sec\0ret", 0o600, "expected up to 64 KiB"),
        (b"\xff\xfe", 0o600, "is not UTF-8 text"),
        (b"secret" * 20000, 0o600, "expected up to 64 KiB of text"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, data: bytes, mode: int, says: str) -> None:
    """What others may read or change, and what no variable can hold, is refused, and not shown."""
    private(tmp_path / "key", data, mode)
    with pytest.raises((ConfigError, StorageFailed), match=says) as caught:
        read(tmp_path, {}, secret_files={"K": "key"})
    assert "secret" not in str(caught.value).replace("secret_files", "")


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    """It is named."""
    with pytest.raises(ConfigError, match=r"secret_files\.K: .*key cannot be read"):
        read(tmp_path, {}, secret_files={"K": "key"})
