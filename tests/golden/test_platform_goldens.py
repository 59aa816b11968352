"""The goldens of the platforms that come with hpckit: each variable with its reason and source."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hpckit.comm.environment import CommChoice, comm_env
from hpckit.comm.facts import CommQuestion, comm_facts
from hpckit.comm.lint import lint_text
from hpckit.comm.lint_rule import LintFacts
from hpckit.comm.rules import RULES, applies
from hpckit.core.files import FileResources, packaged_data
from hpckit.jobs.sites import load_site
from hpckit.spec.site import SiteSpec

CASES = Path(__file__).parent / "cases"
CASE = "{}-torchrun-many-nodes"
PLATFORMS = (
    *("alps", "aws-p4d", "aws-p5", "aws-p5en", "azure-ndv4", "azure-ndv5", "dgx-a100"),
    *("dgx-b200", "dgx-h100", "frontier", "gb200-nvl72", "gcp-a3-high", "gcp-a3-mega"),
    *("gcp-a3-ultra", "isambard-ai", "jupiter", "leonardo", "lumi", "marenostrum5"),
    *("oci-h100", "perlmutter"),
)
NOTHING = frozenset(
    {"dgx-a100", "dgx-b200", "dgx-h100", "gb200-nvl72", "jupiter", "leonardo", "marenostrum5"}
)
"""Platforms on which NCCL finds everything."""
TABLE: dict[str, dict[str, str]] = {
    "aws-p4d": {"NCCL_SOCKET_IFNAME": "^docker,lo,veth"},
    "aws-p5": {"NCCL_SOCKET_IFNAME": "^docker,lo,veth"},
    "aws-p5en": {"NCCL_SOCKET_IFNAME": "^docker,lo,veth"},
    "azure-ndv4": {
        "NCCL_IB_PCI_RELAXED_ORDERING": "1",
        "NCCL_TOPO_FILE": "/opt/microsoft/ndv4/topo.xml",
        "NCCL_IGNORE_CPU_AFFINITY": "1",
    },
    "azure-ndv5": {
        "NCCL_IB_PCI_RELAXED_ORDERING": "1",
        "NCCL_TOPO_FILE": "/opt/microsoft/ndv5/topo.xml",
        "NCCL_IGNORE_CPU_AFFINITY": "1",
    },
    "gcp-a3-ultra": {"NCCL_NET": "gIB"},
    "lumi": {"NCCL_SOCKET_IFNAME": "hsn", "NCCL_NET_GDR_LEVEL": "PHB"},
}
"""Platform → all that it sets with a current NCCL, as its provider documents it."""


def site_of(name: str) -> SiteSpec:
    """A platform's site."""
    return load_site(FileResources([packaged_data()]), name)


def golden(name: str) -> str:
    """The script of a job of several nodes there."""
    return (CASES / CASE.format(name) / "expected.sbatch").read_text(encoding="utf-8")


def exported(script: str) -> dict[str, str]:
    """Variable → value, as the communication block exports them."""
    block = script.partition("# --- communication")[2].partition("# --- ")[0]
    exports = [line.partition(" # ")[0] for line in block.splitlines() if line[:7] == "export "]
    pairs = [pair.partition("=") for line in exports for pair in shlex.split(line)[1:]]
    return {name: value for name, _, value in pairs}


@pytest.mark.parametrize("name", PLATFORMS)
def test_every_variable_has_its_reason_and_source_in_the_script(name: str) -> None:
    """Beside each export stands why, and below them on which document each stands."""
    script = golden(name)
    facts = comm_facts(CommQuestion(nodes=4), site_of(name).platform, None)
    settings = comm_env(facts, site_of(name), CommChoice()).settings
    assert exported(script).keys() == {setting.name for setting in settings}
    for setting in settings:
        beside = (
            rf"^export .*\b{setting.name}=.*# {re.escape(setting.because)} \[.*\b{setting.rule}\b"
        )
        assert re.search(beside, script, re.MULTILINE)
        assert f"{setting.source} ({setting.date})" in script


@pytest.mark.parametrize("name", sorted(NOTHING))
def test_a_textbook_platform_sets_nothing(name: str) -> None:
    """Where NCCL finds everything the script has no communication block."""
    assert "# --- communication" not in golden(name)


@pytest.mark.parametrize("name", TABLE)
def test_a_platform_sets_what_its_provider_says_and_no_more(name: str) -> None:
    """The exports are those of the provider's documents, each with its value."""
    assert exported(golden(name)) == TABLE[name]


@pytest.mark.parametrize("name", PLATFORMS)
def test_without_a_line_of_its_list_the_script_differs(name: str) -> None:
    """Each variable of a site's own list stands in its golden: none can be lost unseen."""
    values = exported(golden(name))
    for entry in site_of(name).platform.env:
        if entry.before is None:
            assert values[entry.name] == entry.value


@pytest.mark.parametrize("name", PLATFORMS)
def test_the_lint_has_nothing_against_what_hpckit_set(name: str) -> None:
    """A script for a site is fine by the lint that knows the site."""
    facts = comm_facts(CommQuestion(nodes=4), site_of(name).platform, None)
    derived = comm_env(facts, site_of(name), CommChoice()).settings
    known = LintFacts(plugin=facts.plugin, nodes=4, derived=derived)
    data = golden(name).encode()
    assert lint_text(data, "job.sbatch", nccl=None, library=facts.library, facts=known) == ()


def test_rules_give_what_no_site_lists() -> None:
    """No site's list repeats what a rule derives for it, but where a rule needs a release."""
    for name in PLATFORMS:
        site = site_of(name)
        facts = comm_facts(CommQuestion(nodes=4), site.platform, None)
        derived = {
            (rule.variable, rule.value)
            for rule in RULES
            if applies(rule.when, facts) and rule.when.since is None
        }
        assert not derived & {(entry.name, entry.value) for entry in site.platform.env}
