"""Random int8 parts in the QDQ form: activations and weights between quantize and dequantize."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from tests.compiler.model_builder import Choices, ModelBuilder, Value
from tests.compiler.random_contractions import images
from tests.compiler.random_pointwise import floats


def quantized(builder: ModelBuilder, value: Value, choices: Choices) -> Value:
    """A value through QuantizeLinear and DequantizeLinear."""
    dtype = choices.pick(("i8", "u8"))
    zero = np.int8(choices.pick((0, -10, 5))) if dtype == "i8" else np.uint8(128)
    parameters = [builder.constant(np.float32(4 / 127)), builder.constant(zero)]
    (stored,) = builder.add("QuantizeLinear", [value.name, *parameters], [(dtype, value.shape)])
    (restored,) = builder.add(
        "DequantizeLinear", [stored.name, *parameters], [("f32", value.shape)]
    )
    return restored


def _weights(builder: ModelBuilder, shape: tuple[int, ...], axis: int, fan_in: int) -> str:
    """int8 weights behind a DequantizeLinear, one scale for each output channel."""
    stored = builder.constant(builder.random.integers(-127, 128, shape).astype(np.int8))
    scale = (1 + builder.random.random(shape[axis])) * sqrt(3 / fan_in) / 127
    names = [stored, builder.constant(scale.astype(np.float32))]
    zero = builder.constant(np.zeros(shape[axis], np.int8))
    (restored,) = builder.add("DequantizeLinear", [*names, zero], [("f32", shape)], axis=axis)
    builder.values.remove(restored)
    return restored.name


def _bias(builder: ModelBuilder, count: int) -> str:
    stored = builder.constant(builder.random.integers(-500, 501, count).astype(np.int32))
    (restored,) = builder.add(
        "DequantizeLinear", [stored, builder.constant(np.float32(1e-3))], [("f32", (count,))]
    )
    builder.values.remove(restored)
    return restored.name


def quantized_conv(builder: ModelBuilder, choices: Choices) -> None:
    """quantize, dequantize, convolution with int8 weights, perhaps relu, quantize, dequantize."""
    found = images(builder)
    if not found:
        return
    x = quantized(builder, choices.pick(found), choices)
    channels = x.shape[1]
    depthwise = choices.integer(0, 2) == 1
    out = channels if depthwise else choices.pick((8, 3, 16, 24, 32))
    kernel = [choices.pick((1, 3)) for _ in x.shape[2:]]
    pads = [size // 2 for size in kernel]
    if x.shape[0] * out * prod(x.shape[2:]) > 60_000:
        return
    inner = 1 if depthwise else channels
    weights = _weights(builder, (out, inner, *kernel), 0, inner * prod(kernel))
    inputs = [x.name, weights]
    if choices.integer(0, 1):
        inputs.append(_bias(builder, out))
    (result,) = builder.add(
        "Conv",
        inputs,
        [("f32", (x.shape[0], out, *x.shape[2:]))],
        kernel_shape=kernel,
        pads=[*pads, *pads],
        group=channels if depthwise else 1,
    )
    if choices.integer(0, 1):
        result = builder.float_like("Relu", result)
    quantized(builder, result, choices)


def quantized_matmul(builder: ModelBuilder, choices: Choices) -> None:
    """The same around a product with a constant."""
    found = [value for value in floats(builder) if len(value.shape) >= 2]
    if not found:
        return
    value = choices.pick(found)
    n = choices.pick((8, 3, 24))
    if prod(value.shape[:-1]) * n > 60_000 or value.shape[-1] * n > 60_000:
        return
    x = quantized(builder, value, choices)
    weights = _weights(builder, (x.shape[-1], n), 1, x.shape[-1])
    (result,) = builder.add("MatMul", [x.name, weights], [("f32", (*x.shape[:-1], n))])
    quantized(builder, result, choices)


def quantized_sum(builder: ModelBuilder, choices: Choices) -> None:
    """A sum of two values in int8, and quantised movement."""
    value = choices.pick(floats(builder))
    same = [other for other in floats(builder) if other.shape == value.shape]
    left = quantized(builder, value, choices)
    right = quantized(builder, choices.pick(same), choices)
    total = builder.float_like("Add", left, right.name)
    quantized(builder, total, choices)
