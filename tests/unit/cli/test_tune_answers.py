"""`hpckit tune`: what it answers, for people and for programs."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpckit.cli.job_options import JobOptions
from hpckit.cli.tuned import Tuned, on_this_node, tune
from hpckit.core.files import FileResources, packaged_data
from hpckit.jobs.source import JobSource, source_of
from hpckit.node.capture.snapshot import inspect_capture
from hpckit.node.path import PathKind, PathTable
from hpckit.node.topology import Host, NodeTopology
from tests.conftest import RunHpckit
from tests.fakes.machines import matrix_only

CHECKOUT = Path(__file__).resolve().parents[3]
NODE = str(CHECKOUT / "examples" / "dgx-h100.json")
COPIED = str(CHECKOUT / "examples" / "tune" / "copied.sbatch")
RUN = str(CHECKOUT / "examples" / "tune" / "all-reduce.log")
README = str(CHECKOUT / "README.md")
LISTED = "=" + ",".join(f"mlx5_{index}" for index in range(8))
SITES = sorted(path.stem for path in (packaged_data() / "site_configs").glob("*.toml"))
JOB = """\
schema = "hpckit.job/1"
name = "x"
command = ["x"]

[resources]
nodes = 4
gpus_per_node = 8

[tune]
nccl = "2.20.5"
env = { NCCL_IB_HCA = "mlx5_1" }
"""
ENTRY = {"name", "value", "because", "source"}
FINDING = {"rule", "line", "severity", "because", "remedy"}


def document(run_hpckit: RunHpckit, *words: str | Path) -> dict[str, Any]:
    """What --json prints."""
    done = run_hpckit("tune", "--json", *words)
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def exported(lines: str, names: list[str]) -> dict[str, str]:
    """What bash makes of these lines."""
    script = lines + "".join(f'\nprintf "%s\\0" "${{{name}-}}"' for name in names)
    done = subprocess.run(
        ["bash", "-c", script], env={"SLURM_JOB_ID": "7"}, capture_output=True, check=True
    )
    return dict(zip(names, done.stdout.decode().split("\0"), strict=False))


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job file."""
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


def test_a_document_has_each_variable_with_reason_and_source(run_hpckit: RunHpckit) -> None:
    """The keys that programs rely on are there."""
    found = document(run_hpckit, "--topology", NODE, "--nodes", "4", "--nccl", "2.27")
    assert found["schema"] == "hpckit.tune/1"
    (entry,) = found["env"]
    assert entry.keys() >= ENTRY
    assert (entry["name"], entry["value"]) == ("NCCL_IB_HCA", LISTED)


def test_without_anything_known_nothing_is_set(run_hpckit: RunHpckit) -> None:
    """No node and no site: no variable, no prediction, nothing looked at."""
    found = document(run_hpckit)
    assert (found["env"], found["predicted"], found["nccl"]) == ([], [], None)


def test_one_node_needs_no_network(run_hpckit: RunHpckit) -> None:
    """The list of NICs is for jobs of several nodes."""
    assert document(run_hpckit, "--topology", NODE, "--nodes", "1")["env"] == []


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize(("nodes", "nccl"), [("1", "2.27.3"), ("4", "2.18.5")])
def test_tune_and_render_agree(run_hpckit: RunHpckit, site: str, nodes: str, nccl: str) -> None:
    """What tune prints is what the script of such a job exports, at every site."""
    words = ["--site", site, "--nodes", "1" if site == "local" else nodes, "--nccl", nccl]
    values = {one["name"]: one["value"] for one in document(run_hpckit, *words)["env"]}
    script = run_hpckit("render", *words, "--", "true")
    assert script.returncode == 0, script.stderr
    block = script.stdout.partition("# --- communication")[2].partition("# --- ")[0]
    lines = "\n".join(line for line in block.splitlines() if line.startswith("export "))
    names = [word.partition("=")[0] for word in shlex.split(lines, comments=True) if "=" in word]
    assert names == list(values)
    expanded = {name: one.replace("${SLURM_JOB_ID}", "7") for name, one in values.items()}
    assert exported(lines, names) == expanded


@pytest.mark.parametrize("site", ["gcp-a3-high", "oci-h100", "aws-p5", "frontier"])
def test_env_is_read_back_by_bash(run_hpckit: RunHpckit, site: str) -> None:
    """--env prints lines that make a shell export exactly the values."""
    values = {one["name"]: one["value"] for one in document(run_hpckit, "--site", site)["env"]}
    lines = run_hpckit("tune", "--site", site, "--env").stdout
    expanded = {name: one.replace("${SLURM_JOB_ID}", "7") for name, one in values.items()}
    assert values
    assert exported(lines, list(values)) == expanded


