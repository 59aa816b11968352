"""What a cluster's network is: from a file, or as Slurm says now."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.app.live_checks import ClusterProbe
from hpckit.decide.rails import with_rails
from hpckit.decide.slurm_tree import slurm_tree
from hpckit.errors import ConfigError
from hpckit.model.fabric import ClusterTopology
from hpckit.parse.fabric_file import fabric_text, parse_fabric


def read_fabric(data: bytes, name: str) -> tuple[ClusterTopology, ...]:
    """The topologies that a file tells of, at least one. Raises ParseError."""
    return tuple(with_rails(one) for one in parse_fabric(fabric_text(data, name), name))


def fabric_of_slurm(probe: ClusterProbe, *, fresh: bool = False) -> tuple[ClusterTopology, ...]:
    """The topologies that Slurm has, at least one.

    Raises ConfigError where it has none, AdapterError where it does not answer.
    """
    found = tuple(probe.topologies(None, fresh=fresh))
    if not found:
        raise ConfigError(
            "Slurm knows no switches or blocks here (TopologyPlugin is flat)",
            hint="name a FILE: what ibnetdiscover printed, a topology.conf, a cloud's JSON",
        )
    return tuple(with_rails(one) for one in found)


def choose(topologies: Sequence[ClusterTopology], name: str | None, source: str) -> ClusterTopology:
    """The topology of this name, or of the partition of this name, or the default one.

    Raises ConfigError where there is none.
    """
    if name is not None:
        for one in topologies:
            if name == one.name or name in one.partitions:
                return one
        named = ", ".join(one.name for one in topologies if one.name) or "one without a name"
        raise ConfigError(
            f"{source} has no topology {name!r}", key="--topology", hint=f"it has {named}"
        )
    defaults = [one for one in topologies if one.is_default]
    return (defaults or list(topologies))[0]


def export_text(topologies: Sequence[ClusterTopology], format_: str) -> str:
    """The topologies as Slurm reads them: topology.conf or topology.yaml. Raises RenderError."""
    trees = [slurm_tree(one) for one in topologies]
    if format_ == "topology.yaml":
        from hpckit.render.topology_yaml import topology_yaml_text  # noqa: PLC0415  one of two

        return topology_yaml_text(trees)
    from hpckit.render.topology_conf import topology_conf_text  # noqa: PLC0415

    return topology_conf_text(trees[0])
