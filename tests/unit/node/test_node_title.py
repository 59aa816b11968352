"""The sentence about a node."""

from __future__ import annotations

from dataclasses import replace

from hpckit.node.title import node_title
from tests.fakes.machines import dgx_h100


def _nics_said(*, are_functions_of: bool) -> str:
    """What the title says of NICs that are virtual, beside their physical ones or alone."""
    node = dgx_h100()
    rails = node.nics[:8]
    functions = tuple(
        replace(
            nic, index=100 + nic.index, name=f"vf{nic.index}", is_virtual=True, pci=None,
            physfn=nic.pci if are_functions_of else None,
        )
        for nic in rails
    )  # fmt: skip
    nics = (*rails, *functions) if are_functions_of else functions
    return " · ".join(node_title(replace(node, nics=nics)))


def test_a_guests_virtual_functions_are_its_nics() -> None:
    """A guest that was given eight of them has eight NICs of their kind and rate."""
    assert "8 × 400 Gb/s IB" in _nics_said(are_functions_of=False)
    assert "VF" not in _nics_said(are_functions_of=False)


def test_virtual_functions_of_what_is_here_are_counted_apart() -> None:
    """Beside their physical functions they are no NICs of their own."""
    assert "8 × 400 Gb/s IB + 8 VFs" in _nics_said(are_functions_of=True)
