"""Constants by release and generation."""

from __future__ import annotations

import pytest

from hpckit.comm.bandwidth.facts import (
    NEWEST,
    OLDEST,
    SPEED_FACTS,
    cpu_link_gb_per_s,
)
from hpckit.node.topology import CpuTopology
from hpckit.spec.platform import NcclVersion


@pytest.mark.parametrize(
    ("cpu", "nccl", "found"),
    [
        (("x86_64", "AuthenticAMD", 25, 1), NEWEST, 16.0),
        (("x86_64", "AuthenticAMD", 25, 1), OLDEST, 5000.0),
        (("x86_64", "GenuineIntel", 6, 0x4F), NEWEST, 6.0),
        (("x86_64", "GenuineIntel", 6, 0x55), NEWEST, 10.0),
        (("x86_64", "GenuineIntel", 6, 0x8F), NEWEST, 22.0),
        (("x86_64", "GenuineIntel", 6, 0x8F), NcclVersion(2, 25, 1), 10.0),
        (("x86_64", "GenuineIntel", 6, 0xCF), NEWEST, 40.0),
        (("x86_64", "GenuineIntel", 19, 0x1), NEWEST, 6.0),
        (("x86_64", "GenuineIntel", None, None), NEWEST, None),
        (("x86_64", None, None, None), NEWEST, None),
        (("ppc64le", "IBM", None, None), NEWEST, 32.0),
        (("aarch64", "ARM", None, None), NEWEST, 6.0),
        (("riscv64", None, None, None), NEWEST, None),
        ((None, None, None, None), NEWEST, None),
    ],
)
def test_links_between_cpus(
    cpu: tuple[str | None, str | None, int | None, int | None],
    nccl: NcclVersion,
    found: float | None,
) -> None:
    """NCCL tells Intel's generations apart by model, other CPUs by their maker."""
    arch, vendor, family, model = cpu
    value = CpuTopology(arch=arch, vendor=vendor, family=family, model_number=model)
    assert cpu_link_gb_per_s(value, nccl) == found


def test_speeds_are_tried_from_the_fastest() -> None:
    """The search relies on lists that fall."""
    for row in SPEED_FACTS:
        for speeds in (row.intra, row.inter):
            assert list(speeds) == sorted(set(speeds), reverse=True)
