"""The platforms that come with hpckit: what their site files say of nodes and of variables."""

from __future__ import annotations

import itertools
import re
import tomllib
from typing import Final

import pytest

from hpckit.core.files import FileResources, packaged_data
from hpckit.jobs.sites import load_site
from hpckit.slurm.values import TopologyKind
from hpckit.spec.platform import NetPlugin
from hpckit.spec.site import SiteSpec

PLATFORMS: Final = (
    *("alps", "aws-p4d", "aws-p5", "aws-p5en", "azure-ndv4", "azure-ndv5"),
    *("dgx-a100", "dgx-b200", "dgx-h100", "frontier", "gb200-nvl72"),
    *("gcp-a3-high", "gcp-a3-mega", "gcp-a3-ultra", "lumi", "oci-h100", "perlmutter"),
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

_MLPERF: Final = {
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_P2P_NET_CHUNKSIZE": "2097152",
    "NCCL_SHARP_GROUP_SIZE_THRESH": "2",
}
_MLPERF_BLACKWELL: Final = _MLPERF | {
    "NCCL_GRAPH_REGISTER": "0",
    "NCCL_LOCAL_REGISTER": "0",
    "NCCL_MIN_CTAS": "16",
    "NCCL_MAX_CTAS": "32",
}
OVERLAYS: Final = {
    ("alps", "cscs-uenv-2025-11"): {"NCCL_CROSS_NIC": "1"},
    ("alps", "cscs-ce-2026-06"): {
        "CUDA_CACHE_DISABLE": "1",
        "NCCL_CROSS_NIC": "0",
        "NCCL_PXN_DISABLE": "1",
        "NCCL_P2P_LEVEL": "NVL",
        "NCCL_NET_GDR_C2C": "1",
        "NCCL_NET_GDR_READ": "1",
        "NCCL_NCHANNELS_PER_NET_PEER": "4",
        "FI_CXI_RDZV_PROTO": "alt_read",
        "FI_CXI_RDZV_EAGER_SIZE": "0",
        "FI_CXI_RDZV_GET_MIN": "0",
        "FI_CXI_RDZV_THRESHOLD": "0",
        "FI_CXI_SAFE_DEVMEM_COPY_THRESHOLD": "16777216",
        "FI_MR_CACHE_MAX_SIZE": "-1",
        "FI_MR_CACHE_MAX_COUNT": "524288",
    },
    ("dgx-b200", "mlperf-v5-1"): _MLPERF_BLACKWELL,
    ("dgx-h100", "mlperf-v5-1"): _MLPERF,
    ("gb200-nvl72", "mlperf-v5-1"): _MLPERF_BLACKWELL,
    ("gb200-nvl72", "oci-gb200"): {
        "NCCL_MNNVL_ENABLE": "1",
        "NCCL_CUMEM_ENABLE": "1",
        "NCCL_NVLS_ENABLE": "1",
        "NCCL_NET_GDR_C2C": "1",
        "NCCL_IB_HCA": "=mlx5_0,mlx5_1,mlx5_3,mlx5_4",
        "NCCL_SOCKET_IFNAME": "eth0",
    },
}
"""Site and overlay → all that it sets, as its document has it."""
PLUGINS: Final = {
    **dict.fromkeys(("alps", "aws-p4d", "aws-p5", "aws-p5en", "frontier"), NetPlugin.AWS_OFI),
    "gcp-a3-high": NetPlugin.TCPX,
    "gcp-a3-mega": NetPlugin.TCPXO,
    "gcp-a3-ultra": NetPlugin.GIB,
}
"""Platform → the plugin that its jobs have without bringing it."""
RUNTIMES: Final = {
    **dict.fromkeys(PLATFORMS, "pyxis"),
    **dict.fromkeys(("alps", "lumi", "perlmutter")),
    "frontier": "apptainer",
}
"""Platform → what runs containers there, where its documents name pyxis or apptainer."""
TOPOLOGIES: Final = {"gb200-nvl72": TopologyKind.BLOCK, "oci-h100": TopologyKind.TREE}
"""Platform → Slurm's topology plugin, which decides what --segment and --switches mean."""
LET_IN: Final = {"gcp-a3-high": ("LD_LIBRARY_PATH",)}
"""Platform → what its containers must be told to let in besides what a script exports."""


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


def test_an_overlay_sets_what_its_document_says() -> None:
    """Every overlay, and every line of it: none can be lost or added unseen."""
    found = {
        (name, overlay): dict(one.env)
        for name in PLATFORMS
        for overlay, one in load_site(FileResources([packaged_data()]), name).overlays.items()
    }
    assert found == OVERLAYS


def test_a_platform_has_its_plugin_and_its_containers(site: SiteSpec) -> None:
    """What carries collectives and runs containers is what the provider's documents say."""
    assert site.platform.plugin == PLUGINS.get(site.name)
    assert site.container.runtime == RUNTIMES[site.name]
    assert site.container.variables == LET_IN.get(site.name, ())


def test_a_platform_has_its_domains_and_its_topology(site: SiteSpec) -> None:
    """The 18 nodes of a GB200 NVL72 rack are one NVLink domain; no other platform spans nodes."""
    assert site.platform.domain_nodes == (18 if site.name == "gb200-nvl72" else None)
    assert site.slurm.topology == TOPOLOGIES.get(site.name)


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
