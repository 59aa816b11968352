"""Processes told by when they started."""

from __future__ import annotations

import psutil
import pytest

from hpckit.jobs.process_tree import is_running_since, own_start_s


def test_a_process_knows_its_start_as_psutil_tells_it() -> None:
    """What a submission records of itself is later compared with what psutil says."""
    process = psutil.Process()
    assert own_start_s() == pytest.approx(process.create_time(), abs=2.0)
    assert is_running_since(process.pid, own_start_s())
