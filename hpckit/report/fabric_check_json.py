"""The document of `hpckit fabric check --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpckit.model.fabric_finding import FABRIC_CHECK_SCHEMA, FabricFinding
from hpckit.model.tree import to_tree


def fabric_check_tree(findings: Sequence[FabricFinding]) -> dict[str, Any]:
    """The findings as plain tables, ready to be written."""
    return {"schema": FABRIC_CHECK_SCHEMA, "findings": to_tree(findings)}
