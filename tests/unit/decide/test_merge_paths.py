from __future__ import annotations

from hpckit.decide.merge_paths import extended
from hpckit.model.path import PathTable

RECORDED = PathTable(
    devices=("GPU1", "GPU0"), cells=(("X", "NV18"), ("NV18", "X")), is_recorded=True
)
DERIVED = PathTable(
    devices=("GPU0", "GPU1", "NIC0"),
    cells=(("X", "SYS", "PIX"), ("SYS", "X", "SYS"), ("PIX", "SYS", "X")),
)


def test_recorded_cells_stand() -> None:
    """Recorded devices and cells come first as they are, and the rest is what follows."""
    whole = extended(RECORDED, DERIVED)
    assert whole.devices == ("GPU1", "GPU0", "NIC0")
    assert whole.cells == (("X", "NV18", "SYS"), ("NV18", "X", "PIX"), ("SYS", "PIX", "X"))
    assert not whole.is_recorded


def test_recorded_gap() -> None:
    """A cell that the tool could not tell is what follows from the tree."""
    gap = PathTable(devices=("GPU0", "GPU1"), cells=(("X", None), ("NV18", "X")), is_recorded=True)
    assert extended(gap, DERIVED).cells[0] == ("X", "SYS", "PIX")


def test_nothing_added() -> None:
    """A table that has all devices and cells stays a recorded one."""
    assert extended(RECORDED, PathTable(devices=(), cells=())) == RECORDED
