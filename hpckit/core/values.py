"""`dataclass` as in the standard library, but built when the first value of a class is made.

The standard decorator compiles six functions a class, 0.5 ms, and a command defines a hundred
classes of which it uses ten. This one compiles one function, `__init__`, where many values are
made. What comes out is a dataclass: `fields`, `replace`, `asdict`, copies, pickle and msgspec take
it as one.
"""

from __future__ import annotations

import _thread
import dataclasses
import functools
import operator
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from dataclasses import dataclass
else:

    def dataclass(**how: bool) -> Callable[[type], type]:
        """Return the decorator; the standard one where other options are given, or no slots."""
        standard = dataclasses.dataclass(**how)
        if not how.get("slots") or not how.keys() <= {"slots", "frozen", "kw_only", "order"}:
            return standard

        def decorate(declared: type) -> type:
            if not _OWN.isdisjoint(vars(declared)):
                return standard(declared)
            return _slotted(declared, **{name: on for name, on in how.items() if name != "slots"})

        return decorate


__all__ = ["dataclass", "maker"]
Value = TypeVar("Value")
_FIELDS: Final = "__dataclass_fields__"


_OWN: Final = frozenset(("__init__", "__eq__", "__hash__"))
"""A class that has its own of these is left to the standard decorator."""
_BUILDING: Final = _thread.RLock()
"""Held while a class is built, and its bases with it: two threads may use it first."""


class _Unbuilt:
    """What stands for the fields of a class until they are asked for."""

    def __init__(self, build: Callable[[], object]) -> None:
        self._build = build

    def __get__(self, _value: object, owner: type) -> dict[str, dataclasses.Field[Any]]:
        self._build()
        fields: dict[str, dataclasses.Field[Any]] = getattr(owner, _FIELDS)
        return fields


def _slotted(
    declared: type, *, frozen: bool = False, kw_only: bool = False, order: bool = False
) -> type:
    """Return a class with a slot for each field, which builds the rest when it is first used."""
    body = dict(vars(declared))
    names = [name for name, kind in body.get("__annotations__", {}).items()
             if "ClassVar[" not in kind]  # fmt: skip
    for name in (*names, "__dict__", "__weakref__"):
        body.pop(name, None)
    inherited = [vars(base).get("__slots__", ()) for base in declared.__mro__[1:]]
    body["__slots__"] = tuple(name for name in names if not any(name in one for one in inherited))

    def build() -> Any:
        with _BUILDING:
            if isinstance(vars(made)[_FIELDS], _Unbuilt):
                _complete(made, declared, kw_only=kw_only)
        return made

    def init(self: object, /, *args: object, **values: object) -> None:
        build().__init__(self, *args, **values)

    shared = {"__init__": init, _FIELDS: _Unbuilt(build), **_METHODS}
    shared |= _FROZEN if frozen else {"__hash__": None}
    shared |= _ORDERED if order else {}
    make: Any = type(declared)
    made: Any = make(declared.__name__, declared.__bases__, {**shared, **body})
    made.__qualname__ = declared.__qualname__
    return cast("type", made)


def _complete(made: Any, declared: type, *, kw_only: bool) -> None:
    """Give a class its fields, as they were declared, and its `__init__`."""
    fields = _fields(declared, kw_only=kw_only)
    compared = [name for name, field in fields.items() if field.compare]
    made._compared = operator.attrgetter(*compared or ("__class__",))
    by_place = [name for name, field in fields.items() if field.init and not field.kw_only]
    setattr(made, "__match_args__", tuple(by_place))  # noqa: B010  mypy refuses the other way
    made.__dataclass_params__ = vars(_Pattern)["__dataclass_params__"]
    made.__init__ = _plain_init(made, list(fields.values()))
    made.__dataclass_fields__ = fields


@dataclasses.dataclass(init=False, repr=False, eq=False)
class _Pattern:
    """The standard decorator's own class: what it says of every class and every field."""

    field: object


