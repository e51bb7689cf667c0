"""Whether the hardware spec's operator list runs an operator, and if not, why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import lcm, prod

from stages.hardware.spec import HardwareSpec, Memory, OperatorSupport
from stages.recipe.decisions import Engine
from stages.recipe.graph import Operator
from stages.recipe.kinds import CONTRACTIONS, Kind
from stages.tensors import DType, TensorType

VIEWS = frozenset({Kind.RESHAPE, Kind.IDENTITY})
POINTWISE = frozenset(
    {
        *(Kind.ADD, Kind.SUB, Kind.MUL, Kind.DIV, Kind.POW, Kind.MINIMUM, Kind.MAXIMUM),
        *(Kind.PRELU, Kind.WHERE, Kind.NEG, Kind.ABS, Kind.EXP, Kind.LOG, Kind.SQRT),
        *(Kind.RECIPROCAL, Kind.ERF, Kind.SIN, Kind.COS, Kind.FLOOR, Kind.CEIL, Kind.ROUND),
        *(Kind.SIGN, Kind.RELU, Kind.LEAKY_RELU, Kind.CLIP, Kind.TANH, Kind.SIGMOID),
        *(Kind.HARD_SIGMOID, Kind.HARD_SWISH, Kind.SILU, Kind.GELU, Kind.ELU, Kind.SELU),
        *(Kind.SOFTPLUS, Kind.SOFTSIGN, Kind.MISH, Kind.CAST, Kind.QUANTIZE, Kind.DEQUANTIZE),
    }
)
COMPARISONS = frozenset(
    {
        *(Kind.EQUAL, Kind.LESS, Kind.LESS_OR_EQUAL, Kind.GREATER, Kind.GREATER_OR_EQUAL),
        *(Kind.AND, Kind.OR, Kind.XOR, Kind.NOT, Kind.IS_NAN, Kind.MOD),
    }
)
_RESIZE_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
_WIDEST_BYTES = max(dtype.size_bytes for dtype in DType)
MAX_REVERSED = 256
"""Transfers that a reversed slice may make: each row is one of its own."""
REDUCTIONS = frozenset(kind for kind in Kind if kind.startswith("reduce_"))
OUTPUT_AXIS = {Kind.CONV: 0, Kind.CONV_TRANSPOSE: 1, Kind.MATMUL: -1}
"""The axis of a contraction's weights along which its output channels go."""
TILED = (Engine.TENSOR_CORE, Engine.VECTOR)
"""The engines whose groups are cut into tiles."""


def seed_of(members: Sequence[Operator]) -> Operator:
    """The operator of a group that does the work: its contraction or reduction where it has one
    (a product may stand before a sum: a dot product), else the first that isn't a dequantize."""
    for member in members:
        if member.kind in CONTRACTIONS or member.kind in REDUCTIONS:
            return member
    return next((op for op in members if op.kind is not Kind.DEQUANTIZE), members[-1])


def engine_of(operator: Operator, spec: HardwareSpec) -> Engine:
    """The engine that the spec names for an operator's kind; the host where it names none."""
    if operator.kind in VIEWS:
        return Engine.NONE
    listed = spec.operators.get(operator.kind)
    return Engine(listed.engine) if listed is not None else Engine.HOST


def multiplies(spec: HardwareSpec, *dtypes: DType) -> bool:
    """Whether the list has matrix products of each of these types."""
    listed = spec.operators.get(Kind.MATMUL)
    return listed is not None and listed.dtypes.issuperset(dtypes)


