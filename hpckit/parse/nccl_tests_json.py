"""nccl-tests' JSON (`-J FILE`), of which there are versions 1 to 3.

Source: nccl-tests 2.17.4 to 2.19.6, src/util.cu. Version 1 wrote `bandwidith`. `devices` has the
first GPU of each process alone. Of the environment only what NCCL and its plugins read is kept.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, Final

from hpckit.errors import ParseError
from hpckit.model.comm import NcclVersion
from hpckit.model.nccl_run import COLLECTIVES, BusbwFigures, BusbwRow, NcclTest, RankDevice
from hpckit.parse.json_objects import JsonObject, json_objects
from hpckit.parse.nccl_tests import NO_PROGRAM
from hpckit.parse.nccl_tests_row import MOST_COUNTED

VERSIONS: Final = (1, 2, 3)
_PREFIXES: Final = ("NCCL_", "RCCL_", "FI_", "OFI_NCCL_")
_EXPECTED: Final = "what nccl-tests writes with -J, version 1 to 3"
TOOL: Final = "nccl-tests"
_MOST_LOCAL: Final = 1024
_US: Final = 1e-6
_GB: Final = 1e9


def is_nccl_tests_json(text: str) -> bool:
    """Whether a text is a JSON object with the keys of nccl-tests' output."""
    head = text[:200].lstrip()
    return head.startswith("{") and '"results"' in text and '"args"' in text


def parse_nccl_tests_json(text: str) -> tuple[NcclTest, ...]:
    """The tests of a document, or of several one behind the other.

    Raises ParseError for what is no JSON of nccl-tests, or of another version.
    """
    return tuple(_test(one) for one in json_objects(text, TOOL))


def _test(one: JsonObject) -> NcclTest:
    tree = one.tree
    if tree.get("version") not in VERSIONS:
        raise one.refuse("version", f"got {str(tree.get('version'))[:20]}", _EXPECTED)
    results = tree.get("results")
    if not isinstance(results, list):
        raise one.refuse("results", "no list of results", _EXPECTED)
    config = _part(tree, "config")
    program = _program(tree.get("args"))
    name = (program or "").removesuffix("_mpi").removesuffix("_perf")
    collective = COLLECTIVES.get(name)
    return NcclTest(
        program=program,
        collective=collective,
        collective_unknown=None if collective else NO_PROGRAM,
        library=_version(tree.get("nccl_version")),
        ranks=tuple(_rank(rank, one) for rank in _objects(config.get("devices"))),
        gpus_per_rank=_few(config, "nthreads", one) * _few(config, "ngpus", one),
        rows=tuple(_row(row, one) for row in _objects(results)),
        unread=sum(_is_broken(row, one) for row in _objects(results)),
        average_busbw_bytes_per_s=_average(tree),
        out_of_bounds=_whole(_part(tree, "out_of_bounds").get("count")),
        most_bytes=_whole(config.get("maximum_bytes")),
        environment=_environment(tree.get("env")),
    )


def _program(args: Any) -> str | None:
    first = args[0] if isinstance(args, list) and args else None
    return first.rpartition("/")[2] or None if isinstance(first, str) else None


def _environment(env: Any) -> tuple[tuple[str, str], ...]:
    lines = [one for one in env if isinstance(one, str)] if isinstance(env, list) else []
    pairs = (line.partition("=") for line in lines if line.startswith(_PREFIXES))
    return tuple((name, value) for name, _, value in pairs)


def _average(tree: dict[str, Any]) -> float | None:
    for key, inner in (
        ("average_bus_bandwidth", "bandwidth"),
        ("average_bus_bandwidith", "bandwidith"),
    ):
        value = _float(_part(tree, key).get(inner))
        if value is not None:
            return value * _GB
    return None


def _rank(tree: dict[str, Any], one: JsonObject) -> RankDevice:
    return RankDevice(
        rank=_needed(tree, "rank", one),
        group=_whole(tree.get("group")),
        pid=_needed(tree, "pid", one),
        host=str(tree.get("hostname") or ""),
        device=_needed(tree, "device", one),
        bus=str(tree.get("device_hex") or ""),
        gpu=str(tree.get("device_info") or ""),
    )


def _row(tree: dict[str, Any], one: JsonObject) -> BusbwRow:
    root = tree.get("root")
    number = None
    with suppress(TypeError, ValueError):
        number = int(str(root)[:12])
    return BusbwRow(
        size_bytes=_needed(tree, "size", one),
        elements=_needed(tree, "count", one),
        type=_word(tree.get("type")),
        redop=_word(tree.get("redop")),
        root=number,
        out_of_place=_figures(tree.get("out_of_place"), one),
        in_place=_figures(tree.get("in_place"), one),
    )


def _is_broken(tree: dict[str, Any], one: JsonObject) -> bool:
    """Whether a placement that was measured has a figure that is none."""
    sides = [tree.get("out_of_place"), tree.get("in_place")]
    return any(side is not None and _figures(side, one) is None for side in sides)


def _figures(tree: Any, one: JsonObject) -> BusbwFigures | None:
    if tree is None:
        return None
    if not isinstance(tree, dict):
        raise one.refuse("out_of_place", "no object", _EXPECTED)
    time = _float(tree.get("time", tree.get("cpu_time")))
    algbw, busbw = _float(tree.get("alg_bw")), _float(tree.get("bus_bw"))
    if time is None or algbw is None or busbw is None:
        return None
    wrong = _float(tree.get("nwrong"))
    return BusbwFigures(
        time_s=time * _US,
        algbw_bytes_per_s=algbw * _GB,
        busbw_bytes_per_s=busbw * _GB,
        wrong=None if wrong is None else min(round(wrong), MOST_COUNTED),
    )


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _part(tree: dict[str, Any], key: str) -> dict[str, Any]:
    value = tree.get(key)
    return value if isinstance(value, dict) else {}


def _few(config: dict[str, Any], key: str, one: JsonObject) -> int:
    """Threads or GPUs of a process, 1 where they are not told."""
    value = config.get(key, 1)
    if _whole(value) is None or not 1 <= value <= _MOST_LOCAL:
        raise one.refuse(key, f"got {str(value)[:40]}", f"a number from 1 to {_MOST_LOCAL}")
    return int(value)


def _needed(tree: dict[str, Any], key: str, one: JsonObject) -> int:
    value = _whole(tree.get(key))
    if value is None:
        raise _refusal(one, key, tree.get(key))
    return value


def _refusal(one: JsonObject, key: str, got: Any) -> ParseError:
    return one.refuse(key, f"got {str(got)[:40]}", "a whole number, 0 or more")


def _whole(value: Any) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 <= value <= MOST_COUNTED else None


def _float(value: Any) -> float | None:
    """A figure; JSON has numbers that no float holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= sys.float_info.max else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _version(value: Any) -> NcclVersion | None:
    with suppress(ValueError):
        return NcclVersion.of_code(value) if isinstance(value, int) else None
    return None
