"""Values behave as dataclasses of the standard library, whatever of them is asked first."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import pickle
import pkgutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import msgspec
import pytest

import hpckit
from hpckit.core.values import dataclass, maker


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value with defaults."""

    kind: ClassVar[str] = "node"
    name: str
    gpus: int = 8
    tags: tuple[str, ...] = field(default_factory=tuple)
    secret: str = field(default="s", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack(Node):
    """A value that inherits fields and checks itself."""

    height: int

    def __post_init__(self) -> None:
        if self.height < 0:
            raise ValueError(self.height)


@dataclass(slots=True)
class Counter:
    """A value that changes, made by position."""

    count: int
    step: int = 1


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """A value in order, as releases are."""

    major: int
    minor: int = 0


FIRST_USES: list[Callable[[], object]] = [
    lambda: Node(name="a") == Node(name="a", gpus=8),
    lambda: Node(name="a") != Node(name="b"),
    lambda: Release(24, 5) < Release(24, 11) <= Release(24, 11) > Release(23, 11),
    lambda: sorted([Release(2), Release(1)]) == [Release(1), Release(2)],
    lambda: Release(2) >= Release(2),
    lambda: hash(Node(name="a")) == hash(Node(name="a")),
    lambda: repr(Node(name="a")) == "Node(name='a', gpus=8, tags=())",
    lambda: [one.name for one in dataclasses.fields(Rack)][-1] == "height",
    lambda: dataclasses.replace(Node(name="a"), gpus=4).gpus == 4,
    lambda: dataclasses.asdict(Counter(3)) == {"count": 3, "step": 1},
    lambda: copy.copy(Node(name="a")) == Node(name="a"),
    lambda: msgspec.convert({"name": "a", "gpus": 2}, Node).gpus == 2,
    lambda: msgspec.to_builtins(Counter(1, 2)) == {"count": 1, "step": 2},
    lambda: Rack(name="a", height=1) != Node(name="a"),
    lambda: Node.kind == "node",
    lambda: pickle.loads(pickle.dumps(Rack(name="a", height=1))).height == 1,  # noqa: S301
    lambda: maker(Rack)(name="a", height=1) == Rack(name="a", height=1),
]


@pytest.mark.parametrize("number", range(len(FIRST_USES)))
def test_whatever_is_asked_first_a_value_is_a_dataclass(number: int) -> None:
    """In a process of its own, where the class was not used before."""
    asked = f"from tests.unit.core.test_values import FIRST_USES; assert FIRST_USES[{number}]()"
    subprocess.run([sys.executable, "-c", asked], check=True)


def test_a_pickle_is_read_where_no_value_was_made() -> None:
    """As in a worker process that gets its first value from another."""
    read = "import pickle, sys; print(pickle.load(sys.stdin.buffer).name)"
    done = subprocess.run([sys.executable, "-c", read], input=pickle.dumps(Node(name="a")),
                          capture_output=True, check=True)  # fmt: skip
    assert done.stdout == b"a\n"


def test_a_frozen_value_stays_as_it_was_made() -> None:
    """Neither a field nor another name is set or deleted; a value that changes takes fields."""
    node, counter = Node(name="a"), Counter(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="gpus"):
        node.gpus = 1  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="gpus"):
        del node.gpus
    counter.count += 1
    assert counter == Counter(2)
    with pytest.raises(TypeError):
        hash(counter)
    assert not hasattr(node, "__dict__")


def test_wrong_arguments_are_refused_by_name() -> None:
    """As Python refuses those of a function; and a value's own check is made."""
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'name'"):
        Node()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'gpu'"):
        Node(name="a", gpu=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="-1"):
        Rack(name="a", height=-1)


def test_what_a_maker_makes_is_the_same_value() -> None:
    """Its class, frozen, with its defaults and its own check; wrong arguments are refused."""
    rack = maker(Rack)(name="a", height=1)
    assert type(rack) is Rack
    assert hash(rack) == hash(Rack(name="a", height=1))
    assert (rack.gpus, rack.tags, maker(Counter)(3).step) == (8, (), 1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="height"):
        rack.height = 2  # type: ignore[misc]
    with pytest.raises(ValueError, match="-1"):
        maker(Rack)(name="a", height=-1)
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'name'"):
        maker(Node)()


def test_threads_may_use_a_class_first_together() -> None:
    """The sampler and users of the API have threads; each gets the whole class."""
    failed: list[TypeError] = []

    def use(made: type[Node], start: threading.Barrier) -> None:
        start.wait()
        try:
            made(name="a")
        except TypeError as error:
            failed.append(error)

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            body = {"__annotations__": {"name": "str", "tags": "list[str]"},
                    "tags": field(default_factory=list), "__module__": __name__}  # fmt: skip
            made: Any = dataclass(frozen=True, slots=True, kw_only=True)(type("Made", (), body))
            start = threading.Barrier(2)
            threads = [threading.Thread(target=use, args=(made, start)) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval_s)
    assert failed == []


def test_fields_may_be_left_out_of_the_arguments_and_of_comparing() -> None:
    """As `field(init=False)` and `field(compare=False)` say."""

    @dataclass(slots=True)
    class Trial:
        number: int
        log: list[str] = field(default_factory=list, init=False, compare=False)

    one, other = Trial(1), Trial(1)
    one.log.append("x")
    assert one == other
    with pytest.raises(TypeError, match="log"):
        Trial(1, log=[])  # type: ignore[call-arg]


def test_every_class_of_hpckit_can_be_built() -> None:
    """What is declared wrongly fails here, and not at its first use."""
    for module in pkgutil.walk_packages(hpckit.__path__, "hpckit."):
        if module.name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and hasattr(value, "__dataclass_fields__"):
                assert dataclasses.fields(value) is not None


def test_many_values_are_made_as_the_first() -> None:
    """The function that is compiled when it pays does as the plain one: checks and refusals too."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Disk(Rack):
        size: int = 3

    made = [Disk(name="a", height=2, tags=("x",)) for _ in range(100)]
    assert set(made) == {Disk(name="a", gpus=8, tags=("x",), height=2, size=3)}
    for _ in range(2):
        with pytest.raises(TypeError, match="height"):
            Disk(name="a")  # type: ignore[call-arg]
        with pytest.raises(ValueError, match="-1"):
            Disk(name="a", height=-1)


def test_a_default_that_values_would_share_is_refused() -> None:
    """As the standard decorator refuses it, but when the class is first used."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Shared:
        tags: list[str] = []  # noqa: RUF012

    with pytest.raises(ValueError, match="tags"):
        Shared()
