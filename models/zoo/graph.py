"""A small builder of ONNX graphs for networks of known structure: static shapes, opset 17, batch 1.

For timing only the structure of a network matters, so weights are cheap: one seeded block of
normal numbers, repeated and scaled by 1/sqrt(fan in). Batch normalisation is folded into the
convolution before it, as exporters do in evaluation mode, and leaves it a bias.
"""

from __future__ import annotations

from math import prod

import numpy as np

from models.zoo.nodes import NodeBuilder, Value, pair

__all__ = ["GraphBuilder", "Value"]


class GraphBuilder(NodeBuilder):
    """Convolutions, matrix products, normalisation, pooling and reduction, counted.

    `parameter_count` and `mac_count` (multiply-accumulates of convolutions and matrix products)
    are what the tests compare with published counts.
    """

    # --- contractions

    def conv(
        self,
        x: Value,
        channels: int,
        kernel: int | tuple[int, int] = 1,
        stride: int | tuple[int, int] = 1,
        act: str = "",
        *,
        pads: int | tuple[int, int, int, int] | None = None,
        groups: int = 1,
        dilation: int = 1,
        bias: bool = True,
    ) -> Value:
        """A convolution with its batch normalisation folded in, and an activation.

        `pads` is one number for all sides, or (top, left, bottom, right); by default half of the
        dilated kernel, which keeps the extents at stride 1.
        """
        taps, steps = pair(kernel), pair(stride)
        reach = [dilation * (tap - 1) + 1 for tap in taps]
        if pads is None:
            sides = (reach[0] // 2, reach[1] // 2) * 2
        else:
            sides = (pads,) * 4 if isinstance(pads, int) else pads
        extents = [
            (x.shape[2 + axis] + sides[axis] + sides[2 + axis] - reach[axis]) // steps[axis] + 1
            for axis in (0, 1)
        ]
        fan_in = x.channels // groups * prod(taps)
        inputs = [x, self.weight((channels, x.channels // groups, *taps), fan_in)]
        if bias:
            inputs.append(self.weight((channels,), fan_in))
        self.mac_count += channels * prod(extents) * fan_in
        attributes = {
            "kernel_shape": taps,
            "strides": steps,
            "pads": sides,
            "dilations": pair(dilation),
            "group": groups,
        }
        y = self.node("Conv", inputs, (x.shape[0], channels, *extents), attributes)
        return self.activation(y, act)

    def depthwise(
        self,
        x: Value,
        kernel: int | tuple[int, int] = 3,
        stride: int | tuple[int, int] = 1,
        act: str = "",
    ) -> Value:
        """A convolution of each channel on its own."""
        return self.conv(x, x.channels, kernel, stride, act, groups=x.channels)

    def conv_transpose(
        self, x: Value, channels: int, kernel: int, stride: int, act: str = ""
    ) -> Value:
        """A transposed convolution without padding."""
        fan_in = x.channels * kernel * kernel // (stride * stride)
        weights = self.weight((x.channels, channels, kernel, kernel), fan_in)
        extents = [(extent - 1) * stride + kernel for extent in x.shape[2:]]
        self.mac_count += prod(x.shape) * channels * kernel * kernel
        attributes = {"kernel_shape": pair(kernel), "strides": pair(stride)}
        inputs = [x, weights, self.weight((channels,), fan_in)]
        y = self.node("ConvTranspose", inputs, (x.shape[0], channels, *extents), attributes)
        return self.activation(y, act)

    def matmul(self, a: Value, b: Value) -> Value:
        """A matrix product over the last two axes."""
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        shape = (*batch, a.shape[-2], b.shape[-1])
        self.mac_count += prod(shape) * a.shape[-1]
        return self.node("MatMul", [a, b], shape)

    def linear(self, x: Value, features: int, act: str = "", *, bias: bool = True) -> Value:
        """A matrix product by weights, with a bias."""
        width = x.shape[-1]
        y = self.matmul(x, self.weight((width, features), width))
        if bias:
            y = self.add(y, self.weight((features,), width))
        return self.activation(y, act)

    # --- normalisation

    def softmax(self, x: Value, axis: int = -1) -> Value:
        """Softmax along an axis."""
        return self.node("Softmax", [x], x.shape, {"axis": axis})

    def layer_norm(self, x: Value, epsilon: float = 1e-5) -> Value:
        """Normalisation over the last axis, with scale and bias."""
        width = x.shape[-1]
        inputs = [x, self.weight((width,), width), self.weight((width,), width)]
        attributes = {"axis": -1, "epsilon": epsilon}
        return self.node("LayerNormalization", inputs, x.shape, attributes)

    def batch_norm(self, x: Value, act: str = "") -> Value:
        """Batch normalisation that no convolution before it can take in."""
        parameters = [self.weight((x.channels,), 1) for _ in range(3)]
        self.parameter_count -= 2 * x.channels
        variance = self.constant(np.ones(x.channels, np.float32))
        y = self.node("BatchNormalization", [x, *parameters, variance], x.shape)
        return self.activation(y, act)

    # --- pooling and reduction

    def max_pool(
        self,
        x: Value,
        kernel: int,
        stride: int | tuple[int, int] = 1,
        pad: int = 0,
        *,
        ceil_mode: bool = False,
    ) -> Value:
        """The largest value under a square window."""
        return self._pool("MaxPool", x, kernel, stride, pad, ceil_mode)

    def average_pool(
        self,
        x: Value,
        kernel: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        pad: int = 0,
    ) -> Value:
        """The mean under a window."""
        return self._pool("AveragePool", x, kernel, stride, pad, False)

    def _pool(
        self,
        kind: str,
        x: Value,
        kernel: int | tuple[int, int],
        stride: int | tuple[int, int],
        pad: int,
        ceil_mode: bool,
    ) -> Value:
        extents = [
            (extent + 2 * pad - window + (step - 1 if ceil_mode else 0)) // step + 1
            for extent, window, step in zip(x.shape[2:], pair(kernel), pair(stride), strict=True)
        ]
        attributes = {
            "kernel_shape": pair(kernel),
            "strides": pair(stride),
            "pads": [pad] * 4,
            "ceil_mode": int(ceil_mode),
        }
        return self.node(kind, [x], (*x.shape[:2], *extents), attributes)

    def global_average_pool(self, x: Value) -> Value:
        """The mean of each channel, extents 1."""
        return self.node("GlobalAveragePool", [x], (*x.shape[:2], *[1] * (len(x.shape) - 2)))

    def reduce(self, kind: str, x: Value, axis: int) -> Value:
        """`ReduceMean`, `ReduceMax` (axes as attribute) or `ReduceSum` along an axis, kept."""
        shape = list(x.shape)
        shape[axis] = 1
        if kind == "ReduceSum":
            return self.node(kind, [x, self.indices([axis])], shape)
        return self.node(kind, [x], shape, {"axes": [axis], "keepdims": 1})
