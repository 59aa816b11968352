"""The platforms that come with hpckit: what their site files say of nodes and of variables."""

from __future__ import annotations

import itertools
import re
import tomllib
from typing import Final

import pytest

from hpckit.core.files import FileResources, packaged_data
from hpckit.jobs.sites import load_site
from hpckit.spec.site import SiteSpec

PLATFORMS: Final = (
    *("alps", "aws-p4d", "aws-p5", "aws-p5en", "azure-ndv4", "azure-ndv5"),
    *("dgx-a100", "dgx-b200", "dgx-h100", "frontier", "gb200-nvl72"),
    *("gcp-a3-high", "gcp-a3-mega", "gcp-a3-ultra", "isambard-ai", "jupiter", "leonardo"),
    *("lumi", "marenostrum5", "oci-h100", "perlmutter"),
)
GONE: Final = (
    *("NCCL_IB_CUDA_SUPPORT", "NCCL_LL_THRESHOLD", "NCCL_TREE_THRESHOLD"),
    *("NCCL_SINGLE_RING_THRESHOLD", "NCCL_WORK_FIFO_DEPTH"),
    *("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_CHECK_POINTERS", "NCCL_LAUNCH_MODE"),
)
"""Variables that NCCL no longer reads, or wants another in place of."""
HARMFUL: Final = (
    *("NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_SHM_DISABLE", "NCCL_DEBUG"),
    *("NCCL_ALGO", "NCCL_IGNORE_NET_MISMATCH", "NCCL_RAS_ADDR", "NCCL_CHECKS_DISABLE"),
)
"""Variables left from the search for an error, or that break jobs: never by default."""
HARMFUL_PAIRS: Final = (
    ("NCCL_PROTO", r"(?!\^).*LL128.*"),
    ("NCCL_NVLS_ENABLE", "0"),
    ("NCCL_CUMEM_ENABLE", "0"),
    (r"NCCL_(P2P|NET_GDR|P2P_PXN)_LEVEL", r"\d+"),
)
"""Variable and value, both as patterns: harmful as the default of a platform."""
TODAYS_DEFAULTS: Final = (
    *(("NCCL_IB_SPLIT_DATA_ON_QPS", "0"), ("NCCL_IB_QPS_PER_CONNECTION", "1")),
    *(("NCCL_IB_SL", "0"), ("NCCL_IB_GID_INDEX", "-1"), ("NCCL_IB_TIMEOUT", "20")),
    *(("NCCL_NET_GDR_C2C", "1"), ("NCCL_MNNVL_ENABLE", "2"), ("NCCL_CROSS_NIC", "2")),
)
"""What NCCL 2.30 does unasked. Source: its user guide, env.rst."""


@pytest.fixture(params=PLATFORMS)
def site(request: pytest.FixtureRequest) -> SiteSpec:
    """A platform's site."""
    return load_site(FileResources([packaged_data()]), request.param)


def text_of(name: str) -> str:
    """A platform's site file."""
    return (packaged_data() / "site_configs" / f"{name}.toml").read_text(encoding="utf-8")


def test_a_platform_says_what_its_nodes_are(site: SiteSpec) -> None:
    """Every platform says its GPUs and NICs, each as a number, its network, and where from."""
    platform = site.platform
    assert all((platform.node_type, platform.gpu, platform.gpus, platform.nics))
    assert all((platform.nic_gbits, platform.interconnect, platform.source, platform.date))


def test_every_list_of_devices_is_as_long_as_the_count(site: SiteSpec) -> None:
    """Where a platform lists its NICs by name, they are as many as it says there are."""
    assert len(site.platform.hcas) in (0, site.platform.nics)


def test_gpus_of_a_partition_are_those_of_a_node(site: SiteSpec) -> None:
    """The largest partition's nodes have the GPUs that the platform's node has."""
    largest = max(site.partitions.values(), key=lambda one: (one.gpus_per_node, one.nodes))
    assert largest.gpus_per_node == site.platform.gpus


def test_every_variable_has_a_reason_a_source_and_a_date(site: SiteSpec) -> None:
    """No variable of a platform stands on nothing; its source has an address."""
    for entry in site.platform.env:
        assert entry.because, entry.name
        assert re.search(r"https://\S+", entry.source or ""), entry.name
        assert entry.date, entry.name


def test_no_variable_is_one_that_does_harm(site: SiteSpec) -> None:
    """A platform sets nothing that is obsolete, left from debugging, or breaks jobs."""
    for entry in site.platform.env:
        assert entry.name not in (*GONE, *HARMFUL)
        for name, value in HARMFUL_PAIRS:
            assert not (re.fullmatch(name, entry.name) and re.fullmatch(value, entry.value))


def test_no_variable_says_what_happens_anyway(site: SiteSpec) -> None:
    """A value that NCCL takes by itself has no place in a platform."""
    assert not {(entry.name, entry.value) for entry in site.platform.env} & set(TODAYS_DEFAULTS)


def test_no_overlay_sets_what_is_gone(site: SiteSpec) -> None:
    """An overlay repeats its source but for variables that NCCL no longer reads, and NCCL_DEBUG."""
    for overlay in site.overlays.values():
        assert not set(overlay.env) & {*GONE, "NCCL_DEBUG"}
        assert overlay.env


def test_every_overlay_names_its_document(site: SiteSpec) -> None:
    """An overlay's source is a title and an address."""
    for name, overlay in site.overlays.items():
        assert re.search(r"\w.*, https://\S+", overlay.source), name


def test_what_runs_containers_has_a_source(site: SiteSpec) -> None:
    """Where a platform says how containers run, it says who says so."""
    container = site.container
    if container.runtime is not None:
        assert "https://" in (container.source or "")
        assert container.date


def test_two_stacks_of_one_place_exclude_each_other() -> None:
    """CSCS' uenv and container engine disagree on NCCL_CROSS_NIC, and a job has one of them."""
    site = load_site(FileResources([packaged_data()]), "alps")
    words = {overlay.one_of for overlay in site.overlays.values()}
    assert words == {"software stack"}
    assert {overlay.env["NCCL_CROSS_NIC"] for overlay in site.overlays.values()} == {"0", "1"}


@pytest.mark.parametrize("name", PLATFORMS)
def test_the_file_names_its_sources(name: str) -> None:
    """At each table of facts stands a comment with a document's address and a year."""
    text = text_of(name)
    for table in sorted({"platform", "container", "partitions"} & tomllib.loads(text).keys()):
        comments = comments_at(text, table)
        assert "https://" in comments or "as above" in comments, table
        assert re.search(r"20\d\d", comments) or "as above" in comments, table


def comments_at(text: str, table: str) -> str:
    """The comments right before the first header of a table, and those in it."""
    lines = text.splitlines()
    header = next(at for at, line in enumerate(lines) if re.match(rf"\[{table}[.\]]", line))
    before = itertools.takewhile(lambda line: line.startswith("#"), reversed(lines[:header]))
    inside = itertools.takewhile(lambda line: not line.startswith("["), lines[header + 1 :])
    return "\n".join([*before, *(line for line in inside if line.startswith("#"))])
