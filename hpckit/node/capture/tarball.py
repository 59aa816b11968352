"""Archives of /sys: read in memory, and nothing is ever written.

Members that are no files, folders or links are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from tarfile import TarInfo
from typing import Final

from hpckit.core.archives import refuse_tar, tar_members
from hpckit.core.file_tree import FileTree
from hpckit.core.late import regex
from hpckit.node.capture.sysfs import placed
from hpckit.node.capture.sysfs_files import parse_sysfs
from hpckit.node.capture.sysfs_net import INFINIBAND
from hpckit.node.topology import NodeTopology

MOST_TEXT_BYTES: Final = 256 * 1024
"""Of one file: /proc/cpuinfo of 512 CPUs is longer, and its head says all that is asked."""

_BELOW_SYS: Final = (
    r"(?:devices/system/(?:cpu|node)|devices/pci[0-9a-f]{4,8}:[0-9a-f]{2}|bus/pci/devices"
    r"|class/(?:infiniband|net|cxi))/"
)
_ROOT: Final = regex(rf"((?:.*?/)??)sys/{_BELOW_SYS}")
_SYS: Final = regex(rf"((?:.*?/)??){_BELOW_SYS}")
_INFINIBAND: Final = regex(r"((?:.*?/)??)[^/]+/ports/\d{1,4}/(?:state|rate|link_layer)", re.ASCII)
_INFINIBAND_LINK: Final = regex(r"(?:.*/)?infiniband/[^/]+")
_KFD: Final = regex(r"((?:.*?/)??)nodes/\d{1,5}/(?:properties|gpu_id)", re.ASCII)


def file_tree(data: bytes, wanted: Callable[[str], bool] = bool) -> FileTree:
    """The texts and links of a tar archive: plain, or compressed with gzip, bzip2 or xz.

    Paths lose a leading slash, as tar(1) takes it away. Of the files those are kept whose path
    `wanted` accepts, each up to 256 KiB, as UTF-8 with what is none kept as surrogates; links are
    kept all, as they are written. Raises ParseError for an archive that is damaged or cut off,
    that names a path with `..`, or is larger than any tree of a node.
    """
    texts: dict[str, str] = {}
    links: dict[str, str] = {}

    def wanted_bytes(member: TarInfo) -> int:
        return MOST_TEXT_BYTES if wanted(_tidy(member.name)) else 0

    for member, content in tar_members(data, wanted_bytes):
        path = _tidy(member.name)
        if member.issym() or member.islnk():
            _link(texts, links, path, member)
        elif member.isreg() and path and wanted(path):
            # Tar fills a file of /sys up with NULs, its size being a whole page.
            kept = content if path.endswith("/config") else content.rstrip(b"\0")
            texts[path] = kept.decode("utf-8", "surrogateescape")
    return FileTree(texts=texts, links=links)


def _link(texts: dict[str, str], links: dict[str, str], path: str, member: TarInfo) -> None:
    """A symbolic link is kept as it is written; a hard one is the file of an earlier member."""
    if member.issym():
        links[path] = member.linkname
    elif (text := texts.get(_tidy(member.linkname))) is not None:
        texts[path] = text


def _tidy(name: str) -> str:
    """A path from the root of the archive; one that would lead out of it is refused."""
    if "/." not in name and "//" not in name and name[:1] not in {"/", "."}:
        parts = [name.rstrip("/")]
    else:
        parts = [part for part in name.split("/") if part not in {"", "."}]
    path = "/".join(parts)
    if ".." in parts:
        raise refuse_tar(
            "a member's path leaves the archive", name=name, expected="paths inside it"
        )
    return path


def parse_tarball_sysfs(tree: FileTree) -> NodeTopology | None:
    """The node whose /sys or /sys/class/infiniband an archive holds; None for neither.

    Takes what hwloc-gather-topology packs, and archives made in /, in /sys or of one folder below.
    Raises ParseError for files that are not in their format, and for more than one machine.
    """
    for pattern, onto in ((_ROOT, ""), (_SYS, "sys/")):
        root = _root(_prefixes(pattern, (*tree.texts, *tree.links)))
        if root is not None:
            return parse_sysfs(placed(tree, root, onto), source_format="sysfs-tarball")
    prefixes = _prefixes(_INFINIBAND, tree.texts)
    if not prefixes:
        links = (path for path, to in tree.links.items() if _INFINIBAND_LINK.fullmatch(to))
        prefixes = {path.rpartition("/")[0].strip("/") + "/" for path in links}
    root = _root(prefixes)
    if root is None:
        return None
    found = placed(tree, root.lstrip("/"), f"{INFINIBAND}/")
    return parse_sysfs(found, source_format="infiniband-tarball")


def find_kfd(tree: FileTree) -> str | None:
    """The folder of the archive that has AMD's `nodes/N/properties` in it: KFD's `topology`.

    "" is the top of the archive. Raises ParseError for the folders of more than one machine.
    """
    root = _root(_prefixes(_KFD, tree.texts))
    return None if root is None else root.rstrip("/")


def _prefixes(pattern: re.Pattern[str], paths: Iterable[str]) -> set[str]:
    return {match[1] for path in paths if (match := pattern.match(path))}


def _root(prefixes: set[str]) -> str | None:
    if not prefixes:
        return None
    least = min(prefix.count("/") for prefix in prefixes)
    nearest = sorted(prefix for prefix in prefixes if prefix.count("/") == least)
    if len(nearest) > 1:
        message = f"{len(nearest)} machines in the archive: {', '.join(nearest)}"[:200]
        raise refuse_tar(message, expected="the tree of one node")
    return nearest[0]
