"""A model's bytes become a message, without a copy of its weights.

Protobuf's parser copies every byte of a message, and each tensor's once more when it is asked for.
Weights are nearly all of a model, so they are cut out first, and only the rest is parsed; their
arrays are views of the bytes that were read. The wire format is that of
https://protobuf.dev/programming-guides/encoding/; whatever looks unusual is left to the parser.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, TensorProto

from stages.records import dataclass

_LEAST_BYTES = 1 << 12
"""Data below this stay in the message: they may be looked at as they are there."""
_CUT = frozenset(
    {
        TensorProto.FLOAT,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.INT8,
        TensorProto.UINT8,
        TensorProto.INT32,
    }
)
_KEY_OF_EXTERNAL_DATA = b"location"


class _Wire(IntEnum):
    VARINT = 0
    EIGHT_BYTES = 1
    COUNTED = 2
    FOUR_BYTES = 5


class _Unusual(Exception):  # noqa: N818
    """The bytes aren't what a model's usually are."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a message: all of its bytes are `[start, stop)`, its content begins at `inner`;
    `value` is a number's."""

    number: int
    wire: int
    start: int
    inner: int
    stop: int
    value: int


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """A model, and by name the bytes of initialisers that have none in it: uint8[n]. `is_whole`:
    certainly no tensor's data lie in another file."""

    model: ModelProto
    weights: Mapping[str, NDArray[np.uint8]]
    is_whole: bool


def read_message(data: NDArray[np.uint8]) -> ModelMessage:
    """The model whose bytes these are: uint8[n]. They must stay as they are.

    Raises:
        DecodeError: they are no model's.
    """
    weights: dict[str, NDArray[np.uint8]] = {}
    view = memoryview(data.data)
    try:
        rest = b"".join(_without_weights(view, data, weights))
    except (_Unusual, IndexError, UnicodeDecodeError):
        return ModelMessage(ModelProto.FromString(view), {}, is_whole=False)
    return ModelMessage(ModelProto.FromString(rest), weights, _KEY_OF_EXTERNAL_DATA not in rest)


def _without_weights(
    view: memoryview, data: NDArray[np.uint8], weights: dict[str, NDArray[np.uint8]]
) -> list[bytes | memoryview]:
    parts: list[bytes | memoryview] = []
    for item in _fields(view, 0, len(view)):
        if item.number == ModelProto.FUNCTIONS_FIELD_NUMBER:
            raise _Unusual  # inlining them looks at initialisers
        if item.number == ModelProto.GRAPH_FIELD_NUMBER:
            parts += _counted(item, _graph(view, item, data, weights))
        else:
            parts.append(view[item.start : item.stop])
    return parts


def _graph(
    view: memoryview, graph: _Field, data: NDArray[np.uint8], weights: dict[str, NDArray[np.uint8]]
) -> list[bytes | memoryview]:
    initializer = GraphProto.INITIALIZER_FIELD_NUMBER
    parts: list[bytes | memoryview] = []
    for item in _fields(view, graph.inner, graph.stop):
        raw = None
        if item.number == initializer and item.stop - item.inner >= _LEAST_BYTES:
            raw = _raw_data(view, item, weights)
        if raw is None:
            parts.append(view[item.start : item.stop])
            continue
        name, found = raw
        weights[name] = data[found.inner : found.stop]
        parts += _counted(item, [view[item.inner : found.start], view[found.stop : item.stop]])
    return parts


def _raw_data(
    view: memoryview, tensor: _Field, known: Mapping[str, object]
) -> tuple[str, _Field] | None:
    """The name of a tensor, and where its data lie; None where they are to stay."""
    names, types, raws = [], [], []
    for item in _fields(view, tensor.inner, tensor.stop):
        if item.number == TensorProto.NAME_FIELD_NUMBER:
            names.append(str(view[item.inner : item.stop], "utf-8"))
        elif item.number == TensorProto.DATA_TYPE_FIELD_NUMBER:
            types.append(item.value)
        elif item.number == TensorProto.RAW_DATA_FIELD_NUMBER:
            raws.append(item)
    if len(names) != 1 or len(types) != 1 or len(raws) != 1 or names[0] in known:
        return None
    is_cut = types[0] in _CUT and raws[0].stop - raws[0].inner >= _LEAST_BYTES
    return (names[0], raws[0]) if is_cut else None


def _counted(item: _Field, inner: list[bytes | memoryview]) -> list[bytes | memoryview]:
    """A field of another length."""
    tag = _varint_bytes(item.number << 3 | _Wire.COUNTED)
    return [tag, _varint_bytes(sum(map(len, inner))), *inner]


def _fields(view: memoryview, start: int, end: int) -> Iterator[_Field]:
    at = start
    while at < end:
        tag, inner = _varint(view, at)
        number, wire, value = tag >> 3, tag & 7, 0
        if wire == _Wire.COUNTED:
            size, inner = _varint(view, inner)
            stop = inner + size
        elif wire == _Wire.VARINT:
            value, stop = _varint(view, inner)
        elif wire in (_Wire.EIGHT_BYTES, _Wire.FOUR_BYTES):
            stop = inner + (8 if wire == _Wire.EIGHT_BYTES else 4)
        else:
            raise _Unusual
        if stop > end:
            raise _Unusual
        yield _Field(number, wire, at, inner, stop, value)
        at = stop


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise _Unusual


def _varint_bytes(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
