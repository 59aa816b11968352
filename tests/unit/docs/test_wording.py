"""The words that a user meets: none that reads badly."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[3]
BANNED: Final = re.compile(
    r"unless said|\b(?:is|are) told\b|stands? over|\balike\b|\bmend(?:s|ed|ing)?\b|\btill\b"
    r"|\bfor [^.]{1,20} on end\b|\bhangs? on\b|a rank and step|\b(?:is|are) (?:not )?known\b"
    r"|\boperators?\b"
    r"|\bodd\b|\bof its own\b|outside world|no job id\b|in the mean\b|what became of",
    re.IGNORECASE,
)
"""CONTRIBUTING.md, English, says what stands in their place."""
PAGES: Final = [
    ROOT / "README.md",
    *sorted((ROOT / "templates").rglob("*.j2")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "adr" not in page.parts),
]


def _docstrings(tree: ast.Module) -> set[int]:
    """The strings that are statements: what is said to readers of the source."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """The lines and texts of a module's strings of several words; of a command its help too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    passed_over = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.endswith("_command"):
            yield node.lineno, ast.get_docstring(node) or ""
        if not isinstance(node, ast.Constant) or id(node) in passed_over:
            continue
        if isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


@pytest.mark.parametrize(
    "part",
    [path for path in sorted((ROOT / "hpckit").iterdir()) if path.name != "__pycache__"],
    ids=lambda path: path.name,
)
def test_messages_are_plain_english(part: Path) -> None:
    """No message, finding, option or key is said in the words that CONTRIBUTING.md bans."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r} in {text[:80]!r}"
        for path in ([part] if part.is_file() else sorted(part.rglob("*.py")))
        for line, text in sentences(path)
        if (match := BANNED.search(text))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_plain_english(page: Path) -> None:
    """Nor a page of the documentation, or a comment of a script."""
    lines = page.read_text(encoding="utf-8").splitlines()
    found = [f"{at}: {match[0]!r}" for at, line in enumerate(lines, 1)
             if (match := BANNED.search(line))]  # fmt: skip
    assert not found, f"{page.relative_to(ROOT)}: {found}"
