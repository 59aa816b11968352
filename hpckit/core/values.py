"""`dataclass` as in the standard library, but built when the first value of a class is made.

The standard decorator compiles six functions a class, 0.5 ms, and a command defines a hundred
classes of which it uses ten. This one compiles one function, `__init__`, on first use. What comes
out is a dataclass: `fields`, `replace`, `asdict`, copies, pickle and msgspec take it as one.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from dataclasses import dataclass
else:

    def dataclass(**how: bool) -> Callable[[type], type]:
        """Return the decorator; the standard one where there are no slots, or more is asked for."""
        if how.get("slots") and how.keys() <= {"slots", "frozen", "kw_only"}:
            return lambda declared: _slotted(
                declared, is_frozen=how.get("frozen", False), kw_only=how.get("kw_only", False)
            )
        return dataclasses.dataclass(**how)


__all__ = ["dataclass"]
_FIELDS: Final = "__dataclass_fields__"


class _Unbuilt:
    """What stands for the fields of a class until they are asked for."""

    def __init__(self, build: Callable[[], object]) -> None:
        self._build = build

    def __get__(self, _value: object, owner: type) -> dict[str, dataclasses.Field[Any]]:
        self._build()
        fields: dict[str, dataclasses.Field[Any]] = getattr(owner, _FIELDS)
        return fields


def _slotted(declared: type, *, is_frozen: bool, kw_only: bool) -> type:
    """Return a class with a slot for each field, which builds the rest when it is first used."""
    body = dict(vars(declared))
    names = [name for name, kind in body.get("__annotations__", {}).items()
             if not kind.startswith("ClassVar")]  # fmt: skip
    for name in (*names, "__dict__", "__weakref__"):
        body.pop(name, None)
    bases = [base for base in declared.__bases__ if base is not object]
    inherited = {name for name in names for base in bases if hasattr(base, name)}
    body["__slots__"] = tuple(name for name in names if name not in inherited)

    def build() -> Any:
        if isinstance(vars(made)[_FIELDS], _Unbuilt):
            declared.__doc__ = declared.__doc__ or made.__name__  # without one it is a signature
            made_of = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)
            bare: Any = made_of(declared)
            setattr(made, "__match_args__", bare.__match_args__)  # noqa: B010  mypy takes no other
            made.__dataclass_params__ = bare.__dataclass_params__
            made._compared = attrgetter(*bare.__dataclass_fields__)
            if vars(made)["__init__"] is init:
                made.__init__ = _init(made, dataclasses.fields(bare))
            made.__dataclass_fields__ = bare.__dataclass_fields__  # last: threads look at it
        return made

    def init(self: object, /, *args: object, **values: object) -> None:
        build().__init__(self, *args, **values)

    shared = {"__init__": init, _FIELDS: _Unbuilt(build), **_METHODS}
    shared |= _FROZEN if is_frozen else {"__hash__": None}
    make: Any = type(declared)
    made: Any = make(declared.__name__, declared.__bases__, {**shared, **body})
    made.__qualname__ = declared.__qualname__
    return cast("type", made)


def _init(made: Any, fields: Sequence[dataclasses.Field[Any]]) -> Callable[..., None]:
    """Return `__init__` of a class with these fields."""
    fields = sorted(fields, key=lambda field: bool(field.kw_only))
    first_kw_only = next((n for n, field in enumerate(fields) if field.kw_only), None)
    names: dict[str, object] = {"_unset": dataclasses.MISSING}
    parameters, lines = [], []
    for index, field in enumerate(fields):
        name = field.name
        value, default = name, ""
        if field.default_factory is not dataclasses.MISSING:
            names[f"_new_{name}"] = field.default_factory
            value, default = f"_new_{name}() if {name} is _unset else {name}", "=_unset"
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{name}"], default = field.default, f"=_default_{name}"
        names[f"_set_{name}"] = getattr(made, name).__set__
        parameters += ["*"] if index == first_kw_only else []
        parameters.append(name + default)
        lines.append(f" _set_{name}(self, {value})\n")
    if hasattr(made, "__post_init__"):
        lines.append(" self.__post_init__()\n")
    text = f"def __init__(self, {', '.join(parameters)}):\n{''.join(lines) or ' pass'}"
    exec(text, names)  # noqa: S102  as the standard decorator does
    done = cast("Callable[..., None]", names["__init__"])
    done.__qualname__ = f"{made.__qualname__}.__init__"
    return done


def _repr(self: Any) -> str:
    shown = [f"{field.name}={getattr(self, field.name)!r}"
             for field in dataclasses.fields(self) if field.repr]  # fmt: skip
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    compared = type(self)._compared
    return compared(self) == compared(other)


def _hash(self: Any) -> int:
    return hash(type(self)._compared(self))


def _getstate(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _setattr(_self: object, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


_METHODS: Final = {"__repr__": _repr, "__eq__": _eq,
                   "__getstate__": _getstate, "__setstate__": _setstate}  # fmt: skip
_FROZEN: Final = {"__hash__": _hash, "__setattr__": _setattr, "__delattr__": _delattr}
