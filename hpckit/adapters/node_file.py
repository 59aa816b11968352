"""The file by which a node stands in for another machine, where there is one."""

from __future__ import annotations

from pathlib import Path

from hpckit.adapters.regular_file import read_regular
from hpckit.errors import StorageFailed
from hpckit.parse.node_file import NODE_FILE, NodeSettings, parse_node_file


def node_settings(path: Path = Path(NODE_FILE)) -> NodeSettings:
    """What the file says, or that this node is what it is. Raises ConfigError, StorageFailed."""
    try:
        text = read_regular(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return NodeSettings()
    except OSError as error:
        raise StorageFailed(f"{path} cannot be read: {error.strerror}") from error
    return parse_node_file(text)
