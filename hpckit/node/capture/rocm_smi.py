"""rocm-smi --showtopo: weights, hops and types of the links between AMD GPUs, and NUMA nodes.

Sources: rocm_smi_lib, python_smi_tools/rocm_smi.py (showWeightTopology … showNumaTopology,
showNodesBw, formatMatrixToJSON, formatCsv). The options that show one part alone are taken too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any, Final

from hpckit.core.foreign_text import json_with, refuse_document
from hpckit.core.index_list import MOST_INDICES
from hpckit.core.late import regex
from hpckit.core.text import pasted_lines, without_colours
from hpckit.core.values import dataclass
from hpckit.node.capture.amd_smi import (
    GpuMatrices,
    Matrix,
    MatrixReader,
    Rows,
    cell_of,
    title_of,
    topology_of,
    whole_matrices,
)
from hpckit.node.pci import address_or_none
from hpckit.node.topology import MOST_GPUS, Gpu, GpuUuid, GpuVendor, NodeTopology, Source, Unknown

ROCM_SMI: Final = "rocm-smi --showtopo"

_TITLES: Final = {
    "weight between two gpus": Matrix.WEIGHT,
    "hops between two gpus": Matrix.HOPS,
    "link type between two gpus": Matrix.TYPE,
    "link accessibility between two gpus": Matrix.ACCESS,
    "bandwidth": Matrix.BANDWIDTH,
}
_TITLE = regex(r"\s{0,8}=*[ \t]*([A-Za-z]{4,9}(?: [A-Za-z]{2,13}){0,4})[ \t]*=*\s*", re.ASCII)
_HEADING = regex(
    r"^[^\w\n]{0,99}(?:Weight|Hops|Link Type|Link accessibility) between two GPUs[ =\r]*$"
    r"|\(Topology\) ",
    re.MULTILINE,
)
_LABEL = regex(r"GPU\d{1,4}", re.ASCII)
_OF_GPU = regex(
    r"\s*GPU\[(?P<gpu>\d{1,4})\]\s*:\s*(?P<what>[^:]{1,40}?)\s*:\s*(?P<value>\S.{0,99})?", re.ASCII
)
_SIGNED = regex(r"-?\d{1,10}", re.ASCII)
_UNIQUE_ID = regex(r"0x([0-9a-f]{1,16})", re.ASCII)
_ARCHITECTURE = regex(r"gfx[0-9a-f]{3,5}", re.ASCII)
_BETWEEN = regex(
    r"\(Topology\) (?P<what>Weight|Hops|Link type|Link accessibility) between DRM devices"
    r" (?P<a>\d{1,4}) and (?P<b>\d{1,4})",
    re.ASCII,
)
_OF_PAIR: Final = {
    "Weight": Matrix.WEIGHT,
    "Hops": Matrix.HOPS,
    "Link type": Matrix.TYPE,
    "Link accessibility": Matrix.ACCESS,
}
_CARD = regex(r"card(\d{1,4})", re.ASCII)
_CSV_HEAD = regex(r"^(?:device|system),.*\(Topology\) ", re.MULTILINE)
_BANNER: Final = "= ROCm System Management Interface ="
_NUMA_NODES: Final = "numa nodes"
_NUMA_NODE, _NUMA_AFFINITY = "(Topology) Numa Node", "(Topology) Numa Affinity"


def is_rocm_showtopo(text: str) -> bool:
    """Whether a text holds such an output, among whatever else."""
    return _HEADING.search(without_colours(text)) is not None


def parse_rocm_showtopo(text: str) -> NodeTopology:
    """The node of the first output in a text; what stands around it is passed over.

    Takes the matrices in words, `--json` and `--csv`. `hops` are as printed: 1 is any XGMI route,
    also over other GPUs; the weight tells them apart (15 a hop). A NUMA affinity of -1 is unknown.
    Names, PCI buses and unique ids are taken from what `--showproductname`, `--showbus` and
    `--showuniqueid` print in the same text. Raises ParseError.
    """
    if '"(Topology) ' in text:
        return topology_of(_of_json(text))
    if _CSV_HEAD.search(text):
        return topology_of(_of_csv(text))
    return topology_of(_of_matrices(text))


@dataclass(slots=True)
class _Notes:
    gpus: dict[int, Gpu] = field(default_factory=dict)
    nodes: dict[int, int] = field(default_factory=dict)
    affinities: dict[int, int] = field(default_factory=dict)

    def take(self, gpu: int, what: str, value: str) -> bool:
        """Keep a value; False if it cannot be one."""
        if what in {_NUMA_NODE, _NUMA_AFFINITY}:
            numa = self.nodes if what == _NUMA_NODE else self.affinities
            if _SIGNED.fullmatch(value):
                numa.setdefault(gpu, int(value))
            return _SIGNED.fullmatch(value) is not None or value == "N/A"
        known = self.gpus.get(gpu) or Gpu(index=gpu, vendor=GpuVendor.AMD)
        self.gpus[gpu] = _described(known, what.lower(), value)
        return True

    def gpu(self, index: int) -> Gpu:
        """What is known of a GPU."""
        known = self.gpus.get(index) or Gpu(index=index, vendor=GpuVendor.AMD)
        return replace(known, numa_index=self._numa(index))

    def _numa(self, index: int) -> int | None:
        """The kernel's numa_node; KFD's nearest CPU stands in for it where it was not printed.

        Before ROCm 4.5 -1 was printed as a number without sign.
        """
        numa = self.affinities.get(index, self.nodes.get(index))
        return numa if numa is not None and 0 <= numa < MOST_INDICES - 1 else None

    def unknown(self, indices: tuple[int, ...]) -> Iterator[Unknown]:
        """Why GPUs' NUMA nodes are not known."""
        if not self.affinities and not self.nodes:
            because = "rocm-smi did not print it"
            yield Unknown("GPUs", "numa_index", because)
            return
        for index in indices:
            if self._numa(index) is None:
                is_told = index in self.affinities or index in self.nodes
                because = "rocm-smi printed -1" if is_told else "rocm-smi did not print it"
                yield Unknown(f"GPU{index}", "numa_index", because)


