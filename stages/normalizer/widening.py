"""Graphs computed in float32, for runtimes without kernels of their own float type."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

_F32 = TensorProto.FLOAT
_BFLOAT16 = frozenset({int(TensorProto.BFLOAT16)})
_BFLOAT16_OR_FLOAT64 = frozenset({int(TensorProto.BFLOAT16), int(TensorProto.DOUBLE)})
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")


def widen_bfloat16(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which every bfloat16 is a float32: same graph, wider arithmetic.

    External data must have been loaded.
    """
    return _in_float32(model, _BFLOAT16)


def compute_in_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which every bfloat16 and float64 is a float32: the same graph, to 1e-7 or so.

    External data must have been loaded.
    """
    return _in_float32(model, _BFLOAT16_OR_FLOAT64)


def holds_other_floats(model: onnx.ModelProto) -> bool:
    """Whether an input, an output, a constant or a Cast is bfloat16 or float64."""
    graphs = list(_graphs(model.graph))
    kinds = _BFLOAT16_OR_FLOAT64
    if any(tensor.data_type in kinds for graph in graphs for tensor in _tensors(graph)):
        return True
    infos = (info for graph in graphs for info in (*graph.input, *graph.output))
    return any(info.type.tensor_type.elem_type in kinds for info in infos) or any(
        a.name == "to" and a.i in kinds for g in graphs for n in g.node for a in n.attribute
    )


def _in_float32(model: onnx.ModelProto, kinds: frozenset[int]) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for graph in _graphs(made.graph):
        for tensor in _tensors(graph):
            if tensor.data_type in kinds:
                values = numpy_helper.to_array(tensor).astype(np.float32)
                tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
        for info in (*graph.input, *graph.output, *graph.value_info):
            if info.type.tensor_type.elem_type in kinds:
                info.type.tensor_type.elem_type = _F32
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name in _TYPE_ATTRIBUTES and attribute.i in kinds:
                    attribute.i = _F32
    return made


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)
            for inner in attribute.graphs:
                yield from _graphs(inner)


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
