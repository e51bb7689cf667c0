"""Random elementwise operators, activations, pooling, reductions and normalisation."""

from __future__ import annotations

from math import prod

from tests.compiler.model_builder import Choices, ModelBuilder, Value
from tests.compiler.random_contractions import images

_ACTIVATIONS = (
    *("Relu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "LeakyRelu", "Elu", "Selu"),
    *("Softplus", "Softsign", "Abs", "Neg", "Sin", "Cos", "Erf"),
)
_EXACT_STAYS = ("Relu", "Abs", "Neg")
_REDUCTIONS = (
    *("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare"),
    "ReduceSum",
)


def floats(builder: ModelBuilder) -> list[Value]:
    """Every float value."""
    return [value for value in builder.values if value.dtype == "f32"]


def activation(builder: ModelBuilder, choices: Choices) -> None:
    """An activation or another smooth function of one operand."""
    x = choices.pick(floats(builder))
    kind = choices.pick((*_ACTIVATIONS, "gelu", "Mish", "PRelu"))
    if kind == "gelu":
        scaled = builder.float_like("Div", x, builder.constant(2.0**0.5))
        gate = builder.float_like("Erf", scaled)
        gate = builder.float_like("Add", gate, builder.constant(1.0))
        product = builder.float_like("Mul", x, gate.name)
        builder.float_like("Mul", product, builder.constant(0.5))
    elif kind == "Mish":
        gate = builder.float_like("Softplus", x)
        gate = builder.float_like("Tanh", gate)
        builder.float_like("Mul", x, gate.name)
    elif kind == "PRelu":
        slope = builder.constant(builder.normal(_broadcast(x.shape, choices), 0.3))
        builder.float_like("PRelu", x, slope)
    else:
        builder.float_like(kind, x, exact=x.exact and kind in _EXACT_STAYS)


def positive_chain(builder: ModelBuilder, choices: Choices) -> None:
    """A function that needs a positive operand, of `sigmoid(x) + 0.5`."""
    x = choices.pick(floats(builder))
    gate = builder.float_like("Sigmoid", x)
    (base,) = builder.add(
        "Add", [gate.name, builder.constant(0.5)], [("f32", x.shape)], positive=True
    )
    kind = choices.pick(("Sqrt", "Reciprocal", "Log", "Exp", "Pow", "Div"))
    if kind == "Pow":
        builder.float_like("Pow", base, builder.constant(float(choices.pick((2.0, 0.5, 3.0)))))
    elif kind == "Div":
        builder.float_like("Div", x, base.name)
    else:
        builder.float_like(kind, base)


def binary(builder: ModelBuilder, choices: Choices) -> None:
    """A sum, product, difference, minimum or maximum, with broadcasting either way."""
    x = choices.pick(floats(builder))
    kind = choices.pick(("Add", "Mul", "Sub", "Max", "Min"))
    others = [other for other in floats(builder) if _fits(other.shape, x.shape) and other is not x]
    if others and choices.integer(0, 1):
        other = choices.pick(others)
        names, exact = [x.name, other.name], x.exact and other.exact
    else:
        data = builder.eighths(_broadcast(x.shape, choices))
        names, exact = [x.name, builder.constant(data)], x.exact
    if choices.integer(0, 3) == 1:
        names.reverse()
    exact = exact and kind in ("Max", "Min")
    builder.add(kind, names, [("f32", x.shape)], exact=exact)


def comparison(builder: ModelBuilder, choices: Choices) -> None:
    """A comparison of exact values, and where: a selection by it."""
    exact = [value for value in floats(builder) if value.exact]
    if not exact:
        return
    x = choices.pick(exact)
    other = builder.constant(builder.eighths(_broadcast(x.shape, choices)))
    kind = choices.pick(("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"))
    (mask,) = builder.add(kind, [x.name, other], [("bool", x.shape)])
    if choices.integer(0, 1):
        mask = builder.add("Not", [mask.name], [("bool", x.shape)])[0]
    if choices.integer(0, 1):
        fallback = builder.constant(builder.eighths(_broadcast(x.shape, choices)))
        builder.add("Where", [mask.name, x.name, fallback], [("f32", x.shape)], exact=True)
    else:
        builder.add("Cast", [mask.name], [("f32", x.shape)], exact=True, to=1)


def rounding(builder: ModelBuilder, choices: Choices) -> None:
    """A rounding of exact values."""
    exact = [value for value in floats(builder) if value.exact]
    if exact:
        kind = choices.pick(("Floor", "Ceil", "Round", "Sign"))
        builder.float_like(kind, choices.pick(exact), exact=True)


def pooling(builder: ModelBuilder, choices: Choices) -> None:
    """Maximum and average pooling, and pooling over everything."""
    found = images(builder)
    if not found:
        return
    x = choices.pick(found)
    kind = choices.pick(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"))
    if kind.startswith("Global"):
        shape = (*x.shape[:2], *(1 for _ in x.shape[2:]))
        builder.add(kind, [x.name], [("f32", shape)], exact=x.exact and kind == "GlobalMaxPool")
        return
    kernel = [choices.pick((2, 3, 1, 4)) for _ in x.shape[2:]]
    strides = [choices.pick((1, 2, 3)) for _ in kernel]
    begins = [choices.integer(0, size - 1) for size in kernel]
    ends = [choices.integer(0, size - 1) for size in kernel]
    ceil = choices.integer(0, 3) == 1
    spatial = []
    for extent, size, stride, low, high in zip(
        x.shape[2:], kernel, strides, begins, ends, strict=True
    ):
        room = extent + low + high - size
        spatial.append((-(-room // stride) if ceil else room // stride) + 1)
        if (spatial[-1] - 1) * stride >= extent + low:
            return  # a window wholly in the padding: ONNX and its runtime don't agree on those
    if min(spatial) < 1:
        return
    attributes: dict[str, object] = {"ceil_mode": int(ceil)}
    if kind == "AveragePool":
        attributes["count_include_pad"] = choices.integer(0, 1)
    builder.add(
        kind,
        [x.name],
        [("f32", (*x.shape[:2], *spatial))],
        exact=x.exact and kind == "MaxPool",
        kernel_shape=kernel,
        strides=strides,
        pads=[*begins, *ends],
        **attributes,
    )


def reduction(builder: ModelBuilder, choices: Choices) -> None:
    """A reduction over some axes, kept or not."""
    found = [value for value in floats(builder) if value.shape]
    x = choices.pick(found)
    rank = len(x.shape)
    first = choices.integer(0, rank - 1)
    axes = [axis for axis in range(rank) if axis == first or choices.integer(0, 2) == 1]
    keep = choices.integer(0, 1)
    shape = tuple(
        1 if axis in axes else extent
        for axis, extent in enumerate(x.shape)
        if keep or axis not in axes
    )
    kind = choices.pick(_REDUCTIONS)
    if kind == "ReduceSum":
        # Squashed first, so that a sum of many stays in the range of f16.
        scaled = builder.float_like("Mul", x, builder.constant(1.0 / prod(x.shape)))
        axes_name = builder.constant(_int64(axes))
        builder.add(kind, [scaled.name, axes_name], [("f32", shape)], keepdims=keep)
        return
    builder.add(kind, [x.name], [("f32", shape)], axes=axes, keepdims=keep)


def normalisation(builder: ModelBuilder, choices: Choices) -> None:
    """Softmax, log-softmax, layer normalisation (as one operator or spelled out), instance norm."""
    found = [value for value in floats(builder) if value.shape and value.shape[-1] >= 4]
    if not found:
        return
    x = choices.pick(found)
    kind = choices.pick(("Softmax", "LogSoftmax", "LayerNormalization", "spelled", "instance"))
    if kind in ("Softmax", "LogSoftmax"):
        builder.float_like(kind, x, axis=choices.integer(-1, len(x.shape) - 1))
        return
    # Spread out first: the normalisation of a nearly constant row amplifies rounding.
    x = builder.float_like("Add", x, builder.constant(builder.normal(x.shape)))
    if kind == "instance":
        if len(x.shape) >= 3:
            scale, bias = (builder.constant(builder.normal((x.shape[1],))) for _ in range(2))
            builder.float_like("InstanceNormalization", x, scale, bias)
        return
    scale, bias = (builder.constant(builder.normal(x.shape[-1:])) for _ in range(2))
    if kind == "LayerNormalization":
        builder.float_like(kind, x, scale, bias, axis=-1)
        return
    row = (*x.shape[:-1], 1)
    (mean,) = builder.add("ReduceMean", [x.name], [("f32", row)], axes=[-1])
    centred = builder.float_like("Sub", x, mean.name)
    square = builder.float_like("Pow", centred, builder.constant(2.0))
    (variance,) = builder.add("ReduceMean", [square.name], [("f32", row)], axes=[-1])
    deviation = builder.float_like("Add", variance, builder.constant(1e-5))
    deviation = builder.float_like("Sqrt", deviation)
    normal = builder.float_like("Div", centred, deviation.name)
    scaled = builder.float_like("Mul", normal, scale)
    builder.float_like("Add", scaled, bias)


def _int64(numbers: list[int]):
    import numpy as np

    return np.array(numbers, np.int64)


def _fits(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether a shape broadcasts to another without enlarging it."""
    if len(shape) > len(whole):
        return False
    tail = whole[len(whole) - len(shape) :]
    return all(extent in (1, full) for extent, full in zip(shape, tail, strict=True))


def _broadcast(shape: tuple[int, ...], choices: Choices) -> tuple[int, ...]:
    """A shape that broadcasts to `shape`."""
    kept = choices.integer(0, len(shape))
    tail = shape[len(shape) - kept :]
    return tuple(1 if choices.integer(0, 2) == 1 else extent for extent in tail)
