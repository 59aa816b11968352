"""Any tree, and any bytes, give a node or a ParseError that shows where."""

from __future__ import annotations

import gzip

from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.errors import InvalidValue, ParseError
from hpckit.core.file_tree import FileTree
from hpckit.node.capture.sysfs_files import parse_sysfs, sysfs_wanted
from hpckit.node.capture.tarball import file_tree, find_kfd, parse_tarball_sysfs
from tests.fakes.sysfs_records import packed, record_tree

RECORDS = (
    record_tree("sysfs-6.8", "synthetic-two-sockets"),
    record_tree("sysfs-6.8", "synthetic-cloud-guest"),
    record_tree("sysfs-6.8", "synthetic-grace"),
    record_tree("sysfs-2.6.32", "synthetic-config-only"),
)
ARCHIVES = tuple(packed(tree, mode=mode) for tree in RECORDS for mode in ("w", "w:xz"))

odd_texts = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        ["-1", "", "\0\0", "9" * 5000, "0-65535", "0-65536", "0-3:1/0", "٣", "\x1b[4m0"]
    ),
    st.integers().map(str),
)
odd_targets = st.one_of(
    st.text(max_size=30),
    st.sampled_from([".", "..", "/", "../../../..", "../" * 200 + "x", "/sys/class/net"]),
)
names = st.one_of(
    st.sampled_from(["sys", "class", "net", "infiniband", "devices", "pci0000:00", "0000:01:00.0"]),
    st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=12),
)
paths = st.lists(names, min_size=1, max_size=9).map("/".join)


def tried(tree: FileTree) -> None:
    """Read a tree; a ParseError must show a line with a caret below it."""
    for parse in (parse_sysfs, parse_tarball_sysfs, find_kfd):
        try:
            parse(tree)
        except ParseError as error:
            assert str(error).endswith("^")
            assert len(error.line) <= 100
        except InvalidValue:  # no node can be so: app.captured says it as a ParseError
            continue


@given(st.dictionaries(paths, odd_texts, max_size=12), st.dictionaries(paths, odd_targets))
def test_any_tree(texts: dict[str, str], links: dict[str, str]) -> None:
    """Whatever files and links there are, nothing else is raised."""
    tried(FileTree(texts=texts, links=links))


@given(st.sampled_from(RECORDS), st.data())
def test_any_change_of_a_tree(record: FileTree, data: st.DataObject) -> None:
    """A record whose files and links hold something else is a node or an error."""
    texts = dict(record.texts)
    links = dict(record.links)
    texts["sys/class/net/\udcff/device/x"] = ""
    for path in data.draw(st.lists(st.sampled_from(sorted(texts)), max_size=4)):
        texts[path] = data.draw(odd_texts)
    for path in data.draw(st.lists(st.sampled_from(sorted(links or texts)), max_size=4)):
        links[path] = data.draw(odd_targets)
    tried(FileTree(texts=texts, links=links))


@given(st.binary(max_size=3000))
def test_any_bytes(data: bytes) -> None:
    """Bytes, also behind a magic number, are an archive or an error."""
    for one in (data, gzip.compress(data), b"BZh9" + data, b"\xfd7zXZ\0" + data):
        try:
            tried(file_tree(one, sysfs_wanted))
        except ParseError as error:
            assert str(error).endswith("^")


@given(st.sampled_from(ARCHIVES), st.data())
def test_any_change_of_an_archive(archive: bytes, data: st.DataObject) -> None:
    """An archive with other bytes at any place is read or refused."""
    changed = bytearray(archive)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at : at + 1] = data.draw(st.binary(max_size=4))
    try:
        tried(file_tree(bytes(changed), sysfs_wanted))
    except ParseError as error:
        assert str(error).endswith("^")


@given(
    st.dictionaries(
        paths.filter(lambda path: not {"", ".", ".."} & set(path.split("/")) and "\0" not in path),
        st.text(max_size=80).map(lambda text: text.rstrip("\0")),
        max_size=8,
    ),
    st.sampled_from(["w", "w:gz", "w:bz2", "w:xz"]),
)
def test_an_archive_holds_what_was_packed(texts: dict[str, str], mode: str) -> None:
    """unpack(pack(tree)) is the tree, whatever the names and texts are."""
    assert file_tree(packed(FileTree(texts=texts), mode=mode)).texts == texts
