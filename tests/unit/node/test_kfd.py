"""/sys/class/kfd as a node: GPUs, partitions, NUMA nodes and links."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from hpckit.core.errors import ParseError
from hpckit.core.file_tree import FileTree
from hpckit.node.capture.kfd import KFD_PATTERNS, KFD_ROOT, parse_kfd
from hpckit.node.capture.xgmi import PairReport, unknown_of_links, xgmi_link
from hpckit.node.topology import LinkKind
from tests.corpus import corpus_files
from tests.fakes.amd_records import Link, kfd_tree, record_tree, tar_tree

CPU = {"cpu_cores_count": 8, "simd_count": 0}


def gpu(location: int, **more: int) -> dict[str, int]:
    """The properties of a GPU at a bus, device and function in 16 bits."""
    return {"cpu_cores_count": 0, "simd_count": 4, "location_id": location, **more}


def test_gpus_are_in_the_order_of_their_addresses() -> None:
    """The second node of KFD is the first GPU on the bus, with name, memory and architecture."""
    node = parse_kfd(record_tree("kfd-sysfs-6.8", "synthetic-two-gpus"), "topology")
    first, second = node.gpus
    assert (first.pci, second.pci) == ("0000:29:00.0", "0000:c1:00.0")
    assert (first.numa_index, second.numa_index) == (1, 0)
    assert first.name == "Instinct MI250X"
    assert first.architecture == "gfx90a"
    assert first.memory_bytes == 68702699520
    assert first.uuid == f"GPU-{1003:016x}"
    assert node.paths is None


def test_links_of_two_gpus() -> None:
    """Type 11 is XGMI: four links of 50 GB/s each; PCIe is no link."""
    node = parse_kfd(record_tree("kfd-sysfs-6.8", "synthetic-two-gpus"), "topology")
    (link,) = node.gpu_links
    assert (link.a, link.b, link.kind) == (0, 1, LinkKind.XGMI)
    assert (link.count, link.bandwidth_bytes_per_s, link.weight) == (4, 2e11, 15)
    assert link.is_p2p


def test_cpu_nodes_are_numa_nodes() -> None:
    """Each has its memory, and the firmware's distances to the others."""
    node = parse_kfd(record_tree("kfd-sysfs-6.8", "synthetic-two-gpus"), "topology")
    assert [one.memory_bytes for one in node.numa_nodes] == [270000000000] * 2
    assert [one.distances for one in node.numa_nodes] == [(10, 32), (32, 10)]
    assert node.cpu.vendor == "AuthenticAMD"


@pytest.mark.parametrize("shift", [0, 28])
def test_partitions_of_a_package(shift: int) -> None:
    """The driver writes the partition above the address or into its function."""
    nodes = [CPU, *(gpu(0x0A00 | part << shift, unique_id=7) for part in range(4))]
    node = parse_kfd(kfd_tree(nodes, []), "topology")
    assert [one.pci for one in node.gpus] == ["0000:0a:00.0"] * 4
    assert [one.partition for one in node.gpus] == ["0", "1", "2", "3"]


def test_functions_of_two_gpus_are_no_partitions() -> None:
    """GPUs with ids of their own keep their functions."""
    nodes = [CPU, gpu(0x0A00, unique_id=7), gpu(0x0A01, unique_id=8)]
    node = parse_kfd(kfd_tree(nodes, []), "topology")
    assert [(one.pci, one.partition) for one in node.gpus] == [
        ("0000:0a:00.0", None),
        ("0000:0a:00.1", None),
    ]


def mesh(gpus: int, gfx: int) -> FileTree:
    """GPUs with XGMI between each two, of which an old kernel gives no bandwidth."""
    nodes = [CPU, *(gpu(at << 8, gfx_target_version=gfx) for at in range(1, gpus + 1))]
    indices = range(1, gpus + 1)
    return kfd_tree(nodes, [(a, b, 11, 15, 0) for a in indices for b in indices if a != b])


@pytest.mark.parametrize(
    ("gpus", "gfx", "count", "bandwidth"),
    [
        (4, 90008, 1, 46e9),
        (8, 90402, 1, 64e9),
        (4, 90402, None, None),
        (4, 90010, None, None),
    ],
)
def test_bandwidth_by_architecture(
    gpus: int, gfx: int, count: int | None, bandwidth: float | None
) -> None:
    """MI100 and MI300X have as many links as peers; MI300A and MI200 can have several a peer."""
    for link in parse_kfd(mesh(gpus, gfx), "topology").gpu_links:
        assert (link.count, link.bandwidth_bytes_per_s) == (count, bandwidth)


def test_xgmi_to_a_cpu() -> None:
    """On a coherent host the GPU's link to its CPU is XGMI too."""
    tree = kfd_tree([CPU, CPU, gpu(0x100)], [(2, 1, 11, 15, 36000)])
    node = parse_kfd(tree, "topology")
    (link,) = node.cpu_links
    assert (link.gpu_index, link.numa_index, link.bandwidth_bytes_per_s) == (0, 1, 36e9)
    assert node.gpus[0].numa_index == 1


