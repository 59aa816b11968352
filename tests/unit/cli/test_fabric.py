"""`hpckit fabric` on files and on what is pasted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpckit.fabric.slurm_files import parse_topology_conf
from tests.conftest import RunHpckit
from tests.fakes.slurm_records import RECORDS
from tests.ib_fabrics import two_tier

IBNET = RECORDS / "ibnetdiscover-rdma-core-50" / "synthetic-two-rails" / "output.txt"
TOPOCONF = RECORDS / "topology-yaml-26.05.5" / "topoconf" / "output.txt"
TREE = """\
SwitchName=leaf1 Nodes=n[1-2]
SwitchName=leaf2 Nodes=n[3-4]
SwitchName=s Switches=leaf[1-2]
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A topology.conf."""
    path = tmp_path / "topology.conf"
    path.write_text(TREE)
    return path


def test_show_prints_a_document_that_is_read_again(
    run_hpckit: RunHpckit, tmp_path: Path, tree: Path
) -> None:
    """`hpckit.fabric/1`, which is itself a FILE."""
    done = run_hpckit("fabric", "show", tree, "--json")
    found = json.loads(done.stdout)
    assert (found["schema"], found["source"], found["plugin"]) == (
        "hpckit.fabric/1",
        "topology.conf",
        "tree",
    )
    assert [switch["name"] for switch in found["switches"]] == ["leaf1", "leaf2", "s"]
    again = tmp_path / "fabric.json"
    again.write_text(done.stdout)
    assert run_hpckit("fabric", "show", again, "--format", "json").stdout == done.stdout


def test_standard_input_is_a_file(run_hpckit: RunHpckit) -> None:
    """What somebody pasted."""
    done = run_hpckit("fabric", "export", "-", input=TREE)
    assert done.returncode == 0, done.stderr
    nodes = parse_topology_conf(done.stdout, "x").nodes
    assert sorted(nodes) == ["n1", "n2", "n3", "n4"]


def test_a_cabled_fabric_becomes_a_tree(run_hpckit: RunHpckit) -> None:
    """Leaves of two rails are one switch, and every node is there once."""
    done = run_hpckit("fabric", "export", IBNET)
    assert done.returncode == 0, done.stderr
    shown = json.loads(run_hpckit("fabric", "show", IBNET, "--json").stdout)
    named = {port["node"] for port in shown["ports"] if port["kind"] == "compute"}
    assert set(parse_topology_conf(done.stdout, "x").nodes) == named - {None}
    yaml = run_hpckit("fabric", "export", IBNET, "--format", "topology.yaml").stdout
    assert "- topology:" in yaml


def test_export_says_what_it_leaves_out(run_hpckit: RunHpckit, tmp_path: Path) -> None:
    """On standard error, so that the file can be written from standard output."""
    made = two_tier(racks=2, nodes=3)
    made.change(lambda one: one.node == "n02-c02", node="localhost")
    path = tmp_path / "ib"
    path.write_text(made.text())
    for format_ in ("topology.conf", "topology.yaml"):
        done = run_hpckit("fabric", "export", path, "--format", format_)
        assert done.stderr == "left out: localhost, 4 ports: a default name, not a node in Slurm\n"
        assert "localhost" not in done.stdout
        assert "# leaf2: leaf-[01-04]-02\n" in done.stdout


def test_one_of_several_topologies(run_hpckit: RunHpckit) -> None:
    """By its name; all of them only in topology.yaml."""
    done = run_hpckit("fabric", "export", TOPOCONF, "--topology", "racks")
    assert done.stdout.count("BlockName=") == 2
    whole = run_hpckit("fabric", "export", TOPOCONF, "--format", "topology.yaml").stdout
    assert whole.count("- topology:") == 3
    missing = run_hpckit("fabric", "export", TOPOCONF, "--topology", "no-such")
    assert missing.returncode == 3
    assert "wide, racks, plain" in missing.stderr


def test_check_prints_findings(run_hpckit: RunHpckit, tree: Path) -> None:
    """Rule, subject and reason of each: here a node of Slurm's that the fabric lacks."""
    done = run_hpckit("fabric", "check", tree, "--nodes", "n[1-5]", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["schema"], found["switches"], found["nodes"]) == ("hpckit.fabric-check/1", 3, 4)
    (finding,) = found["findings"]
    assert set(finding) == {"rule", "severity", "subject", "because", "remedy"}
    assert (finding["rule"], finding["severity"]) == ("not-in-fabric", "warning")
    assert (finding["subject"], finding["because"]) == (
        "n5",
        "1 of Slurm's 5 nodes is not in topology.conf",
    )
    assert finding["remedy"].startswith("add them to topology.conf, on their switch or block")
    assert found["not_checked"] == ["cables", "rates", "rails"]


@pytest.mark.parametrize(("level", "code"), [("error", 0), ("warning", 1), ("note", 1)])
def test_a_finding_can_be_a_failure(
    run_hpckit: RunHpckit, tree: Path, level: str, code: int
) -> None:
    """From a severity on; the findings are printed all the same."""
    done = run_hpckit("fabric", "check", tree, "--nodes", "n[1-5]", "--fail-on", level)
    assert done.returncode == code
    assert "n5" in done.stdout


def test_a_sound_fabric_has_none(run_hpckit: RunHpckit, tree: Path) -> None:
    """And the code is 0 whatever would fail."""
    done = run_hpckit("fabric", "check", tree, "--nodes", "n[1-4]", "--fail-on", "note", "--json")
    assert (done.returncode, json.loads(done.stdout)["findings"]) == (0, [])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "--json", "--format", "tree"), 2),
        (("export", "--format", "csv"), 2),
        (("check", "--fail-on", "all"), 2),
        (("check", "--nodes", "n[1-"), 4),
        (("check", "--nodes", "n1,n1"), 3),
    ],
)
def test_what_is_wrong_has_its_code(
    run_hpckit: RunHpckit, tree: Path, words: tuple[str, ...], code: int
) -> None:
    """2 for the command line, 3 for a value, 4 for a text."""
    done = run_hpckit("fabric", words[0], tree, *words[1:])
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr


def test_a_file_of_nothing_known_is_refused(run_hpckit: RunHpckit, tmp_path: Path) -> None:
    """Code 4 and what is taken; a file that is not there is code 3 or 7 with its name."""
    path = tmp_path / "odd"
    path.write_text("hello\n")
    done = run_hpckit("fabric", "check", path)
    assert done.returncode == 4
    assert "odd" in done.stderr
    missing = run_hpckit("fabric", "check", tmp_path / "none")
    assert missing.returncode in (3, 7)
    assert "none" in missing.stderr
