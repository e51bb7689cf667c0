"""Networks made for phones: MobileNet v1 to v3, ShuffleNet v2, EfficientNet-EdgeTPU; and VGG."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx

from models.zoo.graph import GraphBuilder, Value
from models.zoo.resnets import classify


def mobilenet_v1() -> onnx.ModelProto:
    """MobileNet v1 1.0 at 224 x 224."""
    g = GraphBuilder("mobilenet_v1")
    x = g.conv(g.input("image", (1, 3, 224, 224)), 32, 3, 2, "relu6")
    widths = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
    for number, width in enumerate(widths):
        x = g.depthwise(x, 3, 2 if number in (1, 3, 5, 11) else 1, "relu6")
        x = g.conv(x, width, 1, 1, "relu6")
    return classify(g, x, 1001)


def mobilenet_v2_backbone(
    g: GraphBuilder, x: Value, *, strides: Sequence[int] = (1, 2, 2, 2, 1, 2, 1)
) -> tuple[Value, Value]:
    """MobileNet v2's inverted residuals up to 320 channels, and the expansion to 576 on the way
    (where SSD reads first). A stage of stride 1 where the original has 2 dilates what follows."""
    x = g.conv(x, 32, 3, 2, "relu6")
    rows = ((1, 16, 1), (6, 24, 2), (6, 32, 3), (6, 64, 4), (6, 96, 3), (6, 160, 3), (6, 320, 1))
    dilation, tapped = 1, x
    for stage, ((expand, width, count), stride) in enumerate(zip(rows, strides, strict=True)):
        for block in range(count):
            y = g.conv(x, expand * x.channels, 1, 1, "relu6") if expand > 1 else x
            if stage == 5 and not block:
                tapped = y
            step = stride if not block else 1
            y = g.conv(y, y.channels, 3, step, "relu6", groups=y.channels, dilation=dilation)
            if stage == 5 and not block and stride == 1:
                dilation = 2
            y = g.conv(y, width)
            x = g.add(y, x) if step == 1 and x.channels == width else y
    return tapped, x


def mobilenet_v2() -> onnx.ModelProto:
    """MobileNet v2 1.0 at 224 x 224."""
    g = GraphBuilder("mobilenet_v2")
    _, x = mobilenet_v2_backbone(g, g.input("image", (1, 3, 224, 224)))
    return classify(g, g.conv(x, 1280, 1, 1, "relu6"))


def ssd_mobilenet_v2() -> onnx.ModelProto:
    """SSD on MobileNet v2 at 300 x 300, 91 classes (TF detection zoo's quantised configuration:
    predictors of 1 x 1), without the suppression of boxes, which runs on the host."""
    g = GraphBuilder("ssd_mobilenet_v2")
    tapped, x = mobilenet_v2_backbone(g, g.input("image", (1, 3, 300, 300)))
    x = g.conv(x, 1280, 1, 1, "relu6")
    features = [tapped, x]
    for squeeze, width in ((256, 512), (128, 256), (128, 256), (64, 128)):
        x = g.conv(g.conv(x, squeeze, 1, 1, "relu6"), width, 3, 2, "relu6")
        features.append(x)
    boxes: list[Value] = []
    scores: list[Value] = []
    for number, feature in enumerate(features):
        anchors = 6 if number else 3
        cells = feature.height * feature.width
        for found, width in ((boxes, 4), (scores, 91)):
            y = g.transpose(g.conv(feature, anchors * width), (0, 2, 3, 1))
            found.append(g.reshape(y, (1, cells * anchors, width)))
    all_scores = g.activation(g.concat(scores, 1), "sigmoid")
    best = g.reduce("ReduceMax", all_scores, 2)
    g.output(best, g.concat(boxes, 1), all_scores)
    return g.build()


def deeplab_v3() -> onnx.ModelProto:
    """DeepLab v3 on MobileNet v2 at 513 x 513, output stride 16, 21 classes, no decoder; to the
    labels, as Coral's model."""
    g = GraphBuilder("deeplab_v3")
    _, x = mobilenet_v2_backbone(
        g, g.input("image", (1, 3, 513, 513)), strides=(1, 2, 2, 2, 1, 1, 1)
    )
    pooled = g.conv(g.global_average_pool(x), 256, 1, 1, "relu")
    pooled = g.resize(pooled, x.height, x.width, "linear")
    x = g.conv(g.concat([g.conv(x, 256, 1, 1, "relu"), pooled]), 256, 1, 1, "relu")
    logits = g.resize(g.conv(x, 21), 513, 513, "linear")
    labels = g.node("ArgMax", [logits], (1, 1, 513, 513), {"axis": 1, "keepdims": 1})
    g.output(labels, dtype="i64")
    return g.build()


