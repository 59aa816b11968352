"""Whether a partition can hold a job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpckit.core.findings import Level
from hpckit.script.checks import Aim, fit_findings
from hpckit.slurm.values import NodeGroup, Partition
from tests.fakes.prepared import prepared

GPU = Partition(
    name="gpu",
    is_default=True,
    is_up=True,
    time_limit_s=86400,
    groups=(
        NodeGroup(nodes=4, cpus=64, mem_mib=1_000_000, gpus=8, gpu_types=("h100",)),
        NodeGroup(nodes=10, cpus=32, mem_mib=500_000, gpus=4, gpu_types=("a100",)),
    ),
)
LONG = replace(GPU, name="long", is_default=False, time_limit_s=None)
CPU = Partition(
    name="cpu",
    is_default=False,
    is_up=False,
    time_limit_s=3600,
    groups=(NodeGroup(nodes=100, cpus=16, mem_mib=64_000),),
)
ALL = (GPU, LONG, CPU)


def found(resources: str, slurm: str = "") -> list[tuple[Level, str, str]]:
    """What is found about a job: level, subject and text."""
    text = f'name = "x"\ncommand = ["x"]\n[resources]\n{resources}\n[slurm]\n{slurm}'
    spec = prepared(text, site=None).effective.spec
    aim = Aim(partition=spec.slurm.partition or "gpu", qos=spec.slurm.qos)
    return [(one.level, one.subject, one.text) for one in fit_findings(spec, ALL, aim)]


@pytest.mark.parametrize(
    ("resources", "slurm"),
    [
        ("nodes = 14", ""),
        ("nodes = 14\ngpus_per_node = 4", ""),
        ("nodes = 4\ngpus_per_node = 8\ngpu_type = 'h100'\nmem = '900G'", ""),
        ("nodes = 10\ngpu_type = 'a100'\ngpus_per_node = 1", ""),
        ("time_limit = '1-0'", ""),
        ("time_limit = '30-0'", "partition = 'long'"),
        ("time_limit = '30-0'", "partition = 'gpu,long'"),
        ("nodes = 14", "partition = ',gpu,'"),
        ("nodes = 99", "partition = ','"),
        ("ntasks_per_node = 65", "extra = { overcommit = true }"),
        ("mem = '0'", ""),
        ("time_limit = '2-0'", "extra = { time-min = '2:00:00' }"),
    ],
)
def test_what_fits_is_not_found(resources: str, slurm: str) -> None:
    """A job that one of its partitions can hold is not held back."""
    assert found(resources, slurm) == []


@pytest.mark.parametrize(
    ("resources", "slurm", "subject", "words"),
    [
        ("nodes = 15", "", "nodes", "15 are asked for, and partition gpu has 14"),
        ("nodes = 5\ngpus_per_node = 8", "", "nodes", "partition gpu has 4 such nodes"),
        ("gpus_per_node = 16", "", "GPUs", "a node of partition gpu has 8"),
        ("gpus_per_node = 1\ngpu_type = 'b200'", "", "GPUs", "has h100, a100"),
        ("gpus_per_node = 8\ngpu_type = 'a100'", "", "GPUs", "has 4"),
        ("gpus_per_node = 1", "partition = 'cpu'", "GPUs", "a node of partition cpu has 0"),
        ("ntasks_per_node = 13\ncpus_per_task = 5", "", "CPUs", "65 of a node are asked for"),
        ("mem = '2T'", "", "memory", "has 1000000M"),
        ("time_limit = '2-0'", "", "time", "2-00:00:00 is over the 1-00:00:00"),
        ("time_limit = '2-0'", "extra = { time-min = '0' }", "time", "2-00:00:00 is over"),
    ],
)
def test_what_does_not_fit_is_an_error(
    resources: str, slurm: str, subject: str, words: str
) -> None:
    """What no node of the partition has is said with what there is."""
    errors = [one for one in found(resources, slurm) if one[0] is Level.ERROR]
    assert [one[1] for one in errors] == [subject]
    assert words in errors[0][2]


def test_an_unknown_partition_has_a_nearest() -> None:
    """A name that is not there is an error, which names the nearest one and all."""
    spec = prepared(
        'name = "x"\ncommand = ["x"]\n[slurm]\npartition = "gpu,lomg"', site=None
    ).effective.spec
    (finding,) = fit_findings(spec, ALL)
    assert finding.text == "there is no partition 'lomg'"
    assert finding.remedy == "did you mean 'long'? there are: gpu, long, cpu"


def test_a_site_file_may_leave_partitions_out() -> None:
    """A partition that a site file does not list is a note, as it may be there all the same."""
    spec = prepared('name = "x"\ncommand = ["x"]\n[slurm]\npartition = "debug"', site=None)
    (finding,) = fit_findings(spec.effective.spec, ALL, lists_all=False)
    assert (finding.level, finding.text) == (Level.NOTE, "there is no partition 'debug'")


def test_a_job_without_a_partition_may_be_routed() -> None:
    """What does not fit the default partition is a note: a site may send such a job elsewhere."""
    spec = prepared('name = "x"\ncommand = ["x"]\n[resources]\nnodes = 99', site=None)
    (finding,) = fit_findings(spec.effective.spec, ALL)
    assert (finding.level, finding.subject) == (Level.NOTE, "nodes")


def test_nodes_that_may_be_hidden_hold_nothing_back() -> None:
    """Where not all nodes are listed, too few of them are a note; a time limit needs no nodes."""
    spec = prepared(
        'name = "x"\ncommand = ["x"]\n[resources]\nnodes = 15\ntime_limit = "2-0"\n'
        '[slurm]\npartition = "gpu"',
        site=None,
    ).effective.spec
    levels = {one.subject: one.level for one in fit_findings(spec, ALL, is_certain=False)}
    assert levels == {"time": Level.ERROR, "nodes": Level.NOTE}


def test_the_variables_of_sbatch_aim_too() -> None:
    """A partition or QOS that sbatch reads from the shell counts as one that the job names."""
    spec = prepared(
        'name = "x"\ncommand = ["x"]\n[resources]\ntime_limit = "2-0"', site=None
    ).effective.spec
    assert fit_findings(spec, ALL, Aim(partition="long")) == ()
    (error,) = fit_findings(spec, ALL, Aim(partition="gpu"))
    (note,) = fit_findings(spec, ALL, Aim(partition="gpu", qos="long"))
    assert (error.level, note.level) == (Level.ERROR, Level.NOTE)


def test_a_qos_may_lift_the_time_limit() -> None:
    """Beside a QOS a long time is a note: QOS can lift a partition's limit."""
    assert [one[0] for one in found("time_limit = '2-0'", "qos = 'long'")] == [Level.NOTE]


def test_a_partition_that_is_down_is_a_note() -> None:
    """A job may wait for a partition that is not up."""
    assert [one[:2] for one in found("", "partition = 'cpu'")] == [(Level.NOTE, "partition")]


def test_a_remedy_is_one() -> None:
    """What is too long by time-min says that key; of very many partitions some are named."""
    text = (
        'name = "x"\ncommand = ["x"]\n[resources]\ntime_limit = "3-0"\n'
        '[slurm]\npartition = "gpu"\nextra = { time-min = "2-0" }'
    )
    spec = prepared(text, site=None).effective.spec
    (one,) = fit_findings(spec, ALL)
    assert str(one.remedy).startswith("slurm.extra.time-min 1-00:00:00")
    many = [replace(GPU, name=f"p{number}") for number in range(3000)]
    (one,) = fit_findings(spec, many)
    assert str(one.remedy).endswith("p19 and 2980 more")
