"""amd-smi topology: access, weights, hops, types and bandwidth of the links between AMD GPUs.

Sources: amdsmi, amdsmi_cli/amdsmi_commands.py (topology), amdsmi_logger.py (flatten_dict for CSV),
CHANGELOG.md (the layouts of 6.0 to 7.0). Types of links are read by name: their numbers changed.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from hpckit.model.hardware import Gpu, GpuVendor, NodeTopology, Source, Unknown
from hpckit.model.node_limits import MOST_GPUS
from hpckit.model.pci import pci_address
from hpckit.parse.excerpt import refusal
from hpckit.parse.gpu_matrices import (
    GpuMatrices,
    Matrix,
    MatrixReader,
    Rows,
    cell_of,
    title_of,
    topology_of,
    whole_matrices,
)
from hpckit.parse.json_excerpt import json_with, refuse_document
from hpckit.parse.pasted import pasted_lines, without_colours

TOOL: Final = "amd-smi topology"

_TITLES: Final = MappingProxyType(
    {
        "ACCESS TABLE": Matrix.ACCESS,
        "WEIGHT TABLE": Matrix.WEIGHT,
        "HOPS TABLE": Matrix.HOPS,
        "LINK TYPE TABLE": Matrix.TYPE,
        "NUMA BW TABLE": Matrix.BANDWIDTH,
        "CACHE COHERANCY TABLE": Matrix.OTHER,
        "CACHE COHERENCY TABLE": Matrix.OTHER,
        "ATOMICS TABLE": Matrix.OTHER,
        "DMA TABLE": Matrix.OTHER,
        "BI-DIRECTIONAL TABLE": Matrix.OTHER,
    }
)
_TITLE = re.compile(r"\s{0,8}([A-Z][A-Z0-9 -]{1,40} TABLE):\s*", re.ASCII)
_FIRST = re.compile(
    r"^[^\w\n]{0,20}(?:" + "|".join(_TITLES) + r"):[ \r]*\n(?:[ \t]*\r?\n)?"
    r"[^\w\n]{0,40}(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]",
    re.MULTILINE,
)
_LABEL = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", re.ASCII | re.IGNORECASE)
_JSON = re.compile(r'"(?:links"\s{0,99}:\s{0,99}\[|link_accessibility"|numa_bandwidth")')
_KEYS = re.compile(r'"(?:link_status|link_type|num_hops|hops|weight)"')
_CSV = re.compile(
    r"^gpu,(?:bdf,)?(?:link_accessibility|weight|hops|link_type|numa_bandwidth)_gpu_", re.MULTILINE
)
_OF_LINK: Final = MappingProxyType(
    {
        "link_status": Matrix.ACCESS,
        "weight": Matrix.WEIGHT,
        "num_hops": Matrix.HOPS,
        "link_type": Matrix.TYPE,
        "bandwidth": Matrix.BANDWIDTH,
    }
)
_OF_TABLE: Final = MappingProxyType(
    {
        "link_accessibility": Matrix.ACCESS,
        "weight": Matrix.WEIGHT,
        "hops": Matrix.HOPS,
        "link_type": Matrix.TYPE,
        "numa_bandwidth": Matrix.BANDWIDTH,
    }
)
_GPU_KEY = re.compile(r"gpu_(\d{1,4})", re.ASCII)


def is_amd_smi_topology(text: str) -> bool:
    """Whether a text holds such an output, in words, JSON or CSV, among whatever else."""
    text = without_colours(text)
    is_json = _JSON.search(text) is not None and _KEYS.search(text) is not None
    return is_json or _FIRST.search(text) is not None or _CSV.search(text) is not None


def parse_amd_smi_topology(text: str) -> NodeTopology:
    """The node of the first output in a text; what stands around it is passed over.

    GPUs are numbered in their order. `NUMA BW` holds the least and the most bandwidth in 10^6
    bytes a second: one link, and all between the two. `is_p2p` is the ACCESS table. NUMA nodes
    are not printed. Raises ParseError.
    """
    text = without_colours(text)
    if _FIRST.search(text):
        return topology_of(_of_tables(text))
    if _CSV.search(text):
        return topology_of(_of_csv(text))
    return topology_of(_of_json(text))


def _of_tables(text: str) -> GpuMatrices:
    reader = MatrixReader(pasted_lines(text), TOOL, _LABEL, _is_title)
    labels, rows = reader.read_all(_matrix_of, lambda _: None)
    return _matrices(tuple(enumerate(labels)), rows)


def _matrices(gpus: Sequence[tuple[int, str | None]], rows: Mapping[Matrix, Rows]) -> GpuMatrices:
    because = "amd-smi topology does not print it; amd-smi static --numa does"
    return GpuMatrices(
        source=Source(format=TOOL),
        gpus=tuple(
            Gpu(index=index, vendor=GpuVendor.AMD, pci=pci_address(bdf) if bdf else None)
            for index, bdf in gpus
        ),
        rows={matrix: cells for matrix, cells in rows.items() if matrix is not Matrix.OTHER},
        unknown=(Unknown(subject="GPUs", what="numa_index", because=because),),
    )


def _is_title(line: str) -> bool:
    return title_of(line, _TITLE) is not None


def _matrix_of(line: str) -> Matrix | None:
    return _TITLES.get(title_of(line, _TITLE) or "")


def _of_csv(text: str) -> GpuMatrices:
    """One row a GPU; a column for each table and peer: `weight_gpu_1`."""
    start = _CSV.search(text)
    body = text[start.start() if start else 0 :].replace("\0", "")
    block = body.split("\n\n", 1)[0].split("\n\r\n", 1)[0]
    found: list[dict[str, Any]] = []
    try:
        for row in csv.DictReader(io.StringIO(block)):
            if _index(row.get("gpu")) is None:
                break
            one: dict[str, Any] = {"gpu": row.get("gpu"), "bdf": row.get("bdf")}
            for key, value in row.items():
                table, _, peer = (key or "").rpartition("_gpu_")
                if table:
                    one.setdefault(table, {})[f"gpu_{peer}"] = value
            found.append(one)
    except csv.Error as error:
        line = block.split("\n", 1)[0]
        raise refusal(
            f"not readable: {error}", tool=TOOL, line_no=1, line=line, expected="CSV"
        ) from error
    return _of_objects(found, text, "gpu,")


def _of_json(text: str) -> GpuMatrices:
    match = _JSON.search(text)
    key = match[0] if match else "["
    document = json_with(text, key, f"{TOOL} --json")
    if isinstance(document, dict):
        lists = [value for value in document.values() if isinstance(value, list)]
        document = lists[0] if lists else [document]
    return _of_objects(document, text, key)


def _of_objects(document: Any, text: str, key: str) -> GpuMatrices:
    """One object a GPU, its links in a list (since 6.1) or in a table a subject (before)."""
    objects = document if isinstance(document, list) else []
    gpus: list[tuple[int, str | None]] = []
    words: dict[tuple[Matrix, int, int], str] = {}
    for one in objects:
        index = _index(one.get("gpu")) if isinstance(one, dict) else None
        if index is None or index in dict(gpus):
            expected = "objects with a 'gpu' each, and its 'links'"
            raise refuse_document(text, key, "the document is no such output", expected, TOOL)
        gpus.append((index, _bdf(one.get("bdf"))))
        words |= _words_of(one, index)
    if not 0 < len(gpus) <= MOST_GPUS or not words:
        message = f"it tells of {len(gpus)} GPUs, and of {len(words)} links"
        raise refuse_document(text, key, message, f"1 to {MOST_GPUS} GPUs and their links", TOOL)
    return _matrices(gpus, whole_matrices(words, [index for index, _ in gpus]))


def _words_of(one: Mapping[str, Any], index: int) -> dict[tuple[Matrix, int, int], str]:
    words: dict[tuple[Matrix, int, int], str] = {}
    links = one.get("links")
    for link in links if isinstance(links, list) else ():
        peer = _index(link.get("gpu")) if isinstance(link, dict) else None
        if peer is not None:
            for name, matrix in _OF_LINK.items():
                if name in link:
                    words[matrix, index, peer] = cell_of(link[name])
    for name, matrix in _OF_TABLE.items():
        table = one.get(name)
        for key, value in table.items() if isinstance(table, dict) else ():
            match = _GPU_KEY.fullmatch(key)
            if match:
                words[matrix, index, int(match[1])] = cell_of(value)
    return words


def _index(value: object) -> int | None:
    """The number of a GPU, as JSON or CSV has it."""
    is_text = isinstance(value, str) and re.fullmatch(r"\d{1,4}", value, re.ASCII)
    if not is_text and (not isinstance(value, int) or isinstance(value, bool)):
        return None
    index = int(str(value)) if is_text else value
    return index if isinstance(index, int) and 0 <= index < MOST_GPUS else None


def _bdf(value: object) -> str | None:
    return value if isinstance(value, str) and _LABEL.fullmatch(value.strip()) else None
