"""Secrets that a job's ranks get by reference: one file has their values, until its end."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hpckit.core.errors import ConfigError
from hpckit.core.files_in_job import open_regular
from hpckit.core.trust import must_be_ours
from hpckit.spec.job import EnvironmentRequest

_MOST_BYTES: Final = 64 * 1024
"""Linux gives one variable 128 KiB (execve(2), MAX_ARG_STRLEN)."""


def secrets_of(
    request: EnvironmentRequest, environment: Mapping[str, str], home: Path, folder: Path
) -> dict[str, str]:
    """Return name → value of each secret, from the caller's shell or from the files named.

    A file is looked for beside the job file, which is in `folder`, and loses the newline at its
    end. Raises ConfigError, StorageFailed and Untrusted; none shows a value.
    """
    values: dict[str, str] = {}
    for name in request.secrets:
        if not environment.get(name):
            raise ConfigError(
                f"{name} is not set in this shell",
                key="environment.secrets",
                hint=f"read -rs {name}; export {name}   # then submit again",
            )
        values[name] = environment[name]
    for name, path in request.secret_files.items():
        key = f"environment.secret_files.{name}"
        expanded = str(home) + path[1:] if path == "~" or path.startswith("~/") else path
        values[name] = _read(folder / expanded, key)
    return values


def secrets_text(values: Mapping[str, str]) -> str:
    """Return what the job's runner reads."""
    return json.dumps({"schema": "hpckit.secrets/1", "values": dict(values)})


def _read(path: Path, key: str) -> str:
    must_be_ours(path)
    try:
        with open_regular(path) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", key=key) from error
    if mode & 0o077:
        raise ConfigError(f"other users can read {path}", key=key, hint=f"chmod 600 {path}")
    try:
        text = data.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text", key=key) from error
    if not text or "\0" in text or len(data) > _MOST_BYTES:
        raise ConfigError(f"expected up to 64 KiB of text in {path}", key=key)
    return text
