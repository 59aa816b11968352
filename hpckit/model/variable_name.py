"""Names of variables that a script may set."""

from __future__ import annotations

from typing import Final

from hpckit.model.rules import matching

_ENV_NAME: Final = matching(r"[A-Za-z_][A-Za-z0-9_]*", "a shell variable name (letters, digits, _)")
_RUN_BY_BASH: Final = frozenset(
    (
        *("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT", "BASH_XTRACEFD", "PS4"),
        *("RANDOM", "SRANDOM", "SECONDS", "OPTIND", "HISTCMD", "LINENO", "IFS"),
    )
)
"""Variables whose value bash itself evaluates or obeys (bash(1), Shell Variables)."""


def settable_name(name: str) -> str | None:
    """What a name should have been that a script may export; None for a good one."""
    if name.startswith(("HPCKIT_", "hpckit_", "SLURM_")):
        return "a variable that is neither hpckit's nor Slurm's own"
    if name in _RUN_BY_BASH:
        return "a variable that bash itself does not evaluate"
    return _ENV_NAME(name)
