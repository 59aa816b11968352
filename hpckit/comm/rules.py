"""The rules of the communication environment: which variable is set where to what, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hpckit.comm.facts import CommFacts, Trait
from hpckit.core.findings import Row, Rule, Severity
from hpckit.core.values import dataclass
from hpckit.spec.nic_kind import NicKind
from hpckit.spec.platform import CommLibrary, NcclVersion, NetPlugin, PlatformEnv

ENV_RST: Final = (
    "NCCL, Environment Variables, {variable},"
    " https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
)
"""NVIDIA's reference of the variables."""

_READ: Final = "2026-11"
"""When the sources were read that have no other date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """When a rule applies: where all of this is so. What is not said does not matter.

    `since` and `before` are releases of the library, the first with the need and the first
    without. A release that is not known is taken to be a current one: `before` then fails.
    `plugins` may hold None, for a plugin that is not known.
    """

    interconnects: tuple[NicKind, ...] = ()
    plugins: tuple[NetPlugin | None, ...] = ()
    library: CommLibrary | None = None
    since: str | None = None
    before: str | None = None
    min_nodes: int = 1
    traits: tuple[Trait, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommRule(Row):
    """A variable, and when it is set to what; it finds nothing, so it is no `Rule`.

    `value` and `because` may name `facts.words_of` in braces. `is_expanded` as in CommSetting.
    """

    date: str = _READ
    variable: str
    value: str
    when: When
    is_expanded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommAdvice(Rule[When]):
    """Something that no variable changes; `because` as in CommRule."""

    subject: str


def _rule(
    name: str, variable: str, value: str, *, because: str, source: str = ENV_RST, date: str = _READ,
    is_expanded: bool = False, **when: Any,
) -> CommRule:  # fmt: skip
    """Return a rule; `when` are fields of When, and NVIDIA's reference is the usual source."""
    return CommRule(
        name=name, variable=variable, value=value, when=When(**when), because=because,
        source=source.format(variable=variable), date=date, is_expanded=is_expanded,
    )  # fmt: skip


def when_of(entry: PlatformEnv) -> When:
    """Return when an entry of a site's own list counts."""
    return When(since=entry.since, before=entry.before, min_nodes=entry.min_nodes)


def applies(when: When, facts: CommFacts) -> bool:
    """Whether all of `when` is so."""
    return _but_for_before(when, facts) and in_range(facts.version, None, when.before)


def depends_on_release(when: When, facts: CommFacts) -> bool:
    """Whether only the release of the library, which is not known, keeps the rule away."""
    return facts.version is None and when.before is not None and _but_for_before(when, facts)


def in_range(version: NcclVersion | None, since: str | None, before: str | None) -> bool:
    """Whether a release is from `since` on and before `before`; one not known is a current one."""
    if version is None:
        return before is None
    begun = since is None or version >= NcclVersion.of(since)
    return begun and (before is None or version < NcclVersion.of(before))


def _but_for_before(when: When, facts: CommFacts) -> bool:
    return (
        (not when.interconnects or facts.interconnect in when.interconnects)
        and (not when.plugins or facts.plugin in when.plugins)
        and when.library in (None, facts.library)
        and in_range(facts.version, when.since, None)
        and facts.nodes >= when.min_nodes
        and set(when.traits) <= set(facts.traits)
    )


# --- Rules of EFA, whose plugin aws-ofi-nccl sets by itself what it needs of NCCL.

_NEMO: Final = (
    "awsome-distributed-ai, 3.test_cases/megatron/nemo/Dockerfile,"
    " https://github.com/awslabs/awsome-distributed-ai"
)

EFA_RULES: Final = (
    _rule("efa-socket-ifname", "NCCL_SOCKET_IFNAME", "^docker,lo,veth",
          interconnects=(NicKind.EFA,), min_nodes=2,
          because="bootstrap goes over the instance's own interface, whatever its name, not over"
          " a container's", source=_NEMO, date="2026-07"),
)  # fmt: skip

EFA_ADVICE: Final = (
    CommAdvice(
        name="efa-without-plugin", severity=Severity.WARNING, subject="plugin",
        when=When(interconnects=(NicKind.EFA,), plugins=(NetPlugin.NONE,), min_nodes=2),
        because="NCCL cannot use EFA without aws-ofi-nccl: traffic between nodes goes over TCP",
        source="aws-ofi-nccl, README.md, https://github.com/aws/aws-ofi-nccl",
        remedy="load aws-ofi-nccl: put its folder on LD_LIBRARY_PATH, before the image's own",
    ),
)  # fmt: skip


