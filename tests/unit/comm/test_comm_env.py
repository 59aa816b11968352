"""Which variables a job's communication needs, and who has the last word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hpckit.comm.environment import CommChoice, OwnSetting, comm_env
from hpckit.comm.facts import CommFacts, CommQuestion, SeenNode, comm_facts
from hpckit.comm.rules import ADVICE, RULES, CommRule
from hpckit.core.errors import PlanError
from hpckit.core.findings import Severity
from hpckit.spec.nic_kind import NicKind
from hpckit.spec.platform import CommEnv, NcclVersion, NetPlugin, Overlay, Platform, PlatformEnv
from hpckit.spec.site import SiteSpec, generic_site
from tests.fakes.comm_cases import CASES, IB, TWO_KINDS

SITE = generic_site()
EFA_WITHOUT_PLUGIN = replace(CASES["efa"].facts, plugin=NetPlugin.NONE)
ROCE = CommFacts(nodes=2, interconnect=NicKind.ROCE)


def needs(
    facts: CommFacts, rules: Sequence[CommRule] = RULES, site: SiteSpec = SITE
) -> dict[str, tuple[str, str]]:
    """Variable → its value and the rule behind it."""
    env = comm_env(facts, site, CommChoice(), rules)
    return {one.name: (one.value, one.rule) for one in env.settings}


def with_env(*entries: PlatformEnv) -> SiteSpec:
    """A site whose provider sets these."""
    return replace(SITE, name="cloud", platform=Platform(env=entries, source="its manual"))


def with_overlays(**overlays: dict[str, str]) -> SiteSpec:
    """A site with overlays that contradict each other."""
    made = {
        name: Overlay(because=name, source="a page", date="2026-11", one_of="stack", env=env)
        for name, env in overlays.items()
    }
    return replace(SITE, overlays=made)


DISPUTED = {"uenv": {"NCCL_CROSS_NIC": "1"}, "ce": {"NCCL_CROSS_NIC": "0"}}


def of_job(name: str, value: str | None, where: str = "[tune] env") -> OwnSetting:
    """A variable that the job sets itself."""
    return OwnSetting(name=name, value=value, where=where, is_exported=where == "[tune] env")


def values(env: CommEnv) -> dict[str, str]:
    """Variable → value."""
    return {one.name: one.value for one in env.settings}


@pytest.mark.parametrize("name", CASES)
def test_a_job_needs_what_its_case_says(name: str) -> None:
    """The rules give exactly the variables of the case."""
    case = CASES[name]
    found = needs(case.facts)
    assert found == {name: (said or found[name][0], by) for name, (said, by) in case.needs.items()}


def test_rules_have_names_of_their_own() -> None:
    """No two rules, nor pieces of advice, have one name."""
    names = [one.name for one in (*RULES, *ADVICE)]
    assert len(set(names)) == len(names)


def test_each_rule_has_a_case() -> None:
    """Every rule sets its variable in some case, and every piece of advice is given in some."""
    asked = [*(case.facts for case in CASES.values()), EFA_WITHOUT_PLUGIN]
    envs = [comm_env(facts, SITE, CommChoice()) for facts in asked]
    assert {rule.name for rule in RULES} <= {one.rule for env in envs for one in env.settings}
    assert {advice.name for advice in ADVICE} <= {one.rule for env in envs for one in env.notes}
    assert all("https://" in rule.source and len(rule.date) == 7 for rule in RULES)


def test_a_site_s_own_list_stands_over_the_rules() -> None:
    """What the provider sets replaces what a rule would, and is told as the site's."""
    entry = PlatformEnv(name="NCCL_IB_HCA", value="=mlx5_7", because="the list of the provider")
    assert needs(TWO_KINDS, site=with_env(entry)) == {"NCCL_IB_HCA": ("=mlx5_7", "cloud")}


@pytest.mark.parametrize(("nodes", "count"), [(1, 0), (2, 1)])
def test_a_site_s_variable_may_be_for_several_nodes_alone(nodes: int, count: int) -> None:
    """`min_nodes` keeps it from smaller jobs."""
    entry = PlatformEnv(name="NCCL_NET", value="x", because="y", min_nodes=2)
    assert len(needs(replace(IB, nodes=nodes), site=with_env(entry))) == count


