"""The operator table: for each kind its operands, attributes, shape rule and arithmetic work."""

from __future__ import annotations

from collections.abc import Sequence

from stages.recipe import movement_shapes, shapes, window_shapes
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.signatures import (
    MANY,
    AttributeRule,
    AttributeType,
    IllegalOperatorError,
    OperatorClass,
    ShapeRule,
    Signature,
)
from stages.recipe.work import contraction_macs, element_operations
from stages.tensors import TensorType

__all__ = [
    "TABLE",
    "IllegalOperatorError",
    "OperatorClass",
    "Signature",
    "flops",
    "infer",
    "is_elementwise",
    "macs",
    "signature",
]


def _int(name: str, *, required: bool = True) -> AttributeRule:
    return AttributeRule(name, AttributeType.INT, required)


def _number(name: str, *, required: bool = True) -> AttributeRule:
    return AttributeRule(name, AttributeType.NUMBER, required)


def _ints(name: str, *, required: bool = True) -> AttributeRule:
    return AttributeRule(name, AttributeType.INTS, required)


def _word(name: str, *words: str) -> AttributeRule:
    return AttributeRule(name, AttributeType.WORD, words=words)


_WINDOW = (_ints("strides"), _ints("pads"), _ints("dilations"), _int("group"))
_RESIZE = (
    _word("mode", "nearest", "linear", "cubic"),
    _word(
        "coordinates",
        "half_pixel",
        "asymmetric",
        "align_corners",
        "pytorch_half_pixel",
        "half_pixel_symmetric",
        "tf_half_pixel_for_nn",
    ),
    _word("nearest", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    AttributeRule("scales", AttributeType.NUMBERS),
    _ints("full_input", required=False),
    _ints("full_output", required=False),
    _ints("origin_input", required=False),
    _ints("origin_output", required=False),
    _number("cubic_coefficient", required=False),
    _int("exclude_outside", required=False),
)
_HOST = (
    AttributeRule("node", AttributeType.BYTES),
    AttributeRule("names", AttributeType.WORDS),
    AttributeRule("results", AttributeType.WORDS),
    AttributeRule("opsets", AttributeType.WORDS),
    AttributeRule("why", AttributeType.WORD, required=False),
)


def _contractions() -> list[Signature]:
    of = OperatorClass.CONTRACTION
    spread = (*_WINDOW, _ints("output_padding"))
    return [
        Signature(Kind.CONV, of, 2, 3, window_shapes.conv, _WINDOW),
        Signature(Kind.CONV_TRANSPOSE, of, 2, 3, window_shapes.conv_transpose, spread),
        Signature(Kind.MATMUL, of, 2, 3, window_shapes.matmul),
    ]


def _elementwise() -> list[Signature]:
    rows: list[tuple[ShapeRule, int, int, tuple[Kind, ...]]] = [
        (shapes.elementwise, 2, 1, (Kind.ADD, Kind.SUB, Kind.MUL, Kind.DIV)),
        (shapes.elementwise, 2, 1, (Kind.MINIMUM, Kind.MAXIMUM)),
        (shapes.elementwise, 2, 2, (Kind.PRELU,)),
        (shapes.power, 2, 4, (Kind.POW,)),
        (shapes.compare, 2, 1, (Kind.EQUAL, Kind.LESS, Kind.LESS_OR_EQUAL)),
        (shapes.compare, 2, 1, (Kind.GREATER, Kind.GREATER_OR_EQUAL)),
        (shapes.logical, 2, 1, (Kind.AND, Kind.OR, Kind.XOR)),
        (shapes.where, 3, 1, (Kind.WHERE,)),
        (shapes.same, 1, 1, (Kind.NEG, Kind.ABS, Kind.SIGN)),
        (shapes.same_float, 1, 1, (Kind.FLOOR, Kind.CEIL, Kind.ROUND, Kind.RECIPROCAL)),
        (shapes.same_float, 1, 4, (Kind.EXP, Kind.LOG, Kind.SQRT, Kind.SIN, Kind.COS)),
        (shapes.same_float, 1, 8, (Kind.ERF,)),
        (shapes.logical, 1, 1, (Kind.NOT,)),
        (shapes.is_nan, 1, 1, (Kind.IS_NAN,)),
    ]
    signatures = [
        Signature(kind, OperatorClass.ELEMENTWISE, count, count, rule, (), operations)
        for rule, count, operations, kinds in rows
        for kind in kinds
    ]
    modulo = Signature(
        Kind.MOD, OperatorClass.ELEMENTWISE, 2, 2, shapes.elementwise, (_int("fmod"),), 2
    )
    return [*signatures, modulo]


def _activations() -> list[Signature]:
    alpha = (_number("alpha"),)
    rows: list[tuple[Kind, int, tuple[AttributeRule, ...]]] = [
        (Kind.LEAKY_RELU, 2, alpha),
        (Kind.TANH, 6, ()),
        (Kind.SIGMOID, 6, ()),
        (Kind.HARD_SIGMOID, 4, (*alpha, _number("beta"))),
        (Kind.HARD_SWISH, 5, ()),
        (Kind.SILU, 7, ()),
        (Kind.GELU, 12, (_word("approximate", "none", "tanh"),)),
        (Kind.ELU, 6, alpha),
        (Kind.SELU, 7, (*alpha, _number("gamma"))),
        (Kind.SOFTPLUS, 9, ()),
        (Kind.SOFTSIGN, 3, ()),
        (Kind.MISH, 16, ()),
    ]
    of = OperatorClass.ACTIVATION
    return [
        Signature(Kind.RELU, of, 1, 1, shapes.same, (), 1),
        Signature(Kind.CLIP, of, 1, 1, shapes.same, (_number("min"), _number("max")), 2),
        *(
            Signature(kind, of, 1, 1, shapes.same_float, attributes, operations)
            for kind, operations, attributes in rows
        ),
    ]


def _normalisation() -> list[Signature]:
    epsilon = (_number("epsilon"),)
    norm, soft = OperatorClass.NORMALISATION, OperatorClass.SOFTMAX
    axis = (_int("axis"),)
    undefined = AttributeRule(
        "undefined", AttributeType.WORD, required=False, words=("nan", "zero")
    )
    return [
        Signature(Kind.BATCH_NORM, norm, 5, 5, shapes.channelwise_norm, epsilon, 2),
        Signature(Kind.INSTANCE_NORM, norm, 3, 3, shapes.channelwise_norm, epsilon, 7),
        Signature(Kind.LAYER_NORM, norm, 2, 3, shapes.layer_norm, (*axis, *epsilon), 7),
        Signature(Kind.SOFTMAX, soft, 1, 1, shapes.softmax, (*axis, undefined), 8),
        Signature(Kind.LOG_SOFTMAX, soft, 1, 1, shapes.softmax, axis, 8),
        Signature(Kind.SOFTMAX_NUMERATOR, soft, 1, 1, shapes.softmax, axis, 6),
    ]


def _pooling_and_reductions() -> list[Signature]:
    pool, reduce = OperatorClass.POOLING, OperatorClass.REDUCTION
    window = (_ints("kernel"), _ints("strides"), _ints("pads"))
    spaced = _ints("dilations", required=False)
    average = (*window, _int("count_include_pad"), spaced, _ints("overhang", required=False))
    rows = {
        Kind.REDUCE_SUM: 1,
        Kind.REDUCE_MEAN: 1,
        Kind.REDUCE_MAX: 1,
        Kind.REDUCE_MIN: 1,
        Kind.REDUCE_PROD: 1,
        Kind.REDUCE_L1: 2,
        Kind.REDUCE_L2: 2,
        Kind.REDUCE_SUM_SQUARE: 2,
    }
    axes = (_ints("axes"), _int("keepdims"))
    return [
        Signature(Kind.MAX_POOL, pool, 1, 1, window_shapes.pooling, (*window, spaced), 1),
        Signature(Kind.AVERAGE_POOL, pool, 1, 1, window_shapes.pooling, average, 1),
        *(
            Signature(kind, reduce, 1, 1, shapes.reduction, axes, operations)
            for kind, operations in rows.items()
        ),
    ]


def _movement() -> list[Signature]:
    of = OperatorClass.MOVEMENT
    axis = _int("axis")
    box = (_ints("starts"), _ints("stops"), _ints("steps"))
    padding = (_ints("pads"), _word("mode", "constant", "reflect", "edge"), _number("value"))
    parts = (axis, _ints("sizes"))
    permutation, shape = (_ints("permutation"),), (_ints("shape"),)
    return [
        Signature(Kind.CONCAT, of, 1, MANY, movement_shapes.concat, (axis,)),
        Signature(Kind.SLICE, of, 1, 1, movement_shapes.slice_box, box),
        Signature(Kind.SPLIT, of, 1, 1, movement_shapes.split, parts, most_results=MANY),
        Signature(Kind.PAD, of, 1, 1, movement_shapes.pad, padding),
        Signature(Kind.RESIZE, of, 1, 1, movement_shapes.resize, _RESIZE, 1),
        Signature(Kind.TRANSPOSE, of, 1, 1, movement_shapes.transpose, permutation),
        Signature(Kind.RESHAPE, of, 1, 1, movement_shapes.reshape, shape),
        Signature(Kind.EXPAND, of, 1, 1, movement_shapes.expand, shape),
        Signature(Kind.GATHER, of, 2, 2, movement_shapes.gather, (axis,)),
        Signature(Kind.IDENTITY, of, 1, 1, shapes.same),
        Signature(Kind.RELAYOUT, of, 1, 1, shapes.same),
    ]


def _formats_and_host() -> list[Signature]:
    of = OperatorClass.FORMAT
    axis = (_int("axis"),)
    return [
        Signature(Kind.CAST, of, 1, 1, shapes.cast, (), 1),
        Signature(Kind.QUANTIZE, of, 2, 3, shapes.quantize, axis, 3),
        Signature(Kind.DEQUANTIZE, of, 2, 3, shapes.dequantize, axis, 2),
        Signature(
            Kind.HOST_CALL,
            OperatorClass.HOST,
            0,
            MANY,
            shapes.host_call,
            _HOST,
            most_results=MANY,
        ),
    ]


TABLE: dict[Kind, Signature] = {
    row.kind: row
    for row in (
        *_contractions(),
        *_elementwise(),
        *_activations(),
        *_normalisation(),
        *_pooling_and_reductions(),
        *_movement(),
        *_formats_and_host(),
    )
}


def signature(kind: Kind) -> Signature:
    """The row of a kind."""
    return TABLE[kind]


def infer(
    operator: Operator,
    operand_types: Sequence[TensorType | None],
    declared: Sequence[TensorType] = (),
) -> tuple[TensorType, ...]:
    """The result types of an operator; None stands for an omitted operand.

    `declared` are the result types that the graph declares. They are read where nothing else says
    the type: the element type of `cast` and of `quantize` without a zero point, the shape of a tile
    of `resize`, everything of a `host_call`. The float type of a result is that of the first data
    operand; `agrees` says which others are legal.

    Raises:
        IllegalOperatorError: operands, attributes or shapes break the rules of the kind.
    """
    row = TABLE[operator.kind]
    row.check_attributes(operator)
    row.check_operands(operand_types)
    return row.shape_rule(operator, operand_types, declared)


def agrees(declared: TensorType, inferred: TensorType) -> bool:
    """Whether a value may have its declared type: the same, or another float of the same shape.

    Which float a value is stored in is a decision of the compiler.
    """
    return declared.shape == inferred.shape and (
        declared.dtype is inferred.dtype or (declared.dtype.is_float and inferred.dtype.is_float)
    )


def is_elementwise(kind: Kind) -> bool:
    """Whether each result element needs only the operands' elements at the same place.

    True for elementwise kinds, activations, and the format kinds; these can act on another kernel's
    result tile by tile.
    """
    return TABLE[kind].operator_class in (
        OperatorClass.ELEMENTWISE,
        OperatorClass.ACTIVATION,
        OperatorClass.FORMAT,
    )


def macs(
    operator: Operator,
    operand_types: Sequence[TensorType | None],
    result_types: Sequence[TensorType],
) -> int:
    """Multiply-accumulates of a contraction, bias not counted; 0 for other kinds."""
    if TABLE[operator.kind].operator_class is not OperatorClass.CONTRACTION:
        return 0
    return contraction_macs(operator, operand_types, result_types)


def flops(
    operator: Operator,
    operand_types: Sequence[TensorType | None],
    result_types: Sequence[TensorType],
) -> int:
    """Arithmetic operations: two for each multiply-accumulate, one for each bias added; the table's
    operations for each element elsewhere; 0 for movement and host calls.
    """
    row = TABLE[operator.kind]
    if row.operator_class is not OperatorClass.CONTRACTION:
        return row.operations * element_operations(
            operator, row.operator_class, operand_types, result_types
        )
    has_bias = len(operand_types) > 2 and operand_types[2] is not None
    biases = result_types[0].element_count if has_bias else 0
    return 2 * contraction_macs(operator, operand_types, result_types) + biases
