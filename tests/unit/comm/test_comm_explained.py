"""What is told about one variable: why a site's own value does not count here."""

from __future__ import annotations

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
        (CommQuestion(nodes=1), None, "2 nodes or more"),
        (CommQuestion(nodes=2, plugin=NetPlugin.NONE), None, "plugin aws-ofi-nccl"),
        (
            CommQuestion(nodes=2),
            SeenNode(interconnect=NicKind.ROCE),
            "a node of this site (the inspected node has roce, the site says slingshot)",
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
        ("NCCL_CROSS_NIC", "by NCCL from 2.5 on; by default 2 from 2.5 on"),
        ("NCCL_LL_THRESHOLD", "by NCCL from 2.3 to before 2.5"),
        ("NCCL_IB_HCAS", "nobody reads this name: did you mean NCCL_IB_HCA?"),
        ("nccl_ib_hca", "nobody reads this name: did you mean NCCL_IB_HCA?"),
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
    assert "leave it out" in fault.remedy


def test_names_of_rccl_are_not_called_wrong() -> None:
    """What RCCL alone reads is not known, so no name is said to be meant."""
    facts = comm_facts(CommQuestion(nodes=2), Platform(gpu="mi250x"), None)
    env = comm_env(facts, generic_site(), CommChoice())
    assert explain("NCCL_IB_HCAS", facts, env, generic_site()).read is None
