"""What `sbatch --test-only` says of a script as it is, and with a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from hpckit.core.errors import AdapterError, ParseError
from hpckit.core.hostlist import HostListError, expand_hosts
from hpckit.core.values import dataclass
from hpckit.script.earlier import is_taken, with_words
from hpckit.slurm.ask import SlurmCli
from hpckit.slurm.request import Request
from hpckit.slurm.text import is_unreachable
from hpckit.slurm.values import PlannedJob


@dataclass(slots=True, kw_only=True)
class Trial:
    """A script that Slurm is asked about; `refused` is its words against the script as it is.

    `always` are words for each question, `environment` is sbatch's, `own_hosts` the nodes of the
    script's partitions. Without an answer nothing is refused.
    """

    slurm: SlurmCli
    script: Path
    request: Request
    environment: Mapping[str, str]
    always: tuple[str, ...] = ()
    own_hosts: frozenset[str] = frozenset()
    refused: str = field(default="", init=False)
    _planned: Sequence[PlannedJob] | None = field(default=None, init=False)

    def start_s(self, words: tuple[str, ...]) -> float | None:
        """Return when it would start with these options, None where Slurm does not say.

        With any option None too where jobs that wait are planned to have the nodes by then, and
        where another partition has no other nodes for it.
        """
        try:
            said, refused = self.slurm.try_script(
                self.script, (*self.always, *words), self.environment
            )
            if not words and not is_unreachable(refused):
                self.refused = refused
            if said is None or not words:
                return None if said is None else said.start_s
            if self._planned is None:
                self._planned = self.slurm.planned_jobs(self.request.text("clusters"))
            is_elsewhere = words[0].startswith("--partition=")
            if is_elsewhere and self.own_hosts.issuperset(expand_hosts(said.nodes)):
                return None
            time_s = with_words(self.request, words).time_s
            return None if is_taken(said, time_s, self._planned) else said.start_s
        except (AdapterError, ParseError, HostListError):
            return None
