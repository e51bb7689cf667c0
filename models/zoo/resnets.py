"""Residual classifiers: ResNet (v1.5, v1, v2) and RegNetX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from models.zoo.graph import GraphBuilder, Value


def classify(g: GraphBuilder, x: Value, classes: int = 1000) -> onnx.ModelProto:
    """Global pooling and one matrix product: the usual head."""
    x = g.global_average_pool(x)
    x = g.reshape(x, (1, x.channels))
    g.output(g.linear(x, classes))
    return g.build()


def batch_norm(g: GraphBuilder, x: Value) -> Value:
    """A batch normalisation that no convolution before it can take up."""
    scale, bias = g.weight((x.channels,), 1), g.weight((x.channels,), 1)
    mean, variance = np.zeros(x.channels, np.float32), np.ones(x.channels, np.float32)
    inputs = [x, scale, bias, g.constant(mean), g.constant(variance)]
    return g.node("BatchNormalization", inputs, x.shape)


def resnet18() -> onnx.ModelProto:
    """ResNet-18 of torchvision at 224 x 224."""
    g = GraphBuilder("resnet18")
    x = _stem(g, 224)
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            skip = x
            if stride > 1 or x.channels != width:
                skip = g.conv(x, width, 1, stride, pads=0)
            y = g.conv(x, width, 3, stride, "relu")
            x = g.activation(g.add(g.conv(y, width, 3), skip), "relu")
    return classify(g, x)


def _stem(g: GraphBuilder, size: int) -> Value:
    x = g.input("image", (1, 3, size, size))
    return g.max_pool(g.conv(x, 64, 7, 2, "relu"), 3, 2, 1)


def _bottlenecks(name: str, blocks: Sequence[int]) -> onnx.ModelProto:
    """Bottleneck ResNet v1.5: the stride is on the 3 x 3 convolution."""
    g = GraphBuilder(name)
    x = _stem(g, 224)
    for stage, (width, count) in enumerate(zip((64, 128, 256, 512), blocks, strict=True)):
        for block in range(count):
            stride = 2 if stage and not block else 1
            skip = g.conv(x, 4 * width, 1, stride, pads=0) if not block else x
            y = g.conv(x, width, 1, 1, "relu")
            y = g.conv(y, width, 3, stride, "relu")
            x = g.activation(g.add(g.conv(y, 4 * width), skip), "relu")
    return classify(g, x)


def resnet50() -> onnx.ModelProto:
    """ResNet-50 v1.5 (torchvision's) at 224 x 224."""
    return _bottlenecks("resnet50", (3, 4, 6, 3))


def resnet101() -> onnx.ModelProto:
    """ResNet-101 v1.5 (torchvision's) at 224 x 224."""
    return _bottlenecks("resnet101", (3, 4, 23, 3))


def resnet50_v1_299() -> onnx.ModelProto:
    """ResNet-50 v1 of TF-Slim at 299 x 299: the last unit of a block strides, on its 3 x 3."""
    g = GraphBuilder("resnet50_v1_299")
    x = _stem(g, 299)
    for stage, (width, count) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True)):
        for block in range(count):
            stride = 2 if stage < 3 and block == count - 1 else 1
            skip = _slim_skip(g, x, width, block, stride)
            y = g.conv(g.conv(x, width, 1, 1, "relu"), width, 3, stride, "relu")
            x = g.activation(g.add(g.conv(y, 4 * width), skip), "relu")
    return classify(g, x, 1001)


def resnet50_v2_299() -> onnx.ModelProto:
    """ResNet-50 v2 of TF-Slim at 299 x 299: normalisation and activation before each unit."""
    g = GraphBuilder("resnet50_v2_299")
    x = g.input("image", (1, 3, 299, 299))
    x = g.max_pool(g.conv(x, 64, 7, 2), 3, 2, 1)
    for stage, (width, count) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True)):
        for block in range(count):
            stride = 2 if stage < 3 and block == count - 1 else 1
            active = g.activation(batch_norm(g, x), "relu")
            skip = _slim_skip(g, active if not block else x, width, block, stride)
            y = g.conv(g.conv(active, width, 1, 1, "relu"), width, 3, stride, "relu")
            x = g.add(g.conv(y, 4 * width), skip)
    return classify(g, g.activation(batch_norm(g, x), "relu"), 1001)


def _slim_skip(g: GraphBuilder, x: Value, width: int, block: int, stride: int) -> Value:
    if not block:
        return g.conv(x, 4 * width, 1, stride, pads=0)
    return x if stride == 1 else g.max_pool(x, 1, stride)


def regnet_x_3_2gf() -> onnx.ModelProto:
    """RegNetX-3.2GF of torchvision at 224 x 224: bottlenecks of ratio 1 with groups of 48."""
    g = GraphBuilder("regnet_x_3_2gf")
    x = g.conv(g.input("image", (1, 3, 224, 224)), 32, 3, 2, "relu")
    for width, count in ((96, 2), (192, 6), (432, 15), (1008, 2)):
        for block in range(count):
            stride = 2 if not block else 1
            skip = g.conv(x, width, 1, stride, pads=0) if not block else x
            y = g.conv(x, width, 1, 1, "relu")
            y = g.conv(y, width, 3, stride, "relu", groups=width // 48)
            x = g.activation(g.add(g.conv(y, width), skip), "relu")
    return classify(g, x)


DEFINITIONS: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet18": resnet18,
    "resnet50": resnet50,
    "resnet101": resnet101,
    "resnet50_v1_299": resnet50_v1_299,
    "resnet50_v2_299": resnet50_v2_299,
    "regnet_x_3_2gf": regnet_x_3_2gf,
}
