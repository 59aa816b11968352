"""Job files as layers."""

from __future__ import annotations

from hpckit.spec.merge import Layer, file_layers


def job_layer(text: str, source: str) -> Layer:
    """The layer of a job file without stages."""
    (layer,) = file_layers(text, source, None)
    return layer
