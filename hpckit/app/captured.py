"""What a captured machine looks like."""

from __future__ import annotations

from hpckit.decide.complete import complete
from hpckit.model.hardware import NodeTopology
from hpckit.parse.capture import parse_capture


def inspect_capture(data: bytes, name: str) -> tuple[NodeTopology, ...]:
    """The machines in a capture, at least one. Raises ParseError."""
    return tuple(complete(machine) for machine in parse_capture(data, name))
