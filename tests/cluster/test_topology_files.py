"""topology.conf and topology.yaml: what hpckit reads a real slurmctld takes, and what it writes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from hpckit.fabric.slurm_files import parse_topology_conf, parse_topology_yaml
from hpckit.fabric.slurm_live import parse_scontrol_topology
from hpckit.fabric.slurm_writer import topology_conf_text, topology_yaml_text
from hpckit.fabric.topology import ClusterTopology, FabricSource
from hpckit.slurm.values import TopologyKind
from tests.cluster.cluster import Cluster, Containers
from tests.cluster.conftest import ClusterOf
from tests.fakes.fabric_scenes import FABRICS, as_slurm_sees
from tests.fakes.slurm_records import RECORDS
from tests.fakes.slurmctld_verdicts import LATELY, REFUSED, TAKEN

TRIALS = Path(__file__).with_name("slurmctld_trials.py")
SUITES = ("bookworm", "trixie", "forky")
HEAD = """\
ClusterName=trial
SlurmctldHost=login
AuthType=auth/munge
CredType=cred/munge
SlurmUser=root
MailProg=/bin/true
StateSaveLocation=/tmp/slurmctld-trial
SlurmctldPidFile=/tmp/slurmctld-trial/pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=600
SlurmctldParameters=idle_on_node_suspend,cloud_dns
PartitionName=main Nodes=ALL Default=YES State=UP
"""


@pytest.fixture(scope="module", params=SUITES)
def suite(request: pytest.FixtureRequest) -> str:
    """The Debian release that the hosts run."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def cluster(cluster_of: ClusterOf, suite: str) -> Cluster:
    """A cluster of that release, on whose login host other slurmctld are tried."""
    return cluster_of(suite)


def conf(text: str, nodes: Iterable[str], name: str = "topology.conf") -> dict[str, str]:
    """The configuration of a slurmctld with this topology."""
    lines = [f"NodeName={node} CPUs=1 State=CLOUD\n" for node in nodes]
    plugin = "block" if "BlockName" in text else "tree"
    first = "" if name == "topology.yaml" else f"TopologyPlugin=topology/{plugin}\n"
    return {"slurm.conf": HEAD + first + "".join(lines), name: text}


def tried(
    on: Containers, confs: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str | None]]:
    """What became of a slurmctld on each."""
    argv = ["python3", "-c", TRIALS.read_text(encoding="utf-8")]
    done = on.run(argv, user="root", input=json.dumps(confs), timeout_s=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, str | None]] = json.loads(done.stdout)
    return found


def verdicts(on: Containers, suite: str) -> list[str]:
    """The cases of which this release says another thing than hpckit does."""
    texts = {**TAKEN, **{case: text for case, (text, _, _) in REFUSED.items()}}
    texts.pop("another file")  # slurmctld looks for it for a minute
    if suite == "bookworm":
        texts = {
            case: text for case, text in texts.items() if "Block" not in text and case not in LATELY
        }
    nodes = [f"c{number}" for number in range(1, 9)]
    found = tried(on, {case: conf(text, nodes) for case, text in texts.items()})
    return [
        f"{case}: {one['log']}"
        for case, one in found.items()
        if (one["topology"] is not None) != (case in TAKEN)
    ]


def differences(on: Containers, suite: str) -> list[str]:
    """The fabrics that this release does not show as they were written."""
    kinds = {TopologyKind.TREE} if suite == "bookworm" else {TopologyKind.TREE, TopologyKind.BLOCK}
    given = {name: one for name, one in FABRICS.items() if one.plugin in kinds}
    confs = {name: conf(topology_conf_text(one), one.nodes) for name, one in given.items()}
    wanted = {
        name: parse_topology_conf(topology_conf_text(one), name) for name, one in given.items()
    }
    if suite == "forky":
        for name, one in given.items():
            text = topology_yaml_text([one])
            confs[f"{name}.yaml"] = conf(text, one.nodes, "topology.yaml")
            wanted[f"{name}.yaml"] = parse_topology_yaml(text, name)[0]
    found = tried(on, confs)
    return [
        f"{name}: {one['log']}\n{one['topology']}"
        for name, one in found.items()
        if one["topology"] is None or shown(one["topology"]) != as_slurm_sees(wanted[name])
    ]


def shown(text: str) -> ClusterTopology:
    """The one topology that scontrol printed, as `as_slurm_sees` has it."""
    (found,) = parse_scontrol_topology(text)
    return as_slurm_sees(found)


def test_each_verdict_is_slurmctlds_own(cluster: Cluster, suite: str) -> None:
    """What hpckit reads of topology.conf each release takes, and what it refuses ends it."""
    assert verdicts(cluster, suite) == []


def test_what_is_written_is_taken_and_shown_again(cluster: Cluster, suite: str) -> None:
    """Each release takes the files that hpckit writes, and scontrol shows the same topology."""
    assert differences(cluster, suite) == []


def test_a_file_of_each_kind(cluster: Cluster, suite: str) -> None:
    """26.05 takes the synthetic topology.yaml of each kind, and as hpckit writes it again."""
    if suite != "forky":
        pytest.skip("topology.yaml is of Slurm 25.05 and later")
    assert kinds_refused(cluster) == []


def kinds_refused(on: Containers) -> list[str]:
    """Which of the two files slurmctld ends on."""
    path = RECORDS / "topology-yaml-26.05.5" / "synthetic-kinds" / "topology.yaml"
    text = path.read_text(encoding="utf-8")
    topologies = [one for one in parse_topology_yaml(text, path.name) if one.plugin]
    again = topology_yaml_text(
        [dataclasses.replace(one, source=FabricSource.AWS) for one in topologies]
    )
    nodes = ["n01", "n02", "n03", "n04"]
    confs = {"as it is": text, "rewritten": again}
    found = tried(on, {name: conf(one, nodes, path.name) for name, one in confs.items()})
    return [f"{name}: {one['log']}" for name, one in found.items() if one["topology"] is None]
