"""Shape rules of elementwise, normalising, reducing and format kinds, and what rules share."""

from __future__ import annotations

from collections.abc import Sequence

from stages.recipe.graph import Operator
from stages.recipe.signatures import IllegalOperatorError
from stages.tensors import DType, Shape, TensorType

Operands = Sequence[TensorType | None]
Declared = Sequence[TensorType]
Types = tuple[TensorType, ...]


def present(operands: Operands) -> list[TensorType]:
    """The types of the operands that aren't omitted."""
    return [operand for operand in operands if operand is not None]


def first(operands: Operands) -> TensorType:
    """The type of the first operand, which every kind that asks has."""
    assert operands
    assert operands[0] is not None
    return operands[0]


def need(holds: bool, problem: str, hint: str, spot: str = "") -> None:
    """Refuse an operator unless a condition holds.

    Raises:
        IllegalOperatorError: the condition doesn't hold.
    """
    if not holds:
        raise IllegalOperatorError(problem, spot=spot, hint=hint)


def legal_axis(operator: Operator, rank: int, name: str = "axis") -> int:
    """An axis attribute that lies within the operand's rank.

    Raises:
        IllegalOperatorError: it doesn't; axes are never negative.
    """
    axis = operator.integer(name)
    need(
        0 <= axis < rank,
        f"{name} {axis} isn't an axis of an operand of rank {rank}",
        "axes count from 0 and are never negative",
        name,
    )
    return axis


def legal_length(operator: Operator, name: str, length: int) -> tuple[int, ...]:
    """A list attribute of a known length.

    Raises:
        IllegalOperatorError: it has another length.
    """
    value = operator.attributes[name]
    assert isinstance(value, tuple)
    need(
        len(value) == length,
        f"{name} has {len(value)} entries, {operator.kind} of these operands needs {length}",
        f"give {name} {length} entries",
        name,
    )
    return tuple(int(item) for item in value if isinstance(item, int))


def broadcast(operator: Operator, operands: Operands) -> Shape:
    """numpy's broadcast of all operands' shapes.

    Raises:
        IllegalOperatorError: they don't broadcast.
    """
    shapes = [operand.shape for operand in present(operands)]
    rank = max(len(shape) for shape in shapes)
    result = []
    for axis in range(-rank, 0):
        extents = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(extents) > 1:
            listed = ", ".join(str(operand) for operand in present(operands))
            raise IllegalOperatorError(
                f"operands of {operator.kind} don't broadcast: {listed}",
                hint="extents must be equal or 1, aligned at the last axis",
            )
        result.append(extents.pop() if extents else 1)
    return tuple(result)


def same_family(operator: Operator, types: Sequence[TensorType]) -> None:
    """All floats, or all one integer type. Floats of several widths mix: the compiler narrows some.

    Raises:
        IllegalOperatorError: otherwise.
    """
    families = {"float" if type_.dtype.is_float else str(type_.dtype) for type_ in types}
    if len(families) > 1:
        raise IllegalOperatorError(
            f"operands of {operator.kind} have unlike types: {', '.join(map(str, types))}",
            hint="cast one of them first",
        )


