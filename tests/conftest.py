"""What every test gets: an environment of its own, a hypothesis profile, and the program to run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import settings

from hpckit.adapters.injob_archive import pack_injob

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, max_examples=200, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A test run in the background of a shell ignores Ctrl-C, and so would what it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # Under nohup(1) a closed session is ignored, and so would it be by what it starts.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

FOREIGN_PREFIXES = ("HPCKIT_", "SLURM_", "SBATCH_", "SRUN_", "NCCL_", "PMI_", "PMIX_", "OMPI_")
FOREIGN_NAMES = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
KEPT = ("HPCKIT_CORPUS",)
"""Where the public captures are: given to the test run, not read by the product."""


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Home, state and configuration lie under `tmp_path`; no variable of a user or job is seen."""
    home = tmp_path / "home"
    for name, folder in {
        "HOME": home,
        "XDG_STATE_HOME": home / ".local" / "state",
        "XDG_CONFIG_HOME": home / ".config",
        "XDG_CACHE_HOME": home / ".cache",
        "XDG_DATA_HOME": home / ".local" / "share",
    }.items():
        folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.setenv(name, str(folder))
    for name in list(os.environ):
        foreign = name.startswith(FOREIGN_PREFIXES) or name in FOREIGN_NAMES
        if foreign and name not in KEPT:
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(scope="session")
def injob_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The in-job archive, packed once a worker; beside it the folder `cache`, as a user's."""
    folder = tmp_path_factory.mktemp("archive")
    pack_injob(folder / "hpckit-injob.pyz", folder / "cache")
    return folder / "hpckit-injob.pyz"


@pytest.fixture(autouse=True)
def packed_already(own_environment: None, request: pytest.FixtureRequest) -> None:
    """Let submissions find the in-job archive in the user's cache: packing takes 2 s."""
    if not any(name.startswith("run_hpckit") for name in request.fixturenames):
        return
    archive: Path = request.getfixturevalue("injob_archive")
    cache = Path(os.environ["XDG_CACHE_HOME"], "hpckit")
    cache.mkdir(parents=True)
    for kept in archive.with_name("cache").iterdir():
        os.link(kept, cache / kept.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a finished command left behind."""

    returncode: int
    stdout: str
    stderr: str


class RunHpckit(Protocol):
    """The signature of the fixture `run_hpckit`."""

    def __call__(
        self,
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        input: str | None = None,
        timeout_s: float = 60,
    ) -> Ran:
        """Run `python -m hpckit ARGS` to its end."""


@pytest.fixture
def run_hpckit(tmp_path: Path) -> RunHpckit:
    """Runs the command line as a process, in `tmp_path` unless told, `env` added to the test's."""

    def run(
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        input: str | None = None,
        timeout_s: float = 60,
    ) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "hpckit", *map(str, args)],
            env={**os.environ, **(env or {})},
            cwd=cwd or tmp_path,
            input=input or "",
            capture_output=True,
            encoding="utf-8",
            timeout=timeout_s,
            check=False,
        )
        return Ran(returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)

    return run
