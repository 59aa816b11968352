"""`hpckit inspect` of captures: formats, exit codes, words that exclude each other."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from hpckit.cli.inspect import document
from hpckit.node.merge import complete
from hpckit.node.rules.rules import node_findings
from hpckit.node.topology import NodeTopology
from tests.conftest import RunHpckit
from tests.fakes.machine_parts import with_dead_link
from tests.fakes.machines import dgx_h100

SCHEMA = Path("docs/reference/hpckit.topology-1.schema.json")
MATRIX = """\
        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV4     PIX     0-15    0               N/A
GPU1    NV4      X      SYS     16-31   1               N/A
NIC0    PIX     SYS      X

NIC Legend:

  NIC0: mlx5_0
"""


def snapshot(path: Path, topology: NodeTopology) -> Path:
    """A file as `hpckit inspect --json` would have written it."""
    whole = complete(topology)
    path.write_text(json.dumps(document(whole, node_findings(whole))))
    return path


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    """A snapshot of a node without any finding above a note."""
    return snapshot(tmp_path / "healthy.json", dgx_h100())


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A snapshot of a node one of whose GPUs lacks an NVLink."""
    return snapshot(tmp_path / "odd.json", with_dead_link(dgx_h100(), 5))


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    """What somebody pasted."""
    path = tmp_path / "topo.txt"
    path.write_text(MATRIX)
    return path


def test_the_screen_says_what_is_odd_and_what_is_next(run_hpckit: RunHpckit, odd: Path) -> None:
    """The tree names the GPU that lacks a link, marks the machine synthetic, and says what next."""
    done = run_hpckit("inspect", odd)
    assert done.returncode == 0, done.stderr
    for word in ("8 × H100", "synthetic", "warn", "GPU5", "17", "next"):
        assert word in done.stdout


def test_the_document_is_what_its_schema_says(run_hpckit: RunHpckit, odd: Path) -> None:
    """--json prints one document that the published schema accepts."""
    done = run_hpckit("inspect", odd, "--json")
    jsonschema.validate(json.loads(done.stdout), json.loads(SCHEMA.read_text()))


def test_a_finding_of_the_severity_fails(run_hpckit: RunHpckit, odd: Path, healthy: Path) -> None:
    """--fail-on exits 1 for a finding as severe as that or more, and 0 without one."""
    assert run_hpckit("inspect", odd, "--fail-on", "warning").returncode == 1
    assert run_hpckit("inspect", odd, "--fail-on", "error").returncode == 0
    assert run_hpckit("inspect", healthy, "--fail-on", "warning").returncode == 0


def test_fewer_gpus_than_said_is_a_finding(run_hpckit: RunHpckit, healthy: Path) -> None:
    """--gpus says how many there should be."""
    found = json.loads(run_hpckit("inspect", healthy, "--gpus", "9", "--json").stdout)["findings"]
    assert "gpus-fewer-than-gres" in [one["rule"] for one in found]


def test_a_matrix_comes_back_as_a_matrix(run_hpckit: RunHpckit, matrix: Path) -> None:
    """--format matrix has the capture's own rows, columns and names."""
    done = run_hpckit("inspect", matrix, "--format", "matrix")
    cells = [line.split() for line in done.stdout.splitlines()]
    assert ["GPU0", "X", "NV4", "PIX", "0-15", "0", "N/A"] in cells
    assert ["NIC0:", "mlx5_0"] in cells


def test_a_matrix_speaks_nccl(run_hpckit: RunHpckit, matrix: Path) -> None:
    """--vocabulary nccl prints NCCL's words for the same paths."""
    done = run_hpckit("inspect", matrix, "--format", "matrix", "--vocabulary", "nccl")
    (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith("GPU0")]
    assert row[:3] == ["GPU0", "LOC", "NVL"]


def test_standard_input_is_a_capture(run_hpckit: RunHpckit) -> None:
    """- reads what is piped in."""
    done = run_hpckit("inspect", "-", "--json", input=MATRIX)
    assert [gpu["index"] for gpu in json.loads(done.stdout)["gpus"]] == [0, 1]


