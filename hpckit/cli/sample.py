"""`hpckit sample`: what this machine's GPUs and the machine itself do, into a file."""

from __future__ import annotations

import math
from typing import NoReturn

import click

from hpckit.sampler.main import LEAST_HZ, MOST_DURATION_S, MOST_HZ


def _named(_context: click.Context, option: click.Parameter, folder: str) -> str:
    if not folder:
        raise click.BadParameter("the folder name is empty.", param=option)
    return folder


def _finite(_context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """The number where it is one: to click, NaN lies in any range."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number.", param=option)
    return value


@click.command("sample")
@click.option(
    "--out",
    "folder",
    required=True,
    type=click.Path(file_okay=False),
    metavar="DIR",
    callback=_named,
    help="Folder for the samples; created, or appended to. Read by hpckit report --from DIR.",
)
@click.option(
    "--hz",
    type=click.FloatRange(LEAST_HZ, MOST_HZ),
    default=1.0,
    callback=_finite,
    show_default=True,
    help="Samples per second. 1 is enough for energy; 10 to 100 show curves and cost CPU time.",
)
@click.option(
    "--duration",
    "duration_s",
    type=click.FloatRange(0, MOST_DURATION_S, min_open=True),
    metavar="SECONDS",
    callback=_finite,
    help="Time to sample. [default: until Ctrl-C]",
)
def sample_command(folder: str, hz: float, duration_s: float | None) -> NoReturn:
    """Sample this machine: power, energy, utilization, memory, clocks, throttling, host counters.

    Inside a job: its GPUs; elsewhere: all. Needs no privileges and runs at the lowest priority.
    """
    from hpckit import wiring

    words = ["--out", folder, "--hz", repr(hz)]
    if duration_s is not None:
        words += ["--duration", repr(duration_s)]
    wiring.become_sampler(folder, words)
