"""A slurmctld alone in a container, on a configuration that a test writes.

Jobs run there once a slurmd is started beside it.
"""

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
SITES = "/shared/alice/sites"
AT_SITE = ("--site-dir", SITES, "--site", "made-up")
"""The options of hpckit beside a slurmctld of its own."""
SITE = """\
schema = "hpckit.site/1"
name = "made-up"
job_root = "/shared/alice/hpckit"
poll_interval_s = 1.0

[job.slurm]
partition = "main"
"""
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

    def create(self, image: str, *more: str) -> None:
        """Make its container from `image`, which may be older than this checkout; start nothing."""
        options = ("--init", "--hostname=login", "--env=ROLE=alone", f"--name={self._container}")
        self._docker("create", *options, *more, image)
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

    def start_slurmd(self, *nodes: str) -> None:
        """Start a slurmd for each of these nodes, which all answer then, and are idle."""
        script = 'for node; do slurmd -N "$node" || exit; done'
        self.check(["sh", "-c", script, "sh", *nodes], user="root")
        ask = ["sinfo", "--noheader", "--Node", "--format=%T"]
        idle = ["idle"] * len(nodes)
        assert eventually(lambda: self.check(ask).split() == idle, timeout_s=START_S), self.log

    def remove(self) -> None:
        """End it, and leave nothing of it."""
        self._docker("rm", "--force", "--volumes", self._container)

    def _answers(self) -> bool:
        return self.run(["sinfo", "--noheader"], timeout_s=START_S).returncode == 0


@contextmanager
def controller(
    conf: Mapping[str, str], *more: str, image: str, environ: Mapping[str, str]
) -> Iterator[Controller]:
    """A slurmctld of its own on `conf` (text by name of the file), until the block ends.

    `more` are options of `docker create`.
    """
    made = Controller(name=f"{OWN}{os.getpid()}-alone{next(_numbers)}", environ=environ)
    made.create(image, *more)
    try:
        made.configure(conf)
        made.boot()
        made.check(["mkdir", SITES])
        made.run(["tee", f"{SITES}/made-up.toml"], input=SITE)
        yield made
    finally:
        made.remove()
