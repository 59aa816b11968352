"""Model values as plain tables, lists and scalars, ready to be written as JSON."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any

from hpckit.model.rules import file_key


def to_tree(value: Any) -> Any:
    """A model value as plain tables, lists and scalars, with the keys of the file."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            file_key(field): to_tree(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    names: tuple[str, ...] | None = getattr(type(value), "__struct_fields__", None)
    if names is not None:  # told by what it has: inside a job there is no msgspec
        return {name: to_tree(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(name): to_tree(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_tree(item) for item in value]
    if isinstance(value, (str, int, float, bool, types.NoneType)):
        return str(value) if isinstance(value, str) else value
    raise TypeError(f"{type(value).__name__} has no place in a document")
