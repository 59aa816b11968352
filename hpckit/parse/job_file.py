"""The job file, and the layers that make it a whole job: options over file over site."""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from hpckit.errors import ConfigError
from hpckit.model.job import JOB_SCHEMA, JobSpec
from hpckit.model.origin import EffectiveJob, OriginKind, ValueOrigin
from hpckit.model.rules import file_key
from hpckit.model.tree import to_tree
from hpckit.parse.document import (
    Tree,
    convert,
    dataclass_of,
    field_types,
    refuse_other_document,
    refuse_unknown_keys,
)

EXCLUSIVE_KEYS = (
    ("resources.mem", "resources.mem_per_cpu", "resources.mem_per_gpu"),
    ("environment.venv", "environment.conda"),
)
"""Keys of which a job has one at most: sbatch(1), --mem; one Python environment."""

APPENDED_LISTS = frozenset({"environment.pass"})
"""Keys whose lists add up over the layers, because a site's own pass-through must not vanish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One source of values: a partial job tree, its rank among the layers, and its name.

    `prefix` is where in the source the tree stands, as errors say it: `stages[1].`.
    """

    tree: Tree
    kind: OriginKind
    source: str
    details: Mapping[str, str]
    prefix: str = ""

    def detail(self, key: str) -> str:
        """What to name for `key`: the option that set it, or the layer's own name, no path."""
        return self.details.get(key, PurePath(self.source).name)


def file_layer(tree: Tree, source: str) -> Layer:
    """The layer of a job file that was read. Raises ConfigError for bad keys or schema."""
    refuse_other_document(tree, JobSpec, JOB_SCHEMA, source)
    return Layer(tree=tree, kind=OriginKind.JOB, source=source, details={})


def site_layer(tree: Mapping[str, Any], site_name: str) -> Layer:
    """The layer of a site's `[job]` defaults."""
    source = f"site {site_name}"
    refuse_unknown_keys(tree, JobSpec, source)
    return Layer(tree=dict(tree), kind=OriginKind.SITE, source=source, details={})


def option_layer(values: Mapping[str, tuple[object, str]]) -> Layer:
    """The layer of the command line: dotted key → (value, the option as typed)."""
    tree: Tree = {}
    for key, (value, option) in values.items():
        _put(tree, key, value, option)
    details = {key: option for key, (_, option) in values.items()}
    try:
        refuse_unknown_keys(tree, JobSpec, "command line")
    except ConfigError as error:
        raise _blaming(error, details.get(error.key or "", "command line"), error.key) from None
    return Layer(tree=tree, kind=OriginKind.COMMAND_LINE, source="command line", details=details)


def report_layer(values: Mapping[str, object], report_id: str) -> Layer:
    """The layer of a report's advice: dotted key → value. Raises ConfigError for bad keys."""
    source = f"report {report_id}"
    tree: Tree = {}
    for key, value in values.items():
        _put(tree, key, value, source)
    refuse_unknown_keys(tree, JobSpec, source)
    return Layer(
        tree=tree, kind=OriginKind.REPORT, source=source, details=dict.fromkeys(values, source)
    )


def effective_job(
    layers: Sequence[Layer], refuse: Callable[[JobSpec], None] | None = None
) -> EffectiveJob:
    """Merge layers, strongest first, into a job whose every value knows its origin.

    `refuse` raises ConfigError for a launch that is none (hpckit.script.launchers). Raises
    ConfigError naming the layer that a bad value came from.
    """
    merged: Tree = {"schema": JOB_SCHEMA}
    owner: dict[str, Layer] = {}
    for layer in reversed(layers):
        _drop_excluded(merged, owner, layer)
        for key, value in _leaves(layer.tree, JobSpec):
            held = _get(merged, key)
            if key in APPENDED_LISTS and isinstance(held, list) and isinstance(value, list):
                added = [*held, *(item for item in value if item not in held)]
                _put(merged, key, added, layer.source)
            else:
                _put(merged, key, value, layer.source)
            owner[key] = layer
    said = _convert_blaming(merged, owner, layers, refuse)
    ranks = replace(said.resources, ntasks_per_node=said.ntasks_per_node)
    spec = replace(said, resources=ranks)
    tree = to_tree(spec)
    return EffectiveJob(spec=spec, origins=_origins(tree, owner), digest=digest_of(tree))


