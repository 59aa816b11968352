"""A report's advice inside a job that is being prepared: does it fit, and what of it applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hpckit.errors import ConfigError
from hpckit.model.advised import AdvisedJob
from hpckit.model.origin import EffectiveJob, OriginKind
from hpckit.model.plan import LaunchPlan
from hpckit.parse.job_file import Layer, effective_job

OPTION = "--from-report"
_MOST_NAMED = 3


def check_advised(advised: AdvisedJob, layers: Sequence[Layer]) -> None:
    """Raise ConfigError where the report is of other hardware, another launch or another mesh.

    What the advice itself proposes is no difference: the job file may have it already.
    """
    from hpckit.decide.advice_outcome import shape_of  # noqa: PLC0415  few jobs have advice

    asked = effective_job([layer for layer in layers if layer.kind is not OriginKind.REPORT])
    shape = shape_of(asked.spec)
    measured: Mapping[str, Any] = advised.document.get("shape") or {}
    other = [
        f"{key} was {measured.get(key)!r} and is {value!r}"
        for key, value in shape.items()
        if value not in (measured.get(key), advised.values.get(key, measured.get(key)))
    ]
    if other:
        more = f" and {len(other) - _MOST_NAMED} more" if len(other) > _MOST_NAMED else ""
        raise ConfigError(
            f"the report of {advised.report_id} is about another job: "
            f"{', '.join(other[:_MOST_NAMED])}{more}",
            key=OPTION,
            hint=f"leave {OPTION} out, or submit the job as it was measured",
        )


def applied_keys(effective: EffectiveJob) -> tuple[str, ...]:
    """The keys whose value is the report's: over them stands no option."""
    return tuple(one.key for one in effective.origins if one.origin is OriginKind.REPORT)


def explained(plan: LaunchPlan, advised: AdvisedJob, effective: EffectiveJob) -> LaunchPlan:
    """The plan whose directives say which of them a report advised, and what was there before."""
    was = {one["key"]: one.get("now") for one in advised.document.get("advice") or ()}
    reasons = {
        _option(key): f"report {advised.report_id} (was {was.get(key) or 'not said'})"
        for key in applied_keys(effective)
    }
    directives = tuple(
        replace(one, because=reasons[one.name])
        if one.name in reasons and one.because is None
        else one
        for one in plan.directives
    )
    return replace(plan, directives=directives)


def applied_document(advised: AdvisedJob, effective: EffectiveJob) -> dict[str, object]:
    """`advice.json` of the new job's folder: with what was applied."""
    applied = applied_keys(effective)
    advice = [
        {**one, "applied": one["key"] in applied} for one in advised.document.get("advice") or ()
    ]
    return {**advised.document, "advice": advice}


def _option(key: str) -> str:
    """The option of sbatch that says a key of `[resources]`."""
    name = key.removeprefix("resources.")
    return "time" if name == "time_limit" else name.replace("_", "-")
