"""A job's report as the document `hpckit.report/1`."""

from __future__ import annotations

import math
from typing import Any

from msgspec.structs import replace

from hpckit.model.account import REPORT_SCHEMA, JobReport
from hpckit.model.tree import to_tree


def report_document(report: JobReport, version: str, *, curves: bool = False) -> dict[str, Any]:
    """The document, as docs/reference/report.md describes it; curves only where they are wanted.

    A number that JSON has no word for (no such may come out of a measurement) is null.
    """
    if not curves:
        gpus = tuple(replace(one, curves=()) for one in report.gpus)
        report = replace(report, gpus=gpus)
    return {"schema": REPORT_SCHEMA, "hpckit": version, **_finite(to_tree(report))}


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
