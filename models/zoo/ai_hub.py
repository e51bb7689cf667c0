"""Detectors as Qualcomm AI Hub exports them, with boxes decoded and the best class of each cell
picked on the device (qai_hub_models/models/{yolov8_det,yolov11_det,yolox}; the smallest
checkpoints: YOLOv8-N, YOLO11-N, YOLOX-S)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from models.zoo import yolo11, yolox
from models.zoo.graph import GraphBuilder, Value
from models.zoo.yolo_blocks import (
    IMAGE,
    ClassBranch,
    box_branch,
    c2f,
    conv,
    distances_and_scores,
    light_class_branch,
)
from models.zoo.yolov8 import SCALES, backbone


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
    _decoded(g, yolo11.features(g, "n"), light_class_branch)
    return g


def yolox_s() -> GraphBuilder:
    """YOLOX-S at 640 x 640."""
    g = yolox.graph("s", "yolox", head=_yolox_decoded)
    return g


def _decoded(
    g: GraphBuilder,
    levels: Sequence[Value],
    class_branch: ClassBranch,
) -> None:
    """Corners of boxes, and the best of 80 classes."""
    near, far, scores = distances_and_scores(g, levels, class_branch)
    cells = near.shape[2]
    anchors = g.constant(np.ones((1, 2, cells), np.float32))
    low, high = g.sub(anchors, near), g.add(anchors, far)
    strides = g.constant(np.full((1, 1, cells), 8, np.float32))
    g.output(g.mul(g.concat([low, high]), strides))
    g.output(g.reduce("ReduceMax", g.activation(scores, "sigmoid"), 1))


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
