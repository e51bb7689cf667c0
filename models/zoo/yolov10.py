"""YOLOv10-S (THU-MIG/yolov10 cfg/models/v10/yolov10s.yaml), 640 x 640, 80 classes.

The one-to-one head alone, as exported: the one-to-many head serves only training.
"""

from __future__ import annotations

import onnx

from models.zoo.graph import GraphBuilder, Value
from models.zoo.yolo_blocks import IMAGE, c2f, conv, detections, psa, repeats, scaled, sppf

_DEPTH, _WIDTH = 0.33, 0.5


def yolov10s() -> onnx.ModelProto:
    """The small model."""
    return graph().build()


def graph() -> GraphBuilder:
    """The builder, with its counts."""
    c1, c2, c3, c4, c5 = (scaled(channels, _WIDTH) for channels in (64, 128, 256, 512, 1024))
    n3, n6 = repeats(3, _DEPTH), repeats(6, _DEPTH)
    g = GraphBuilder("yolov10s")
    x = conv(g, conv(g, g.input("images", IMAGE), c1, 3, 2), c2, 3, 2)
    x = c2f(g, x, c2, n3, shortcut=True)
    p3 = c2f(g, conv(g, x, c3, 3, 2), c3, n6, shortcut=True)
    p4 = c2f(g, _down(g, p3, c4), c4, n6, shortcut=True)
    p5 = psa(g, sppf(g, _c2f_cib(g, _down(g, p4, c5), c5, n3), c5))
    x = c2f(g, g.concat([g.upsample(p5), p4]), c4, n3)
    out3 = c2f(g, g.concat([g.upsample(x), p3]), c3, n3)
    out4 = c2f(g, g.concat([conv(g, out3, c3, 3, 2), x]), c4, n3)
    out5 = _c2f_cib(g, g.concat([_down(g, out4, c4), p5]), c5, n3)
    detections(g, (out3, out4, out5), light=True)
    return g


def _down(g: GraphBuilder, x: Value, channels: int) -> Value:
    """Channels first, then a depthwise convolution of stride 2."""
    return g.depthwise(conv(g, x, channels), 3, 2)


def _c2f_cib(g: GraphBuilder, x: Value, channels: int, count: int) -> Value:
    """C2f of inverted blocks whose middle depthwise convolution is 7 x 7."""
    hidden = channels // 2
    parts = g.split(conv(g, x, 2 * hidden), [hidden, hidden])
    for _ in range(count):
        y = conv(g, g.depthwise(parts[-1], 3, act="silu"), 2 * hidden)
        y = conv(g, g.depthwise(y, 7, act="silu"), hidden)
        parts.append(g.add(parts[-1], g.depthwise(y, 3, act="silu")))
    return conv(g, g.concat(parts), channels)
