"""Whether a NIC is up."""

from __future__ import annotations

import pytest

from hpckit.node.topology import Nic, is_active, is_down


@pytest.mark.parametrize(
    ("state", "is_known_as"),
    [(None, (False, False)), ("ACTIVE", (True, False)), ("active", (True, False))]
    + [(state, (False, True)) for state in ("DOWN", "INIT", "ARMED", "ACTIVE_DEFER")],
)
def test_an_unknown_state_is_neither_up_nor_down(
    state: str | None, is_known_as: tuple[bool, bool]
) -> None:
    """A NIC is down by a state that is known and is not ACTIVE."""
    nic = Nic(index=0, name="a", state=state)
    assert (is_active(nic), is_down(nic)) == is_known_as
