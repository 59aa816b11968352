"""What is worth knowing of a job."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFinding:
    """One thing worth knowing of a job: `because` is the evidence, `remedy` what to do.

    `severity` is note, warning or error; `subject` such as `GPU3 on n013` or `rank 11`.
    """

    rule: str
    severity: str
    subject: str
    because: str
    remedy: str = ""
    wasted_gpu_s: float | None = None
    wasted_j: float | None = None