def _described(gpu: Gpu, what: str, value: str) -> Gpu:
    if what in {"card series", "device name"} and value != "N/A":
        return replace(gpu, name=gpu.name or value.strip())
    if what == "gfx version" and _ARCHITECTURE.fullmatch(value):
        return replace(gpu, architecture=value)
    unique = _UNIQUE_ID.fullmatch(value.lower()) if what == "unique id" else None
    if unique:
        return replace(gpu, uuid=GpuUuid(f"GPU-{int(unique[1], 16):016x}"))
    return replace(gpu, pci=address_or_none(value) or gpu.pci) if what == "pci bus" else gpu


def _of_matrices(text: str) -> GpuMatrices:
    lines = pasted_lines(text)
    lines = lines[: _first_machine(lines)]
    reader = MatrixReader(
        lines,
        ROCM_SMI,
        _LABEL,
        lambda line: line.lstrip().startswith("===") or _matrix_of(line) is not None,
    )
    notes = _Notes()
    labels, rows = reader.read_all(_matrix_of, lambda at: _note(reader, at, notes))
    indices = tuple(int(label[3:]) for label in labels)
    if len(set(indices)) < len(indices):
        raise reader.refuse(0, f"got columns {' '.join(labels)[:60]}", 1, "each GPU once")
    if not rows and not notes.nodes and not notes.affinities:
        raise reader.refuse(0, "no matrix found", 1, "such as 'Weight between two GPUs'")
    return _matrices(indices, rows, notes)


def _first_machine(lines: list[str]) -> int:
    """The lines before an output that repeats what was printed: that is another machine's.

    Several outputs with a part each are of one machine.
    """
    before, here = set[str](), set[str]()
    start = 0
    for at, line in enumerate(lines):
        if _BANNER in line:
            before, here, start = before | here, set(), at
        title = _heading(line)
        if title in before:
            return start
        if title in here:
            return at
        here |= {title} if title else set()
    return len(lines)


