"""The layers that make a whole job: options over job file over the user's file over the site."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hpckit.core.document import (
    Tree,
    convert,
    dataclass_of,
    field_types,
    parse_toml,
    refuse_other_document,
    refuse_unknown_keys,
)
from hpckit.core.errors import ConfigError
from hpckit.core.fields import Checked, file_key, matching, optional, to_tree
from hpckit.core.late import Late
from hpckit.core.values import dataclass
from hpckit.spec.job import JOB_SCHEMA, JobSpec
from hpckit.spec.options import COMPONENT_KEY, STAGES_KEY, stage_name_rule
from hpckit.spec.site import SITE_NAME_PATTERN, SITE_SCHEMA, SiteSpec
from hpckit.spec.slurm_options import SlurmOptions

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = Late("hashlib")


class OriginKind(StrEnum):
    """The layers of a job, strongest first."""

    COMMAND_LINE = "command line"
    REPORT = "report"
    JOB = "job"
    USER = "user"
    SITE = "site"
    DEFAULT = "default"


FROM_REPORT: Final = "--from-report"
"""The option that a layer of REPORT comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOrigin:
    """One value of the effective job: its dotted key, the value as JSON text, its layer.

    `detail` names the option, the report or the site; it never holds a path, so that the effective
    job is the same on every machine.
    """

    key: str
    value: str
    origin: OriginKind
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveJob:
    """A job with all defaults resolved, the origin of each value, and its digest.

    `digest` is the SHA-256 of the canonical JSON of `spec`, in hex.
    """

    spec: JobSpec
    origins: tuple[ValueOrigin, ...]
    digest: str


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


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDefaults(Checked):
    """A user's `config.toml`: defaults for all jobs, below the job file and above the site."""

    site: str | None = optional(
        "Default of `--site`.", matching(SITE_NAME_PATTERN, "the name of a site")
    )
    slurm: SlurmOptions = field(default_factory=SlurmOptions)


def parse_user_file(
    text: str, source: str, environment: Mapping[str, str]
) -> tuple[str | None, Layer]:
    """Return the site and the layer of a user's file; SBATCH_ACCOUNT and the like override it.

    Raises ConfigError for bad TOML, keys and values.
    """
    tree = parse_toml(text, source)
    said = convert(tree, UserDefaults, source)
    slurm = {
        name: value
        for name, value in tree.get("slurm", {}).items()
        if f"SBATCH_{name.upper()}" not in environment
    }
    layer = Layer(tree={"slurm": slurm}, kind=OriginKind.USER, source=source, details={})
    return said.site, layer


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
    spec, owner = _merged(layers, refuse)
    tree = to_tree(spec)
    return EffectiveJob(spec=spec, origins=_origins(tree, owner), digest=digest_of(tree))


def merged_job(layers: Sequence[Layer], refuse: Callable[[JobSpec], None] | None = None) -> JobSpec:
    """Return the job that `effective_job` makes, without the origins of its values."""
    return _merged(layers, refuse)[0]


def _merged(
    layers: Sequence[Layer], refuse: Callable[[JobSpec], None] | None
) -> tuple[JobSpec, Mapping[str, Layer]]:
    """Return the job of layers, and which layer each of its keys is of."""
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
    return replace(said, resources=ranks), owner


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
        if refuse is not None:
            refuse(spec)
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
            raise ConfigError(f"{parent} is not a table", source=source, key=key)
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


_PROBE = {"name": ("probe", "a probe job"), "command": (["true"], "a probe job")}


def parse_site_file(
    text: str,
    source: str,
    expected_name: str | None = None,
    refuse: Callable[[JobSpec], None] | None = None,
) -> SiteSpec:
    """The site in TOML `text`; its `[job]` defaults are checked as a job file would be.

    Raises ConfigError with `source`, the key, what was got and what was expected.
    """
    tree = parse_toml(text, source)
    site = convert(tree, SiteSpec, source, SITE_SCHEMA)
    if expected_name is not None and site.name != expected_name:
        raise ConfigError(
            f"got {site.name!r}, expected {expected_name!r}, the name of the file",
            source=source,
            key="name",
        )
    for key in ("schema", "command"):
        if key in site.job:
            raise ConfigError(
                f"a site cannot set this: each job sets it ({JOB_SCHEMA})",
                source=source,
                key=f"job.{key}",
            )
    if not site.job:
        return site
    try:
        _merged([option_layer(_PROBE), site_layer(site.job, site.name)], refuse)
    except ConfigError as error:
        raise ConfigError(
            error.reason, source=source, key=f"job.{error.key}", hint=error.hint
        ) from error
    return site


