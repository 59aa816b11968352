"""The components of a job file: jobs that run beside each other as one heterogeneous job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final

from hpckit.core.document import Tree, convert, parse_toml
from hpckit.core.errors import ConfigError
from hpckit.core.fields import Checked, key, listed, matching
from hpckit.core.values import dataclass
from hpckit.spec.merge import Layer, file_layer, refuse_odd_keys
from hpckit.spec.options import COMPONENT_KEY

COMPONENT_NAME_PATTERN: Final = r"(?!serve$)[a-z][a-z0-9_]{0,30}"
_NAME: Final = matching(
    COMPONENT_NAME_PATTERN,
    "a name of lower-case letters, digits and _, such as trainer; not serve, which is reserved "
    "(HPCKIT_SERVE_PORT)",
)
LEAST_COMPONENTS: Final = 2
MOST_COMPONENTS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentRequest(Checked):
    """`[[component]]`: keys of a component in addition to those of a job."""

    name: str = key(
        "Name of the component, unique in the file. Its Slurm job is named `<name>-<component>`.",
        check=_NAME,
    )
    after: tuple[str, ...] = listed(
        "Components above that must be ready before this one starts. A component with "
        "`serve.port` is ready when it answers, any other as soon as it has started.",
        _NAME,
    )
    service: bool = key(
        "This component serves the others: hpckit ends it when all components that are not "
        "services have ended.",
        default=False,
    )


_OWN: Final = frozenset(field.name for field in fields(ComponentRequest))


def component_requests(text: str, source: str) -> tuple[ComponentRequest, ...]:
    """Return what a job file's components say, none for a file that has none.

    Raises ConfigError for bad TOML and bad components.
    """
    tree = parse_toml(text, source)
    return tuple(_requests(tree, source)) if COMPONENT_KEY in tree else ()


def component_layers(text: str, source: str, component: str) -> Sequence[Layer]:
    """Return the layers of one component, strongest first. Raises ConfigError."""
    tree = parse_toml(text, source)
    names = [one.name for one in _requests(tree, source)] if COMPONENT_KEY in tree else []
    if component not in names:
        raise ConfigError(
            f"has no component {component!r}",
            source=source,
            hint=f"choose one with --component: {', '.join(names)}"
            if names
            else "remove --component",
        )
    common = {name: value for name, value in tree.items() if name != COMPONENT_KEY}
    position = names.index(component)
    own = {key: value for key, value in tree[COMPONENT_KEY][position].items() if key not in _OWN}
    own["name"] = f"{common['name']}-{component}"
    shared = file_layer(common, source)
    return [replace(shared, tree=own, prefix=f"{COMPONENT_KEY}[{position}]."), shared]


def _requests(tree: Tree, source: str) -> list[ComponentRequest]:
    components: Any = tree[COMPONENT_KEY]
    _refuse_shape(tree, components, source)
    found: list[ComponentRequest] = []
    for position, component in enumerate(components):
        path = f"{COMPONENT_KEY}[{position}]"
        refuse_odd_keys(component, path, _OWN - {"name"}, source)
        said = {key: value for key, value in component.items() if key in _OWN}
        try:
            request = convert(said, ComponentRequest, source)
        except ConfigError as error:
            where = f"{path}.{error.key}" if error.key else path
            raise ConfigError(error.reason, source=source, key=where, hint=error.hint) from error
        _refuse_place(request, path, [one.name for one in found], source)
        found.append(request)
    if all(request.service for request in found):
        hint = "remove `service = true` from the component that decides how long the job runs"
        raise ConfigError(
            "every component is a service", source=source, key=COMPONENT_KEY, hint=hint
        )
    return found


def _refuse_shape(tree: Tree, components: Any, source: str) -> None:
    wrong: tuple[str, str, str | None] | None = None
    if "command" in tree:
        reason = "a file with components takes no top-level command"
        wrong = reason, "command", "move command into each [[component]]"
    elif not isinstance(tree.get("name"), str):
        wrong = "is missing, or not text", "name", None
    elif not isinstance(components, list) or not (
        LEAST_COMPONENTS <= len(components) <= MOST_COMPONENTS
    ):
        reason = f"expected a list of {LEAST_COMPONENTS} to {MOST_COMPONENTS} tables"
        wrong = reason, COMPONENT_KEY, "begin each component with [[component]]"
    if wrong is not None:
        raise ConfigError(wrong[0], source=source, key=wrong[1], hint=wrong[2])


def _refuse_place(request: ComponentRequest, path: str, before: Sequence[str], source: str) -> None:
    if request.name in before:
        reason = f"got {request.name!r}, expected a unique name: another component has it"
        raise ConfigError(reason, source=source, key=f"{path}.name")
    if unknown := [name for name in request.after if name not in before]:
        reason = (
            f"got {unknown[0]!r}, expected a component defined above: {', '.join(before) or 'none'}"
        )
        raise ConfigError(reason, source=source, key=f"{path}.after")
