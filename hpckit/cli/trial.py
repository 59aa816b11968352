"""`hpckit submit --test-only`: what Slurm would do with a job, or with the stages of a chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpckit.cli import output

if TYPE_CHECKING:
    from hpckit.app.prepare import PreparedJob
    from hpckit.model.stage import StagePlace

TRIAL_SCHEMA = "hpckit.trial/1"


def try_jobs(
    placed: Sequence[tuple[PreparedJob, StagePlace | None]], *, checks: bool, as_json: bool
) -> None:
    """Have each job looked at, in its place in a chain or by itself, and print what is said."""
    from hpckit import wiring
    from hpckit.app.trial import try_out
    from hpckit.model.tree import to_tree

    site = placed[0][0].site
    tools = wiring.submit_tools(site.submitter, checks=checks)
    trials = [(job, try_out(job, wiring.caller(), tools, place)) for job, place in placed]
    if as_json:
        documents = [
            {
                "name": job.effective.spec.name,
                "script_sha256": job.script.sha256,
                "words": list(trial.words),
                "notes": [to_tree(note) for note in trial.notes],
            }
            for job, trial in trials
        ]
        output.document({"schema": TRIAL_SCHEMA, "site": site.name, "jobs": documents})
        return
    for job, trial in trials:
        rows = [("job", f"{job.effective.spec.name}   site {job.site.name}")]
        rows += [("note", output.note(note)) for note in trial.notes]
        rows.append(("slurm", "\n".join(trial.words) or "it says nothing against the job"))
        output.labelled(rows)
    output.talk(" nothing was queued")
