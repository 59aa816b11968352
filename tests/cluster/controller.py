"""A slurmctld alone in a container, on a configuration that a test writes; no job runs there."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.cluster import CHECKOUT, OWN, Containers, eventually

START_S = 60.0
ENTRYPOINT = "/usr/local/sbin/entrypoint"
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller(Containers):
    """A slurmctld that is up; alice has hpckit and Slurm's commands beside it, on `login`."""

    @property
    def is_running(self) -> bool:
        """Whether its container, and so slurmctld, has not ended."""
        return self._docker("inspect", "--format={{.State.Running}}", self._container) == "true"

    @property
    def log(self) -> str:
        """The last lines of slurmctld's log."""
        return self._docker("logs", "--tail=20", self._container)

    @property
    def _container(self) -> str:
        return f"{self.name}-login"

    def create(self, image: str) -> None:
        """Make its container from `image`, which may be older than this checkout; start nothing."""
        options = ("--init", "--hostname=login", "--env=ROLE=alone", f"--name={self._container}")
        self._docker("create", *options, image)
        self._docker(
            "cp", str(CHECKOUT / "docker" / "entrypoint"), f"{self._container}:{ENTRYPOINT}"
        )

    def configure(self, conf: Mapping[str, str]) -> None:
        """Put the files of /etc/slurm, text by name, into the container."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in conf.items():
                (Path(folder) / name).write_text(text, encoding="utf-8")
            self._docker("cp", f"{folder}/.", f"{self._container}:/etc/slurm/")

    def boot(self) -> float:
        """Start it; the seconds until slurmctld answers."""
        begun_s = time.monotonic()
        self._docker("start", self._container)
        eventually(lambda: self._answers() or not self.is_running, timeout_s=START_S, every_s=0.1)
        assert self._answers(), self.log
        return time.monotonic() - begun_s

    def remove(self) -> None:
        """End it, and leave nothing of it."""
        self._docker("rm", "--force", "--volumes", self._container)

    def _answers(self) -> bool:
        return self.run(["sinfo", "--noheader"], timeout_s=START_S).returncode == 0


@contextmanager
def controller(
    conf: Mapping[str, str], *, image: str, environ: Mapping[str, str]
) -> Iterator[Controller]:
    """A slurmctld of its own on `conf` (text by name of the file), until the block ends."""
    made = Controller(name=f"{OWN}{os.getpid()}-alone{next(_numbers)}", environ=environ)
    made.create(image)
    try:
        made.configure(conf)
        made.boot()
        yield made
    finally:
        made.remove()
