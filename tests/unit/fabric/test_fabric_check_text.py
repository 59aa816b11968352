"""`hpckit fabric check` on a terminal."""

from __future__ import annotations

import dataclasses

import pytest

from hpckit.core.findings import Finding, Severity
from hpckit.core.text import Style
from hpckit.fabric.rails import with_rails
from hpckit.fabric.rules import fabric_findings
from hpckit.fabric.show import fabric_check_lines
from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.fabric.topology import not_checked
from tests.ib_fabrics import leaf, two_tier


def test_the_answer_is_first_and_the_next_command_last() -> None:
    """How many findings of how much, then each with its reason and its remedy."""
    made = two_tier()
    made.exchange(made.hang("n01-c02", "mlx5_0"), made.hang("n01-c02", "mlx5_1"))
    made.host("ufm", "mlx5_0", leaf(2, 3))
    fabric = with_rails(made.topology())
    lines = fabric_check_lines(fabric, fabric_findings(fabric), command="hpckit fabric check f.txt")
    assert lines[0].text.startswith("1 warning, 1 note · 20 switches · 128 cables between them")
    first = next(line for line in lines if line.text.startswith("warn"))
    assert first.text == "warn     rails-swapped: n01-c02"
    assert first.style is Style.WARNING
    assert lines[-1].text == "next  hpckit fabric check f.txt --json"
    assert any("swap the cables" in line.text for line in lines)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    """However long a reason is."""
    one = Finding(
        rule="cables-missing",
        severity=Severity.WARNING,
        subject="a–b",
        because="word " * 300 + "\x1b[2J",
        remedy="look",
    )
    fabric = with_rails(two_tier().topology())
    lines = fabric_check_lines(fabric, [one] * 25, width=width, command="hpckit\x07")
    assert max(len(line.text) for line in lines) <= width
    assert not any("\x1b" in line.text for line in lines)
    assert lines[-1].text == "… 5 more: --json shows all"


def test_what_the_source_does_not_tell_was_not_checked() -> None:
    """A verdict of nothing odd says so; a fabric with cables and rates has nothing to say."""
    tree = parse_topology_conf("SwitchName=a Nodes=n[1-2]\nSwitchName=t Switches=a\n", "made")
    texts = [line.text for line in fabric_check_lines(tree, ())]
    assert texts[0].startswith("no problems found")
    assert texts[1:] == ["not checked: cables, rates and rails; topology.conf does not have them"]
    cabled = two_tier()
    assert not_checked(cabled.topology()) == ()
    cabled.wires = [dataclasses.replace(one, speed="4x??") for one in cabled.wires]
    cabled.change(lambda _: True, speed="4x??")
    assert not_checked(cabled.topology()) == ("rates",)


@pytest.mark.parametrize("width", [40, 63, 80])
def test_lists_of_nodes_break_between_names(width: int) -> None:
    """Or behind a comma of a bracket that no line holds; what is put together is the list."""
    names = [f"{rack}-dgx-c[01-03,05]" for rack in "abcdefghijk"]
    names.append(f"long[{','.join(str(at) for at in range(101, 131, 2))}]")
    one = Finding(
        rule="rails-fewer",
        severity=Severity.WARNING,
        subject=",".join(names),
        because="none",
        remedy="look",
    )
    fabric = with_rails(two_tier().topology())
    lines = [line.text for line in fabric_check_lines(fabric, [one], width=width)]
    at = next(at for at, line in enumerate(lines) if "rails-fewer" in line)
    end = next(at for at, line in enumerate(lines) if line.endswith(" none"))
    told = [line[9:].removeprefix("rails-fewer: ").strip() for line in lines[at:end]]
    assert "".join(told).removeprefix("rails-fewer:") == ",".join(names)
    whole = [line for line in told if "long" not in line and not line[0].isdigit()]
    assert all(line.count("[") == line.count("]") for line in whole)
    assert all(line.endswith(",") for line in told[:-1] if line != "rails-fewer:")