def test_env_says_beside_it_what_it_leaves_unset(run_hpckit: RunHpckit) -> None:
    """A variable on which a site's sources disagree is missing from stdout and named on stderr."""
    done = run_hpckit("tune", "--site", "alps", "--env")
    assert "NCCL_CROSS_NIC" not in done.stdout
    assert "disagree on NCCL_CROSS_NIC" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "is unknown"),
        (["--site", "dgx-h100"], "the defaults suit this machine"),
        (["--site", "alps", "--no-tune"], "--no-tune"),
    ],
)
def test_env_without_a_variable_says_why(
    run_hpckit: RunHpckit, words: list[str], said: str
) -> None:
    """Empty output tells a machine that needs nothing from one of which nothing is known."""
    done = run_hpckit("tune", "--env", *words)
    assert done.stdout == ""
    assert said in done.stderr
    assert said in " ".join(run_hpckit("tune", *words).stdout.split())


def test_env_leaves_what_the_job_lets_through(run_hpckit: RunHpckit) -> None:
    """What `pass` names and the shell has already keeps its value, as it does in a script."""
    words = ("--site", "oci-h100", "--nodes", "2", "--set", 'environment.pass=["NCCL_IB_*"]')
    lines = run_hpckit("tune", "--env", *words, "--", "x").stdout
    kept = exported("export NCCL_IB_TC=7\n" + lines, ["NCCL_IB_TC", "NCCL_IB_TIMEOUT"])
    assert kept == {"NCCL_IB_TC": "7", "NCCL_IB_TIMEOUT": "22"}


def test_a_job_s_own_value_stays_with_a_warning(run_hpckit: RunHpckit, job: Path) -> None:
    """The user's value is printed, and what hpckit would set beside it."""
    (entry,) = document(run_hpckit, job, "--topology", NODE)["env"]
    assert (entry["value"], entry["origin"]) == ("mlx5_1", "job")
    assert LISTED in entry["warning"]


def test_a_job_s_setup_lines_are_its_own_word(run_hpckit: RunHpckit) -> None:
    """What a setup line exports is not exported again, and the document says who has it."""
    setup = 'environment.setup=["export NCCL_IB_HCA=mlx5_2"]'
    found = document(run_hpckit, "--topology", NODE, "--nodes", "2", "--set", setup, "--", "x")
    assert found["env"] == []
    (left,) = found["left"]
    assert "[environment] setup" in left["because"]


