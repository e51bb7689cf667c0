"""How much of its operands an operator reads: a gather only the rows that it picks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.work import resize_taps
from stages.tensors import TensorType

RENAMES = frozenset({Kind.RESHAPE, Kind.IDENTITY})
"""Kinds that neither read nor write an element where their result may lie in its operand's place,
as ONNX Runtime's do."""

_PICKERS = frozenset({"GatherElements", "GatherND"})
_DESCRIBERS = frozenset({"Shape", "Size"})


def read_elements(
    operator: Operator,
    place: int,
    operand_types: Sequence[TensorType | None],
    result_types: Sequence[TensorType],
) -> int:
    """Elements of the operand at `place` that the operator reads, each counted once; 0 where it is
    omitted. Never more than the operand has: where operands may overlap, or only the data say
    which elements are read, the largest number that is possible."""
    operand = operand_types[place]
    if operand is None:
        return 0
    whole = operand.element_count
    results = sum(type_.element_count for type_ in result_types)
    match operator.kind:
        case Kind.GATHER | Kind.SLICE | Kind.SPLIT if place == 0:
            return min(whole, results)
        case Kind.RESIZE if place == 0:
            return min(whole, results * resize_taps(operator))
        case Kind.PAD:
            return min(whole, _kept_by_pad(operator, operand))
        case Kind.CONV | Kind.MAX_POOL | Kind.AVERAGE_POOL if place == 0:
            return min(whole, _under_windows(operator, operand, operand_types, result_types[0]))
        case Kind.HOST_CALL if place == 0 and whole > results:
            return _read_by_node(operator, whole, results)
        case _:
            return whole


def _kept_by_pad(operator: Operator, operand: TensorType) -> int:
    """A negative pad crops."""
    pads = operator.integers("pads")
    rank = len(operand.shape)
    return prod(
        max(0, extent + min(0, begin) + min(0, end))
        for extent, begin, end in zip(operand.shape, pads[:rank], pads[rank:], strict=True)
    )


def _under_windows(
    operator: Operator,
    operand: TensorType,
    operand_types: Sequence[TensorType | None],
    result: TensorType,
) -> int:
    """Elements of the channels that lie under a window: fewer than all where the step is longer
    than the kernel."""
    if operator.kind is Kind.CONV:
        weight = operand_types[1]
        assert weight is not None
        kernel = weight.shape[2:]
    else:
        kernel = operator.integers("kernel")
    return prod(operand.shape[:2]) * prod(
        min(extent, windows * taps)
        for extent, windows, taps in zip(operand.shape[2:], result.shape[2:], kernel, strict=True)
    )


def _read_by_node(operator: Operator, whole: int, results: int) -> int:
    name = _node_name(operator)
    if name in _PICKERS:
        return results
    return 0 if name in _DESCRIBERS else whole


def _node_name(operator: Operator) -> str:
    """What an ONNX node does; empty where it can't be read."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from onnx import NodeProto

    data = operator.attributes["node"]
    assert isinstance(data, bytes)
    node = NodeProto()
    try:
        node.ParseFromString(data)
    except DecodeError:
        return ""
    return "" if node.domain else node.op_type