def test_a_gpu_that_a_container_hides() -> None:
    """A node without readable properties is named among what is unknown, and is no GPU here."""
    tree = kfd_tree([CPU, gpu(0x100), {}], [(1, 0, 2, 20, 0), (1, 3, 11, 15, 0)])
    node = parse_kfd(tree, "topology")
    assert len(node.gpus) == 1
    assert any(one.what == "properties of KFD nodes 2-3" for one in node.unknown)


def test_an_apu_is_both() -> None:
    """A node with CPUs and a GPU is a NUMA node, and its GPU is with it."""
    both = {**gpu(0x100), "cpu_cores_count": 4}
    node = parse_kfd(kfd_tree([both], []), "topology")
    assert len(node.numa_nodes) == 1
    assert node.gpus[0].numa_index == 0


@pytest.mark.parametrize(
    ("name", "text", "line_no", "message"),
    [
        ("properties", "simd_count four\n", 1, "not a KFD property"),
        ("properties", "simd_count 4\nx " + "9" * 5000, 2, "not a KFD property"),
        ("properties", "simd_count ٤\n", 1, "not a KFD property"),
        ("io_links/0/properties", "type 11\n", 1, "without an end"),
        ("mem_banks/0/properties", "heap_type\n", 1, "not a KFD property"),
    ],
)
def test_what_is_no_kfd_is_refused_with_its_file(
    name: str, text: str, line_no: int, message: str
) -> None:
    """The error names the file and the line."""
    tree = kfd_tree([CPU, gpu(0x100)], [])
    texts = {**tree.texts, f"topology/nodes/1/{name}": text}
    with pytest.raises(ParseError, match=f"topology/nodes/1/{name}") as caught:
        parse_kfd(FileTree(texts=texts), "topology")
    assert message in str(caught.value)
    assert caught.value.line_no == line_no


def test_no_nodes() -> None:
    """A tree without nodes, or with none that can be read, is refused."""
    for texts in ({}, {"topology/nodes/0/properties": ""}):
        with pytest.raises(ParseError):
            parse_kfd(FileTree(texts=texts), "topology")


def test_a_probe_reads_what_the_parser_takes() -> None:
    """Every file of a record is below a pattern, and every pattern has a file."""
    tree = record_tree("kfd-sysfs-6.8", "synthetic-two-gpus")
    paths = [path for path in tree.texts if path != "provenance.txt"]
    whole = [path.replace("topology", KFD_ROOT, 1) for path in paths]
    for path in whole:
        assert any(fnmatchcase(path, pattern) for pattern in KFD_PATTERNS)
    for pattern in KFD_PATTERNS:
        assert any(fnmatchcase(path, pattern) for path in whole)


EXPECTED = {
    "rocm-k8s-device-plugin-topo-mi210-xgmi-pcie": (8, {(15, 1, 5e10): 12}),
    "rocm-k8s-device-plugin-topology-parsing-mi308": (
        32,
        {(13, None, 819.2e9): 48, (41, None, None): 448},
    ),
    "rocm-k8s-device-plugin-topology-parsing": (2, {}),
}


@pytest.mark.parametrize("path", corpus_files("kfd-sysfs/*.tar.xz"))
def test_public_captures(path: Path) -> None:
    """Each tarball gives its GPUs, each with an address and a NUMA node, and its links."""
    node = parse_kfd(*tar_tree(path.read_bytes()))
    assert all(one.pci and one.numa_index is not None for one in node.gpus)
    gpus, links = EXPECTED.get(path.name.removesuffix(".tar.xz"), (len(node.gpus), None))
    assert len(node.gpus) == gpus
    found = Counter((one.weight, one.count, one.bandwidth_bytes_per_s) for one in node.gpu_links)
    assert links is None or found == links


def test_pairs_over_other_gpus_get_no_bandwidth_of_their_own() -> None:
    """Of GPUs of which each has as many peers as links, a pair of weight 30 has none itself."""
    first, second = range(1, 5), range(5, 9)
    pairs = [(a, b, 15) for four in (first, second) for a in four for b in four if a != b]
    nodes = [CPU, *(gpu(at << 8, gfx_target_version=90008) for at in (*first, *second))]
    links: list[Link] = [(a, b, 11, w, 0) for a, b, w in (*pairs, (1, 5, 30), (5, 1, 30))]
    tree = kfd_tree(nodes, links)
    bandwidths = {
        (one.weight, one.bandwidth_bytes_per_s) for one in parse_kfd(tree, "topology").gpu_links
    }
    assert bandwidths == {(15, 46e9), (30, None)}


def report(least: int, most: int, weight: int = 15) -> PairReport:
    """A pair with XGMI."""
    return PairReport(
        kind=LinkKind.XGMI, weight=weight, min_mbytes_per_s=least, max_mbytes_per_s=most
    )


def test_a_count_that_does_not_come_out_has_its_reason() -> None:
    """Bandwidth without a count is told of once, however many links have it."""
    link = xgmi_link(0, 1, report(50000, 120000), report(50000, 120000))
    (one,) = unknown_of_links([link, link], because="-")
    assert one.what == "count of XGMI links of weight 15"
    assert one.because == "the bandwidth is not a multiple of one link's"