def _drop_excluded(merged: Tree, owner: dict[str, Layer], layer: Layer) -> None:
    """Where keys exclude each other, a stronger layer's word takes the place of a weaker one's."""
    said = {key for key, _ in _leaves(layer.tree, JobSpec)}
    for group in EXCLUSIVE_KEYS:
        if said.isdisjoint(group):
            continue
        for key in group:
            if owner.pop(key, None) is not None:
                *parents, last = _split(key)
                _get(merged, ".".join(parents)).pop(last)


def digest_of(tree: Any) -> str:
    """SHA-256 of the canonical JSON of a document: fields in schema order, tables as written."""
    text = json.dumps(tree, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _convert_blaming(
    merged: Tree,
    owner: Mapping[str, Layer],
    layers: Sequence[Layer],
    refuse: Callable[[JobSpec], None] | None,
) -> JobSpec:
    try:
        spec = convert(merged, JobSpec, layers[0].source if layers else "job")
        (refuse or _accept)(spec)
    except ConfigError as error:
        layer = owner.get((error.key or "").split("[")[0])
        if layer is None:
            layer = next((one for one in layers if one.kind is OriginKind.JOB), None)
        if layer is None:
            raise
        source = layer.details.get(error.key or "", layer.source)
        key = error.key and f"{layer.prefix}{error.key}"
        raise _blaming(error, source, key) from error.__cause__
    return spec


def _accept(_spec: JobSpec) -> None:
    """Refuse nothing."""


def _blaming(error: ConfigError, source: str, key: str | None) -> ConfigError:
    """The same error, told of where its value comes from."""
    return ConfigError(error.reason, source=source, key=key, hint=error.hint)


def _leaves(tree: Mapping[str, Any], cls: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    inner_of = {file_key(field): dataclass_of(hint) for field, hint in field_types(cls)}
    for name, value in tree.items():
        inner = inner_of.get(name)
        if inner is not None and isinstance(value, Mapping):
            yield from _leaves(value, inner, f"{prefix}{name}.")
        elif isinstance(value, Mapping):
            for entry, entry_value in value.items():
                yield f"{prefix}{name}.{entry}", entry_value
        else:
            yield f"{prefix}{name}", value


def _origins(tree: Tree, owner: Mapping[str, Layer]) -> tuple[ValueOrigin, ...]:
    found = []
    for key, value in _leaves(tree, JobSpec):
        if value is None or (value == [] and key not in owner) or key == "schema":
            continue
        layer = owner.get(key)
        found.append(
            ValueOrigin(
                key=key,
                value=json.dumps(value, ensure_ascii=False),
                origin=OriginKind.DEFAULT if layer is None else layer.kind,
                detail="hpckit" if layer is None else layer.detail(key),
            )
        )
    return tuple(found)


def _split(key: str) -> list[str]:
    head, *rest = key.split(".", 1)
    if not rest:
        return [head]
    second, *tail = rest[0].split(".", 1)
    return [head, second, *tail]


def _put(tree: Tree, key: str, value: Any, source: str) -> None:
    *parents, last = _split(key)
    for parent in parents:
        tree = tree.setdefault(parent, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{parent} is not a table here", source=source, key=key)
    tree[last] = value


def _get(tree: Tree, key: str) -> Any:
    node: Any = tree
    for part in _split(key):
        if not isinstance(node, Mapping) or part not in node:
            return None
        node = node[part]
    return node


def is_text_key(path: str) -> bool:
    """Whether a dotted key of the job file holds text: there a number that was typed is text."""
    cls: type | None = JobSpec
    hint: object = None
    for name in path.split("."):
        if cls is None:
            return False
        hint = next((hint for field, hint in field_types(cls) if file_key(field) == name), None)
        cls = dataclass_of(hint)
    return hint is str or (isinstance(hint, types.UnionType) and str in hint.__args__)
