"""A job file with `[[stages]]`: a chain of jobs, each stage a layer over the file's own keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hpckit.errors import ConfigError
from hpckit.model.job import JobSpec
from hpckit.model.stage import STAGES_KEY, stage_name_rule
from hpckit.parse.document import Tree, parse_toml, refuse_unknown_keys
from hpckit.parse.job_file import Layer, file_layer


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
    tree = parse_toml(text, source)
    if STAGES_KEY not in tree:
        if stage is not None:
            raise ConfigError(
                f"has no stage {stage!r}: it has no stages at all",
                source=source,
                hint="leave --stage out",
            )
        return [file_layer(tree, source)]
    names = _names(tree, source)
    if stage not in names:
        raise ConfigError(
            "is a chain of several jobs" if stage is None else f"has no stage {stage!r}",
            source=source,
            hint=f"--stage is one of: {', '.join(names)}",
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
    if "command" in tree:
        raise ConfigError(
            "a file with stages has no command of its own",
            source=source,
            key="command",
            hint="give each stage its command",
        )
    if "name" not in tree:
        raise ConfigError("is missing", source=source, key="name")
    if not isinstance(stages, list) or not stages:
        raise ConfigError(
            "expected a list of one table or more",
            source=source,
            key=STAGES_KEY,
            hint="begin each stage with [[stages]]",
        )
    names: list[str] = []
    for at, stage in enumerate(stages):
        names.append(_name(stage, f"{STAGES_KEY}[{at}]", names, source))
    return names


def _name(stage: Any, path: str, before: Sequence[str], source: str) -> str:
    if isinstance(stage, dict) and (odd := {"schema", STAGES_KEY}.intersection(stage)):
        raise ConfigError(
            "unknown key",
            source=source,
            key=f"{path}.{min(odd)}",
            hint="this key stands at the top of the file alone",
        )
    refuse_unknown_keys(stage, JobSpec, source, f"{path}.")
    name = stage.get("name")
    key = f"{path}.name"
    if name is None:
        raise ConfigError("is missing", source=source, key=key)
    expected = stage_name_rule(name) if isinstance(name, str) else "text"
    if expected is not None:
        raise ConfigError(f"got {name!r}, expected {expected}", source=source, key=key)
    if name in before:
        raise ConfigError(
            f"got {name!r}, expected a name that no other stage has", source=source, key=key
        )
    return str(name)
