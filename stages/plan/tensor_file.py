"""Safetensors files whose bytes depend on their content alone.

The format (https://github.com/huggingface/safetensors): the header's length as 8 little-endian
bytes, a JSON header, then the tensors' bytes. The library writes metadata in hash order, knows no
bfloat16 in numpy, and copies every tensor once more; these functions do none of that, and what
they write the library reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stages.errors import PackageError
from stages.tensors import Array, DType

_CODES = {
    DType.F16: "F16",
    DType.BF16: "BF16",
    DType.F32: "F32",
    DType.F64: "F64",
    DType.I8: "I8",
    DType.U8: "U8",
    DType.I16: "I16",
    DType.U16: "U16",
    DType.I32: "I32",
    DType.U32: "U32",
    DType.I64: "I64",
    DType.U64: "U64",
    DType.BOOL: "BOOL",
}
_BY_CODE = {code: dtype for dtype, code in _CODES.items()}
_METADATA = "__metadata__"
_LENGTH_BYTES = 8


class Sink(Protocol):
    """Where bytes go: a file, or something that hashes them on their way."""

    def write(self, data: Any, /) -> object:
        """Take all of the bytes of `data`, a buffer."""


@dataclass(frozen=True, slots=True)
class TensorFile:
    """What a safetensors file holds. The arrays are views of the bytes that were read."""

    tensors: Mapping[str, Array]
    metadata: Mapping[str, str]


def write_tensors(
    sink: Sink, tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors, those with the widest elements first, then by name.

    Arrays that are dense and little-endian are written from where they lie, without a copy.

    Raises:
        KeyError: an array's type has no counterpart in `DType`.
        ValueError: a tensor is named `__metadata__`.
    """
    if _METADATA in tensors:
        raise ValueError(f"a tensor can't be named {_METADATA}: the format keeps that name")
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, object] = {}
    if metadata:
        header[_METADATA] = dict(sorted(metadata.items()))
    offset = 0
    for name in names:
        array = tensors[name]
        header[name] = {
            "dtype": _CODES[DType.of(array.dtype.newbyteorder("="))],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    sink.write(len(text).to_bytes(_LENGTH_BYTES, "little"))
    sink.write(text)
    for name in names:
        sink.write(_raw_bytes(tensors[name]))


def _raw_bytes(array: Array) -> memoryview:
    dense = np.ascontiguousarray(array)
    if dense.dtype.byteorder == ">":
        dense = dense.astype(dense.dtype.newbyteorder("<"))
    return dense.reshape(-1).view(np.uint8).data


def read_tensors(data: NDArray[np.uint8], where: str) -> TensorFile:
    """The tensors in the bytes of a safetensors file, as views of them.

    `where` names the file in errors.

    Raises:
        PackageError: the bytes aren't a safetensors file: too short, no JSON header, or tensors
            that overlap, leave gaps, reach past the end, or disagree with their shape.
    """
    header, start = _read_header(data, where)
    metadata = header.pop(_METADATA, {})
    tensors: dict[str, Array] = {}
    expected = start
    entries = [(name, *_entry(name, entry, where)) for name, entry in header.items()]
    for name, dtype, shape, (begin, end) in sorted(entries, key=lambda entry: entry[3]):
        size = dtype.size_bytes
        for extent in shape:
            size *= extent
        if start + begin != expected or end - begin != size or start + end > data.size:
            raise _broken(f"tensor {name} lies at [{begin}, {end}), which doesn't fit", where)
        expected = start + end
        tensors[name] = data[start + begin : start + end].view(dtype.numpy).reshape(shape)
    if expected != data.size:
        raise _broken(f"{data.size - expected} bytes follow the last tensor", where)
    return TensorFile(tensors, {str(key): str(value) for key, value in metadata.items()})


def _read_header(data: NDArray[np.uint8], where: str) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(data[:_LENGTH_BYTES].tobytes(), "little")
    start = _LENGTH_BYTES + length
    if data.size < _LENGTH_BYTES or start > data.size:
        raise _broken(f"its {data.size} bytes are fewer than its header says", where)
    try:
        header = json.loads(data[_LENGTH_BYTES:start].tobytes())
    except ValueError as error:
        raise _broken(f"its header isn't JSON ({error})", where) from error
    if not isinstance(header, dict) or not isinstance(header.get(_METADATA, {}), dict):
        raise _broken("its header isn't a JSON object", where)
    return header, start


def _entry(name: str, entry: Any, where: str) -> tuple[DType, tuple[int, ...], tuple[int, int]]:
    try:
        dtype = _BY_CODE[entry["dtype"]]
        shape = tuple(int(extent) for extent in entry["shape"])
        begin, end = (int(offset) for offset in entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise _broken(f"the header's entry for tensor {name} isn't in the form", where) from error
    if min(shape, default=0) < 0 or begin < 0:
        raise _broken(f"the header's entry for tensor {name} has negative numbers", where)
    return dtype, shape, (begin, end)


def _broken(problem: str, where: str) -> PackageError:
    return PackageError(
        f"this isn't a whole safetensors file: {problem}",
        where=where,
        hint="compile the package again",
    )
