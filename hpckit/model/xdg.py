"""Where a user's programs keep things. Source: XDG Base Directory Specification 0.8."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_DEFAULTS = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_STATE_HOME": ".local/state",
}


def xdg_folder(environment: Mapping[str, str], name: str, home: Path) -> Path:
    """The folder that the variable names; one that is no absolute path counts as not set."""
    said = environment.get(name, "")
    return Path(said) if said.startswith("/") else home / _DEFAULTS[name]
