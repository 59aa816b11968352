"""Why nothing tells the energy of a job's nodes: kinds of reasons, and the words for them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

MODEL_KEYS: Final = ("node_idle_w", "cpu_core_w")
"""The keys of the site file's [energy] by which a node without a meter is modelled."""


class EnergyLack(StrEnum):
    """What is lacking; `other` where only a sentence says it.

    Of a node that other jobs may use, `own-meter`: its meters count them too; `own-share`: what
    part of it is the job's is not modelled.
    """

    METER = "meter"
    SAMPLES = "samples"
    OWN_METER = "own-meter"
    OWN_SHARE = "own-share"
    SITE_KEYS = "site-keys"
    SLURM_PLUGIN = "slurm-plugin"
    OTHER = "other"


class EnergyReason(Struct, frozen=True, kw_only=True):
    """One reason: `keys` are those of `site-keys`, and `text` is what `other` says."""

    kind: EnergyLack = EnergyLack.OTHER
    keys: tuple[str, ...] = ()
    text: str = ""

    @property
    def is_all_keys(self) -> bool:
        """Whether the site file has none of what a node is modelled by."""
        return self.kind is EnergyLack.SITE_KEYS and len(self.keys) == len(MODEL_KEYS)

    def __str__(self) -> str:
        """The reason in full."""
        if self.kind is EnergyLack.SITE_KEYS:
            keys = " and ".join(f"energy.{key}" for key in self.keys)
            return f"set {keys} in the site file"
        return _WORDS.get(self.kind, self.text)


_WORDS: Final[Mapping[EnergyLack, str]] = {
    EnergyLack.METER: "no readable meter",
    EnergyLack.SAMPLES: "there are no samples of the host",
    EnergyLack.OWN_METER: "other jobs may run on this node, and its meters count them too",
    EnergyLack.OWN_SHARE: "a share of the node is not modelled",
    EnergyLack.SLURM_PLUGIN: "Slurm gathers none here",
}


class SlurmEnergy(Struct, frozen=True, kw_only=True):
    """Joules of a job's nodes by Slurm's accounting, and the plugin that counted them.

    `value_j` is None where it has none, and `reasons` say why.
    """

    value_j: float | None = None
    plugin: str | None = None
    reasons: tuple[EnergyReason, ...] = ()
