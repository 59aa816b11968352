"""The options that say a job: what is typed becomes the value at its key."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from hpckit.cli.main import cli
from hpckit.core.errors import ConfigError
from tests.fakes.cli_jobs import call, document, ended_job, write_site

JOB = 'schema = "hpckit.job/1"\nname = "n"\ncommand = ["true"]\n'


def job_of(*args: str | Path, stdin: str | bytes = "") -> dict[str, Any]:
    """The effective job of `hpckit render --json ARGS`."""
    job: dict[str, Any] = document("render", "--json", *args, stdin=stdin)["effective"]["job"]
    return job


def refused(*args: str | Path, stdin: str | bytes = "") -> ConfigError:
    """The configuration error of `hpckit render ARGS`."""
    error = call("render", *args, stdin=stdin, refused=True).exception
    assert isinstance(error, ConfigError), error
    return error


def completions(*words: str) -> list[str]:
    """What is offered for the last of `words`."""
    found = ShellComplete(cli, {}, "hpckit", "_HPCKIT_COMPLETE").get_completions(
        list(words[:-1]), words[-1]
    )
    return [item.value for item in found]


def test_words_after_the_dashes_are_the_command() -> None:
    """All after the first -- is the job's command, also what looks like an option of ours."""
    job = job_of("--name", "a", "--", "tool", "--name", "b", "--", "--json")
    assert job["command"] == ["tool", "--name", "b", "--", "--json"]
    assert job["name"] == "a"


def test_a_command_takes_the_place_of_the_files(tmp_path: Path) -> None:
    """A command after -- stands over that of the job file, whose name stays."""
    (tmp_path / "job.toml").write_text(JOB)
    job = job_of(tmp_path / "job.toml", "--", "other")
    assert (job["name"], job["command"]) == ("n", ["other"])


@pytest.mark.parametrize("args", [(), ("--",), ("--name", "x")])
def test_a_job_or_a_command_is_needed(args: tuple[str, ...]) -> None:
    """Without either, the usage error says what to give."""
    result = call("render", *args)
    assert result.exit_code == 2
    assert "give a job file, or a command after --" in result.stderr


def test_a_command_without_dashes_is_told_where_to_go(tmp_path: Path) -> None:
    """A second word without -- is a usage error that shows where a command goes."""
    result = call("submit", "python3", "train.py")
    assert result.exit_code == 2
    assert "a command goes after --: hpckit submit -- python3 train.py" in result.stderr
    assert "[-- COMMAND...]" in call("render", "-h").stdout


@pytest.mark.parametrize(("name", "program"), [("a.py", "python3"), ("a.sh", "bash")])
def test_a_program_is_no_job_file(name: str, program: str) -> None:
    """A program as JOB is refused with the command line that runs it."""
    assert refused(name).hint == f"a program goes after --: hpckit render -- {program} {name}"


@pytest.mark.parametrize(
    ("setting", "key", "value"),
    [
        ("resources.time_limit=00:00:03", "resources.time_limit", "00:00:03"),
        ("resources.time_limit=2024-01-02", "resources.time_limit", "2024-01-02"),
        ("resources.nodes=3", "resources.nodes", 3),
        ('resources.mem="3"', "resources.mem", "3"),
        ("resources.mem=64G", "resources.mem", "64G"),
        ("launch.kill_on_bad_exit=false", "launch.kill_on_bad_exit", False),
        ('environment.modules=["a", "b/1"]', "environment.modules", ["a", "b/1"]),
        ('tune.env={A = "1"}', "tune.env", {"A": "1"}),
        ("tune.env.NCCL_DEBUG=INFO", "tune.env", {"NCCL_DEBUG": "INFO"}),
        ("slurm.extra.mem-bind=local", "slurm.extra", {"mem-bind": "local"}),
        ("name=a=b", "name", "a=b"),
        ("name=x\ny = 1", "name", None),
        ("slurm.comment=1\n[b]", "slurm.comment", None),
    ],
)
def test_set_reads_toml_where_it_is_toml(setting: str, key: str, value: object) -> None:
    """A value is what TOML reads, else the text itself; a time of day is text, never a date."""
    if value is None or "2024" in setting:
        refused("--set", setting, "--", "true")
        return
    node: Any = job_of("--set", setting, "--", "true")
    for part in key.split("."):
        node = node[part]
    assert node == value


