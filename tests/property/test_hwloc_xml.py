"""hwloc's XML: any document gives a topology or a ParseError, also one that was tampered with."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from hpckit.core.errors import InvalidValue, ParseError
from hpckit.core.foreign_text import parse_xml
from hpckit.node.capture.hwloc import parse_hwloc_xml
from hpckit.node.topology import NodeTopology

RECORDS = Path(__file__).resolve().parents[1] / "records"
DOCUMENTS = [
    (RECORDS / tool / "synthetic-two-gpus" / "topology.xml").read_text()
    for tool in ("hwloc-1.x", "hwloc-2.9.0", "hwloc-3.0")
]
TYPES = [
    *("Machine", "System", "Package", "Socket", "NUMANode", "Group", "Cache", "L3Cache", "Core"),
    *("PU", "Bridge", "PCIDev", "OSDev", "Misc", "MemCache", "Toaster"),
]
WORDS = [
    *("", "0", "1", "-1", "0x1", "0xff,,0x0", "0xf...f", "4294967295", "9" * 400, "9" * 5000),
    *("0000:10:00.0", "0000:[10-1f]", "0-1", "1-1", "0302 [10de:2330] [0000:0000] a1", "nvml0"),
    *("mlx5_0", "1.5", "nan", "inf", "1e999", "٣", "²", "\t", "os", "gp", "NUMALatency", "3.0"),
    *("OSDev:1 OSDev:2", "0 1", "NVLinkBandwidth", "XGMIBandwidth", "GPUMemory", "KiB", "0x" * 90),
]
ATTRIBUTES = [
    *("os_index", "gp_index", "id", "name", "subtype", "cpuset", "nodeset", "allowed_cpuset"),
    *("depth", "cache_type", "cache_size", "local_memory", "bridge_type", "bridge_pci"),
    *("pci_busid", "pci_type", "pci_link_speed", "osdev_type"),
]
INFOS = ["PCIBusID", "Port1State", "Port1LID", "CUDAGlobalMemorySize", "XGMIPeers", "AMDUUID"]

words = st.sampled_from(WORDS) | st.text(st.characters(codec="utf-8", exclude_categories=["C"]))
infos = st.builds(
    lambda name, value: ("info", {"name": name, "value": value}, ()),
    st.sampled_from(INFOS),
    words,
)
objects = st.recursive(
    infos,
    lambda inner: st.builds(
        lambda kind, attributes, within: ("object", {"type": kind, **attributes}, within),
        st.sampled_from(TYPES),
        st.dictionaries(st.sampled_from(ATTRIBUTES), words, max_size=4),
        st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)
Tree = tuple[str, dict[str, str], list["Tree"]]


def escaped(text: str) -> str:
    """Text for an attribute."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def written(tree: Tree) -> str:
    """A tree as XML."""
    tag, attributes, within = tree
    says = "".join(f' {name}="{escaped(value)}"' for name, value in attributes.items())
    return f"<{tag}{says}>{''.join(written(one) for one in within)}</{tag}>"


def answer(text: str) -> NodeTopology | ParseError | InvalidValue:
    """What comes of a document; anything else fails the test."""
    try:
        return parse_hwloc_xml(parse_xml(text.encode("utf-8", "surrogatepass"), "hwloc"))
    except (ParseError, InvalidValue) as error:  # app.captured says either as a ParseError
        return error


@given(st.text())
@example("<topology>")
@example('<topology version="2.0"><object type="Machine"/></topology>')
def test_any_text(text: str) -> None:
    """Any text is a topology or refused."""
    assert answer(text) is not None


@given(st.lists(objects, max_size=5), st.sampled_from([None, "2.0", "3.0"]))
def test_any_objects(within: list[Tree], version: str | None) -> None:
    """Any tree of objects below a Machine is a topology or refused."""
    says = {} if version is None else {"version": version}
    machine: Tree = ("object", {"type": "Machine", "cpuset": "0xf", "nodeset": "0x1"}, within)
    assert answer(written(("topology", says, [machine]))) is not None


@given(st.sampled_from(DOCUMENTS), st.data())
def test_changed_attributes(text: str, data: st.DataObject) -> None:
    """A file with some attributes changed or taken out is a topology or refused."""
    found = list(re.finditer(r' ([a-z_]+)="([^"]*)"', text))
    for match in data.draw(st.lists(st.sampled_from(found), min_size=1, max_size=4)):
        value = data.draw(st.none() | words)
        new = "" if value is None else f' {match[1]}="{escaped(value)}"'
        text = text.replace(match[0], new, data.draw(st.sampled_from([1, -1])))
    assert answer(text) is not None


@given(st.sampled_from(DOCUMENTS), st.data())
def test_removed_lines(text: str, data: st.DataObject) -> None:
    """A file with objects or infos taken out is a topology or refused."""
    lines = text.splitlines(keepends=True)
    drop = data.draw(st.sets(st.integers(0, len(lines) - 1), max_size=6))
    assert answer("".join(line for at, line in enumerate(lines) if at not in drop)) is not None


@given(st.sampled_from(DOCUMENTS[1:]), st.data())
def test_changed_text(text: str, data: st.DataObject) -> None:
    """A file whose matrices hold something else is a topology or refused."""
    match = data.draw(st.sampled_from(list(re.finditer(r">([^<\n]+)<", text))))
    new = f">{escaped(data.draw(words))}<"
    assert answer(text[: match.start()] + new + text[match.end() :]) is not None