def test_a_release_that_is_not_known_is_a_current_one() -> None:
    """What only old releases need is left out, and told."""
    env = comm_env(ROCE, SITE, CommChoice())
    assert env.settings == ()
    (note,) = env.notes
    assert note.rule == "release-unknown"
    assert "NCCL_IB_GID_INDEX=3 (before 2.21)" in note.because
    assert note.remedy is not None
    assert "--nccl" in note.remedy


def test_the_user_s_word_wins_and_says_what_speaks_against_it() -> None:
    """The user's value is exported; beside it stands what hpckit would set, and why."""
    own = of_job("NCCL_IB_HCA", "mlx5")
    env = comm_env(TWO_KINDS, SITE, CommChoice(own=(own,)))
    (setting,) = env.settings
    assert setting.value == "mlx5"
    assert setting.warning is not None
    assert setting.warning.startswith("hpckit would set =mlx5_0,mlx5_3: only the devices")
    same = CommChoice(own=(of_job("NCCL_IB_HCA", "=mlx5_0,mlx5_3"),))
    assert comm_env(TWO_KINDS, SITE, same).settings[0].warning is None


@pytest.mark.parametrize("value", ["mlx5_0", None])
def test_what_the_job_exports_elsewhere_is_not_exported_again(value: str | None) -> None:
    """A variable of [environment] stays as it is; why it is not set here is told."""
    own = of_job("NCCL_IB_HCA", value, "[environment] set")
    env = comm_env(TWO_KINDS, SITE, CommChoice(own=(own,)))
    assert env.settings == ()
    (left,) = env.left
    assert "[environment] set" in left.because
    assert left.value == "=mlx5_0,mlx5_3"


@pytest.mark.parametrize("choice", [CommChoice(passed=("NCCL_IB_*",)), CommChoice(is_unread=True)])
def test_what_may_be_set_elsewhere_comes_first(choice: CommChoice) -> None:
    """Of a variable that the job passes, or that a module may set, what is there is kept."""
    (setting,) = comm_env(TWO_KINDS, SITE, choice).settings
    assert setting.yields


def test_a_variable_on_which_sources_disagree_is_set_by_nobody() -> None:
    """Without a choice even the rule's own value is left out, and a warning names the choices."""
    site = with_overlays(uenv={"NCCL_CROSS_NIC": "1"}, ce={"NCCL_CROSS_NIC": "0", "NCCL_X": "1"})
    facts = CommFacts(nodes=2, interconnect=NicKind.SLINGSHOT, plugin=NetPlugin.AWS_OFI)
    env = comm_env(facts, site, CommChoice())
    assert "NCCL_CROSS_NIC" not in values(env)
    assert [one.name for one in env.left] == ["NCCL_CROSS_NIC"]
    (note,) = env.notes
    assert note.severity is Severity.WARNING
    assert note.remedy == "--overlay uenv or --overlay ce"


@pytest.mark.parametrize(
    ("wanted", "hint"), [(("uevn",), "--overlay uenv"), (("ce", "uenv"), "--overlay uenv")]
)
def test_an_overlay_that_cannot_be_is_refused(wanted: tuple[str, ...], hint: str) -> None:
    """A misspelt one names the one that is there; of two that contradict each other one is left."""
    with pytest.raises(PlanError) as error:
        comm_env(IB, with_overlays(**DISPUTED), CommChoice(overlays=wanted))
    assert error.value.hint == hint


def test_the_provider_s_file_is_for_jobs_of_several_nodes() -> None:
    """The profile is sourced where there is a network to use."""
    site = replace(SITE, platform=Platform(profile="/opt/env.sh", source="its manual"))
    assert comm_env(IB, site, CommChoice()).profile is not None
    assert comm_env(replace(IB, nodes=1), site, CommChoice()).profile is None


