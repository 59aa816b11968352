"""What every test gets: an environment of its own, a hypothesis profile, and the program to run."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
from click.testing import CliRunner
from hypothesis import settings

from hpckit.cli.main import main
from tests.fakes.nvml_library import build_fake_nvml
from tests.fakes.packed import warm_cache
from tests.sizes import IS_WHOLE, PROFILE

settings.load_profile(PROFILE)

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
HOME_FOLDERS = {
    "HOME": "",
    "XDG_STATE_HOME": ".local/state",
    "XDG_CONFIG_HOME": ".config",
    "XDG_CACHE_HOME": ".cache",
    "XDG_DATA_HOME": ".local/share",
}
_HOMES = itertools.count()
CHANGED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is `slow` to `make faults`."""
    slow = [item for item in items if not IS_WHOLE and item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


@pytest.fixture(autouse=True)
def own_environment(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Home, state and configuration are the test's own; no variable of a user or job is seen.

    The home is as empty as a new account's: what writes to the other folders makes them.
    """
    home = tmp_path_factory.getbasetemp() / "homes" / str(next(_HOMES))
    home.mkdir(parents=True)
    for name, folder in HOME_FOLDERS.items():
        monkeypatch.setenv(name, str(home / folder))
    for name in list(os.environ):
        foreign = name.startswith(FOREIGN_PREFIXES) or name in FOREIGN_NAMES
        if foreign and name not in KEPT:
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake NVML, built once a worker."""
    return build_fake_nvml(tmp_path_factory.mktemp("fake-nvml"))


@pytest.fixture(autouse=True)
def packed_already(own_environment: None, request: pytest.FixtureRequest) -> None:
    """Let submissions find the in-job archive in the user's cache."""
    if any(name.startswith("run_hpckit") for name in request.fixturenames):
        warm_cache()


@dataclass(frozen=True, slots=True)
class Ran:
    """What a finished command left behind."""

    returncode: int
    stdout: str
    stderr: str


class RunHpckit(Protocol):
    """The signature of the fixtures `run_hpckit` and `run_hpckit_process`."""

    def __call__(
        self,
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        input: str | None = None,
    ) -> Ran:
        """Run `hpckit ARGS` to its end."""


@pytest.fixture
def run_hpckit(tmp_path: Path) -> RunHpckit:
    """Run the command line in this process, in `tmp_path` unless told, `env` added to the test's.

    `main` turns errors into exit codes as for a user. What it sets for the rest of a process
    (environment, folder, signals, garbage collection) is put back.
    """

    def run(
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        input: str | None = None,
    ) -> Ran:
        handlers = {number: signal.getsignal(number) for number in CHANGED_SIGNALS}
        environ, words = dict(os.environ), sys.argv
        sys.argv = ["hpckit", *map(str, args)]
        try:
            with (
                contextlib.chdir(cwd or tmp_path),
                CliRunner().isolation(input=input, env=env) as (out, err, _),
            ):
                with pytest.raises(SystemExit) as ended:
                    main()
                said = out.getvalue().decode(), err.getvalue().decode()
        finally:
            gc.unfreeze()
            sys.argv = words
            for name in os.environ.keys() ^ environ.keys():
                os.environ.pop(name)
            os.environ.update(environ)
            for number, handler in handlers.items():
                signal.signal(number, handler)
        code = ended.value.code
        assert isinstance(code, int)
        return Ran(code, *said)

    return run


@pytest.fixture
def run_hpckit_process(tmp_path: Path) -> RunHpckit:
    """Run the command line as a process of its own, for what only a process shows."""

    def run(
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        input: str | None = None,
    ) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "hpckit", *map(str, args)],
            env={**os.environ, **(env or {})},
            cwd=cwd or tmp_path,
            input=input or "",
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
