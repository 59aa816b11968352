"""The captures of AMD's tools under tests/records, and trees of KFD made for a test."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpckit.core.file_tree import FileTree
from hpckit.node.topology import GpuLink, NodeTopology

RECORDS = Path(__file__).resolve().parents[1] / "records"


def record_text(tool: str, case: str) -> str:
    """What a tool printed, line ends as they are."""
    with (RECORDS / tool / case / "output.txt").open(newline="") as file:
        return file.read()


def record_tree(tool: str, case: str) -> FileTree:
    """The files of a record by their paths."""
    folder = RECORDS / tool / case
    return FileTree(
        texts={
            str(path.relative_to(folder)): path.read_text()
            for path in folder.rglob("*")
            if path.is_file()
        }
    )


def tar_tree(data: bytes) -> tuple[FileTree, str]:
    """The files of a tarball, and the folder that holds `nodes`."""
    texts: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            file = tar.extractfile(member)
            if file is not None:
                texts[member.name] = file.read().decode()
    roots = {path.split("/nodes/")[0] for path in texts if "/nodes/" in path}
    (root,) = roots
    return FileTree(texts=texts), root


def pair(node: NodeTopology, a: int, b: int) -> GpuLink | None:
    """The link between two GPUs."""
    found = [link for link in node.gpu_links if (link.a, link.b) == (a, b)]
    return found[0] if found else None


def lines_of(values: Mapping[str, int]) -> str:
    """A file of properties."""
    return "".join(f"{name} {value}\n" for name, value in values.items())


Link = tuple[int, int, int, int, int]
"""From, to, type, weight, bandwidth (least and most)."""


def kfd_tree(nodes: Sequence[Mapping[str, int]], links: Sequence[Link]) -> FileTree:
    """A tree with `topology` as its root; a node without properties has only a gpu_id."""
    texts: dict[str, str] = {}
    for index, node in enumerate(nodes):
        texts[f"topology/nodes/{index}/gpu_id"] = f"{index if 'simd_count' in node else 0}\n"
        if node:
            texts[f"topology/nodes/{index}/properties"] = lines_of(node)
    for at, (start, end, kind, weight, bandwidth) in enumerate(links):
        texts[f"topology/nodes/{start}/io_links/{at}/properties"] = lines_of(
            {
                "type": kind,
                "node_from": start,
                "node_to": end,
                "weight": weight,
                "min_bandwidth": bandwidth,
                "max_bandwidth": bandwidth,
                "flags": 1,
            }
        )
    return FileTree(texts=texts)
