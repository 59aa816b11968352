"""What is wrong with the settings of communication in a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from hpckit.comm.facts import ExplainedFault, says_the_same
from hpckit.comm.lint_rule import (
    LintFacts,
    LintFinding,
    LintRule,
    Scene,
    Seen,
    Setting,
    error,
    held_from,
    match_of,
    note,
    warning,
)
from hpckit.comm.lint_rules_launch import LAUNCH_RULES, TORCH_NAMES
from hpckit.comm.lint_rules_network import (
    IB_RULES,
    NCCL_RULES,
    RCCL_RULES,
    SOCKET_RULES,
    whole_number,
)
from hpckit.comm.lint_rules_plugins import EFA_RULES, MPI_RULES, TRANSPORT_RULES
from hpckit.comm.settings_files import parse_settings
from hpckit.comm.variables import NCCL_DATE, NCCL_SOURCE, NCCL_VARIABLES, NcclVariable
from hpckit.core.findings import Severity, gravest_first
from hpckit.core.text import visible
from hpckit.spec.platform import CommLibrary, NcclVersion, SettingOrigin

# --- Rules that follow from the table of NCCL's variables: names, releases and defaults.

KNOWN_VARIABLES: Final[Mapping[str, NcclVariable]] = {one.name: one for one in NCCL_VARIABLES}
_OTHERS: Final = frozenset(
    (*TORCH_NAMES, "NCCL_VERSION", "NCCL_HOME", "NCCL_ROOT", "NCCL_DIR", "NCCL_LIB_DIR",
     "NCCL_INCLUDE_DIR", "NCCL_PATH", "NCCL_DYNAMIC_CHUNK_SIZE", "NCCL_CUDA_PATH",
     "NCCL_TUNER_CONFIG_PATH", "NCCL_TUNER_CONFIG_FILE", "NCCL_MIN_CHANNELS")
)  # fmt: skip
"""Names that others read: PyTorch, builds, plugins and tuners."""
_INSTEAD: Final[Mapping[str, str]] = {
    "NCCL_IB_GDR_LEVEL": "remove it; NCCL_NET_GDR_LEVEL replaced it",
    "NCCL_MNNVL": "remove it; NCCL_MNNVL_ENABLE replaced it",
    "NCCL_RINGS": "remove it; NCCL_GRAPH_FILE replaced it",
    "NCCL_GRAPH": "remove it; NCCL_GRAPH_FILE replaced it",
    "NCCL_LL_THRESHOLD": "remove it; NCCL_PROTO chooses protocols",
    "NCCL_TREE_THRESHOLD": "remove it; NCCL_ALGO chooses algorithms",
    "NCCL_WORK_FIFO_DEPTH": "remove it; NCCL_WORK_FIFO_BYTES replaced it",
}


def _gone(one: Setting, scene: Scene) -> Seen | None:
    """A variable that the release no longer reads."""
    known = KNOWN_VARIABLES.get(one.name)
    if known is None or known.until is None or scene.library is CommLibrary.RCCL:
        return None
    is_held = held_from(scene.nccl, known.until)
    if is_held is False:
        return None
    do = _INSTEAD.get(one.name, "remove it")
    return Seen(f"{known.until} and later", do, since=known.until, is_sure=is_held is True)


def _too_new(one: Setting, scene: Scene) -> Seen | None:
    """A variable that came with a later release than the one that is here."""
    known = KNOWN_VARIABLES.get(one.name)
    if known is None or scene.nccl is None or scene.library is CommLibrary.RCCL:
        return None
    if held_from(scene.nccl, known.since) is not False:
        return None
    return Seen(f"it needs NCCL {known.since}, and this is {scene.nccl}", since=known.since)


def _is_default(one: Setting, scene: Scene) -> Seen | None:
    """A number that NCCL takes anyhow."""
    known, value = KNOWN_VARIABLES.get(one.name), whole_number(one.value)
    if known is None or value is None or scene.library is CommLibrary.RCCL:
        return None
    held = [(held_from(scene.nccl, release), release) for release, _ in known.defaults]
    reached = [at for at, (when, _) in enumerate(held) if when]
    if scene.nccl is None:
        reached = list(range(len(held)))
    elif any(when is None for when, _ in held):
        return None
    if not reached or known.defaults[reached[-1]][1] != value:
        return None
    release = known.defaults[reached[-1]][0]
    if scene.nccl is not None:
        return Seen(f"the default of NCCL {scene.nccl}", since=release)
    is_dated = len(known.defaults) > 1
    words = f"the default since NCCL {release}" if is_dated else "the default"
    return Seen(words, since=release if is_dated else None)


def meant_by(name: str, library: CommLibrary | None) -> str | None:
    """The variable of NCCL's that is meant by a name that nobody reads; None for one that is fine.

    What RCCL alone reads is not known: nothing is said of its names.
    """
    is_fine = name in _OTHERS or name in KNOWN_VARIABLES or library is CommLibrary.RCCL
    return None if is_fine else _nearest(name)


@lru_cache(maxsize=4096)
def _nearest(name: str) -> str | None:
    near = (known for known in KNOWN_VARIABLES if is_one_edit(name, known))
    return min(near, key=len, default=None)


def is_one_edit(first: str, second: str) -> bool:
    """Whether one letter more, less, other, or two in the wrong order part two words."""
    if len(first) > len(second):
        first, second = second, first
    if len(second) - len(first) > 1 or first == second:
        return False
    pairs = enumerate(zip(first, second, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), len(first))
    if len(first) < len(second):
        return first[at:] == second[at + 1 :]
    is_swapped = first[at : at + 2] == second[at : at + 2][::-1]
    return first[at + 1 :] == second[at + 1 :] or (
        is_swapped and first[at + 2 :] == second[at + 2 :]
    )


RELEASE_RULES: Final = (
    warning("nccl-gone", "NCCL_*", when=_gone, is_mistake=True,
            because="NCCL {seen} no longer read it",
            remedy="{do}", source=NCCL_SOURCE, date=NCCL_DATE),
    warning("nccl-too-new", "NCCL_*", when=_too_new, because="no effect: {seen}",
            remedy="remove it, or use a newer NCCL", source=NCCL_SOURCE, date=NCCL_DATE),
    error("nccl-misspelt", "N* CCL_*", is_mistake=True,
          when=lambda one, scene: (near := meant_by(one.name, scene.library)) and Seen(near, near),
          because="no program reads `{name}`; NCCL reads {seen}", remedy="write {do}",
          source=NCCL_SOURCE, date=NCCL_DATE),
    note("nccl-default", "NCCL_*", when=_is_default, is_fallback=True,
         because="{value} is {seen}, so the line changes nothing", source=NCCL_SOURCE,
         date=NCCL_DATE),
)  # fmt: skip


# --- What hpckit sets there itself, and all rules.


def _unlike_derived(one: Setting, scene: Scene) -> Seen | None:
    """Another value than hpckit's; sure where the node itself asks for that one."""
    derived = scene.derived.get(one.name)
    if derived is None or one.value is None or says_the_same(one.name, one.value, derived.value):
        return None
    words = f"{derived.value}: {derived.because} [{derived.rule}]"
    return Seen(words, is_sure=derived.origin is SettingOrigin.RULE)


