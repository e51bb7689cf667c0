"""YOLO11-M (ultralytics cfg/models/11/yolo11.yaml), 640 x 640, 80 classes."""

from __future__ import annotations

import onnx

from models.zoo.graph import GraphBuilder, Value
from models.zoo.yolo_blocks import IMAGE, c3, conv, detections, psa, scaled, sppf


def yolo11m() -> onnx.ModelProto:
    """The medium model."""
    return graph().build()


def graph() -> GraphBuilder:
    """The builder, with its counts. Depth 0.5 makes one block of the table's two."""
    c1, c2, c3_, c4, c5 = (scaled(c, 1.0, 512) for c in (64, 128, 256, 512, 1024))
    g = GraphBuilder("yolo11m")
    x = conv(g, conv(g, g.input("images", IMAGE), c1, 3, 2), c2, 3, 2)
    x = _c3k2(g, x, c3_, 0.25)
    p3 = _c3k2(g, conv(g, x, c3_, 3, 2), c4, 0.25)
    p4 = _c3k2(g, conv(g, p3, c4, 3, 2), c4)
    p5 = psa(g, sppf(g, _c3k2(g, conv(g, p4, c5, 3, 2), c5), c5))
    x = _c3k2(g, g.concat([g.upsample(p5), p4]), c4)
    out3 = _c3k2(g, g.concat([g.upsample(x), p3]), c3_)
    out4 = _c3k2(g, g.concat([conv(g, out3, c3_, 3, 2), x]), c4)
    out5 = _c3k2(g, g.concat([conv(g, out4, c4, 3, 2), p5]), c5)
    detections(g, (out3, out4, out5), light=True)
    return g


def _c3k2(g: GraphBuilder, x: Value, channels: int, expansion: float = 0.5) -> Value:
    """C2f around one C3 of two 3 x 3 bottlenecks."""
    hidden = int(channels * expansion)
    parts = g.split(conv(g, x, 2 * hidden), [hidden, hidden])
    parts.append(c3(g, parts[-1], hidden, 2, kernels=(3, 3)))
    return conv(g, g.concat(parts), channels)
