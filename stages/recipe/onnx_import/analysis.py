"""First reading of a model: fold what is constant, and find the type of every value.

A normalised model needs little of it. It makes the import tolerant of models that come without
`value_info`, with contrib operators that onnx's shape inference stops at, or with shape arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    helper,
    numpy_helper,
)

from stages.errors import InputError
from stages.recipe.onnx_import.elements import Elements
from stages.recipe.onnx_import.evaluation import (
    RANDOM,
    as_tensor,
    evaluate_node,
    infer_types,
    is_small,
)
from stages.recipe.onnx_import.node import (
    DEFAULT_DOMAIN,
    Node,
    canonical_domain,
    operand_names,
    subgraphs,
)
from stages.recipe.onnx_import.value_types import (
    Cause,
    Untyped,
    ValueType,
    element_type,
    known_proto,
    read_type,
)
from stages.tensors import Array, DType, Shape, TensorType

_LARGEST_FOLDED_GROWTH = 1 << 20  # bytes that folding an Expand may add to the constants


@dataclass(slots=True)
class Analysis:
    """What is known of a model's values. `foreign` are constants of types that recipes lack.

    `renames`: values that an enclosing node shows under another name.
    """

    opsets: dict[str, int]
    inputs: list[str] = field(default_factory=list)
    types: dict[str, ValueType] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    foreign: dict[str, TensorProto] = field(default_factory=dict)
    nodes: list[NodeProto] = field(default_factory=list)
    renames: dict[str, str] = field(default_factory=dict)

    def node(self, proto: NodeProto) -> Node:
        """A node with the opset version of its domain."""
        return Node(proto, self.opsets.get(canonical_domain(proto.domain), 1))

    def is_constant(self, name: str) -> bool:
        """Whether a value is a constant of any type."""
        return name in self.constants or name in self.foreign

    def tensor(self, name: str) -> TensorProto:
        """A constant under its name, as onnx stores it."""
        if name in self.foreign:
            return self.foreign[name]
        return as_tensor(name, self.constants[name])

    def shape(self, name: str) -> Shape | None:
        """The static shape of a value, if it has one."""
        answer = self.types.get(name)
        return answer.shape if isinstance(answer, TensorType) else None


def analyse(model: ModelProto, elements: Elements) -> Analysis:
    """Read a model's values in order, folding nodes whose results are known already. `elements` are
    the data of the initialisers that have none in the model.

    Raises:
        InputError: weights were left outside the model, or don't fill their shape.
    """
    opsets = {canonical_domain(entry.domain): entry.version for entry in model.opset_import}
    graph = model.graph
    initializers = {tensor.name for tensor in graph.initializer}
    inputs = [value.name for value in graph.input if value.name not in initializers]
    analysis = Analysis(opsets, inputs)
    for place, tensor in enumerate(graph.initializer):
        if place in elements:
            _add_constant(analysis, tensor.name, elements[place])
        else:
            _add_initializer(analysis, tensor)
    for sparse in graph.sparse_initializer:
        _add_constant(analysis, sparse.values.name, _dense(sparse))
    for value in (*graph.input, *graph.output, *graph.value_info):
        answer = read_type(value.type)
        if answer is not None:
            analysis.types.setdefault(value.name, answer)
    for proto in graph.node:
        if not _fold(analysis, proto):
            _type_outputs(analysis, proto)
            analysis.nodes.append(proto)
    return analysis


def _add_initializer(analysis: Analysis, tensor: TensorProto) -> None:
    if tensor.data_location == TensorProto.EXTERNAL:
        raise InputError(
            f"the data of %{tensor.name} lies outside the model",
            hint="load the model with its external data",
        )
    dtype = element_type(tensor.data_type)
    if dtype is None:
        name = TensorProto.DataType.Name(tensor.data_type)
        analysis.foreign[tensor.name] = tensor
        known = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        analysis.types[tensor.name] = Untyped(f"has elements of type {name}", proto=known)
        return
    try:
        data = numpy_helper.to_array(tensor)
    except ValueError as error:
        raise InputError(
            f"the data of %{tensor.name} don't fill its shape {list(tensor.dims)}: {error}",
            where=f"initialiser %{tensor.name}",
            hint="export the model again; its file may be truncated",
        ) from error
    _add_constant(analysis, tensor.name, data)


def _dense(sparse: SparseTensorProto) -> Array:
    """A sparse constant with its zeros; indices are linear, or one row for each element."""
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    data = np.zeros(tuple(sparse.dims), values.dtype)
    places = np.unravel_index(indices, data.shape) if indices.ndim == 1 else tuple(indices.T)
    data[places] = values
    return data


def _add_constant(analysis: Analysis, name: str, data: Array) -> None:
    try:
        dtype = DType.of(data.dtype)
    except KeyError:
        tensor = as_tensor(name, data)
        known = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        analysis.foreign[name] = tensor
        analysis.types[name] = Untyped(f"has elements of type {data.dtype}", proto=known)
        return
    analysis.constants[name] = data
    analysis.types[name] = TensorType(dtype, data.shape)


def _fold(analysis: Analysis, proto: NodeProto) -> bool:
    """Turn the node's results into constants, if they are known."""
    node = analysis.node(proto)
    results = _known_results(analysis, node)
    if results is None:
        return False
    names = [name for name in proto.output if name]
    for name, data in zip(names, results, strict=False):
        _add_constant(analysis, name, data)
    return True


