"""ResNet-50 v2 (He et al., 2016), as the ONNX model zoo has it in resnet50-v2-7.

Batch normalisation comes before each block, behind the sum, so that no convolution takes it in.
"""

from __future__ import annotations

import onnx

from models.zoo.graph import GraphBuilder, Value


def resnet50_v2_7() -> onnx.ModelProto:
    """f32[1,3,224,224] -> f32[1,1000]."""
    return graph().build()


def graph() -> GraphBuilder:
    """The builder, with its counts."""
    g = GraphBuilder("resnet50_v2_7")
    x = g.batch_norm(g.input("data", (1, 3, 224, 224)))
    x = g.max_pool(g.conv(x, 64, 7, 2, "relu"), 3, 2, 1)
    for stage, (width, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for index in range(count):
            stride = 2 if stage > 0 and index == 0 else 1
            x = _bottleneck(g, x, width, stride, project=index == 0)
    x = g.global_average_pool(g.batch_norm(x, "relu"))
    g.output(g.linear(g.reshape(x, (1, 2048)), 1000))
    return g


def _bottleneck(g: GraphBuilder, x: Value, width: int, stride: int, *, project: bool) -> Value:
    normal = g.batch_norm(x, "relu")
    kept = g.conv(normal, 4 * width, 1, stride, bias=False) if project else x
    y = g.conv(normal, width, 1, 1, "relu")
    y = g.conv(y, width, 3, stride, "relu")
    return g.add(kept, g.conv(y, 4 * width, bias=False))
