"""How the same job is said to different clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.core.errors import ConfigError, JobRefused, PlanError
from hpckit.core.files import FileResources
from hpckit.script.plan import Option
from hpckit.script.releases import live_dialect, topology_kind
from hpckit.slurm.values import SlurmConfig, SlurmVersion, TopologyKind
from hpckit.spec.merge import parse_site_file
from hpckit.spec.site import generic_site
from tests.fakes.prepared import prepared

BASE = 'name = "x"\ncommand = ["x"]\n'
HERE = 'schema = "hpckit.site/1"\nname = "here"\n'


def there(folder: Path, rules: str) -> FileResources:
    """Resources with a site `there` of these rules."""
    text = f'schema = "hpckit.site/1"\nname = "there"\n{rules}'
    (folder / "there.toml").write_text(text, encoding="utf-8")
    return FileResources((), site_dirs=[folder])


def at(folder: Path, rules: str, job: str) -> list[Option]:
    """The directives of a job at a site with these rules."""
    resources = there(folder, rules)
    templates = Path(__file__).parents[3] / "templates"
    resources = FileResources((), site_dirs=[folder], template_dirs=[templates])
    return list(prepared(BASE + job, site="there", resources=resources).plan.directives)


def said(options: list[Option], name: str) -> list[str | None]:
    """The values of an option."""
    return [option.value for option in options if option.name == name]


GPUS = '[resources]\ngpus_per_node = 8\ngpu_type = "h100"\n'


def test_another_gres_joins_that_of_the_gpus(tmp_path: Path) -> None:
    """A gres of the user's own goes into the one --gres, of which Slurm takes the last alone."""
    job = GPUS + '[slurm.extra]\ngres = "nvme:1"'
    assert said(at(tmp_path, '[slurm]\ngpu_option = "gres"', job), "gres") == ["gpu:h100:8,nvme:1"]
    assert said(at(tmp_path, "", job), "gres") == ["nvme:1"]


def test_an_option_of_a_later_release_is_refused(tmp_path: Path) -> None:
    """A site that runs 22.05 refuses --segment before Slurm does, with the release in the words."""
    job = "[resources]\nnodes = 4\n[slurm]\nsegment = 2"
    with pytest.raises(JobRefused, match=r"22\.05\.0 does not have it \(new in 24\.05\)"):
        at(tmp_path, '[slurm]\nversion = "22.05"', job)
    options = at(tmp_path, '[slurm]\nversion = "24.11"\ntopology = "block"', job)
    assert said(options, "segment") == ["2"]


def test_several_findings_are_listed(tmp_path: Path) -> None:
    """All that is wrong is said at once, each with its remedy."""
    job = (
        "[resources]\nnodes = 4\n[slurm]\nsegment = 2\n"
        "[slurm.extra]\ncore-spec = 1\nthread-spec = 1"
    )
    with pytest.raises(JobRefused) as caught:
        at(tmp_path, '[slurm]\nversion = "22.05"', job)
    assert "2 problems" in str(caught.value)
    assert str(caught.value).count("fix:") == 2
    assert caught.value.exit_code == PlanError.exit_code


def test_a_segment_divides_the_nodes(tmp_path: Path) -> None:
    """Nodes that are no multiple of the segment are refused, with numbers that would do."""
    job = "[resources]\nnodes = 6\n[slurm]\nsegment = 4"
    with pytest.raises(PlanError, match=r"--nodes 4 or 8, or slurm\.segment = 3"):
        at(tmp_path, "", job)
    assert said(at(tmp_path, "", job.replace("= 6", "= 8")), "segment") == ["4"]


@pytest.mark.parametrize(
    "rules", ["", 'version = "26.05"\ntopology = "block"', 'version = "24.11"']
)
def test_a_job_may_be_smaller_than_its_segment(tmp_path: Path, rules: str) -> None:
    """A site's segment does not keep its small jobs out, but on blocks before 26.05."""
    few = "[resources]\nnodes = 1\n[slurm]\nsegment = 2"
    assert said(at(tmp_path, f"[slurm]\n{rules}", few), "segment") == ["2"]


def test_blocks_before_26_05_start_no_part_of_a_segment(tmp_path: Path) -> None:
    """There topology/block never starts a job that is smaller than its segment: it is refused."""
    few = "[resources]\nnodes = 1\n[slurm]\nsegment = 2"
    with pytest.raises(JobRefused, match=r"rejects a segment of 2 nodes in a job of 1 node"):
        at(tmp_path, '[slurm]\nversion = "24.11"\ntopology = "block"', few)


def test_a_release_without_segments_says_so_alone(tmp_path: Path) -> None:
    """Before 24.05 a segment larger than the job is refused once, as any segment is."""
    few = "[resources]\nnodes = 1\n[slurm]\nsegment = 2"
    with pytest.raises(JobRefused) as refused:
        at(tmp_path, '[slurm]\nversion = "23.11"\ntopology = "block"', few)
    assert [text for _, text, _ in refused.value.findings] == [
        "sbatch of Slurm 23.11.0 does not have it (new in 24.05)"
    ]


@pytest.mark.parametrize(
    ("release", "plugin", "kind"),
    [
        (SlurmVersion(24, 11, 5), "topology/flat", TopologyKind.FLAT),
        (SlurmVersion(25, 11), "topology/flat", TopologyKind.BLOCK),
        (SlurmVersion(25, 11), "topology/tree", TopologyKind.TREE),
    ],
)
def test_flat_may_hide_a_topology_yaml(
    release: SlurmVersion, plugin: str, kind: TopologyKind
) -> None:
    """From 25.05 on "flat" is what slurm.conf says where topology.yaml decides: the site knows."""
    site = parse_site_file(HERE + '[slurm]\ntopology = "block"', "here.toml")
    assert live_dialect(site, SlurmConfig(version=release, topology_plugin=plugin)).topology is kind


def test_the_partitions_of_a_site_are_kept_to(tmp_path: Path) -> None:
    """A job that no partition of the site file can hold is refused when it is rendered."""
    rules = "[partitions.gpu]\nnodes = 2\ngpus_per_node = 4\ndefault = true"
    with pytest.raises(JobRefused, match="nodes of partition gpu have at most 4 GPUs, not 8"):
        at(tmp_path, rules, GPUS + '[slurm]\npartition = "gpu"')
    assert said(at(tmp_path, rules, GPUS), "gpus-per-node") == ["h100:8"]


@pytest.mark.parametrize("version", ["24", "24.5", "24.11.5-1", "v24.11", "24.11.5.1", ""])
def test_a_release_is_a_release(tmp_path: Path, version: str) -> None:
    """What is no release of Slurm is an error of the site file."""
    with pytest.raises(ConfigError, match=r"slurm\.version"):
        at(tmp_path, f'[slurm]\nversion = "{version}"', "")


@pytest.mark.parametrize(
    ("plugin", "kind"),
    [
        ("topology/tree", TopologyKind.TREE),
        ("topology/block", TopologyKind.BLOCK),
        ("topology/none", TopologyKind.FLAT),
        ("topology/default", TopologyKind.FLAT),
        ("topology/flat", TopologyKind.FLAT),
        ("topology/torus3d", None),
        (None, None),
    ],
)
def test_the_cluster_says_its_topology(plugin: str | None, kind: TopologyKind | None) -> None:
    """Every spelling of TopologyPlugin from 22.05 to 26.05 is known, another one is not guessed."""
    assert topology_kind(plugin) is kind
    live = live_dialect(generic_site(), SlurmConfig(topology_plugin=plugin))
    assert live.topology is kind
