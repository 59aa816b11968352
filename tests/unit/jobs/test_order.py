"""What a job takes with it in order to order its nodes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import ParseError, SchedulerUnreachable, ToolMissing
from hpckit.fabric.topology import ClusterTopology
from hpckit.jobs.order import order_plan
from hpckit.jobs.prepare import PreparedJob
from hpckit.jobs.submit import submit
from hpckit.placement.order_plan import ORDER_FILE, OrderPlan
from hpckit.slurm.values import ClusterView, SlurmConfig, SlurmVersion
from tests.fakes.cluster_probe import FakeClusterProbe
from tests.fakes.fabric_scenes import blocks, tree
from tests.fakes.prepared import prepared
from tests.fakes.world import World, caller_in

TREE = tree({"leaf1": "spine", "leaf2": "spine"}, {"leaf1": ["c1", "c3"], "leaf2": ["c2", "c4"]})
RACKS = replace(
    blocks({"b1": ["c1", "c2"], "b2": ["c3", "c4"]}),
    name="racks",
    is_default=False,
    partitions=("nvl",),
)
FLAT = ClusterTopology(source=TREE.source, name="plain", is_default=False, partitions=("any",))
NOBODY = SchedulerUnreachable("nobody asked for the partitions")
JOB = "[resources]\nnodes = 4\nntasks_per_node = 2\n"


def job(text: str = "", site: str | None = None) -> PreparedJob:
    """A job of eight ranks on four nodes."""
    return prepared(f'name = "x"\ncommand = ["x"]\n{JOB}{text}', site=site)


def probe(*topologies: ClusterTopology) -> FakeClusterProbe:
    """A cluster with these."""
    return FakeClusterProbe(NOBODY, topologies=topologies)


def planned(
    text: str = "", *topologies: ClusterTopology, partition: str | None = None
) -> OrderPlan:
    """The plan of a job for which there is one."""
    found, notes = order_plan(job(text), probe(*(topologies or (TREE,))), None, partition)
    assert found is not None
    assert not notes
    return found


def test_the_plan_is_mesh_and_network() -> None:
    """What the ranks send, the nearness of all nodes, and the speeds that are taken."""
    found = planned("[parallel]\ntensor = 2\ndata = 4\n[place]\nvolume = { data = 4e9 }\n")
    assert [(axis.name, axis.size, axis.bytes_per_rank) for axis in found.mesh.axes] == [
        ("tensor", 2, 0.0),
        ("data", 4, 4e9),
    ]
    assert found.ranks_per_node == 2
    assert sorted(found.locality.domain_of) == ["c1", "c2", "c3", "c4"]
    assert (found.speeds.nic_bytes_per_s, found.speeds.oversubscription) == (5e10, 2.0)
    assert found.source == "topology.conf"


@pytest.mark.parametrize(
    "text",
    [
        "[place]\norder = false\n",
        "[launch]\ndistribution = 'cyclic'\n",
        "[slurm.srun_extra]\nnodelist = 'c1'\n",
    ],
)
def test_nobody_is_asked_for_a_job_that_orders_nothing(text: str) -> None:
    """Its script would not use the plan."""
    slurm = probe(TREE)
    assert order_plan(job(text), slurm, None) == (None, ())
    assert not slurm.asked


def test_one_node_and_local_jobs_have_no_order() -> None:
    """Nor is there a cluster to ask on this machine."""
    slurm = probe(TREE)
    for site in (None, "local"):
        one = prepared('name = "x"\ncommand = ["x"]\n', site=site)
        assert order_plan(one, slurm, None) == (None, ())
    assert order_plan(job(), None, None) == (None, ())
    assert not slurm.asked


@pytest.mark.parametrize("error", [ToolMissing("no scontrol", hint="install it"), NOBODY])
def test_a_slurm_that_does_not_answer_is_a_note(error: Exception) -> None:
    """The job is submitted all the same."""
    found, (note,) = order_plan(job(), FakeClusterProbe(NOBODY, topologies=error), None)
    assert found is None
    assert "the cluster's network is unknown" in note.text
    assert note.text.startswith("ranks keep Slurm's order: ")


def test_an_answer_that_is_not_understood_is_a_note() -> None:
    """As is a mesh that has no order: experts that do not divide the data axis."""
    error = ParseError("odd", tool="scontrol show topology", line_no=1, line="x", expected="y")
    _, (note,) = order_plan(job(), FakeClusterProbe(NOBODY, topologies=error), None)
    assert "is unknown" in note.text
    _, (note,) = order_plan(
        job("[parallel]\ntensor = 4\ndata = 2\nexpert = 4\n"), probe(TREE), None
    )
    assert "no node order for this job: the expert axis must divide the data axis" in note.text
    _, (note,) = order_plan(job("[place]\nvolume = { tensor = 1e9 }\n"), probe(TREE), None)
    assert "tensor" in note.text


@pytest.mark.parametrize(
    ("partition", "domains"),
    [
        ("nvl", {"b1", "b2"}),
        ("other,nvl", {"b1", "b2"}),
        ("main", {"leaf1", "leaf2"}),
        (None, {"leaf1", "leaf2"}),
    ],
)
def test_a_partition_has_its_own_topology(partition: str | None, domains: set[str]) -> None:
    """Else it is the default; sbatch's own partition counts where the job names none."""
    for text, given in ((f"[slurm]\npartition = '{partition}'\n", "main"), ("", partition)):
        if partition is None and text:
            continue
        locality = planned(text, RACKS, TREE, partition=given).locality
        assert {locality.domains[at].name for at in locality.domain_of.values()} == domains


