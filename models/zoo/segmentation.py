"""Segmentation networks: DeepLabV3 on MobileNetV2, and PP-LiteSeg-T."""

from __future__ import annotations

import onnx

from models.zoo.graph import GraphBuilder, Value
from models.zoo.mobilenet_v2 import inverted_residual

_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
           (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip


def deeplab_v3_plus_mobilenet_v2() -> onnx.ModelProto:
    """DeepLabV3 on MobileNetV2 at 513 x 513 from normalised pixels to the logits, output stride 8.

    The graph that tensorflow/models publishes for Pascal VOC, cut as rknn_model_zoo cuts it.
    """
    return deeplab_graph(8).build()


def ppseg_lite_1024x512() -> onnx.ModelProto:
    """PP-LiteSeg-T on STDC1 for Cityscapes (PaddleSeg), 512 x 512, with its last interpolation."""
    return ppliteseg_graph(512, 512).build()


def deeplab_graph(output_stride: int) -> GraphBuilder:
    """The builder, with its counts; strides beyond `output_stride` become dilations."""
    g = GraphBuilder("deeplab_v3_plus_mobilenet_v2")
    x = g.conv(g.input("pixels", (1, 3, 513, 513)), 32, 3, 2, "relu6")
    stride, dilation = 2, 1
    for expansion, channels, count, step in _STAGES:
        for index in range(count):
            first, rate = (step, dilation) if index == 0 else (1, dilation)
            if index == 0 and step > 1 and stride * step > output_stride:
                first, dilation = 1, dilation * step
            elif index == 0:
                stride *= step
            x = inverted_residual(g, x, channels, expansion, first, rate)
    pooled = g.conv(g.global_average_pool(x), 256, 1, 1, "relu")
    pooled = g.resize(pooled, x.height, x.width, "linear")
    joined = g.concat([pooled, g.conv(x, 256, 1, 1, "relu")])
    g.output(g.conv(g.conv(joined, 256, 1, 1, "relu"), 21))
    return g


def ppliteseg_graph(height: int, width: int) -> GraphBuilder:
    """The builder of PP-LiteSeg-T, with its counts."""
    g = GraphBuilder("ppseg_lite_1024x512")
    x = _relu(g, g.input("image", (1, 3, height, width)), 32, 3, 2)
    x = _relu(g, x, 64, 3, 2)
    features = []
    for channels in (256, 512, 1024):
        x = _stdc(g, _stdc(g, x, channels, 2), channels, 1)
        features.append(x)
    y = _context(g, x, 128)
    for feature, channels in zip(reversed(features), (128, 64, 32), strict=True):
        y = _fusion(g, feature, y, channels)
    y = g.conv(_relu(g, y, 32, 3), 19, bias=False)
    g.output(g.resize(y, height, width, "linear"))
    return g


def _relu(g: GraphBuilder, x: Value, channels: int, kernel: int = 1, stride: int = 1) -> Value:
    return g.conv(x, channels, kernel, stride, "relu")


def _stdc(g: GraphBuilder, x: Value, channels: int, stride: int) -> Value:
    """Short-term dense concatenation: four convolutions of halving width, all joined."""
    first = _relu(g, x, channels // 2)
    y = first
    if stride == 2:
        y = g.depthwise(first, 3, 2)
        first = g.average_pool(first, 3, 2, 1)
    parts = [first]
    for width in (channels // 4, channels // 8, channels // 8):
        y = _relu(g, y, width, 3)
        parts.append(y)
    return g.concat(parts)


def _context(g: GraphBuilder, x: Value, channels: int) -> Value:
    """Pyramid pooling into 1, 2 and 4 bins a side, added."""
    total: Value | None = None
    for bins in (1, 2, 4):
        size = (x.height // bins, x.width // bins)
        pooled = g.average_pool(x, size, size) if bins > 1 else g.global_average_pool(x)
        up = g.resize(_relu(g, pooled, channels), x.height, x.width, "linear")
        total = up if total is None else g.add(total, up)
    assert total is not None
    return _relu(g, total, channels, 3)


def _fusion(g: GraphBuilder, low: Value, high: Value, channels: int) -> Value:
    """Unified attention fusion, spatial: two levels weighed by where they are strong."""
    low = _relu(g, low, high.channels, 3)
    high = g.resize(high, low.height, low.width, "linear")
    strong = [
        g.reduce(kind, value, 1) for value in (low, high) for kind in ("ReduceMean", "ReduceMax")
    ]
    weight = g.conv(_relu(g, g.concat(strong), 2, 3), 1, 3, 1, "sigmoid")
    rest = g.sub(g.scalar(1.0), weight)
    return _relu(g, g.add(g.mul(low, weight), g.mul(high, rest)), channels, 3)