def _squeeze_excite(g: GraphBuilder, x: Value) -> Value:
    squeezed = _divisible(x.channels / 4)
    gate = g.conv(g.global_average_pool(x), squeezed, 1, 1, "relu")
    return g.mul(x, g.conv(gate, x.channels, 1, 1, "hardsigmoid"))


def _divisible(width: float) -> int:
    rounded = max(8, int(width + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * width else rounded


# kernel, expanded, out, squeeze-excite, activation, stride
_Row = tuple[int, int, int, bool, str, int]
_RELU, _SWISH = "relu", "hardswish"
_LARGE: tuple[_Row, ...] = (
    (3, 16, 16, False, _RELU, 1),
    (3, 64, 24, False, _RELU, 2),
    (3, 72, 24, False, _RELU, 1),
    (5, 72, 40, True, _RELU, 2),
    (5, 120, 40, True, _RELU, 1),
    (5, 120, 40, True, _RELU, 1),
    (3, 240, 80, False, _SWISH, 2),
    (3, 200, 80, False, _SWISH, 1),
    (3, 184, 80, False, _SWISH, 1),
    (3, 184, 80, False, _SWISH, 1),
    (3, 480, 112, True, _SWISH, 1),
    (3, 672, 112, True, _SWISH, 1),
    (5, 672, 160, True, _SWISH, 2),
    (5, 960, 160, True, _SWISH, 1),
    (5, 960, 160, True, _SWISH, 1),
)
_SMALL: tuple[_Row, ...] = (
    (3, 16, 16, True, _RELU, 2),
    (3, 72, 24, False, _RELU, 2),
    (3, 88, 24, False, _RELU, 1),
    (5, 96, 40, True, _SWISH, 2),
    (5, 240, 40, True, _SWISH, 1),
    (5, 240, 40, True, _SWISH, 1),
    (5, 120, 48, True, _SWISH, 1),
    (5, 144, 48, True, _SWISH, 1),
    (5, 288, 96, True, _SWISH, 2),
    (5, 576, 96, True, _SWISH, 1),
    (5, 576, 96, True, _SWISH, 1),
)


def _mobilenet_v3(name: str, rows: Sequence[_Row], hidden: int) -> onnx.ModelProto:
    g = GraphBuilder(name)
    x = g.conv(g.input("image", (1, 3, 224, 224)), 16, 3, 2, _SWISH)
    for kernel, expanded, width, excite, act, stride in rows:
        y = g.conv(x, expanded, 1, 1, act) if expanded != x.channels else x
        y = g.depthwise(y, kernel, stride, act)
        if excite:
            y = _squeeze_excite(g, y)
        y = g.conv(y, width)
        x = g.add(y, x) if stride == 1 and x.channels == width else y
    x = g.global_average_pool(g.conv(x, 6 * x.channels, 1, 1, _SWISH))
    x = g.linear(g.reshape(x, (1, x.channels)), hidden, _SWISH)
    g.output(g.linear(x, 1000))
    return g.build()


def mobilenet_v3_large() -> onnx.ModelProto:
    """MobileNet v3 large of torchvision at 224 x 224."""
    return _mobilenet_v3("mobilenet_v3_large", _LARGE, 1280)


def mobilenet_v3_small() -> onnx.ModelProto:
    """MobileNet v3 small of torchvision at 224 x 224."""
    return _mobilenet_v3("mobilenet_v3_small", _SMALL, 1024)


def shufflenet_v2_x0_5() -> onnx.ModelProto:
    """ShuffleNet v2 x0.5 of torchvision at 224 x 224."""
    g = GraphBuilder("shufflenet_v2_x0_5")
    x = g.conv(g.input("image", (1, 3, 224, 224)), 24, 3, 2, "relu")
    x = g.max_pool(x, 3, 2, 1)
    for width, count in ((48, 4), (96, 8), (192, 4)):
        half = width // 2
        for block in range(count):
            if not block:
                left = g.conv(g.depthwise(x, 3, 2), half, 1, 1, "relu")
                right, stride = x, 2
            else:
                (left, right), stride = g.split(x, (half, half)), 1
            y = g.depthwise(g.conv(right, half, 1, 1, "relu"), 3, stride)
            x = g.concat([left, g.conv(y, half, 1, 1, "relu")])
            grouped = g.reshape(x, (1, 2, half, x.height, x.width))
            x = g.reshape(g.transpose(grouped, (0, 2, 1, 3, 4)), x.shape)
    return classify(g, g.conv(x, 1024, 1, 1, "relu"))


def _efficientnet_edgetpu(name: str, size: int, widen: float, deepen: float) -> onnx.ModelProto:
    """After google/automl's efficientnet-edgetpu: full convolutions expand in early stages, no
    squeeze-and-excite, relu."""
    g = GraphBuilder(name)
    x = g.conv(g.input("image", (1, 3, size, size)), _divisible(32 * widen), 3, 2, "relu")
    for number, (full, kernel, count, expand, width, stride) in enumerate(
        (
            (True, 3, 1, 4, 24, 1),
            (True, 3, 2, 8, 32, 2),
            (True, 3, 4, 8, 48, 2),
            (False, 5, 5, 8, 96, 2),
            (False, 5, 4, 8, 144, 1),
            (False, 5, 2, 8, 192, 2),
        )
    ):
        wide = _divisible(width * widen)
        for block in range(-(-int(count * deepen * 10) // 10)):
            step = stride if not block else 1
            # The first stage expands the channels that it makes, not those that it reads.
            inner = expand * (x.channels if number else wide)
            if full:
                y = g.conv(x, inner, kernel, step, "relu")
            else:
                y = g.depthwise(g.conv(x, inner, 1, 1, "relu"), kernel, step, "relu")
            y = g.conv(y, wide)
            x = g.add(y, x) if step == 1 and x.channels == wide else y
    return classify(g, g.conv(x, 1280, 1, 1, "relu"), 1001)


def efficientnet_edgetpu_s() -> onnx.ModelProto:
    """EfficientNet-EdgeTPU-S at 224 x 224."""
    return _efficientnet_edgetpu("efficientnet_edgetpu_s", 224, 1.0, 1.0)


def efficientnet_edgetpu_m() -> onnx.ModelProto:
    """EfficientNet-EdgeTPU-M at 240 x 240."""
    return _efficientnet_edgetpu("efficientnet_edgetpu_m", 240, 1.0, 1.1)


def _vgg(name: str, depths: Sequence[int]) -> onnx.ModelProto:
    g = GraphBuilder(name)
    x = g.input("image", (1, 3, 224, 224))
    for width, depth in zip((64, 128, 256, 512, 512), depths, strict=True):
        for _ in range(depth):
            x = g.conv(x, width, 3, 1, "relu")
        x = g.max_pool(x, 2, 2)
    x = g.reshape(x, (1, 25088))
    g.output(g.linear(g.linear(g.linear(x, 4096, "relu"), 4096, "relu"), 1000))
    return g.build()


def vgg16() -> onnx.ModelProto:
    """VGG-16 at 224 x 224."""
    return _vgg("vgg16", (2, 2, 3, 3, 3))


def vgg19() -> onnx.ModelProto:
    """VGG-19 at 224 x 224."""
    return _vgg("vgg19", (2, 2, 4, 4, 4))


DEFINITIONS: dict[str, Callable[[], onnx.ModelProto]] = {
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3_large": mobilenet_v3_large,
    "mobilenet_v3_small": mobilenet_v3_small,
    "ssd_mobilenet_v2": ssd_mobilenet_v2,
    "deeplab_v3": deeplab_v3,
    "shufflenet_v2_x0_5": shufflenet_v2_x0_5,
    "efficientnet_edgetpu_s": efficientnet_edgetpu_s,
    "efficientnet_edgetpu_m": efficientnet_edgetpu_m,
    "vgg16": vgg16,
    "vgg19": vgg19,
}
