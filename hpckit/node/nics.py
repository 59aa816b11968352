"""What each NIC of a node is for: the traffic of jobs between nodes, storage, or something else.

No tool says it, so it follows from what NICs have in common: those for jobs are several, alike,
and beside the GPUs; what is slower, or Ethernet beside InfiniBand, is storage or management.
A port that is down shows another rate than it would have, so such a NIC, and one that is slower
than it should be, is known by its card and its place. Source: NCCL's choice of
NICs (NCCL_IB_HCA) and the multi-rail designs of DGX, HGX and cloud machines.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from hpckit.core.units import counted
from hpckit.core.values import dataclass
from hpckit.node.path import PathKind
from hpckit.node.pci import PciDevice
from hpckit.node.rules.rule import CLOSE, Cells, kind_between, path_cells
from hpckit.node.topology import Gpu, Nic, NicRole, NodeTopology, is_down
from hpckit.spec.nic_kind import NicKind


def close_nics(topology: NodeTopology, cells: Cells) -> dict[int, frozenset[int]]:
    """GPU index → the indices of the NICs with a PIX or PXB path to it, by `path_cells`.

    A GPU is there if its path to any NIC is known; one that the driver does not show is not.
    """
    kinds = nic_kinds(cells, (gpu for gpu in topology.gpus if not gpu.is_hidden), topology.nics)
    return {
        gpu: frozenset(nic for nic, kind in each.items() if kind in CLOSE)
        for gpu, each in kinds.items()
        if each
    }


def nic_kinds(
    cells: Cells, gpus: Iterable[Gpu], nics: Sequence[Nic]
) -> dict[int, dict[int, PathKind]]:
    """GPU index → NIC index → what lies between them, by `path_cells`, where that is known."""
    return {
        gpu.index: {
            nic.index: kind for nic in nics if (kind := kind_between(cells, gpu, nic)) is not None
        }
        for gpu in gpus
    }


ETHERNET: Final = "ethernet"
STORAGE_FROM_BYTES_PER_S: Final = 12.5e9
"""100 Gb/s: Ethernet below that is taken to be for management."""

RDMA: Final = frozenset(
    {NicKind.INFINIBAND, NicKind.ROCE, NicKind.EFA, NicKind.SLINGSHOT, NicKind.GVNIC}
)
_JOBS_ONLY: Final = frozenset({NicKind.EFA, NicKind.SLINGSHOT})
_FEWEST_RAILS: Final = 3


class Verdict(NamedTuple):
    """A role, and why."""

    role: NicRole | None
    because: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Traits:
    """What NICs of one purpose have in common; `card` is known without a link, `rate` is not."""

    kind: NicKind | None
    layer: str | None
    card: tuple[tuple[int | None, int | None] | None, int]
    rate_bytes_per_s: float | None


def with_nic_roles(topology: NodeTopology) -> NodeTopology:
    """The topology with `Nic.role` and `role_because`; both None where it cannot be known.

    Where `paths` are known they are used, so they come first.
    """
    view = _View(topology)
    nics = tuple(
        dataclasses.replace(nic, role=verdict.role, role_because=verdict.because)
        for nic in topology.nics
        for verdict in (view.verdict(nic),)
    )
    return dataclasses.replace(topology, nics=nics)


def rate_words(rate_bytes_per_s: float) -> str:
    """`400 Gb/s`; `words.bit_rate` is not for jobs, which have the standard library alone."""
    return f"{rate_bytes_per_s * 8 / 1e9:g} Gb/s"


class _View:
    def __init__(self, topology: NodeTopology) -> None:
        self._devices = {device.address: device for device in topology.pci}
        self._functions = Counter(
            address.rpartition(".")[0]
            for address in {nic.pci for nic in topology.nics if nic.pci is not None}
        )
        close = close_nics(topology, path_cells(topology.paths))
        self._close = frozenset[int]().union(*close.values())
        self._names = {nic.pci: nic.name for nic in topology.nics if nic.pci is not None}
        self._bonds = {nic.bond for nic in topology.nics if nic.bond in (nic.name, *nic.netdevs)}
        self._traits = {
            nic.index: self._traits_of(nic)
            for nic in topology.nics
            if nic.kind in RDMA and self._aside(nic) is None
        }
        self._alike = Counter(self._traits.values())
        self._nics = {nic.index: nic for nic in topology.nics}
        self._main = self._main_traits()

    def verdict(self, nic: Nic) -> Verdict:
        if nic.kind is None:
            return Verdict(None, None)
        if nic.kind is NicKind.ETHERNET:
            return Verdict(NicRole.OTHER, "plain Ethernet, no RDMA")
        aside = self._aside(nic)
        if aside is not None:
            return Verdict(NicRole.OTHER, aside)
        if self._main is None or nic.index not in self._traits:
            return Verdict(None, None)
        return self._against(nic, self._traits[nic.index], self._main)

    def _aside(self, nic: Nic) -> str | None:
        if nic.physfn is not None and nic.physfn in self._names:
            return f"virtual function of {self._names[nic.physfn]}"
        if nic.bond in self._bonds and nic.bond not in (nic.name, *nic.netdevs):
            return f"part of {nic.bond}"
        return None

    def _traits_of(self, nic: Nic) -> _Traits:
        return _Traits(
            kind=nic.kind,
            layer=None if nic.link_layer is None else nic.link_layer.lower(),
            card=self._card(nic),
            rate_bytes_per_s=None if is_down(nic) else nic.rate_bytes_per_s,
        )

    def _card(self, nic: Nic) -> tuple[tuple[int | None, int | None] | None, int]:
        device: PciDevice | None = None if nic.pci is None else self._devices.get(nic.pci)
        functions = 0 if nic.pci is None else self._functions[nic.pci.rpartition(".")[0]]
        ids = None if device is None else (device.vendor_id, device.device_id)
        return (None if ids == (None, None) else ids, functions)

    def _main_traits(self) -> _Traits | None:
        """What the NICs for jobs have in common: that of most, then the nearer to GPUs, the faster.

        Ports that are down have a say where none beside a GPU is up, and they look like the rails
        of a fabric that is down. Cards of one kind count together, up or down.
        """
        up = {at: each for at, each in self._traits.items() if not is_down(self._nics[at])}
        fabric = {at: each for at, each in self._traits.items() if each.layer != ETHERNET}
        if not self._close.intersection(up):
            up |= self._rails(fabric, more_than=len(up))
        asked = up or fabric
        if not asked:
            return None
        cards = Counter((each.kind, each.card) for at, each in fabric.items() if at in self._close)

        def weight(traits: _Traits) -> tuple[int, int, bool, float, str]:
            alike = [at for at, each in asked.items() if each == traits]
            near = len(self._close.intersection(alike))
            most = (
                len(alike)
                if _ids(traits) is None
                else max(len(alike), cards[traits.kind, traits.card])
            )
            is_fabric = traits.layer != ETHERNET
            return (most, near, is_fabric, traits.rate_bytes_per_s or 0.0, repr(traits))

        return max(set(asked.values()), key=weight)

    def _rails(self, fabric: Mapping[int, _Traits], *, more_than: int) -> dict[int, _Traits]:
        """Those beside GPUs that are several alike; a card or two may just not be cabled.

        Ethernet is not in `fabric`: a port of it that is down tells nothing.
        """
        close = {at: each for at, each in fabric.items() if at in self._close}
        cards = Counter((each.kind, each.card) for each in close.values())
        least = max(more_than + 1, _FEWEST_RAILS)
        return {at: each for at, each in close.items() if cards[each.kind, each.card] >= least}

    def _against(self, nic: Nic, traits: _Traits, main: _Traits) -> Verdict:
        if is_down(nic) and traits.kind not in _JOBS_ONLY:
            return self._down(nic, traits, main)
        if traits == main or traits.kind in _JOBS_ONLY:
            return self._of_jobs(nic, traits, self._alike[traits])
        if (traits.rate_bytes_per_s or 0.0) < (main.rate_bytes_per_s or 0.0):
            return self._slower(nic, traits, main)
        if nic.index in self._close:
            return Verdict(NicRole.COMPUTE, "next to a GPU, and as fast as the NICs for jobs")
        if (traits.kind, traits.layer) != (main.kind, main.layer):
            return _other_fabric(traits, main)
        is_even = traits.rate_bytes_per_s == main.rate_bytes_per_s
        if is_even and None in (_ids(traits), _ids(main)):
            return Verdict(NicRole.COMPUTE, "as fast as the NICs for jobs")
        return Verdict(None, "as fast as the NICs for jobs, but another card, not next to a GPU")

    def _slower(self, nic: Nic, traits: _Traits, main: _Traits) -> Verdict:
        if (traits.kind, traits.layer) != (main.kind, main.layer):
            return _other_fabric(traits, main)
        if traits.card == main.card and self._stands_with(nic, main):
            return Verdict(NicRole.COMPUTE, "same card as the NICs for jobs, also next to a GPU")
        if not traits.rate_bytes_per_s or not main.rate_bytes_per_s:
            return Verdict(None, None)
        rates = (rate_words(traits.rate_bytes_per_s), rate_words(main.rate_bytes_per_s))
        return Verdict(NicRole.STORAGE, f"{rates[0]} where most NICs have {rates[1]}")

    def _of_jobs(self, nic: Nic, traits: _Traits, alike: int) -> Verdict:
        if traits.kind is NicKind.GVNIC and alike == 1:
            return Verdict(NicRole.OTHER, "the only gVNIC: the machine's own network")
        told = (
            "" if traits.rate_bytes_per_s is None else f" of {rate_words(traits.rate_bytes_per_s)}"
        )
        word = traits.kind.value if traits.kind is not None else "NIC"
        place = ", next to a GPU" if nic.index in self._close else ""
        return Verdict(NicRole.COMPUTE, f"one of {counted(alike, f'{word} NIC')}{told}{place}")

    def _down(self, nic: Nic, traits: _Traits, main: _Traits) -> Verdict:
        if self._is_of_main(nic, main):
            return Verdict(
                NicRole.COMPUTE, f"same card as the NICs for jobs; its port is {nic.state}"
            )
        return Verdict(NicRole.OTHER, f"not like the NICs for jobs; its port is {nic.state}")

    def _is_of_main(self, nic: Nic, main: _Traits) -> bool:
        """Whether a NIC that is down should be up: not the second port that nobody has cabled."""
        alike = [
            self._nics[index]
            for index, each in self._traits.items()
            if (each.kind, each.card) == (main.kind, main.card)
        ]
        if nic not in alike or (self._any_close(main) and not self._stands_with(nic, main)):
            return False
        is_alone = nic.pci is not None and self._functions[nic.pci.rpartition(".")[0]] == 1
        up = sum(not is_down(each) for each in alike)
        return up == 0 or 2 * up > len(alike) or (is_alone and self._stands_with(nic, main))

    def _stands_with(self, nic: Nic, main: _Traits) -> bool:
        return nic.index in self._close and self._any_close(main)

    def _any_close(self, main: _Traits) -> bool:
        return any(each == main and index in self._close for index, each in self._traits.items())


def _ids(traits: _Traits) -> tuple[int | None, int | None] | None:
    return traits.card[0]


def _other_fabric(traits: _Traits, main: _Traits) -> Verdict:
    rate = traits.rate_bytes_per_s or 0.0
    words = f"{traits.layer or traits.kind} where the NICs for jobs are {main.layer or main.kind}"
    if traits.layer == ETHERNET and rate < STORAGE_FROM_BYTES_PER_S:
        return Verdict(NicRole.OTHER, words)
    return Verdict(NicRole.STORAGE, words)
