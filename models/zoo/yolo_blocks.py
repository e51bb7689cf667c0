"""Blocks that the YOLO networks share; SiLU after every convolution unless told otherwise.

Written from the papers and the layer tables of their authors' configurations (ultralytics
`cfg/models`, Megvii YOLOX, meituan YOLOv6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

from models.zoo.graph import GraphBuilder, Value

IMAGE = (1, 3, 640, 640)
ClassBranch = Callable[[GraphBuilder, Value, int, int], Value]
_BINS, _CLASSES = 16, 80


def scaled(channels: int, width: float, largest: int = 1024) -> int:
    """Channels of a scaled model: capped, multiplied, rounded up to 8."""
    return ceil(min(channels, largest) * width / 8) * 8


def repeats(count: int, depth: float) -> int:
    """Blocks of a scaled model, at least one."""
    return max(round(count * depth), 1) if count > 1 else count


def conv(
    g: GraphBuilder, x: Value, channels: int, kernel: int = 1, stride: int = 1, act: str = "silu"
) -> Value:
    """A convolution with batch normalisation and SiLU."""
    return g.conv(x, channels, kernel, stride, act)


def bottleneck(
    g: GraphBuilder,
    x: Value,
    channels: int,
    *,
    shortcut: bool,
    kernels: tuple[int, int] = (3, 3),
    expansion: float = 1.0,
) -> Value:
    """Two convolutions, and the input added where the channels agree."""
    y = conv(g, x, int(channels * expansion), kernels[0])
    y = conv(g, y, channels, kernels[1])
    return g.add(x, y) if shortcut and x.channels == channels else y


def c3(
    g: GraphBuilder,
    x: Value,
    channels: int,
    count: int,
    *,
    shortcut: bool = True,
    kernels: tuple[int, int] = (1, 3),
) -> Value:
    """CSP bottleneck with three convolutions (YOLOv5, YOLOX, the C3k of YOLO11)."""
    hidden = channels // 2
    y = conv(g, x, hidden)
    for _ in range(count):
        y = bottleneck(g, y, hidden, shortcut=shortcut, kernels=kernels)
    return conv(g, g.concat([y, conv(g, x, hidden)]), channels)


def c2f(g: GraphBuilder, x: Value, channels: int, count: int, *, shortcut: bool = False) -> Value:
    """CSP bottleneck with two convolutions whose parts are all joined (YOLOv8)."""
    hidden = channels // 2
    parts = g.split(conv(g, x, 2 * hidden), [hidden, hidden])
    for _ in range(count):
        parts.append(bottleneck(g, parts[-1], hidden, shortcut=shortcut))
    return conv(g, g.concat(parts), channels)


def sppf(g: GraphBuilder, x: Value, channels: int, act: str = "silu") -> Value:
    """Three chained 5 x 5 poolings, joined."""
    parts = [conv(g, x, x.channels // 2, act=act)]
    for _ in range(3):
        parts.append(g.max_pool(parts[-1], 5, 1, 2))
    return conv(g, g.concat(parts), channels, act=act)


def attention(g: GraphBuilder, x: Value) -> Value:
    """The attention of PSA blocks (YOLOv10, YOLO11): heads of 64 values and 32 keys, and a
    depthwise convolution of the values as position."""
    batch, channels, height, width = x.shape
    heads, size = max(1, channels // 64), min(64, channels)
    keys, area = size // 2, height * width
    joined = conv(g, x, channels + 2 * keys * heads, act="")
    joined = g.reshape(joined, (batch, heads, 2 * keys + size, area))
    query, key, value = g.split(joined, [keys, keys, size], axis=2)
    scores = g.matmul(g.transpose(query, (0, 1, 3, 2)), key)
    weights = g.softmax(g.mul(scores, g.scalar(keys**-0.5)))
    mixed = g.matmul(value, g.transpose(weights, (0, 1, 3, 2)))
    mixed = g.reshape(mixed, x.shape)
    position = g.depthwise(g.reshape(value, x.shape), 3)
    return conv(g, g.add(mixed, position), channels, act="")


def psa_block(g: GraphBuilder, x: Value) -> Value:
    """Attention and a feed-forward part of two convolutions, each added to its input."""
    x = g.add(x, attention(g, x))
    return g.add(x, conv(g, conv(g, x, 2 * x.channels), x.channels, act=""))


def psa(g: GraphBuilder, x: Value, count: int = 1) -> Value:
    """Half of the channels through `count` attention blocks (PSA, C2PSA)."""
    half = x.channels // 2
    kept, y = g.split(conv(g, x, 2 * half), [half, half])
    for _ in range(count):
        y = psa_block(g, y)
    return conv(g, g.concat([kept, y]), x.channels)


def class_sum(g: GraphBuilder, scores: Value) -> Value:
    """Scores of all classes summed and kept within [0, 1]: rknn_model_zoo's exports add it, so
    that the host can skip empty cells."""
    return g.clip(g.reduce("ReduceSum", scores, 1), 0.0, 1.0)


def box_branch(g: GraphBuilder, x: Value, hidden: int, outputs: int) -> Value:
    """Two 3 x 3 convolutions and a plain 1 x 1 convolution."""
    return conv(g, conv(g, conv(g, x, hidden, 3), hidden, 3), outputs, act="")


def light_class_branch(g: GraphBuilder, x: Value, hidden: int, outputs: int) -> Value:
    """The depthwise class branch of YOLOv10 and YOLO11."""
    y = conv(g, g.depthwise(x, 3, act="silu"), hidden)
    y = conv(g, g.depthwise(y, 3, act="silu"), hidden)
    return conv(g, y, outputs, act="")


def detections(
    g: GraphBuilder, levels: Sequence[Value], *, classes: int = 80, light: bool = False
) -> None:
    """The outputs of an anchor-free head as exported for RKNPU: for each level distances (16 bins
    a side, not decoded), class scores behind a sigmoid, and the scores' sum."""
    first = levels[0].channels
    boxes, scores = max(16, first // 4, 64), max(first, min(classes, 100))
    for level in levels:
        g.output(box_branch(g, level, boxes, 64))
        branch = light_class_branch if light else box_branch
        score = g.activation(branch(g, level, scores, classes), "sigmoid")
        g.output(score, class_sum(g, score))


def distances_and_scores(
    g: GraphBuilder, levels: Sequence[Value], class_branch: ClassBranch
) -> tuple[Value, Value, Value]:
    """The head of YOLOv8 and YOLO11 over the cells of all levels: distances to the near and to the
    far corner f32[1, 2, cells], each the mean of 16 bins, and 80 classes' scores f32[1, 80, cells]
    before the sigmoid."""
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
    return near, far, g.concat(scores, 2)


def path_aggregation(
    g: GraphBuilder, levels: tuple[Value, Value, Value], blocks: int
) -> tuple[Value, Value, Value]:
    """The neck of YOLOv5 and YOLOX (PANet: down from the coarsest level and up again), of C3 blocks
    as wide as the levels, the finest of which comes first."""
    p3, p4, p5 = levels
    top = conv(g, p5, p4.channels)
    x = c3(g, g.concat([g.upsample(top), p4]), p4.channels, blocks, shortcut=False)
    middle = conv(g, x, p3.channels)
    x = g.concat([g.upsample(middle), p3])
    out3 = c3(g, x, p3.channels, blocks, shortcut=False)
    x = g.concat([conv(g, out3, p3.channels, 3, 2), middle])
    out4 = c3(g, x, p4.channels, blocks, shortcut=False)
    x = g.concat([conv(g, out4, p4.channels, 3, 2), top])
    out5 = c3(g, x, p5.channels, blocks, shortcut=False)
    return out3, out4, out5
