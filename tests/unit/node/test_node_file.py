"""The file by which a node stands in for another machine."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ConfigError
from hpckit.node.node_file import NodeSettings, parse_node_file

WHOLE = """
schema = "hpckit.node/1"
synthetic = true
sysroot = "/opt/machines/a"
nvml_profile = "/opt/profiles/a.toml"
"""


def test_every_key_is_read() -> None:
    """The file says where the files of the machine lie, and that they are made up."""
    assert parse_node_file(WHOLE) == NodeSettings(sysroot="/opt/machines/a", is_synthetic=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "schema"),
        ('schema = "hpckit.node/2"', "expected 'hpckit.node/1'"),
        (WHOLE + "gpus = 8", "gpus: unknown key"),
        (WHOLE.replace("true", '"yes"'), "synthetic"),
        ("= 1", "not valid TOML"),
    ],
)
def test_anything_else_is_refused(text: str, said: str) -> None:
    """Another schema, another key and another type raise ConfigError that names the file."""
    with pytest.raises(ConfigError, match=said) as caught:
        parse_node_file(text)
    assert "/etc/hpckit/node.toml" in str(caught.value)
