"""The energy of nodes in Slurm's accounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.account.store import SlurmEnergies
from hpckit.account.values import EnergyLack, SlurmEnergy
from hpckit.slurm.ask import SlurmCli, SlurmProbe
from tests.fakes.clock import FakeClock
from tests.fakes.scripted import Answer, ScriptedRunner, row, said

CONFIG = (
    "Configuration data as of 2026-11-21T10:00:00\nAcctGatherEnergyType = {}\nMpiDefault = pmix\n"
)
IPMI = "acct_gather_energy/ipmi"


def energies(runner: ScriptedRunner, folder: Path) -> SlurmEnergies:
    """What asks a Slurm, remembering in `folder`."""
    slurm = SlurmCli(runner, FakeClock())
    return SlurmEnergies(slurm, SlurmProbe(slurm, folder, FakeClock(), {}))


def slurm(plugin: str, *sacct: Answer) -> ScriptedRunner:
    """A Slurm that gathers energy by a plugin."""
    config = said(CONFIG.format(plugin))
    return ScriptedRunner(scontrol=[config], sinfo=[said("")], sacct=list(sacct))


@pytest.mark.parametrize("plugin", ["(null)", "acct_gather_energy/none"])
def test_a_cluster_that_gathers_none_is_not_asked(tmp_path: Path, plugin: str) -> None:
    """Without a plugin for energy no sacct runs, and that is the reason."""
    runner = slurm(plugin)
    (reason,) = energies(runner, tmp_path).of("7", None).reasons
    assert reason.kind is EnergyLack.SLURM_PLUGIN
    assert runner.programs == ["scontrol", "sinfo"]


def test_the_jobs_own_figure_is_taken(tmp_path: Path) -> None:
    """The joules of the job, with the plugin that counted them."""
    runner = slurm(IPMI, said(row("7", "5600")))
    assert energies(runner, tmp_path).of("7", None) == SlurmEnergy(value_j=5600.0, plugin=IPMI)


def test_a_figure_of_nothing_is_none(tmp_path: Path) -> None:
    """Slurm's 0 is no measurement, and the plugin is named for it."""
    told = energies(slurm(IPMI, said(row("7", "0"))), tmp_path).of("7", None)
    (reason,) = told.reasons
    assert (told.value_j, str(reason)) == (None, f"Slurm's {IPMI} recorded none")


def test_accounts_that_do_not_answer_are_said(tmp_path: Path) -> None:
    """A sacct that fails costs the figure alone."""
    failed = said(code=1, stderr="sacct: error: something else\n")
    told = energies(slurm(IPMI, failed), tmp_path).of("7", None)
    assert told.value_j is None
    (reason,) = told.reasons
    assert str(reason).startswith("Slurm's energy unavailable: sacct")
