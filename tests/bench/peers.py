"""What users would pick in place of hpckit's sampler, each watching all GPUs of this machine.

Run by `make bench SUITE=account` under a Python that has zeus, codecarbon, prometheus-client and
nvidia-ml-py: `python peers.py NAME HZ`. It says `ready` on stdout when it measures, and goes on
until its stdin is closed.
"""

from __future__ import annotations

import importlib
import logging
import select
import sys
import time
from collections.abc import Callable
from typing import Any


def zeus(hz: float) -> Callable[[], None]:
    """PowerMonitor of zeus: a process that polls the power of each GPU."""
    monitor = _module("zeus.monitor").PowerMonitor(update_period=1 / hz)
    return _stop_of(monitor)


def codecarbon(hz: float) -> Callable[[], None]:
    """The tracker of codecarbon for the whole machine."""
    tracker = _module("codecarbon").OfflineEmissionsTracker(
        measure_power_secs=1 / hz,
        country_iso_code="DEU",
        save_to_file=False,
        log_level="critical",
        allow_multiple_runs=True,
    )
    tracker.start()
    return _stop_of(tracker)


def exporter(hz: float) -> Callable[[], None]:
    """A loop as the exporters behind jobstats have it: a call a quantity, a gauge, one scrape."""
    pynvml, prometheus = _module("pynvml"), _module("prometheus_client")
    registry = prometheus.CollectorRegistry()
    names = ("power", "energy", "util", "mem_util", "mem_used", "temp", "sm_mhz", "mem_mhz", "pids")
    gauges = {
        name: prometheus.Gauge(name, name, ["gpu", "uuid"], registry=registry) for name in names
    }
    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    uuids = [pynvml.nvmlDeviceGetUUID(handle) for handle in handles]
    _say_ready()
    due_s = time.monotonic()
    while _goes_on(due_s):
        for index, handle in enumerate(handles):
            for name, value in zip(names, _quantities(pynvml, handle), strict=True):
                if value is not None:
                    gauges[name].labels(str(index), uuids[index]).set(value)
        prometheus.generate_latest(registry)
        due_s += 1 / hz
    sys.exit(0)


def _module(name: str) -> Any:
    return importlib.import_module(name)


def _stop_of(peer: Any) -> Callable[[], None]:
    stop: Callable[[], None] = peer.stop
    return stop


def _quantities(nvml: Any, handle: Any) -> tuple[float | None, ...]:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return (
        nvml.nvmlDeviceGetPowerUsage(handle),
        nvml.nvmlDeviceGetTotalEnergyConsumption(handle),
        rates.gpu,
        rates.memory,
        nvml.nvmlDeviceGetMemoryInfo(handle).used,
        nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        _processes(nvml, handle),
    )


def _processes(nvml: Any, handle: Any) -> int | None:
    try:
        return len(nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except nvml.NVMLError:
        return None


def _goes_on(due_s: float) -> bool:
    """Wait until a moment; False when stdin was closed meanwhile."""
    wait_s = max(0.0, due_s - time.monotonic())
    return not select.select([sys.stdin], [], [], wait_s)[0]


def _say_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def main() -> None:
    """Measure with the peer that the command line names."""
    logging.disable(logging.CRITICAL)
    name, hz = sys.argv[1], float(sys.argv[2])
    stop = {"zeus": zeus, "codecarbon": codecarbon, "exporter": exporter}[name](hz)
    _say_ready()
    sys.stdin.read()
    stop()


if __name__ == "__main__":
    main()
