"""Networks of parallel branches: GoogLeNet, Inception v3 and v4, SqueezeNet; and DenseNet-121."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from models.zoo.graph import GraphBuilder, Value
from models.zoo.resnets import batch_norm, classify


def _same_average(g: GraphBuilder, x: Value) -> Value:
    return g.average_pool(x, 3, 1, 1)


def _conv(
    g: GraphBuilder,
    x: Value,
    channels: int,
    kernel: int | tuple[int, int] = 1,
    stride: int = 1,
    pads: int | None = None,
) -> Value:
    return g.conv(x, channels, kernel, stride, "relu", pads=pads)


def googlenet() -> onnx.ModelProto:
    """GoogLeNet of torchvision (3 x 3 where the paper has 5 x 5) at 224 x 224."""
    g = GraphBuilder("googlenet")
    x = _conv(g, g.input("image", (1, 3, 224, 224)), 64, 7, 2)
    x = g.max_pool(x, 3, 2, ceil_mode=True)
    x = _conv(g, _conv(g, x, 64), 192, 3)
    x = g.max_pool(x, 3, 2, ceil_mode=True)
    for row in (
        (64, 96, 128, 16, 32, 32),
        (128, 128, 192, 32, 96, 64),
        (),
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
        (),
        (256, 160, 320, 32, 128, 128),
        (384, 192, 384, 48, 128, 128),
    ):
        if not row:
            x = g.max_pool(x, 3 if x.height > 14 else 2, 2, ceil_mode=True)
            continue
        one, reduce3, three, reduce5, five, pooled = row
        branches = [
            _conv(g, x, one),
            _conv(g, _conv(g, x, reduce3), three, 3),
            _conv(g, _conv(g, x, reduce5), five, 3),
            _conv(g, g.max_pool(x, 3, 1, 1), pooled),
        ]
        x = g.concat(branches)
    return classify(g, x)


def inception_v3(size: int, name: str) -> onnx.ModelProto:
    """Inception v3 of torchvision, without its auxiliary head."""
    g = GraphBuilder(name)
    x = _conv(g, g.input("image", (1, 3, size, size)), 32, 3, 2, 0)
    x = _conv(g, _conv(g, x, 32, 3, 1, 0), 64, 3)
    x = g.max_pool(x, 3, 2)
    x = _conv(g, _conv(g, x, 80), 192, 3, 1, 0)
    x = g.max_pool(x, 3, 2)
    for pooled in (32, 64, 64):
        x = _block_a(g, x, pooled)
    x = g.concat(
        [
            _conv(g, x, 384, 3, 2, 0),
            _conv(g, _conv(g, _conv(g, x, 64), 96, 3), 96, 3, 2, 0),
            g.max_pool(x, 3, 2),
        ]
    )
    for width in (128, 160, 160, 192):
        x = _block_c(g, x, width)
    seven = _conv(g, _conv(g, _conv(g, x, 192), 192, (1, 7)), 192, (7, 1))
    x = g.concat(
        [
            _conv(g, _conv(g, x, 192), 320, 3, 2, 0),
            _conv(g, seven, 192, 3, 2, 0),
            g.max_pool(x, 3, 2),
        ]
    )
    for _ in range(2):
        x = _block_e(g, x)
    return classify(g, x)


def _block_a(g: GraphBuilder, x: Value, pooled: int) -> Value:
    return g.concat(
        [
            _conv(g, x, 64),
            _conv(g, _conv(g, x, 48), 64, 5),
            _conv(g, _conv(g, _conv(g, x, 64), 96, 3), 96, 3),
            _conv(g, _same_average(g, x), pooled),
        ]
    )


def _block_c(g: GraphBuilder, x: Value, width: int) -> Value:
    seven = _conv(g, _conv(g, _conv(g, x, width), width, (1, 7)), 192, (7, 1))
    double = _conv(g, _conv(g, _conv(g, x, width), width, (7, 1)), width, (1, 7))
    double = _conv(g, _conv(g, double, width, (7, 1)), 192, (1, 7))
    return g.concat([_conv(g, x, 192), seven, double, _conv(g, _same_average(g, x), 192)])


def _block_e(g: GraphBuilder, x: Value) -> Value:
    three = _conv(g, x, 384)
    double = _conv(g, _conv(g, x, 448), 384, 3)
    return _forked(g, x, three, double, (320, 384, 192))


def _forked(
    g: GraphBuilder, x: Value, three: Value, double: Value, widths: tuple[int, int, int]
) -> Value:
    """Two branches that end in 1 x 3 and 3 x 1 side by side, a pointwise one and a pooled one;
    `widths` of the pointwise one, of each end, and of the pooled one."""
    pointwise, end, pooled = widths
    return g.concat(
        [
            _conv(g, x, pointwise),
            _conv(g, three, end, (1, 3)),
            _conv(g, three, end, (3, 1)),
            _conv(g, double, end, (1, 3)),
            _conv(g, double, end, (3, 1)),
            _conv(g, _same_average(g, x), pooled),
        ]
    )


def inception_v3_224() -> onnx.ModelProto:
    """Inception v3 at 224 x 224, as Qualcomm AI Hub measures it."""
    return inception_v3(224, "inception_v3_224")


def inception_v4() -> onnx.ModelProto:
    """Inception v4 (arXiv 1602.07261) at 299 x 299."""
    g = GraphBuilder("inception_v4")
    x = _conv(g, g.input("image", (1, 3, 299, 299)), 32, 3, 2, 0)
    x = _conv(g, _conv(g, x, 32, 3, 1, 0), 64, 3)
    x = g.concat([g.max_pool(x, 3, 2), _conv(g, x, 96, 3, 2, 0)])
    left = _conv(g, _conv(g, x, 64), 96, 3, 1, 0)
    right = _conv(g, _conv(g, _conv(g, x, 64), 64, (1, 7)), 64, (7, 1))
    x = g.concat([left, _conv(g, right, 96, 3, 1, 0)])
    x = g.concat([_conv(g, x, 192, 3, 2, 0), g.max_pool(x, 3, 2)])
    for _ in range(4):
        x = g.concat(
            [
                _conv(g, x, 96),
                _conv(g, _conv(g, x, 64), 96, 3),
                _conv(g, _conv(g, _conv(g, x, 64), 96, 3), 96, 3),
                _conv(g, _same_average(g, x), 96),
            ]
        )
    double = _conv(g, _conv(g, _conv(g, x, 192), 224, 3), 256, 3, 2, 0)
    x = g.concat([_conv(g, x, 384, 3, 2, 0), double, g.max_pool(x, 3, 2)])
    for _ in range(7):
        x = _v4_block_b(g, x)
    seven = _conv(g, _conv(g, _conv(g, x, 256), 256, (1, 7)), 320, (7, 1))
    reduced = _conv(g, _conv(g, x, 192), 192, 3, 2, 0)
    x = g.concat([reduced, _conv(g, seven, 320, 3, 2, 0), g.max_pool(x, 3, 2)])
    for _ in range(3):
        x = _v4_block_c(g, x)
    return classify(g, x)


def _v4_block_b(g: GraphBuilder, x: Value) -> Value:
    seven = _conv(g, _conv(g, _conv(g, x, 192), 224, (1, 7)), 256, (7, 1))
    double = _conv(g, _conv(g, _conv(g, x, 192), 192, (7, 1)), 224, (1, 7))
    double = _conv(g, _conv(g, double, 224, (7, 1)), 256, (1, 7))
    return g.concat([_conv(g, x, 384), seven, double, _conv(g, _same_average(g, x), 128)])


def _v4_block_c(g: GraphBuilder, x: Value) -> Value:
    three = _conv(g, x, 384)
    double = _conv(g, _conv(g, _conv(g, x, 384), 448, (3, 1)), 512, (1, 3))
    return _forked(g, x, three, double, (256, 256, 256))


def squeezenet() -> onnx.ModelProto:
    """SqueezeNet 1.0 at 224 x 224."""
    g = GraphBuilder("squeezenet")
    x = _conv(g, g.input("image", (1, 3, 224, 224)), 96, 7, 2, 0)
    x = g.max_pool(x, 3, 2, ceil_mode=True)
    for number, (squeeze, expand) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
    ):
        s = _conv(g, x, squeeze)
        x = g.concat([_conv(g, s, expand), _conv(g, s, expand, 3)])
        if number in (2, 6):
            x = g.max_pool(x, 3, 2, ceil_mode=True)
    x = g.global_average_pool(_conv(g, x, 1000))
    g.output(g.reshape(x, (1, 1000)))
    return g.build()


def densenet121() -> onnx.ModelProto:
    """DenseNet-121 of torchvision at 224 x 224."""
    g = GraphBuilder("densenet121")
    x = _conv(g, g.input("image", (1, 3, 224, 224)), 64, 7, 2)
    x = g.max_pool(x, 3, 2, 1)
    for stage, count in enumerate((6, 12, 24, 16)):
        for _ in range(count):
            y = g.activation(batch_norm(g, x), "relu")
            y = g.conv(_conv(g, y, 128), 32, 3, bias=False)
            x = g.concat([x, y])
        x = g.activation(batch_norm(g, x), "relu")
        if stage < 3:
            x = g.average_pool(g.conv(x, x.channels // 2, bias=False), 2, 2)
    return classify(g, x)


DEFINITIONS: dict[str, Callable[[], onnx.ModelProto]] = {
    "googlenet": googlenet,
    "inception_v3_224": inception_v3_224,
    "inception_v4": inception_v4,
    "squeezenet": squeezenet,
    "densenet121": densenet121,
}