def test_the_picture_is_a_picture(run_hpckit: RunHpckit, healthy: Path) -> None:
    """--format svg prints an SVG document."""
    done = run_hpckit("inspect", healthy, "--format", "svg")
    assert ElementTree.fromstring(done.stdout).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314


def test_a_file_of_several_machines_is_asked_for_one(run_hpckit: RunHpckit, tmp_path: Path) -> None:
    """--machine picks one; without it the first is shown and the others are said to be there."""
    path = tmp_path / "two.txt"
    path.write_text(MATRIX + "\n" + MATRIX.replace("NV4", "NV8"))
    first = run_hpckit("inspect", path, "--json")
    assert "holds 2 machines" in first.stderr
    assert json.loads(first.stdout)["paths"]["cells"][0][1] == "NV4"
    second = run_hpckit("inspect", path, "--json", "--machine", "2")
    assert json.loads(second.stdout)["paths"]["cells"][0][1] == "NV8"
    assert run_hpckit("inspect", path, "--machine", "3").returncode == 2


@pytest.mark.parametrize("text", ["", "hello\n", "<html/>", '{"a": 1}', "\0\0", "<graphs/>"])
def test_what_is_no_topology_exits_4(run_hpckit: RunHpckit, tmp_path: Path, text: str) -> None:
    """Anything else is refused with the line, a caret and what would be taken."""
    path = tmp_path / "thing"
    path.write_text(text)
    done = run_hpckit("inspect", path)
    assert done.returncode == 4
    assert "^" in done.stderr


def test_a_file_that_is_not_there_exits_7(run_hpckit: RunHpckit) -> None:
    """A capture that cannot be read is the world's no."""
    assert run_hpckit("inspect", "no-such-file").returncode == 7


@pytest.mark.parametrize(
    "words",
    [
        ("x", "--nodes", "c1"),
        ("--nodes", "c1", "--job", "7"),
        ("--nodes", "c1", "--format", "svg"),
        ("--nodes", "c1", "--sysroot", "/"),
        ("--partition", "main"),
        ("--machine", "2"),
        ("x", "--sysroot", "/"),
        ("--sysroot", "/no/such/folder"),
        ("--nodes", ""),
        ("--job", " "),
        ("--qos", "high"),
        ("x", "--timeout", "5"),
        ("x", "--vocabulary", "nccl"),
        ("x", "--json", "--format", "svg"),
    ],
)
def test_words_that_do_not_go_together_are_refused(
    run_hpckit: RunHpckit, words: tuple[str, ...]
) -> None:
    """FILE, --nodes and --job exclude each other, and so do the options of the one and the many."""
    assert run_hpckit("inspect", *words).returncode == 2


def test_a_folder_without_a_nodes_files_is_no_sysroot(
    run_hpckit: RunHpckit, tmp_path: Path
) -> None:
    """What was meant is said at once: the folder that has sys/ in it."""
    done = run_hpckit("inspect", "--sysroot", tmp_path)
    assert done.returncode == 2
    assert f"--sysroot {tmp_path}: there is no sys/ below it" in done.stderr


def test_a_folder_is_no_capture(run_hpckit: RunHpckit, tmp_path: Path) -> None:
    """It is said how a folder is read."""
    done = run_hpckit("inspect", tmp_path)
    assert done.returncode == 7
    assert "inspect --sysroot" in done.stderr


def test_this_node_can_be_looked_at(run_hpckit: RunHpckit) -> None:
    """Without FILE the node itself is shown, with or without a GPU driver."""
    found = json.loads(run_hpckit("inspect", "--json").stdout)
    assert found["source"]["is_live"]
    assert found["cpu"]["cpus"]


def test_where_nobody_answers_there_is_still_one_document(
    run_hpckit: RunHpckit, tmp_path: Path
) -> None:
    """--json prints one document, of the silent, also where the answer is no."""
    for program, script in (("scontrol", "echo nowhere"), ("sinfo", "")):
        path = tmp_path / program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = run_hpckit("inspect", "--nodes", "nowhere", "--json", env=env)
    assert done.returncode == 1
    assert [one["subject"] for one in json.loads(done.stdout)["silent"]] == ["nowhere"]
    assert "no node answered" in done.stderr
