"""`hpckit fabric check` on a terminal and as JSON."""

from __future__ import annotations

import json

import pytest

from hpckit.decide.fabric_findings import fabric_findings
from hpckit.decide.rails import with_rails
from hpckit.model.fabric_finding import FabricFinding
from hpckit.model.node_finding import Severity
from hpckit.report.fabric_check_json import fabric_check_tree
from hpckit.report.fabric_check_text import fabric_check_lines
from hpckit.report.line import Style
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
    assert any("exchange the cables" in line.text for line in lines)


def test_a_clean_fabric_is_one_sentence() -> None:
    """There is nothing to ask next."""
    fabric = with_rails(two_tier().topology())
    texts = [line.text for line in fabric_check_lines(fabric, ())]
    assert texts[0].startswith("nothing odd · 20 switches")
    assert all(line.startswith("  ") for line in texts[1:])


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    """However long a reason is."""
    one = FabricFinding(
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
    assert lines[-1].text == "… 5 more: --json has them all"


def test_the_document_has_a_schema_and_every_finding() -> None:
    """It can be written as JSON."""
    made = two_tier()
    made.wires.pop(0)
    made_tree = fabric_check_tree(fabric_findings(made.topology()))
    tree = json.loads(json.dumps(made_tree))
    assert tree["schema"] == "hpckit.fabric-check/1"
    (one,) = tree["findings"]
    assert set(one) == {"rule", "severity", "subject", "because", "remedy"}
    assert (one["rule"], one["severity"]) == ("cables-missing", "warning")
