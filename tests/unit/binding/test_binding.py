"""Binding of ranks on machines whose peculiarities have a rule of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpckit.binding.bind import NodeBinding, bind_ranks
from hpckit.binding.gpus import gpus_of_step
from hpckit.core.errors import PlanError
from hpckit.core.index_list import IndexList, expand_indices, index_list
from hpckit.node.merge import complete
from hpckit.node.path import PathTable
from hpckit.node.pci import PciAddress
from hpckit.node.topology import (
    CpuTopology,
    Gpu,
    L3Group,
    Nic,
    NicRole,
    NodeTopology,
    NumaKind,
    NumaNode,
    Source,
)
from hpckit.spec.nic_kind import NicKind
from tests.fakes.machines import dgx_h100, gb200_tray


def node(
    numa: int, cores: int, *, smt: int = 1, l3: int = 0, gpus: tuple[int | None, ...] = ()
) -> NodeTopology:
    """NUMA nodes in a row, each next nearer; `l3` cores share a cache; GPUs by their NUMA nodes."""
    count = numa * cores
    core_cpus = [tuple(range(at, at + smt * count, count)) for at in range(count)]

    def cpus(first: int, many: int) -> IndexList:
        return index_list(cpu for core in core_cpus[first : first + many] for cpu in core)

    return NodeTopology(
        source=Source(format="test"),
        cpu=CpuTopology(
            cpus=cpus(0, count),
            core_cpus=tuple(map(index_list, core_cpus)),
            l3=tuple(L3Group(cpus=cpus(at, l3)) for at in range(0, count, l3)) if l3 else (),
        ),
        numa_nodes=tuple(
            NumaNode(
                index=at,
                cpus=cpus(at * cores, cores),
                memory_bytes=2**36,
                distances=tuple(10 + abs(at - to) for to in range(numa)),
            )
            for at in range(numa)
        ),
        gpus=tuple(
            Gpu(index=at, numa_index=where, pci=PciAddress(f"0000:{at + 1:02x}:00.0"))
            for at, where in enumerate(gpus)
        ),
    )


def cpus(binding: NodeBinding) -> list[str]:
    """The CPUs of each rank."""
    return [rank.cpus for rank in binding.ranks]


def nics(binding: NodeBinding) -> list[str]:
    """The NICs of each rank."""
    return [",".join(rank.nics) for rank in binding.ranks]


def with_nics(topology: NodeTopology, *rows: str, nics: tuple[Nic, ...] = ()) -> NodeTopology:
    """The node with a NIC for each column of rows of paths, a row a GPU."""
    count = len(rows[0].split())
    names = (*(f"GPU{at}" for at in range(len(rows))), *(f"mlx5_{at}" for at in range(count)))
    given = {(at, to): cell for at, row in enumerate(rows) for to, cell in enumerate(row.split())}
    first = len(rows)
    cells = tuple(
        tuple(
            "X" if a == b else given.get((min(a, b), max(a, b) - first)) for b in range(len(names))
        )
        for a in range(len(names))
    )
    made = tuple(
        Nic(index=at, name=f"mlx5_{at}", kind=NicKind.INFINIBAND, role=NicRole.COMPUTE)
        for at in range(count)
    )
    table = PathTable(devices=names, cells=cells)
    return replace(topology, nics=nics or made, paths=table)


def test_whole_l3_groups_of_the_gpus_numa_node() -> None:
    """As on LUMI: four NUMA nodes of two L3 groups, GPUs on them crosswise, a group each."""
    lumi = node(4, 16, l3=8, gpus=(3, 3, 1, 1, 0, 0, 2, 2))
    assert cpus(bind_ranks(lumi, 8)) == [
        "48-55", "56-63", "16-23", "24-31", "0-7", "8-15", "32-39", "40-47",
    ]  # fmt: skip
    assert bind_ranks(lumi, 8).ranks[2].cpus_because == "1 of 2 L3 groups of NUMA 1, near GPU 2"


def test_cores_with_their_siblings() -> None:
    """A rank has its cores with all their threads, or as many threads of each as are asked for."""
    box = node(2, 4, smt=2, gpus=(0, 0, 1, 1))
    assert cpus(bind_ranks(box, 4)) == ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]
    assert cpus(bind_ranks(box, 4, threads_per_core=1)) == ["0-1", "2-3", "4-5", "6-7"]
    assert cpus(bind_ranks(box, 2, allowed=(0, 9, 4, 5), gpus_per_rank=2)) == ["0,9", "4-5"]


def test_a_gpu_whose_cpus_are_not_allowed_gets_the_nearest() -> None:
    """Of NUMA nodes with allowed CPUs the nearest by the firmware's distances, and it is said."""
    box = node(4, 4, gpus=(0, 3))
    binding = bind_ranks(box, 2, allowed=(0, 1, 8, 9))
    assert cpus(binding) == ["0-1", "8-9"]
    assert binding.ranks[1].cpus_because == (
        "all 2 cores of NUMA 2, nearest with room: no allowed CPU on NUMA 3, near GPU 1"
    )
    assert binding.ranks[1].memory_numa == "2"
    assert binding.notes[0] == "not near its GPU: rank 1"


