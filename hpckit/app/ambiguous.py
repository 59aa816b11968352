"""What to say of an id that more than one job may have."""

from __future__ import annotations

from collections.abc import Mapping

from hpckit.errors import HpckitError
from hpckit.model.slurm import JobEntry

_MOST_NAMED = 5


def ambiguous(wanted: str, by_name: Mapping[str, JobEntry]) -> HpckitError:
    """The newest of the jobs, which are given the oldest first by `ID;PLACE`.

    The place is said only where an id is at two places.
    """
    ids = [name.partition(";")[0] for name in by_name]
    is_begin = len(set(ids)) == len(ids)
    names = (ids if is_begin else list(by_name))[::-1]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return HpckitError(
        f"{wanted!r} can be more than one job: {', '.join(names[:_MOST_NAMED])}{more}",
        hint="give more of the id; hpckit jobs lists them"
        if is_begin
        else "give it with its place, as 'ID;PLACE'",
    )
