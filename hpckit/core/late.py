"""Modules that are imported when something of them is first used: start-up is mostly imports."""

from __future__ import annotations

import importlib
from typing import Any


class Late:
    """Stands for a module, as `import` would: `psutil = Late("psutil")`.

    Type checkers are given the import itself, under TYPE_CHECKING.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value
