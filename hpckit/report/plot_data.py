"""Panels as JSON for the script of the page: numbers as base64, 16 bits each.

A value v is stored as round((v - low) / (high - low) * 65534), 65535 is a gap. Times are 32-bit
floats, seconds. Both are little-endian.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from hpckit.report.plot_panels import Numbers, Panel, PlotGroup
from hpckit.report.plot_svg import time_unit

_MOST: Final = 65534
_GAP: Final = 65535


def plot_data(groups: Sequence[PlotGroup]) -> str:
    """The JSON document, safe inside a script element."""
    axes: dict[bytes, int] = {}
    found = [_group(group, axes) for group in groups]
    tree = {"axes": [base64.b64encode(axis).decode() for axis in axes], "groups": found}
    text = json.dumps(tree, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _group(group: PlotGroup, axes: dict[bytes, int]) -> dict[str, Any]:
    unit, unit_s = time_unit(group.last_s - group.first_s)
    return {
        "key": group.key,
        "title": group.title,
        "first": group.first_s,
        "last": group.last_s,
        "unit": unit,
        "unit_s": unit_s,
        "shades": [[one.kind, one.first_s, one.last_s] for one in group.shades],
        "panels": [_panel(panel, axes) for panel in group.panels],
    }


def _panel(panel: Panel, axes: dict[bytes, int]) -> dict[str, Any]:
    at = axes.setdefault(panel.at_s.astype("<f4").tobytes(), len(axes))
    low, high = _ends(panel)
    found: dict[str, Any] = {
        "title": panel.title,
        "caption": panel.caption,
        "unit": panel.unit,
        "look": panel.look,
        "top": panel.top,
        "limit": panel.limit,
        "axis": at,
        "low": low,
        "high": high,
        "values": packed(panel.values, low, high),
    }
    if not np.array_equal(panel.lows, panel.highs, equal_nan=True):
        found["lows"] = packed(panel.lows, low, high)
        found["highs"] = packed(panel.highs, low, high)
    return found


def _ends(panel: Panel) -> tuple[float, float]:
    known = np.concatenate((panel.values, panel.lows, panel.highs))
    known = known[np.isfinite(known)]
    if not known.size:
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    return low, high if high > low else low + 1.0


def packed(values: Numbers, low: float, high: float) -> str:
    """Values between `low` and `high` in 16 bits each, as base64; not-a-number is a gap."""
    shares = np.where(np.isfinite(values), (values - low) / (high - low), 0.0)
    codes = np.rint(np.clip(shares, 0, 1) * _MOST).astype("<u2")
    codes[~np.isfinite(values)] = _GAP
    return base64.b64encode(codes.tobytes()).decode()
