"""Random convolutions, transposed convolutions and matrix products, and what usually follows."""

from __future__ import annotations

from math import prod, sqrt

from tests.compiler.model_builder import Choices, ModelBuilder, Value

_CHANNELS = (8, 4, 1, 3, 12, 16, 17, 24, 32, 48)
_LARGEST = 60_000
"""Elements of a result: enough to be cut on the small devices, little enough to be quick."""


def images(builder: ModelBuilder) -> list[Value]:
    """Float values with batch, channels and one or two spatial axes."""
    return [
        value for value in builder.values if value.dtype == "f32" and len(value.shape) in (3, 4)
    ]


def conv(builder: ModelBuilder, choices: Choices) -> None:
    """A convolution: plain, grouped or depthwise, with any stride, dilation and padding."""
    found = images(builder)
    if not found:
        return
    x = choices.pick(found)
    channels = x.shape[1]
    group = choices.pick([number for number in (1, channels, 2, 3, 4) if channels % number == 0])
    if group == channels and channels > 1:
        out = channels * choices.pick((1, 1, 2))
    else:
        out = group * choices.pick(_CHANNELS)
    kernel, strides, dilations, pads = _window(x.shape[2:], choices)
    spatial = tuple(
        (extent + low + high - (size - 1) * dilation - 1) // stride + 1
        for extent, size, stride, dilation, low, high in zip(
            x.shape[2:], kernel, strides, dilations, *pads, strict=True
        )
    )
    if min(spatial) < 1 or x.shape[0] * out * prod(spatial) > _LARGEST:
        return
    fan_in = channels // group * prod(kernel)
    inputs = [
        x.name,
        builder.constant(builder.normal((out, channels // group, *kernel), 1 / sqrt(fan_in))),
    ]
    if choices.integer(0, 2):
        inputs.append(builder.constant(builder.normal((out,), 0.3)))
    (result,) = builder.add(
        "Conv",
        inputs,
        [("f32", (x.shape[0], out, *spatial))],
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        group=group,
        pads=[*pads[0], *pads[1]],
    )
    follow(builder, choices, result)


def conv_transpose(builder: ModelBuilder, choices: Choices) -> None:
    """A transposed convolution with stride, crops and output padding."""
    found = images(builder)
    if not found:
        return
    x = choices.pick(found)
    channels = x.shape[1]
    group = choices.pick([number for number in (1, 1, 2, channels) if channels % number == 0])
    per_group = choices.pick((1, 4, 8, 3))
    axes = range(len(x.shape) - 2)
    kernel = [choices.integer(1, 4) for _ in axes]
    strides = [choices.integer(1, 3) for _ in axes]
    crops = [choices.integer(0, (size - 1) // 2) for size in kernel]
    spare = [choices.integer(0, stride - 1) for stride in strides]
    spatial = tuple(
        (extent - 1) * stride + size - 2 * crop + more
        for extent, stride, size, crop, more in zip(
            x.shape[2:], strides, kernel, crops, spare, strict=True
        )
    )
    if min(spatial) < 1 or x.shape[0] * per_group * group * prod(spatial) > _LARGEST:
        return
    fan_in = channels // group * prod(kernel)
    inputs = [
        x.name,
        builder.constant(builder.normal((channels, per_group, *kernel), 1 / sqrt(fan_in))),
    ]
    if choices.integer(0, 1):
        inputs.append(builder.constant(builder.normal((per_group * group,), 0.3)))
    (result,) = builder.add(
        "ConvTranspose",
        inputs,
        [("f32", (x.shape[0], per_group * group, *spatial))],
        kernel_shape=kernel,
        strides=strides,
        group=group,
        pads=[*crops, *crops],
        output_padding=spare,
    )
    follow(builder, choices, result)


def matmul(builder: ModelBuilder, choices: Choices) -> None:
    """A product with a constant, plain or batched, or of two values; or a Gemm."""
    found = [value for value in builder.values if value.dtype == "f32" and len(value.shape) >= 2]
    if not found:
        return
    x = choices.pick(found)
    *batch, m, k = x.shape
    n = choices.pick((8, 1, 5, 16, 33, 64))
    if prod(batch) * m * n > _LARGEST or k * n > _LARGEST:
        return
    kind = choices.pick(("constant", "gemm", "batched", "values"))
    result_shape = (*batch, m, n)
    if kind == "gemm" and len(x.shape) == 2:
        weights = builder.constant(builder.normal((n, k), 1 / sqrt(k)))
        bias = builder.constant(builder.normal(choices.pick(((n,), (1, n), (m, n))), 0.3))
        made = builder.add("Gemm", [x.name, weights, bias], [("f32", result_shape)], transB=1)
    elif kind == "values":
        axes = (*range(len(batch)), len(batch) + 1, len(batch))
        turned = builder.add("Transpose", [x.name], [("f32", (*batch, k, m))], perm=axes)[0]
        product = builder.add("MatMul", [x.name, turned.name], [("f32", (*batch, m, m))])[0]
        if prod(product.shape) > _LARGEST:
            return
        scale = builder.constant(float(1 / k))
        made = [builder.float_like("Mul", product, scale)]
    else:
        lead = tuple(batch) if kind == "batched" else ()
        weights = builder.constant(builder.normal((*lead, k, n), 1 / sqrt(k)))
        made = builder.add("MatMul", [x.name, weights], [("f32", result_shape)])
        if choices.integer(0, 1):
            made = [builder.float_like("Add", made[0], builder.constant(builder.normal((n,), 0.3)))]
    follow(builder, choices, made[0], batch_norm=False)


def follow(
    builder: ModelBuilder, choices: Choices, value: Value, *, batch_norm: bool = True
) -> None:
    """Perhaps a batch normalisation, a residual sum and an activation behind a contraction."""
    if batch_norm and choices.integer(0, 2) == 1:
        channels = value.shape[1]
        parameters = [
            builder.constant(abs(builder.normal((channels,), 0.2)) + 0.8),
            builder.constant(builder.normal((channels,), 0.2)),
            builder.constant(builder.normal((channels,), 0.2)),
            builder.constant(abs(builder.normal((channels,), 0.2)) + 0.8),
        ]
        value = builder.float_like("BatchNormalization", value, *parameters)
    if choices.integer(0, 3) == 1:
        value = builder.float_like("Identity", value)
    same = [
        other for other in builder.values if other.dtype == "f32" and other.shape == value.shape
    ]
    if choices.integer(0, 2) == 1 and len(same) > 1:
        value = builder.float_like("Add", value, choices.pick(same).name)
    activation = choices.pick(("", "Relu", "HardSwish", "Clip", "LeakyRelu", "Sigmoid", "silu"))
    if activation == "silu":
        gate = builder.float_like("Sigmoid", value)
        builder.float_like("Mul", value, gate.name)
    elif activation == "Clip":
        builder.float_like("Clip", value, builder.constant(0.0), builder.constant(6.0))
    elif activation:
        builder.float_like(activation, value)


def _window(
    spatial: tuple[int, ...], choices: Choices
) -> tuple[list[int], list[int], list[int], tuple[list[int], list[int]]]:
    """Kernel, strides, dilations and (begins, ends) for a window over these extents."""
    kernel = [choices.pick((1, 3, 2, 5)) for _ in spatial]
    strides = [choices.pick((1, 2, 3)) for _ in spatial]
    dilations = [choices.pick((1, 1, 2)) for _ in spatial]
    if choices.integer(0, 1):
        odd = [size | 1 for size in kernel]
        same = [size // 2 * dilation for size, dilation in zip(odd, dilations, strict=True)]
        return odd, [1 for _ in spatial], dilations, (same, same)
    begins = [
        choices.integer(0, (size - 1) * dilation)
        for size, dilation in zip(kernel, dilations, strict=True)
    ]
    ends = [
        choices.integer(0, (size - 1) * dilation)
        for size, dilation in zip(kernel, dilations, strict=True)
    ]
    return kernel, strides, dilations, (begins, ends)


def squeeze_and_excite(builder: ModelBuilder, choices: Choices) -> None:
    """A gate for each channel, from the mean of all of them."""
    found = images(builder)
    if not found:
        return
    x = choices.pick(found)
    point = (*x.shape[:2], *(1 for _ in x.shape[2:]))
    (mean,) = builder.add("GlobalAveragePool", [x.name], [("f32", point)])
    channels, ones = x.shape[1], [1 for _ in x.shape[2:]]
    weights = builder.constant(builder.normal((channels, channels, *ones), channels**-0.5))
    (gate,) = builder.add("Conv", [mean.name, weights], [("f32", point)])
    gate = builder.float_like(choices.pick(("HardSigmoid", "Sigmoid")), gate)
    builder.float_like("Mul", x, gate.name)


def attention(builder: ModelBuilder, choices: Choices) -> None:
    """softmax(q k' / sqrt(d)) v of three products of one value, and the value added."""
    found = [
        value
        for value in builder.values
        if value.dtype == "f32" and len(value.shape) >= 2 and prod(value.shape) < 4_000
    ]
    if not found:
        return
    x = choices.pick(found)
    *batch, m, d = x.shape
    parts = []
    for _ in range(3):
        weights = builder.constant(builder.normal((d, d), 1 / sqrt(d)))
        parts += builder.add("MatMul", [x.name, weights], [("f32", x.shape)])
    axes = (*range(len(batch)), len(batch) + 1, len(batch))
    turned = builder.add("Transpose", [parts[1].name], [("f32", (*batch, d, m))], perm=axes)[0]
    scores = builder.add("MatMul", [parts[0].name, turned.name], [("f32", (*batch, m, m))])[0]
    scaled = builder.float_like("Mul", scores, builder.constant(float(1 / sqrt(d))))
    soft = builder.float_like("Softmax", scaled, axis=-1)
    mixed = builder.add("MatMul", [soft.name, parts[2].name], [("f32", x.shape)])[0]
    builder.float_like("Add", mixed, x.name)
