"""scontrol show config: the version of Slurm and how the cluster is set up."""

from __future__ import annotations

import re

from hpckit.model.cluster import SlurmConfig
from hpckit.parse.slurm_text import Place, slurm_version, value

_TOOL = "scontrol show config"
_HEADING = "Configuration data as of "
_NUMBER = re.compile(r"\d{1,10}", re.ASCII)


def scontrol_config_argv(cluster: str | None) -> tuple[str, ...]:
    """The question: the configuration that slurmctld runs with.

    As text in every version: 24.11 takes `--json` and prints text all the same. Source:
    scontrol(1), "show config".
    """
    clusters = () if cluster is None else (f"--clusters={cluster}",)
    return ("scontrol", *clusters, "show", "config")


def parse_scontrol_config(text: str) -> SlurmConfig:
    """The answer to `scontrol_config_argv`; keys that hpckit has no use for are left out.

    Read up to the first empty line, as the sections of plugins follow it. Raises ParseError for a
    text that is no configuration and for a value that is not what its key promises.
    """
    said: dict[str, tuple[str, Place]] = {}
    for line_no, line in enumerate(text.split("\n"), start=1):
        place = Place(_TOOL, line_no, line)
        if line_no == 1 and not line.startswith(_HEADING):
            raise place.refuse("is no configuration", f"{_HEADING}…")
        if not line.strip():
            break
        key, equals, word = line.partition("=")
        if equals:
            said.setdefault(key.strip(), (word.strip(), place))
        elif line_no > 1:
            raise place.refuse("is no setting", "a key and a value such as MaxArraySize = 1001")
    words = {key: value(word) for key, (word, _) in said.items()}
    energy = words.get("AcctGatherEnergyType")
    return SlurmConfig(
        version=slurm_version(*said["SLURM_VERSION"]) if words.get("SLURM_VERSION") else None,
        cluster_name=words.get("ClusterName"),
        max_array_size=_number("MaxArraySize", said),
        topology_plugin=words.get("TopologyPlugin"),
        # 22.05 writes `none` where later versions write (null).
        energy_plugin=None if energy == "acct_gather_energy/none" else energy,
        mpi_default=words.get("MpiDefault"),
    )


def _number(key: str, said: dict[str, tuple[str, Place]]) -> int | None:
    if key not in said or value(said[key][0]) is None:
        return None
    word, place = said[key]
    if _NUMBER.fullmatch(word) is None:
        raise place.refuse(f"{key} is no number", f"{key} = 1001")
    return int(word)