def _known_results(analysis: Analysis, node: Node) -> tuple[Array, ...] | None:
    if node.domain == DEFAULT_DOMAIN:
        shape = analysis.shape(node.proto.input[0]) if node.proto.input else None
        if node.proto.op_type == "Shape" and shape is not None:
            stop = node.integer("end", len(shape))
            return (np.array(shape[node.integer("start", 0) : stop], np.int64),)
        if node.proto.op_type == "Size" and shape is not None:
            return (np.array(np.prod(shape, dtype=np.int64)),)
        if node.proto.op_type in RANDOM:
            return None
    names = operand_names(node.proto)
    if not all(analysis.is_constant(name) for name in names):
        return None
    if not names and node.domain != DEFAULT_DOMAIN:
        return None
    if _should_stay(analysis, node) or any(_holds_random(graph) for graph in subgraphs(node.proto)):
        return None
    operands = {name: analysis.tensor(name) for name in names}
    return evaluate_node(node.proto, analysis.opsets, operands)


def _should_stay(analysis: Analysis, node: Node) -> bool:
    """Keep weights as small as the model has them: 8-bit weights, and expanded rows."""
    if node.proto.op_type == "DequantizeLinear":
        quantised = analysis.constants.get(node.proto.input[0])
        blocked = node.integer("block_size", 0) > 0
        return quantised is not None and not blocked
    if node.proto.op_type in {"Expand", "Tile"}:
        _type_outputs(analysis, node.proto)
        answer = analysis.types.get(node.proto.output[0])
        source = analysis.types.get(node.proto.input[0])
        if isinstance(answer, TensorType) and isinstance(source, TensorType):
            return answer.size_bytes - source.size_bytes > _LARGEST_FOLDED_GROWTH
    return False


def _holds_random(graph: GraphProto) -> bool:
    return any(
        node.op_type in RANDOM or any(_holds_random(inner) for inner in subgraphs(node))
        for node in graph.node
    )


def _type_outputs(analysis: Analysis, proto: NodeProto) -> None:
    """Find the types of a node's outputs where the model doesn't tell them."""
    outputs = [name for name in proto.output if name]
    if all(isinstance(analysis.types.get(name), TensorType) for name in outputs):
        return
    node = analysis.node(proto)
    operands: dict[str, TypeProto] = {}
    for name in operand_names(proto):
        known = known_proto(analysis.types.get(name))
        if known is not None:
            operands[name] = known
    small = {
        name: as_tensor(name, analysis.constants[name])
        for name in operands
        if name in analysis.constants and is_small(analysis.constants[name])
    }
    answers = infer_types(node, analysis.opsets, operands, small)
    complete = all(
        isinstance(analysis.types.get(name), TensorType) for name in operand_names(proto)
    )
    for name in outputs:
        answer = answers.get(name)
        if isinstance(analysis.types.get(name), TensorType):
            continue
        ill_typed = isinstance(answer, Untyped) and answer.cause is Cause.ILL_TYPED
        if answer is not None and (complete or not ill_typed):
            analysis.types[name] = answer
        else:
            unknown = Untyped("has a shape known only at run time", Cause.DYNAMIC)
            analysis.types.setdefault(name, unknown)
