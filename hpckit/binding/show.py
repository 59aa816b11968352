"""The binding of a node's ranks as a table, a rank a row, and the reasons beside and below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from hpckit.binding.bind import BINDING_SCHEMA, NodeBinding, RankBinding
from hpckit.core.errors import RenderError
from hpckit.core.fields import to_tree
from hpckit.core.index_list import expand_indices, index_list
from hpckit.core.text import Line, Style, columns, names_within, visible, wrapped
from hpckit.node.words import cpus_shown


def cpu_bind_option(binding: NodeBinding) -> str:
    """The value of `--cpu-bind`: a mask of CPUs for each local rank, in their order.

    The masks hold for every node of the step, and srun takes them only where the step has whole
    nodes; a CPU is meant by the system's number. Source: srun(1), `--cpu-bind`, mask_cpu. Raises
    RenderError for a rank whose CPUs are not known.
    """
    for rank in binding.ranks:
        if not rank.cpus:
            raise RenderError(
                f"the CPUs of rank {rank.local_rank} are unknown: {rank.cpus_because}",
                template="srun --cpu-bind",
                variable="mask_cpu",
            )
    masks = (sum(1 << cpu for cpu in expand_indices(rank.cpus)) for rank in binding.ranks)
    return "mask_cpu:" + ",".join(map(hex, masks))


_HEAD: Final = ("rank", "GPU", "CPUs", "NUMA", "NIC", "why")
_GAP: Final = "  "
_LEAST_WHY: Final = 20
_WIDE_FROM: Final = 72
_WIDE: Final = (9, 23, 9, 15)
_NARROW: Final = (4, 12, 4, 8)
"""The most columns for GPUs, CPUs, NUMA nodes and NICs; with a rank and gaps they fit."""
_LONGEST: Final = 1000


def binding_lines(binding: NodeBinding, *, width: int = 80) -> list[Line]:
    """The table in lines of at most `width` columns (40 or more).

    `why` is of the CPUs and the NICs; where there is no room for it as a column it stands below its
    row. What is the same for all ranks is said once, below.
    """
    width = max(width, 40)
    rows = [_cells(rank, _WIDE if width >= _WIDE_FROM else _NARROW) for rank in binding.ranks]
    widths = [max(columns(row[at]) for row in (_HEAD[:-1], *rows)) for at in range(len(_HEAD) - 1)]
    room = width - sum(widths) - len(_GAP) * len(widths)
    head = _row(_HEAD[:-1], widths) + (f"{_GAP}{_HEAD[-1]}" if room >= _LEAST_WHY else "")
    lines = [Line(text=head.rstrip(), style=Style.FAINT)]
    for rank, row in zip(binding.ranks, rows, strict=True):
        start = _row(row, widths)
        why = f"{rank.cpus_because}; {rank.nics_because}" if rank.nics else rank.cpus_because
        words = tuple(visible(why, _LONGEST).split(" "))
        if room < _LEAST_WHY:
            texts = [start.rstrip(), *wrapped(words, width, first="    ", further="    ")]
        else:
            texts = wrapped(words, width, first=start + _GAP, further=" " * columns(start) + _GAP)
        lines += [Line(text=text) for text in texts]
    reasons = [
        *_once("GPU", [rank.gpus_because for rank in binding.ranks]),
        *_once("memory", [rank.memory_because for rank in binding.ranks]),
    ]
    told = [(reason, Style.FAINT) for reason in reasons]
    told += [(f"note: {note}", Style.NOTE) for note in binding.notes]
    for sentence, style in told:
        words = tuple(visible(sentence, _LONGEST).split(" "))
        lines += [Line(text=text, style=style) for text in wrapped(words, width, further="  ")]
    return lines


def binding_tree(binding: NodeBinding) -> dict[str, Any]:
    """The document of a binding (`hpckit.binding/1`), as plain tables and lists."""
    return {"schema": BINDING_SCHEMA, **to_tree(binding)}


def _cells(rank: RankBinding, most: tuple[int, int, int, int]) -> tuple[str, ...]:
    for_gpus, for_cpus, for_numa, for_nics = most
    cells = (
        str(rank.local_rank),
        visible(index_list(gpu.position for gpu in rank.gpus), for_gpus),
        visible(cpus_shown(rank.cpus, for_cpus), for_cpus),
        visible(rank.memory_numa, for_numa),
        names_within(rank.nics, for_nics) if rank.nics else "",
    )
    return tuple(cell or "–" for cell in cells)


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell + " " * (width - columns(cell)) for cell, width in zip(cells, widths, strict=True)
    )
    return _GAP.join(padded)


def _once(what: str, reasons: Sequence[str]) -> Iterable[str]:
    """Each reason with the ranks that it is of, these left out where it is that of all."""
    ranks: dict[str, list[int]] = {}
    for rank, reason in enumerate(reasons):
        ranks.setdefault(reason, []).append(rank)
    for reason, those in ranks.items():
        ranks_word = "rank" if len(those) == 1 else "ranks"
        whose = "" if len(ranks) == 1 else f" of {ranks_word} {index_list(those)}"
        yield f"{what}{whose}: {reason}"