def test_threads_are_no_room_while_there_are_cores() -> None:
    """Three ranks beside two cores of two threads: the third goes, and no core is shared."""
    assert cpus(bind_ranks(node(2, 2, smt=2, gpus=(0, 0, 0)), 3)) == ["0,4", "1,5", "2-3,6-7"]


def test_cores_are_shared_by_threads_then_wholly() -> None:
    """More ranks than cores get threads of one; more than CPUs share them; both are said."""
    box = node(1, 2, smt=2, gpus=(0,))
    assert cpus(bind_ranks(box, 3)) == ["0,2", "1", "3"]
    assert cpus(bind_ranks(box, 5)) == ["0", "0", "2", "1", "3"]
    notes = bind_ranks(box, 5).notes
    assert notes[0] == "ranks share cores: 5 ranks on 2 allowed cores"


def test_gpus_of_unknown_place() -> None:
    """In a guest that tells no GPU's NUMA node the ranks are dealt over the NUMA nodes."""
    guest = node(2, 4, gpus=(None, None, None, None))
    assert cpus(bind_ranks(guest, 4)) == ["0-1", "2-3", "4-5", "6-7"]
    assert "NUMA nodes of the GPUs unknown" in bind_ranks(guest, 4).ranks[0].cpus_because
    bare = replace(guest, numa_nodes=())
    assert cpus(bind_ranks(bare, 4)) == ["0-1", "2-3", "4-5", "6-7"]
    assert bind_ranks(bare, 4).ranks[0].memory_numa == ""


def test_cpu_affinity_stands_in_for_a_numa_node() -> None:
    """A GPU without a NUMA node is beside the CPUs of its affinity, also of a part of a node."""
    box = node(1, 8, gpus=(None, None))
    gpus = tuple(
        replace(gpu, numa_index=None, cpus=IndexList(cpus))
        for gpu, cpus in zip(box.gpus, ("4-7", "0-3"), strict=True)
    )
    assert cpus(bind_ranks(replace(box, gpus=gpus), 2)) == ["4-7", "0-3"]


def test_a_matrix_alone() -> None:
    """Of a matrix, GPUs tell the NUMA nodes and their CPUs, and numbers tell siblings."""
    gpus = tuple(
        Gpu(index=at, numa_index=at, cpus=IndexList(text))
        for at, text in enumerate(("0-3,8-11", "4-7,12-15"))
    )
    seen = NodeTopology(source=Source(format="nvidia-smi"), gpus=gpus)
    assert cpus(bind_ranks(seen, 4)) == ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]
    assert [rank.memory_numa for rank in bind_ranks(seen, 2).ranks] == ["0", "1"]


