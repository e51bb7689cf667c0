"""Opens a model file. Weights in external files stay there until they are needed."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx_ir import external_data

from stages.errors import InputError
from stages.normalizer.legality import check_tensor
from stages.normalizer.operators import place
from stages.normalizer.skeleton import LARGEST_KEPT_BYTES

_CHUNK_BYTES = 1 << 20
_EXPORT_HINT = "export the model again, or check that the download finished"


@dataclass(frozen=True, slots=True)
class ReadModel:
    """A model as it was read, and the sha256 of its file and of the external files it names."""

    model: ir.Model
    sha256: str


def read_model(path: Path) -> ReadModel:
    """The model in `path`; tensors kept in external files are mapped, not read into memory.

    Raises:
        InputError: no such file, not an ONNX model, cut short, or its external data are missing,
            too short, or lie outside the model's folder.
    """
    content = _read_bytes(path)
    proto = _parse(content, path)
    tensors = list(_tensors(proto))
    external = [t for t in tensors if t.data_location == onnx.TensorProto.EXTERNAL]
    for tensor in external:
        _check_external(tensor, path)
    for tensor in tensors:
        check_tensor(tensor, str(path))
    digest = _digest(content, [path.parent / name for name in sorted(map(_location, external))])
    # onnx-ir warns of values that nothing makes; `_check_connected` refuses them.
    logging.getLogger("onnx_ir.serde").setLevel(logging.ERROR)
    try:
        model = ir.from_proto(proto)
    except Exception as error:  # onnx-ir wraps whatever went wrong in several types
        raise InputError(
            f"the graph can't be read: {_innermost(error)}", where=str(path), hint=_EXPORT_HINT
        ) from error
    external_data.set_base_dir(model.graph, path.parent)
    _load_small(model)
    _check_connected(model, path)
    return ReadModel(model, digest)


def _load_small(model: ir.Model) -> None:
    """Reads external tensors that tools look into: small ones, and those inside operators."""
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor) and (
                graph is not model.graph or tensor.nbytes <= LARGEST_KEPT_BYTES
            ):
                (value.const_value,) = external_data.convert_tensors_from_external([tensor])
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for name, attribute in list(node.attributes.items()):
            if attribute.type is ir.AttributeType.TENSOR and isinstance(
                attribute.value, ir.ExternalTensor
            ):
                (loaded,) = external_data.convert_tensors_from_external([attribute.value])
                node.attributes[name] = ir.AttrTensor(name, loaded)


def _check_connected(model: ir.Model, path: Path) -> None:
    """Every value that is read is made somewhere, and no value is made from itself."""
    known: set[ir.Value] = set()
    for graph in model.graphs():
        known.update(graph.inputs)
        known.update(graph.initializers.values())
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for value in node.inputs:
            if value is not None and value.producer() is None and value not in known:
                raise InputError(
                    f"{node.op_type} reads {value.name!r}, which nothing makes",
                    where=f"{place(node)} in {path}",
                    hint=_EXPORT_HINT,
                )
    for output in model.graph.outputs:
        if output.producer() is None and output not in known:
            raise InputError(
                f"output {output.name!r} is made by nothing", where=str(path), hint=_EXPORT_HINT
            )
    try:
        model.graph.sort()
    except ValueError as error:
        raise InputError(
            "the graph has a cycle: an operator reads what is made from its own result",
            where=str(path),
            hint=_EXPORT_HINT,
        ) from error


def _parse(content: bytes, path: Path) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except DecodeError as error:
        raise InputError(_why_undecodable(content), where=str(path), hint=_EXPORT_HINT) from error
    if not proto.HasField("graph") or not (proto.graph.output or proto.graph.node):
        raise InputError(
            f"{_why_undecodable(content)}: it holds no graph", where=str(path), hint=_EXPORT_HINT
        )
    if any(isinstance(word, bytes) for word in _words(proto.graph)):
        raise InputError(
            "a name in the model isn't text (UTF-8)", where=str(path), hint=_EXPORT_HINT
        )
    if proto.graph.sparse_initializer:
        raise InputError(
            f"sparse initialiser {proto.graph.sparse_initializer[0].values.name!r}",
            where=str(path),
            hint="store it densely: a recipe packs weights for its device anyway",
        )
    if not proto.opset_import:
        raise InputError(
            "the model says no operator set version (opset_import is empty)",
            where=str(path),
            hint=_EXPORT_HINT,
        )
    return proto


def _digest(content: bytes, others: Iterable[Path]) -> str:
    digest = hashlib.sha256(content)
    for path in dict.fromkeys(others):
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(
            f"no model file {path.name!r}",
            where=str(path),
            hint="give the path of an .onnx file, or a name that `recipe models list` prints",
        ) from error
    except OSError as error:
        raise InputError(f"the model file can't be read: {error.strerror}", where=str(path)) from (
            error
        )


def _why_undecodable(content: bytes) -> str:
    if not content:
        return "the model file is empty"
    head = content[:512]
    printable = sum(32 <= byte < 127 or byte in b"\t\r\n" for byte in head)
    if printable == len(head):
        return f"a text file, not an ONNX model (it begins {head[:24].decode()!r})"
    return "the file is no ONNX model, or was cut short"


def _words(graph: onnx.GraphProto) -> Iterator[object]:
    """Names and operators; protobuf gives those that are no UTF-8 as bytes."""
    for named in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield named.name
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            for inner in (attribute.g, *attribute.graphs):
                yield from _words(inner)


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _tensors_in_graph(proto.graph)
    for function in proto.functions:
        for node in function.node:
            yield from _tensors_in_node(node)


def _tensors_in_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        yield from _tensors_in_node(node)


def _tensors_in_node(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        yield from [attribute.t] if attribute.HasField("t") else list(attribute.tensors)
        graphs = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
        for graph in graphs:
            yield from _tensors_in_graph(graph)


def _location(tensor: onnx.TensorProto) -> str:
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def _check_external(tensor: onnx.TensorProto, model_path: Path) -> None:
    facts = {entry.key: entry.value for entry in tensor.external_data}
    location = facts.get("location", "")
    where = f"tensor {tensor.name!r} in {model_path}"
    folder = model_path.parent.resolve()
    target = (folder / location).resolve()
    if not location or Path(location).is_absolute() or not target.is_relative_to(folder):
        raise InputError(
            f"external data outside the model's folder: {location!r}",
            where=where,
            hint="keep the data file beside the model, and name it relative to the model's folder",
        )
    if not target.is_file():
        raise InputError(
            f"no external data file {location!r}",
            where=where,
            hint=f"put it into the model's folder, {folder}",
        )
    end = int(facts.get("offset", 0)) + int(facts.get("length", 0))
    if end > target.stat().st_size:
        raise InputError(
            f"external data file {location!r} holds {target.stat().st_size} bytes, "
            f"the tensor needs {end}",
            where=where,
            hint="the data file was cut short or belongs to another model",
        )


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).splitlines()[0] if str(error) else type(error).__name__
