"""hpckit's own snapshot of a node: the document that `hpckit inspect --json` prints.

What the findings are follows from the topology and from this release's rules, so those of the
document are not read back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hpckit.core.document import convert
from hpckit.core.errors import ConfigError, InvalidValue, ParseError
from hpckit.core.excerpt import refusal, refuse_node, refuse_text
from hpckit.core.foreign_text import json_objects, parse_xml
from hpckit.core.late import Late, regex
from hpckit.core.values import dataclass
from hpckit.node.merge import complete, merge
from hpckit.node.probe import LONGEST_ANSWER_BYTES
from hpckit.node.topology import TOPOLOGY_SCHEMA, NodeTopology

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = Late("msgspec")

TOOL = "topology snapshot"
_SHOWN_BYTES = 200
_BESIDE = ("schema", "hpckit", "findings")


def is_snapshot(text: str) -> bool:
    """Whether a text is one JSON object that names a schema of hpckit."""
    head = text.lstrip()[:400]
    return head.startswith("{") and '"hpckit.' in head and '"schema"' in head


def parse_snapshot(text: str) -> NodeTopology:
    """The topology in a snapshot, exactly as it was written.

    Raises ParseError for what is not JSON, another schema, unknown keys and wrong types.
    """
    documents = json_objects(text, TOOL)
    if len(documents) != 1:
        raise documents[1].refuse("", f"{len(documents)} objects", "a single topology snapshot")
    document = documents[0]
    schema = document.tree.get("schema")
    if schema != TOPOLOGY_SCHEMA:
        raise document.refuse("schema", f"got {schema!r}", f'"{TOPOLOGY_SCHEMA}"')
    body = {key: value for key, value in document.tree.items() if key not in _BESIDE}
    try:
        return convert(body, NodeTopology, TOOL)
    except ConfigError as error:
        expected = "the keys in docs/reference/json.md"
        raise document.refuse(error.key or "", error.reason, expected) from error
    except RecursionError:
        raise document.refuse("", "nested too deeply", "a topology snapshot") from None


def decode_snapshot(data: bytes) -> NodeTopology:
    """The topology in a snapshot that a probe of this release sent a moment ago.

    Raises ParseError. Ten times as fast as `parse_snapshot`, and an unknown key is not noticed.
    """
    try:
        return msgspec.json.decode(data, type=NodeTopology)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _refused(data, str(error), "a topology snapshot") from error


def _refused(data: bytes, message: str, expected: str) -> ParseError:
    line = data[:_SHOWN_BYTES].decode("utf-8", "replace").split("\n", 1)[0]
    return refusal(message, tool=TOOL, line_no=1, line=line, expected=expected)


def read_snapshot(data: bytes) -> NodeTopology:
    """The topology in a snapshot that a probe of any release wrote to a file.

    Raises ParseError. As fast as `decode_snapshot`; it says which schema another document has.
    """
    try:
        schema = msgspec.json.decode(data, type=_Schema).schema
    except (msgspec.MsgspecError, ValueError, RecursionError):
        schema = None
    if schema != TOPOLOGY_SCHEMA:
        raise _refused(data, f"got schema {schema!r}", f'"{TOPOLOGY_SCHEMA}"')
    return decode_snapshot(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Schema:
    schema: str | None = None


# Archives are read in hpckit.node.capture.tarball.
EXPECTED: Final = "one of the captures that `hpckit inspect --help` lists"
MOST_BYTES: Final = 8 * 1024**2
"""Of a text: what a node prints is a hundredth of that. XML has a limit of its own."""

_HEAD_BYTES: Final = 2000
_LSPCI: Final = regex(
    r"(?m)^[> ]{0,40}(?:-[+\\]?-?\[[0-9a-f]{4,8}:[0-9a-f]{2}\]-"
    r"|(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7][ -])"
)
"""A line of `lspci`, or the root of the tree that `lspci -t` draws."""

_FABRIC: Final = regex(r"(?m)^(?:(?:SwitchName|BlockName)=|vendid=|Switch[ \t]+\d+[ \t]+\")")
"""A line of topology.conf or of ibnetdiscover."""

_INSTEAD_OF_LSPCI: Final = (
    "`hpckit inspect --json` from the node, lstopo's XML or a tarball of hwloc-gather-topology,"
    " which contain what lspci prints"
)
_XML_STARTS: Final = ("<?xml", "<!DOCTYPE", "<system", "<topology", "<graphs", "<!--")


def parse_capture(data: bytes, name: str) -> tuple[NodeTopology, ...]:
    """The machines in a capture, at least one; only a text can hold several.

    `name` is how errors call it. Raises ParseError for what is no capture of a machine.
    """
    head = _text(data[:_HEAD_BYTES], name)
    most = LONGEST_ANSWER_BYTES if is_snapshot(head) else MOST_BYTES
    if len(data) > most and not head.lstrip().startswith("<"):
        message, expected = f"the file has {len(data)} bytes", f"a capture of up to {most} bytes"
        raise refusal(message, tool=name, line_no=1, line=head.split("\n")[0], expected=expected)
    text = _text(data, name)
    if text.lstrip().startswith(_XML_STARTS):
        return (_parse_xml(data, name),)
    if is_snapshot(text):
        return (parse_snapshot(text),)
    return _parse_text(text, name)


# What reads a format is imported when a capture is in it, or may be.
def _parse_text(text: str, name: str) -> tuple[NodeTopology, ...]:
    from hpckit.node.capture.amd_smi import is_amd_smi_topology, parse_amd_smi_topology
    from hpckit.node.capture.nvidia_smi import is_topo_matrix, parse_topo_matrix
    from hpckit.node.capture.rocm_smi import is_rocm_showtopo, parse_rocm_showtopo

    if is_topo_matrix(text):
        return parse_topo_matrix(text)
    if is_amd_smi_topology(text):
        return (parse_amd_smi_topology(text),)
    if is_rocm_showtopo(text):
        return (parse_rocm_showtopo(text),)
    raise _unknown(name, text)


def _parse_xml(data: bytes, name: str) -> NodeTopology:
    from hpckit.node.capture.hwloc import is_hwloc_xml, parse_hwloc_xml
    from hpckit.node.capture.nccl_xml import is_nccl_xml, parse_nccl_xml

    document = parse_xml(data, name)
    if is_nccl_xml(document):
        return parse_nccl_xml(document)
    if is_hwloc_xml(document):
        return parse_hwloc_xml(document)
    raise document.refuse(
        document.root,
        f"<{document.root.tag}> is not a topology",
        "<system> as NCCL and RCCL write it, or <topology> as lstopo does",
    )


def _text(data: bytes, name: str) -> str:
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = data.decode(encoding, "replace")
    if "\0" in text[:1000]:
        raise _unknown(name, text)
    return text


def _unknown(name: str, text: str) -> ParseError:
    message, expected = "unknown capture format", EXPECTED
    if not text.strip():
        message = "the file is empty"
    elif "hpckit.job/" in text[:1000]:
        message, expected = "is a job file, not a capture of a machine", f"hpckit check {name}"
    elif _FABRIC.search(text):
        message, expected = "is a network, not a machine", f"hpckit fabric show {name}"
    elif _LSPCI.search(text):
        message, expected = "lspci output is not supported", _INSTEAD_OF_LSPCI
    return refuse_text(message, tool=name, lines=text.split("\n"), expected=expected)


def inspect_capture(data: bytes, name: str) -> tuple[NodeTopology, ...]:
    """The machines in a capture, at least one; only a text can hold several.

    A text may be compressed with gzip, bzip2 or xz, as an archive may. `name` is how errors call
    it. Raises ParseError for what is no capture of a machine.
    """
    text, is_archive = None, False
    if not data.startswith((b"{", b"<")):  # neither JSON nor XML
        from hpckit.core.archives import compressed_text, looks_like_tar

        text = compressed_text(data)
        is_archive = text is None and looks_like_tar(data)
    try:
        machines = (_archived(data, name),) if is_archive else parse_capture(text or data, name)
        return tuple(complete(machine) for machine in machines)
    except ParseError as error:
        if not error.message.startswith(name):
            error.message = f"{name}: {error.message}"
        raise
    except InvalidValue as error:
        raise refuse_node(error, name) from error


def _archived(data: bytes, name: str) -> NodeTopology:
    from hpckit.node.capture.kfd import is_kfd_file, parse_kfd
    from hpckit.node.capture.sysfs_files import sysfs_wanted
    from hpckit.node.capture.tarball import file_tree, find_kfd, parse_tarball_sysfs

    tree = file_tree(data, lambda path: sysfs_wanted(path) or is_kfd_file(path))
    system, kfd = parse_tarball_sysfs(tree), find_kfd(tree)
    if kfd is None:
        if system is None:
            raise ParseError(
                "no machine in this archive"
                if tree.texts or not tree.links
                else "this archive has only links, as in /sys/class, not the files",
                tool=name, line_no=1, line=", ".join(sorted(tree.texts)[:3]), expected=EXPECTED,
            )  # fmt: skip
        return system
    gpus = parse_kfd(tree, kfd)
    return gpus if system is None else merge(system, gpus)
