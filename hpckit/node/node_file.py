"""/etc/hpckit/node.toml: a node that stands in for another machine says which, and that it does.

A compute node of the test cluster shows the files and the GPU driver of a machine that it is not.
No real node has this file. Only the standard library is used: the probe of other nodes reads it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from hpckit.core.errors import ConfigError, StorageFailed
from hpckit.core.files_in_job import read_regular
from hpckit.core.values import dataclass

NODE_FILE: Final = "/etc/hpckit/node.toml"
NODE_SCHEMA: Final = "hpckit.node/1"
# `nvml_profile` is for the library that stands in for NVML.
_KEYS: Final = {"schema": str, "synthetic": bool, "sysroot": str, "nvml_profile": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Where a node's /sys and /proc are found, and whether what they say is made up."""

    sysroot: str = "/"
    is_synthetic: bool = False


def parse_node_file(text: str) -> NodeSettings:
    """What the file says. Raises ConfigError for anything but its keys."""
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"is not valid TOML: {error}", source=NODE_FILE) from error
    for key, value in tree.items():
        expected = _KEYS.get(key)
        if expected is None:
            raise ConfigError(
                "unknown key", source=NODE_FILE, key=key, hint=f"keys: {', '.join(_KEYS)}"
            )
        if not isinstance(value, expected):
            raise ConfigError(f"got {value!r}", source=NODE_FILE, key=key)
    if tree.get("schema") != NODE_SCHEMA:
        raise ConfigError(f"expected {NODE_SCHEMA!r}", source=NODE_FILE, key="schema")
    return NodeSettings(
        sysroot=tree.get("sysroot", "/"),
        is_synthetic=tree.get("synthetic", False),
    )


def node_settings(path: Path = Path(NODE_FILE)) -> NodeSettings:
    """What the file says, or that this node is what it is. Raises ConfigError, StorageFailed."""
    try:
        text = read_regular(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return NodeSettings()
    except OSError as error:
        raise StorageFailed(f"{path} cannot be read: {error.strerror}") from error
    return parse_node_file(text)