def test_a_shipped_site_s_answer_fits_a_narrow_terminal(
    run_hpckit: RunHpckit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is wider than 80 columns, but one that cannot be broken."""
    monkeypatch.setenv("COLUMNS", "80")
    for site in SITES:
        lines = run_hpckit("tune", "--site", site, "--nodes", "2").stdout.splitlines()
        assert not [line for line in lines if len(line) > 80]


def test_what_is_odd_about_a_node_is_told_as_by_inspect(run_hpckit: RunHpckit) -> None:
    """A finding has the same label and words as in `hpckit inspect`, its subject once."""
    lines = run_hpckit("tune", "--topology", NODE).stdout.splitlines()
    assert any(line.startswith(" warn     GPU5 has 17 active NVLinks") for line in lines)


def test_the_next_command_works(run_hpckit: RunHpckit, job: Path) -> None:
    """The last line is a command that renders the job so."""
    words = ["--topology", NODE, "--site", "docker", "--nccl", "2.27"]
    last = run_hpckit("tune", job, *words).stdout.splitlines()[-1]
    command = shlex.split(last.partition("next")[2])
    assert command[:2] == ["hpckit", "render"]
    done = run_hpckit(*command[1:])
    assert done.returncode == 0, done.stderr
    assert "NCCL_IB_HCA=mlx5_1" in done.stdout


def test_the_next_command_has_the_job_as_it_was_typed(run_hpckit: RunHpckit) -> None:
    """A job without a file is rendered by the same options and command."""
    words = ["--site", "aws-p5", "--nodes", "4", "--set", "launch.kind=plain", "--", "python3", "x"]
    last = run_hpckit("tune", *words).stdout.splitlines()[-1]
    assert shlex.split(last)[1:] == ["hpckit", "render", *words]


def test_where_nothing_is_known_it_says_what_would_tell(run_hpckit: RunHpckit) -> None:
    """Without site and node the last line names what finds them, in lines that fit."""
    for width in ("40", "80"):
        lines = run_hpckit("tune", env={"COLUMNS": width}).stdout.splitlines()
        assert lines[-1].startswith(" next  hpckit sites list · hpckit inspect --json")
        assert not [line for line in lines[:-1] if len(line) > int(width)]


def test_a_number_of_nodes_that_nobody_said_is_called_assumed(run_hpckit: RunHpckit) -> None:
    """The title tells a guess from what was said."""
    assert "2 nodes assumed (--nodes)" in run_hpckit("tune", "--site", "aws-p5").stdout
    assert "assumed (" not in run_hpckit("tune", "--site", "aws-p5", "--nodes", "2").stdout


def test_help_lists_what_tune_alone_has_first(run_hpckit: RunHpckit) -> None:
    """--lint and --compare stand before the forty options that say a job."""
    told = run_hpckit("tune", "--help").stdout
    assert told.index("  --lint FILE") < told.index("  --fabric FILE") < told.index("  --site NAME")


def test_on_a_node_with_gpus_that_node_is_meant() -> None:
    """Unless a machine is named, or settings of another may be read; not on a login node."""
    data = Path(NODE).read_bytes()
    (here,) = inspect_capture(data, NODE)
    source = source_of((), {}, site=None, folder=Path("/"))
    asked = {"site": None, "lint": None, "compare": None}
    options = JobOptions(**asked)
    assert on_this_node(source, options, lambda: here).topology is here
    bare = dataclasses.replace(here, gpus=())
    assert on_this_node(source, options, lambda: bare).topology is None
    for name in asked:
        named = JobOptions(**{**asked, name: "x"})
        assert on_this_node(source, named, lambda: here).topology is None


def test_one_variable_is_explained(run_hpckit: RunHpckit) -> None:
    """--explain names the rule, when it applies and what of that is not so here."""
    found = document(run_hpckit, "--site", "oci-h100", "--explain", "NCCL_IB_GID_INDEX")
    assert found["schema"] == "hpckit.tune-variable/1"
    (word,) = found["words"]
    assert word["name"] == "ib-gid-index"
    assert word["missing"] == "release before 2.21"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--nccl", "new"], 3),
        (["--plugin", "fast"], 3),
        (["--site", "nowhere"], 3),
        (["--overlay", "mlperf"], 5),
        (["--site", "alps", "--overlay", "cscs-ce"], 5),
        (["--topology", README], 4),
        (["--topology", "nowhere.json"], 7),
        (["--lint", "nowhere.sh"], 7),
        (["--compare", README], 4),
        (["--env", "--json"], 2),
        (["--lint", "-", "--compare", "-"], 2),
        (["--fail-on", "error"], 2),
        (["--topology", "-", "--fabric", "-"], 2),
    ],
)
def test_what_cannot_be_answered_has_its_code(
    run_hpckit: RunHpckit, words: list[str], code: int
) -> None:
    """A wrong word, an unreadable file and a missing overlay end with codes of their own."""
    done = run_hpckit("tune", *words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_a_pipe_in_place_of_a_file_is_told_how_it_is_read(
    run_hpckit: RunHpckit, tmp_path: Path
) -> None:
    """It is not waited for; the error says that standard input takes it."""
    os.mkfifo(tmp_path / "pipe")
    done = run_hpckit("tune", "--topology", tmp_path / "pipe")
    assert done.returncode == 7
    assert "use standard input: -" in done.stderr


def test_lint_names_line_severity_and_fix(run_hpckit: RunHpckit) -> None:
    """The keys that programs rely on are there for each finding."""
    found = document(run_hpckit, "--lint", COPIED, "--nccl", "2.27")
    assert found["schema"] == "hpckit.lint/1"
    assert all(one.keys() >= FINDING for one in found["findings"])
    by_rule = {one["rule"]: one for one in found["findings"]}
    assert by_rule["gpus-per-task"]["line"] == 5
    assert by_rule["nccl-algo-without-ring"]["severity"] == "error"


def test_the_next_command_of_lint_is_about_the_same_node(run_hpckit: RunHpckit) -> None:
    """It has every option that made the findings, so that it finds the same."""
    words = ["--lint", COPIED, "--topology", NODE, "--nccl", "2.27"]
    last = run_hpckit("tune", *words).stdout.splitlines()[-1]
    assert shlex.split(last)[1:] == ["hpckit", "tune", *words, "--json"]


@pytest.mark.parametrize("key", ["tune.env", "environment.set"])
def test_what_a_job_turns_off_is_not_predicted(run_hpckit: RunHpckit, key: str) -> None:
    """Rings alone are predicted where the job wants rings, by whichever key it says so."""
    words = ["--site", "dgx-h100", "--set", f"{key}.NCCL_ALGO=Ring", "--nodes", "1", "--", "x"]
    best = [one for one in document(run_hpckit, *words)["predicted"] if one["is_best"]]
    assert {one["algorithm"] for one in best if one["collective"] == "AllReduce"} == {"Ring"}


def test_the_next_command_of_lint_has_the_job_s_own_command(run_hpckit: RunHpckit) -> None:
    """--json stands before the command, which would else take it."""
    words = ["--lint", COPIED, "--nccl", "2.27", "--json", "--", "python3", "a.py"]
    done = run_hpckit("tune", *words[:4], *words[5:])
    assert shlex.split(done.stdout.splitlines()[-1])[1:] == ["hpckit", "tune", *words]


def test_lint_and_tune_agree_about_a_job_s_own_value(run_hpckit: RunHpckit, job: Path) -> None:
    """What hpckit would set in place of a job's value is known to both."""
    words = ["tune", str(job), "--topology", NODE]
    told = run_hpckit(*words).stdout
    assert "hpckit would set" in " ".join(told.split())
    found = document(run_hpckit, *words[1:], "--lint", job)["findings"]
    assert "unlike-derived" in {one["rule"] for one in found}


@pytest.mark.parametrize(("severity", "code"), [("error", 1), ("warning", 1), ("note", 1)])
def test_lint_fails_on_what_is_asked(run_hpckit: RunHpckit, severity: str, code: int) -> None:
    """--fail-on ends with 1 for findings of that severity or above."""
    words = ("--lint", COPIED, "--nccl", "2.27", "--fail-on", severity)
    assert run_hpckit("tune", *words).returncode == code


def test_a_clean_file_fails_on_nothing(run_hpckit: RunHpckit, tmp_path: Path) -> None:
    """A script without a fault ends with 0."""
    path = tmp_path / "clean.sh"
    path.write_text("#!/bin/bash\nexport NCCL_DEBUG=WARN\nsrun python train.py\n")
    assert run_hpckit("tune", "--lint", path, "--fail-on", "note").returncode == 0


def test_a_run_is_held_against_its_machine(run_hpckit: RunHpckit) -> None:
    """A log of sockets where there are NICs is an error, and the measured share is told."""
    found = document(run_hpckit, "--compare", RUN, "--topology", NODE)
    assert found["schema"] == "hpckit.nccl-run/1"
    rules = [one["rule"] for one in found["findings"]]
    assert rules[:2] == ["network-socket", "below-predicted"]
    assert found["predicted"]["AllReduce"] == pytest.approx(384e9)


def test_a_log_that_is_too_large_is_refused_with_a_way_to_a_smaller_one(
    run_hpckit: RunHpckit, tmp_path: Path
) -> None:
    """A thousand ranks write more than is read."""
    path = tmp_path / "large.log"
    with path.open("wb") as file:
        file.truncate(2**29)
    done = run_hpckit("tune", "--compare", path)
    assert done.returncode == 7
    assert "larger than 64 MiB" in done.stderr
    assert "NCCL_DEBUG_FILE" in done.stderr


def test_a_folder_of_a_job_without_nccl_is_said(run_hpckit: RunHpckit, tmp_path: Path) -> None:
    """A venv that is not there does not fail the command: what was not found out is said."""
    venv = f"environment.venv={tmp_path}/nowhere"
    found = document(run_hpckit, "--set", venv, "--", "python", "x.py")
    assert found["nccl"] is None
    assert any("nowhere" in one for one in found["unseen"])


def test_modules_are_not_seen(run_hpckit: RunHpckit) -> None:
    """What modules bring cannot be known here, and that is said."""
    words = ("--set", 'environment.modules=["nccl/2.27"]', "--", "python", "x.py")
    assert any("nccl/2.27" in one for one in document(run_hpckit, *words)["unseen"])


def test_a_relative_environment_is_one_beside_the_job_s_folder(
    run_hpckit: RunHpckit, tmp_path: Path
) -> None:
    """`chdir` is where the job runs, as for `hpckit submit`."""
    (tmp_path / "run/.venv/bin").mkdir(parents=True)
    (tmp_path / "run/.venv/bin/python3").symlink_to(sys.executable)
    job = tmp_path / "job.toml"
    job.write_text(JOB.replace('["x"]', '["python"]\nchdir = "run"'))
    found = document(run_hpckit, job, "--set", "environment.venv=.venv")
    assert not any(".venv" in one for one in found["unseen"])


def test_the_nodes_may_differ_from_this_machine(run_hpckit: RunHpckit) -> None:
    """That is said where tune does not run in a job."""

    def is_said(job_id: str = "") -> bool:
        env = {"SLURM_JOB_ID": job_id}
        done = run_hpckit("tune", "--json", "--", "python", "x.py", env=env)
        unseen = json.loads(done.stdout)["unseen"]
        return any(one.startswith("settings are those of this machine") for one in unseen)

    assert is_said()
    assert not is_said(job_id="7")


def test_a_container_leaves_nccl_unknown(run_hpckit: RunHpckit) -> None:
    """What this machine's Python would load is not taken for the container's."""
    image = 'slurm.srun_extra={container-image="nvcr.io#nvidia/pytorch:25.01-py3"}'
    found = document(run_hpckit, "--set", image, "--", "python", "x.py")
    assert found["nccl"] is None
    assert found["unseen"] == [
        "the container nvcr.io#nvidia/pytorch:25.01-py3 was not inspected; give the release with"
        " --nccl, or nccl under [tune] in the job file"
    ]


def test_a_path_that_is_no_utf_8_is_told_in_a_document_that_is(
    run_hpckit: RunHpckit, tmp_path: Path
) -> None:
    """Whatever bytes stdout takes: the byte is an escape, which Python reads back."""
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)  # noqa: PTH102  such a name is one of bytes
    Path(os.fsdecode(folder) + "/libnccl.so.2").touch()
    words = ("tune", "--json", "--", "x")
    for errors in ("strict", "surrogateescape"):
        env = {
            "LD_LIBRARY_PATH": os.fsdecode(folder),
            "PYTHONIOENCODING": f"utf-8:{errors}",
            "PATH": "/usr/bin",
        }
        done = run_hpckit(*words, env=env)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["nccl"]["chosen"]["path"] == (
            f"{os.fsdecode(folder)}/libnccl.so.2"
        )


