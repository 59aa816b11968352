"""Archives of /sys, read in memory."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import tracemalloc
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hpckit.core.archives import MOST_BYTES, looks_like_tar
from hpckit.core.errors import ParseError
from hpckit.core.file_tree import FileTree
from hpckit.core.index_list import index_list, indices_of_mask
from hpckit.node.capture.sysfs_files import parse_sysfs, sysfs_wanted
from hpckit.node.capture.tarball import file_tree, find_kfd, parse_tarball_sysfs
from hpckit.node.topology import NodeTopology, NumaKind
from tests.corpus import corpus_file, corpus_files
from tests.fakes.sysfs_records import packed, packed_members, record_tree

SMALL = FileTree(texts={"sys/a": "1\n", "b": ""}, links={"sys/c": "../b"})


def member(
    name: str, kind: bytes = tarfile.REGTYPE, *, data: bytes = b"", target: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    """A member of an archive."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(data), target
    return info, data


def read(path: Path) -> NodeTopology | None:
    """What an archive of the corpus holds, as a command reads it."""
    return parse_tarball_sysfs(file_tree(path.read_bytes(), sysfs_wanted))


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_what_was_packed_is_read_back(mode: str) -> None:
    """Texts and links are those that went in, however the archive is compressed."""
    data = packed(SMALL, mode=mode)
    assert looks_like_tar(data)
    assert file_tree(data) == SMALL


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names(form: int, tmp_path: Path) -> None:
    """Names and targets over 100 bytes are whole, as GNU tar and as POSIX write them."""
    name, target = f"sys/{'d' * 90}/{'é' * 60}", f"../{'t' * 200}"
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w", format=form) as file:
        for info, _ in (
            member(name),
            member("l", tarfile.SYMTYPE, target=target),
            member("last", tarfile.DIRTYPE),
        ):
            file.addfile(info)
    assert file_tree(archive.read_bytes()) == FileTree(texts={name: ""}, links={"l": target})


def test_names_are_made_one_way() -> None:
    """A leading slash or dot and doubled slashes are taken away, and hard links are files."""
    data = packed_members(
        [
            member("./sys//a", data=b"1"),
            member("/sys/b", data=b"2"),
            member("sys/c", tarfile.LNKTYPE, target="sys/a"),
            member("sys/d", tarfile.LNKTYPE, target="absent"),
        ]
    )
    assert file_tree(data).texts == {"sys/a": "1", "sys/b": "2", "sys/c": "1"}


def test_what_is_no_file_is_passed_over() -> None:
    """Devices and FIFOs are not there."""
    data = packed_members(
        [member("dev/sda", tarfile.BLKTYPE), member("pipe", tarfile.FIFOTYPE), member("x")]
    )
    assert file_tree(data) == FileTree(texts={"x": ""})


@pytest.mark.parametrize("name", ["../etc/passwd", "sys/../../x", "sys/.."])
def test_a_path_that_leads_out_is_refused(name: str) -> None:
    """A member with `..` in its path is an error, and so is a hard link to one."""
    for one in (member(name), member("x", tarfile.LNKTYPE, target=name)):
        with pytest.raises(ParseError, match="path leaves the archive"):
            file_tree(packed_members([one]))


