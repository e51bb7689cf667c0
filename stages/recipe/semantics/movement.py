"""Data movement: results are views of the operands where numpy allows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stages.errors import InputError
from stages.recipe.graph import Operator
from stages.recipe.semantics.windows import Values, pad_or_crop
from stages.tensors import TensorType


def _only(operands: Sequence[Values | None]) -> Values:
    (x,) = operands
    assert x is not None
    return x


def concat(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """The operands one after the other along an axis."""
    parts = [operand for operand in operands if operand is not None]
    return (np.concatenate(parts, axis=operator.integer("axis")),)


def slice_box(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """A strided box; with a negative step the stop -1 lies before the first element."""
    spans = zip(
        operator.integers("starts"),
        operator.integers("stops"),
        operator.integers("steps"),
        strict=True,
    )
    box = tuple(slice(start, stop if stop >= 0 else None, step) for start, stop, step in spans)
    return (_only(operands)[box],)


def split(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """Consecutive parts of the given sizes along an axis."""
    places = np.cumsum(operator.integers("sizes"))[:-1].tolist()
    return tuple(np.split(_only(operands), places, axis=operator.integer("axis")))


def pad(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """ONNX Pad on every axis; negative amounts crop before anything is added."""
    x = _only(operands)
    pads = operator.integers("pads")
    begins, ends = pads[: x.ndim], pads[x.ndim :]
    mode = operator.word("mode")
    if mode == "constant":
        return (pad_or_crop(x, begins, ends, operator.number("value")),)
    cropped = pad_or_crop(x, [min(b, 0) for b in begins], [min(e, 0) for e in ends], 0)
    amounts = [(max(b, 0), max(e, 0)) for b, e in zip(begins, ends, strict=True)]
    return (np.pad(cropped, amounts, mode="reflect" if mode == "reflect" else "edge"),)


def transpose(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """The axes in another order."""
    return (_only(operands).transpose(operator.integers("permutation")),)


def reshape(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """The same elements in another shape; every extent is given."""
    return (_only(operands).reshape(operator.integers("shape")),)


def expand(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """Broadcast to the given shape, or to what both shapes broadcast to."""
    x = _only(operands)
    return (np.broadcast_to(x, np.broadcast_shapes(x.shape, operator.integers("shape"))),)


def gather(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """ONNX Gather: table, indices.

    Raises:
        InputError: an index lies outside the table.
    """
    table, indices = operands
    assert table is not None
    assert indices is not None
    axis = operator.integer("axis")
    extent = table.shape[axis]
    if indices.size and not (-extent <= int(indices.min()) and int(indices.max()) < extent):
        wrong = indices[(indices < -extent) | (indices >= extent)].flat[0]
        raise InputError(
            f"gather reads index {wrong} of an axis that has {extent} elements",
            where=f"operator {operator.name!r}, axis {axis}",
            hint="feed indices that lie inside the table",
        )
    from_start = np.where(indices < 0, indices + extent, indices)
    return (np.take(table, from_start, axis=axis, mode="clip"),)


def identity(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """The operand itself."""
    return (_only(operands),)
