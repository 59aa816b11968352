"""axe-core, Deque's rules of accessibility, where npm has put it: `make` does, into .venv."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

from tests.browser.chromium import Chromium

AXE: Final = Path(sys.prefix) / "node_modules/axe-core/axe.min.js"
ABSENT: Final = f"no axe-core: HPCKIT_AXE names none, and npm has put none at {AXE}"
_RUN: Final = """axe.run(document, { preload: false, resultTypes: ["violations"] }).then((found) =>
  found.violations
    .filter((one) => ["serious", "critical"].includes(one.impact) || one.id === "color-contrast")
    .map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).join(" ")}`))"""


def find_axe() -> str | None:
    """The script's text; HPCKIT_AXE names another file than npm's."""
    path = Path(os.environ.get("HPCKIT_AXE", AXE))
    return path.read_text(encoding="utf-8") if path.is_file() else None


def violations(browser: Chromium, axe: str) -> Any:
    """What of the open page breaks a serious rule, or lacks contrast: a sentence each."""
    browser.value(f"{axe};true")
    return browser.value(_RUN)
