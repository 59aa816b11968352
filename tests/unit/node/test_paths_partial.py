"""A table of paths that a driver gave for its GPUs alone."""

from __future__ import annotations

from dataclasses import replace

from hpckit.node.path import PathTable
from hpckit.node.paths import with_paths
from hpckit.node.topology import Nic
from hpckit.spec.nic_kind import NicKind
from tests.fakes.machines import dgx_h100

GPUS = tuple(f"GPU{index}" for index in range(8))
SAID = PathTable(
    devices=GPUS,
    cells=tuple(tuple("X" if a == b else "NV7" for b in GPUS) for a in GPUS),
    is_recorded=True,
)


def test_what_the_driver_said_stands() -> None:
    """The cells between GPUs are the driver's, whatever the links would give."""
    node = with_paths(replace(dgx_h100(), paths=SAID))
    assert node.paths is not None
    assert [row[:8] for row in node.paths.cells[:8]] == list(SAID.cells)


def test_nics_are_added() -> None:
    """The NICs have rows as they would have without a driver, and the table is recorded no more."""
    whole = with_paths(replace(dgx_h100(), paths=None)).paths
    table = with_paths(replace(dgx_h100(), paths=SAID)).paths
    assert whole is not None
    assert table is not None
    assert table.devices == whole.devices
    assert [row[8:] for row in table.cells] == [row[8:] for row in whole.cells]
    assert not table.is_recorded


def test_a_cell_that_the_driver_could_not_tell_follows_from_the_tree() -> None:
    """A gap in the driver's table is filled."""
    gap = replace(SAID, cells=(("X", None, *SAID.cells[0][2:]), *SAID.cells[1:]))
    table = with_paths(replace(dgx_h100(), paths=gap)).paths
    assert table is not None
    assert table.cells[0][1] == "NV18"


def test_a_whole_table_stays_recorded() -> None:
    """Where nothing is missing nothing is added."""
    node = replace(dgx_h100(), paths=SAID, nics=())
    table = with_paths(node).paths
    assert table is not None
    assert table.is_recorded
    assert table.cells == SAID.cells


def test_more_devices_than_a_table_has_room_for_have_none() -> None:
    """Where a card shows a thousand functions there is no table, and the reason is told."""
    nics = tuple(Nic(index=at, name=f"mlx5_{at}", kind=NicKind.INFINIBAND) for at in range(1000))
    node = with_paths(replace(dgx_h100(), paths=None, nics=nics))
    assert node.paths is None
    assert "a table has up to" in node.unknown[-1].because
