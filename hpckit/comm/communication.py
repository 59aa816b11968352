"""The communication environment of a job: the part that `render`, `submit` and `tune` share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hpckit.comm.environment import (
    RELEASE_UNKNOWN,
    CommChoice,
    OwnSetting,
    comm_env,
    with_warnings,
)
from hpckit.comm.facts import CommFacts, CommQuestion, comm_facts
from hpckit.core.errors import ParseError
from hpckit.core.findings import Level, Notice, Severity
from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.script.launchers.registry import LAUNCHERS, Launchers
from hpckit.spec.job import JobSpec
from hpckit.spec.platform import CommEnv, CommSetting, NcclVersion, Platform
from hpckit.spec.site import SiteSpec

if TYPE_CHECKING:
    from hpckit.node.topology import NodeTopology

_READS: Final = regex(r"(^|[;&|({\s])(source|\.|eval|module|ml|spack|conda)\s", re.ASCII)
_COMMUNICATION = regex(
    r"\b(NCCL|RCCL|UCX|FI|HSA|MPICH|OMPI_MCA|GLOO|NVSHMEM|RDMAV|TORCH_NCCL|CUDA_DEVICE)_", re.ASCII
)
"""What variables of communication begin with."""
_SETUP = "[environment] setup"


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
        from hpckit.comm.seen import seen_node

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
            level=Level.NOTE,
            subject=one.name,
            text=f"the job sets it to {one.value}",
            remedy=warning,
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


def comm_question(spec: JobSpec, launchers: Launchers = LAUNCHERS) -> CommQuestion:
    """What is asked of the rules for a job."""
    tune = spec.tune
    return CommQuestion(
        nodes=spec.resources.nodes,
        version=None if tune.nccl is None else NcclVersion.of(tune.nccl),
        plugin=tune.plugin,
        is_mpi=launchers[spec.launch.kind].is_mpi,
    )


def site_of_job(site: SiteSpec, spec: JobSpec) -> SiteSpec:
    """The site as a job meets it: without `[platform]` on a partition that has no GPU.

    `[platform]` tells of the nodes with GPUs; a job on others has no use for what NCCL needs there.
    """
    partition = site.partitions.get(spec.slurm.partition or "")
    is_of_cpus = partition is not None and partition.gpus_per_node == 0
    if not is_of_cpus or site.platform.gpu is None or spec.resources.gpus_per_node:
        return site
    overlays = site.overlays if spec.tune.overlays else {}
    return replace(site, platform=Platform(), overlays=overlays)


def comm_choice(spec: JobSpec, in_setup: Sequence[OwnSetting] = ()) -> CommChoice:
    """What the job decides itself; `in_setup` are the variables that its setup lines set.

    What modules set, and files that setup lines read, is not known.
    """
    return CommChoice(
        derive=spec.tune.derive,
        overlays=spec.tune.overlays,
        own=(*_own(spec), *in_setup),
        passed=spec.environment.pass_,
        is_unread=bool(spec.environment.modules) or any(map(_READS.search, spec.environment.setup)),
    )


def _own(spec: JobSpec) -> Iterator[OwnSetting]:
    for name, value in spec.tune.env.items():
        yield OwnSetting(name=name, value=value, where="[tune] env", is_exported=True)
    for name, value in spec.environment.set.items():
        yield OwnSetting(name=name, value=value, where="[environment] set")


def settings_in_setup(spec: JobSpec) -> tuple[OwnSetting, ...]:
    """The variables that the job's setup lines export, where some matter for communication.

    Lines that bash itself would not understand set nothing that is known.
    """
    text = "\n".join(spec.environment.setup)
    if not _COMMUNICATION.search(text) and "LD_LIBRARY_PATH" not in text:
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
    from hpckit.comm.lint_rule import LintFacts, Setting, SettingForm

    assignments = [
        Setting(name=one.name, value=one.value, line=at + 1, form=SettingForm.JOB)
        for at, one in enumerate(asked)
    ]
    known = LintFacts(
        nics=facts.hcas or None, plugin=facts.plugin, nodes=facts.nodes, derived=tuple(derived)
    )
    rules = [rule for rule in LINT_RULES if rule not in DERIVED_RULES]
    findings = lint_settings(
        assignments, nccl=facts.version, library=facts.library, facts=known, rules=rules
    )
    found: dict[str, list[str]] = {}
    for one in findings:
        found.setdefault(one.subject, []).append(f"{one.because} [{one.rule}]")
    return {name: "; ".join(words) for name, words in found.items()}
