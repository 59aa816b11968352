"""Why no GPU of a node was measured: what the driver answered to its ranks and its sampler."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.app.node_fold import NodeFold

_MOST_NAMED = 4
_VENDOR = "nvidia"


def gpus_refused(folds: Sequence[NodeFold], asked: int | None) -> dict[str, str]:
    """The reason by node, of nodes on which no GPU was seen; none for a job that asked for none."""
    if asked == 0:
        return {}
    found = {fold.evidence.node: reason for fold in folds if (reason := _reason(fold))}
    seen = {fold.evidence.node for fold in folds if fold.gpus}
    return {node: reason for node, reason in found.items() if node not in seen}


def refusal_words(refused: dict[str, str]) -> str:
    """`NVML DriverNotLoaded on n1, n2`; the reason of the most nodes where they differ."""
    if not refused:
        return ""
    reasons = list(refused.values())
    reason = max(dict.fromkeys(reasons), key=reasons.count)
    nodes = [node for node, one in refused.items() if one == reason]
    more = f" and {len(nodes) - _MOST_NAMED} more nodes" if len(nodes) > _MOST_NAMED else ""
    return f"{reason} on {', '.join(nodes[:_MOST_NAMED])}{more}"


def _reason(fold: NodeFold) -> str | None:
    """NVML's error by its name, or a sentence of the sampler's."""
    told = None if fold.meta is None else fold.meta.host_refused.get(_VENDOR)
    ranks = (life.start.nvml_refused for life in fold.evidence.lives)
    reason = told or next(filter(None, ranks), None)
    if reason is None or fold.gpus:
        return None
    return reason if " " in reason else f"NVML {reason}"