@pytest.mark.parametrize(
    ("facts", "rules"),
    [
        (CASES["slingshot-none"].facts, ["slingshot-without-plugin"]),
        (CASES["slingshot"].facts, ["slingshot-plugin-unknown"]),
        (CASES["slingshot-plugin"].facts, []),
        (CASES["gb200-down"].facts, ["nvlink-domain"]),
        (EFA_WITHOUT_PLUGIN, ["efa-without-plugin"]),
        (CASES["efa"].facts, []),
        (replace(IB, contradiction="it has x, the site says y"), ["other-machine"]),
        (replace(TWO_KINDS, hcas=tuple(f"mlx5_{i}" for i in range(33))), ["many-hcas"]),
        (replace(TWO_KINDS, hcas=tuple(f"mlx5_{i}" for i in range(32))), []),
    ],
    ids=["none", "unknown", "plugin", "imex", "efa-none", "efa", "other", "33", "32"],
)
def test_what_no_variable_mends_is_said(facts: CommFacts, rules: list[str]) -> None:
    """Advice comes where it applies, and nowhere else."""
    assert [note.rule for note in comm_env(facts, SITE, CommChoice()).notes] == rules


def test_a_site_that_is_another_machine_sets_nothing_of_its_own() -> None:
    """Where the inspected node contradicts the site, the site's list and file do not count."""
    entry = PlatformEnv(name="NCCL_IB_TC", value="41", because="x")
    platform = Platform(
        interconnect=NicKind.ROCE, plugin=NetPlugin.GIB, env=(entry,), profile="/opt/x.sh",
        hcas=("mlx5_9",), source="its manual",
    )  # fmt: skip
    seen = SeenNode(interconnect=NicKind.INFINIBAND)
    facts = comm_facts(CommQuestion(nodes=2), platform, seen)
    env = comm_env(facts, replace(SITE, platform=platform), CommChoice())
    assert (facts.plugin, facts.hcas) == (None, ())
    assert (env.settings, env.profile) == ((), None)
    assert [note.rule for note in env.notes] == ["other-machine"]


@pytest.mark.parametrize("said", [NetPlugin.NONE, NetPlugin.AWS_OFI])
def test_what_a_site_sets_for_its_plugin_is_for_no_other(said: NetPlugin) -> None:
    """A job that carries its collectives by another plugin, or by none, gets no list for this."""
    entry = PlatformEnv(name="FI_X", value="1", because="x", before="2.21")
    platform = Platform(plugin=NetPlugin.TCPXO, env=(entry,), profile="/opt/x.sh", source="y")
    for plugin, count in ((None, 1), (said, 0)):
        question = CommQuestion(nodes=2, plugin=plugin)
        site = replace(SITE, platform=platform)
        unknown = comm_env(comm_facts(question, platform, None), site, CommChoice(), rules=())
        known = comm_facts(replace(question, version=NcclVersion.of("2.20")), platform, None)
        env = comm_env(known, site, CommChoice(), rules=())
        assert (len(env.settings), env.profile is not None) == (count, bool(count))
        assert len(unknown.notes) == count


def test_devices_that_the_node_lacks_are_another_machine() -> None:
    """A site's list of devices is not for a node without one of them."""
    platform = Platform(interconnect=NicKind.ROCE, hcas=("mlx5_0", "mlx5_9"))
    seen = SeenNode(interconnect=NicKind.ROCE, devices=("mlx5_0", "mlx5_1"))
    assert "mlx5_9" in comm_facts(CommQuestion(nodes=2), platform, seen).contradiction


def test_of_two_words_of_the_job_the_one_that_is_exported_counts() -> None:
    """A variable under [tune] env and in a setup line is not told to be set elsewhere."""
    own = (
        of_job("NCCL_IB_HCA", "a"),
        of_job("NCCL_IB_HCA", "b", "[environment] setup"),
    )
    env = comm_env(TWO_KINDS, SITE, CommChoice(own=own))
    assert (values(env), env.left) == ({"NCCL_IB_HCA": "a"}, ())


def test_a_job_decides_what_sources_disagree_on() -> None:
    """With the job's own value there is nothing left to choose, and no warning about it."""
    site = with_overlays(**DISPUTED)
    own = of_job("NCCL_CROSS_NIC", "2")
    env = comm_env(IB, site, CommChoice(own=(own,)))
    assert (values(env), env.left, env.notes) == ({"NCCL_CROSS_NIC": "2"}, (), ())


@pytest.mark.parametrize(("kind", "name"), [(NicKind.SLINGSHOT, "hsn"), (NicKind.EFA, "")])
def test_only_slingshot_has_slingshot_s_interfaces(kind: NicKind, name: str) -> None:
    """A node of another network is not said to have interfaces called hsn."""
    facts = comm_facts(CommQuestion(nodes=2), Platform(interconnect=kind), None)
    assert facts.interfaces == name