def test_a_link_that_leads_out_is_text() -> None:
    """A symbolic link to anywhere is kept as it is written, and leads nowhere outside."""
    outside = FileTree(texts={"sys/class/net/e/device": "x"}, links={"sys/x": "/etc/passwd"})
    tree = file_tree(packed(outside))
    assert tree.links == {"sys/x": "/etc/passwd"}


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["tar", "gz", "bz2", "xz"]
)
def test_an_archive_that_is_cut_off_is_refused(pack: object) -> None:
    """Wherever an archive ends too early, that is an error."""
    assert callable(pack)
    data = pack(packed(FileTree(texts={"a": "x" * 3000, "b": "y"}), mode="w"))
    for size in range(1, len(data) - 10240, max(1, len(data) // 40)):
        with pytest.raises(ParseError):
            file_tree(data[:size])


def test_a_changed_header_is_refused() -> None:
    """A header whose sum is wrong is an error."""
    data = bytearray(packed(SMALL, mode="w"))
    data[0] ^= 1
    with pytest.raises(ParseError, match="checksum"):
        file_tree(bytes(data))


@pytest.mark.parametrize(
    "data", [b"", b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd12", b"x" * 2000]
)
def test_what_is_no_archive_is_refused(data: bytes) -> None:
    """A magic number alone, zstd and text are errors."""
    with pytest.raises(ParseError):
        file_tree(data)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress], ids=["gz", "bz2"])
def test_a_bomb_is_refused(pack: object) -> None:
    """What unpacks to more than any node's tree is an error, in little memory."""
    assert callable(pack)
    info = tarfile.TarInfo("sys/bomb")
    info.size = 2 * MOST_BYTES
    mib = bytes(1024**2)
    # The streams of a file follow one another: one of a MiB, many times.
    bomb = pack(info.tobuf()) + pack(mib) * (info.size // len(mib))
    tracemalloc.start()
    with pytest.raises(ParseError, match="more than a node's tree"):
        file_tree(bomb)
    assert tracemalloc.get_traced_memory()[1] < 64 * 1024**2
    tracemalloc.stop()


def test_long_files_are_cut() -> None:
    """The head of a long file is kept, and what follows it is read."""
    tree = file_tree(packed(FileTree(texts={"a": "x" * 300_000, "b": "y"})))
    assert (len(tree.texts["a"]), tree.texts["b"]) == (256 * 1024, "y")


def test_pages_that_tar_filled_up() -> None:
    """Tar fills a file of /sys up to a page with NULs, which are taken away; config keeps its."""
    page = "ACTIVE\n" + "\0" * 4000
    tree = file_tree(packed(FileTree(texts={"state": page, "d/config": "\0" * 64})))
    assert tree.texts == {"state": "ACTIVE\n", "d/config": "\0" * 64}


@pytest.mark.parametrize("below", ["", "node7/", "a/b/c/"])
def test_where_the_tree_begins(below: str) -> None:
    """The same node is found below any folder."""
    tree = record_tree("sysfs-6.8", "synthetic-two-sockets")
    found = parse_tarball_sysfs(file_tree(packed(tree, below=below), sysfs_wanted))
    assert found is not None
    assert found.source.format == "sysfs-tarball"
    expected = parse_sysfs(tree)
    assert (found.pci, found.nics, found.gpus) == (expected.pci, expected.nics, expected.gpus)
    assert (found.cpu, found.numa_nodes) == (expected.cpu, expected.numa_nodes)


def test_an_archive_made_in_sys() -> None:
    """The folders below sys are enough."""
    texts = {"devices/system/cpu/online": "0-3", "class/infiniband/m0/ports/1/state": "4: ACTIVE"}
    found = parse_tarball_sysfs(FileTree(texts=texts))
    assert found is not None
    assert found.cpu.cpus == "0-3"
    assert [one.name for one in found.nics] == ["m0"]


def test_a_folder_of_infiniband_alone() -> None:
    """Devices that are archived without the rest are found, also as links alone."""
    files = FileTree(texts={"capture/mlx5_0/ports/1/rate": "100 Gb/sec (4X EDR)"})
    place = "../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/infiniband/mlx5_0"
    links = FileTree(texts={}, links={"infiniband/mlx5_0": place})
    followed = {"x/mlx5_0/device/uevent": "A=1\nPCI_SLOT_NAME=0000:3b:00.0\n"}
    dereferenced = FileTree(texts={**followed, "x/mlx5_0/ports/1/state": "4: ACTIVE"})
    by_files, by_links, by_event = map(parse_tarball_sysfs, (files, links, dereferenced))
    assert by_files is not None
    assert by_files.nics[0].rate_bytes_per_s == 12.5e9
    assert by_links is not None
    assert by_links.nics[0].pci == "0000:3b:00.0"
    assert by_event is not None
    assert by_event.nics[0].pci == "0000:3b:00.0"


def test_more_than_one_machine_is_refused() -> None:
    """An archive of two nodes is an error that names both."""
    path = "sys/devices/system/cpu/online"
    with pytest.raises(ParseError, match="2 machines in the archive: n1/, n2/"):
        parse_tarball_sysfs(FileTree(texts={f"n1/{path}": "0", f"n2/{path}": "0"}))


def test_where_kfd_begins() -> None:
    """The folder that has AMD's nodes is found, and nothing else is one."""
    assert find_kfd(FileTree(texts={"t/topology/nodes/0/properties": ""})) == "t/topology"
    assert find_kfd(FileTree(texts={"nodes/12/gpu_id": ""})) == ""
    assert find_kfd(FileTree(texts={"nodes/x/gpu_id": "", "a": ""})) is None
    assert parse_tarball_sysfs(FileTree(texts={"nodes/0/properties": ""})) is None


@pytest.mark.parametrize("path", corpus_files("*/*.tar.*"))
def test_archives_are_read_as_tar_reads_them(path: Path) -> None:
    """Every archive of the corpus has the files and links that Python's tarfile finds."""
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        files = {
            one.name.removeprefix("./"): archive.extractfile(one) for one in members if one.isreg()
        }
        expected = {name: file.read() for name, file in files.items() if file}
    tree = file_tree(path.read_bytes())
    assert tree.links == {
        one.name.removeprefix("./"): one.linkname for one in members if one.issym()
    }
    assert tree.texts.keys() == expected.keys()
    for name, text in tree.texts.items():
        data = text.encode("utf-8", "surrogateescape")
        assert expected[name][: 256 * 1024].rstrip(b"\0") == data.rstrip(b"\0")


def test_an_archive_and_hwlocs_own_answer() -> None:
    """Packages, cores, NUMA nodes and PCI devices are those that hwloc found in the same tree."""
    name = "hwloc-xml/hwloc-40intel64-2g2n4c+pcilocality"
    found = read(corpus_file(f"{name}.tar.bz2"))
    assert found is not None
    xml = ElementTree.fromstring(corpus_file(f"{name}.xml").read_bytes())  # noqa: S314  a capture
    objects = list(xml.iter("object"))
    by_type = {kind: [one for one in objects if one.get("type") == kind] for kind in
               ("Package", "Core", "NUMANode", "PCIDev", "Bridge", "L3Cache")}  # fmt: skip
    assert found.cpu.cores == len(by_type["Core"])
    assert {(one.index, one.cpus) for one in found.cpu.packages} == {
        (int(one.attrib["os_index"]), index_list(indices_of_mask(one.attrib["cpuset"])))
        for one in by_type["Package"]
    }
    assert {(one.index, one.memory_bytes) for one in found.numa_nodes} == {
        (int(one.attrib["os_index"]), int(one.attrib["local_memory"]))
        for one in by_type["NUMANode"]
    }
    assert {one.cpus for one in found.cpu.l3} == {
        index_list(indices_of_mask(one.attrib["cpuset"])) for one in by_type["L3Cache"]
    }
    told = {
        one.attrib["pci_busid"]: one.attrib["pci_type"]
        for one in [*by_type["PCIDev"], *by_type["Bridge"]]
        if one.get("pci_busid")
    }
    assert told.keys() <= {one.address for one in found.pci}
    for one in found.pci:
        if one.address in told:
            ids = f"{one.class_code:04x} [{one.vendor_id:04x}:{one.device_id:04x}]"
            assert told[one.address].startswith(ids)


def test_memory_of_gpus_on_power() -> None:
    """An archive of a POWER9 has its GPUs' memory as NUMA nodes, and the GPUs on both sockets."""
    found = read(corpus_file("hwloc-xml/hwloc-nvidiagpunumanodes.tar.bz2"))
    assert found is not None
    assert [one.index for one in found.numa_nodes if one.kind is NumaKind.GPU] == [*range(250, 256)]
    assert [one.numa_index for one in found.gpus] == [0, 0, 0, 8, 8, 8]
    assert sorted(one.own_numa_index or 0 for one in found.gpus) == [*range(250, 256)]
    assert (found.cpu.model, found.host.name) == ("POWER9", "c685f8n02")


def test_infiniband_of_an_h100() -> None:
    """An archive of /sys/class/infiniband has eight ports at 400 Gb/s and a bond at 200."""
    found = read(corpus_file("ib-fabric/gpud-sys-class-infiniband-h100.tar.xz"))
    assert found is not None
    assert [one.rate_bytes_per_s for one in found.nics] == [50e9] * 8 + [25e9]
    assert found.nics[-1].bond == "mlx5_bond_0"
    assert {one.state for one in found.nics} == {"ACTIVE"}
