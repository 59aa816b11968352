"""Site files drafted from a cluster, and what drifted from them."""

from __future__ import annotations

import tomllib
from dataclasses import replace

from hpckit.core.document import convert, parse_toml
from hpckit.core.findings import Severity
from hpckit.slurm.release import SlurmVersion, TopologyKind
from hpckit.slurm.values import ClusterView, NodeGroup, Partition, PartitionRules, SlurmConfig
from hpckit.spec.site import SiteSpec
from hpckit.spec.site_draft import draft_site, site_drift

H100 = NodeGroup(nodes=4, cpus=64, mem_mib=1_000_000, gpus=8, gpu_types=("h100",), features=("ib",))
BIG = NodeGroup(nodes=1, cpus=64, mem_mib=4_000_000)
GPU = PartitionRules(
    name="gpu", is_default=True, max_time_s=86400, max_nodes=3, nodes="n[1-5]", total_nodes=5
)
ODD = PartitionRules(name="a.b", nodes="n1", total_nodes=1)
ROOT = PartitionRules(name="admin", root_only=True, total_nodes=5)
VIEW = ClusterView(
    config=SlurmConfig(
        version=SlurmVersion(24, 11), cluster_name="north", max_array_size=1001
    ),
    partitions=(
        Partition(name="gpu", is_default=True, is_up=True, time_limit_s=86400, groups=(BIG, H100)),
    ),
    seen_s=0.0,
)  # fmt: skip
RULES = (GPU, ODD, ROOT)


def site(text: str) -> SiteSpec:
    """The site of a file."""
    return convert(parse_toml(text, "north.toml"), SiteSpec, "north.toml")


DRAFT = draft_site("north", VIEW, RULES, TopologyKind.TREE)


def test_the_commonest_kind_of_node_stands_for_a_partition() -> None:
    """Each line has its source; other kinds are told; what only root may use is left out."""
    gpu = tomllib.loads(DRAFT)["partitions"]["gpu"]
    assert gpu == {
        **{"nodes": 3, "cpus_per_node": 64, "mem_per_node": "1000000M", "gpus_per_node": 8},
        **{"gpu_type": "h100", "features": ["ib"], "time_limit": "1-00:00:00", "default": True},
    }
    assert set(tomllib.loads(DRAFT)["partitions"]) == {"gpu", "a.b"}
    assert "# other nodes of this partition (1): cpus_per_node 64" in DRAFT
    assert all("#" in line for line in DRAFT.splitlines() if line.startswith(("nodes", "max_")))


def test_the_draft_names_a_plugin_of_mpi_where_the_cluster_has_no_default() -> None:
    """PMIx before the older PMI, and where it comes from."""
    view = replace(VIEW, config=replace(VIEW.config, mpi_types=("none", "pmi2", "pmix")))
    draft = draft_site("north", view, RULES, TopologyKind.TREE)
    assert site(draft).slurm.mpi == "pmix"
    assert "# MpiDefault is none; srun --mpi=list: none, pmi2, pmix" in draft
    assert site(DRAFT).slurm.mpi is None


def test_a_draft_has_not_drifted() -> None:
    """The file of a cluster says what the cluster says, but for a kind it has no place for."""
    found = site_drift(site(DRAFT), VIEW, RULES, TopologyKind.TREE)
    assert [(one.rule, one.severity) for one in found] == [("node-kind-new", Severity.NOTE)]


def test_what_drifted_is_named() -> None:
    """A partition renamed, a limit lowered, another release: each with the line to write."""
    view = replace(VIEW, config=replace(VIEW.config, version=SlurmVersion(25, 5)))
    rules = (replace(GPU, max_time_s=3600), replace(ODD, name="c"))
    found = {one.subject: one for one in site_drift(site(DRAFT), view, rules, TopologyKind.TREE)}
    assert found["slurm.version"].remedy == 'version = "25.05"'
    assert found["partitions.gpu.time_limit"].remedy == 'time_limit = "01:00:00"'
    assert found["partitions.a.b"].rule == "partition-gone"
    assert (found["partitions.c"].rule, found["partitions.c"].severity) == (
        *("partition-new", Severity.NOTE),
    )