def _matrices(indices: tuple[int, ...], rows: Mapping[Matrix, Rows], notes: _Notes) -> GpuMatrices:
    indices = indices or tuple(sorted({*notes.nodes, *notes.affinities}))
    return GpuMatrices(
        source=Source(format=ROCM_SMI),
        gpus=tuple(notes.gpu(index) for index in indices),
        rows=rows,
        unknown=tuple(notes.unknown(indices)),
    )


def _heading(line: str) -> str | None:
    """The title that a line is; one of a word or two needs its rulers beside it."""
    title = (title_of(line, _TITLE) or "").lower()
    is_title = title in _TITLES or title == _NUMA_NODES
    return title if is_title and ("two gpus" in title or "==" in line) else None


def _matrix_of(line: str) -> Matrix | None:
    return _TITLES.get(_heading(line) or "")


def _note(reader: MatrixReader, at: int, notes: _Notes) -> None:
    line = reader.lines[at]
    match = _OF_GPU.fullmatch(line.rstrip()) if "GPU[" in line else None
    if match is None:
        if "(Topology) Numa" in line:
            raise reader.refuse(at, "got no NUMA node", 1, "'GPU[0] : (Topology) Numa Node: 0'")
        return
    value = (match["value"] or "").strip()
    if not notes.take(int(match["gpu"]), match["what"], value):
        column = match.start("value") + 1
        raise reader.refuse(at, f"got {value[:40]!r}", column, "the number of a NUMA node, or -1")


def _of_json(text: str) -> GpuMatrices:
    key = '"(Topology) '
    document = json_with(text, key, f"{ROCM_SMI} --json")
    is_tables = isinstance(document, dict) and all(isinstance(v, dict) for v in document.values())
    if not is_tables:
        expected = "a table for each card, and 'system'"
        raise refuse_document(text, key, "not this output", expected, ROCM_SMI)
    return _of_tables(document, text, key)


def _of_csv(text: str) -> GpuMatrices:
    """The two tables of `--csv`: one row a card, and one for the system."""
    document: dict[str, Any] = {}
    header: list[str] = []
    for line in pasted_lines(text):
        if line.startswith(("device,", "system,(")):
            header = line.split(",")
        elif header and (_CARD.match(line) or line.startswith("system,")):
            fields = line.split(",")
            if len(fields) != len(header):
                message, expected = f"a row has {len(fields)} fields", f"{len(header)} fields"
                raise refuse_document(text, line, message, expected, f"{ROCM_SMI} --csv")
            document[fields[0]] = dict(zip(header[1:], fields[1:], strict=True))
    return _of_tables(document, text, "(Topology) ")


def _of_tables(tables: Mapping[str, Any], text: str, key: str) -> GpuMatrices:
    notes, pairs = _Notes(), dict[tuple[Matrix, int, int], str]()
    indices: set[int] = set()
    for name, table in tables.items():
        card = _CARD.fullmatch(name)
        for what, value in table.items():
            pair = _BETWEEN.fullmatch(what)
            if card and isinstance(value, str):
                notes.take(int(card[1]), what, value.strip())
            elif pair:
                a, b = int(pair["a"]), int(pair["b"])
                matrix = _OF_PAIR[pair["what"]]
                pairs[matrix, a, b] = pairs[matrix, b, a] = cell_of(value)
                indices |= {a, b}
    indices |= {*notes.nodes, *notes.affinities}
    if not 0 < len(indices) <= MOST_GPUS:
        expected = f"--showtopo output for 1 to {MOST_GPUS} GPUs"
        raise refuse_document(text, key, f"{len(indices)} GPUs found", expected, ROCM_SMI)
    ordered = tuple(sorted(indices))
    return _matrices(ordered, whole_matrices(pairs, ordered), notes)