def test_memory_of_gpus_and_hbm_is_not_taken() -> None:
    """On Grace the NUMA nodes of GPU memory have no CPUs: memory is that of the CPUs."""
    tray = complete(gb200_tray())
    binding = bind_ranks(tray, 4)
    kinds = {one.index: one.kind for one in tray.numa_nodes}
    assert NumaKind.GPU in kinds.values()
    for rank in binding.ranks:
        taken = [kinds[at] for at in expand_indices(rank.memory_numa)]
        assert taken
        assert NumaKind.GPU not in taken
    flat = node(1, 4, gpus=(0,))
    hbm = NumaNode(index=1, cpus=flat.numa_nodes[0].cpus, memory_bytes=2**36, kind=NumaKind.HBM)
    both = replace(flat, numa_nodes=(*flat.numa_nodes, hbm))
    assert bind_ranks(both, 1).ranks[0].memory_numa == "0"


def test_a_node_without_memory_takes_the_nearest() -> None:
    """CPUs without memory of their own take that of the nearest NUMA node, and it is said."""
    box = node(3, 2, gpus=(0, 1, 2))
    numa = (*box.numa_nodes[:2], replace(box.numa_nodes[2], memory_bytes=0))
    rank = bind_ranks(replace(box, numa_nodes=numa), 3).ranks[2]
    assert (rank.cpus, rank.memory_numa) == ("4-5", "1")
    assert rank.memory_because == "nearest: NUMA 2 has no memory"


def test_positions_are_cudas() -> None:
    """GPUs are counted by PCI address, as CUDA does, not as the driver's index has them."""
    box = node(1, 4, gpus=(0, 0, 0))
    far = ("10000:01:00.0", "0000:41:00.0", "0001:01:00.0")
    gpus = tuple(replace(gpu, pci=PciAddress(at)) for gpu, at in zip(box.gpus, far, strict=True))
    binding = bind_ranks(replace(box, gpus=gpus), 3)
    assert [rank.gpus[0].index for rank in binding.ranks] == [1, 2, 0]
    assert [rank.gpus[0].position for rank in binding.ranks] == [0, 1, 2]


def test_gpus_in_runs() -> None:
    """Several a rank or several ranks a GPU are runs; so many a rank can be asked for."""
    box = node(1, 8, gpus=(0,) * 4)

    def held(ranks: int, gpus_per_rank: int | None = None) -> list[list[int]]:
        binding = bind_ranks(box, ranks, gpus_per_rank=gpus_per_rank)
        return [[gpu.position for gpu in rank.gpus] for rank in binding.ranks]

    assert held(2) == [[0, 1], [2, 3]]
    assert held(3) == [[0, 1], [2], [3]]
    assert held(8) == [[0], [0], [1], [1], [2], [2], [3], [3]]
    assert held(2, 1) == [[0], [1]]
    with pytest.raises(PlanError, match=r"3 ranks × 2"):
        held(3, 2)


def test_cpus_of_another_machine_are_refused() -> None:
    """Allowed CPUs that the node does not have are those of another; a node has a rank or more."""
    with pytest.raises(PlanError, match="1 or more"):
        bind_ranks(dgx_h100(), 0)
    with pytest.raises(PlanError, match="CPUs 64-65 allowed"):
        bind_ranks(node(1, 4), 1, allowed=(64, 65))


def test_nics_by_least_path() -> None:
    """The sum of paths is least, not each GPU's own: GPU 0 leaves the one that GPU 1 needs more."""
    box = node(2, 4, gpus=(0, 1))
    assert nics(bind_ranks(with_nics(box, "PIX PXB", "PIX SYS"), 2)) == ["mlx5_1", "mlx5_0"]


def test_rails_in_order_where_paths_tie() -> None:
    """With NODE everywhere rank r has rail r; with two NICs for four, the first two the first."""
    box = node(1, 8, gpus=(0,) * 4)
    even = with_nics(box, *(["NODE " * 4] * 4))
    assert nics(bind_ranks(even, 4)) == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
    many = with_nics(node(1, 8, gpus=(0, 0)), *(["NODE " * 4] * 2))
    assert nics(bind_ranks(many, 2)) == ["mlx5_0", "mlx5_2"]
    few = with_nics(box, *(["NODE NODE"] * 4))
    assert nics(bind_ranks(few, 4)) == ["mlx5_0", "mlx5_0", "mlx5_1", "mlx5_1"]
    assert bind_ranks(few, 4).ranks[1].nics_because == "NODE to GPU 1, shared with others"


