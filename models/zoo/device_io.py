"""Models whose inputs and outputs have the device's types, as vendors time them.

A vendor's figure is the device's own time: images arrive as integers (or halves) and results leave
so, and conversion on the host is counted elsewhere. A definition takes and gives f32.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from models.zoo.ranges import NOMINAL
from stages.calibration.measurements import Precision

_AFFINE = ("Mul", "Div", "Add", "Sub")


def with_device_types(model: onnx.ModelProto, precision: Precision) -> onnx.ModelProto:
    """A copy of `model` whose f32 inputs and outputs are f16, or int8 of the nominal range.

    Raises:
        ValueError: a precision with integers of 16 bits, for which there are no recipes.
    """
    if precision is Precision.W8A16:
        raise ValueError(f"no inputs and outputs of {precision}")
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    before: list[onnx.NodeProto] = []
    after: list[onnx.NodeProto] = []
    if precision is Precision.INT8:
        scale = np.float32((NOMINAL.high - NOMINAL.low) / 255)
        zero = np.int8(round(-128 - NOMINAL.low / float(scale)))
        graph.initializer.append(numpy_helper.from_array(np.asarray(scale), "io.scale"))
        graph.initializer.append(numpy_helper.from_array(np.asarray(zero), "io.zero"))
        for info in graph.input:
            _skip_numbers(info.name, graph)
    for info in graph.input:
        if _is_float(info):
            outer = _rename(info, graph.node, f"{info.name}.float")
            before.append(_entering(outer, f"{outer}.float", precision))
    for info in graph.output:
        if _is_float(info):
            outer = _rename(info, graph.node, f"{info.name}.float")
            after.append(_leaving(f"{outer}.float", outer, precision))
    for info in (*graph.input, *graph.output):
        if _is_float(info):
            stored = TensorProto.INT8 if precision is Precision.INT8 else TensorProto.FLOAT16
            info.type.tensor_type.elem_type = stored
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return made


def _skip_numbers(value: str, graph: onnx.GraphProto) -> None:
    """Drops operators with one number that come first: 2 x - 1 changes what an input's integers
    stand for, its scale and its zero point, and not the integers."""
    single = {item.name for item in graph.initializer if prod(item.dims) == 1}
    while True:
        readers = [node for node in graph.node if value in node.input]
        if len(readers) != 1 or readers[0].op_type not in _AFFINE:
            return
        (reader,) = readers
        if reader.input[0] != value or reader.input[1] not in single:
            return
        for node in graph.node:
            node.input[:] = [value if name == reader.output[0] else name for name in node.input]
        graph.node.remove(reader)


def _is_float(info: onnx.ValueInfoProto) -> bool:
    return bool(info.type.tensor_type.elem_type == TensorProto.FLOAT)


def _rename(info: onnx.ValueInfoProto, nodes: Iterable[onnx.NodeProto], inner: str) -> str:
    """Gives a value another name inside the graph; its name outside stays. Returns that name."""
    for node in nodes:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                if name == info.name:
                    names[index] = inner
    return str(info.name)


def _entering(outer: str, inner: str, precision: Precision) -> onnx.NodeProto:
    name = f"{outer}.enter"
    if precision is Precision.INT8:
        inputs = [outer, "io.scale", "io.zero"]
        return helper.make_node("DequantizeLinear", inputs, [inner], name=name)
    return helper.make_node("Cast", [outer], [inner], name=name, to=TensorProto.FLOAT)


def _leaving(inner: str, outer: str, precision: Precision) -> onnx.NodeProto:
    name = f"{outer}.leave"
    if precision is Precision.INT8:
        inputs = [inner, "io.scale", "io.zero"]
        return helper.make_node("QuantizeLinear", inputs, [outer], name=name)
    return helper.make_node("Cast", [inner], [outer], name=name, to=TensorProto.FLOAT16)
