"""The communication variables that a job sets itself, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from hpckit.comm.environment import OwnSetting
from hpckit.comm.facts import CommFacts
from hpckit.core.errors import ParseError
from hpckit.spec.job import JobSpec
from hpckit.spec.platform import CommSetting

_COMMUNICATION = re.compile(
    r"\b(NCCL|RCCL|UCX|FI|HSA|MPICH|OMPI_MCA|GLOO|NVSHMEM|RDMAV|TORCH_NCCL|CUDA_DEVICE)_", re.ASCII
)
"""What variables of communication begin with."""
_LIBRARIES = re.compile(r"\bLD_(LIBRARY_PATH|PRELOAD)\b", re.ASCII)
"""What leads to other libraries: without one or the other nothing more is looked at."""
_SETUP = "[environment] setup"


def settings_in_setup(spec: JobSpec) -> tuple[OwnSetting, ...]:
    """The variables that the job's setup lines export, where some matter for communication.

    Lines that bash itself would not understand set nothing that is known.
    """
    text = "\n".join(spec.environment.setup)
    if not _COMMUNICATION.search(text) and not _LIBRARIES.search(text):
        return ()
    from hpckit.comm.lint_rule import SettingForm
    from hpckit.comm.shell.script import parse_shell

    try:
        found = parse_shell(text, _SETUP).assignments
    except ParseError:
        return ()
    lasting = [one for one in found if one.form is SettingForm.EXPORT and one.until_line is None]
    return tuple(OwnSetting(name=one.name, value=one.value, where=_SETUP) for one in lasting)


def warnings_of(
    own: Sequence[OwnSetting], facts: CommFacts, derived: Sequence[CommSetting] = ()
) -> Mapping[str, str]:
    """Variable → what is wrong with the job's own value, for those that are not fine.

    `derived` is what hpckit would set: nothing speaks against the same. That another value is set
    in its place is told where the environment is decided.
    """
    asked = [one for one in own if _COMMUNICATION.match(one.name)]
    if not asked:
        return {}
    from hpckit.comm.lint import (
        DERIVED_RULES,
        LINT_RULES,
        lint_settings,
    )
    from hpckit.comm.lint_rule import Assignment, LintFacts, SettingForm

    assignments = [
        Assignment(name=one.name, value=one.value, line=at + 1, form=SettingForm.JOB)
        for at, one in enumerate(asked)
    ]
    known = LintFacts(
        nics=facts.hcas or None, plugin=facts.plugin, nodes=facts.nodes, derived=tuple(derived)
    )
    rules = [rule for rule in LINT_RULES if rule not in DERIVED_RULES]
    findings = lint_settings(
        assignments, nccl=facts.version, library=facts.library, facts=known, rules=rules
    )
    return _by_name((one.subject, f"{one.because} [{one.rule}]") for one in findings)


def _by_name(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, words in pairs:
        found[name] = f"{found[name]}; {words}" if name in found else words
    return found
