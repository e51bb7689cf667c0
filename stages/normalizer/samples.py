"""Sample inputs, drawn from a seed: what a model can take, by its graph."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as ir

from stages.normalizer.sample_files import Sample
from stages.tensors import Array, DType, TensorType

UNBOUNDED_INTEGERS = 100
"""Integers that index nothing are drawn below this."""

_MOVES_VALUES = frozenset(
    {"Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze",
     "Tile", "Transpose", "Unsqueeze"}
)  # fmt: skip
_INDEXES = frozenset({"Gather", "GatherElements"})


def input_types(model: ir.Model) -> dict[str, TensorType]:
    """The tensor type of every input of a normalised model, by name, in order."""
    return _types(model.graph.inputs)


def output_types(model: ir.Model) -> dict[str, TensorType]:
    """The tensor type of every output of a normalised model, by name, in order."""
    return _types(model.graph.outputs)


def draw_samples(model: ir.Model, seed: int, count: int) -> list[Sample]:
    """Seeded inputs that the model can take.

    Floats are standard normal; integers that end up as indices stay inside the table that they
    index; inputs called a mask are ones. Each array depends on the seed, the sample's index and
    the input's name alone.
    """
    limits = _index_limits(model)
    return [
        {
            name: _draw(name, kind, limits.get(name), _generator(seed, index, name))
            for name, kind in input_types(model).items()
        }
        for index in range(count)
    ]


def _types(values: Sequence[ir.Value]) -> dict[str, TensorType]:
    types: dict[str, TensorType] = {}
    for value in values:
        assert value.dtype is not None
        assert value.shape is not None
        types[str(value.name)] = TensorType(DType.of(value.dtype.numpy()), value.shape.numpy())
    return types


def _generator(seed: int, index: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, index, zlib.crc32(name.encode())])


def _draw(name: str, kind: TensorType, limit: int | None, generator: np.random.Generator) -> Array:
    dtype = kind.dtype.numpy
    if "mask" in name.lower():
        return np.ones(kind.shape, dtype)
    if kind.dtype is DType.BOOL:
        return generator.integers(0, 2, kind.shape).astype(dtype)
    if kind.dtype.is_float and limit is None:
        return np.asarray(generator.standard_normal(kind.shape)).astype(dtype)
    if limit is None and kind.dtype in (DType.I8, DType.U8):
        lowest = -128 if kind.dtype is DType.I8 else 0
        return np.asarray(generator.integers(lowest, lowest + 256, kind.shape)).astype(dtype)
    return np.asarray(generator.integers(0, limit or UNBOUNDED_INTEGERS, kind.shape)).astype(dtype)


def _index_limits(model: ir.Model) -> dict[str, int]:
    """For each input that ends up as an index: the rows of the smallest table it picks from."""
    limits: dict[str, int] = {}
    for value in model.graph.inputs:
        rows = [limit for limit in _tables(value, set()) if limit > 0]
        if rows:
            limits[str(value.name)] = min(rows)
    return limits


def _tables(value: ir.Value, visited: set[ir.Value]) -> Iterator[int]:
    if value in visited:
        return
    visited.add(value)
    for node, slot in value.uses():
        if node.op_type in _INDEXES and slot == 1:
            table = node.inputs[0]
            assert table is not None
            assert table.shape is not None
            yield table.shape.numpy()[node.attributes.get_int("axis", 0)]
        elif node.op_type in _MOVES_VALUES or (node.op_type in _INDEXES and slot == 0):
            for result in node.outputs:
                yield from _tables(result, visited)
