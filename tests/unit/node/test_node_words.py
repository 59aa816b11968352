"""Parts of a node in people's words."""

from __future__ import annotations

import pytest

from hpckit.core.index_list import IndexList
from hpckit.core.text import figure, names_shown, numbers_shown, visible
from hpckit.node.pci import PcieLink
from hpckit.node.words import (
    bit_rate,
    byte_rate,
    cpu_model,
    cpus_shown,
    gpu_model,
    memory,
    pcie_bytes_per_s,
    pcie_words,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mlx5_0", "mlx5_0"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\nb", "a\\x0ab"),
        ("\u202egpu", "\\u202egpu"),
        ("א", "\\u05d0"),
        ("e\u0301", "e\\u0301"),
        ("漢字", "漢字"),
        ("x" * 50, "x" * 39 + "…"),
    ],
)
def test_nothing_hides_in_a_name(text: str, shown: str) -> None:
    """Control characters, right-to-left and combining ones are escapes; long names are cut."""
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("Intel(R) Xeon(R) Platinum 8480C", "Xeon Platinum 8480C"),
        ("AMD EPYC 9654 96-Core Processor", "EPYC 9654"),
        ("Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz", "Xeon E5-2698 v4"),
        ("POWER9, altivec supported", "POWER9"),
        ("AMD", "AMD"),
    ],
)
def test_cpu_names_lose_what_says_nothing(name: str, short: str) -> None:
    """Trademarks, makers and clocks go; a name that is only that stays."""
    assert cpu_model(name) == short


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 80GB HBM3"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("Aqua Vanjaram [Instinct MI300A]", "MI300A"),
        ("NVIDIA", "NVIDIA"),
    ],
)
def test_gpu_names_lose_their_maker(name: str, short: str) -> None:
    """A model is named without who made it."""
    assert gpu_model(name) == short


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (None, ""),
        (PcieLink(speed_gt_per_s=32.0, width=16), "gen5 x16"),
        (PcieLink(speed_gt_per_s=16.0, width=8, max_width=16), "gen4 x8 of x16"),
        (PcieLink(speed_gt_per_s=2.5, width=16, max_speed_gt_per_s=32.0), "gen1 x16 (max gen5)"),
        (PcieLink(speed_gt_per_s=7.0, width=1), "7 GT/s x1"),
        (PcieLink(width=4), "x4"),
        (PcieLink(max_speed_gt_per_s=32.0, max_width=16), ""),
    ],
)
def test_pcie_links_in_words(link: PcieLink | None, words: str) -> None:
    """Generation and lanes, and what they could be where that is more."""
    assert pcie_words(link) == words


def test_pcie_bandwidth_is_without_encoding() -> None:
    """A gen3 x16 link carries 15.75 GB/s, a gen2 x16 link 8 GB/s; half-known is unknown."""
    assert pcie_bytes_per_s(PcieLink(speed_gt_per_s=8.0, width=16)) == pytest.approx(15.754e9, 1e-4)
    assert pcie_bytes_per_s(PcieLink(speed_gt_per_s=5.0, width=16)) == pytest.approx(8e9)
    assert pcie_bytes_per_s(PcieLink(speed_gt_per_s=5.0)) is None


def test_rates_and_sizes_have_their_makers_units() -> None:
    """NICs in Gb/s, links in GB/s, memory in GiB."""
    assert bit_rate(50e9) == "400 Gb/s"
    assert bit_rate(312.5e6) == "2.5 Gb/s"
    assert byte_rate(450e9) == "450 GB/s"
    assert byte_rate(7.88e9) == "7.9 GB/s"
    assert memory(80 * 1024**3) == "80 GiB"
    assert memory(1536 * 1024**3) == "1.5 TiB"
    assert figure(10**400) == "∞"


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["mlx5_0"], "mlx5_0"),
        (["mlx5_1", "mlx5_0"], "mlx5_0 mlx5_1"),
        (["mlx5_10", "mlx5_9", "mlx5_8"], "mlx5_8 … mlx5_10"),
        (["ib0", "mlx5_0", "mlx5_1", "mlx5_2"], "ib0 mlx5_0 … mlx5_2"),
        (["n9", "n10", "n09"], "n09 n10 n9"),
        (["a1s0", "b2s0", "c3s0", "d4s0"], "a1s0 … d4s0"),
    ],
)
def test_names_fold(names: list[str], shown: str) -> None:
    """Runs are first and last; more than three parts are too."""
    assert names_shown(names) == shown


def test_numbers_fold() -> None:
    """Runs of numbers behind one name are folded, leading zeros kept."""
    assert numbers_shown(["GPU0", "GPU1", "GPU5"]) == "GPU0-1,5"
    assert numbers_shown(["n009", "n010", "n1"]) == "n1,n009-010"
    assert numbers_shown(["node", "GPU3"]) == "GPU3,node"


def test_long_lists_of_cpus_are_cut() -> None:
    """A list that does not fit ends in how many CPUs there are."""
    assert cpus_shown(IndexList("0-55,112-167")) == "0-55,112-167"
    every_other = IndexList(",".join(map(str, range(0, 128, 2))))
    assert cpus_shown(every_other) == "0,2,4,6,8,10,12,14,…" + " (64)"
