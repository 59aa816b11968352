"""A report's advice inside a job that is being prepared: does it fit, and what of it applies."""

from __future__ import annotations

import shlex
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
    other = {
        key: (measured.get(key), value)
        for key, value in shape.items()
        if value not in (measured.get(key), advised.values.get(key, measured.get(key)))
    }
    if other:
        said = [f"{key} was {_word(was)} and is {_word(now)}" for key, (was, now) in other.items()]
        more = f" and {len(said) - _MOST_NAMED} more" if len(said) > _MOST_NAMED else ""
        raise ConfigError(
            f"the report of {advised.report_id} is about another job: "
            f"{', '.join(said[:_MOST_NAMED])}{more}",
            key=OPTION,
            hint=f"submit it as it was measured: {_as_measured(other)}or as typed, "
            f"at `reproduce:` in: hpckit show {advised.report_id} --script. Else leave "
            f"{OPTION} out",
        )


def _word(value: object) -> str:
    """A value of the job file as a person writes it."""
    if value is None or value == {}:
        return "not set"
    if isinstance(value, Mapping):
        return " × ".join(f"{axis} {size}" for axis, size in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_measured(other: Mapping[str, tuple[Any, object]]) -> str:
    """The options that set what was measured; of what was not set then, that it is to be left."""
    options = [
        f"--set {shlex.quote(f'{key}={_word(was)}')}"
        for key, (was, _) in other.items()
        if was is not None and not isinstance(was, Mapping)
    ]
    unset = [f"without {key}" for key, (was, _) in other.items() if was is None]
    said = [" ".join(options), *unset] if options else unset
    return "".join(f"{one}, " for one in said)


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
