"""What every part of the suite `account` is made of: figures beside limits, steps, their place."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from hpckit.injob.archive import pack_injob

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
FAKE = ROOT / "docker" / "fake-nvml"
PROFILES = FAKE / "profiles"
BUSY = PROFILES / "dgx-h100-busy.toml"
PEER_PACKAGES = ("zeus", "codecarbon", "prometheus-client", "nvidia-ml-py")
ALONE = "make bench SUITE=account ARGS='--only {}{}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number beside its limit; `value` is None where it could not be measured, `because`."""

    name: str
    value: float | None
    unit: str
    limit: float
    at_least: bool = False
    beside: str = ""
    because: str = ""

    @property
    def kept(self) -> bool | None:
        """Whether the value is within its limit, None where there is none."""
        if self.value is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def line(self) -> str:
        """As it is printed."""
        word = {True: "ok", False: "OVER", None: "-"}[self.kept]
        if self.value is None:
            return f" {word:5} {self.name:46} not measured: {self.because}"
        limit = f"at {'least' if self.at_least else 'most'} {self.limit:g} {self.unit}"
        value = f"{self.value:9.3f} {self.unit:3}"
        return f" {word:5} {self.name:46} {value} {limit:18} {self.beside}".rstrip()

    def row(self, step: str, command: str) -> dict[str, Any]:
        """As `--json` has it."""
        return {"step": step, **asdict(self), "kept": self.kept, "command": command}


class CannotMeasure(Exception):
    """Something that a step needs is not on this machine; says what."""


class Bench:
    """Where a run works, and what its steps share: each is made when it is first asked for."""

    def __init__(self, folder: Path, *, quick: bool, whole: bool) -> None:
        self.folder = folder
        self.quick = quick
        self.whole = whole

    def pick(self, usual: int, quick: int) -> int:
        """A count or a time; the second with --quick."""
        return quick if self.quick else usual

    def place(self, name: str) -> Path:
        """A new folder."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))

    @cached_property
    def fake(self) -> Path:
        """The folder of the fake NVML. Raises CannotMeasure."""
        if shutil.which("cc") is None or shutil.which("make") is None:
            raise CannotMeasure("no C compiler here (cc and make): there is no fake NVML")
        place = self.place("fake-nvml")
        subprocess.run(["make", "--silent", "-C", str(FAKE), f"OUT={place}"], check=True)
        return place

    @cached_property
    def archive(self) -> Path:
        """What is packed for ranks and samplers."""
        path = self.place("archive") / "injob.pyz"
        pack_injob(path)
        return path

    @cached_property
    def peers_python(self) -> str:
        """A Python that has the peers: HPCKIT_PEERS_PYTHON, or made here. Raises CannotMeasure."""
        told = os.environ.get("HPCKIT_PEERS_PYTHON")
        if told:
            return told
        place = self.place("peers")
        python = str(place / "bin" / "python")
        made = subprocess.run([sys.executable, "-m", "venv", str(place)], check=False)
        pip = [python, "-m", "pip", "install", "--quiet", *PEER_PACKAGES]
        if made.returncode or subprocess.run(pip, check=False, capture_output=True).returncode:
            raise CannotMeasure(
                f"pip cannot install {', '.join(PEER_PACKAGES)}; HPCKIT_PEERS_PYTHON names a "
                "Python that has them"
            )
        return python

    def environ(self, profile: Path = BUSY) -> dict[str, str]:
        """The environment of a process on the GPUs of a profile. Raises CannotMeasure."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "LD_LIBRARY_PATH": str(self.fake),
            "HPCKIT_FAKE_NVML": str(profile),
        }

    def injob(self, *words: str) -> list[str]:
        """A command line of the packed archive."""
        return [sys.executable, "-I", str(self.archive), *words]

    def hpckit(self, *words: str) -> list[str]:
        """A command line of this checkout's hpckit."""
        return [sys.executable, "-m", "hpckit", *words]

    def user_environ(self) -> dict[str, str]:
        """The environment of a person who calls hpckit: compiled modules, a home of its own."""
        dropped = ("PYTHONDONTWRITEBYTECODE",)
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        return {**kept, "HOME": str(self.folder), "PYTHONPATH": str(ROOT), "COLUMNS": "100"}


class Step(NamedTuple):
    """What is measured together: `name` is PART:WORD, `what` is said where it cannot be."""

    name: str
    what: str
    run: Callable[[Bench], Iterable[Figure]]

    @property
    def part(self) -> str:
        """The part of the suite."""
        return self.name.partition(":")[0]

    def command(self, bench: Bench) -> str:
        """What measures this alone."""
        options = (" --quick" if bench.quick else "") + (" --whole" if bench.whole else "")
        return ALONE.format(self.name, options)

    def figures(self, bench: Bench) -> Iterator[Figure]:
        """Measure; one line that says why not, where something is lacking."""
        try:
            yield from self.run(bench)
        except CannotMeasure as error:
            yield missing(self.what, str(error))


def missing(name: str, because: str) -> Figure:
    """What could not be measured."""
    return Figure(name=name, value=None, unit="", limit=0, because=because)


def passed(name: str, *words: str, env: Mapping[str, str]) -> Figure:
    """Run tests of this checkout: how many failed."""
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    ran = subprocess.run(
        argv, cwd=ROOT, env={**os.environ, **env}, check=False, capture_output=True, text=True
    )
    said = (ran.stdout.strip().splitlines() or ["nothing was said"])[-1].strip("= ")
    failed = 0
    if ran.returncode:
        words_of = said.replace(",", "").split()
        with contextlib.suppress(ValueError, IndexError):
            failed = int(words_of[words_of.index("failed") - 1])
        failed = max(failed, 1)
    return Figure(name=name, value=failed, unit="", limit=0, beside=said)