_TOOLKIT: Final = "https://github.com/GoogleCloudPlatform/cluster-toolkit"
_A3_HIGH: Final = f"cluster-toolkit, a3-highgpu-8g/nccl-tests/run-nccl-tests.sh, {_TOOLKIT}"
_A3_MEGA: Final = f"cluster-toolkit, a3-megagpu-8g/nccl-tests/run-nccl-tests.sh, {_TOOLKIT}"
_A3_ULTRA: Final = f"cluster-toolkit, a3-ultragpu-8g/nccl-tests/run-nccl-tests.sh, {_TOOLKIT}"
_DATE: Final = "2026-06"
# Variables that share their reason share a line of the script.
_ALONE: Final = "algorithm and protocol of Google's reference job for this plugin"
_THREADS: Final = "sockets per thread, and threads, of Google's reference job"
_SIZES: Final = "chunk and buffer size in bytes, of Google's reference job"
_TCPX_NICS: Final = ("enp6s0", "enp12s0", "enp134s0", "enp140s0")
_TX_CPUS: Final = ("8-21,112-125", "8-21,112-125", "60-73,164-177", "60-73,164-177")
_RX_CPUS: Final = ("22-35,126-139", "22-35,126-139", "74-87,178-191", "74-87,178-191")


def _bindings(cpus: tuple[str, ...]) -> str:
    return ";".join(f"{nic}:{each}" for nic, each in zip(_TCPX_NICS, cpus, strict=True))


def _gcp(plugin: NetPlugin, source: str) -> Callable[..., CommRule]:
    """What makes a rule of a plugin for jobs of several nodes, named after its variable."""

    def rule(variable: str, value: str, because: str, *, is_expanded: bool = False) -> CommRule:
        name = variable.removeprefix("NCCL_").lower().replace("_", "-")
        return _rule(
            f"{plugin.name.lower()}-{name}", variable, value, plugins=(plugin,), min_nodes=2,
            because=because, source=source, date=_DATE, is_expanded=is_expanded,
        )  # fmt: skip

    return rule


_tcpx: Final = _gcp(NetPlugin.TCPX, _A3_HIGH)
_tcpxo: Final = _gcp(NetPlugin.TCPXO, _A3_MEGA)

GCP_RULES: Final = (
    _tcpx("NCCL_NET", "GPUDirectTCPX_v7",
          "the job fails if the plugin is missing, instead of running over plain TCP"),
    _tcpx("NCCL_SOCKET_IFNAME", "enp0s12", "bootstrap goes over the NIC that carries no data"),
    _tcpx("NCCL_GPUDIRECTTCPX_CTRL_DEV", "enp0s12", "the plugin's control traffic goes there too"),
    _tcpx("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", ",".join(_TCPX_NICS), "the four data NICs"),
    _tcpx("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", "/run/tcpx-${{SLURM_JOB_ID}}",
          "socket of this job's receive daemon, which the prolog starts",
          is_expanded=True),
    _tcpx("NCCL_GPUDIRECTTCPX_TX_BINDINGS", _bindings(_TX_CPUS),
          "CPUs near each NIC for sending, separate from the ranks' CPUs"),
    _tcpx("NCCL_GPUDIRECTTCPX_RX_BINDINGS", _bindings(_RX_CPUS),
          "CPUs near each NIC for receiving"),
    _tcpx("NCCL_CROSS_NIC", "0", "each NIC is on a separate network"),
    _tcpx("NCCL_ALGO", "Ring", _ALONE),
    _tcpx("NCCL_PROTO", "Simple", _ALONE),
    _tcpx("NCCL_NSOCKS_PERTHREAD", "4", _THREADS),
    _tcpx("NCCL_SOCKET_NTHREADS", "1", _THREADS),
    _tcpx("NCCL_DYNAMIC_CHUNK_SIZE", "524288", _SIZES),
    _tcpx("NCCL_BUFFSIZE", "4194304", _SIZES),
    _tcpx("NCCL_NET_GDR_LEVEL", "PIX", "GPUDirect only with the NIC on the GPU's PCIe switch"),
    _tcpx("NCCL_P2P_PXN_LEVEL", "0", "no sending through another GPU's NIC (PXN)"),
    _tcpxo("NCCL_FASTRAK_CTRL_DEV", "enp0s12", "the plugin's control traffic, off the data NICs"),
    _tcpxo("NCCL_FASTRAK_IFNAME",
           "enp6s0,enp7s0,enp13s0,enp14s0,enp134s0,enp135s0,enp141s0,enp142s0",
           "the eight data NICs, one per GPU"),
    _tcpxo("NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY", "/dev/aperture_devices",
           "where the image keeps the plugin's devices"),
    _tcpxo("NCCL_SOCKET_IFNAME", "enp0s12", "bootstrap goes over the NIC that carries no data"),
    _gcp(NetPlugin.GIB, _A3_ULTRA)(
        "NCCL_NET", "gIB", "the job fails if the plugin is missing, instead of running plain RoCE"
        " without its settings",
    ),
)  # fmt: skip