DERIVED_RULES: Final = (
    warning("unlike-derived", "*", when=_unlike_derived, because="hpckit sets {seen}",
            remedy="remove it, and hpckit sets it; see hpckit tune --explain {name}",
            source="docs/reference/tune-rules.md, or the site file"),
)  # fmt: skip


FAMILIES: Final = (
    ("NCCL", NCCL_RULES),
    ("Paths between GPUs and to the network", TRANSPORT_RULES),
    ("InfiniBand and RoCE", IB_RULES),
    ("Sockets", SOCKET_RULES),
    ("EFA and libfabric", EFA_RULES),
    ("Launch and visible GPUs", LAUNCH_RULES),
    ("RCCL and ROCm", RCCL_RULES),
    ("UCX and MPI", MPI_RULES),
    ("Releases and names", RELEASE_RULES),
    ("Values that hpckit derives", DERIVED_RULES),
)
LINT_RULES: Final = tuple(rule for _, rules in FAMILIES for rule in rules)
_LONGEST: Final = 80


def lint_settings(
    assignments: Iterable[Setting],
    options: Iterable[Setting] = (),
    *,
    nccl: NcclVersion | None = None,
    library: CommLibrary | None = None,
    facts: LintFacts | None = None,
    has_steps: bool = True,
    rules: Sequence[LintRule] = LINT_RULES,
) -> tuple[LintFinding, ...]:
    """What is wrong with these settings, by line; on one line the gravest first.

    What is not known (None) is not assumed: a rule that needs it is silent, or gives a note.
    """
    settings = [*assignments, *options]
    by_name: dict[str, list[Setting]] = {}
    for one in sorted(settings, key=lambda one: (one.is_of_one_command, one.line)):
        by_name.setdefault(one.name, []).append(one)
    known = facts or LintFacts()
    derived = {one.name: one for one in known.derived}
    scene = Scene(
        by_name=by_name, nccl=nccl, library=library, facts=known, derived=derived,
        has_steps=has_steps,
    )  # fmt: skip
    found: dict[tuple[str, int, str], LintFinding] = {}
    for one in settings:
        for finding in _findings(one, scene, rules):
            found.setdefault((finding.rule, finding.line_no, finding.subject), finding)
    by_subject = sorted(found.values(), key=lambda finding: (finding.subject, finding.rule))
    return tuple(sorted(gravest_first(by_subject), key=lambda finding: finding.line_no))


