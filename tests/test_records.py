"""Records behave as the dataclasses of Python do."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import pytest

from stages import records

T = TypeVar("T")
Decorator = Callable[..., Callable[[type], type]]
_DECORATORS = {"records": records.dataclass, "dataclasses": dataclasses.dataclass}


@records.dataclass(frozen=True, slots=True)
class Point:
    """Pickled by its name, so at the top of the module."""

    x: int
    y: int = 2
    seen: list[int] = records.field(default_factory=list, compare=False, repr=False)


@records.dataclass(frozen=True)
class Box(Generic[T]):
    inner: T
    name: str = "box"


def shapes(dataclass: Any, frozen: bool) -> tuple[type, type, type]:
    """Some classes, by one of the decorators."""

    @dataclass(frozen=frozen, slots=True)
    class Empty:
        pass

    @dataclass(frozen=frozen, slots=True)
    class One:
        value: float

        def __repr__(self) -> str:
            return f"<{self.value}>"

    @dataclass(frozen=frozen, slots=True)
    class Many:
        one: One
        text: str = "none"
        parts: tuple[object, ...] = dataclasses.field(default_factory=tuple)
        aside: int = dataclasses.field(default=3, compare=False, repr=False)

    return Empty, One, Many


def facts(dataclass: Any, frozen: bool) -> list[object]:
    """What is seen from outside, hashes included."""
    empty, one, many = shapes(dataclass, frozen)
    objects = [empty(), one(1.5), one(math.nan), many(one(2.0)), many(one(2.0), "x", parts=(1, 2))]
    seen: list[object] = [repr(item).replace("shapes.<locals>.", "") for item in objects]
    seen += [[a == b for b in objects] for a in objects]
    seen += [many(one(1.0), aside=4) == many(one(1.0)), one(1.0) == 1.0, one(1.0) != one(2.0)]
    if frozen:
        seen += [hash(item) for item in (empty(), one(1.5), many(one(2.0), "x", (3,)))]
    seen += [[item.name for item in dataclasses.fields(kind)] for kind in (empty, one, many)]
    seen += [dataclasses.asdict(many(one(2.0))), many.__match_args__, empty.__hash__ is None]
    changed = dataclasses.replace(many(one(2.0), aside=8), text="new")
    return [*seen, (changed.text, changed.aside, changed.one.value)]


@pytest.mark.parametrize("frozen", [True, False])
def test_records_are_as_dataclasses(frozen: bool) -> None:
    assert facts(records.dataclass, frozen) == facts(dataclasses.dataclass, frozen)


@pytest.mark.parametrize("given", [(), (1, 2, [], 4), (1, 2, [], {"z": 1}), ({"y": 1},)])
def test_wrong_arguments_are_refused(given: tuple[object, ...]) -> None:
    named = given[-1] if given and isinstance(given[-1], dict) else {}
    plain = [item for item in given if not isinstance(item, dict)]
    for _ in range(2):
        with pytest.raises(TypeError):
            Point(*plain, **named)  # type: ignore[arg-type]
    assert Point(1).seen == []


def test_a_frozen_record_stays_as_it_is() -> None:
    point = Point(1)
    for name in ("x", "new"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(point, name, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x  # type: ignore[misc]
    assert (type(point), point.x, hasattr(point, "__dict__")) == (Point, 1, False)


def test_defaults_are_made_anew() -> None:
    one, other = Point(1), Point(1)
    one.seen.append(1)
    assert other.seen == []


@pytest.mark.parametrize("item", [Point(5, 6, [7]), Box(Point(1)), Box("x", "y")])
def test_records_are_copied_and_pickled(item: Any) -> None:
    for twin in (copy.copy(item), copy.deepcopy(item), pickle.loads(pickle.dumps(item))):
        assert twin == item
        assert type(twin) is type(item)


def test_an_object_of_a_subclass_is_one() -> None:
    class Named(Point):
        pass

    class Bare(Point):
        __slots__ = ()

    for kind in (Named, Bare):
        assert type(kind(1, 2)) is kind
        assert kind(1, 2).x == 1
        assert kind(1, 2) != Point(1, 2)


def test_records_of_records_have_all_fields() -> None:
    @records.dataclass(frozen=True, slots=True)
    class Space(Point):
        z: int = 4

    assert repr(Space(1, z=3)).endswith("Space(x=1, y=2, z=3)")
    assert records.replace(Space(1), z=5).z == 5


@pytest.mark.parametrize("decorator", sorted(_DECORATORS))
def test_what_follows_the_fields_is_run(decorator: str) -> None:
    @_DECORATORS[decorator](frozen=True, slots=True)
    class Checked:
        low: int
        high: int
        span: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            if self.high < self.low:
                raise ValueError("upside down")
            object.__setattr__(self, "span", self.high - self.low)

    for _ in range(2):
        assert Checked(1, 3).span == 2
        with pytest.raises(ValueError, match="upside down"):
            Checked(3, 1)
    assert records.replace(Checked(1, 3), high=7).span == 6


def test_an_unknown_field_cant_be_replaced() -> None:
    assert records.replace(Point(1, 3), x=2) == Point(2, 3)
    with pytest.raises(TypeError, match="no field 'z'"):
        records.replace(Point(1), z=2)  # type: ignore[call-arg]


def test_equality_may_be_identity() -> None:
    @records.dataclass(frozen=True, eq=False)
    class Thing:
        value: int

    one = Thing(1)
    assert one == one
    assert one != Thing(1)
    assert len({one, Thing(1)}) == 2
