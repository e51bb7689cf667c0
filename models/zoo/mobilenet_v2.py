"""MobileNetV2 (Sandler et al., 2018), as the ONNX model zoo has it in mobilenetv2-12."""

from __future__ import annotations

import onnx

from models.zoo.graph import GraphBuilder, Value

STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
          (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip
"""Expansion, channels, blocks, stride of the first block."""


def mobilenetv2_12() -> onnx.ModelProto:
    """f32[1,3,224,224] -> f32[1,1000]."""
    return graph().build()


def graph() -> GraphBuilder:
    """The builder, with its counts."""
    g = GraphBuilder("mobilenetv2_12")
    x = g.conv(g.input("input", (1, 3, 224, 224)), 32, 3, 2, "relu6")
    for expansion, channels, count, stride in STAGES:
        for index in range(count):
            x = inverted_residual(g, x, channels, expansion, stride if index == 0 else 1)
    x = g.global_average_pool(g.conv(x, 1280, 1, 1, "relu6"))
    g.output(g.linear(g.reshape(x, (1, 1280)), 1000))
    return g


def inverted_residual(
    g: GraphBuilder, x: Value, channels: int, expansion: int, stride: int, dilation: int = 1
) -> Value:
    """Widen, filter each channel, narrow; and the input added where the shapes agree."""
    y = x if expansion == 1 else g.conv(x, x.channels * expansion, 1, 1, "relu6")
    y = g.conv(y, y.channels, 3, stride, "relu6", groups=y.channels, dilation=dilation)
    y = g.conv(y, channels)
    return g.add(x, y) if stride == 1 and x.channels == channels else y
