"""YOLOX (Megvii-BaseDetection/YOLOX exps/default/yolox_{s,m}.py), 640 x 640, 80 classes.

The focus layer is the 6 x 6 convolution of stride 2 that it equals. Outputs for each level: boxes,
objectness and scores in one tensor, not decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx

from models.zoo.graph import GraphBuilder, Value
from models.zoo.yolo_blocks import IMAGE, c3, conv, path_aggregation, repeats, scaled

Parts = tuple[Value, Value, Value]

SCALES = {"s": (0.33, 0.5), "m": (0.67, 0.75)}


def yolox(scale: str) -> onnx.ModelProto:
    """The model of a scale: s or m."""
    return graph(scale).build()


def graph(
    scale: str, name: str = "", head: Callable[[GraphBuilder, Sequence[Parts]], None] | None = None
) -> GraphBuilder:
    """The builder of a scale, with its counts; `head` makes outputs of each level's parts."""
    depth, width = SCALES[scale]
    c1, c2, c3_, c4, c5 = (scaled(channels, width) for channels in (64, 128, 256, 512, 1024))
    g = GraphBuilder(name or f"yolox_{scale}")
    x = g.conv(g.input("images", IMAGE), c1, 6, 2, "silu", pads=2)
    x = c3(g, conv(g, x, c2, 3, 2), c2, repeats(3, depth))
    p3 = c3(g, conv(g, x, c3_, 3, 2), c3_, repeats(9, depth))
    p4 = c3(g, conv(g, p3, c4, 3, 2), c4, repeats(9, depth))
    p5 = _spp(g, conv(g, p4, c5, 3, 2), c5)
    p5 = c3(g, p5, c5, repeats(3, depth), shortcut=False)
    levels = [
        _head(g, level, scaled(256, width))
        for level in path_aggregation(g, (p3, p4, p5), repeats(3, depth))
    ]
    if head is not None:
        head(g, levels)
    else:
        for parts in levels:
            g.output(g.concat(parts))
    return g


def _spp(g: GraphBuilder, x: Value, channels: int) -> Value:
    y = conv(g, x, x.channels // 2)
    pools = [g.max_pool(y, kernel, 1, kernel // 2) for kernel in (5, 9, 13)]
    return conv(g, g.concat([y, *pools]), channels)


def _head(g: GraphBuilder, x: Value, width: int) -> Parts:
    """Boxes, objectness and scores of one level."""
    x = conv(g, x, width)
    classes = conv(g, conv(g, x, width, 3), width, 3)
    boxes = conv(g, conv(g, x, width, 3), width, 3)
    return (
        conv(g, boxes, 4, act=""),
        conv(g, boxes, 1, act="sigmoid"),
        conv(g, classes, 80, act="sigmoid"),
    )
