"""`hpckit check`: a script of one's own, and a job file, before they queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.cli_jobs import call, document

SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --gres=gpu:8
export NCCL_P2P_DISABLE=1
srun python train.py
"""


def checked(folder: Path, text: str, *options: str) -> dict[str, Any]:
    """The document about a script, no cluster asked."""
    script = folder / "run.sh"
    script.write_text(text)
    return document("check", script, "--offline", "--json", *options)


def test_a_script_is_checked_line_by_line(tmp_path: Path) -> None:
    """Options and settings of communication are told with their lines and what would do."""
    found = checked(tmp_path, SCRIPT)
    assert found["schema"] == "hpckit.check/1"
    lines = {one["line"]: one for one in found["findings"]}
    assert "NCCL_P2P_DISABLE" in lines[5]["subject"]
    assert all(one["severity"] and one["rule"] for one in found["findings"])


def test_a_token_in_a_script(tmp_path: Path) -> None:
    """A literal secret is an error with its line, and no part of it is shown."""
    token = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/bash\n#SBATCH -N1\nexport HF_TOKEN={token}\n")
    result = call("check", script, "--offline")
    assert result.exit_code == 1
    assert "line 3" in result.stdout
    assert token[4:12] not in result.output


@pytest.mark.parametrize(
    "line",
    [
        "#SBATCH --comment='{}", "#SBATCH --bogus={}", "#SBATCH {}", "#SBATCH --time={}",
        "#SBATCH -x{}", "echo '{}", "cat <<{}", "export NCCL_DEBUG=$({}", "export NCCL_DEBUG={}",
        'python -c "print(\\n{})"', "curl https://x/?t=a%20{}",
    ],
)  # fmt: skip
def test_a_token_is_shown_nowhere(tmp_path: Path, line: str) -> None:
    """In an option, in a setting or in what is no shell: the secret is told, and never shown."""
    token = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/bash\n{line.format(token)}\n")
    for options in ((), ("--json",)):
        result = call("check", script, "--offline", *options)
        assert (result.exit_code, token[4:12] in result.output) == (1, False), result.output


@pytest.mark.parametrize(
    "options",
    ["-L matlab:abc", "-L :::", "-N " + "9" * 5000, "-n " + "9" * 400, "--gpus=" + "9" * 5000,
     "-n 10 --ntasks-per-node=" + "9" * 400, "--array=0-" + "9" * 30, "-N 1-2-3", "--nodes=0"],
)  # fmt: skip
def test_absurd_numbers(tmp_path: Path, options: str) -> None:
    """A number that none can be is no crash."""
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/bash\n#SBATCH {options}\ntrue\n")
    assert call("check", script, "--offline").exit_code in (0, 1)


def test_an_option_that_sbatch_does_not_know(tmp_path: Path) -> None:
    """The line is told, as sbatch would refuse it."""
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/bash\n#SBATCH --nodse=2\n")
    script.write_text(script.read_text() + "#SBATCH --nodes = 2\nexport NCCL_P2P_DISABLE=1\n")
    result = call("check", script, "--offline")
    assert result.exit_code == 1
    for words in (
        "line 2: sbatch has no option --nodse",
        "line 3: --nodes has a blank",
        "line 4",
    ):
        assert words in result.stdout


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        ("#SBATCH --time=2h\n", "value", 2),
        ("#SBATCH --mem=lots\n", "value", 2),
        ("#PBS -l walltime=1:00:00\n", "pbs-option", 2),
        ("true\n#SBATCH -N 2\n", "late-option", 3),
        ("#SBATCH -N 2\r\n", "dos-lines", 1),
        ("#SBATCH --array=0-99999999999999999999\n", None, None),
    ],
)
def test_a_line_that_does_not_do_what_it_looks_like(
    tmp_path: Path, text: str, rule: str | None, line: int | None
) -> None:
    """Each is told with its line."""
    found = {
        one["rule"]: one["line"] for one in checked(tmp_path, f"#!/bin/bash\n{text}")["findings"]
    }
    assert rule is None or found[rule] == line


def test_a_script_without_its_first_line(tmp_path: Path) -> None:
    """A script that sbatch would not take for one is told so, and not read as a job file."""
    script = tmp_path / "run.sh"
    script.write_text("\n#SBATCH -N 2\nsrun true\n")
    refused = call("check", script, "--offline", refused=True)
    assert "does not begin with #!" in str(refused.exception)


def test_a_script_takes_no_options(tmp_path: Path) -> None:
    """Options and a command beside a script would be passed over, and are refused."""
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/bash\ntrue\n")
    assert call("check", script, "--nodes", "4").exit_code == 2
    assert call("check", script, "--", "true").exit_code == 2


@pytest.mark.parametrize("fail_on", [None, "note"])
def test_exit_code(tmp_path: Path, fail_on: str | None) -> None:
    """1 for an error, or for what `--fail-on` says."""
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/bash\n#SBATCH -N1\nexport NCCL_P2P_DISABLE=1\nsrun true\n")
    options = [] if fail_on is None else ["--fail-on", fail_on]
    found = document("check", script, "--offline", "--json")["findings"]
    result = call("check", script, "--offline", *options)
    assert found
    assert result.exit_code == (1 if fail_on == "note" else 0), result.output


def test_a_job_file(tmp_path: Path) -> None:
    """A job is checked as it would be rendered; its lines are nobody's to change."""
    words = ("--nodes", "2", "--env", "NCCL_P2P_DISABLE=1", "--", "python", "train.py")
    found = document("check", "--json", "--offline", *words)
    assert [one["line"] for one in found["findings"]] == [None]
    shown = call("check", "--offline", *words).stdout
    assert shown.endswith(
        "next  hpckit submit --nodes 2 --env NCCL_P2P_DISABLE=1 -- python train.py\n"
    )


@pytest.mark.parametrize("image", ["here.sif", "docker://x/y"])
def test_an_image_that_is_there(tmp_path: Path, image: str) -> None:
    """A file beside the job, and what a registry has."""
    (tmp_path / "here.sif").touch()
    assert about_image(tmp_path, image) == []


@pytest.mark.parametrize(
    "image", ["gone.sif", "~/gone.sif", "~root/x.sif", "/gone/rootfs", "nvcr.io/nvidia/pytorch:1"]
)
def test_an_image_that_is_not_there(tmp_path: Path, image: str) -> None:
    """Named before the job queues, and nothing is refused: the nodes may see more."""
    ((severity, because),) = about_image(tmp_path, image)
    assert severity == "note"
    assert f"{image} does not exist on this host;" in because


@pytest.mark.parametrize(("image", "found"), [("nvcr.io#nvidia/pytorch:1", 0), ("a.sqsh", 1)])
def test_an_image_of_pyxis(tmp_path: Path, image: str, found: int) -> None:
    """A name without `://` is a registry's to Pyxis, unless it looks like a file's."""
    assert len(about_image(tmp_path, image, "--set", "container.runtime=pyxis")) == found


def about_image(folder: Path, image: str, *options: str) -> list[tuple[str, str]]:
    """What a check says of a job in this image, submitted from `folder`."""
    image_of = ("--set", f"container.image={image}", "--set", f"chdir={folder}")
    words = ("--site", "docker", *image_of, *options, "--", "true")
    found = document("check", "--json", "--offline", *words)["findings"]
    return [(one["severity"], one["because"]) for one in found]
