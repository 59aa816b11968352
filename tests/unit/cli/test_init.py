"""`hpckit init`: a job file to begin with."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.fakes.cli_jobs import call

SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4 --gres=gpu:h100:4 -t 8:00:00
#SBATCH --output=%x.out
module load cuda/12.8
srun --mpi=pmix python train.py
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_batch_script_becomes_a_job_file() -> None:
    """The file renders as it is; what was left is told, and stands in it as a comment."""
    Path("old.sbatch").write_text(SCRIPT)
    told = call("init", "--from", "old.sbatch").stdout
    assert "line 3: --output=%x.out" in told
    text = Path("job.toml").read_text()
    assert "#   line 3: --output=%x.out" in text
    job = tomllib.loads(text)
    assert job["resources"] == {
        "nodes": 2, "ntasks_per_node": 4, "gpus_per_node": 4, "gpu_type": "h100",
        "time_limit": "8:00:00",
    }  # fmt: skip
    assert job["launch"] == {"kind": "mpi", "mpi": "pmix"}
    assert "module load cuda/12.8" in call("render", "job.toml").stdout


def test_a_script_of_standard_input() -> None:
    """Is read once; one that must stay whole has no path that the job could run."""
    text = call("init", "--from", "-", "-o", "-", stdin=SCRIPT).stdout
    assert tomllib.loads(text)["command"] == ["python", "train.py"]
    assert "in the script" not in text.replace("in the script the cluster's default", "")
    error = call("init", "--from", "-", stdin=f"{SCRIPT}srun ./b\n", refused=True).exception
    assert "has no path" in str(error)


def test_a_file_that_does_not_render_is_not_proposed_for_submission() -> None:
    """The reason comes first."""
    Path("old.sbatch").write_text("#!/bin/bash\n#SBATCH -N1\ndeepspeed --foo=2 train.py\n")
    told = call("init", "--from", "old.sbatch").stdout
    assert "does not render" in told
    assert "submit" not in told


def test_options_stand_over_the_script() -> None:
    """As they do over a job file."""
    Path("old.sbatch").write_text(SCRIPT)
    call("init", "--from", "old.sbatch", "-N", "4", "-o", "other.toml")
    assert tomllib.loads(Path("other.toml").read_text())["resources"]["nodes"] == 4


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["--", "torchrun", "train.py", "a b"], ["torchrun", "train.py", "a b"]),
        (["train.py"], ["python3", "train.py"]),
        (["run.sh"], ["bash", "run.sh"]),
    ],
)
def test_a_command_or_a_program(words: list[str], command: list[str]) -> None:
    """With sbatch's options, as a job file that renders."""
    text = call("init", "-N2", "-G", "h100:16", "-o", "-", *words).stdout
    job = tomllib.loads(text)
    assert job["command"] == command
    assert job["resources"] == {"nodes": 2, "gpus_per_node": 8, "gpu_type": "h100"}
    assert call("render", "-", stdin=text).stdout.startswith("#!/bin/bash")


def test_a_file_that_is_there_is_kept() -> None:
    """Unless --force says otherwise."""
    Path("job.toml").write_text("mine")
    error = call("init", "train.py", refused=True).exception
    assert "already exists" in str(error)
    assert Path("job.toml").read_text() == "mine"
    call("init", "train.py", "--force")
    assert "python3" in Path("job.toml").read_text()


def test_a_token_is_not_written(tmp_path: Path) -> None:
    """A literal secret of the script is refused, and no part of it is shown."""
    token = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
    Path("old.sbatch").write_text(SCRIPT.replace("module load", f"export HF_TOKEN={token}\n#"))
    error = call("init", "--from", "old.sbatch", refused=True).exception
    assert token[4:12] not in str(error)
    assert not (tmp_path / "job.toml").exists()
    call("init", "--from", "old.sbatch", "--secret", "HF_TOKEN")
    assert token not in Path("job.toml").read_text()


def test_a_script_in_latin_1_is_refused(tmp_path: Path) -> None:
    """Its paths would be others."""
    Path("old.sbatch").write_bytes(b"#!/bin/bash\n#SBATCH -N 1\nsrun ./a /data/caf\xe9\n")
    error = call("init", "--from", "old.sbatch", refused=True).exception
    assert "iconv -f latin1" in str(error)
    assert not (tmp_path / "job.toml").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "give a command after --"),
        (["job.toml"], "is no program"),
        (["new.toml", "--", "true"], "-o FILE names the file"),
        (["--from", "old.sbatch", "train.py"], "either --from old.sbatch or train.py"),
        (["--from", "old.sbatch", "--", "python", "a.py"], "either --from old.sbatch or python"),
        (["--stage", "s", "train.py"], "takes no --stage"),
        (["--from", "old.sbatch", "--from-report", "1"], "takes no --from-report"),
    ],
)
def test_what_cannot_begin_is_a_usage_error(words: list[str], told: str) -> None:
    """Nobody to ask, no program, two jobs, and what a job file does not hold."""
    result = call("init", *words)
    assert result.exit_code == 2
    assert told in result.stderr


@pytest.mark.parametrize("words", [("-n", "3", "-N", "2"), ("-n", "x"), ("-G", "h100"), ("-G", "")])
def test_a_count_that_cannot_be(words: tuple[str, ...]) -> None:
    """A usage error, never a number that was dropped."""
    assert call("render", *words, "--", "true").exit_code == 2


@pytest.mark.parametrize("typed", [("-t", "2h"), ("--mem", "4Go"), ("--signal", "FOO")])
def test_a_wrong_value_is_refused_and_not_dropped(tmp_path: Path, typed: tuple[str, str]) -> None:
    """No file is written that asks for less than was typed."""
    file = tmp_path / "job.toml"
    result = call("init", *typed, "-o", str(file), "--", "true", refused=True)
    assert "expected" in str(result.exception)
    assert not file.exists()


def test_a_script_that_stays_whole_is_named(tmp_path: Path) -> None:
    """What runs is the script, and not the placeholder of a command."""
    script = tmp_path / "old.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH -N 2\nsrun ./a\nsrun ./b\n")
    result = call("init", "--from", str(script), "-o", str(tmp_path / "job.toml"))
    assert f"stays whole · bash {script}"[:40] in result.stdout
