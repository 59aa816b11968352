"""A job file as TOML text, from its keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hpckit.core.document import Tree, dataclass_of, field_types
from hpckit.core.errors import ConfigError
from hpckit.core.fields import file_key
from hpckit.core.late import regex
from hpckit.spec.job import JOB_SCHEMA, JobSpec
from hpckit.spec.merge import effective_job, file_layer

_BARE: Final = regex(r"[A-Za-z0-9_-]+")
_LITERAL: Final = regex(r"(?!.*''')[^\x00-\x08\x0b-\x1f\x7f]*[^'\x00-\x1f\x7f]", re.DOTALL)
"""What stands between three quotes as it is."""


def job_tree(keys: Mapping[str, object]) -> Tree:
    """Return dotted keys as a tree; below an open table all that follows is one name."""
    tree: Tree = {"schema": JOB_SCHEMA}
    for key, value in keys.items():
        table, *rest = key.split(".", 2)
        if not rest:
            tree[table] = value
        elif len(rest) == 1:
            tree.setdefault(table, {})[rest[0]] = value
        else:
            tree.setdefault(table, {}).setdefault(rest[0], {})[rest[1]] = value
    return tree


def settled_keys(
    keys: Mapping[str, object], source: str
) -> tuple[dict[str, object], list[ConfigError]]:
    """Return the keys that a job file may have, and the error of each that it may not."""
    kept, errors = dict(keys), []
    while True:
        try:
            effective_job([file_layer(job_tree(kept), source)])
        except ConfigError as error:
            said = (error.key or "").split("[")[0]
            keys_in = [key for key in sorted(kept, key=len, reverse=True)
                       if said.startswith(key) or _is_named(key, said, error.reason)]  # fmt: skip
            wrong = next(iter(keys_in), "name")
            if wrong in ("name", "command", "environment.setup"):
                raise
            kept.pop(wrong)
            errors.append(error)
        else:
            return kept, errors


def _is_named(key: str, table: str, reason: str) -> bool:
    """Return whether the error of a table is the name of this key."""
    return key.startswith(f"{table}.") and repr(key.removeprefix(f"{table}.")) in reason


def job_toml(keys: Mapping[str, object], comments: Iterable[str] = ()) -> str:
    """Return a job file: comments, then the tables in the order of the reference."""
    tree = job_tree(keys)
    lines = [*(f"# {comment}".rstrip() for comment in comments)]
    lines += [""] if lines else []
    tables = [(file_key(field), dataclass_of(hint)) for field, hint in field_types(JobSpec)]
    lines += [f"{name} = {_value(tree[name])}" for name, cls in tables
              if name in tree and not isinstance(tree[name], Mapping)]  # fmt: skip
    for name, cls in tables:
        table = tree.get(name)
        if not isinstance(table, Mapping):
            continue
        order = [file_key(field) for field, _ in field_types(cls)] if cls else list(table)
        inner = {key: table[key] for key in order if key in table}
        plain = {key: value for key, value in inner.items() if not isinstance(value, Mapping)}
        if plain:
            lines += ["", f"[{name}]", *_pairs(plain)]
        for key, value in inner.items():
            if isinstance(value, Mapping):
                lines += ["", f"[{name}.{key}]", *_pairs(value)]
    return "\n".join(lines) + "\n"


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {_value(value)}" for name, value in table.items()]


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _value(value: object) -> str:
    """Return a value; text of several lines as it stands, where TOML can quote it so."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str) and "\n" in value and _LITERAL.fullmatch(value):
        return f"'''\n{value}'''"
    return json.dumps(value, ensure_ascii=False)
