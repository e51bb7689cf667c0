"""PP-YOLOE-M (PaddleDetection configs/ppyoloe, ppyoloe_crn_m), 640 x 640, 80 classes.

Re-parameterised, as exported for RKNPU: distances not decoded, class scores behind a sigmoid, and
their sum.
"""

from __future__ import annotations

import onnx

from models.zoo.graph import GraphBuilder, Value
from models.zoo.yolo_blocks import IMAGE, class_sum, conv, repeats

_DEPTH, _WIDTH = 0.67, 0.75


def ppyoloe_m() -> onnx.ModelProto:
    """The medium model."""
    return graph().build()


def graph() -> GraphBuilder:
    """The builder, with its counts."""
    channels = [round(count * _WIDTH) for count in (64, 128, 256, 512, 1024)]
    g = GraphBuilder("ppyoloe_m")
    x = conv(g, g.input("image", IMAGE), channels[0] // 2, 3, 2)
    x = conv(g, conv(g, x, channels[0] // 2, 3), channels[0], 3)
    features = []
    for width, count in zip(channels[1:], (3, 6, 6, 3), strict=True):
        x = _backbone_stage(g, x, width, repeats(count, _DEPTH))
        features.append(x)
    for level in _pan(g, features[1:]):
        _head(g, level)
    return g


def _backbone_stage(g: GraphBuilder, x: Value, channels: int, count: int) -> Value:
    middle = (x.channels + channels) // 2
    x = conv(g, x, middle, 3, 2)
    kept = conv(g, x, middle // 2)
    y = conv(g, x, middle // 2)
    for _ in range(count):
        y = g.add(y, conv(g, conv(g, y, y.channels, 3), y.channels, 3))
    joined = g.concat([kept, y])
    weight = g.conv(g.global_average_pool(joined), middle, 1, 1, "hardsigmoid")
    return conv(g, g.mul(joined, weight), channels)


def _neck_stage(g: GraphBuilder, x: Value, channels: int, count: int, *, spp: bool) -> Value:
    middle = channels // 2
    kept = conv(g, x, middle)
    y = conv(g, x, middle)
    for index in range(count):
        y = conv(g, conv(g, y, middle, 3), middle, 3)
        if spp and index == (count - 1) // 2:
            pools = [g.max_pool(y, kernel, 1, kernel // 2) for kernel in (5, 9, 13)]
            y = conv(g, g.concat([y, *pools]), middle)
    return conv(g, g.concat([kept, y]), channels)


def _pan(g: GraphBuilder, features: list[Value]) -> list[Value]:
    """From features at strides 8, 16, 32 to levels at strides 32, 16, 8."""
    widths = [round(count * _WIDTH) for count in (768, 384, 192)]
    count = repeats(3, _DEPTH)
    down: list[Value] = []
    route: Value | None = None
    for index, (feature, width) in enumerate(zip(reversed(features), widths, strict=True)):
        x = feature if route is None else g.concat([route, feature])
        x = _neck_stage(g, x, width, count, spp=index == 0)
        down.append(x)
        if index < 2:
            route = g.upsample(conv(g, x, width // 2))
    levels = [down[2]]
    for index in (1, 0):
        pooled = conv(g, levels[-1], levels[-1].channels, 3, 2)
        x = g.concat([pooled, down[index]])
        levels.append(_neck_stage(g, x, widths[index], count, spp=False))
    return levels[::-1]


def _head(g: GraphBuilder, x: Value) -> None:
    pooled = g.global_average_pool(x)
    gated = [
        conv(g, g.mul(x, g.conv(pooled, x.channels, 1, 1, "sigmoid")), x.channels) for _ in range(2)
    ]
    scores = conv(g, g.add(gated[0], x), 80, 3, act="sigmoid")
    g.output(conv(g, gated[1], 68, 3, act=""), scores, class_sum(g, scores))