# --- Rules of NCCL's core: rails, NVLink domains, C2C. Defaults as NCCL_PARAM in NCCL's source.

OWN_TRANSPORTS: Final = (None, NetPlugin.NONE, NetPlugin.HPCX)
"""Where no plugin owns the environment: NCCL's verbs and sockets, and NVIDIA's plugin of both."""

NCCL_RULES: Final = (
    _rule("cross-nic-isolated-rails", "NCCL_CROSS_NIC", "0", min_nodes=2, plugins=OWN_TRANSPORTS,
          traits=(Trait.ISOLATED_RAILS,),
          because="rails are not connected, and the default (2) may try to cross them; ranks on"
          " different rails still need PXN",
          source=ENV_RST + "; NVIDIA/nccl issues 836 and 2345"),
    _rule("mnnvl-loud", "NCCL_MNNVL_ENABLE", "1", min_nodes=2, library=CommLibrary.NCCL,
          since="2.21", traits=(Trait.DOMAIN_DOWN, Trait.GRACE),
          because="{domain}: with 1 a job without its NVLink domain fails (NVIDIA's reference);"
          " NCCL before 2.25 does so, later releases may still fall back to the NICs",
          source=ENV_RST + "; init.cc of v2.24.3, mnnvl.cc of"
          " v2.27.3"),
    _rule("gdr-c2c", "NCCL_NET_GDR_C2C", "1", min_nodes=2, library=CommLibrary.NCCL, since="2.26",
          before="2.27", traits=(Trait.GRACE,),
          because="NICs reach these GPUs through the CPU's NVLink-C2C, which only NCCL 2.26 leaves"
          " off by default",
          source=ENV_RST + "; paths.cc of v2.26.2 and v2.27.3"),
)  # fmt: skip

NCCL_ADVICE: Final = (
    CommAdvice(
        name="nvlink-domain", severity=Severity.WARNING, subject="GPUs",
        when=When(min_nodes=2, traits=(Trait.DOMAIN_DOWN, Trait.GRACE)),
        because="{domain}; NVLink between nodes needs the fabric manager's domain and the IMEX"
        " daemon on every node",
        source=ENV_RST.format(variable="NCCL_MNNVL_ENABLE"),
        remedy="check nvidia-smi -q -d FABRIC and nvidia-imex-ctl -N; Slurm hands out IMEX channels"
        " with SwitchType=switch/nvidia_imex",
    ),
)  # fmt: skip


# --- Rules of NCCL's IB transport, which carries InfiniBand and RoCE.

_VERBS: Final = (NicKind.INFINIBAND, NicKind.ROCE)
_LARGE_NODES: Final = 128
"""From so many nodes on hpckit calls a fabric large; NCCL's reference gives no number."""

IB_RULES: Final = (
    _rule("ib-hca-subset", "NCCL_IB_HCA", "={hcas}", interconnects=_VERBS, plugins=OWN_TRANSPORTS,
          min_nodes=2, traits=(Trait.OTHER_HCAS,),
          because="only the devices for jobs, by exact name (=); not {others}"),
    _rule("ib-hca-listed", "NCCL_IB_HCA", "={hcas}", interconnects=_VERBS, plugins=OWN_TRANSPORTS,
          min_nodes=2, traits=(Trait.LISTED_HCAS,),
          because="only the devices that the site lists for jobs, by exact name (=)"),
    _rule("ib-gid-index", "NCCL_IB_GID_INDEX", "3", interconnects=(NicKind.ROCE,),
          plugins=OWN_TRANSPORTS, min_nodes=2, before="2.21",
          because="NCCL {version} uses GID 0, mostly RoCE v1; 3 is the first IPv4 GID of RoCE v2"
          " (2.21 and later find it)",
          source=ENV_RST + "; net_ib.cc of v2.20.5 and v2.21.5"),
    _rule("ib-timeout", "NCCL_IB_TIMEOUT", "22", interconnects=_VERBS, plugins=OWN_TRANSPORTS,
          min_nodes=_LARGE_NODES, before="2.23",
          because="{nodes} nodes: NCCL before 2.23 waits at most 1.1 s for an answer, too short on"
          " large fabrics (2.23 and later: 4.3 s)",
          source=ENV_RST + "; net_ib.cc of v2.22.3 and v2.23.4"),
)  # fmt: skip


# --- Rules of UCX, which carries most MPIs over InfiniBand and RoCE.

_UCX: Final = (
    "OpenUCX, Frequently Asked Questions, Which network devices does UCX use?,"
    " https://openucx.readthedocs.io/en/master/faq.html"
)

