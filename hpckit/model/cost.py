"""What the energy of a job cost."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

GPUS_ALONE: Final = "of the GPUs alone"
"""What a cost is of where the nodes' energy is not known."""


class Cost(Struct, frozen=True, kw_only=True):
    """What the energy cost, with the site's factors; None where the site file has no factor.

    `is_of_gpus` is whether its figures are of the GPUs alone, as the nodes' energy is not known;
    `absent` are the factors that the site file lacks, by their keys in [energy]. `because` says
    both.
    """

    facility_j: float | None = None
    pue: float | None = None
    price: float | None = None
    currency: str | None = None
    co2_g: float | None = None
    because: str = ""
    is_of_gpus: bool = False
    absent: tuple[str, ...] = ()

    @property
    def lack(self) -> str:
        """Which factors are absent; empty where none is."""
        return f"the site file's [energy] has no {', '.join(self.absent)}" if self.absent else ""
