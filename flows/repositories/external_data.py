"""Which files beside it an ONNX file keeps weights in, found without reading those."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from flows.project.files import write_beside

if TYPE_CHECKING:
    import onnx

_LOCATION_KEY = b"\n\x08location"
"""How the key of an external tensor's location is written: field 1, 8 bytes (onnx.proto,
StringStringEntryProto)."""


def external_locations(chunks: Iterable[bytes]) -> tuple[str, ...]:
    """The locations in an ONNX file, sorted; none in a file that is no ONNX.

    Only a file that holds the key is parsed, so that large ones needn't fit twice into memory.
    """
    pieces = list(chunks)
    if not _holds_key(pieces):
        return ()
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.load_model_from_string(b"".join(pieces))
    except DecodeError:  # what reads the model as a whole says what is wrong with it
        return ()
    found = {
        entry.value
        for tensor in _tensors_of(model)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return tuple(sorted(found))


def _holds_key(pieces: list[bytes]) -> bool:
    tail = b""
    for piece in pieces:
        if _LOCATION_KEY in tail + piece[: len(_LOCATION_KEY)] or _LOCATION_KEY in piece:
            return True
        tail = (tail + piece)[-len(_LOCATION_KEY) :]
    return False


def _tensors_of(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _graph_tensors(model.graph)
    for training in model.training_info:
        yield from _graph_tensors(training.initialization)
        yield from _graph_tensors(training.algorithm)
    for function in model.functions:
        for node in function.node:
            yield from _node_tensors(node)


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _node_tensors(node)


def _node_tensors(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        yield attribute.t
        yield from attribute.tensors
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from (sparse.values, sparse.indices)
        for graph in (attribute.g, *attribute.graphs):
            yield from _graph_tensors(graph)


class KnownLocations:
    """Locations by blob, kept in a file of the cache: a blob never changes, and reading costs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, list[str]] = {}
        self._grew = False
        with contextlib.suppress(OSError, ValueError):
            read = json.loads(path.read_text(encoding="utf-8"))
            self._known = read if isinstance(read, dict) else {}

    def of(self, blob: str, chunks: Iterable[bytes]) -> tuple[str, ...]:
        """The blob's locations; takes the chunks only where they aren't known."""
        if blob not in self._known:
            self._known[blob] = list(external_locations(chunks))
            self._grew = True
        return tuple(self._known[blob])

    def save(self) -> None:
        """Writes the file where something is new."""
        if self._grew:
            content = json.dumps(self._known, indent=0, sort_keys=True)
            write_beside(self.path, content.encode())
            self._grew = False
