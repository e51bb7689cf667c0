"""YOLOv6 release 4.0 (meituan/YOLOv6 configs/yolov6{n,s,m}.py), 640 x 640, 80 classes.

Re-parameterised for deployment: each RepVGG block is one 3 x 3 convolution with ReLU. As exported
for RKNPU: distances not decoded, class scores behind a sigmoid, and their sum.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from models.zoo.graph import GraphBuilder, Value
from models.zoo.yolo_blocks import IMAGE, class_sum, conv, repeats, scaled

_Stage = Callable[[GraphBuilder, Value, int, int], Value]

SCALES = {"n": (0.33, 0.25), "s": (0.33, 0.5), "m": (0.6, 0.75)}


def yolov6(scale: str) -> onnx.ModelProto:
    """The model of a scale: n, s or m."""
    return graph(scale).build()


def graph(scale: str) -> GraphBuilder:
    """The builder of a scale, with its counts."""
    depth, width = SCALES[scale]
    csp = scale == "m"
    stage = _bep_c3 if csp else _rep_block
    c1, c2, c3, c4, c5 = (scaled(channels, width) for channels in (64, 128, 256, 512, 1024))
    n5, n6, n7, n8, n9, n10 = (scaled(c, width) for c in (256, 128, 128, 256, 256, 512))
    g = GraphBuilder(f"yolov6{scale}")
    x = _rep(g, g.input("images", IMAGE), c1, 2)
    p2 = stage(g, _rep(g, x, c2, 2), c2, repeats(6, depth))
    p3 = stage(g, _rep(g, p2, c3, 2), c3, repeats(12, depth))
    p4 = stage(g, _rep(g, p3, c4, 2), c4, repeats(18, depth))
    p5 = stage(g, _rep(g, p4, c5, 2), c5, repeats(6, depth))
    p5 = _sim_sppf(g, p5) if csp else _csp_sppf(g, p5)
    n = repeats(12, depth)
    top = conv(g, p5, n5, act="relu")
    x = stage(g, _bi_fusion(g, top, p4, p3, n5), n5, n)
    middle = conv(g, x, n6, act="relu")
    out3 = stage(g, _bi_fusion(g, middle, p3, p2, n6), n6, n)
    down = conv(g, out3, n7, 3, 2, act="relu")
    out4 = stage(g, g.concat([down, middle]), n8, n)
    down = conv(g, out4, n9, 3, 2, act="relu")
    out5 = stage(g, g.concat([down, top]), n10, n)
    for level in (out3, out4, out5):
        _head(g, level, 68 if csp else 4)
    return g


def _rep(g: GraphBuilder, x: Value, channels: int, stride: int = 1) -> Value:
    return conv(g, x, channels, 3, stride, act="relu")


def _rep_block(g: GraphBuilder, x: Value, channels: int, count: int) -> Value:
    for _ in range(count):
        x = _rep(g, x, channels)
    return x


def _bep_c3(g: GraphBuilder, x: Value, channels: int, count: int) -> Value:
    """CSP around pairs of RepVGG blocks, each pair with a weighted shortcut."""
    hidden = int(channels * 2 / 3)
    y = conv(g, x, hidden, act="relu")
    for _ in range(count // 2):
        factor = g.weight((1,), 1)
        y = g.add(_rep(g, _rep(g, y, hidden), hidden), g.mul(y, factor))
    return conv(g, g.concat([y, conv(g, x, hidden, act="relu")]), channels, act="relu")


def _pools(g: GraphBuilder, x: Value) -> Value:
    parts = [x]
    for _ in range(3):
        parts.append(g.max_pool(parts[-1], 5, 1, 2))
    return g.concat(parts)


def _sim_sppf(g: GraphBuilder, x: Value) -> Value:
    y = conv(g, x, x.channels // 2, act="relu")
    return conv(g, _pools(g, y), x.channels, act="relu")


def _csp_sppf(g: GraphBuilder, x: Value) -> Value:
    hidden = x.channels // 2
    y = conv(g, x, hidden, act="relu")
    y = conv(g, conv(g, y, hidden, 3, act="relu"), hidden, act="relu")
    y = conv(g, conv(g, _pools(g, y), hidden, act="relu"), hidden, 3, act="relu")
    return conv(g, g.concat([conv(g, x, hidden, act="relu"), y]), x.channels, act="relu")


def _bi_fusion(g: GraphBuilder, low: Value, mid: Value, high: Value, channels: int) -> Value:
    """Three neighbouring levels at the resolution of the middle one."""
    up = g.conv_transpose(low, channels, 2, 2)
    same = conv(g, mid, channels, act="relu")
    down = conv(g, conv(g, high, channels, act="relu"), channels, 3, 2, act="relu")
    return conv(g, g.concat([up, same, down]), channels, act="relu")


def _head(g: GraphBuilder, x: Value, distances: int) -> None:
    x = conv(g, x, x.channels)
    scores = conv(g, conv(g, x, x.channels, 3), 80, act="sigmoid")
    g.output(conv(g, conv(g, x, x.channels, 3), distances, act=""), scores, class_sum(g, scores))
