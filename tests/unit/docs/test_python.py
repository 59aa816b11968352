"""What the page on Python shows runs as it stands, and the notebook shows its pictures."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.begun import unmeasured
from tests.fakes.packed import warm_cache

ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = ROOT / "docs" / "howto" / "use-from-python.md"


def run(folder: Path, *argv: str | Path) -> str:
    """What a program prints, which has to end well."""
    warm_cache()
    done = subprocess.run(
        argv, cwd=folder, env=unmeasured(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    """Its blocks in one program, each as the one before left things."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "page.py").write_text("\n".join(blocks))
    printed = run(tmp_path, sys.executable, "page.py")
    for text in ("#SBATCH --job-name=hello", "COMPLETED [0, 0]", "rank 1 of 2", "[1, 4, 9]"):
        assert text in printed, printed
    assert (tmp_path / "node.svg").read_text().startswith("<svg")
    assert "<html" in (tmp_path / "report.html").read_text()


def shown(notebook: dict[str, Any]) -> list[str]:
    """What each output of a notebook has as HTML, or else as text."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    assert [output for output in outputs if output["output_type"] == "error"] == []
    found = [output.get("data", {"text/plain": output.get("text", "")}) for output in outputs]
    return ["".join(data.get("text/html") or data["text/plain"]) for data in found]


def test_the_notebook_shows_its_pictures(tmp_path: Path) -> None:
    """Of a node, of a placement and of a report; and a function's result."""
    examples = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", examples)
    tour = examples / "python" / "tour.ipynb"
    run(tour.parent, Path(sys.executable).with_name("jupyter-execute"), "--inplace", tour)
    outputs = shown(json.loads(tour.read_text()))
    assert sum(text.startswith("<svg") for text in outputs) == 2
    assert sum(text.startswith("<iframe srcdoc=") for text in outputs) == 1
    assert "[0, 0]" in outputs
    assert outputs[-1] == "1024"
