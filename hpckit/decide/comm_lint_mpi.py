"""Rules about UCX and MPI libraries."""

from __future__ import annotations

import re
from typing import Final

from hpckit.core.findings import Severity
from hpckit.decide.comm_lint_ib import some
from hpckit.decide.comm_lint_rule import LintRule, Scene, Seen, Setting
from hpckit.model.comm import CommLibrary

_UCX: Final = "UCX documentation, frequently asked questions"
_OMPI: Final = "Open MPI documentation 5.0, what is new"
_TRANSPORTS: Final = {CommLibrary.NCCL: ("cuda", "gpu"), CommLibrary.RCCL: ("rocm", "gpu")}


def _no_gpu(one: Setting, scene: Scene) -> Seen | None:
    """A list of transports without one that knows GPU memory."""
    value = (one.value or "").strip().lower()
    if not value or value.startswith("^") or scene.library is None:
        return None
    names = value.split(",")
    gpu = _TRANSPORTS[scene.library]
    has_gpu = "all" in names or any(name.strip().startswith(gpu) for name in names)
    return None if has_gpu else Seen(do=gpu[0])


def _slow(one: Setting, _: Scene) -> Seen | None:
    names = {name.strip() for name in (one.value or "").lower().split(",")}
    fast = {"all", "ib", "rc", "dc", "ud", "rc_x", "dc_x", "ud_x", "rc_v", "ud_v", "rc_mlx5",
            "dc_mlx5", "ud_mlx5", "rc_verbs", "ud_verbs", "srd", "gdr_copy"}  # fmt: skip
    is_list = bool(names - {""}) and not any(name.startswith("^") for name in names)
    return Seen() if is_list and "tcp" in names and not names & fast else None


def _absent(one: Setting, scene: Scene) -> Seen | None:
    """Devices of UCX, none of which is here."""
    nics, interfaces = scene.facts.nics, scene.facts.interfaces
    value = (one.value or "").strip()
    if nics is None or interfaces is None or not value or value in ("all", "^"):
        return None
    names = [part.strip().split(":", 1)[0] for part in value.split(",")]
    here = (*nics, *interfaces)
    return None if any(name in here for name in names) else Seen(some(here) or "none")


def _no_port(one: Setting, _: Scene) -> Seen | None:
    names = [part.strip() for part in (one.value or "").split(",")]
    bare = [name for name in names if re.fullmatch(r"mlx[45]_\w+", name, re.ASCII)]
    return Seen(some(bare), do=",".join(f"{name}:1" if name in bare else name for name in names)
                ) if bare else None  # fmt: skip


def _absent_tcp(one: Setting, scene: Scene) -> Seen | None:
    interfaces, value = scene.facts.interfaces, (one.value or "").strip()
    names = [part.strip() for part in value.split(",")]
    if interfaces is None or not value or "/" in value:
        return None
    return None if any(name in interfaces for name in names) else Seen(some(interfaces) or "none")


MPI_RULES: Final = (
    LintRule(
        name="ucx-no-gpu", names=("UCX_TLS",), severity=Severity.WARNING, when=_no_gpu,
        because="without {do} UCX does not know GPU memory, and MPI fails on buffers there",
        remedy="leave it out, or add {do}", source=_UCX,
    ),
    LintRule(
        name="ucx-tcp", names=("UCX_TLS",), severity=Severity.NOTE, when=_slow,
        nodes="not one",
        because="all traffic of MPI between nodes goes over TCP; enough where MPI only starts NCCL",
        remedy="leave it out: UCX chooses", source=_UCX,
    ),
    LintRule(
        name="ucx-device-absent", names=("UCX_NET_DEVICES",), severity=Severity.ERROR,
        when=_absent, because="this node has no such device; it has {seen}",
        remedy="leave it out, or name devices that are here", source=_UCX,
    ),
    LintRule(
        name="ucx-device-port", names=("UCX_NET_DEVICES",), severity=Severity.WARNING,
        when=_no_port,
        because="releases of UCX before 2026 know an RDMA device with its port alone; to them"
        " {seen} matches nothing",
        remedy="UCX_NET_DEVICES={do}", source="ucx#11142",
    ),
    LintRule(
        name="ucx-log", names=("UCX_LOG_LEVEL",), severity=Severity.WARNING,
        value="debug|trace.*|req|data|async|func|poll",
        because="each request writes lines", remedy="leave it out", source=_UCX,
    ),
    LintRule(
        name="ompi-openib", names=("OMPI_MCA_btl",), severity=Severity.WARNING,
        value=r"(?!\^).*\bopenib\b.*",
        because="openib is gone from Open MPI 5.0, and not used with UCX since 4.0",
        remedy="leave it out: UCX (pml ucx) carries InfiniBand", source=_OMPI,
    ),
    LintRule(
        name="ompi-openib-option", names=("OMPI_MCA_btl_openib_*",), severity=Severity.NOTE,
        because="openib is gone from Open MPI 5.0", remedy="leave it out", source=_OMPI,
    ),
    LintRule(
        name="ompi-vader", names=("OMPI_MCA_btl",), severity=Severity.NOTE,
        value=r"(?!\^).*\bvader\b.*", because="called sm from Open MPI 5.0 on",
        remedy="leave it out", source=_OMPI,
    ),
    LintRule(
        name="ompi-ob1", names=("OMPI_MCA_pml",), severity=Severity.WARNING, value="ob1",
        nodes="not one",
        because="without UCX, Open MPI 4 and later reach InfiniBand by TCP alone",
        remedy="leave it out, or OMPI_MCA_pml=ucx", source=_OMPI,
    ),
    LintRule(
        name="ompi-interface-absent",
        names=("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include"),
        severity=Severity.ERROR, when=_absent_tcp,
        because="this node has no such interface; it has {seen}",
        remedy="leave it out, or name a network: 10.0.0.0/8",
        source="Open MPI documentation, TCP",
    ),
    LintRule(
        name="impi-fabrics", names=("I_MPI_FABRICS",), severity=Severity.ERROR,
        value=r"(shm:)?(dapl|ofa|tmi|tcp)",
        because="gone from Intel MPI 2019 on, where libfabric (ofi) carries all",
        remedy="leave it out, or I_MPI_FABRICS=shm:ofi", source="Intel MPI Library release notes",
    ),
    LintRule(
        name="mpich-gpu-old", names=("MPICH_RDMA_ENABLED_CUDA",), severity=Severity.NOTE,
        because="of Cray MPICH on older systems; on EX it is MPICH_GPU_SUPPORT_ENABLED",
        remedy="MPICH_GPU_SUPPORT_ENABLED=1", source="intro_mpi(3) of Cray MPICH",
    ),
)  # fmt: skip
