"""A network on a terminal."""

from __future__ import annotations

from hpckit.fabric.domains import locality_of
from hpckit.fabric.ibnetdiscover import parse_ibnetdiscover
from hpckit.fabric.rails import with_rails
from hpckit.fabric.show import fabric_lines
from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.fabric.topology import Block, ClusterTopology, FabricSource
from hpckit.slurm.values import TopologyKind
from tests.corpus import corpus_file
from tests.ib_fabrics import leaf, two_tier, with_storage


def _conf(leaves: int, nodes: int, pods: int) -> ClusterTopology:
    each = leaves // pods
    lines = [
        f"SwitchName=leaf{at} Nodes=n[{at * nodes}-{at * nodes + nodes - 1}]"
        for at in range(leaves)
    ]
    lines += [
        f"SwitchName=pod{at} Switches=leaf[{at * each}-{at * each + each - 1}]"
        for at in range(pods)
    ]
    lines.append(f"SwitchName=top Switches=pod[0-{pods - 1}]")
    return parse_topology_conf("\n".join(lines), "made")


def _texts(topology: ClusterTopology, width: int = 100, file: str | None = "f.txt") -> list[str]:
    lines = fabric_lines(topology, locality_of(topology), width=width, file=file)
    return [line.text for line in lines]


def test_small_networks_are_told_leaf_by_leaf() -> None:
    """The title, what leads out, the tree, the rails, and what to ask next."""
    assert _texts(with_rails(two_tier(racks=2, nodes=4).topology())) == [
        "ibnetdiscover · 8 nodes · 12 switches · 8 leaf switches in 2 groups · 2 levels · 4 rails",
        "uplink bandwidth of leaves: 25.6 Tb/s for NICs of 12.8 Tb/s, 0.5:1",
        "",
        "spine-[01-04]  8 nodes",
        "├─ leaf leaf-[01-04]-01  4 nodes  12.8 Tb/s up  n01-c[01-04]",
        "└─ leaf leaf-[01-04]-02  4 nodes  12.8 Tb/s up  n02-c[01-04]",
        "",
        "rails    0: mlx5_0 on leaf-01-[01-02]",
        "         1: mlx5_1 on leaf-02-[01-02]",
        "         2: mlx5_2 on leaf-03-[01-02]",
        "         3: mlx5_3 on leaf-04-[01-02]",
        "",
        "next  hpckit fabric check f.txt",
        "      hpckit place --nodelist 'n01-c[01-04],n02-c[01-04]' --gpus-per-node 8"
        " --mesh tensor=8,data=8 --fabric f.txt",
    ]


def test_ten_thousand_nodes_fit_a_screen() -> None:
    """Pods that are alike share a line, and so do their leaves."""
    texts = _texts(_conf(320, 32, 10))
    assert len(texts) <= 12
    assert texts[1] == "uplink bandwidth of leaves: unknown"
    assert texts[3:6] == [
        "top  10240 nodes",
        "└─ 10 pods pod[0-9]  1024 nodes each",
        "   └─ 320 leaves leaf[0-319]  32 below each, 32 nodes each  n[0-10239]",
    ]


def test_leaves_of_many_sizes_end_in_a_count() -> None:
    """No line for each: the first kinds and how many more there are."""
    lines = [f"SwitchName=leaf{at} Nodes=n{at}x[0-{at}]" for at in range(100)]
    texts = _texts(
        parse_topology_conf("\n".join([*lines, "SwitchName=top Switches=leaf[0-99]"]), "made")
    )
    assert "└─ … and 88 more leaves  13 to 100 nodes each" in texts
    assert len(texts) < 25


def test_one_switch_fewer_stands_apart() -> None:
    """A pod that lacks a node is not folded with the others."""
    whole = _conf(64, 8, 4)
    short = parse_topology_conf(
        "\n".join(
            [f"SwitchName=l{at} Nodes=n[{at * 8}-{at * 8 + 7 - (at == 3)}]" for at in range(64)]
            + [f"SwitchName=p{at} Switches=l[{at * 16}-{at * 16 + 15}]" for at in range(4)]
            + ["SwitchName=top Switches=p[0-3]"]
        ),
        "made",
    )
    assert sum("pod" in text for text in _texts(whole)) == 1
    texts = _texts(short)
    assert "├─ pod p0  127 nodes" in texts
    assert "│  ├─ 15 leaves l[0-2,4-15]  8 nodes each  n[0-23,32-127]" in texts
    assert "└─ 3 pods p[1-3]  128 nodes each" in texts


def test_blocks_and_nvlink_domains_are_told() -> None:
    """With their sizes, and the sizes that Slurm may ask for."""
    blocks = tuple(
        Block(name=f"b{at}", nodes=tuple(f"n{at * 18 + i}" for i in range(18)), domain=f"u.{at}")
        for at in range(4)
    )
    topology = ClusterTopology(
        source=FabricSource.INSPECT, plugin=TopologyKind.BLOCK, blocks=blocks, block_sizes=(16, 64)
    )
    texts = _texts(topology, file=None)
    assert texts[0] == "hpckit inspect · 72 nodes · 4 blocks"
    assert "├─ NVLink domain b0  18 nodes  n[0-17]" in texts
    assert "blocks   4 NVLink domains of 18 nodes" in texts
    assert "         block sizes 16, 64" in texts
    assert "next  hpckit fabric check" in texts


def test_commands_that_cannot_be_copied_are_not_shown() -> None:
    """A file whose name hides something gets none, a name with blanks is quoted."""
    topology = _conf(4, 2, 2)
    assert not any("hpckit " in text for text in _texts(topology, file="a\x1bb"))
    assert "next  hpckit fabric check 'my file'" in _texts(topology, file="my file")
    assert "no named compute node" in _texts(ClusterTopology(source=FabricSource.AWS))


def test_the_real_capture_is_told_on_a_screen() -> None:
    """Eight racks of unlike sizes, one of which lacks a rail's leaf."""
    name = "ib-fabric/topograph-dgx-8racks-4rail-ndr.ibnetdiscover.out"
    topology = with_rails(parse_ibnetdiscover(corpus_file(name).read_text(), name))
    texts = _texts(topology)
    assert len(texts) <= 24
    assert sum("IBLEAF" in text and "leaf " in text for text in texts) == 8
    assert any(text.startswith("├─ leaf A09-P1-IBLEAF-[01-02,04]-01 ") for text in texts)
    assert "31 leaf switches in 8 groups" in texts[0]
    assert "uplink bandwidth of leaves: 212.8 Tb/s for NICs of 216.8 Tb/s, 1.02:1" in texts
    assert "9 spines, A10-P1-IBSPINE-01 and others  120 nodes" in texts
    assert "also     69 ports without a node name" in texts


def test_all_that_hangs_on_leaves_is_in_the_ratio() -> None:
    """Adapters that name no node and managers too."""
    made = two_tier(racks=2, nodes=4)
    made.change(lambda one: one.node == "n02-c02", description="MT4129 ConnectX7 Technologies")
    made.host("ufm", "mlx5_0", leaf(2, 1))
    texts = _texts(with_rails(made.topology()))
    assert "uplink bandwidth of leaves: 25.6 Tb/s for NICs of 13.2 Tb/s, 0.52:1" in texts
    assert "also     4 ports without a node name" in texts
    assert "         1 non-compute host" in texts


def test_leaves_for_storage_are_none_of_the_compute_bandwidth() -> None:
    """Nor are the NICs that lead to them."""
    texts = _texts(with_rails(with_storage().topology()))
    assert "uplink bandwidth of leaves: 51.2 Tb/s for NICs of 51.2 Tb/s, 1:1" in texts
