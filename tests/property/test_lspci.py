"""`lspci`: any text gives a node or a ParseError, and the tree is what was printed."""

from __future__ import annotations

from contextlib import suppress
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.decide.complete import complete
from hpckit.errors import ParseError
from hpckit.model.hardware import NodeTopology
from hpckit.parse.lspci import is_lspci, parse_lspci
from tests.pace import slowness
from tests.unit.parse.slurm_records import record_text

CASES = ["synthetic-vvv", "synthetic-v", "synthetic-tree", "synthetic-flat"]
TEXTS = [record_text("lspci-3.9", case) for case in CASES]
PIECES = [
    *("00:00.0 ", "01:00.0 ", "10000:e0:01.0 ", "PCI bridge: ", "3D controller [0302]: ", "0302: "),
    *(
        "NVIDIA Corporation Device 2330",
        "10de:2330",
        "[10de:2330]",
        " (rev a1)",
        "Device",
        "[",
        "]",
    ),
    *("\n\tBus: primary=00, secondary=01, subordinate=ff", "\n\tNUMA node: ", "\n\tLnkSta: Speed "),
    *(
        "\n\tInitial VFs: 1, Number of VFs: 65535",
        "\n\tVF offset: 1, stride: 1",
        "9" * 5000,
        "16GT/s",
    ),
    *(
        "-[0000:00]-",
        "-+-",
        "+-",
        "\\-",
        "--",
        " |  ",
        "00.0",
        "01.0",
        "-[01]-",
        "-[01-ff]-",
        "  x",
    ),
    *("\n", "\r\n", "\n\n", "\t", " ", "> ", "\x1b[31m", "\x00", "\u0663", "\u2500", "├─"),
]


def readable(text: str) -> NodeTopology | None:
    """What is read of a text, if it is one of lspci."""
    is_lspci(text)
    with suppress(ParseError):
        return parse_lspci(text)
    return None


def check(node: NodeTopology) -> None:
    """What holds for every node: each device once, after its parent."""
    seen = set()
    for device in node.pci:
        assert device.address not in seen
        assert device.parent is None or device.parent in seen
        seen.add(device.address)
    complete(node)


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text())
def test_any_text_is_a_node_or_refused(text: str) -> None:
    """Nothing else comes of it."""
    node = readable(text)
    if node is not None:
        check(node)


@given(st.data())
def test_a_damaged_output_is_a_node_or_refused(data: st.DataObject) -> None:
    """Cut, doubled and garbled pieces make no error of another kind and no impossible tree."""
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 3))):
        start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        piece = data.draw(st.sampled_from([*PIECES, text[start:end], ""]))
        text = text[:start] + piece + text[end if data.draw(st.booleans()) else start :]
    node = readable(text)
    if node is not None:
        check(node)


trees: st.SearchStrategy[list[object]] = st.recursive(
    st.just([]), lambda below: st.lists(below, min_size=1, max_size=4), max_leaves=20
)


@given(trees)
def test_the_bus_numbers_give_the_tree_back(tree: list[object]) -> None:
    """A tree whose bridges are listed with their buses is that tree."""
    lines: list[str] = []
    expected: dict[str, str | None] = {}

    def list_bus(children: list[object], bus: int, parent: str | None) -> int:
        """The last bus that is used below one."""
        last = bus
        for slot, child in enumerate(children):
            address = f"0000:{bus:02x}:{slot:02x}.0"
            expected[address] = parent
            at = len(lines)
            lines.append("")
            first = last + 1
            assert isinstance(child, list)
            last = list_bus(child, first, address)
            lines[at] = (
                f"{address} PCI bridge: x\n"
                f"\tBus: primary={bus:02x}, secondary={first:02x}, subordinate={last:02x}\n"
            )
        return last

    list_bus([tree], 0, None)
    node = parse_lspci("\n".join(lines))
    assert {one.address: one.parent for one in node.pci} == expected
    assert {one.host_bridge for one in node.pci} == {"pci0000:00"}


@pytest.mark.parametrize(
    "text",
    [
        "00:00.0 Bridge: " + "[10de:2330" * 100_000,
        "00:00.0 Bridge: x\n\tSubsystem: " + "Subsystem: [" * 100_000,
        "-[0000:00]" + "-" * 1_000_000,
        "-[0000:00]-" + "+-00.0-[01]-" * 100_000,
        " |" * 500_000,
        ">" * 1_000_000,
        "00:00.0 Bridge: x\n\tInitial VFs: 1, Number of VFs: 65535\n\tVF offset: 1, stride: 1\n"
        * 10_000,
    ],
    ids=["ids", "subsystems", "dashes", "bridges", "bars", "quotes", "devices"],
)
def test_long_lines_take_no_long_time(text: str) -> None:
    """A million characters are read or refused in seconds."""
    start_s = process_time()
    readable(text)
    assert process_time() - start_s < 5 * slowness()