def test_a_flat_topology_is_none() -> None:
    """A partition without switches has nothing to order by."""
    assert order_plan(job("[slurm]\npartition = 'any'\n"), probe(TREE, FLAT), None) == (None, ())
    assert order_plan(job(), probe(), None) == (None, ())


def test_the_plan_lies_in_the_job_folder(tmp_path: Path) -> None:
    """And a note of why there is none is one of the submission's."""
    made = job(site="docker")
    made = replace(made, site=replace(made.site, job_root=str(tmp_path)))
    world = World(probe=probe(TREE))
    found = submit(made, caller_in(tmp_path), replace(world.tools(), checks=False))
    document = json.loads((found.folder / ORDER_FILE).read_text())
    assert (document["schema"], document["source"]) == ("hpckit.order/1", "topology.conf")
    world = World(probe=FakeClusterProbe(NOBODY, topologies=NOBODY))
    made = replace(made, site=replace(made.site, job_root=str(tmp_path / "other")))
    found = submit(made, caller_in(tmp_path), replace(world.tools(), checks=False))
    assert not (found.folder / ORDER_FILE).exists()
    assert [note.subject for note in found.notes] == ["order"]


@pytest.mark.parametrize(
    ("launch", "version", "default", "is_ordered"),
    [
        ("kind = 'mpi'\nmpi = 'pmi2'", SlurmVersion(23, 11), None, False),
        ("kind = 'mpi'\nmpi = 'pmi2'", None, None, False),
        ("kind = 'mpi'\nmpi = 'pmi2'", SlurmVersion(24, 5), None, True),
        ("kind = 'mpi'\nmpi = 'pmix'", SlurmVersion(23, 11), "pmi2", True),
        ("kind = 'mpi'", SlurmVersion(23, 11), "pmi2", False),
        ("kind = 'mpi'", SlurmVersion(23, 11), "none", True),
        ("kind = 'plain'", SlurmVersion(23, 11), "pmi2", True),
    ],
)
def test_an_old_pmi2_has_no_order(
    launch: str, version: SlurmVersion | None, default: str | None, is_ordered: bool
) -> None:
    """Before 24.05 it tells MPI a map of ranks and nodes that leaves the order out."""
    view = ClusterView(
        config=SlurmConfig(version=version, mpi_default=default), partitions=(), seen_s=0.0
    )
    slurm = FakeClusterProbe(view, topologies=(TREE,))
    found, notes = order_plan(job(f"[launch]\n{launch}\n"), slurm, None)
    assert (found is not None) == is_ordered == (not notes)
    if notes:
        assert "Slurm 24.05 or later, or PMIx" in notes[0].text
