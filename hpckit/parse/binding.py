"""A binding as it was written for the ranks of a node, read with the standard library alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

from hpckit.errors import ParseError
from hpckit.model.binding import BINDING_SCHEMA, BoundGpu, NodeBinding, RankBinding
from hpckit.model.index_list import EXPECTED, IndexList, check_indices
from hpckit.model.rules import InvalidValue

T = TypeVar("T")

MOST_CHARS: Final = 16 * 1024**2
_SHOWN: Final = 60
_TOP: Final = frozenset({"schema", "hpckit", "allowed", "ranks", "notes"})
_RANK: Final = frozenset(RankBinding.__dataclass_fields__)
_GPU: Final = frozenset(BoundGpu.__dataclass_fields__)


def parse_binding(text: str) -> NodeBinding:
    """The binding of a document (`hpckit.binding/1`). Raises ParseError."""
    if len(text) > MOST_CHARS:
        raise _refused("a text", f"{len(text)} characters", f"at most {MOST_CHARS}")
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused("a text", text, "JSON") from error
    top = _table("the document", tree, _TOP)
    if top.get("schema") != BINDING_SCHEMA:
        raise _refused("schema", top.get("schema"), BINDING_SCHEMA)
    _indices("allowed", top.get("allowed", ""))
    ranks = _list("ranks", top.get("ranks"), _rank)
    if [rank.local_rank for rank in ranks] != list(range(len(ranks))):
        raise _refused("ranks", [rank.local_rank for rank in ranks], "local ranks from 0 on")
    return NodeBinding(ranks=ranks, notes=_list("notes", top.get("notes", []), _text("notes")))


def _rank(tree: Any) -> RankBinding:
    table = _table("a rank", tree, _RANK)
    return RankBinding(
        local_rank=_number("local_rank", table.get("local_rank")),
        gpus=_list("gpus", table.get("gpus", []), _gpu),
        cpus=_indices("cpus", table.get("cpus")),
        memory_numa=_indices("memory_numa", table.get("memory_numa")),
        nics=_list("nics", table.get("nics", []), _text("nics")),
        **{name: _text(name)(table.get(name)) for name in _RANK if name.endswith("_because")},
    )


def _gpu(tree: Any) -> BoundGpu:
    table = _table("a GPU", tree, _GPU)
    return BoundGpu(
        position=_number("position", table.get("position")),
        index=_number("index", table.get("index")),
        **{
            name: None if table.get(name) is None else _text(name)(table[name])
            for name in ("uuid", "pci")
        },
    )


def _table(what: str, tree: Any, keys: frozenset[str]) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise _refused(what, tree, "a table")
    unknown = sorted(set(tree) - keys)
    if unknown:
        raise _refused(what, unknown[0], f"the keys {', '.join(sorted(keys))}")
    return tree


def _list(what: str, tree: Any, one: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(tree, list):
        raise _refused(what, tree, "a list")
    return tuple(map(one, tree))


def _number(what: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _refused(what, value, "a whole number from 0 on")
    return value


def _text(what: str) -> Callable[[Any], str]:
    def text(value: Any) -> str:
        if not isinstance(value, str):
            raise _refused(what, value, "a text")
        return value

    return text


def _indices(what: str, value: Any) -> IndexList:
    text = _text(what)(value)
    try:
        check_indices(what, text)
    except InvalidValue as error:
        raise _refused(what, text, EXPECTED) from error
    return IndexList(text)


def _refused(what: str, got: object, expected: str) -> ParseError:
    shown = str(got)[:_SHOWN]
    message = f"{what} is {shown!r}"
    return ParseError(message, tool="binding", line_no=1, line=shown, expected=expected)