def test_a_value_of_another_type_is_blamed_on_its_option() -> None:
    """A wrong value names --set and the key."""
    error = refused("--set", "resources.nodes=many", "--", "true")
    assert (error.source, error.key) == ("--set", "resources.nodes")


def test_a_word_that_is_none_of_its_list_is_blamed_on_its_option() -> None:
    """A plugin that there is not names --plugin, as a release that is none names --nccl."""
    error = refused("--plugin", "nccl", "--", "true")
    assert (error.source, error.key) == ("--plugin", "tune.plugin")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--set", "name"), "--set got 'name', expected NAME=VALUE"),
        (("--set", "=x"), "--set got '=x', expected NAME=VALUE"),
        (("--env", "A"), "--env got 'A', expected NAME=VALUE"),
        (("--env", "A.B=1"), "expected a variable name before ="),
        (("--nodes", "two"), "'two' is not a valid integer"),
    ],
)
def test_what_is_no_pair_is_a_usage_error(args: tuple[str, ...], said: str) -> None:
    """--set and --env need a name and a value."""
    result = call("render", *args, "--", "true")
    assert result.exit_code == 2
    assert said in result.stderr


def test_variables_are_exported_as_typed() -> None:
    """--env sets variables, a value may hold = or be empty, and the last word of a name wins."""
    typed = ("--env", "A=1=2", "--env", "B=", "--env", "C=x", "--env", "C=y")
    assert job_of(*typed, "--", "true")["environment"]["set"] == {"A": "1=2", "B": "", "C": "y"}


def test_what_bash_sets_itself_is_no_variable_of_a_job() -> None:
    """Each name that this machine's bash keeps read-only: the script's export would end it."""
    listed = subprocess.run(
        ["bash", "-c", "readonly -p"], check=True, capture_output=True, text=True
    ).stdout
    names = re.findall(r"^declare -\w+ (\w+)", listed, re.MULTILINE)
    assert {"UID", "PPID"} <= set(names)
    for name in names:
        assert "bash" in str(refused("--env", f"{name}=5", "--", "true")), name


@pytest.mark.parametrize("name", ["HPCKIT_X", "SLURM_JOB_ID", "BASH_ENV", "1A", "A-B"])
def test_a_variable_that_must_not_be_set_is_refused(name: str) -> None:
    """--env of what is hpckit's, Slurm's or bash's own, or of no name, is a ConfigError."""
    assert refused("--env", f"{name}=1", "--", "true").exit_code == 3


def test_pass_adds_to_the_files_list(tmp_path: Path) -> None:
    """--pass may be given twice and adds to what file and site let through."""
    (tmp_path / "job.toml").write_text(JOB + '[environment]\npass = ["NCCL_DEBUG"]\n')
    job = job_of(tmp_path / "job.toml", "--pass", "FI_*", "--pass", "NCCL_DEBUG")
    assert job["environment"]["pass"] == ["NCCL_DEBUG", "FI_*"]


@pytest.mark.parametrize("flag", ["exclusive", "requeue"])
def test_a_switch_has_a_no(tmp_path: Path, flag: str) -> None:
    """A switch stands over the file's word in both directions, and unsaid leaves it."""
    table = "resources" if flag == "exclusive" else "slurm"
    (tmp_path / "job.toml").write_text(f"{JOB}[{table}]\n{flag} = true\n")
    seen = [
        job_of(tmp_path / "job.toml", *typed)[table][flag]
        for typed in ((), (f"--no-{flag}",), (f"--{flag}",))
    ]
    assert seen == [True, False, True]


