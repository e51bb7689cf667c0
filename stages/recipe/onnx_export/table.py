"""The whole export table, and the precision that each kind computes in.

ONNX wants one element type for all operands; a recipe mixes float widths, and computes in float32
whatever they are. So floats narrower than that are cast to it and back. The same holds for what
ONNX Runtime has no kernels for: most of 8 and 16 bits, and float64 in a part of the kinds.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import NodeProto

from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.onnx_export import compute, elementwise, formats, movement
from stages.recipe.onnx_export.emitter import Emitter, Exporter
from stages.recipe.operators import OperatorClass, signature
from stages.tensors import DType, TensorType

EXPORTERS: dict[Kind, Exporter] = elementwise.TABLE | compute.TABLE | movement.TABLE | formats.TABLE

_AS_THEY_ARE = frozenset(formats.TABLE)
_WIDER: dict[DType, DType] = {
    DType.F16: DType.F32,
    DType.BF16: DType.F32,
    DType.I8: DType.I32,
    DType.U8: DType.I32,
    DType.I16: DType.I32,
    DType.U16: DType.I32,
    DType.U32: DType.I64,
}
_COPYING = frozenset(movement.TABLE) - {Kind.PAD, Kind.RESIZE}
_BOOL_AS_NUMBER = frozenset({Kind.WHERE, Kind.PAD, Kind.RESIZE, Kind.MAX_POOL, *compute.REDUCTIONS})
_WITHOUT_FLOAT64 = frozenset(
    {
        Kind.CONV,
        Kind.CONV_TRANSPOSE,
        Kind.INSTANCE_NORM,
        Kind.AVERAGE_POOL,
        Kind.RESIZE,
        Kind.ERF,
        Kind.GELU,
        Kind.HARD_SWISH,
        Kind.HARD_SIGMOID,
        Kind.SOFTPLUS,
        Kind.SOFTSIGN,
        Kind.MISH,
        Kind.ELU,
        Kind.SELU,
    }
)
_FLOAT_ONLY: dict[Kind, DType] = {Kind.MAX_POOL: DType.F64, Kind.AVERAGE_POOL: DType.F32}


def operator_to_nodes(
    operator: Operator, types: Mapping[str, TensorType], opset: int = 17
) -> list[NodeProto]:
    """The ONNX nodes that mean an operator, in opset 17 or a later one.

    `types` holds the types of the whole graph's values.

    Their operands and results have the operator's names.

    Raises:
        CompileError: opset 17 can't say it.
    """
    emitter = Emitter(
        operator, types, opset, operands=list(operator.inputs), target=operator.outputs[0]
    )
    exporter = EXPORTERS[operator.kind]
    if operator.kind in _AS_THEY_ARE:
        exporter(emitter)
        return emitter.nodes
    emitter.compute = _compute_type(operator, types)
    emitter.operands = [
        _operand(emitter, position, name) for position, name in enumerate(operator.inputs)
    ]
    made = DType.BOOL if _makes_bool(operator, emitter) else emitter.compute
    if made is emitter.result.dtype or operator.kind is Kind.SPLIT:
        exporter(emitter)
        return emitter.nodes
    emitter.target = emitter.fresh("wide")
    exporter(emitter)
    emitter.cast(emitter.target, emitter.result.dtype, output=operator.outputs[0])
    return emitter.nodes


def _compute_type(operator: Operator, types: Mapping[str, TensorType]) -> DType:
    """The type that an operator's operands are brought to."""
    given = [types[name].dtype for name in operator.operands]
    main = given[1] if operator.kind is Kind.WHERE else given[0]
    if operator.kind in _COPYING:
        return main if operator.kind is not Kind.EXPAND or main is not DType.BF16 else DType.F32
    if main.is_float:
        wide = DType.F64 in given and operator.kind not in _WITHOUT_FLOAT64
        return DType.F64 if wide else DType.F32
    if main is DType.BOOL:
        return DType.I32 if operator.kind in _BOOL_AS_NUMBER else DType.BOOL
    if operator.kind is Kind.RESIZE:
        return DType.I32 if operator.word("mode") == "nearest" else DType.F32
    return _FLOAT_ONLY.get(operator.kind, _WIDER.get(main, main))


def _operand(emitter: Emitter, position: int, name: str) -> str:
    kind = emitter.operator.kind
    is_condition = kind is Kind.WHERE and position == 0
    is_index = kind is Kind.GATHER and position == 1
    if not name or is_condition or is_index:
        return name
    if emitter.types[name].dtype is emitter.compute:
        return name
    return emitter.cast(name, emitter.compute)


def _makes_bool(operator: Operator, emitter: Emitter) -> bool:
    elementwise_kind = signature(operator.kind).operator_class is OperatorClass.ELEMENTWISE
    return (
        elementwise_kind and operator.kind is not Kind.WHERE and emitter.result.dtype is DType.BOOL
    )
