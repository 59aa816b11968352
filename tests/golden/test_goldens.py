"""Job files and the scripts they become, byte for byte; the diff of a golden is its review.

`pytest tests/golden --update-golden` rewrites them. A case holds `args` (words of `hpckit render`),
and may hold `job.toml`, `site.toml` and `templates/`.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hpckit.cli.main import cli
from tests.conftest import RunHpckit
from tests.fakes.sbatch_reader import components

CASES = sorted((Path(__file__).parent / "cases").iterdir())
NAMES = [case.name for case in CASES]
SHELLCHECK = Path(sys.executable).with_name("shellcheck")
LITERAL = {"hostile-words": "SC2016,SC1003"}
"""Case → findings that are its point: `$(x)` and a backslash in single quotes stay as they are."""

RUNNER_DIGEST = re.compile(r"(?<=runner sha256 )[0-9a-f]{12}")
"""Of the sources that the runner has today: in a golden it is zeros."""
WITH_GRES = ("jean-zay-", "jupiter-", "leonardo-", "marenostrum5-", "roihu-")
"""What the names of the cases begin with whose site wants --gres."""


def words(case: Path) -> list[str]:
    """The words of `hpckit render` for a case."""
    given = shlex.split((case / "args").read_text(encoding="utf-8"))
    before = [str(case / "job.toml")] if (case / "job.toml").exists() else []
    if (case / "site.toml").exists():
        before += ["--site-dir", str(case)]
    if (case / "templates").exists():
        before += ["--template-dir", str(case / "templates")]
    return [*before, *given]


def expected(case: Path) -> str:
    """The script that the case must become."""
    return (case / "expected.sbatch").read_bytes().decode()


def steps(script: str) -> list[str]:
    """The srun of a script without the runner before it, its continued lines joined."""
    joined = script.replace("\\\n", " ")
    runner = r"(?:.*\$\{hpckit_run\[@\]\}\" |  exec .* run --component .* -- +)"
    return re.findall(rf"^{runner}?(srun .*)$", joined, re.MULTILINE)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_script_is_the_expected_one(
    case: Path, request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    """`hpckit render` prints exactly the bytes of the golden."""
    context = click.Context(click.Command("hpckit"))
    with context:
        cli.main(["render", *words(case)], prog_name="hpckit", standalone_mode=False)
    text = RUNNER_DIGEST.sub("0" * 12, capfd.readouterr().out)
    if request.config.getoption("--update-golden", default=False):
        (case / "expected.sbatch").write_bytes(text.encode())
    assert text == expected(case)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_bash_reads_it(case: Path) -> None:
    """Every golden is valid bash."""
    subprocess.run(["bash", "-n", case / "expected.sbatch"], check=True)


def test_shellcheck_finds_nothing() -> None:
    """Shellcheck has no finding in any golden."""
    plain = [case / "expected.sbatch" for case in CASES if case.name not in LITERAL]
    subprocess.run([SHELLCHECK, "-s", "bash", *plain], check=True)
    for name, findings in LITERAL.items():
        script = Path(__file__).parent / "cases" / name / "expected.sbatch"
        subprocess.run([SHELLCHECK, "-s", "bash", "-e", findings, script], check=True)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_sbatch_reads_the_directives(case: Path) -> None:
    """Old and new sbatch take the same options, each once, from a script's head."""
    script = expected(case)
    assert components(script) == components(script, old=True)
    parts = [[word.split("=", 1)[0] for word in part] for part in components(script)]
    assert all(len(names) == len(set(names)) and "--nodes" in names for names in parts)
    read, names = components(script)[0], [name for names in parts for name in names]
    assert all(name.startswith("--") for name in names)
    assert ("--requeue" in names) != ("--no-requeue" in names)
    assert "--open-mode=append" in read
    assert not set(names) & {"--gpus-per-task", "--gpus", "--output", "--export"}
    assert not {"--gres", "--gpus-per-node"} <= set(names)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_step_says_what_it_needs(case: Path) -> None:
    """The step states its size and order, ends with its first failure, and waits for stragglers."""
    script = expected(case)
    local = case.name.startswith("local-")
    parts = components(script)
    assert len(steps(script)) == (0 if local else len(parts))
    for step, read in zip(steps(script), parts, strict=False):
        given = shlex.split(step)
        for word in read:
            if word.startswith(("--cpus-per-task=", "--nodes=", "--ntasks-per-node=")):
                assert word in given
        assert any(word.startswith("--ntasks=") for word in given)
        if case.name == "distribution-cyclic":
            assert "--distribution=cyclic" in given
        elif case.name != "everything-said":
            assert "--kill-on-bad-exit=1" in given
            assert "--wait=0" in given
            assert "--distribution=block:block" in given
        assert not any(word.startswith("--gpu") for word in given)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_gpus_are_asked_by_the_node(case: Path) -> None:
    """A job with GPUs asks for them by the node, as its site wants, with the type that it said."""
    option = "--gres=gpu" if case.name.startswith(WITH_GRES) else "--gpus-per-node"
    text = "".join(path.read_text() for path in (case / "job.toml", case / "args") if path.exists())
    read = [word for part in components(expected(case)) for word in part]
    asked = [word for word in read if word.startswith(("--gpus", "--gres="))]
    said = re.search(r"gpus.per.node(?: = | )(\d+)", text)
    count = said[1] if said else ""
    pattern = rf"{option}[=:](\w+:)?{count}"
    assert bool(asked) == bool(said)
    assert all(re.fullmatch(pattern, word) for word in asked)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_it_fits_on_a_screen(case: Path) -> None:
    """A person reviews a job on one screen, at every site."""
    most = 50 if case.name.endswith("-components") else 45
    if case.name not in {"everything-said", "own-template"}:
        assert len(expected(case).splitlines()) <= most


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_nothing_of_this_machine_stands_in_it(case: Path) -> None:
    """No path, user, host, time or id of the machine that rendered it; nothing unset is shown."""
    script = expected(case)
    for foreign in (str(Path.cwd()), str(Path.home()), "/home/", "/root", "/work/", "/tmp/"):
        assert foreign not in script
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", script)
    assert not re.search(r"\b20\d\d-\d\d-\d\d\b|\d\d:\d\d:\d\d\.\d", script)
    assert not re.search(r"\b(None|(?<!/dev/)null|undefined|True|False)\b", script)
    assert not re.search(r"=$", script.split("# reproduce")[0], re.MULTILINE)


