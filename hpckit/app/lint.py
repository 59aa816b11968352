"""What is wrong with the settings of communication in a file."""

from __future__ import annotations

from hpckit.decide.comm_lint import lint_settings
from hpckit.model.comm import CommLibrary, NcclVersion
from hpckit.model.comm_lint import LintFacts, LintFinding
from hpckit.parse.settings_file import parse_settings


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
        settings.assignments, settings.options, nccl=nccl, library=library, facts=facts
    )