@pytest.mark.parametrize(
    ("said", "is_told"), [("2.20.5", True), ("2.27", False), ("2.27.3", False)]
)
def test_a_release_that_the_job_does_not_load_is_told(
    run_hpckit: RunHpckit, tmp_path: Path, said: str, is_told: bool
) -> None:
    """A job file that was copied from last year names one: the rules would go by it in silence."""
    (tmp_path / "libnccl.so.2").symlink_to("libnccl.so.2.27.3")
    (tmp_path / "libnccl.so.2.27.3").touch()
    words = ("tune", "--json", "--nccl", said, "--", "x")
    done = run_hpckit(*words, env={"LD_LIBRARY_PATH": str(tmp_path), "PATH": "/usr/bin"})
    notes = [one for one in json.loads(done.stdout)["notes"] if one["rule"] == "release-differs"]
    assert [one["remedy"] for one in notes] == (
        ["--nccl 2.27.3, or [tune] nccl in the job file"] if is_told else []
    )


def hidden(machine: NodeTopology) -> NodeTopology:
    """The machine as a hypervisor shows it: every GPU and NIC equally far from each other."""
    table = machine.paths
    assert table is not None
    gpus = len(machine.gpus)
    cells = tuple(
        tuple(
            cell if cell == PathKind.SELF or (row < gpus and at < gpus) else PathKind.PHB.value
            for at, cell in enumerate(cells)
        )
        for row, cells in enumerate(table.cells)
    )
    paths = PathTable(devices=table.devices, cells=cells, is_recorded=True)
    return dataclasses.replace(machine, paths=paths, host=Host(is_virtual_machine=True))


def tuned(site: str | None) -> Tuned:
    """What two such machines need at a site."""
    source = JobSource(
        file_text=None,
        file_name="",
        options={},
        option_words=(),
        command=(),
        site_name=site,
        template=None,
        folder=Path("/"),
        topology=hidden(matrix_only()),
    )
    return tune(source, FileResources([packaged_data()]))


def test_a_hidden_tree_is_said_and_nothing_is_made_up() -> None:
    """No file of a topology is known, so none is set; a finding says what is hidden."""
    found = tuned(None)
    assert found.env.settings == ()
    assert "pci-hidden" in {note.rule for note in found.env.notes}


def test_a_provider_s_file_tells_what_is_hidden() -> None:
    """Where the provider ships a topology file for its machine, that is what NCCL is told."""
    values = {one.name: one.value for one in tuned("azure-ndv5").env.settings}
    assert values["NCCL_TOPO_FILE"] == "/opt/microsoft/ndv5/topo.xml"