def _fields(declared: type, *, kw_only: bool) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of a class with its bases', in a fifth of the standard decorator's time."""
    found: dict[str, dataclasses.Field[Any]] = {}
    for base in declared.__mro__[:0:-1]:
        found |= getattr(base, _FIELDS, {})
    body = vars(declared)
    for name, kind in body.get("__annotations__", {}).items():
        if "ClassVar[" in kind:
            continue
        one: Any = body.get(name, dataclasses.MISSING)
        if not isinstance(one, dataclasses.Field):
            if type(one).__hash__ is None:
                raise ValueError(f"mutable default of {name}: use default_factory")
            one = dataclasses.field(default=one)
        one.name, one.type, one._field_type = name, kind, _FIELD
        one.kw_only = kw_only if one.kw_only is dataclasses.MISSING else one.kw_only
        found[name] = one
    return found


_FIELD: Final[Any] = dataclasses.fields(_Pattern)[0]._field_type  # type: ignore[attr-defined]


_MOST_PLAIN: Final = 40
"""A class of which no more values are made needs no function of its own: 0.1 ms each."""


def _plain_init(made: Any, fields: Sequence[dataclasses.Field[Any]]) -> Callable[..., None]:
    """Return an `__init__` that compiles nothing; that of `_init` takes its place when it pays."""
    unset = dataclasses.MISSING
    slots: Any = [
        (one.name, getattr(made, one.name).__set__, one.default, one.default_factory)
        for one in fields
    ]
    names = {field.name for field in fields}
    is_whole = all(field.init for field in fields)
    checks = hasattr(made, "__post_init__")
    calls = 0

    def init(self: Any, /, *args: object, **values: Any) -> None:
        nonlocal calls
        calls += 1
        if args or calls > _MOST_PLAIN or not is_whole or not values.keys() <= names:
            made.__init__ = _init(made, fields)
            made.__init__(self, *args, **values)
            return
        for name, put, default, new in slots:
            value = values.get(name, default)
            if value is unset:
                if new is unset:
                    _init(made, fields)(self, **values)  # raises, and says what is missing
                value = new()
            put(self, value)
        if checks:
            self.__post_init__()

    return init


def _init(made: Any, fields: Sequence[dataclasses.Field[Any]]) -> Callable[..., None]:
    """Return `__init__` of a class with these fields."""
    parameters, values, names = _arguments(fields)
    names |= {f"_set_{name}": getattr(made, name).__set__ for name in values}
    lines = [f"_set_{name}(self, {value})" for name, value in values.items()]
    if hasattr(made, "__post_init__"):
        lines.append("self.__post_init__()")
    done: Callable[..., None] = _function("__init__", f"self, {parameters}", lines, names)
    done.__qualname__ = f"{made.__qualname__}.__init__"
    done.__annotations__ = {
        **{field.name: field.type for field in fields if field.init},
        "return": None,
    }
    return done


@functools.cache
def maker(made: type[Value]) -> type[Value]:
    """Return a function that makes values as calling their class does, in half of the time.

    Calling a class puts keywords into a dict, and a frozen one has its slots set by one call each.
    Here a value is of a class with the same slots that is not frozen until they are set. The type
    is the class's own, so that its arguments are checked; the class is not generic.
    """
    parameters, values, names = _arguments(dataclasses.fields(cast("Any", made)))
    body = {"__slots__": vars(made)["__slots__"], "__setattr__": object.__setattr__}
    make: Any = type(made)
    names |= {"_new": object.__new__, "_made": made,
              "_open": make(made.__name__, made.__bases__, body)}  # fmt: skip
    lines = ["self = _new(_open)", *(f"self.{name} = {value}" for name, value in values.items())]
    lines.append("self.__class__ = _made")
    if hasattr(made, "__post_init__"):
        lines.append("self.__post_init__()")
    done = _function(made.__name__, parameters, [*lines, "return self"], names)
    return cast("type[Value]", done)


def _arguments(
    fields: Sequence[dataclasses.Field[Any]],
) -> tuple[str, dict[str, str], dict[str, object]]:
    """Return parameters, what each field is set to, and what these expressions name."""
    names: dict[str, object] = {"_unset": dataclasses.MISSING}
    values: dict[str, str] = {}
    parameters: dict[bool, list[str]] = {False: [], True: ["*"]}
    for field in fields:
        name = field.name
        value, default = name, ""
        if field.default_factory is not dataclasses.MISSING:
            names[f"_new_{name}"] = field.default_factory
            value, default = f"_new_{name}() if {name} is _unset else {name}", "=_unset"
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{name}"], default = field.default, f"=_default_{name}"
        if field.init:
            parameters[bool(field.kw_only)].append(f"{name}{default}")
        else:
            value = f"_new_{name}()" if default == "=_unset" else default.removeprefix("=")
        if value:
            values[name] = value
    keywords = parameters[True] if len(parameters[True]) > 1 else []
    return ", ".join([*parameters[False], *keywords]), values, names


def _function(name: str, parameters: str, lines: list[str], names: dict[str, object]) -> Any:
    body = "\n ".join(lines or ["pass"])
    exec(f"def {name}({parameters}):\n {body}", names)  # noqa: S102  as dataclasses does
    return names[name]


def _repr(self: Any) -> str:
    shown = [f"{field.name}={getattr(self, field.name)!r}"
             for field in dataclasses.fields(self) if field.repr]  # fmt: skip
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    compared = type(self)._compared
    return compared(self) == compared(other)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        compared = type(self)._compared
        return compare(compared(self), compared(other))

    return method


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


_METHODS: Final = {"__repr__": _repr, "__eq__": _eq, "__replace__": dataclasses.replace,
                   "__getstate__": _getstate, "__setstate__": _setstate}  # fmt: skip
_FROZEN: Final = {"__hash__": _hash, "__setattr__": _setattr, "__delattr__": _delattr}
_ORDERED: Final = {f"__{one.__name__}__": _ordered(one)
                   for one in (operator.lt, operator.le, operator.gt, operator.ge)}  # fmt: skip
