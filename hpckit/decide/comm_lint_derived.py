"""What hpckit itself sets on a node or a site, beside what a file sets there."""

from __future__ import annotations

from typing import Final

from hpckit.core.findings import Severity
from hpckit.decide.comm_lint_rule import LintRule, Scene, Seen, Setting
from hpckit.decide.comm_same import says_the_same
from hpckit.model.comm import SettingOrigin


def is_derived(one: Setting, scene: Scene) -> bool:
    """Whether hpckit sets the very same there."""
    derived = scene.derived.get(one.name)
    return derived is not None and one.value == derived.value


def _unlike_derived(one: Setting, scene: Scene) -> Seen | None:
    """Another value than hpckit's; sure where the node itself asks for that one."""
    derived = scene.derived.get(one.name)
    if derived is None or one.value is None or says_the_same(one.name, one.value, derived.value):
        return None
    words = f"{derived.value}: {derived.because} [{derived.rule}]"
    return Seen(words, is_sure=derived.origin is SettingOrigin.RULE)


DERIVED_RULES: Final = (
    LintRule(
        name="unlike-derived", names=("*",), severity=Severity.WARNING, when=_unlike_derived,
        because="hpckit sets {seen}",
        remedy="leave it out, and hpckit sets it; hpckit tune --explain {name}",
        source="docs/reference/tune-rules.md, or the site file",
    ),
)  # fmt: skip
