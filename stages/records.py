"""Dataclasses that cost little to declare and to make: `from stages.records import dataclass`.

Python's own decorator compiles six functions for every frozen class that is declared, most of which
a run never calls, and the objects of such a class are made by one call of `object.__setattr__` a
field. The compiler declares three hundred classes and makes hundreds of thousands of objects, which
was a sixth of its time. Here `__init__` is compiled when the first object is made, the other
methods are shared, and a frozen object of many fields is written while it is of an open twin of its
class. The classes are dataclasses for `dataclasses` (`fields`, `asdict`, `replace`) and for a type
checker, with these options: `frozen`, `slots`, `eq`.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from dataclasses import dataclass, replace

__all__ = ["dataclass", "field", "replace"]

field = dataclasses.field
_NONE_GIVEN = dataclasses.MISSING
_FEW = 3
"""Fields that are written one by one, by their slots' own setters, as fast as by way of a twin."""


class _Declared:
    """What is known of a class from its declaration: the fields' names, and how to read them."""

    __slots__ = ("cls", "frozen", "names", "places", "read", "read_given")

    def __init__(self, cls: type, frozen: bool) -> None:
        self.cls = cls
        self.frozen = frozen
        given = tuple(item.name for item in dataclasses.fields(cls) if item.init)
        self.names = tuple(item.name for item in dataclasses.fields(cls))
        self.places = {name: place for place, name in enumerate(given)}
        self.read = _reader(self.names)
        self.read_given = _reader(given)


def _declare(cls: type, frozen: bool, slots: bool, eq: bool) -> type:
    if not cls.__doc__:
        cls.__doc__ = cls.__name__  # else the signature is worked out for it
    own = set(vars(cls))
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    declared = _Declared(made, frozen)
    methods = {"__init__": _first_init(declared), "__repr__": _show, **_equality(declared, eq)}
    if frozen:
        methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
        methods |= {"__getstate__": _state, "__setstate__": _restore}
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    made.__declared__ = declared
    return cast(type, made)


def _first_init(declared: _Declared) -> Any:
    """An `__init__` that gives way to the compiled one when the first object is made."""

    def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: N807
        init = _compiled_init(declared)
        setattr(declared.cls, "__init__", init)  # noqa: B010
        init(self, *given, **named)

    return __init__


def _compiled_init(declared: _Declared) -> Any:
    cls = declared.cls
    space: dict[str, Any] = {"_cls": cls, "_set": object.__setattr__, "_none_given": _NONE_GIVEN}
    parameters, made, written = [], [], []
    for item in dataclasses.fields(cls):
        name, default = item.name, item.default
        if item.default_factory is not dataclasses.MISSING:
            space[f"_make_{name}"] = item.default_factory
            default = _NONE_GIVEN
            made.append(f" if {name} is _none_given: {name} = _make_{name}()")
        space[f"_default_{name}"] = default
        has_default = default is not dataclasses.MISSING or f"_make_{name}" in space
        if item.init:
            parameters.append(f"{name}=_default_{name}" if has_default else name)
        elif has_default:
            made.insert(0, f" {name} = _default_{name}")
        else:
            continue
        written.append(name)
    body = made + _writing(declared, space, written)
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    source = "\n".join([f"def __init__({', '.join(['self', *parameters])}):", *body, " return"])
    exec(source, space)
    init = space["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return init


def _writing(declared: _Declared, space: dict[str, Any], names: list[str]) -> list[str]:
    """The lines that write the fields of these names."""
    plain = [f" self.{name} = {name}" for name in names]
    if not declared.frozen or not names:
        return plain
    cls = declared.cls
    slots: list[Any] = [getattr(cls, name, None) for name in names]
    if len(names) <= _FEW and all(isinstance(slot, MemberDescriptorType) for slot in slots):
        space |= {f"_put_{name}": slot.__set__ for name, slot in zip(names, slots, strict=True)}
        return [f" _put_{name}(self, {name})" for name in names]
    # An object of a subclass has another layout than the twin.
    space |= {"_open": _open_twin(cls), "_turn": object.__dict__["__class__"].__set__}
    return [
        " if self.__class__ is _cls:",
        "  _turn(self, _open)",
        *(f" {line}" for line in plain),
        "  self.__class__ = _cls",
        " else:",
        *(f"  _set(self, {name!r}, {name})" for name in names),
    ]


def _open_twin(cls: type) -> type:
    """A class of the same layout whose objects can be written."""
    space: dict[str, Any] = {"__setattr__": object.__setattr__, "__module__": cls.__module__}
    for name in ("__slots__", "__orig_bases__"):
        if name in vars(cls):
            space[name] = vars(cls)[name]
    return type(cls)(cls.__name__, cls.__bases__, space)


def _reader(names: tuple[str, ...]) -> Any:
    """A function from an object to the tuple of these attributes."""
    if len(names) > 1:
        return attrgetter(*names)
    if names:
        one = attrgetter(*names)
        return lambda item: (one(item),)
    return lambda item: ()


def _equality(declared: _Declared, eq: bool) -> dict[str, Any]:
    """`__eq__`, and `__hash__` or its absence, as `dataclasses` has them."""
    if not eq:
        return {}
    compared = [item for item in dataclasses.fields(declared.cls) if item.compare]
    hashed = tuple(item.name for item in compared if item.hash is not False)
    read = _reader(tuple(item.name for item in compared))
    read_hashed = _reader(hashed)

    def __eq__(self: Any, other: Any) -> Any:  # noqa: N807
        if self is other:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        return read(self) == read(other)

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(read_hashed(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if declared.frozen else None}


@recursive_repr()
def _show(self: Any) -> str:
    shown = (item.name for item in dataclasses.fields(self) if item.repr)
    parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{self.__class__.__qualname__}({parts})"


def _refuse_set(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> tuple[Any, ...]:
    values: tuple[Any, ...] = self.__declared__.read(self)
    return values


def _restore(self: Any, state: tuple[Any, ...]) -> None:
    for name, value in zip(self.__declared__.names, state, strict=True):
        object.__setattr__(self, name, value)


if not TYPE_CHECKING:

    def dataclass(*, frozen: bool = False, slots: bool = False, eq: bool = True) -> Any:
        """As `dataclasses.dataclass`, with these options alone."""
        return lambda cls: _declare(cls, frozen, slots, eq)

    def replace(item: Any, /, **changes: Any) -> Any:
        """As `dataclasses.replace`.

        Raises:
            TypeError: there is no field of a name.
        """
        declared = getattr(item, "__declared__", None)
        if declared is None or declared.cls is not item.__class__:
            return dataclasses.replace(item, **changes)
        values = list(declared.read_given(item))
        try:
            for name, value in changes.items():
                values[declared.places[name]] = value
        except KeyError as error:
            raise TypeError(f"{declared.cls.__name__} has no field {error}") from None
        return declared.cls(*values)