def stage_names(text: str, source: str) -> tuple[str, ...]:
    """The stages of a job file in their order, none for a file that is one job.

    Raises ConfigError for bad TOML and bad stages.
    """
    tree = parse_toml(text, source)
    return tuple(_names(tree, source)) if STAGES_KEY in tree else ()


def file_layers(text: str, source: str, stage: str | None) -> Sequence[Layer]:
    """The layers of a job file, strongest first: of a file with stages the one that is asked for.

    Raises ConfigError for bad TOML, keys or schema, and for a stage that is not there.
    """
    return tree_layers(parse_toml(text, source), source, stage)


def tree_layers(tree: Tree, source: str, stage: str | None = None) -> Sequence[Layer]:
    """The same of a file that was read."""
    if COMPONENT_KEY in tree:
        odd = STAGES_KEY in tree or stage is not None
        reason = (
            "a file with stages cannot have components"
            if odd
            else "this job has several components"
        )
        hint = None if odd else "choose one with --component"
        raise ConfigError(reason, source=source, key=COMPONENT_KEY, hint=hint)
    if STAGES_KEY not in tree:
        if stage is not None:
            raise ConfigError(
                f"has no stage {stage!r}: this file has no stages",
                source=source,
                hint="remove --stage",
            )
        return [file_layer(tree, source)]
    names = _names(tree, source)
    if stage not in names:
        raise ConfigError(
            "this file is a chain of several jobs" if stage is None else f"has no stage {stage!r}",
            source=source,
            hint=f"choose one with --stage: {', '.join(names)}",
        )
    common = {name: value for name, value in tree.items() if name != STAGES_KEY}
    at = names.index(stage)
    own = dict(tree[STAGES_KEY][at])
    own.pop("name")
    if isinstance(common.get("name"), str):
        own["name"] = f"{common['name']}-{stage}"
    shared = file_layer(common, source)
    return [replace(shared, tree=own, prefix=f"{STAGES_KEY}[{at}]."), shared]


def _names(tree: Tree, source: str) -> list[str]:
    """The names of the stages, each of which is checked for keys that do not belong there."""
    stages: Any = tree[STAGES_KEY]
    wrong: tuple[str, str, str | None] | None = None
    if "command" in tree:
        reason = "a file with stages takes no top-level command"
        wrong = reason, "command", "move command into each [[stages]]"
    elif "name" not in tree:
        wrong = "is missing", "name", None
    elif not isinstance(stages, list) or not stages:
        reason = "expected a list of at least one table"
        wrong = reason, STAGES_KEY, "begin each stage with [[stages]]"
    if wrong is not None:
        raise ConfigError(wrong[0], source=source, key=wrong[1], hint=wrong[2])
    names: list[str] = []
    for position, stage in enumerate(stages):
        names.append(_name(stage, f"{STAGES_KEY}[{position}]", names, source))
    return names


def refuse_odd_keys(table: Any, path: str, own: frozenset[str], source: str) -> None:
    """Raise ConfigError for a key of a stage or component that is neither a job's nor its own."""
    if isinstance(table, dict):
        if odd := {"schema", STAGES_KEY, COMPONENT_KEY}.intersection(table):
            hint = "this key is allowed only at the top of the file"
            raise ConfigError("unknown key", source=source, key=f"{path}.{min(odd)}", hint=hint)
        table = {name: value for name, value in table.items() if name not in own}
    refuse_unknown_keys(table, JobSpec, source, f"{path}.")


def _name(stage: Any, path: str, before: Sequence[str], source: str) -> str:
    refuse_odd_keys(stage, path, frozenset(), source)
    name = stage.get("name")
    expected = stage_name_rule(name) if isinstance(name, str) else "text"
    if name in before:
        expected = "a unique name: another stage has it"
    if name is None or expected is not None:
        wrong = "is missing" if name is None else f"got {name!r}, expected {expected}"
        raise ConfigError(wrong, source=source, key=f"{path}.name")
    return str(name)
