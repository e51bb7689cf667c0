"""Dynamic axes get their extent; scalar integer inputs may get their value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from stages.errors import InputError

_EXAMPLE_EXTENT = 224
_EXAMPLE_LENGTH = 128


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of one input; `extent` is None while it is dynamic, `name` is "" if it has none."""

    value: ir.Value
    index: int
    extent: int | None
    name: str

    @property
    def key(self) -> str:
        return f"{self.value.name}.{self.index}"

    def __str__(self) -> str:
        return f'axis {self.index} "{self.name}"' if self.name else f"axis {self.index} (unnamed)"


def bind_inputs(
    model: ir.Model, declared: Mapping[str, int], given: Mapping[str, int]
) -> tuple[str, dict[str, int]]:
    """Gives every input a static shape; `given` overrides `declared` axis by axis.

    A key is an axis name (`N`), an input's axis (`x.2`), or a scalar integer input (`sr`), which
    thereby becomes a constant. Naming one axis of those that share a name binds them all.

    Returns:
        What was done in words, and the bindings that took effect.

    Raises:
        InputError: a key that names nothing, a contradiction, an extent below 1, a dynamic axis
            left over, an input of unknown rank.
    """
    extents: dict[str, tuple[str, int]] = {}
    used: dict[str, int] = {}
    for bindings in (declared, given):
        found: dict[str, tuple[str, int]] = {}
        for key, number in bindings.items():
            if (scalar := _scalar_input(model, key)) is not None:
                _fix_scalar(model, scalar, number)
                used[key] = number
                continue
            for axis in _axes_of(model, key):
                _check_binding(axis, key, number, found)
                found[axis.key] = (key, number)
        extents |= found
    dynamic = [axis for axis in _axes(model) if axis.extent is None]
    _refuse_unbound([axis for axis in dynamic if axis.key not in extents])
    for axis in dynamic:
        key, number = extents[axis.key]
        used[key] = number
        _set_extent(axis, number)
    return ", ".join(f"{key}={number}" for key, number in sorted(used.items())), used


def _set_extent(axis: _Axis, extent: int) -> None:
    assert axis.value.shape is not None
    dims = list(axis.value.shape)
    dims[axis.index] = extent
    axis.value.shape = ir.Shape(dims)


def _inputs(model: ir.Model) -> list[ir.Value]:
    return [value for value in model.graph.inputs if not value.is_initializer()]


def _axes(model: ir.Model) -> Iterator[_Axis]:
    for value in _inputs(model):
        if not isinstance(value.type, ir.TensorType):
            raise InputError(
                f"input {value.name!r} is {value.type}, not a tensor",
                where="the model's inputs",
                hint="export the model with tensors as inputs",
            )
        if value.shape is None:
            raise InputError(
                f"input {value.name!r} has no rank, so its axes can't be bound",
                where="the model's inputs",
                hint="export the model with the input's shape stated",
            )
        for index, dim in enumerate(value.shape):
            yield _axis(value, index, dim)


def _axis(value: ir.Value, index: int, dim: int | ir.SymbolicDim) -> _Axis:
    if isinstance(dim, int):
        return _Axis(value, index, dim if dim >= 0 else None, "")
    name = dim.value or ""
    # Paddle's exporter writes "?" for an axis that it has no name for.
    return _Axis(value, index, None, "" if name == "?" else name)


def _axes_of(model: ir.Model, key: str) -> list[_Axis]:
    axes = list(_axes(model))
    named = [axis for axis in axes if axis.name == key]
    if named:
        return named
    chosen = [axis for axis in axes if axis.key == key]
    if chosen and chosen[0].name:
        return [axis for axis in axes if axis.name == chosen[0].name]
    if chosen:
        return chosen
    raise InputError(
        f"binding {key!r} names no axis of the model",
        where=f"inputs: {'; '.join(_describe(value) for value in _inputs(model))}",
        hint=_known_keys(axes),
    )


def _known_keys(axes: list[_Axis]) -> str:
    keys = [axis.name or axis.key for axis in axes if axis.extent is None]
    if not keys:
        return "every axis of the model is static already: leave the binding out"
    return f"bind one of: {', '.join(dict.fromkeys(keys))}"


def _describe(value: ir.Value) -> str:
    dims = [] if value.shape is None else [
        str(dim) if isinstance(dim, int) else (dim.value or "?") for dim in value.shape
    ]  # fmt: skip
    return f"{value.name}[{','.join(dims)}]"


def _check_binding(axis: _Axis, key: str, extent: int, found: dict[str, tuple[str, int]]) -> None:
    where = f"input {_describe(axis.value)}, axis {axis.index}"
    if extent < 1:
        raise InputError(
            f"binding {key}={extent}: an axis is at least 1 long", where=where,
            hint=f"for example --bind {key}=1",
        )  # fmt: skip
    if axis.extent is not None and axis.extent != extent:
        raise InputError(
            f"binding {key}={extent} contradicts the model, where the axis is {axis.extent}",
            where=where,
            hint=f"leave it out, or export the model with {extent}",
        )
    if axis.key in found and found[axis.key][1] != extent:
        other, number = found[axis.key]
        raise InputError(
            f"bindings {other}={number} and {key}={extent} contradict each other",
            where=where,
            hint="keep one of them",
        )


def _refuse_unbound(axes: list[_Axis]) -> None:
    if not axes:
        return
    by_input: dict[str, list[str]] = {}
    for axis in axes:
        by_input.setdefault(str(axis.value.name), []).append(str(axis))
    listed = "; ".join(f"{name}: {', '.join(items)}" for name, items in by_input.items())
    pairs = {axis.name or axis.key: _example(axis) for axis in axes}
    line = " ".join(f"{_quoted(key)}={number}" for key, number in pairs.items())
    raise InputError(
        f"dynamic axes without an extent: {listed}",
        where="the model's inputs",
        hint=f"give each its extent, for example: --bind {line}",
    )


def _example(axis: _Axis) -> int:
    if axis.index == 0:
        return 1
    assert axis.value.shape is not None
    return _EXAMPLE_EXTENT if len(axis.value.shape) == 4 else _EXAMPLE_LENGTH


def _quoted(key: str) -> str:
    plain = all(character.isalnum() or character in "._-/:" for character in key)
    return key if plain else f"'{key}'"


def _scalar_input(model: ir.Model, key: str) -> ir.Value | None:
    for value in _inputs(model):
        if value.name == key and is_bindable_scalar(value):
            return value
    return None


def is_bindable_scalar(value: ir.Value) -> bool:
    """Whether an input is a single integer, whose value a binding can fix."""
    integral = value.dtype is not None and value.dtype.is_integer()
    return (
        value.is_graph_input()
        and integral
        and value.shape is not None
        and tuple(value.shape) in ((), (1,))
    )


def _fix_scalar(model: ir.Model, value: ir.Value, number: int) -> None:
    assert value.dtype is not None
    assert value.shape is not None
    array = np.full(value.shape.numpy(), number, value.dtype.numpy())
    model.graph.inputs.remove(value)
    value.const_value = ir.tensor(array, name=value.name)
    model.graph.register_initializer(value)
