"""The communication environment of a job: the part that `render`, `submit` and `tune` share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hpckit.comm.choice import comm_choice, comm_question, site_of_job
from hpckit.comm.environment import RELEASE_UNKNOWN, comm_env, with_warnings
from hpckit.comm.facts import CommFacts, comm_facts
from hpckit.comm.own_settings import settings_in_setup, warnings_of
from hpckit.core.findings import Level, Notice, Severity
from hpckit.script.launchers.registry import LAUNCHERS, Launchers
from hpckit.spec.job import JobSpec
from hpckit.spec.platform import CommEnv, CommSetting, NcclVersion
from hpckit.spec.site import SiteSpec

if TYPE_CHECKING:
    from hpckit.node.topology import NodeTopology


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """What is set, and the facts that it follows from.

    `site` is the site as the job meets it; `derived` is what would be set without the job's word.
    """

    site: SiteSpec
    facts: CommFacts
    env: CommEnv
    derived: tuple[CommSetting, ...]


def communication(
    spec: JobSpec,
    site: SiteSpec,
    topology: NodeTopology | None,
    found: NcclVersion | None = None,
    launchers: Launchers = LAUNCHERS,
) -> Communication:
    """The communication environment of a job whose nodes look like `topology`.

    `found` is the release that its environment holds, where the job does not name one. Raises
    PlanError.
    """
    seen = None
    if topology is not None:
        from hpckit.comm.facts import seen_node

        seen = seen_node(topology)
    site = site_of_job(site, spec)
    question = comm_question(spec, launchers)
    question = replace(question, version=question.version or found)
    facts = comm_facts(question, site.platform, seen)
    choice = comm_choice(spec, settings_in_setup(spec))
    env = comm_env(facts, site, choice)
    derived = comm_env(facts, site, replace(choice, own=())).settings
    env = with_warnings(env, choice.own, warnings_of(choice.own, facts, derived))
    return Communication(site=site, facts=facts, env=env, derived=derived)


def comm_findings(env: CommEnv) -> tuple[Notice, ...]:
    """What speaks against the job's own variables, and what is wrong with its network."""
    own = [
        Notice(
            level=Level.NOTE, subject=one.name, text=f"is {one.value} by the job", remedy=warning
        )
        for one in env.settings
        if (warning := one.warning) is not None
    ]
    network = [
        Notice(level=Level.NOTE, subject=one.subject, text=one.because, remedy=one.remedy or None)
        for one in env.notes
        if one.severity is not Severity.NOTE or one.rule == RELEASE_UNKNOWN
    ]
    return (*own, *network)
