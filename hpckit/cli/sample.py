"""`hpckit sample`: what this machine's GPUs and the machine itself do, into a file."""

from __future__ import annotations

import math
from typing import NoReturn

import click

from hpckit.sampler.main import LEAST_HZ, MOST_DURATION_S, MOST_HZ


def _named(_context: click.Context, option: click.Parameter, folder: str) -> str:
    if not folder:
        raise click.BadParameter("the name of a folder is empty.", param=option)
    return folder


def _finite(_context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """The number where it is one: to click, NaN lies in any range."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no finite number.", param=option)
    return value


@click.command("sample")
@click.option(
    "--out",
    "folder",
    required=True,
    type=click.Path(file_okay=False),
    metavar="DIR",
    callback=_named,
    help="Where the samples go; made if it is not there, appended to if it is. "
    "`hpckit report --from DIR` reads it.",
)
@click.option(
    "--hz",
    type=click.FloatRange(LEAST_HZ, MOST_HZ),
    default=1.0,
    callback=_finite,
    show_default=True,
    help="How often a second. 1 is enough for the energy of more than some seconds; 10 to 100 "
    "are for curves, and cost more CPU.",
)
@click.option(
    "--duration",
    "duration_s",
    type=click.FloatRange(0, MOST_DURATION_S, min_open=True),
    metavar="SECONDS",
    callback=_finite,
    help="How long; until Ctrl-C unless said.",
)
def sample_command(folder: str, hz: float, duration_s: float | None) -> NoReturn:
    """Sample this machine: power, energy, utilization, memory, clocks, throttling, host counters.

    Inside a job the job's GPUs, elsewhere all. It needs no privileges, runs at the lowest
    priority, and ends with Ctrl-C.
    """
    from hpckit import wiring

    words = ["--out", folder, "--hz", repr(hz)]
    if duration_s is not None:
        words += ["--duration", repr(duration_s)]
    wiring.become_sampler(folder, words)
