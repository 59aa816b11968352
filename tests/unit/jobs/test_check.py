"""A script held against a cluster that answers as one did, and `sbatch --test-only` beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hpckit.core.errors import ToolFailed
from hpckit.core.findings import Severity
from hpckit.core.process import CommandResult
from hpckit.jobs.check import Checked, check
from hpckit.jobs.limits import LimitsProbe
from hpckit.script.live import User
from hpckit.slurm.ask import SlurmCli, SlurmProbe
from hpckit.slurm.text import SEPARATOR
from tests.fakes.clock import FakeClock
from tests.fakes.scripted import said as answer
from tests.fakes.slurm_records import record_text

LATER = (
    "sbatch: Job 7 to start at 2027-01-15T09:{:02}:00 using 1 processors on nodes {} in partition "
    "main"
)
NODES = SEPARATOR.join(("main*", "up", "1-00:00:00", "4", "64", "1000000", "gpu:h100:8", "(null)"))


@dataclass
class Slurm:
    """Slurm's commands as 24.11 answered; `starts` is what --test-only says by its extra words."""

    starts: Mapping[tuple[str, ...], str | None] = field(default_factory=dict)
    refused: str = "allocation failure: nothing like it"
    planned: str = ""
    is_silent: bool = False
    asked: list[tuple[str, ...]] = field(default_factory=list)
    ahead: list[tuple[str, ...]] = field(default_factory=list)
    clock: FakeClock = field(default_factory=FakeClock)

    def run(
        self, argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """The answer, as a process would give it."""
        self.asked.append(tuple(argv))
        self.clock.sleep(0.01)
        if self.is_silent:
            raise ToolFailed(argv, 1, "slurm_load_ctl_conf error: Zero Bytes were transmitted")
        if argv[0] == "sbatch":
            assert environment is not None
            assert "BASH_ENV" not in environment
            said = self.starts.get(tuple(argv[2:-1]))
            return answer(code=1 if said is None else 0, stderr=said or self.refused)
        return answer(self._printed(argv))

    def begun(self, *commands: Sequence[str]) -> AbstractContextManager[None]:
        """Start nothing: the answers are there."""
        self.ahead += map(tuple, commands)
        return nullcontext()

    def _printed(self, argv: Sequence[str]) -> str:
        limits = "scontrol-limits-24.11.5"
        what = next((word for word in argv if word in RECORDS), None)
        if argv[0] == "sinfo":
            return f"main{SEPARATOR}2/2/0/4\n" if any("%F" in word for word in argv) else NODES
        if argv[0] == "srun":
            return "MPI plugin types are...\n\tnone\n\tpmix\n"
        if argv[0] == "squeue":
            return self.planned
        if argv[0] == "sacctmgr":
            return record_text("sacctmgr-limits-24.11.5", "qos" if "qos" in argv else "own")
        if what == "config":
            return record_text("scontrol-config-24.11.5", "docker").replace(
                "AccountingStorageEnforce = none", "AccountingStorageEnforce = limits"
            )
        return record_text(limits, RECORDS[str(what)])


RECORDS = {
    **{"config": "", "partition": "partition", "reservation": "reservation"},
    **{"licenses": "licenses", "assoc_mgr": "assoc-mgr"},
}


def checked(slurm: Slurm, folder: Path, options: str, *, is_own: bool = True) -> Checked:
    """What is found about a script with these options."""
    cli = SlurmCli(slurm, slurm.clock)
    probe = SlurmProbe(cli, folder / "caches", slurm.clock, {})
    user = User(name="alice", groups=frozenset({"users"}))
    asks = LimitsProbe(slurm=cli, probe=probe, clock=slurm.clock, user=user)
    variables = {"PATH": "/bin", "BASH_ENV": "/home/alice/.env"}
    return check(f"#!/bin/bash\n#SBATCH {options}\ntrue\n", variables, asks, is_own=is_own)


def errors(found: Checked) -> list[tuple[str, int | None]]:
    """Rule and line of each error."""
    return [(one.rule, getattr(one, "line_no", None)) for one in found.findings
            if one.severity is Severity.ERROR]  # fmt: skip


def test_when_it_starts_and_what_would_be_earlier(tmp_path: Path) -> None:
    """The change that starts it earlier is told; on nodes that are planned for others it is not."""
    starts = {
        (): LATER.format(50, "c[1-2]"),
        ("--time=00:30:00",): LATER.format(5, "c1"),
        ("--nodes=1",): LATER.format(1, "c3"),
    }
    slurm = Slurm(starts=starts)
    row = ("2027-01-15T09:02:00", "1:00:00", "c3")
    slurm.planned = SEPARATOR.join(row) + "\n"
    found = checked(slurm, tmp_path, "-N 2 -t 60")
    assert errors(found) == []
    assert [one.words for one in found.earlier] == [("--time=00:30:00",)]
    assert found.start_s is not None
    assert found.start_s - found.earlier[0].start_s == 45 * 60


def test_what_is_begun_ahead_is_what_is_asked(tmp_path: Path) -> None:
    """A question in other words would be put to Slurm twice."""
    slurm = Slurm(starts={(): LATER.format(5, "c1")})
    checked(slurm, tmp_path, "-N 2 -t 60")
    assert len(slurm.ahead) == 4
    assert [argv for argv in slurm.asked if argv in slurm.ahead] == slurm.ahead


def test_an_error_is_looked_at_afresh(tmp_path: Path) -> None:
    """Before a job is held back everything that is remembered is asked again, and sbatch is not."""
    slurm = Slurm()
    assert errors(checked(slurm, tmp_path, "-N 5 -t 5")) == [("node-kind", 2)]
    programs = [argv[0] for argv in slurm.asked]
    assert programs.count("sacctmgr") == 4
    assert "sbatch" not in programs


@pytest.mark.parametrize(
    ("refused", "severity"),
    [
        ("allocation failure: Requested node configuration is not available", Severity.WARNING),
        ("sbatch: error: Invalid generic resource (gres) specification", Severity.ERROR),
        ("sbatch: error: Socket timed out on send/recv operation", None),
    ],
)
def test_what_only_sbatch_says(tmp_path: Path, refused: str, severity: Severity | None) -> None:
    """Its refusal is told, a warning where it is known to be wrong, and no answer is none."""
    found = checked(Slurm(refused=refused), tmp_path, "-t 5")
    told = [one.severity for one in found.findings if one.rule == "sbatch-refuses"]
    assert told == ([] if severity is None else [severity])


def test_an_array_that_hpckit_splits(tmp_path: Path) -> None:
    """An array above MaxArraySize is an error of a script alone: hpckit submits it in parts."""
    slurm = Slurm(starts={("--array=0",): LATER.format(50, "c1")})
    assert errors(checked(slurm, tmp_path, "-a 0-5000 -t 5")) == [("array-size", 2)]
    rendered = checked(slurm, tmp_path, "-a 0-5000 -t 5", is_own=False)
    assert (errors(rendered), rendered.start_s is None) == ([], False)


@pytest.mark.parametrize(
    ("slurm", "options", "why"),
    [(Slurm(is_silent=True), "-t 5", "cluster limits not checked"),
     (Slurm(), "-M all -t 5", "sbatch chooses the cluster")],
)  # fmt: skip
def test_no_answer_holds_nothing_back(tmp_path: Path, slurm: Slurm, options: str, why: str) -> None:
    """Where no cluster answers, or none is named, that is said."""
    found = checked(slurm, tmp_path, options)
    assert (errors(found), found.config) == ([], None)
    assert why in found.notes[0].text


@pytest.mark.parametrize("option", ["--container-image=pytorch.sqsh", "--nodse 2"])
def test_an_option_of_a_plugin_is_no_error(tmp_path: Path, option: str) -> None:
    """What sbatch itself does not know may be a SPANK plugin's, such as pyxis': sbatch decides."""
    found = checked(Slurm(starts={(): LATER.format(0, "c1")}), tmp_path, f"{option} -t 5")
    assert errors(found) == []
    (told,) = [one for one in found.findings if one.rule == "slurm-option"]
    assert told.severity is Severity.WARNING