def refusal(
    operator: Operator,
    operand_types: Iterable[TensorType],
    result: TensorType,
    spec: HardwareSpec,
) -> str:
    """Why the device can't run an operator on these types; empty where it can."""
    listed = spec.operators.get(operator.kind)
    if listed is None:
        what = _onnx_name(operator) if operator.kind is Kind.HOST_CALL else operator.kind
        why = f": {operator.word('why')}" if "why" in operator.attributes else ""
        return f"{what} isn't in the operator list of {spec.name}{why}"
    types = [*operand_types, result]
    if any(not tensor_type.element_count for tensor_type in types):
        return f"{operator.kind} on a tensor without elements: there is nothing to tile"
    for tensor_type in types:
        if tensor_type.dtype not in listed.dtypes:
            return _dtype_refusal(operator, tensor_type.dtype, listed, spec)
    multiplied = DType.I8 if types[0].dtype is DType.U8 else types[0].dtype
    if operator.kind in CONTRACTIONS and multiplied not in spec.tensor_core.macs_per_cycle:
        known = ", ".join(sorted(spec.tensor_core.macs_per_cycle))
        return f"{operator.kind} on {multiplied}: the tensor core of {spec.name} multiplies {known}"
    for fact, number in _facts(operator, types):
        low, high = listed.limits.get(fact, (number, number))
        if not low <= number <= high:
            return f"{operator.kind} with {fact} {number}: {spec.name} takes {low} to {high}"
    if operator.kind is Kind.SLICE and (rows := _reversed_rows(operator, result)) > MAX_REVERSED:
        return f"slice that reverses {rows} rows: DMA moves forward, at most {MAX_REVERSED} at once"
    return ""


def refusal_in_device_types(
    operator: Operator, types: Mapping[str, TensorType], spec: HardwareSpec
) -> str:
    """Why the device can't run an operator by itself, in the types that it would keep its values
    in; empty where it can."""
    operands = [device_type(types[value], spec) for value in operator.operands]
    return refusal(operator, operands, device_type(types[operator.outputs[0]], spec), spec)


def _reversed_rows(operator: Operator, result: TensorType) -> int:
    """How many rows a slice takes one by one; 1 where all its steps go forward."""
    steps = operator.integers("steps")
    return prod(extent for extent, step in zip(result.shape, steps, strict=True) if step < 0)


def placement_alignment(memory: Memory) -> int:
    """What addresses of buffers are multiples of: the memory's own alignment, and that of the
    widest element."""
    return lcm(memory.alignment_bytes, _WIDEST_BYTES)


def device_dtype(dtype: DType, spec: HardwareSpec) -> DType:
    """The type in which the device keeps values of `dtype`: floats become its fastest float."""
    if dtype.is_float and spec.float_dtype is not None:
        return spec.float_dtype
    return dtype


def device_type(tensor_type: TensorType, spec: HardwareSpec) -> TensorType:
    """`device_dtype` for a whole type."""
    return TensorType(device_dtype(tensor_type.dtype, spec), tensor_type.shape)


def _dtype_refusal(
    operator: Operator, dtype: DType, listed: OperatorSupport, spec: HardwareSpec
) -> str:
    types = ", ".join(sorted(listed.dtypes))
    if dtype.is_float and spec.float_dtype is None:
        return f"{operator.kind} on {dtype}: {spec.name} has no float unit; quantise the model"
    return f"{operator.kind} on {dtype}: {spec.name} takes {types}"


def _onnx_name(operator: Operator) -> str:
    from onnx import NodeProto

    node = NodeProto()
    data = operator.attributes["node"]
    assert isinstance(data, bytes)
    node.ParseFromString(data)
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def _facts(operator: Operator, types: list[TensorType]) -> Iterator[tuple[str, int]]:
    """The facts that a spec's limits bound."""
    for tensor_type in types:
        yield "rank", tensor_type.rank
        for extent in tensor_type.shape:
            yield "extent", extent
    if operator.kind in (Kind.CONV, Kind.CONV_TRANSPOSE):
        yield "spatial", types[0].rank - 2
        yield "group", operator.integer("group")
        for extent in types[1].shape[2:]:
            yield "kernel", extent
    elif operator.kind in (Kind.MAX_POOL, Kind.AVERAGE_POOL):
        yield "spatial", types[0].rank - 2
        for extent in operator.integers("kernel"):
            yield "kernel", extent
    elif operator.kind is Kind.RESIZE:
        yield "taps", _RESIZE_TAPS[operator.word("mode")]
    for attribute, fact in (("strides", "stride"), ("dilations", "dilation")):
        if attribute in operator.attributes:
            for number in operator.integers(attribute):
                yield fact, number
