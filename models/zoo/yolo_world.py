"""YOLO-World v2 S (AILab-CVC/YOLO-World, yolo_world_v2_s), 640 x 640, 80 texts as second input.

YOLOv8-S whose neck is guided by text embeddings and whose classes are similarities to them. As
rknn_model_zoo exports it, boxes leave decoded into four distances, a softmax over 16 bins each.
"""

from __future__ import annotations

import onnx

from models.zoo.graph import GraphBuilder, Value
from models.zoo.yolo_blocks import IMAGE, bottleneck, box_branch, conv, repeats
from models.zoo.yolov8 import SCALES, backbone

_TEXTS, _WIDTH, _HEAD = 80, 512, 32


def yolo_world_v2s() -> onnx.ModelProto:
    """The small model."""
    return graph().build()


def graph() -> GraphBuilder:
    """The builder, with its counts."""
    depth, width, largest = SCALES["s"]
    g = GraphBuilder("yolo_world_v2s")
    image = g.input("images", IMAGE)
    texts = g.input("texts", (1, _TEXTS, _WIDTH))
    p3, p4, p5 = backbone(g, image, depth, width, largest)
    n = repeats(3, depth)
    x = _guided(g, g.concat([g.upsample(p5), p4]), texts, p4.channels, n)
    out3 = _guided(g, g.concat([g.upsample(x), p3]), texts, p3.channels, n)
    out4 = g.concat([conv(g, out3, p3.channels, 3, 2), x])
    out4 = _guided(g, out4, texts, p4.channels, n)
    out5 = g.concat([conv(g, out4, p4.channels, 3, 2), p5])
    out5 = _guided(g, out5, texts, p5.channels, n)
    for level in (out3, out4, out5):
        _head(g, level, texts, out3.channels)
    return g


def _guided(g: GraphBuilder, x: Value, texts: Value, channels: int, count: int) -> Value:
    """C2f with one part more, gated by its likeness to the texts."""
    hidden = channels // 2
    parts = g.split(conv(g, x, 2 * hidden), [hidden, hidden])
    for _ in range(count):
        parts.append(bottleneck(g, parts[-1], hidden, shortcut=False))
    parts.append(_max_sigmoid(g, parts[-1], texts))
    return conv(g, g.concat(parts), channels)


def _max_sigmoid(g: GraphBuilder, x: Value, texts: Value) -> Value:
    """For each head of 32 channels and each pixel, the sigmoid of the largest likeness."""
    _, channels, height, width = x.shape
    heads = channels // _HEAD
    guide = g.linear(texts, channels)
    guide = g.transpose(g.reshape(guide, (1, _TEXTS, heads, _HEAD)), (0, 2, 3, 1))
    embed = g.transpose(g.reshape(x, (1, heads, _HEAD, height, width)), (0, 1, 3, 4, 2))
    likeness = g.matmul(g.reshape(embed, (1, heads, height * width, _HEAD)), guide)
    largest = g.reduce("ReduceMax", likeness, 3)
    weight = g.div(g.reshape(largest, (1, heads, height, width)), g.scalar(_HEAD**0.5))
    weight = g.activation(g.add(weight, g.weight((1, heads, 1, 1), 1)), "sigmoid")
    projected = g.reshape(conv(g, x, channels, 3, act=""), (1, heads, _HEAD, height, width))
    gated = g.mul(projected, g.reshape(weight, (1, heads, 1, height, width)))
    return g.reshape(gated, x.shape)


def _head(g: GraphBuilder, x: Value, texts: Value, first: int) -> None:
    area = x.height * x.width
    embed = g.batch_norm(box_branch(g, x, max(first, _TEXTS), _WIDTH))
    pixels = g.reshape(g.transpose(embed, (0, 2, 3, 1)), (1, area, _WIDTH))
    scores = g.matmul(pixels, g.transpose(texts, (0, 2, 1)))
    scores = g.reshape(scores, (1, x.height, x.width, _TEXTS))
    scores = g.transpose(scores, (0, 3, 1, 2))
    scores = g.add(g.mul(scores, g.scalar(0.37)), g.scalar(-9.0))
    g.output(g.activation(scores, "sigmoid"))
    bins = g.reshape(box_branch(g, x, max(16, first // 4, 64), 64), (1, 4, 16, area))
    bins = g.softmax(g.transpose(bins, (0, 3, 1, 2)), 3)
    box = g.reshape(g.matmul(bins, g.constant_like((16, 1))), (1, area, 4))
    g.output(g.reshape(g.transpose(box, (0, 2, 1)), (1, 4, x.height, x.width)))
