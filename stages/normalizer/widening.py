"""bfloat16 graphs computed in float32, for runtimes without bfloat16 kernels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

_BF16 = TensorProto.BFLOAT16
_F32 = TensorProto.FLOAT


def holds_bfloat16(model: onnx.ModelProto) -> bool:
    """Whether an input, an output, a constant or a Cast is bfloat16."""
    graphs = list(_graphs(model.graph))
    if any(tensor.data_type == _BF16 for graph in graphs for tensor in _tensors(graph)):
        return True
    return any(_is_bf16(v) for graph in graphs for v in (*graph.input, *graph.output)) or any(
        a.name == "to" and a.i == _BF16 for g in graphs for n in g.node for a in n.attribute
    )


def widen_bfloat16(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which every bfloat16 is a float32: same graph, wider arithmetic.

    External data must have been loaded.
    """
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for graph in _graphs(wide.graph):
        for tensor in _tensors(graph):
            if tensor.data_type == _BF16:
                values = numpy_helper.to_array(tensor).astype(np.float32)
                tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
        for info in (*graph.input, *graph.output, *graph.value_info):
            if _is_bf16(info):
                info.type.tensor_type.elem_type = _F32
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name in ("to", "dtype", "output_dtype") and attribute.i == _BF16:
                    attribute.i = _F32
    return wide


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


def _is_bf16(info: onnx.ValueInfoProto) -> bool:
    return bool(info.type.tensor_type.elem_type == _BF16)
