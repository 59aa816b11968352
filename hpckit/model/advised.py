"""Advice of a report on its way into a new job: `hpckit.advice/1` as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedJob:
    """The advice of one job's report for the next one.

    `values` are by dotted key of the job file, typed as there; `document` is what is written into
    the new job's folder, before it is known which keys are applied.
    """

    report_id: str
    values: Mapping[str, str | int]
    document: Mapping[str, Any]