def _findings(one: Setting, scene: Scene, rules: Sequence[LintRule]) -> Iterator[LintFinding]:
    """What is wrong with one setting; fallbacks speak where nothing else does."""
    about = [rule for rule in rules if one.name in rule.names]
    about += [rule for rule in rules if rule.is_open_to(one.name) and rule not in about]
    derived = scene.derived.get(one.name)
    if derived is not None and one.value == derived.value:
        about = [rule for rule in about if not _is_about_value(rule)]
    held = [(rule, seen) for rule in about if (seen := match_of(rule, one, scene)) is not None]
    plain = [(rule, seen) for rule, seen in held if not rule.is_fallback]
    for rule, seen in plain or held[:1]:
        is_compared = not rule.is_mistake and scene.is_one_of_several(one)
        yield _finding(rule, one, seen, is_sure=seen.is_sure and not is_compared)


def _is_about_value(rule: LintRule) -> bool:
    """Whether a rule speaks against what is set, not how it is set or beside what."""
    is_pair = rule.beside is not None or rule.without is not None
    return not is_pair and not rule.forms and rule not in LAUNCH_RULES


def _finding(rule: LintRule, one: Setting, seen: Seen, *, is_sure: bool) -> LintFinding:
    words = {
        "name": visible(one.name, _LONGEST),
        "value": visible(one.value or "", _LONGEST),
        "other": visible(seen.other.text, 2 * _LONGEST) if seen.other else "",
        "seen": visible(seen.words, 4 * _LONGEST),
        "do": visible(seen.do, 4 * _LONGEST),
    }
    return LintFinding(
        rule=rule.name,
        line_no=one.line,
        severity=rule.severity if is_sure else Severity.NOTE,
        subject=one.name,
        because=_with_bounds(rule, rule.because.format(**words)),
        remedy=rule.remedy.format(**words),
        since=seen.since or rule.since,
        source=rule.source,
        date=rule.date,
    )


def faults_of(variable: str) -> tuple[ExplainedFault, ...]:
    """Return what may be wrong with a setting of a variable, by the rules that name it."""
    return lint_faults(rule for rule in LINT_RULES if variable in rule.names)


def lint_faults(rules: Iterable[LintRule]) -> tuple[ExplainedFault, ...]:
    """Return rules without a case, the gravest first, with the releases on which they hold."""
    return tuple(
        ExplainedFault(
            rule=rule.name,
            severity=rule.severity,
            because=_with_bounds(rule, _generic(rule.because)),
            remedy=_generic(rule.remedy),
            source=rule.dated_source,
        )
        for rule in sorted(rules, key=lambda rule: -rule.severity.rank)
    )


def _with_bounds(rule: LintRule, because: str) -> str:
    """Words behind the releases on which a rule holds, where not all are meant."""
    bounds = [f"since NCCL {rule.since}"] if rule.since else []
    bounds += [f"before NCCL {rule.before}"] if rule.before else []
    return f"{' and '.join(bounds)}: {because}" if bounds else because


def _generic(text: str) -> str:
    """A sentence of a rule without a case, and without an end that only a case has."""
    words = {"name": "NAME", "value": "VALUE", "other": "the other", "seen": "…", "do": "…"}
    return re.sub("[:;]? ?…$", "", text.format(**words))


def lint_text(
    data: bytes,
    name: str,
    *,
    nccl: NcclVersion | None,
    facts: LintFacts | None,
    library: CommLibrary | None = None,
) -> tuple[LintFinding, ...]:
    """What is wrong with what a file sets, by line; none of it is executed.

    `name` is how errors call the file. Raises ParseError for what is no script, no output of
    `env`, no job file and no nccl.conf.
    """
    settings = parse_settings(data, name)
    return lint_settings(
        settings.assignments, settings.options, nccl=nccl, library=library, facts=facts,
        has_steps=settings.has_steps,
    )  # fmt: skip
