"""The energy of a job's nodes as Slurm's accounting has it, where the cluster gathers any."""

from __future__ import annotations

from hpckit.adapters.slurm_cli import SlurmCli
from hpckit.adapters.slurm_probe import SlurmProbe
from hpckit.errors import HpckitError
from hpckit.model.energy_reason import EnergyLack, EnergyReason, SlurmEnergy
from hpckit.model.slurm import JobId


class SlurmEnergies:
    """Asks sacct, but only where the cluster, as it is remembered, gathers energy."""

    def __init__(self, slurm: SlurmCli, probe: SlurmProbe) -> None:
        self._slurm = slurm
        self._probe = probe

    def of(self, job_id: str, cluster: str | None) -> SlurmEnergy:
        """That of an ended job, of all its incarnations."""
        try:
            plugin = self._probe.look(cluster, needs_partitions=False).config.energy_plugin
            if plugin is None:
                return SlurmEnergy(reasons=(EnergyReason(kind=EnergyLack.SLURM_PLUGIN),))
            value_j = self._slurm.energy_j(JobId(job_id), cluster)
        except HpckitError as error:
            return SlurmEnergy(reasons=(_other(f"Slurm's was not told: {error.message}"),))
        reasons = () if value_j else (_other(f"Slurm's {plugin} counted none"),)
        return SlurmEnergy(value_j=value_j, plugin=plugin, reasons=reasons)


def _other(text: str) -> EnergyReason:
    return EnergyReason(text=text)
