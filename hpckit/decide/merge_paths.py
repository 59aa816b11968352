"""A table of paths that a tool or driver gave for some devices, extended to all of a node."""

from __future__ import annotations

from hpckit.model.path import PathTable


def extended(recorded: PathTable, derived: PathTable) -> PathTable:
    """The recorded devices in their order, then those that only the derived table has.

    A recorded cell stands where it is known; every other one is the derived table's. The whole is
    `is_recorded` only where nothing was added to it, and NCCL's words are left to
    `paths.with_paths`.
    """
    said, followed = _cells(recorded), _cells(derived)
    devices = tuple(dict.fromkeys((*recorded.devices, *derived.devices)))
    known = {pair: cell for pair, cell in followed.items() if cell is not None}
    known |= {pair: cell for pair, cell in said.items() if cell is not None}
    return PathTable(
        devices=devices,
        cells=tuple(tuple(known.get((row, column)) for column in devices) for row in devices),
        is_recorded=recorded.is_recorded and known.keys() <= said.keys(),
    )


def _cells(table: PathTable) -> dict[tuple[str, str], str | None]:
    return {
        (row, column): cell
        for row, cells in zip(table.devices, table.cells, strict=False)
        for column, cell in zip(table.devices, cells, strict=False)
    }
