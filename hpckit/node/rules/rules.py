"""The rules about nodes, as data.

What a machine has by design is a note at most: `--fail-on warning` runs in prologs, and drains a
node for no less than a fault.
"""

from __future__ import annotations

from typing import Final

from hpckit.core.findings import Check, Finding, Rule, Severity, SourcedFinding, judge
from hpckit.core.hostlist import natural_order
from hpckit.node.rules import bus, gpu
from hpckit.node.rules.rule import InspectedNode, path_cells
from hpckit.node.topology import NodeTopology

_MEMORY_ERRORS: Final = "NVIDIA GPU Memory Error Management, row remapping"
_CLOCKS: Final = "nvml.h, nvmlClocksEventReasons"

RULES: Final[tuple[Rule[Check[InspectedNode]], ...]] = (
    Rule(
        name="gpu-lost", severity=Severity.ERROR, when=gpu.gpu_lost,
        because="A GPU no longer responds: it fell off the bus, or needs a reset.",
        remedy="for your admins: dmesg | grep -i xid shows the driver's reason",
        source="nvml.h, NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED",
    ),
    Rule(
        name="gpus-fewer-than-gres", severity=Severity.ERROR, when=gpu.gpus_fewer,
        because="Slurm allocates more GPUs than the driver shows.",
        remedy="for your admins: compare nvidia-smi -L with scontrol show node",
        source="gres.conf(5): Count",
    ),
    Rule(
        name="remapping-failed", severity=Severity.ERROR, when=gpu.remapping_failed,
        because="A memory row of a GPU failed and no spare is left: replace the GPU.",
        remedy="for your admins: nvidia-smi -q -d ROW_REMAPPER -i {index}",
        source=_MEMORY_ERRORS,
    ),
    Rule(
        name="nvlink-fewer", severity=Severity.WARNING, when=gpu.fewer_nvlinks,
        because="A GPU has fewer active NVLinks than its peers, and slows them all down.",
        remedy="for your admins: nvidia-smi nvlink -s -i {index}",
        source="nvml.h, nvmlDeviceGetNvLinkState; the legend of nvidia-smi topo -m",
    ),
    Rule(
        name="partitions-fewer", severity=Severity.WARNING, when=gpu.partitions_fewer,
        because="A GPU shows fewer compute partitions than the others.",
        remedy="for your admins, unless this job has only some of them: amd-smi partition",
        source="amdgpu, compute partitions: a mode gives each GPU the same number",
    ),
    Rule(
        name="matrix-contradicts", severity=Severity.WARNING, when=bus.contradictions,
        because="Two rows of the matrix contradict each other, so one of them is wrong.",
        remedy="run nvidia-smi topo -m again; if it prints the same, check nvidia-smi nvlink -s",
        source="the legend of nvidia-smi topo -m: one path between two devices",
    ),
    Rule(
        name="pcie-width", severity=Severity.WARNING, when=bus.narrow_links,
        because="The PCIe link of a GPU or RDMA NIC has fewer lanes than both ends support, or"
            " than its peers have.",
        remedy="for your admins: reseat the card or riser; lspci -vv shows LnkSta",
        source="PCI Express Base Specification, Link Capabilities and Link Status",
    ),
    Rule(
        name="nic-down", severity=Severity.WARNING, when=bus.nic_down,
        because="A NIC for jobs has no active port.",
        remedy="for your admins: cat /sys/class/infiniband/{subject}/ports/*/phys_state",
        source="Linux Documentation/ABI/stable/sysfs-class-infiniband",
    ),
    Rule(
        name="nic-slow", severity=Severity.WARNING, when=bus.nic_slow,
        because="A NIC for jobs is slower than its peers: the slowest sets the pace for all.",
        remedy="for your admins: cat /sys/class/infiniband/{subject}/ports/*/rate",
        source="Linux Documentation/ABI/stable/sysfs-class-infiniband",
    ),
    Rule(
        name="nic-missing", severity=Severity.WARNING, when=bus.nic_missing,
        because="One GPU lacks the NIC that each of the others has next to it.",
        remedy="for your admins: lspci shows whether the card is still there",
        source="the rail-optimised designs of DGX and HGX machines, one NIC per GPU",
    ),
    Rule(
        name="gpu-without-driver", severity=Severity.WARNING, when=gpu.gpu_without_driver,
        because="A GPU in the PCI tree has no kernel driver, though its peers have one.",
        remedy="for your admins: dmesg | grep -i -e nvrm -e amdgpu",
        source="Linux Documentation/ABI/testing/sysfs-bus-pci",
    ),
    Rule(
        name="driver-silent", severity=Severity.WARNING, when=gpu.driver_silent,
        because="The PCI tree has GPUs, but their driver does not respond: jobs cannot use them.",
        remedy="for your admins: nvidia-smi; dmesg | grep -i -e nvrm -e amdgpu",
        source="nvml.h, NVML_ERROR_DRIVER_NOT_LOADED",
    ),
    Rule(
        name="remapping-pending", severity=Severity.WARNING, when=gpu.remapping_pending,
        because="Memory rows of a GPU had errors, and are replaced at its next reset.",
        remedy="for your admins: reset it while it is idle: nvidia-smi -r -i {index}",
        source=_MEMORY_ERRORS,
    ),
    Rule(
        name="ecc", severity=Severity.WARNING, when=gpu.ecc_uncorrected,
        because="A GPU had memory errors that ECC could not correct since the driver was loaded.",
        remedy="for your admins: nvidia-smi -q -d ECC -i {index}",
        source="NVIDIA GPU Memory Error Management; nvml.h, NVML_VOLATILE_ECC",
    ),
    Rule(
        name="thermal-slowdown", severity=Severity.WARNING, when=gpu.thermal_slowdown,
        because="The hardware throttles a GPU because it is too hot.",
        remedy="for your admins: nvidia-smi -q -d TEMPERATURE,PERFORMANCE -i {index}",
        source=_CLOCKS,
    ),
    Rule(
        name="power-brake", severity=Severity.WARNING, when=gpu.power_brake,
        because="The node's power supply throttles a GPU.",
        remedy="for your admins: a power supply may have failed; nvidia-smi -q -d PERFORMANCE",
        source=_CLOCKS,
    ),
    Rule(
        name="hardware-slowdown", severity=Severity.WARNING, when=gpu.hardware_slowdown,
        because="The hardware throttles a GPU and does not report why.",
        remedy="for your admins: nvidia-smi -q -d PERFORMANCE -i {index}", source=_CLOCKS,
    ),
    Rule(
        name="fabric-not-completed", severity=Severity.WARNING, when=gpu.fabric_not_completed,
        because="A GPU has not joined its NVLink fabric: CUDA may fail to start on it.",
        remedy="for your admins: systemctl status nvidia-fabricmanager; nvidia-smi -q",
        source="nvml.h, nvmlGpuFabricInfoV_t",
    ),
    Rule(
        name="fabric-unhealthy", severity=Severity.WARNING, when=gpu.fabric_unhealthy,
        because="A GPU's NVLink fabric is degraded.",
        remedy="for your admins: nvidia-smi -q -i {index}, Fabric",
        source="nvml.h, NVML_GPU_FABRIC_HEALTH_SUMMARY_*",
    ),
    Rule(
        name="nvml-sysfs-disagree", severity=Severity.WARNING, when=gpu.disagreement,
        because="The driver and the kernel report different values.",
        remedy="bind by whichever measures faster; for your admins: firmware tables may be wrong",
        source="Linux Documentation/ABI/testing/sysfs-bus-pci; nvml.h",
    ),
    Rule(
        name="nvlink-none", severity=Severity.NOTE, when=gpu.no_nvlinks,
        because="A GPU has no NVLink though others here have: a card without a bridge, or a"
            " separate card.",
        remedy="by design in many machines; if not in this one, check nvidia-smi nvlink -s",
        source="the legend of nvidia-smi topo -m",
    ),
    Rule(
        name="nvlink-bridges-uneven", severity=Severity.NOTE, when=gpu.uneven_bridges,
        because="A pair of GPUs has fewer NVLinks than other pairs: a bridge is missing or"
            " loose, or a link of it is down.",
        remedy="if all pairs should have the same number of bridges: nvidia-smi nvlink -s",
        source="the legend of nvidia-smi topo -m",
    ),
    Rule(
        name="pcie-narrow", severity=Severity.NOTE, when=bus.narrow_by_design,
        because="A GPU or RDMA NIC uses fewer PCIe lanes than it supports, as its slot or its peers"
            " do.",
        remedy="nothing to fix; another slot of the machine may have more lanes",
        source="PCI Express Base Specification, Link Capabilities and Link Status",
    ),
    Rule(
        name="pci-hidden", severity=Severity.NOTE, when=bus.pci_hidden,
        because="The PCI tree or the matrix is a hypervisor's view, not the board's.",
        remedy="if this is a cloud VM, set NCCL_TOPO_FILE to the provider's topology file",
        source="NCCL environment variables: NCCL_TOPO_FILE",
    ),
    Rule(
        name="no-close-nic", severity=Severity.NOTE, when=bus.no_close_nic,
        because="Traffic between a GPU and any NIC crosses the CPU.", remedy="nothing to fix; "
            "NCCL_NET_GDR_LEVEL sets whether GPUDirect RDMA is used over that distance",
        source="NCCL environment variables: NCCL_NET_GDR_LEVEL",
    ),
    Rule(
        name="nic-unused", severity=Severity.NOTE, when=bus.nic_unused,
        because="A NIC that is not for jobs, or of unknown role, has no active port.",
        remedy="ignore if the port is not cabled",
        source="Linux Documentation/ABI/stable/sysfs-class-infiniband",
    ),
    Rule(
        name="port-down", severity=Severity.NOTE, when=bus.port_down,
        because="One port of a NIC for jobs is down and another is up.",
        remedy="ignore if the port is not cabled",
        source="Linux Documentation/ABI/stable/sysfs-class-infiniband",
    ),
    Rule(
        name="gpus-hidden", severity=Severity.NOTE, when=gpu.gpus_hidden,
        because="The node has GPUs that are not visible here: a container or Slurm hides them.",
        remedy="normal in a job: Slurm shows only the GPUs that the job requested",
        source="slurm.conf(5): ConstrainDevices in cgroup.conf(5)",
    ),
    Rule(
        name="driver-library-missing", severity=Severity.NOTE, when=gpu.without_library,
        because="The PCI tree has GPUs, but the driver library to query them is missing.",
        remedy="in a container: start it with docker --gpus all or apptainer --nv",
        source="nvml.h, NVML_ERROR_LIBRARY_NOT_FOUND",
    ),
    Rule(
        name="remapped-rows", severity=Severity.NOTE, when=gpu.remapped_rows,
        because="Memory rows of a GPU were replaced by spares; the GPU works.",
        remedy="nothing to fix; watch the count: nvidia-smi -q -d ROW_REMAPPER -i {index}",
        source=_MEMORY_ERRORS,
    ),
    Rule(
        name="ecc-past", severity=Severity.NOTE, when=gpu.ecc_past,
        because="A GPU had uncorrected memory errors, but none since the driver was loaded.",
        remedy="nothing to fix", source="nvml.h, NVML_AGGREGATE_ECC",
    ),
    Rule(
        name="ecc-off", severity=Severity.NOTE, when=gpu.ecc_uneven,
        because="ECC is off on a GPU and on for most of its peers.",
        remedy="if not intended, for your admins: nvidia-smi -e 1 -i {index}, then a reset",
        source="nvml.h, nvmlDeviceGetEccMode",
    ),
    Rule(
        name="thermal-limit", severity=Severity.NOTE, when=gpu.thermal_software,
        because="The driver throttles a GPU because it is warm.",
        remedy="if it lasts, for your admins: nvidia-smi -q -d TEMPERATURE -i {index}",
        source=_CLOCKS,
    ),
    Rule(
        name="mig-on", severity=Severity.NOTE, when=gpu.mig_on,
        because="A GPU is split by MIG: a process uses one MIG device, and these have no NVLink.",
        remedy="request one: --gpus-per-node 1 --gpu-type 1g.10gb; nvidia-smi -L lists them",
        source="NVIDIA Multi-Instance GPU User Guide",
    ),
)  # fmt: skip


def node_findings(
    topology: NodeTopology, *, expected_gpus: int | None = None
) -> tuple[SourcedFinding, ...]:
    """Return what is odd about a node, the worst first, then by subject in natural order.

    `expected_gpus` is how many Slurm's gres says this process should see: in a prolog those of the
    node, in a job those that it was given. Paths and the roles of NICs are used, so `with_paths`
    and `with_nic_roles` come first.
    """
    node = InspectedNode(
        topology=topology, cells=path_cells(topology.paths), expected_gpus=expected_gpus
    )

    def place(finding: Finding) -> tuple[object, ...]:
        subject = natural_order(finding.subject)
        return (-finding.severity.rank, subject, finding.rule, finding.because)

    return tuple(sorted(judge(RULES, node), key=place))
