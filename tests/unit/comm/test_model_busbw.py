"""Values of NCCL's bandwidth model."""

from __future__ import annotations

import pytest

from hpckit.comm.bandwidth.values import CommMachine
from hpckit.core.fields import InvalidValue


@pytest.mark.parametrize(("gpus", "domain_nodes"), [(0, 1), (8, 0)])
def test_a_machine_of_nothing(gpus: int, domain_nodes: int) -> None:
    """No GPU, and a domain of no node, are refused."""
    with pytest.raises(InvalidValue):
        CommMachine(gpus=gpus, domain_nodes=domain_nodes)
