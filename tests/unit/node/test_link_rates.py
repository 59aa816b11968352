"""What a link between GPUs carries."""

from __future__ import annotations

import pytest

from hpckit.node.path import LINK_BYTES_PER_S


@pytest.mark.parametrize(
    ("architecture", "links", "gb_per_s"),
    [
        ("sm_60", 4, 80),
        ("sm_70", 6, 150),
        ("sm_75", 2, 50),
        ("sm_80", 12, 300),
        ("sm_86", 4, 56.25),
        ("sm_90", 18, 450),
        ("sm_100", 18, 900),
    ],
)
def test_the_links_of_a_gpu_carry_what_its_data_sheet_says(
    architecture: str, links: int, gb_per_s: float
) -> None:
    """Half of the total that NVIDIA prints, which adds both directions."""
    assert links * LINK_BYTES_PER_S[architecture] == gb_per_s * 1e9
