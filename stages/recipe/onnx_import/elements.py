"""A model from its bytes, with the elements of its large initialisers copied once.

Parsed as a whole, each weight is copied into the message, and once more out of it. So large weights
are cut out of the bytes, and what remains, a small message, is left to onnx.

The wire format: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto, TensorProto

from stages.recipe.onnx_import.value_types import element_type
from stages.tensors import Array

_GRAPH = 7 << 3 | 2  # ModelProto.graph, as a length and its bytes
_INITIALIZER = 5 << 3 | 2  # GraphProto.initializer
_RAW_DATA = 9 << 3 | 2  # TensorProto.raw_data
_LARGE_BYTES = 1 << 14
_FIXED_BYTES = {1: 8, 5: 4}
_VARINT, _SIZED = 0, 2

Elements = Mapping[int, Array]
"""The data of initialisers by their place among a graph's."""


def parse_model(data: memoryview) -> tuple[ModelProto, Elements]:
    """The model in these bytes; large initialisers have no data in it, but in the second answer.

    Raises:
        DecodeError: the bytes are no model.
    """
    split = _split(data) if sys.byteorder == "little" else None
    if split is None:
        return _whole(data), {}
    model, elements = _whole(split[0]), split[1]
    if model.functions:  # inlining takes a model that is whole
        return _whole(data), {}
    return model, elements


def _split(data: memoryview) -> tuple[bytes, Elements] | None:
    """A model's bytes without large data, and those data; None where it can't be done.

    Nothing of `data` is held behind it, by an error's frames either: a mapped file can be closed.
    """
    try:
        return _apart(data)
    except _NotSplitError:
        return None


def _whole(data: bytes | memoryview) -> ModelProto:
    model = ModelProto()
    model.ParseFromString(data)
    return model


class _NotSplitError(Exception):
    """The bytes are broken, or hold what this module doesn't know."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a message: its key, and where it, what it holds and the next one begin."""

    key: int
    start: int
    content: int
    stop: int


@dataclass(slots=True)
class _Parts:
    """The pieces of a message, and the data of the initialisers among them."""

    pieces: list[bytes | memoryview] = field(default_factory=list)
    elements: dict[int, Array] = field(default_factory=dict)
    initializers: int = 0


def _apart(data: memoryview) -> tuple[bytes, Elements]:
    found = _Parts()
    model: list[bytes | memoryview] = []
    for item in _fields(data, 0, len(data)):
        if item.key != _GRAPH:
            model.append(data[item.start : item.stop])
            continue
        found.pieces = []
        for inner in _fields(data, item.content, item.stop):
            _add(found, data, inner)
        model += _sized(_GRAPH, b"".join(found.pieces))
    return b"".join(model), found.elements


def _add(found: _Parts, data: memoryview, item: _Field) -> None:
    """A field of the graph, without its data where it is a large initialiser."""
    found.pieces.append(data[item.start : item.stop])
    if item.key != _INITIALIZER:
        return
    place = found.initializers
    found.initializers += 1
    if item.stop - item.content < _LARGE_BYTES:
        return
    inner = list(_fields(data, item.content, item.stop))
    raw = [part for part in inner if part.key == _RAW_DATA]
    if len(raw) != 1:
        return
    rest = b"".join(data[part.start : part.stop] for part in inner if part.key != _RAW_DATA)
    elements = _elements(rest, data[raw[0].content : raw[0].stop])
    if elements is not None:
        found.pieces[-1:] = _sized(_INITIALIZER, rest)
        found.elements[place] = elements


def _elements(tensor: bytes, raw: memoryview) -> Array | None:
    """The data of a tensor; None where onnx has to look at them."""
    try:
        proto = TensorProto.FromString(tensor)
    except DecodeError as error:
        raise _NotSplitError from error
    dtype = element_type(proto.data_type)
    if dtype is None or proto.data_location or proto.HasField("segment"):
        return None
    if prod(proto.dims) * dtype.size_bytes != len(raw) or min(proto.dims, default=0) < 0:
        return None
    copied = np.empty(len(raw), np.uint8)
    copied[:] = np.frombuffer(raw, np.uint8)
    copied.flags.writeable = False
    return copied.view(dtype.numpy).reshape(tuple(proto.dims))


def _fields(data: memoryview, start: int, stop: int) -> Iterator[_Field]:
    """The fields of the message that lies in `data` from `start` to `stop`."""
    while start < stop:
        key, content = _varint(data, start, stop)
        kind = key & 7
        if kind == _SIZED:
            size, content = _varint(data, content, stop)
            end = content + size
        elif kind == _VARINT:
            _, end = _varint(data, content, stop)
        elif kind in _FIXED_BYTES:
            end = content + _FIXED_BYTES[kind]
        else:
            raise _NotSplitError
        if end > stop:
            raise _NotSplitError
        yield _Field(key, start, content, end)
        start = end


def _varint(data: memoryview, start: int, stop: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where the next thing begins."""
    value = shift = 0
    while start < stop and shift < 64:
        byte = data[start]
        start += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, start
        shift += 7
    raise _NotSplitError


def _sized(key: int, content: bytes) -> list[bytes]:
    """A field of bytes. Its key is below 128, a byte."""
    size, written = len(content), bytearray([key])
    while size >= 0x80:
        written.append(size & 0x7F | 0x80)
        size >>= 7
    written.append(size)
    return [bytes(written), content]