MPI_RULES: Final = (
    _rule("ucx-net-devices", "UCX_NET_DEVICES", "{ucx_devices}",
          interconnects=(NicKind.INFINIBAND, NicKind.ROCE), min_nodes=2,
          traits=(Trait.MPI, Trait.OTHER_HCAS),
          because="MPI uses only the devices for jobs; not {others}", source=_UCX),
)  # fmt: skip


# --- Rules of RCCL beyond those that it shares with NCCL.

_TIPS: Final = (
    "RCCL usage tips, ROCm 7.14,"
    " https://rocm.docs.amd.com/projects/rccl/en/docs-7.14.0/how-to/rccl-usage-tips.html"
)

RCCL_RULES: Final = (
    _rule("rccl-pcie-peers", "HSA_FORCE_FINE_GRAIN_PCIE", "1", library=CommLibrary.RCCL,
          traits=(Trait.PCIE_PEERS,),
          because="these GPUs are connected only by PCIe, where RCCL needs it for P2P",
          source=_TIPS),
)  # fmt: skip


# --- Rules of HPE Slingshot, which NCCL and RCCL use through libfabric and a plugin.

_SLINGSHOT: Final = (NicKind.SLINGSHOT,)
_OFI: Final = (NetPlugin.AWS_OFI,)
_CSCS: Final = (
    "CSCS, Communication libraries, NCCL, https://docs.cscs.ch/software/communication/nccl/"
)
_LUMI: Final = "LUMI, PyTorch, https://docs.lumi-supercomputer.eu/software/packages/pytorch/"

SLINGSHOT_RULES: Final = (
    _rule("slingshot-socket-ifname", "NCCL_SOCKET_IFNAME", "{interfaces}", interconnects=_SLINGSHOT,
          min_nodes=2, because="bootstrap goes over Slingshot, not over the nodes' Ethernet",
          source=_LUMI, date="2024-10"),
    _rule("slingshot-gdr", "NCCL_NET_GDR_LEVEL", "PHB", interconnects=_SLINGSHOT,
          plugins=(None, NetPlugin.AWS_OFI), min_nodes=2,
          because="NCCL and RCCL see PHB between GPUs and these NICs, and by default use"
          " GPUDirect RDMA only up to PXB", source=f"{_LUMI} (as the number 3); {_CSCS}"),
    _rule("slingshot-net", "NCCL_NET", "AWS Libfabric", interconnects=_SLINGSHOT, plugins=_OFI,
          min_nodes=2,
          because="the job fails if the plugin is missing, instead of running over TCP at a"
          " fraction of the speed", source=_CSCS),
    _rule("slingshot-cross-nic", "NCCL_CROSS_NIC", "1", interconnects=_SLINGSHOT, plugins=_OFI,
          min_nodes=2,
          because="a dragonfly has no rails: rings may leave on one NIC and return on another",
          source=f"{ENV_RST}; {_CSCS}"),
    _rule("slingshot-ll128", "NCCL_PROTO", "^LL128", interconnects=_SLINGSHOT, plugins=_OFI,
          library=CommLibrary.NCCL, since="2.27", min_nodes=2, traits=(Trait.GRACE,),
          because="LL128 between nodes, on since NCCL 2.27, gave wrong sums on such nodes: NICs"
          " write to these GPUs through the CPU",
          source="NVIDIA/nccl, issue 2001, https://github.com/NVIDIA/nccl/issues/2001, and pull"
          f" request 2053; {_CSCS}"),
)  # fmt: skip

SLINGSHOT_ADVICE: Final = (
    CommAdvice(
        name="slingshot-without-plugin", severity=Severity.WARNING, subject="plugin",
        when=When(interconnects=_SLINGSHOT, plugins=(NetPlugin.NONE,), min_nodes=2),
        because="NCCL and RCCL cannot use Slingshot's RDMA without aws-ofi-nccl: traffic between"
        " nodes goes over TCP",
        source=_CSCS,
        remedy="load your site's plugin (a module or a container hook), then give"
        " --plugin aws-ofi-nccl",
    ),
    CommAdvice(
        name="slingshot-plugin-unknown", severity=Severity.NOTE, subject="plugin",
        when=When(interconnects=_SLINGSHOT, plugins=(None,), min_nodes=2),
        because="unknown whether the job loads aws-ofi-nccl; if it does, hpckit also sets NCCL_NET"
        " and NCCL_CROSS_NIC",
        source=_CSCS,
        remedy="--plugin aws-ofi-nccl, or [tune] plugin in the job file",
    ),
)  # fmt: skip

RULES: Final = (
    *(*NCCL_RULES, *IB_RULES, *EFA_RULES, *SLINGSHOT_RULES),
    *(*GCP_RULES, *RCCL_RULES, *MPI_RULES),
)
ADVICE: Final = (*NCCL_ADVICE, *EFA_ADVICE, *SLINGSHOT_ADVICE)
