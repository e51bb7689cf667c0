"""Classifiers of AI Hub: the graph that runs on the device takes pixels between 0 and 1 and begins
with their normalisation (`ImagenetClassifier` of qai_hub_models/models/_shared/imagenet_classifier
and `normalize_image_torchvision` of qai_hub_models/utils/image_processing.py, release 0.46.1).

It stays two operators before the first convolution, for that one's padding stands for zeros behind
the normalisation, which no weight and no bias of it can give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from models.zoo import encoders, inceptions, mobilenets, resnets

_MEANS, _DEVIATIONS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Steps = Sequence[tuple[str, float | Sequence[float]]]
"""ONNX operators in order, each with its second operand: one number, or one a channel."""

STANDARDIZED: Steps = (("Sub", _MEANS), ("Div", _DEVIATIONS))
"""(x - mean) / deviation, by channel."""

CENTRED: Steps = (("Mul", 2.0), ("Sub", 1.0))
"""2 x - 1: what those take that torchvision trained with other means (`transform_input`)."""


def from_pixels(model: onnx.ModelProto, steps: Steps) -> onnx.ModelProto:
    """A copy of a model with one image input, whose graph does these steps first."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    (image,) = (info.name for info in graph.input)
    result = f"{image}.normalized"
    for node in graph.node:
        node.input[:] = [result if name == image else name for name in node.input]
    nodes, value = [], image
    for index, (kind, operand) in enumerate(steps):
        name = f"{image}.{kind.lower()}"
        numbers = np.asarray(operand, np.float32)
        if numbers.ndim:
            numbers = numbers.reshape((1, -1, 1, 1))
        graph.initializer.append(numpy_helper.from_array(numbers, f"{name}.operand"))
        output = result if index == len(steps) - 1 else name
        nodes.append(helper.make_node(kind, [value, f"{name}.operand"], [output], name=name))
        value = output
    nodes += graph.node
    del graph.node[:]
    graph.node.extend(nodes)
    return made


def norms_as_arithmetic(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model whose batch normalisations are (x - mean) * factor + bias, as quantised
    graphs hold those that no convolution takes up. AI Hub counts 498 layers in its int8 DenseNet
    and 373 in its float one (`layer_counts` of densenet121/perf.yaml): 2 more for each of the 62,
    and the one that every classifier has. In float a compiler fuses them again."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    held = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type != "BatchNormalization":
            nodes.append(node)
            continue
        scale, bias, mean, variance = (held[name] for name in node.input[1:5])
        epsilon = next((item.f for item in node.attribute if item.name == "epsilon"), 1e-5)
        steps = (("Sub", mean), ("Mul", scale / np.sqrt(variance + epsilon)), ("Add", bias))
        value = node.input[0]
        for kind, numbers in steps:
            output = node.output[0] if kind == "Add" else f"{node.output[0]}.{kind.lower()}"
            constant = f"{node.output[0]}.{kind.lower()}.operand"
            by_channel = np.asarray(numbers, np.float32).reshape((1, -1, 1, 1))
            graph.initializer.append(numpy_helper.from_array(by_channel, constant))
            nodes.append(helper.make_node(kind, [value, constant], [output], name=output))
            value = output
    del graph.node[:]
    graph.node.extend(nodes)
    return made


def _densenet121() -> onnx.ModelProto:
    return norms_as_arithmetic(inceptions.densenet121())


_CLASSIFIERS: dict[str, tuple[Callable[[], onnx.ModelProto], Steps]] = {
    **{
        name: (resnets.DEFINITIONS[name], STANDARDIZED)
        for name in ("resnet18", "resnet50", "resnet101", "regnet_x_3_2gf")
    },
    **{
        name: (mobilenets.DEFINITIONS[name], STANDARDIZED)
        for name in ("mobilenet_v3_large", "mobilenet_v3_small", "shufflenet_v2_x0_5")
    },
    "vit_base": (encoders.DEFINITIONS["vit_base"], STANDARDIZED),
    "densenet121": (_densenet121, STANDARDIZED),
    "googlenet": (inceptions.DEFINITIONS["googlenet"], CENTRED),
    "inception_v3_224": (inceptions.DEFINITIONS["inception_v3_224"], CENTRED),
}


def _definition(name: str) -> Callable[[], onnx.ModelProto]:
    build, steps = _CLASSIFIERS[name]
    return lambda: from_pixels(build(), steps)


DEFINITIONS: dict[str, Callable[[], onnx.ModelProto]] = {
    f"{name}_from_pixels": _definition(name) for name in _CLASSIFIERS
}
