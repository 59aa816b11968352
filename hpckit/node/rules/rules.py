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
        because="A GPU answers no more: it fell off the bus, or waits for a reset.",
        remedy="tell your operator; the driver's reason: dmesg | grep -i xid",
        source="nvml.h, NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED",
    ),
    Rule(
        name="gpus-fewer-than-gres", severity=Severity.ERROR, when=gpu.gpus_fewer,
        because="Slurm gives out more GPUs than the driver shows.",
        remedy="tell your operator: compare nvidia-smi -L with scontrol show node",
        source="gres.conf(5): Count",
    ),
    Rule(
        name="remapping-failed", severity=Severity.ERROR, when=gpu.remapping_failed,
        because="A row of a GPU's memory is broken and no spare is left: it is to be replaced.",
        remedy="tell your operator: nvidia-smi -q -d ROW_REMAPPER -i {index}",
        source=_MEMORY_ERRORS,
    ),
    Rule(
        name="nvlink-fewer", severity=Severity.WARNING, when=gpu.fewer_nvlinks,
        because="A GPU has fewer active NVLinks than those like it, and slows them all down.",
        remedy="tell your operator: nvidia-smi nvlink -s -i {index}",
        source="nvml.h, nvmlDeviceGetNvLinkState; the legend of nvidia-smi topo -m",
    ),
    Rule(
        name="pcie-width", severity=Severity.WARNING, when=bus.narrow_links,
        because="The PCIe link of a GPU or RDMA NIC has fewer lanes than both its ends or its"
            " twins.",
        remedy="tell your operator: the card or riser may not sit well; lspci -vv shows LnkSta",
        source="PCI Express Base Specification, Link Capabilities and Link Status",
    ),
    Rule(
        name="nic-down", severity=Severity.WARNING, when=bus.nic_down,
        because="A NIC for jobs has no active port.",
        remedy="tell your operator: cat /sys/class/infiniband/{subject}/ports/*/phys_state",
        source="Linux Documentation/ABI/stable/sysfs-class-infiniband",
    ),
    Rule(
        name="nic-slow", severity=Severity.WARNING, when=bus.nic_slow,
        because="A NIC for jobs is slower than those like it: the slowest sets the pace of all.",
        remedy="tell your operator: cat /sys/class/infiniband/{subject}/ports/*/rate",
        source="Linux Documentation/ABI/stable/sysfs-class-infiniband",
    ),
    Rule(
        name="nic-missing", severity=Severity.WARNING, when=bus.nic_missing,
        because="One GPU lacks the NIC that each of the others has beside it.",
        remedy="tell your operator: lspci may show whether the card is still there",
        source="the rail-optimised designs of DGX and HGX machines, one NIC a GPU",
    ),
    Rule(
        name="gpu-without-driver", severity=Severity.WARNING, when=gpu.gpu_without_driver,
        because="The PCI tree has a GPU that no kernel driver has taken, though its twins have"
            " one.",
        remedy="tell your operator: dmesg | grep -i -e nvrm -e amdgpu",
        source="Linux Documentation/ABI/testing/sysfs-bus-pci",
    ),
    Rule(
        name="driver-silent", severity=Severity.WARNING, when=gpu.driver_silent,
        because="The PCI tree has GPUs, and their driver cannot be asked: jobs cannot use them.",
        remedy="tell your operator: nvidia-smi; dmesg | grep -i -e nvrm -e amdgpu",
        source="nvml.h, NVML_ERROR_DRIVER_NOT_LOADED",
    ),
    Rule(
        name="remapping-pending", severity=Severity.WARNING, when=gpu.remapping_pending,
        because="Rows of a GPU's memory had errors and are replaced at its next reset.",
        remedy="tell your operator to reset it while it is idle: nvidia-smi -r -i {index}",
        source=_MEMORY_ERRORS,
    ),
    Rule(
        name="ecc", severity=Severity.WARNING, when=gpu.ecc_uncorrected,
        because="A GPU's memory had errors that ECC could not correct since its driver was loaded.",
        remedy="tell your operator: nvidia-smi -q -d ECC -i {index}",
        source="NVIDIA GPU Memory Error Management; nvml.h, NVML_VOLATILE_ECC",
    ),
    Rule(
        name="thermal-slowdown", severity=Severity.WARNING, when=gpu.thermal_slowdown,
        because="The hardware holds a GPU's clocks down because it is too hot.",
        remedy="tell your operator: nvidia-smi -q -d TEMPERATURE,PERFORMANCE -i {index}",
        source=_CLOCKS,
    ),
    Rule(
        name="power-brake", severity=Severity.WARNING, when=gpu.power_brake,
        because="The node's power supply holds a GPU's clocks down.",
        remedy="tell your operator: a power supply may have failed; nvidia-smi -q -d PERFORMANCE",
        source=_CLOCKS,
    ),
    Rule(
        name="hardware-slowdown", severity=Severity.WARNING, when=gpu.hardware_slowdown,
        because="The hardware holds a GPU's clocks down and does not say why.",
        remedy="tell your operator: nvidia-smi -q -d PERFORMANCE -i {index}", source=_CLOCKS,
    ),
    Rule(
        name="fabric-not-completed", severity=Severity.WARNING, when=gpu.fabric_not_completed,
        because="A GPU has not joined its NVLink fabric: CUDA may not start on it.",
        remedy="tell your operator: systemctl status nvidia-fabricmanager; nvidia-smi -q",
        source="nvml.h, nvmlGpuFabricInfoV_t",
    ),
    Rule(
        name="fabric-unhealthy", severity=Severity.WARNING, when=gpu.fabric_unhealthy,
        because="A GPU's NVLink fabric works with less than it should have.",
        remedy="tell your operator: nvidia-smi -q -i {index}, Fabric",
        source="nvml.h, NVML_GPU_FABRIC_HEALTH_SUMMARY_*",
    ),
    Rule(
        name="nvml-sysfs-disagree", severity=Severity.WARNING, when=gpu.disagreement,
        because="The driver and the kernel contradict each other.",
        remedy="bind by what measures better, and tell your operator: firmware tables may be wrong",
        source="Linux Documentation/ABI/testing/sysfs-bus-pci; nvml.h",
    ),
    Rule(
        name="nvlink-none", severity=Severity.NOTE, when=gpu.no_nvlinks,
        because="A GPU has no NVLink though others here have: a card without a bridge, or one"
            " apart.",
        remedy="by design in many machines; if not in this one: nvidia-smi nvlink -s",
        source="the legend of nvidia-smi topo -m",
    ),
    Rule(
        name="nvlink-bridges-uneven", severity=Severity.NOTE, when=gpu.uneven_bridges,
        because="A pair of GPUs is joined by fewer NVLinks than other pairs: fewer or loose"
            " bridges.",
        remedy="if all pairs should have as many bridges: nvidia-smi nvlink -s",
        source="the legend of nvidia-smi topo -m",
    ),
    Rule(
        name="pcie-narrow", severity=Severity.NOTE, when=bus.narrow_by_design,
        because="A GPU or RDMA NIC has fewer PCIe lanes than it can have, as its slot or its"
            " twins.",
        remedy="nothing to mend; another slot of the machine may have more lanes",
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
        because="Traffic between a GPU and any NIC crosses the CPU.", remedy="nothing to mend; "
            "NCCL_NET_GDR_LEVEL decides whether GPUDirect RDMA is used over that distance",
        source="NCCL environment variables: NCCL_NET_GDR_LEVEL",
    ),
    Rule(
        name="nic-unused", severity=Severity.NOTE, when=bus.nic_unused,
        because="A NIC that is not known to be for jobs has no active port.",
        remedy="nothing to mend if it is not cabled",
        source="Linux Documentation/ABI/stable/sysfs-class-infiniband",
    ),
    Rule(
        name="port-down", severity=Severity.NOTE, when=bus.port_down,
        because="One port of a NIC for jobs is down and another is up.",
        remedy="nothing to mend if it is not cabled",
        source="Linux Documentation/ABI/stable/sysfs-class-infiniband",
    ),
    Rule(
        name="gpus-hidden", severity=Severity.NOTE, when=gpu.gpus_hidden,
        because="The node has GPUs that are not shown here: a container or Slurm keeps them away.",
        remedy="in a job as it should be: Slurm shows the GPUs that were asked for",
        source="slurm.conf(5): ConstrainDevices in cgroup.conf(5)",
    ),
    Rule(
        name="driver-library-missing", severity=Severity.NOTE, when=gpu.without_library,
        because="The PCI tree has GPUs, and the library that could tell of them is not here.",
        remedy="in a container: start it with docker --gpus all or apptainer --nv",
        source="nvml.h, NVML_ERROR_LIBRARY_NOT_FOUND",
    ),
    Rule(
        name="remapped-rows", severity=Severity.NOTE, when=gpu.remapped_rows,
        because="Rows of a GPU's memory were replaced by spare ones, and it works on.",
        remedy="nothing to mend; watch it grow: nvidia-smi -q -d ROW_REMAPPER -i {index}",
        source=_MEMORY_ERRORS,
    ),
    Rule(
        name="ecc-past", severity=Severity.NOTE, when=gpu.ecc_past,
        because="A GPU's memory had uncorrected errors, and none since its driver was loaded.",
        remedy="nothing to mend", source="nvml.h, NVML_AGGREGATE_ECC",
    ),
    Rule(
        name="ecc-off", severity=Severity.NOTE, when=gpu.ecc_uneven,
        because="ECC is off in a GPU and on in most of its twins.",
        remedy="if that is not meant, tell your operator: nvidia-smi -e 1 -i {index}, then a reset",
        source="nvml.h, nvmlDeviceGetEccMode",
    ),
    Rule(
        name="thermal-limit", severity=Severity.NOTE, when=gpu.thermal_software,
        because="The driver holds a GPU's clocks down because it is warm.",
        remedy="if it lasts, tell your operator: nvidia-smi -q -d TEMPERATURE -i {index}",
        source=_CLOCKS,
    ),
    Rule(
        name="mig-on", severity=Severity.NOTE, when=gpu.mig_on,
        because="A GPU is divided by MIG: a process uses one part, and parts have no NVLink.",
        remedy="ask for parts: --gpus-per-node 1 --gpu-type 1g.10gb; nvidia-smi -L lists them",
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
