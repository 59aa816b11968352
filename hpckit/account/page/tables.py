"""GPUs, ranks, nodes and incarnations as tables of the report's page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from hpckit.account.page.figures import (
    NOT_MEASURED,
    amount,
    behind_words,
    clean,
    clock_time,
    duration,
    energy_words,
    gib,
    percent,
    pressure_words,
    source_words,
    transferred,
)
from hpckit.account.values import (
    Energy,
    GpuAccount,
    Incarnation,
    JobReport,
    NodeAccount,
    RankAccount,
    Share,
)
from hpckit.node.words import gpu_model

_MOST_ROWS: Final = 128
_MOST_NOTES: Final = 12
_Row = TypeVar("_Row")


class Cell(Struct, frozen=True, kw_only=True):
    """A cell of a row or of the head; `about` says more of it on pointing, such as a reason."""

    text: str
    is_number: bool = True
    about: str = ""

    @property
    def missing(self) -> bool:
        """Whether nothing was measured."""
        return self.text == NOT_MEASURED


class Table(Struct, frozen=True, kw_only=True):
    """A table; the first cell of a row names what it is about."""

    key: str
    title: str
    heads: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


def tables(report: JobReport) -> tuple[Table, ...]:
    """The tables that have rows."""
    not_measured = (
        f"{clean(name)} was not measured: {clean(why)}"
        for gpu in report.gpus
        for name, why in gpu.refused.items()
    )
    found = (
        _table("gpus", "GPUs", _GPU, report.gpus, _counted(not_measured)),
        _table("ranks", "Ranks", _RANK, report.ranks, _without_energy("rank", report.ranks)),
        _table("nodes", "Nodes", _NODE, report.nodes, _node_notes(report.nodes)),
        _table("attempts", "Attempts", _INCARNATION, report.incarnations, ()),
    )
    return tuple(table for table in found if table.rows)


def _table(
    key: str,
    title: str,
    columns: Sequence[tuple[str, Callable[[_Row], Cell]]],
    rows: Sequence[_Row],
    notes: tuple[str, ...],
) -> Table:
    if len(rows) > _MOST_ROWS:
        more = f"first {_MOST_ROWS} of {len(rows)} rows; --json and --csv have all"
        notes = (more, *notes)
    made = tuple(tuple(make(row) for _, make in columns) for row in rows[:_MOST_ROWS])
    heads = tuple(
        Cell(text=head, is_number=bool(made) and made[0][at].is_number)
        for at, (head, _) in enumerate(columns)
    )
    return Table(key=key, title=title, heads=heads, rows=made, notes=notes)


def _word(text: object) -> Cell:
    return Cell(text=clean(text), is_number=False)


def _energy(energy: Energy) -> Cell:
    return Cell(text=energy_words(energy), about=source_words(energy))


def _count(number: int | None, unknown: str = "unknown") -> Cell:
    return Cell(text=unknown if number is None else str(number))


def _useful(waste: Share) -> Cell:
    is_told = waste.is_measured
    return Cell(text=percent(waste.useful_gpu_s / waste.total_gpu_s if is_told else None))


def _refusable(gpu: GpuAccount, text: str, *columns: str) -> Cell:
    why = "; ".join(clean(gpu.refused[name]) for name in columns if name in gpu.refused)
    return Cell(text=text, about=why if text == NOT_MEASURED else "")


def _both(first: float | None, second: float | None) -> str:
    if first is None and second is None:
        return NOT_MEASURED
    return " / ".join("?" if one is None else transferred(one) for one in (first, second))


_GPU: Final[tuple[tuple[str, Callable[[GpuAccount], Cell]], ...]] = (
    ("GPU", lambda one: _word(one.label)),
    ("node", lambda one: _word(one.node)),
    ("restart", lambda one: Cell(text=str(one.restart))),
    ("model", lambda one: _word(gpu_model(one.name) if one.name else "unknown")),
    ("held", lambda one: Cell(text=duration(one.held_s))),
    ("energy", lambda one: _energy(one.energy)),
    ("source", lambda one: _word(source_words(one.energy))),
    ("useful", lambda one: _useful(one.waste)),
    (
        "utilization",
        lambda one: _refusable(one, amount(one.util_mean_pct, "%"), "util_pct"),
    ),
    ("mean power", lambda one: _refusable(one, amount(one.power_mean_w, "W"), "power_mw")),
    ("max power", lambda one: _refusable(one, amount(one.power_max_w, "W"), "power_mw")),
    ("max temperature", lambda one: _refusable(one, amount(one.temp_max_c, "°C"), "temp_c")),
    ("SM clock", lambda one: _refusable(one, amount(one.sm_mean_mhz, "MHz"), "sm_mhz")),
    ("memory peak", lambda one: _refusable(one, gib(one.mem_peak_bytes), "mem_used_mib")),
    ("throttled by heat", lambda one: Cell(text=duration(one.throttling.thermal_s))),
    ("at power limit", lambda one: Cell(text=duration(one.throttling.power_cap_s))),
    ("MFU proxy", lambda one: Cell(text=percent(one.mfu_proxy_frac))),
    (
        "NVLink out / in",
        lambda one: _refusable(
            one, _both(one.nvlink_tx_bytes, one.nvlink_rx_bytes), "nvlink_tx_mib"
        ),
    ),
    (
        "PCIe out / in",
        lambda one: _refusable(one, _both(one.pcie_tx_bytes, one.pcie_rx_bytes), "pcie_tx_mib"),
    ),
)

_ENDS: Final = {
    "ledger": "its own record",
    "sample": "killed: last record of its node",
    "processes": "killed: its GPUs went idle",
    "next-life": "killed: it was restarted",
    "running": "still running",
}


def _behind(frac: float | None) -> Cell:
    why = "not compared: no peer worked for as long" if frac is None else ""
    return Cell(text=behind_words(frac), about=why)


_RANK: Final[tuple[tuple[str, Callable[[RankAccount], Cell]], ...]] = (
    ("rank", lambda one: Cell(text=str(one.rank))),
    ("node", lambda one: _word(one.node)),
    ("restart", lambda one: Cell(text=str(one.restart))),
    ("GPUs", lambda one: Cell(text=str(len(one.gpus)))),
    ("energy", lambda one: _energy(one.energy)),
    ("busy", lambda one: Cell(text=percent(one.busy_frac))),
    ("behind", lambda one: _behind(one.behind_frac)),
    ("CPU time", lambda one: Cell(text=duration(one.cpu_s))),
    ("largest process", lambda one: Cell(text=gib(one.max_rss_bytes))),
    ("read", lambda one: Cell(text=transferred(one.read_bytes))),
    ("written", lambda one: Cell(text=transferred(one.write_bytes))),
    ("exit code", lambda one: _count(one.exit_code)),
    ("end according to", lambda one: _word(_ENDS.get(one.ended_by, one.ended_by))),
)


def _of_limit(used: int | None, limit: int | None) -> Cell:
    if used is None or limit is None:
        return Cell(text=gib(used))
    return Cell(text=f"{gib(used)} of {gib(limit)}")


_NODE: Final[tuple[tuple[str, Callable[[NodeAccount], Cell]], ...]] = (
    ("node", lambda one: _word(one.node)),
    ("restart", lambda one: Cell(text=str(one.restart))),
    ("GPU energy", lambda one: _energy(one.gpu_energy)),
    ("node energy", lambda one: _energy(one.energy)),
    ("CPU time", lambda one: Cell(text=duration(one.cpu_s))),
    ("CPUs", lambda one: _count(one.cpus)),
    ("CPU throttled", lambda one: Cell(text=duration(one.cpu_throttled_s))),
    ("memory (sampled)", lambda one: _of_limit(one.mem_peak_bytes, one.mem_limit_bytes)),
    ("incl. page cache", lambda one: Cell(text=gib(one.mem_kernel_peak_bytes))),
    ("OOM kills", lambda one: _count(one.oom_kills, NOT_MEASURED)),
    ("samples", lambda one: Cell(text=str(one.samples))),
    ("sampler's CPU", lambda one: Cell(text=duration(one.sampler_cpu_s))),
)

_INCARNATION: Final[tuple[tuple[str, Callable[[Incarnation], Cell]], ...]] = (
    ("restart", lambda one: Cell(text=str(one.restart))),
    ("started", lambda one: _word(clock_time(one.started_s))),
    ("took", lambda one: Cell(text=duration(one.ended_s - one.started_s))),
    ("GPU energy", lambda one: _energy(one.gpu_energy)),
    ("GPU-hours", lambda one: Cell(text=f"{one.gpu_s / 3600:.2f}")),
    ("counts as", lambda one: _word("lost (at most)" if one.is_lost else "kept")),
    ("reason", lambda one: _word(one.because)),
)


def _counted(sentences: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        sentence if times == 1 else f"{sentence} ({times} times)"
        for sentence, times in Counter(sentences).most_common(_MOST_NOTES)
    )


def _without_energy(
    what: str, accounts: Sequence[RankAccount] | Sequence[NodeAccount]
) -> tuple[str, ...]:
    return _counted(
        f"energy of a {what} was not measured: {source_words(one.energy)}"
        for one in accounts
        if one.energy.value_j is None
    )


def _node_notes(nodes: Sequence[NodeAccount]) -> tuple[str, ...]:
    pressure = (
        f"{clean(node.node)}: "
        + ", ".join(pressure_words(name, frac) for name, frac in node.psi_frac.items())
        + " of the time (PSI)"
        for node in nodes[:_MOST_NOTES]
        if node.psi_frac
    )
    network = (
        f"{clean(node.node)}: "
        + ", ".join(
            f"{clean(name)} {transferred(size)}" for name, size in node.network_bytes.items()
        )
        for node in nodes[:_MOST_NOTES]
        if node.network_bytes
    )
    missing = _counted(clean(sentence) for node in nodes for sentence in node.missing)
    return (*_without_energy("node", nodes), *pressure, *network, *missing)
