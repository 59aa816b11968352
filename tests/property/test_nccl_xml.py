"""NCCL's topology files: any text gives a topology or a ParseError, and a topology can be used."""

from __future__ import annotations

import re
from pathlib import Path
from xml.sax.saxutils import quoteattr

from hypothesis import example, given
from hypothesis import strategies as st

from hpckit.core.errors import InvalidValue, ParseError
from hpckit.core.foreign_text import parse_xml
from hpckit.node.capture.nccl_xml import parse_nccl_xml
from hpckit.node.paths import with_paths
from hpckit.node.topology import NodeTopology

RECORDS = Path(__file__).parents[1] / "records"
TEXTS = [path.read_text("utf-8") for path in sorted(RECORDS.glob("nccl-topo-xml-*/*/topo.xml"))]
VALUE = re.compile(r'="([^"]*)"')

TAGS = ["cpu", "pci", "gpu", "nic", "net", "nvlink", "xgmi", "c2c", "pcilink", "other"]
VALUES = {
    "numaid": ["0", "1", "-1", "65536", "0x1", ""],
    "affinity": ["00000000,ffffffff", "f", "", ",", "0xf...f", "zz", "ffff," * 300],
    "busid": ["0000:01:00.0", "0000:02:00.0", "10000:01:00.1", "ffff:ff:1f.7", "01:00", "", "x"],
    "class": ["0x030200", "0x020700", "0x060400", "0x120000", "0x03", "0x", "30200"],
    "vendor": ["0x10de", "0x1002", "0xffff", "0", "-1"],
    "link_speed": ["16.0 GT/s PCIe", "8 GT/s", "", "Unknown speed", "0 GT/s", "1e9 GT/s", "9" * 50],
    "link_width": ["16", "0", "255", "33", "٣"],
    "dev": ["0", "1", "-1", "99999999999999999999", "0x2"],
    "sm": ["90", "0", "-5", "a"],
    "gcn": ["910", "gfx942", "gfx", "21943", ":"],
    "name": ["mlx5_0", "eth0", "ä", "a&b", " ", "cxi0"],
    "speed": ["200000", "-1", "1" * 18, "0.5"],
    "count": ["4", "0", "256", "257", ""],
    "target": ["0000:01:00.0", "0000:02:00.0", "fffffff:ffff:ff", "x", ""],
    "tclass": ["0x068000", "0x030200", "0x068001", ""],
    "bw": ["44712", "-1", "9" * 17],
    "host_hash": ["0x1", "0x2"],
    "mlopart": ["0", "1", "-1"],
    "gdr": ["0", "1", "2", "yes"],
    "port": ["1", "2", "300"],
}
NEEDED = {
    "cpu": ["numaid"],
    "pci": ["busid"],
    "net": ["name"],
    "nvlink": ["target", "count", "tclass"],
    "xgmi": ["target", "count", "tclass"],
    "c2c": ["bw", "count"],
}
BELOW = {
    "system": ["cpu"],
    "cpu": ["pci", "nic"],
    "pci": ["pci", "gpu", "nic"],
    "gpu": ["nvlink", "xgmi", "c2c"],
    "nic": ["net"],
}


@st.composite
def elements(draw: st.DrawFn, tag: str, depth: int = 4) -> str:
    """An element that is mostly in its place, with values that are mostly of the format."""
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=4, unique=True))
    names = list(dict.fromkeys([*NEEDED.get(tag, []), *names]))
    values = {
        name: draw(
            st.sampled_from(VALUES[name]) if draw(st.booleans()) else st.just(VALUES[name][0])
        )
        for name in names
    }
    if tag == "system":
        values["version"] = draw(st.sampled_from(["1", "2", "1", "2", "3"]))
    children = []
    if depth > 0:
        places = st.sampled_from(BELOW.get(tag) or ["other"])
        for child in draw(st.lists(places, max_size=3)):
            odd = draw(st.integers(0, 30)) == 0
            children.append(
                draw(elements(draw(st.sampled_from(TAGS)) if odd else child, depth - 1))
            )
    attributes = "".join(f" {name}={quoteattr(value)}" for name, value in values.items())
    return f"<{tag}{attributes}>{''.join(children)}</{tag}>"


def _read(text: str) -> NodeTopology | None:
    try:
        return parse_nccl_xml(parse_xml(text.encode("utf-8", "surrogatepass"), "topo.xml"))
    except ParseError as error:
        assert error.line_no >= 1
        assert "^" in str(error)
        return None
    except InvalidValue:  # no node can be so: app.captured says it as a ParseError
        return None


def _use(topology: NodeTopology) -> None:
    """Indices and addresses are unique, and paths are found."""
    for items in (topology.gpus, topology.nics):
        indices = [item.index for item in items]
        assert len(set(indices)) == len(indices)
    addresses = [device.address for device in topology.pci]
    assert len(set(addresses)) == len(addresses)
    paths = with_paths(topology).paths
    if paths is not None:
        size = len(paths.devices)
        assert [len(row) for row in (*paths.cells, *paths.nccl)] == [size] * (2 * size)


@given(elements("system"))
def test_any_document_is_a_topology_or_an_error(text: str) -> None:
    """Elements in any order with any values are read or refused, and what is read can be used."""
    topology = _read(text)
    if topology is not None:
        _use(topology)


@given(st.data())
def test_a_changed_attribute_is_read_or_refused(data: st.DataObject) -> None:
    """One value of a good file changed to any text gives a topology or a ParseError."""
    text = data.draw(st.sampled_from(TEXTS))
    spans = [match.span(1) for match in VALUE.finditer(text)]
    start, end = data.draw(st.sampled_from(spans))
    odd = st.sampled_from(sorted({value for values in VALUES.values() for value in values}))
    value = data.draw(st.text(max_size=12) | odd)
    topology = _read(text[:start] + quoteattr(value)[1:-1].replace('"', "") + text[end:])
    if topology is not None:
        _use(topology)


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
@example("<system version='1'><cpu numaid='0'/></system>\x00")
@example('<!DOCTYPE s [<!ENTITY a "aaaa">]><system version="&a;"/>')
@example("\ufeff<system/>")
def test_any_text_is_a_topology_or_an_error(text: str) -> None:
    """Text of any kind gives a topology or a ParseError with its line and a caret."""
    _read(text)
