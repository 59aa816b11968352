"""Rules of Google's plugins: TCPX takes a list, TCPXO and gIB own their environment."""

from __future__ import annotations

from typing import Final

from hpckit.decide.comm_rule import CommRule, When
from hpckit.model.comm import NetPlugin

_TOOLKIT: Final = "https://github.com/GoogleCloudPlatform/cluster-toolkit"
_A3_HIGH: Final = f"cluster-toolkit, a3-highgpu-8g/nccl-tests/run-nccl-tests.sh, {_TOOLKIT}"
_A3_MEGA: Final = f"cluster-toolkit, a3-megagpu-8g/nccl-tests/run-nccl-tests.sh, {_TOOLKIT}"
_A3_ULTRA: Final = f"cluster-toolkit, a3-ultragpu-8g/nccl-tests/run-nccl-tests.sh, {_TOOLKIT}"
_DATE: Final = "2026-06"
_TCPX_NICS: Final = ("enp6s0", "enp12s0", "enp134s0", "enp140s0")
_TX_CPUS: Final = ("8-21,112-125", "8-21,112-125", "60-73,164-177", "60-73,164-177")
_RX_CPUS: Final = ("22-35,126-139", "22-35,126-139", "74-87,178-191", "74-87,178-191")


def _bindings(cpus: tuple[str, ...]) -> str:
    return ";".join(f"{nic}:{each}" for nic, each in zip(_TCPX_NICS, cpus, strict=True))


def _tcpx(variable: str, value: str, because: str, *, is_expanded: bool = False) -> CommRule:
    return CommRule(
        name=f"tcpx-{variable.removeprefix('NCCL_').lower().replace('_', '-')}",
        variable=variable, value=value, is_expanded=is_expanded,
        when=When(plugins=(NetPlugin.TCPX,), min_nodes=2),
        because=because, source=_A3_HIGH, date=_DATE,
    )  # fmt: skip


def _tcpxo(variable: str, value: str, because: str) -> CommRule:
    return CommRule(
        name=f"tcpxo-{variable.removeprefix('NCCL_').lower().replace('_', '-')}",
        variable=variable, value=value,
        when=When(plugins=(NetPlugin.TCPXO,), min_nodes=2),
        because=because, source=_A3_MEGA, date=_DATE,
    )  # fmt: skip


GCP_RULES: Final = (
    _tcpx("NCCL_NET", "GPUDirectTCPX_v7", "a missing plugin ends the job, instead of plain TCP"),
    _tcpx("NCCL_SOCKET_IFNAME", "enp0s12", "ranks meet over the NIC that is not for data"),
    _tcpx("NCCL_GPUDIRECTTCPX_CTRL_DEV", "enp0s12", "the plugin's own control goes there too"),
    _tcpx("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", ",".join(_TCPX_NICS), "the four NICs for data"),
    _tcpx("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", "/run/tcpx-${{SLURM_JOB_ID}}",
          "where the receive daemon of this job listens, which the prolog starts",
          is_expanded=True),
    _tcpx("NCCL_GPUDIRECTTCPX_TX_BINDINGS", _bindings(_TX_CPUS),
          "CPUs near each NIC that send, apart from those of the ranks"),
    _tcpx("NCCL_GPUDIRECTTCPX_RX_BINDINGS", _bindings(_RX_CPUS),
          "CPUs near each NIC that receive"),
    _tcpx("NCCL_CROSS_NIC", "0", "each NIC has a network of its own"),
    _tcpx("NCCL_ALGO", "Ring", "rings alone, as Google's reference job has it for this plugin"),
    _tcpx("NCCL_PROTO", "Simple", "Simple alone, as Google's reference job has it for this plugin"),
    _tcpx("NCCL_NSOCKS_PERTHREAD", "4", "connections of a thread, as in Google's reference job"),
    _tcpx("NCCL_SOCKET_NTHREADS", "1", "one thread for them, as in Google's reference job"),
    _tcpx("NCCL_DYNAMIC_CHUNK_SIZE", "524288", "bytes of a chunk, as in Google's reference job"),
    _tcpx("NCCL_BUFFSIZE", "4194304", "bytes of a buffer, as in Google's reference job"),
    _tcpx("NCCL_NET_GDR_LEVEL", "PIX", "GPUDirect for the NIC below the GPU's own switch alone"),
    _tcpx("NCCL_P2P_PXN_LEVEL", "0", "no sending through another GPU's NIC"),
    _tcpxo("NCCL_FASTRAK_CTRL_DEV", "enp0s12", "the plugin's control, off the NICs for data"),
    _tcpxo("NCCL_FASTRAK_IFNAME",
           "enp6s0,enp7s0,enp13s0,enp14s0,enp134s0,enp135s0,enp141s0,enp142s0",
           "the eight NICs for data, one a GPU"),
    _tcpxo("NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY", "/dev/aperture_devices",
           "where the image has the devices of the plugin"),
    _tcpxo("NCCL_SOCKET_IFNAME", "enp0s12", "ranks meet over the NIC that is not for data"),
    CommRule(
        name="gib-net", variable="NCCL_NET", value="gIB",
        when=When(plugins=(NetPlugin.GIB,), min_nodes=2),
        because="a missing plugin ends the job, instead of plain RoCE without its settings",
        source=_A3_ULTRA, date=_DATE,
    ),
)  # fmt: skip
