"""The answer of scontrol show config."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ParseError
from hpckit.slurm.scontrol import parse_scontrol_config, scontrol_config_argv
from hpckit.slurm.values import SlurmConfig, SlurmVersion
from tests.fakes.slurm_records import record_text

VERSIONS = {
    "scontrol-config-22.05.8": (SlurmVersion(22, 5, 8), 101),
    "scontrol-config-24.11.5": (SlurmVersion(24, 11, 5), 1001),
    "scontrol-config-26.05.5": (SlurmVersion(26, 5, 5), 101),
}
HEADING = "Configuration data as of 2026-11-21T09:59:57\n"


def test_the_question() -> None:
    """The question names the cluster only where there are several."""
    assert scontrol_config_argv(None) == ("scontrol", "show", "config")
    assert "--clusters=north" in scontrol_config_argv("north")


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_gives_one_record(version: str) -> None:
    """Whatever else a version prints, what hpckit asks for is the same."""
    assert parse_scontrol_config(record_text(version, "docker")) == SlurmConfig(
        version=VERSIONS[version][0],
        cluster_name="hpckit",
        max_array_size=VERSIONS[version][1],
        topology_plugin="topology/tree",
    )


def test_a_missing_key_is_none() -> None:
    """A version that prints none of the keys is understood."""
    assert parse_scontrol_config(HEADING + "SomethingNew = 7\n\nSlurmctld(primary) at a is UP") == (
        SlurmConfig()
    )


def test_values_are_kept_as_written() -> None:
    """A plugin that hpckit does not know is its name; a value may hold an equals sign."""
    config = parse_scontrol_config(
        f"{HEADING}TopologyPlugin = topology/new\nClusterName = b=c\nMaxArraySize = (null)\n"
    )
    assert (config.topology_plugin, config.cluster_name) == ("topology/new", "b=c")
    assert config.max_array_size is None


def test_the_sections_of_plugins_are_passed_over() -> None:
    """What follows the first empty line is not the cluster's own."""
    config = parse_scontrol_config(f"{HEADING}ClusterName = a\n\nMPI\nClusterName = b\nbanner\n")
    assert config.cluster_name == "a"


@pytest.mark.parametrize(
    ("text", "line_no"),
    [
        ("", 1),
        ("MaxArraySize = 1001\n", 1),
        (HEADING + "banner\n", 2),
        (HEADING + "\n".join(("MaxArraySize = many", "")), 2),
        (HEADING + "ClusterName = a\nSLURM_VERSION = new\n", 3),
    ],
)
def test_what_is_not_understood_is_an_error(text: str, line_no: int) -> None:
    """The error names the line."""
    with pytest.raises(ParseError) as caught:
        parse_scontrol_config(text)
    assert (caught.value.tool, caught.value.line_no) == ("scontrol show config", line_no)