def test_an_expedited_requeue_is_of_new_releases(tmp_path: Path) -> None:
    """--requeue=expedite is rendered from Slurm 25.11 on, and refused where the site is older."""
    (tmp_path / "job.toml").write_text(f'{JOB}[slurm]\nrequeue = "expedite"\n')
    line = "#SBATCH --requeue=expedite"
    assert line in call("render", tmp_path / "job.toml").stdout
    typed = ("render", "--requeue=expedite")
    assert line in call(*typed, "--slurm-version", "25.11.1", "--", "true").stdout
    old = call(*typed, "--slurm-version", "24.11", "--", "true", refused=True).exception
    assert "sbatch of Slurm 24.11.0 does not have it (new in 25.11)" in str(old)
    assert "expected one of: expedite, true, false" in str(refused("--requeue=x", "--", "true"))
    assert job_of("--requeue", "--", "true")["slurm"]["requeue"] is True
    words = ("--comment", "use --requeue=expedite")
    assert job_of(*words, "--", "true")["slurm"]["comment"] == words[1]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("-N 4 -n 2", "--nodes and --ntasks 2 contradict each other (nodes = 4 or 2)"),
        ("-N 2 -n 8 --ntasks-per-node 2", "(ntasks_per_node = 2 or 4): give one of them"),
        ("-N 2 -G 8 --gpus-per-node 2", "(gpus_per_node = 2 or 4): give one of them"),
        ("-N 2 -n 4 --gpus-per-task 2 --gres gpu:8", "--gpus-per-task and --gres gpu:8"),
        ("-G h100:2 --gpu-type a100 -N 1", "--gpu-type and --gpus h100:2"),
        ("--gres gpu:h100:2,gpu:a100:2", "needs [[component]] tables"),
        (
            "-n 7 --ntasks-per-node 4",
            "7 does not divide by 2; instead: --ntasks-per-node 4",
        ),
        ("-n 4", "--ntasks counts all nodes: add --nodes"),
        ("FILE -G 1", "--gpus counts all nodes: add --nodes"),
        ("FILE --gpus-per-task 1", "add --ntasks-per-node"),
        ("-N 2 -n 0", "got '0', expected N"),
    ],
)
def test_no_count_of_sbatch_is_dropped(tmp_path: Path, typed: str, said: str) -> None:
    """What contradicts another option, or cannot be said per node, is a usage error."""
    (tmp_path / "job.toml").write_text(JOB + "[resources]\nntasks_per_node = 4\n")
    words = typed.replace("FILE", str(tmp_path / "job.toml")).split()
    result = call("render", *words, "--", "true")
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize(
    ("typed", "resources"),
    [
        ("-n 8 --ntasks-per-node 4", {"nodes": 2, "ntasks_per_node": 4}),
        ("-N 2 -n 8 -G h100:8 --gpus-per-task 1", {"ntasks_per_node": 4, "gpus_per_node": 4}),
        ("-N 2 -G 0", {"nodes": 2, "gpus_per_node": 0}),
        ("--gres gpu:0", {"gpus_per_node": 0}),
        ("--gres nvme:1", {"gpus_per_node": 2}),
    ],
)
def test_sbatchs_counts_are_those_of_a_node(
    tmp_path: Path, typed: str, resources: dict[str, object]
) -> None:
    """Over a job file with 2 GPUs on each node."""
    (tmp_path / "job.toml").write_text(JOB + "[resources]\ngpus_per_node = 2\n")
    job = job_of(tmp_path / "job.toml", *typed.split())["resources"]
    assert resources.items() <= job.items()


def test_every_value_knows_the_option_it_came_from() -> None:
    """--explain lists values with the option that set them, and defaults as such."""
    text = call("render", "--explain", "--nodes", "2", "--set", "name=x", "--", "true").stdout
    rows = {line.split()[0]: line.split()[-1] for line in text.splitlines()}
    assert rows["resources.nodes"] == "--nodes"
    assert rows["name"] == "--set"
    assert rows["launch.kind"] == "default"


@pytest.mark.parametrize(
    "words", [("--nodes", "2"), ("--exclusive",), ("--pass", "A", "--env", "B=1")]
)
def test_the_script_says_how_to_make_it_again(words: tuple[str, ...]) -> None:
    """The options are repeated in the script as they were typed."""
    script = call("render", *words, "--", "true").stdout
    assert f"hpckit render --site none {' '.join(words)} -- true" in script


