"""YOLOv8 (ultralytics cfg/models/v8), 640 x 640: detection, segmentation, pose, oriented boxes.

Outputs as the forks of airockchip export them for RKNPU: distances not decoded, class scores
behind a sigmoid and their sum, beside what the task adds.
"""

from __future__ import annotations

from math import ceil

import onnx

from models.zoo.graph import GraphBuilder, Value
from models.zoo.yolo_blocks import (
    IMAGE,
    box_branch,
    c2f,
    conv,
    detections,
    repeats,
    scaled,
    sppf,
)

SCALES = {"n": (0.33, 0.25, 1024), "s": (0.33, 0.5, 1024), "m": (0.67, 0.75, 768)}
_MASKS, _JOINTS = 32, 17

Levels = tuple[Value, Value, Value]


def yolov8(scale: str, task: str = "detect") -> onnx.ModelProto:
    """The model of a scale (n, s, m) for a task: detect, seg, pose, obb."""
    return graph(scale, task).build()


def graph(scale: str, task: str = "detect") -> GraphBuilder:
    """The builder of a scale and task, with its counts."""
    depth, width, largest = SCALES[scale]
    suffix = "" if task == "detect" else f"_{task}"
    g = GraphBuilder(f"yolov8{scale}{suffix}")
    levels = _pyramid(g, depth, width, largest)
    match task:
        case "detect":
            detections(g, levels)
        case "seg":
            detections(g, levels)
            _masks(g, levels, ceil(min(256, largest) * width / 8) * 8)
        case "pose":
            _pose(g, levels)
        case "obb":
            _oriented(g, levels)
        case _:
            raise ValueError(f"no task {task!r}")
    return g


def backbone(g: GraphBuilder, image: Value, depth: float, width: float, largest: int) -> Levels:
    """Features at strides 8, 16 and 32."""
    c1, c2, c3, c4, c5 = (scaled(c, width, largest) for c in (64, 128, 256, 512, 1024))
    x = conv(g, conv(g, image, c1, 3, 2), c2, 3, 2)
    x = c2f(g, x, c2, repeats(3, depth), shortcut=True)
    p3 = c2f(g, conv(g, x, c3, 3, 2), c3, repeats(6, depth), shortcut=True)
    p4 = c2f(g, conv(g, p3, c4, 3, 2), c4, repeats(6, depth), shortcut=True)
    p5 = c2f(g, conv(g, p4, c5, 3, 2), c5, repeats(3, depth), shortcut=True)
    return p3, p4, sppf(g, p5, c5)


def _pyramid(g: GraphBuilder, depth: float, width: float, largest: int) -> Levels:
    p3, p4, p5 = backbone(g, g.input("images", IMAGE), depth, width, largest)
    n = repeats(3, depth)
    x = c2f(g, g.concat([g.upsample(p5), p4]), p4.channels, n)
    out3 = c2f(g, g.concat([g.upsample(x), p3]), p3.channels, n)
    out4 = c2f(g, g.concat([conv(g, out3, p3.channels, 3, 2), x]), p4.channels, n)
    out5 = c2f(g, g.concat([conv(g, out4, p4.channels, 3, 2), p5]), p5.channels, n)
    return out3, out4, out5


def _masks(g: GraphBuilder, levels: Levels, width: int) -> None:
    """Mask coefficients for each level, and the prototype masks at stride 4."""
    for level in levels:
        g.output(box_branch(g, level, max(levels[0].channels // 4, _MASKS), _MASKS))
    x = g.conv_transpose(conv(g, levels[0], width, 3), width, 2, 2)
    g.output(conv(g, conv(g, x, width, 3), _MASKS))


def _pose(g: GraphBuilder, levels: Levels) -> None:
    """Boxes with one class for each level, and joints of all cells, decoded."""
    first = levels[0].channels
    for level in levels:
        boxes = box_branch(g, level, max(16, first // 4, 64), 64)
        g.output(g.concat([boxes, box_branch(g, level, max(first, 1), 1)]))
    hidden = max(first // 4, 3 * _JOINTS)
    flat = []
    for level in levels:
        joints = box_branch(g, level, hidden, 3 * _JOINTS)
        flat.append(g.reshape(joints, (1, 3 * _JOINTS, level.height * level.width)))
    joined = g.concat(flat, axis=2)
    cells = joined.shape[2]
    joints = g.reshape(joined, (1, _JOINTS, 3, cells))
    place = g.mul(g.slice(joints, 0, 2, 2), g.scalar(2.0))
    place = g.add(place, g.constant_like((1, 1, 2, cells)))
    place = g.mul(place, g.constant_like((1, 1, 1, cells)))
    seen = g.activation(g.slice(joints, 2, 3, 2), "sigmoid")
    g.output(g.concat([place, seen], axis=2))


def _oriented(g: GraphBuilder, levels: Levels) -> None:
    """Boxes and 15 classes for each level, and angles of all cells."""
    first, classes = levels[0].channels, 15
    angles = []
    for level in levels:
        boxes = box_branch(g, level, max(16, first // 4, 64), 64)
        scores = box_branch(g, level, max(first, min(classes, 100)), classes)
        g.output(g.concat([boxes, g.activation(scores, "sigmoid")]))
        angle = box_branch(g, level, max(first // 4, 1), 1)
        angles.append(g.reshape(angle, (1, 1, level.height * level.width)))
    angle = g.activation(g.concat(angles, axis=2), "sigmoid")
    g.output(g.mul(g.sub(angle, g.scalar(0.25)), g.scalar(3.14159265)))
