"""LPRNet (sirius-ai/LPRNet_Pytorch): license plates of 24 x 94 pixels, 68 characters.

Its three-dimensional poolings with a stride over channels keep every second or fourth channel. As
exporters do, the pooling keeps all, and the convolution behind it has zeros for those left out.
"""

from __future__ import annotations

import onnx

from models.zoo.graph import GraphBuilder, Value

_CHARACTERS = 68


def lprnet() -> onnx.ModelProto:
    """f32[1,3,24,94] -> f32[1,68,18]."""
    return graph().build()


def graph() -> GraphBuilder:
    """The builder, with its counts (zeros of left-out channels included)."""
    g = GraphBuilder("lprnet")
    first = g.conv(g.input("input", (1, 3, 24, 94)), 64, 3, 1, "relu", pads=0)
    second = _block(g, g.max_pool(first, 3), 128)
    third = _block(g, g.max_pool(second, 3, (1, 2)), 256)
    third = _block(g, third, 256)
    x = g.conv(g.max_pool(third, 3, (1, 2)), 256, (1, 4), 1, "relu", pads=0)
    last = g.conv(x, _CHARACTERS, (13, 1), 1, "relu", pads=0)
    kept = [
        _scaled(g, g.average_pool(first, 5, 5)),
        _scaled(g, g.average_pool(second, 5, 5)),
        _scaled(g, g.average_pool(third, (4, 10), (4, 2))),
        _scaled(g, last),
    ]
    logits = g.reduce("ReduceMean", g.conv(g.concat(kept), _CHARACTERS), 2)
    g.output(g.reshape(logits, (1, _CHARACTERS, logits.width)))
    return g


def _block(g: GraphBuilder, x: Value, channels: int) -> Value:
    hidden = channels // 4
    x = g.conv(x, hidden, 1, 1, "relu")
    x = g.conv(x, hidden, (3, 1), 1, "relu", pads=(1, 0, 1, 0))
    x = g.conv(x, hidden, (1, 3), 1, "relu", pads=(0, 1, 0, 1))
    return g.conv(x, channels, 1, 1, "relu")


def _scaled(g: GraphBuilder, x: Value) -> Value:
    """x over the mean of its squares."""
    squares = g.mul(x, x)
    mean = g.node("ReduceMean", [squares], (1, 1, 1, 1), {"axes": [0, 1, 2, 3], "keepdims": 1})
    return g.div(x, mean)
