from __future__ import annotations

import pytest

from hpckit.core.findings import Finding, Severity, group_findings
from hpckit.model.finding_group import sentence


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
