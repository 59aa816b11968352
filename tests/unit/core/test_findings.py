from __future__ import annotations

import pytest

from hpckit.core.finding_lines import sentence
from hpckit.core.findings import (
    Check,
    Evidence,
    Finding,
    Rule,
    Severity,
    finding_trees,
    group_findings,
    judge,
)


def finding(subject: str, because: str, remedy: str = "none") -> Finding:
    """A note about something."""
    return Finding(
        rule="rule", severity=Severity.NOTE, subject=subject, because=because, remedy=remedy
    )


@pytest.mark.parametrize(
    ("pairs", "sentences"),
    [
        ([("GPU0", "GPU0 has a fan off")], ["GPU0 has a fan off"]),
        (
            [("GPU0", "GPU0 has a fan off"), ("GPU1", "GPU1 has a fan off")],
            ["GPU0-1 have a fan off"],
        ),
        ([("mlx5_0", "mlx5_0 is DOWN"), ("mlx5_3", "mlx5_3 is DOWN")], ["mlx5_0 mlx5_3 are DOWN"]),
        ([("GPU0", "GPU0 hums"), ("GPU1", "GPU1 hums loud")], ["GPU0 hums", "GPU1 hums loud"]),
        ([("GPU0", "GPU0 hums loud"), ("GPU1", "GPU1 hums loud")], ["GPU0-1: hums loud"]),
        ([("GPU2", "GPU2-3 are far"), ("GPU3", "GPU2-3 are far")], ["GPU2-3 are far"]),
        ([("GPU1", "GPU10 is far")], ["GPU1: GPU10 is far"]),
        ([("GPU0", "no fan"), ("GPU1", "no fan")], ["GPU0-1: no fan"]),
        ([("GPUs", "no GPU has a fan")], ["no GPU has a fan"]),
        ([("GPUs", "are far off")], ["GPUs: are far off"]),
        ([("c2", "it gave no answer")], ["c2: it gave no answer"]),
    ],
)
def test_sentences(pairs: list[tuple[str, str]], sentences: list[str]) -> None:
    """What is said of several in the same words is one sentence that begins with all of them."""
    groups = group_findings(finding(*pair) for pair in pairs)
    assert [sentence(group) for group in groups] == sentences


def test_other_remedies() -> None:
    """Findings with other remedies stay apart."""
    findings = [finding("GPU0", "GPU0 is hot", "fan 0"), finding("GPU1", "GPU1 is hot", "fan 1")]
    assert [group.subjects for group in group_findings(findings)] == [("GPU0",), ("GPU1",)]


def test_a_rule_is_judged_by_what_it_saw() -> None:
    """Evidence may have a severity and a remedy of its own; the gravest come first."""
    usual: Rule[Check[int]] = Rule(
        name="hot", severity=Severity.NOTE, because="heat", remedy="cool {subject}: fan {index}",
        source="a page", date="2026-11",
        when=lambda count: [Evidence(f"GPU{index}", "it is hot") for index in range(count)],
    )  # fmt: skip
    graver: Rule[Check[int]] = Rule(
        name="off", severity=Severity.WARNING, because="no power", remedy="switch it on",
        source="a page",
        when=lambda _: [Evidence("", "it is off", "leave it", Severity.ERROR, line_no=3)],
    )  # fmt: skip
    told = judge([usual, graver], 2)
    seen = [(one.severity.value, one.subject, one.remedy, one.source) for one in told]
    assert seen == [
        ("error", "", "leave it", "a page"),
        ("note", "GPU0", "cool GPU0: fan 0", "a page; 2026-11"),
        ("note", "GPU1", "cool GPU1: fan 1", "a page; 2026-11"),
    ]
    assert finding_trees(told[:1], ("rule", "because"), line="line_no", about="subject") == [
        {"rule": "off", "because": "it is off", "line": 3, "about": None}
    ]
