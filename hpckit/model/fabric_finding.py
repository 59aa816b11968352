"""What is odd about a fabric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hpckit.model.node_finding import Severity

FABRIC_CHECK_SCHEMA: Final = "hpckit.fabric-check/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricFinding:
    """One thing that is odd: `because` is the evidence, `remedy` what to do about it.

    `rule` is the name of a rule of docs/reference/fabric.md, `subject` what it is about, such as a
    switch, a node or `leaf03-spine04`.
    """

    rule: str
    severity: Severity
    subject: str
    because: str
    remedy: str