def elementwise(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The broadcast shape, in the first operand's type."""
    same_family(operator, present(operands))
    return (TensorType(first(operands).dtype, broadcast(operator, operands)),)


def power(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The broadcast shape, in the first operand's type; the exponent may be of another."""
    return (TensorType(first(operands).dtype, broadcast(operator, operands)),)


def compare(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The broadcast shape, in bool."""
    same_family(operator, present(operands))
    return (TensorType(DType.BOOL, broadcast(operator, operands)),)


def logical(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The broadcast shape; every operand and the result are bool."""
    for operand in present(operands):
        need_bool(operator, operand)
    return (TensorType(DType.BOOL, broadcast(operator, operands)),)


def where(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The broadcast shape, in the type of the second and third operands."""
    condition, x, y = present(operands)
    need_bool(operator, condition)
    same_family(operator, [x, y])
    return (TensorType(x.dtype, broadcast(operator, operands)),)


def need_bool(operator: Operator, operand: TensorType) -> None:
    """Refuse an operand that isn't bool."""
    need(
        operand.dtype is DType.BOOL,
        f"{operator.kind} reads {operand} where a bool is needed",
        "cast it to bool",
    )


def same(_: Operator, operands: Operands, __: Declared) -> Types:
    """The operand's type."""
    return (first(operands),)


def same_float(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The operand's type, which is a float."""
    need_float(operator, first(operands))
    return (first(operands),)


def need_float(operator: Operator, operand: TensorType) -> None:
    """Refuse an operand that isn't a float."""
    need(
        operand.dtype.is_float,
        f"{operator.kind} reads {operand} where a float is needed",
        "cast it to a float first",
    )


def is_nan(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The operand's shape, in bool."""
    need_float(operator, first(operands))
    return (TensorType(DType.BOOL, first(operands).shape),)


def softmax(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The operand's type."""
    x = first(operands)
    need_float(operator, x)
    legal_axis(operator, x.rank)
    return (x,)


def channelwise_norm(operator: Operator, operands: Operands, _: Declared) -> Types:
    """Batch and instance normalisation: the operand's type; parameters are [channels]."""
    x, *parameters = present(operands)
    need_float(operator, x)
    need(x.rank >= 2, f"{operator.kind} reads {x}", "it needs a batch and a channel axis")
    for parameter in parameters:
        need(
            parameter.shape == (x.shape[1],),
            f"a parameter of {operator.kind} is {parameter}, the operand has {x.shape[1]} channels",
            "give one number for each channel",
        )
    return (x,)


def layer_norm(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The operand's type; parameters broadcast to its last axes."""
    x, *parameters = present(operands)
    need_float(operator, x)
    tail = x.shape[legal_axis(operator, x.rank) :]
    for parameter in parameters:
        padded = (1,) * (len(tail) - parameter.rank) + parameter.shape
        need(
            len(padded) == len(tail)
            and all(p in (1, t) for p, t in zip(padded, tail, strict=True)),
            f"a parameter of layer_norm is {parameter}, the normalised axes are {list(tail)}",
            "parameters must broadcast to the axes from `axis` on",
        )
    return (x,)


def reduction(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The operand's shape without the reduced axes, or with 1 in their place."""
    x = first(operands)
    axes = operator.integers("axes")
    need(
        all(0 <= axis < x.rank for axis in axes) and len(set(axes)) == len(axes),
        f"axes {list(axes)} aren't distinct axes of an operand of rank {x.rank}",
        "axes count from 0 and are never negative",
        "axes",
    )
    if operator.integer("keepdims"):
        shape = tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape))
    else:
        shape = tuple(extent for axis, extent in enumerate(x.shape) if axis not in axes)
    return (TensorType(x.dtype, shape),)


def cast(operator: Operator, operands: Operands, declared: Declared) -> Types:
    """The operand's shape in the declared element type, which nothing else says."""
    return (TensorType(_declared_dtype(operator, declared), first(operands).shape),)


def quantize(operator: Operator, operands: Operands, declared: Declared) -> Types:
    """The operand's shape in the type of the zero point, or in the declared one without it."""
    x, scale, *zero_point = present(operands)
    need_float(operator, x)
    _legal_scale(operator, x, scale, zero_point)
    dtype = zero_point[0].dtype if zero_point else _declared_dtype(operator, declared)
    need(
        not dtype.is_float and dtype is not DType.BOOL,
        f"quantize makes {dtype}, which isn't an integer type",
        "give a zero point of an integer type",
    )
    return (TensorType(dtype, x.shape),)


def dequantize(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The operand's shape in the type of the scale."""
    x, scale, *zero_point = present(operands)
    need(
        not x.dtype.is_float and x.dtype is not DType.BOOL,
        f"dequantize reads {x}",
        "it needs integers",
    )
    _legal_scale(operator, x, scale, zero_point)
    for point in zero_point:
        need(
            point.dtype is x.dtype,
            f"the zero point is {point}, the operand {x}",
            "give the zero point the type of the operand",
        )
    return (TensorType(scale.dtype, x.shape),)


def _legal_scale(
    operator: Operator, x: TensorType, scale: TensorType, zero_point: list[TensorType]
) -> None:
    axis = operator.integer("axis")
    count = 1 if axis == -1 else x.shape[legal_axis(operator, x.rank)]
    for parameter in (scale, *zero_point):
        need(
            parameter.rank <= 1 and parameter.element_count in (1, count),
            f"a scale or zero point of {operator.kind} is {parameter}, axis {axis} of {x} "
            f"needs {count}",
            "one number for the whole tensor (axis -1), or one for each place of the axis",
        )
    need_float(operator, scale)


def _declared_dtype(operator: Operator, declared: Declared) -> DType:
    need(
        len(declared) == 1,
        f"the result type of {operator.kind} can't be inferred",
        "declare the type of its result",
    )
    return declared[0].dtype


def host_call(operator: Operator, operands: Operands, declared: Declared) -> Types:
    """Result types as declared: nothing else knows what a host call makes."""
    legal_length(operator, "names", len(operands))
    legal_length(operator, "results", len(operator.outputs))
    need(
        len(declared) == len(operator.outputs),
        f"{operator.kind} declares {len(declared)} types for {len(operator.outputs)} results",
        "declare the type of every result",
    )
    return tuple(declared)
