"""What a site file tells of bus bandwidth, where no node was inspected."""

from __future__ import annotations

import pytest

from hpckit.comm.bandwidth.predict import predict
from hpckit.comm.bandwidth.values import Collective, platform_machine
from hpckit.spec.platform import Platform, architecture_of

HGX = Platform(gpu="h100", gpus=8, nics=8, nic_gbits=400, source="a page", date="2026-11")


def gb_per_s(platform: Platform, nodes: int) -> float | None:
    """The best prediction of AllGather."""
    found = predict(platform_machine(platform, nodes, None), nodes)
    best = next(
        one for one in found if one.collective is Collective.ALL_GATHER and one.is_best
    ).busbw_bytes_per_s
    return None if best is None else best / 1e9


@pytest.mark.parametrize(("used", "figure"), [(8, 384.0), (4, 192.0), (1, 48.0)])
def test_fewer_gpus_have_fewer_nics(used: int, figure: float) -> None:
    """One GPU a node does not send on the NICs of the seven others."""
    found = predict(platform_machine(HGX, 2, used), 2)
    ring = next(one for one in found if one.collective is Collective.ALL_GATHER)
    assert ring.busbw_bytes_per_s == pytest.approx(figure * 1e9)


def test_gpus_that_a_node_has_not_give_no_figure() -> None:
    """Sixteen of eight are a mistake, not a wider node."""
    (first, *_) = predict(platform_machine(HGX, 1, 16), 1)
    assert first.busbw_bytes_per_s is None
    assert "16 requested, but a node has 8" in first.because


def test_nics_that_are_not_known_give_no_figure_between_nodes() -> None:
    """Without NICs there is a figure for one node alone."""
    platform = Platform(gpu="h100", gpus=8)
    assert gb_per_s(platform, 2) is None
    assert gb_per_s(platform, 1) is not None


def test_a_board_that_is_not_known_gives_no_figure() -> None:
    """GPUs whose links depend on the node have no figure, and the reason names them."""
    (first, *_) = predict(platform_machine(Platform(gpu="gh200", gpus=4), 1, None), 1)
    assert first.busbw_bytes_per_s is None
    assert "gh200" in first.because


@pytest.mark.parametrize(("used", "figure"), [(4, 240.0), (3, 160.0), (2, 80.0)])
def test_a_board_of_four_has_no_switch(used: int, figure: float) -> None:
    """Two A100 of four share four of their twelve links, and rings pass no switch."""
    machine = platform_machine(Platform(gpu="a100", gpus=4), 1, used)
    (ring, *_) = predict(machine, 1)
    assert ring.busbw_bytes_per_s == pytest.approx(figure * 1e9)
    assert "switch" not in (ring.limited_by or "")


def test_a_tray_of_gb200_has_one() -> None:
    """Its four GPUs hang on the switches of the rack; four H100 have no NVLink SHARP."""
    assert platform_machine(Platform(gpu="gb200", gpus=4), 1, None).has_nvls
    assert not platform_machine(Platform(gpu="h100", gpus=4), 1, None).has_nvls


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("NVIDIA H100 80GB HBM3", "sm_90"),
        ("NVIDIA H20-3e", "sm_90"),
        ("NVIDIA A100-SXM4-80GB", "sm_80"),
        ("Tesla T4", "sm_75"),
        ("NVIDIA L40S", "sm_89"),
        ("NVIDIA A10G", "sm_86"),
        ("Instinct MI300X", None),
        (None, None),
    ],
)
def test_an_architecture_follows_from_a_name(name: str | None, architecture: str | None) -> None:
    """A name that is known gives a compute capability, and no other does."""
    assert architecture_of(name) == architecture
