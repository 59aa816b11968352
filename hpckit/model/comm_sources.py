"""Which document each rule about communication stands on."""

from __future__ import annotations

from collections.abc import Iterable

from hpckit.model.comm import CommSetting, SettingOrigin


def sources(settings: Iterable[CommSetting]) -> tuple[str, ...]:
    """One line a document, with its date, behind the rules that stand on it in brackets.

    In the order of the settings; a job's own stand on no document.
    """
    by_source: dict[str, dict[str, None]] = {}
    for one in settings:
        if one.origin is not SettingOrigin.JOB:
            dated = f"{one.source} ({one.date})" if one.date else one.source
            by_source.setdefault(dated, {})[one.rule] = None
    return tuple(f"[{', '.join(rules)}] {source}" for source, rules in by_source.items())
