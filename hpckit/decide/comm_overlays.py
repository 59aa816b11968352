"""Overlays of a site: variables for those who ask, and sources that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpckit.errors import PlanError
from hpckit.model.comm import CommSetting, SettingOrigin
from hpckit.model.platform import Overlay


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A variable on which `overlays`, of which none was chosen, disagree."""

    name: str
    because: str
    overlays: tuple[str, ...]


def overlay_settings(
    overlays: Mapping[str, Overlay], wanted: Sequence[str]
) -> Iterator[CommSetting]:
    """The variables of the overlays that were asked for, in that order."""
    for name in wanted:
        overlay = overlays[name]
        for variable, value in overlay.env.items():
            yield CommSetting(
                name=variable,
                value=value,
                because=overlay.because,
                source=overlay.source,
                origin=SettingOrigin.OVERLAY,
                rule=name,
                date=overlay.date,
            )


def contests(overlays: Mapping[str, Overlay], wanted: Sequence[str]) -> tuple[Contest, ...]:
    """The variables that nothing sets until one of the overlays that disagree is chosen.

    Raises PlanError for an overlay that is not there, or two that exclude each other.
    """
    _check(overlays, wanted)
    groups: dict[str, list[str]] = {}
    for name, overlay in overlays.items():
        if overlay.one_of is not None:
            groups.setdefault(overlay.one_of, []).append(name)
    return tuple(
        contest
        for names in groups.values()
        if not set(names) & set(wanted)
        for contest in _disagreements({name: overlays[name] for name in names})
    )


def _disagreements(group: Mapping[str, Overlay]) -> Iterator[Contest]:
    variables = dict.fromkeys(name for overlay in group.values() for name in overlay.env)
    for variable in variables:
        said = {name: one.env[variable] for name, one in group.items() if variable in one.env}
        if len(set(said.values())) > 1:
            told = ", ".join(
                f"{value} by {name} ({group[name].date})" for name, value in said.items()
            )
            yield Contest(name=variable, because=f"sources disagree: {told}", overlays=tuple(group))


def _check(overlays: Mapping[str, Overlay], wanted: Sequence[str]) -> None:
    chosen: dict[str, str] = {}
    for name in wanted:
        if name not in overlays:
            import difflib  # noqa: PLC0415  only an error needs it

            near = difflib.get_close_matches(name, overlays, n=1, cutoff=0.0)
            raise PlanError(
                f"the site has no overlay {name!r}",
                have=", ".join(overlays) or "none",
                need=name,
                hint=f"--overlay {near[0]}" if near else "leave --overlay out",
            )
        group = overlays[name].one_of
        if group is not None and chosen.setdefault(group, name) != name:
            raise PlanError(
                f"two overlays for one {group}",
                have=f"{chosen[group]} and {name}",
                need="one of them",
                hint=f"--overlay {name}",
            )
