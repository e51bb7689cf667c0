"""Detectors as Qualcomm AI Hub exports them, with boxes decoded and the best class of each cell
picked on the device (qai_hub_models/models/{yolov8_det,yolov11_det,yolox}; the smallest
checkpoints: YOLOv8-N, YOLO11-N, YOLOX-S)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from models.zoo import yolox
from models.zoo.graph import GraphBuilder, Value
from models.zoo.yolo_blocks import (
    IMAGE,
    bottleneck,
    box_branch,
    c2f,
    c3,
    conv,
    light_class_branch,
    psa,
    scaled,
    sppf,
)
from models.zoo.yolov8 import SCALES, backbone

_BINS, _CLASSES = 16, 80


def yolov8_det() -> GraphBuilder:
    """YOLOv8-N at 640 x 640."""
    g = GraphBuilder("yolov8_det")
    depth, width, largest = SCALES["n"]
    p3, p4, p5 = backbone(g, g.input("images", IMAGE), depth, width, largest)
    x = c2f(g, g.concat([g.upsample(p5), p4]), p4.channels, 1)
    out3 = c2f(g, g.concat([g.upsample(x), p3]), p3.channels, 1)
    out4 = c2f(g, g.concat([conv(g, out3, p3.channels, 3, 2), x]), p4.channels, 1)
    out5 = c2f(g, g.concat([conv(g, out4, p4.channels, 3, 2), p5]), p5.channels, 1)
    _decoded(g, (out3, out4, out5), box_branch)
    return g


def yolov11_det() -> GraphBuilder:
    """YOLO11-N at 640 x 640."""
    g = GraphBuilder("yolov11_det")
    c1, c2, c3_, c4, c5 = (scaled(c, 0.25) for c in (64, 128, 256, 512, 1024))
    x = conv(g, conv(g, g.input("images", IMAGE), c1, 3, 2), c2, 3, 2)
    x = _c3k2(g, x, c3_, 0.25)
    p3 = _c3k2(g, conv(g, x, c3_, 3, 2), c4, 0.25)
    p4 = _c3k2(g, conv(g, p3, c4, 3, 2), c4, deep=True)
    p5 = _c3k2(g, conv(g, p4, c5, 3, 2), c5, deep=True)
    p5 = psa(g, sppf(g, p5, c5))
    x = _c3k2(g, g.concat([g.upsample(p5), p4]), c4)
    out3 = _c3k2(g, g.concat([g.upsample(x), p3]), c3_)
    out4 = _c3k2(g, g.concat([conv(g, out3, c3_, 3, 2), x]), c4)
    out5 = _c3k2(g, g.concat([conv(g, out4, c4, 3, 2), p5]), c5, deep=True)
    _decoded(g, (out3, out4, out5), light_class_branch)
    return g


def yolox_s() -> GraphBuilder:
    """YOLOX-S at 640 x 640."""
    g = yolox.graph("s", "yolox", head=_yolox_decoded)
    return g


def _c3k2(
    g: GraphBuilder, x: Value, channels: int, expansion: float = 0.5, *, deep: bool = False
) -> Value:
    """C2f around one bottleneck, or around one C3 of two 3 x 3 bottlenecks where `deep`."""
    hidden = int(channels * expansion)
    parts = g.split(conv(g, x, 2 * hidden), [hidden, hidden])
    if deep:
        parts.append(c3(g, parts[-1], hidden, 2, kernels=(3, 3)))
    else:
        parts.append(bottleneck(g, parts[-1], hidden, shortcut=True, expansion=0.5))
    return conv(g, g.concat(parts), channels)


def _decoded(
    g: GraphBuilder,
    levels: Sequence[Value],
    class_branch: Callable[[GraphBuilder, Value, int, int], Value],
) -> None:
    """Distances as means of 16 bins, corners from them, and the best of 80 classes."""
    first = levels[0].channels
    boxes, scores = [], []
    for level in levels:
        cells = level.height * level.width
        box = box_branch(g, level, max(_BINS, first // 4, 4 * _BINS), 4 * _BINS)
        score = class_branch(g, level, max(first, min(_CLASSES, 100)), _CLASSES)
        boxes.append(g.reshape(box, (1, 4 * _BINS, cells)))
        scores.append(g.reshape(score, (1, _CLASSES, cells)))
    bins = g.concat(boxes, 2)
    cells = bins.shape[2]
    bins = g.transpose(g.reshape(bins, (1, 4, _BINS, cells)), (0, 2, 1, 3))
    distances = g.reshape(g.conv(g.softmax(bins, 1), 1, bias=False), (1, 4, cells))
    near, far = g.split(distances, (2, 2))
    anchors = g.constant(np.ones((1, 2, cells), np.float32))
    low, high = g.sub(anchors, near), g.add(anchors, far)
    strides = g.constant(np.full((1, 1, cells), 8, np.float32))
    g.output(g.mul(g.concat([low, high]), strides))
    g.output(g.reduce("ReduceMax", g.activation(g.concat(scores, 2), "sigmoid"), 1))


def _yolox_decoded(g: GraphBuilder, parts: Sequence[Sequence[Value]]) -> None:
    """Centres moved by the cell, extents by exp, both by the stride; the best class's score."""
    flat = [
        g.concat([g.reshape(v, (1, v.channels, v.height * v.width)) for v in kind], 2)
        for kind in zip(*parts, strict=True)
    ]
    boxes, objectness, classes = (g.transpose(value, (0, 2, 1)) for value in flat)
    cells = boxes.shape[1]
    strides = g.constant(np.full((1, cells, 1), 8, np.float32))
    centres, extents = g.split(boxes, (2, 2), 2)
    grid = g.constant(np.ones((1, cells, 2), np.float32))
    xy = g.mul(g.add(centres, grid), strides)
    wh = g.mul(g.node("Exp", [extents], extents.shape), strides)
    g.output(g.concat([xy, wh], 2))
    g.output(g.reduce("ReduceMax", g.mul(classes, objectness), 2))


DEFINITIONS: dict[str, Callable[[], onnx.ModelProto]] = {
    "yolov8_det": lambda: yolov8_det().build(),
    "yolov11_det": lambda: yolov11_det().build(),
    "yolox": lambda: yolox_s().build(),
}