FOREIGN = {
    "SLURM_JOB_ID": "99",
    "SLURM_NTASKS": "64",
    "SBATCH_PARTITION": "other",
    "SBATCH_ACCOUNT": "other",
    "NCCL_DEBUG": "TRACE",
    "CUDA_VISIBLE_DEVICES": "3",
    "HPCKIT_PYTHON": "/opt/python",
    "MASTER_ADDR": "elsewhere",
    "USER": "somebody",
    "LOGNAME": "somebody",
    "HOSTNAME": "elsewhere",
    "LC_ALL": "C",
    "TZ": "Pacific/Kiritimati",
    "PYTHONHASHSEED": "1",
    "COLUMNS": "40",
    "TERM": "dumb",
    "NO_COLOR": "1",
}


@pytest.mark.parametrize("name", ["everything-said", "hostile-words", "own-site", "own-template"])
def test_the_bytes_are_the_same_anywhere(
    name: str, tmp_path: Path, run_hpckit_process: RunHpckit
) -> None:
    """Another home, user, folder, locale, time zone, hash seed and shell change no byte."""
    case = Path(__file__).parent / "cases" / name
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    (elsewhere / "another name.toml").write_bytes((case / "job.toml").read_bytes())
    given = words(case)
    here = run_hpckit_process("render", *given, env={"PYTHONHASHSEED": "0"})
    assert here.returncode == 0
    there = run_hpckit_process(
        "render",
        elsewhere / "another name.toml",
        *given[1:],
        env={**FOREIGN, "HOME": str(elsewhere)},
        cwd=elsewhere,
    )
    assert there.stdout == here.stdout
    assert RUNNER_DIGEST.sub("0" * 12, there.stdout) == expected(case)
