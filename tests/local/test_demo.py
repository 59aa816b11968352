"""`hpckit demo`, as somebody calls it who has nothing but hpckit."""

from __future__ import annotations

from pathlib import Path

from hpckit.cli.demo import STEPS
from tests.conftest import RunHpckit


def test_the_demo_ends_in_its_answers(run_hpckit_process: RunHpckit, tmp_path: Path) -> None:
    """One screen: a node, and below it what each part answered and what to do next."""
    done = run_hpckit_process("demo", "here", env={"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    summary = lines[lines.index("# Seen, and left in here") + 1 :]
    labels = [line[1:9].strip() for line in summary]
    assert [label for label in labels if label] == [*STEPS, "files", "next"]
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "GPU5  NV17 to all" in done.stdout
    report = (tmp_path / "here" / "report.txt").read_text()
    assert report.startswith("$ hpckit report --from recorded-run")
    assert "synthetic" in report
    for name in ("node.svg", "placement.svg", "report.html"):
        assert (tmp_path / "here" / name).stat().st_size > 1000
    (tmp_path / "here" / "node.svg").write_text("mine")
    again = run_hpckit_process("demo", "here")
    assert again.returncode == 3
    assert "here: is not empty" in again.stderr
    assert (tmp_path / "here" / "node.svg").read_text() == "mine"
