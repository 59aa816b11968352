"""`hpckit sample`: what this machine's GPUs and the machine itself do, into a file."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import click

from hpckit.injob.sample import LEAST_HZ, MOST_DURATION_S, MOST_HZ


def _told(_context: click.Context, option: click.Parameter, value: Any) -> Any:
    """What is given: a text that is not empty, and a number that is one; click takes NaN."""
    if value == "" or (isinstance(value, float) and not math.isfinite(value)):
        what = "a folder" if value == "" else "a number"
        raise click.BadParameter(f"{value!r} is not {what}.", param=option)
    return value


@click.command("sample")
@click.option(
    "--out",
    "folder",
    required=True,
    type=click.Path(file_okay=False),
    metavar="DIR",
    callback=_told,
    help="Where the samples go; made if it is not there. `hpckit report --from DIR` reads it.",
)
@click.option(
    "--hz",
    type=click.FloatRange(LEAST_HZ, MOST_HZ),
    default=1.0,
    callback=_told,
    show_default=True,
    help="How often a second.",
)
@click.option(
    "--duration",
    "duration_s",
    type=click.FloatRange(0, MOST_DURATION_S, min_open=True),
    metavar="SECONDS",
    callback=_told,
    help="How long; until Ctrl-C unless said.",
)
def command(folder: str, hz: float, duration_s: float | None) -> NoReturn:
    """Sample this machine: power, energy, utilization, memory, clocks, throttling, host counters.

    Inside a job the job's GPUs, elsewhere all. It needs no privileges, runs at the lowest
    priority, and ends with Ctrl-C.
    """
    from hpckit import wiring

    words = ["--out", folder, "--hz", repr(hz)]
    if duration_s is not None:
        words += ["--duration", repr(duration_s)]
    wiring.become_sampler(folder, words)
