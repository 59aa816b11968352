"""How long reports take, whole processes, on made-up accounts of few GPUs and of very many."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path

from tests.bench.account_figures import Bench, CannotMeasure, Figure, Step, passed
from tests.bench.account_processes import Ran, ran
from tests.browser.chromium import NAMES, find_chromium
from tests.fakes.account_files import MadeJob, write_accounts

MOST_TERMINAL_S = 0.6
MOST_HTML_S = 2.0
MOST_HTML_MB = 3.0
MOST_LARGE_S = 30.0
MOST_LARGE_MB = 2000.0
MOST_UNEVEN = 1.2
"""Times a sample in the larger of two jobs over the smaller: 1 is linear."""
LARGE_NODES = 128
SIZES = (16, 32)
_DAY_S = 86_400.0


def an_hour(bench: Bench) -> Iterator[Figure]:
    """8 GPUs for an hour at 10 Hz."""
    folder = bench.place("hour")
    write_accounts(folder, MadeJob(nodes=1, hz=10.0, duration_s=3600.0))
    page = bench.folder / "report.html"
    argv = bench.hpckit("report", "--from", str(folder))
    name = "8 GPUs, 1 h at 10 Hz"
    seconds = median_s(argv, bench)
    yield Figure(name=f"{name}: terminal", value=seconds, unit="s", limit=MOST_TERMINAL_S)
    seconds = median_s([*argv, "--html", str(page)], bench)
    yield Figure(name=f"{name}: --html", value=seconds, unit="s", limit=MOST_HTML_S)
    size_mb = page.stat().st_size / 1e6
    yield Figure(name=f"{name}: the page", value=size_mb, unit="MB", limit=MOST_HTML_MB)


def median_s(argv: list[str], bench: Bench) -> float:
    """The median of some runs, after one for what is compiled and cached."""
    environ = bench.user_environ()
    ran(argv, environ)
    return statistics.median(ran(argv, environ).seconds for _ in range(bench.pick(7, 3)))


def many(bench: Bench) -> Iterator[Figure]:
    """1,024 GPUs for 24 h at 1 Hz: two smaller sizes and what they say of it, or the whole."""
    name = f"{8 * LARGE_NODES:,} GPUs, 24 h at 1 Hz"
    small_nodes, large_nodes = (2, 4) if bench.quick else SIZES
    small, large = of_nodes(bench, small_nodes), of_nodes(bench, large_nodes)
    each_s = (large.seconds - small.seconds) / (large_nodes - small_nodes)
    uneven = each_s * small_nodes / small.seconds
    took = f"{small_nodes} nodes {small.seconds:.1f} s, {large_nodes} nodes {large.seconds:.1f} s"
    yield Figure(
        name=f"24 h at 1 Hz, {small_nodes} to {large_nodes} nodes: linear", value=uneven,
        unit="x", limit=MOST_UNEVEN, beside=f"{took}; time of a node more, by that of the first",
    )  # fmt: skip
    if bench.whole:
        whole, how = of_nodes(bench, LARGE_NODES), ""
    else:
        more = LARGE_NODES - large_nodes
        gained = (large.most_pss_bytes - small.most_pss_bytes) / (large_nodes - small_nodes)
        whole = Ran(
            large.seconds + more * each_s, large.most_pss_bytes + round(max(gained, 0) * more)
        )
        how = "projected; --whole measures it"
    yield Figure(name=name, value=whole.seconds, unit="s", limit=MOST_LARGE_S, beside=how)
    yield Figure(
        name=f"{name}: memory", value=whole.most_pss_bytes / 1e6, unit="MB",
        limit=MOST_LARGE_MB, beside=how,
    )  # fmt: skip


def of_nodes(bench: Bench, nodes: int) -> Ran:
    """A report on so many nodes of 8 GPUs, made up and removed again. Raises CannotMeasure."""
    place = bench.place("large")
    needed = round(nodes * 8 * _DAY_S * 90)
    if shutil.disk_usage(place).free < 1.2 * needed:
        raise CannotMeasure(f"{place} has not {1.2 * needed / 1e9:.1f} GB for {nodes} nodes")
    write_accounts(place, MadeJob(nodes=nodes, hz=1.0, duration_s=_DAY_S))
    try:
        return ran(bench.hpckit("report", "--from", str(place)), bench.user_environ(), weighed=True)
    finally:
        shutil.rmtree(place)


def page(bench: Bench) -> Iterator[Figure]:
    """The page in a headless Chromium. Raises CannotMeasure."""
    if find_chromium() is None:
        raise CannotMeasure(f"none of {', '.join(NAMES)} is here, and HPCKIT_CHROMIUM names none")
    if bench.quick:
        raise CannotMeasure("--quick opens no browser")
    yield passed(
        "the page in Chromium: failed tests",
        str(Path("tests") / "browser"), env={"HPCKIT_REQUIRE_BROWSER": "1"},
    )  # fmt: skip


STEPS = (
    Step("speed:hour", "8 GPUs, 1 h at 10 Hz", an_hour),
    Step("speed:scale", f"{8 * LARGE_NODES:,} GPUs, 24 h at 1 Hz", many),
    Step("speed:page", "the page in Chromium: failed tests", page),
)
