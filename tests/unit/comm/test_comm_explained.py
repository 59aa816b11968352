"""What is told about one variable: why a site's own value does not count here."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from hpckit.comm.environment import CommChoice, comm_env
from hpckit.comm.explain import explain
from hpckit.comm.facts import CommQuestion, Explained, SeenNode, comm_facts
from hpckit.core.findings import Severity
from hpckit.spec.nic_kind import NicKind
from hpckit.spec.platform import NetPlugin, Platform, PlatformEnv
from hpckit.spec.site import generic_site

ENTRY = PlatformEnv(name="FI_X", value="1", because="x", min_nodes=2)
PLATFORM = Platform(
    interconnect=NicKind.SLINGSHOT, plugin=NetPlugin.AWS_OFI, env=(ENTRY,), source="its manual"
)
SITE = replace(generic_site(), platform=PLATFORM)


@pytest.mark.parametrize(
    ("question", "seen", "missing"),
    [
        (CommQuestion(nodes=2), None, ""),
        (CommQuestion(nodes=1), None, "2 or more nodes"),
        (CommQuestion(nodes=2, plugin=NetPlugin.NONE), None, "plugin aws-ofi-nccl"),
        (
            CommQuestion(nodes=2),
            SeenNode(interconnect=NicKind.ROCE),
            "a node of this site (the inspected node has roce, the site file names slingshot)",
        ),
    ],
    ids=["here", "one-node", "other-plugin", "other-machine"],
)
def test_a_site_s_value_tells_why_it_is_not_here(
    question: CommQuestion, seen: SeenNode | None, missing: str
) -> None:
    """What is said about a site's value agrees with whether it is set."""
    facts = comm_facts(question, PLATFORM, seen)
    (word,) = explain("FI_X", facts, comm_env(facts, SITE, CommChoice()), SITE).words
    assert word.missing == missing
    assert bool(comm_env(facts, SITE, CommChoice(), rules=()).settings) is not bool(missing)


def told(name: str) -> Explained:
    """All that is known about a variable of a job that needs nothing."""
    facts = comm_facts(CommQuestion(nodes=2), Platform(), None)
    return explain(name, facts, comm_env(facts, generic_site(), CommChoice()), generic_site())


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("NCCL_CROSS_NIC", "by NCCL 2.5 and later; default: 2 since 2.5"),
        ("NCCL_LL_THRESHOLD", "by NCCL 2.3 and later, before 2.5"),
        ("NCCL_IB_HCAS", "no program reads this name; did you mean NCCL_IB_HCA?"),
        ("nccl_ib_hca", "no program reads this name; did you mean NCCL_IB_HCA?"),
        ("NCCL_MIN_CHANNELS", None),
        ("FI_X", None),
    ],
)
def test_who_reads_a_variable_is_told(name: str, read: str | None) -> None:
    """Releases and defaults of NCCL's own variables, the right name of a wrong one."""
    assert told(name).read == read


def test_what_the_lint_has_against_a_variable_is_told() -> None:
    """A variable that no rule sets is not unknown: the do-not-set list knows it."""
    (fault,) = told("NCCL_P2P_DISABLE").faults
    assert (fault.rule, fault.severity) == ("p2p-off", Severity.WARNING)
    assert "remove it" in fault.remedy


def test_names_of_rccl_are_not_called_wrong() -> None:
    """What RCCL alone reads is not known, so no name is said to be meant."""
    facts = comm_facts(CommQuestion(nodes=2), Platform(gpu="mi250x"), None)
    env = comm_env(facts, generic_site(), CommChoice())
    assert explain("NCCL_IB_HCAS", facts, env, generic_site()).read is None


def test_without_a_machine_nothing_is_said_of_it() -> None:
    """Neither that it needs nothing, nor what its devices are called."""
    told_ = told("NCCL_IB_HCA")
    assert told_.here.startswith("unknown: the nodes' network is unknown")
    assert [word.value for word in told_.words] == ["=NIC,…", "=NIC,…"]
    texts = [text for word in told_.words for text in (word.value, word.because)]
    texts += [text for fault in told_.faults for text in (fault.because, fault.remedy)]
    assert not [text for text in texts if "{" in text or re.search(r"(?<!=NIC,)…$", text)]
    assert told("NCCL_P2P_DISABLE").here == "not set: nothing here needs it"
