"""The documentation's own promises: every relative link leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"\]\(\s*<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\[[^\]]+\]:\s*<?(\S+?)>?\s*$", re.MULTILINE)


def relative_targets(markdown: str) -> Iterator[str]:
    """The paths that a page links to beside itself; addresses, anchors and code are left out."""
    prose = CODE.sub("", markdown)
    for pattern in (INLINE, REFERENCE):
        for target in pattern.findall(prose):
            address = urlsplit(target)
            if not address.scheme and not address.netloc and address.path:
                yield unquote(address.path)


def test_links_are_found_in_all_their_forms() -> None:
    """Inline and reference links count; addresses, anchors and code do not."""
    page = (
        '[a](x.md) ![b](y%20z.svg "t") [c](https://e.org/x) [d](#x) `[e](no.md)`\n[f]: w.md#part\n'
    )
    assert sorted(relative_targets(page)) == ["w.md", "x.md", "y z.svg"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_exist(page: Path) -> None:
    """Every relative link of the page names a file or folder that is there."""
    targets = relative_targets(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []
