"""The structures that GPM is asked with."""

from __future__ import annotations

import ctypes

import pynvml

from hpckit.sampler.nvml import GET_BYTES


def test_the_buffer_holds_the_whole_structure() -> None:
    """It has room for nvmlGpmMetricsGet_t as nvidia-ml-py declares it, however few are asked."""
    assert ctypes.sizeof(pynvml.c_nvmlGpmMetricsGet_t) <= GET_BYTES
