"""The wheel, installed away from the checkout: what a user gets from the index."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLEAN = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}

pytestmark = [pytest.mark.package, pytest.mark.xdist_group("package")]


def build_wheel(folder: Path) -> Path:
    """Build the wheel into `folder`, from the checkout and without a network."""
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    argv += ["--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([*argv, str(ROOT)], check=True, timeout=120)
    (wheel,) = folder.glob("hpckit_slurm-*.whl")
    return wheel


def names_in(wheel: Path) -> list[str]:
    """The paths inside a wheel, sorted."""
    with zipfile.ZipFile(wheel) as archive:
        return sorted(archive.namelist())


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built once a session."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `hpckit` command of a new environment that holds the wheel; dependencies are borrowed."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    library = sysconfig.get_path("purelib", "venv", vars={"base": str(folder)})
    # The .pth files in a borrowed folder are not read, so an editable hpckit there stays unseen.
    borrowed = Path(library, "borrowed.pth")
    borrowed.write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    python = str(folder / "bin" / "python")
    argv = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    argv += ["--disable-pip-version-check", "--no-deps", "--no-index", "--ignore-installed"]
    subprocess.run([*argv, str(wheel)], check=True, timeout=120)
    return folder / "bin" / "hpckit"


def run(command: Path, *args: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the installed command in `/`, with no environment but a home."""
    return subprocess.run(
        [command, *args],
        cwd="/",
        env={**CLEAN, "HOME": os.environ["HOME"], "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_wheel_holds_the_package_and_its_data_only(wheel: Path) -> None:
    """Code, templates and site configurations are in the wheel; nothing else is."""
    names = names_in(wheel)
    tops = {name.split("/")[0] for name in names}
    own = {top for top in tops if not top.endswith((".dist-info", ".data"))}
    assert own == {"hpckit"}  # .data: the man pages of `make man`, where that was called
    assert [name for name in names if name.startswith("hpckit/_data/templates/")]
    assert [name for name in names if name.startswith("hpckit/_data/site_configs/")]
    assert not [name for name in names if "test" in Path(name).parts or "tests" in Path(name).parts]
    assert "hpckit/injob/main.py" in names


def test_building_twice_gives_the_same_files(wheel: Path, tmp_path: Path) -> None:
    """A second build packs the same paths."""
    assert names_in(build_wheel(tmp_path)) == names_in(wheel)


def test_wheel_is_what_runs(installed: Path) -> None:
    """The installed command imports the wheel's package, not the checkout."""
    code = "import hpckit; print(hpckit.__file__)"
    where = run(installed.with_name("python"), "-c", code).stdout.strip()
    assert Path(where).is_relative_to(installed.parents[1])


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_answers_with_no_optional_extra(installed: Path, option: str) -> None:
    """`--help` and `--version` answer without any extra, file or Slurm."""
    done = run(installed, option)
    assert (done.returncode, done.stderr) == (0, "")
    assert "hpckit" in done.stdout


def test_packaged_sites_are_found(installed: Path) -> None:
    """The site configurations inside the wheel are listed, as JSON."""
    done = run(installed, "sites", "list", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert listed["schema"].startswith("hpckit.")
    assert "/_data/site_configs/" in done.stdout


def test_packaged_templates_render(installed: Path, tmp_path: Path) -> None:
    """A job file far from the checkout becomes a script that bash can read."""
    job = tmp_path / "job.toml"
    job.write_text(
        'schema = "hpckit.job/1"\nname = "small"\ncommand = ["true"]\n'
        '[resources]\nnodes = 1\ntime_limit = "0:05:00"\n',
        encoding="utf-8",
    )
    done = run(installed, "render", job)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("#!/bin/bash\n")
    subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=True)


def test_example_runs_to_its_end_on_this_machine(installed: Path, tmp_path: Path) -> None:
    """The example, copied out of the checkout, completes through the local back end."""
    example = Path(shutil.copytree(ROOT / "examples" / "allreduce", tmp_path / "allreduce"))
    done = run(installed, "submit", "--local", example / "job.toml", "--wait", "--json")
    assert done.returncode == 0, done.stderr
    assert '"COMPLETED"' in done.stdout
    assert json.loads(done.stdout)["schema"].startswith("hpckit.")
