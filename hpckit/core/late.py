"""Modules that are imported when something of them is first used: start-up is mostly imports."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

__all__ = ["Late", "regex"]


class Late:
    """Stands for a module, as `import` would: `psutil = Late("psutil")`.

    Type checkers are given the import itself, under TYPE_CHECKING.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy and pickle ask for these
            raise AttributeError(name)
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    from re import compile as regex
else:

    class regex:  # noqa: N801  stands for the function re.compile
        """A regular expression, compiled on first use, which saves 0.2 ms each at start-up."""

        def __init__(self, *words: Any) -> None:
            self._words = words

        def __reduce__(self) -> tuple[Any, ...]:
            return re.compile, self._words

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            value = getattr(re.compile(*self._words), name)
            setattr(self, name, value)
            return value