def test_the_site_of_the_environment_gives_way_to_local(monkeypatch: pytest.MonkeyPatch) -> None:
    """HPCKIT_SITE names the site of each command, and --local stands over it without a word."""
    monkeypatch.setenv("HPCKIT_SITE", "docker")
    assert document("render", "--json", "--", "true")["site"] == "docker"
    assert document("submit", "--dry-run", "--json", "--local", "--", "true")["site"] == "local"


def test_two_sites_are_one_too_many() -> None:
    """--local beside another --site is a usage error; beside --site local it is the same word."""
    result = call("submit", "--local", "--site", "docker", "--", "true")
    assert result.exit_code == 2
    assert "give only one of them" in result.stderr
    args = ("submit", "--dry-run", "--json", "--local", "--site", "local", "--", "true")
    assert document(*args)["site"] == "local"


def test_a_job_file_may_come_from_stdin() -> None:
    """`-` reads the job file from stdin; other bytes than UTF-8 are refused."""
    assert job_of("-", stdin=JOB)["name"] == "n"
    assert "is not UTF-8 text" in str(refused("-", stdin=b"\xff"))


def test_sites_are_completed(tmp_path: Path) -> None:
    """The names of sites are offered where a site is expected."""
    assert {"docker", "local"} < set(completions("render", "--site", ""))
    assert completions("submit", "--site", "lo") == ["local"]
    assert completions("sites", "show", "do") == ["docker"]


def test_job_ids_are_completed() -> None:
    """The ids of submitted jobs are offered with their names, and none where there is no index."""
    assert completions("status", "") == []
    job = ended_job("true")
    assert completions("status", "L") == [job.job_id]
    assert completions("cancel", job.job_id[:4]) == [job.job_id]
    assert completions("logs", "x") == []


def test_a_damaged_index_completes_nothing() -> None:
    """Completion never fails: with a damaged index nothing is offered."""
    job = ended_job("true")
    (job.folder.parents[1] / "jobs.sqlite").write_bytes(b"no database at all" * 100)
    assert completions("status", "") == []


def test_a_site_dir_comes_first(tmp_path: Path) -> None:
    """--site-dir and --template-dir name folders that come before all others."""
    write_site(tmp_path, "mine", "")
    (tmp_path / "base.sbatch.j2").write_text("echo mine\n")
    args = ("--site-dir", tmp_path, "--template-dir", tmp_path, "--site", "mine", "--", "true")
    assert call("render", *args).stdout.startswith("echo mine\n# custom template (not hpckit's)")


def test_a_dry_run_is_what_render_prints() -> None:
    """--dry-run prints the script of `render` and starts nothing."""
    result = call("submit", "--dry-run", "--local", "--", "true")
    assert result.stdout == call("render", "--site", "local", "--", "true").stdout
    assert "dry run: nothing submitted" in result.stderr
    assert json.loads(call("jobs", "--json").stdout)["jobs"] == []


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("slurm.switches=1", "#SBATCH --switches=1"),
        ("slurm.account=123", "#SBATCH --account=123"),
        ('slurm.account="123"', "#SBATCH --account=123"),
        ("slurm.extra.nice=7", "#SBATCH --nice=7"),
        ("resources.cpus_per_task=3", "#SBATCH --cpus-per-task=3"),
    ],
)
def test_a_number_for_a_text_needs_no_quotes(setting: str, line: str) -> None:
    """--set takes what was typed as text where the key holds text, and as a number elsewhere."""
    result = call("render", "--set", setting, "--", "true")
    assert line in result.stdout.splitlines()


@pytest.mark.parametrize("typed", [("--gpus-per-node=h100:4",), ("--gpus-per-node", "h100:4")])
def test_gpus_per_node_takes_the_type_as_sbatch_does(typed: tuple[str, ...]) -> None:
    """`h100:4` is the type and the count."""
    script = call("render", *typed, "--", "true").stdout
    assert re.search(r"^#SBATCH --gpus-per-node=h100:4 ", script, re.MULTILINE)
