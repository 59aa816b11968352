"""`ibnetdiscover`: switches, cables, and where nodes hang."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ParseError
from hpckit.fabric.ibnetdiscover import described, link_bytes_per_s, parse_ibnetdiscover
from hpckit.fabric.topology import ClusterTopology, EndKind, HostPort
from tests.fakes.slurm_records import record_text
from tests.ib_fabrics import leaf, two_tier

VERSION = "ibnetdiscover-rdma-core-50"
CASES = ["synthetic-two-rails", "synthetic-grouped"]


def record(case: str) -> ClusterTopology:
    """The fabric of a record."""
    return parse_ibnetdiscover(record_text(VERSION, case))


def port(fabric: ClusterTopology, switch: str, at: int) -> HostPort:
    """What hangs on one port of a switch."""
    return next(one for one in fabric.ports if (one.switch, one.switch_port) == (switch, at))


@pytest.mark.parametrize(
    ("case", "model", "names"),
    [
        ("synthetic-two-rails", "", ["leaf-1", "S-0000000000000020", "spine"]),
        ("synthetic-two-rails", "spine", ["leaf-1", "S-0000000000000020", "S-0000000000000030"]),
        ("synthetic-grouped", "", ["director/S01/U1", "director/L01/U1"]),
    ],
    ids=["a model's words", "a name twice", "a director's chips"],
)
def test_a_switch_is_called_by_its_description_where_that_names_it(
    case: str, model: str, names: list[str]
) -> None:
    """Else by its place in a box, or by its GUID."""
    text = record_text(VERSION, case)
    text = text.replace("Quantum-2 Mellanox Technologies", model) if model else text
    assert [switch.name for switch in parse_ibnetdiscover(text).switches] == names


def test_leaves_are_level_0_and_each_cable_is_there_once() -> None:
    """Both ends list a cable; the lower switch is first."""
    fabric = record("synthetic-two-rails")
    assert [switch.level for switch in fabric.switches] == [0, 0, 1]
    assert [(link.lower, link.upper, len(link.cables or ())) for link in fabric.links] == [
        ("leaf-1", "spine", 2),
        ("S-0000000000000020", "spine", 1),
    ]


def test_a_cable_has_the_ports_and_the_rate_of_the_end_that_knows_it() -> None:
    """A rate that one end calls ??? is known from the other."""
    cables = record("synthetic-two-rails").links[0].cables or ()
    assert [(one.lower_port, one.upper_port) for one in cables] == [(33, 1), (34, 2)]
    assert [(one.speed, one.bytes_per_s) for one in cables] == [("4xNDR", 50e9)] * 2


def test_full_information_may_end_in_the_extended_speed() -> None:
    """`ibnetdiscover --full` adds `e=` to links of FDR and faster."""
    text = record_text(VERSION, "synthetic-grouped")
    assert parse_ibnetdiscover(text.replace(" v=4", " v=4 e=4")) == parse_ibnetdiscover(text)


def test_ends_are_told_by_their_descriptions() -> None:
    """A node with its NIC, firmware's words, a switch's own node, a router."""
    fabric = record("synthetic-two-rails")
    assert (port(fabric, "leaf-1", 2).node, port(fabric, "leaf-1", 2).nic) == ("n2", "HCA-1")
    kinds = [port(fabric, "leaf-1", at).kind for at in (1, 3, 4, 65)]
    wanted = [EndKind.COMPUTE, EndKind.ANONYMOUS, EndKind.OTHER, EndKind.AGGREGATION]
    assert kinds == wanted
    assert port(fabric, "leaf-1", 4).description == "gateway 1 to the west"
    assert fabric.nodes == ("n1", "n2")


def test_an_adapters_ports_are_known_as_its() -> None:
    """Two ports of one device are numbered; two devices of one card share its system GUID."""
    fabric = record("synthetic-two-rails")
    first, second = port(fabric, "leaf-1", 1), port(fabric, "S-0000000000000020", 1)
    assert (first.nic_port, second.nic_port) == (1, 2)
    assert first.guid == second.guid
    pair = port(fabric, "leaf-1", 2), port(fabric, "S-0000000000000020", 2)
    assert {one.adapter for one in pair} == {"0x00000000000000b1"}
    assert {one.nic_port for one in pair} == {None}


def test_the_system_of_a_device_whose_line_is_gone_is_no_other_ones() -> None:
    """A block that was cut off before its device says nothing of the device behind it."""
    text = record_text(VERSION, "synthetic-two-rails")
    cut = "vendid=0x2c9\ndevid=0x1021\nsysimgguid=0xdead\nvendid=0x2c9\ndevid=0x1021\ncaguid"
    text = text.replace("vendid=0x2c9\ndevid=0x1021\nsysimgguid=0xa1\ncaguid", cut)
    assert port(parse_ibnetdiscover(text), "leaf-1", 1).adapter is None


def test_the_grouped_and_full_form_is_read_too() -> None:
    """Chassis lines, external ports and numbers behind the rate change nothing."""
    fabric = record("synthetic-grouped")
    (cable,) = fabric.links[0].cables or ()
    assert (cable.lower_port, cable.upper_port, cable.speed) == (19, 1, "4xQDR")
    assert cable.bytes_per_s == 4e9
    assert fabric.ports[0].bytes_per_s == 5e9


@pytest.mark.parametrize("case", CASES)
def test_a_text_that_was_pasted_is_read_as_the_same(case: str) -> None:
    """Marks of quotation and carriage returns are no part of it."""
    text = record_text(VERSION, case)
    quoted = "".join(f"> {line}\r\n" for line in text.splitlines())
    assert parse_ibnetdiscover(quoted) == record(case)


def test_ids_may_be_short_or_in_capitals() -> None:
    """As in a text that somebody wrote; ibnetdiscover prints 16 digits in small letters."""
    text = record_text(VERSION, "synthetic-two-rails")
    short = text.replace('-00000000000000a1"', '-A1"').replace("-0000000000", "-00")
    assert parse_ibnetdiscover(short) == parse_ibnetdiscover(text)


def test_a_description_may_hold_quotation_marks() -> None:
    """It ends at the last one of its line."""
    text = record_text(VERSION, "synthetic-two-rails").replace("gateway 1", '"gateway" "1" lid')
    fabric = parse_ibnetdiscover(text)
    assert port(fabric, "leaf-1", 4).description == '"gateway" "1" lid to the west'


def test_a_manager_on_a_spine_makes_it_no_leaf() -> None:
    """Its neighbours have many more nodes."""
    made = two_tier()
    made.host("ufm", "mlx5_0", "spine-01")
    made.host("ufm2", "mlx5_0", "spine-02")
    levels = {switch.name: switch.level for switch in made.topology().switches}
    assert {levels["spine-01"], levels["spine-02"]} == {1}


def test_a_leaf_whose_nodes_are_away_stays_a_leaf() -> None:
    """It is cabled as the other leaves are."""
    made = two_tier()
    made.hcas = [one for one in made.hcas if one.switch != "leaf-01-01"]
    levels = {switch.name: switch.level for switch in made.topology().switches}
    assert levels["leaf-01-01"] == 0
    assert levels["spine-01"] == 1


@pytest.mark.parametrize("text", ["", "#\n", "vendid=0x1\n", '[1]\t"S-1"[2]\n'])
def test_a_text_without_a_switch_is_refused(text: str) -> None:
    """Nothing is made of nothing."""
    with pytest.raises(ParseError):
        parse_ibnetdiscover(text)


def test_cores_of_one_pod_are_no_empty_leaves() -> None:
    """All leaves lead to both spines, and so do both cores: too many to be leaves without nodes."""
    made = two_tier(1, 4, 3, 2, 1)
    for core in ("core-1", "core-2"):
        made.switches.append(core)
        for spine in ("spine-01", "spine-02"):
            made.wire(spine, core)
    levels = {switch.name: switch.level for switch in made.topology().switches}
    assert (levels["core-1"], levels["spine-01"], levels["leaf-01-01"]) == (2, 1, 0)


def test_leaves_that_are_cabled_to_each_other_are_all_leaves() -> None:
    """A chain of switches has no spine."""
    made = two_tier(1, 4, 3, 0)
    made.hcas = [one for one in made.hcas if one.switch != leaf(0, 3) or one.port == 1]
    for at in range(3):
        made.wire(leaf(0, at), leaf(0, at + 1))
    assert {switch.level for switch in made.topology().switches} == {0}


def test_a_rate_is_lanes_times_what_a_lane_carries() -> None:
    """Its encoding is taken off."""
    known = "4xSDR=8 4xDDR=16 4xQDR=32 4xFDR10=40 4xEDR=100 2xHDR=100 4xHDR=200 4xNDR=400 4xXDR=800"
    for words in f"{known} 1xNDR=100 12xQDR=96".split():
        speed, _, gbit_per_s = words.partition("=")
        assert link_bytes_per_s(speed) == int(gbit_per_s) * 1e9 / 8, speed
    # 64 of 66 bits of 14.0625 GT/s a lane.
    assert link_bytes_per_s("4xFDR") == pytest.approx(54.5454e9 / 8, rel=1e-4)


@pytest.mark.parametrize(
    ("words", "kind", "node", "nic"),
    [
        ("n01 mlx5_0", EndKind.COMPUTE, "n01", "mlx5_0"),
        ("n01 HCA-1", EndKind.COMPUTE, "n01", "HCA-1"),
        ("n01.site.org hfi1_0", EndKind.COMPUTE, "n01.site.org", "hfi1_0"),
        ("localhost HCA-3", EndKind.COMPUTE, "localhost", "HCA-3"),
        ("n01", EndKind.COMPUTE, "n01", None),
        ("MT4129 ConnectX7   Mellanox Technologies", EndKind.ANONYMOUS, None, None),
        ("MT25408 ConnectX Mellanox Technologies", EndKind.ANONYMOUS, None, None),
        ("ConnectX-6 HCA", EndKind.ANONYMOUS, None, None),
        ("", EndKind.ANONYMOUS, None, None),
        ("Mellanox Technologies Aggregation Node", EndKind.AGGREGATION, None, None),
        ("the west wing's storage", EndKind.OTHER, None, None),
        ("MF0;gateway:MGA100/U1", EndKind.OTHER, None, None),
    ],
)
def test_whose_a_port_is(words: str, kind: EndKind, node: str | None, nic: str | None) -> None:
    """A description names a node, or is of the maker, or is something else."""
    assert described(words) == (kind, node, nic)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        (
            "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x10",
            "vendid is 5",
            6,
            "not a line of ibnetdiscover",
        ),
        (
            '\t"S-0000000000000030"[2]',
            '\t"S-0000000000000030"[3]',
            16,
            "leads to port 33 of 0x0000000000000020 in line",
        ),
        (
            'Switch\t65 "S-0000000000000020"',
            'Ca\t65 "S-0000000000000020"',
            23,
            "another kind elsewhere",
        ),
        ("[2]\t", "[1]\t", 12, "has another end in line 11"),
        ("[2]\t", "[2]:\t", 12, "not a line of ibnetdiscover"),
    ],
)
def test_what_is_not_understood_is_refused(old: str, new: str, line: int, words: str) -> None:
    """The line, what is wrong with it, and what was expected are told."""
    text = record_text(VERSION, "synthetic-two-rails").replace(old, new, 1)
    with pytest.raises(ParseError, match=words) as error:
        parse_ibnetdiscover(text, "fabric.txt")
    assert error.value.line_no == line
    assert str(error.value).startswith("fabric.txt, line")
