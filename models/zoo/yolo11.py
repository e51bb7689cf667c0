"""YOLO11 (ultralytics cfg/models/11/yolo11.yaml), 640 x 640, 80 classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx

from models.zoo.graph import GraphBuilder, Value
from models.zoo.yolo_blocks import (
    IMAGE,
    bottleneck,
    c3,
    conv,
    detections,
    distances_and_scores,
    light_class_branch,
    psa,
    scaled,
    sppf,
)

Levels = tuple[Value, Value, Value]
SCALES = {
    "n": (1, 0.25, 1024),
    "s": (1, 0.5, 1024),
    "m": (1, 1.0, 512),
    "l": (2, 1.0, 512),
    "x": (2, 1.5, 512),
}
"""Blocks where the table has two, the width, and the most channels before it."""
_DEEP = "mlx"  # these scales have C3 inside of all blocks


def yolo11m() -> onnx.ModelProto:
    """The medium model as airockchip's fork exports it for RKNPU."""
    return graph().build()


def graph() -> GraphBuilder:
    """Its builder, with its counts."""
    g = GraphBuilder("yolo11m")
    detections(g, features(g, "m"), light=True)
    return g


def yolo11(scale: str) -> onnx.ModelProto:
    """The model of a scale (n, s, m, l, x) as ultralytics exports it for all other runtimes: one
    output f32[1, 84, 8400], centres and extents of boxes in pixels above scores of classes."""
    g = GraphBuilder(f"yolo11{scale}_boxes")
    near, far, scores = distances_and_scores(g, features(g, scale), light_class_branch)
    cells = near.shape[2]
    anchors = g.constant(np.ones((1, 2, cells), np.float32))
    strides = g.constant(np.full((1, 1, cells), 8, np.float32))
    low, high = g.sub(anchors, near), g.add(anchors, far)
    centres = g.mul(g.add(low, high), g.scalar(0.5))
    boxes = g.mul(g.concat([centres, g.sub(high, low)]), strides)
    g.output(g.concat([boxes, g.activation(scores, "sigmoid")]))
    return g.build()


def features(g: GraphBuilder, scale: str) -> Levels:
    """What the head reads, at strides of 8, 16 and 32."""
    count, width, largest = SCALES[scale]
    c1, c2, c3_, c4, c5 = (scaled(c, width, largest) for c in (64, 128, 256, 512, 1024))
    deep = scale in _DEEP
    x = conv(g, conv(g, g.input("images", IMAGE), c1, 3, 2), c2, 3, 2)
    x = _c3k2(g, x, c3_, count, 0.25, deep=deep)
    p3 = _c3k2(g, conv(g, x, c3_, 3, 2), c4, count, 0.25, deep=deep)
    p4 = _c3k2(g, conv(g, p3, c4, 3, 2), c4, count, deep=True)
    p5 = _c3k2(g, conv(g, p4, c5, 3, 2), c5, count, deep=True)
    p5 = psa(g, sppf(g, p5, c5), count)
    x = _c3k2(g, g.concat([g.upsample(p5), p4]), c4, count, deep=deep)
    out3 = _c3k2(g, g.concat([g.upsample(x), p3]), c3_, count, deep=deep)
    out4 = _c3k2(g, g.concat([conv(g, out3, c3_, 3, 2), x]), c4, count, deep=deep)
    out5 = _c3k2(g, g.concat([conv(g, out4, c4, 3, 2), p5]), c5, count, deep=True)
    return out3, out4, out5


def _c3k2(
    g: GraphBuilder, x: Value, channels: int, count: int, expansion: float = 0.5, *, deep: bool
) -> Value:
    """C2f around bottlenecks, or around C3s of two 3 x 3 bottlenecks where `deep`."""
    hidden = int(channels * expansion)
    parts = g.split(conv(g, x, 2 * hidden), [hidden, hidden])
    for _ in range(count):
        if deep:
            parts.append(c3(g, parts[-1], hidden, 2, kernels=(3, 3)))
        else:
            parts.append(bottleneck(g, parts[-1], hidden, shortcut=True, expansion=0.5))
    return conv(g, g.concat(parts), channels)


DEFINITIONS: dict[str, Callable[[], onnx.ModelProto]] = {
    f"yolo11{scale}_boxes": partial(yolo11, scale) for scale in SCALES
}
