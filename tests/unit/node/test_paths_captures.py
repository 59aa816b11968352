"""Paths that follow from captures, beside what other tools say of the same machines."""

from __future__ import annotations

from collections import Counter

from hpckit.core.foreign_text import parse_xml
from hpckit.node.capture.nccl_xml import parse_nccl_xml
from hpckit.node.path import NcclPath
from hpckit.node.paths import with_paths
from tests.corpus import corpus_file


def test_an_h100_node_has_the_paths_that_nccl_finds() -> None:
    """Of this dump libnccl 2.32.3 itself finds NVL, PIX for the own card and PXN for the others."""
    data = corpus_file("nccl-topo-xml/oci/H100-topology.xml").read_bytes()
    paths = with_paths(parse_nccl_xml(parse_xml(data, "H100-topology.xml"))).paths
    assert paths is not None
    for gpu in range(8):
        row = paths.nccl[gpu]
        assert Counter(row[:8]) == {NcclPath.LOC: 1, NcclPath.NVL: 7}
        assert Counter(row[8:]) == {NcclPath.PIX: 2, NcclPath.PXN: 14}
        assert {row[8 + 2 * gpu], row[9 + 2 * gpu]} == {NcclPath.PIX}
    assert Counter(paths.nccl[8]) == {
        NcclPath.LOC: 2,
        NcclPath.PIX: 1,
        NcclPath.PHB: 3 + 6,
        NcclPath.SYS: 4 + 8,
    }


def test_nvidia_smi_counts_the_levels_that_nccl_merges() -> None:
    """On the same dump nvidia-smi's word for the own card is PXB: it counts virtual switches."""
    data = corpus_file("nccl-topo-xml/oci/H100-topology.xml").read_bytes()
    paths = with_paths(parse_nccl_xml(parse_xml(data, "H100-topology.xml"))).paths
    assert paths is not None
    assert paths.cells[0][8] == "PXB"