def test_further_nics_of_the_same_switch() -> None:
    """NICs that are left over go to the GPU on their switch, and nowhere else."""
    box = node(1, 4, gpus=(0, 0))
    more = with_nics(box, "PIX NODE PIX NODE NODE", "NODE PIX NODE PIX NODE")
    assert nics(bind_ranks(more, 2)) == ["mlx5_0,mlx5_2", "mlx5_1,mlx5_3"]


def test_nics_for_other_things_are_refused() -> None:
    """A NIC for storage, and one that is down, are no rank's, however near."""
    box = node(1, 4, gpus=(0, 0))
    seen = with_nics(box, "PIX SYS PIX SYS", "PIX SYS PIX SYS")
    own = list(seen.nics)
    own[0] = replace(own[0], role=NicRole.STORAGE, role_because="slow")
    own[2] = replace(own[2], state="DOWN")
    binding = bind_ranks(replace(seen, nics=tuple(own)), 2)
    assert nics(binding) == ["mlx5_1", "mlx5_3"]
    assert binding.notes == ("NICs left out: mlx5_0 (slow), mlx5_2 (its port is DOWN)",)


def test_nics_without_gpus_are_by_numa_node() -> None:
    """Ranks without GPUs have the NIC beside their CPUs, and share it."""
    plain = node(2, 4)
    own = tuple(
        Nic(index=at, name=f"hsi{at}", numa_index=1 - at, role=NicRole.COMPUTE) for at in range(2)
    )
    binding = bind_ranks(replace(plain, nics=own), 4)
    assert nics(binding) == ["hsi1", "hsi1", "hsi0", "hsi0"]
    assert binding.ranks[0].nics_because == "NODE to its CPUs, shared with others"


@pytest.mark.parametrize(
    ("listed", "indices"),
    [
        ("4,5,6,7", [4, 5, 6, 7]),
        ("4-7", [4, 5, 6, 7]),
        ("0,1,2,3,4,5,6,7", list(range(8))),
        ("", list(range(8))),
        ("8,9", list(range(8))),
        ("GPU-a", list(range(8))),
    ],
)
def test_gpus_of_other_jobs_are_no_ranks(listed: str, indices: list[int]) -> None:
    """Where the driver shows more than Slurm gave, ranks have those that it gave, and the cores and
    NICs beside them; a list that names what is not there hides none.
    """
    own = gpus_of_step(dgx_h100(), listed)
    assert [gpu.index for gpu in own.gpus] == indices
    binding = bind_ranks(own, len(indices))
    assert [gpu.index for rank in binding.ranks for gpu in rank.gpus] == indices
    if listed == "4-7":
        whole = bind_ranks(dgx_h100(), 8)
        assert [one.nics for one in binding.ranks] == [one.nics for one in whole.ranks[4:]]


def test_groups_that_a_job_has_little_of_are_not_dealt_whole() -> None:
    """Where one rank would have more than twice another's cores, cores are dealt, not groups."""
    box = node(1, 16, l3=8, gpus=(0, 0))
    assert cpus(bind_ranks(box, 2)) == ["0-7", "8-15"]
    assert cpus(bind_ranks(box, 2, allowed=range(10))) == ["0-4", "5-9"]


def test_idle_cpus_are_told() -> None:
    """CPUs beside which no rank has a GPU are named."""
    assert bind_ranks(node(4, 3, gpus=(0, 0, 0)), 3).notes == (
        "no rank uses CPUs 3-11: no rank's GPU is near them",
    )


@pytest.mark.parametrize(
    ("gpus", "ranks", "expected"),
    [((0,), 1, ["0-7"]), ((0, 3), 2, ["0-3", "4-7"]), ((0, 0, 2, 2), 2, ["0-3", "4-7"])],
)
def test_few_ranks_have_all_cores(gpus: tuple[int, ...], ranks: int, expected: list[str]) -> None:
    """NUMA nodes beside no rank go to the nearest ranks, as mpibind gives them."""
    assert cpus(bind_ranks(node(4, 2, gpus=gpus), ranks)) == expected
