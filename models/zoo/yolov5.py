"""YOLOv5 release 7.0 (ultralytics/yolov5 models/yolov5{n,s,m}.yaml), 640 x 640, 80 classes.

As rknn_model_zoo exports it: three outputs of 255 channels behind a sigmoid, not decoded.
"""

from __future__ import annotations

import onnx

from models.zoo.graph import GraphBuilder, Value
from models.zoo.yolo_blocks import IMAGE, c3, conv, path_aggregation, repeats, scaled, sppf

SCALES = {"n": (0.33, 0.25), "s": (0.33, 0.5), "m": (0.67, 0.75)}


def yolov5(scale: str) -> onnx.ModelProto:
    """The model of a scale: n, s or m."""
    return graph(scale).build()


def graph(scale: str) -> GraphBuilder:
    """The builder of a scale, with its counts."""
    depth, width = SCALES[scale]
    c1, c2, c3_, c4, c5 = (scaled(channels, width) for channels in (64, 128, 256, 512, 1024))
    g = GraphBuilder(f"yolov5{scale}")
    x = g.conv(g.input("images", IMAGE), c1, 6, 2, "silu", pads=2)
    x = c3(g, conv(g, x, c2, 3, 2), c2, repeats(3, depth))
    p3 = c3(g, conv(g, x, c3_, 3, 2), c3_, repeats(6, depth))
    p4 = c3(g, conv(g, p3, c4, 3, 2), c4, repeats(9, depth))
    p5 = sppf(g, c3(g, conv(g, p4, c5, 3, 2), c5, repeats(3, depth)), c5)
    for level in path_aggregation(g, (p3, p4, p5), repeats(3, depth)):
        g.output(_head(g, level))
    return g


def _head(g: GraphBuilder, x: Value) -> Value:
    return conv(g, x, 255, act="sigmoid")
