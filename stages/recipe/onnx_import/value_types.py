"""ONNX value types as tensor types, or the reason why a value has none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from onnx import TensorProto, TypeProto, ValueInfoProto, helper

from stages.tensors import DType, TensorType


class Cause(StrEnum):
    """Why a value has no tensor type."""

    FOREIGN = "foreign"  # a type that recipes lack
    DYNAMIC = "dynamic"  # an extent is known only when the model runs
    ILL_TYPED = "ill-typed"  # no shape rule accepts the operands of the node that makes it


@dataclass(frozen=True, slots=True)
class Untyped:
    """Why a value can't be a tensor of a recipe: `reason` completes "value x ...".

    `proto` is what ONNX knows of its type, from which those of later values may follow.
    """

    reason: str
    cause: Cause = Cause.FOREIGN
    proto: TypeProto | None = None


ValueType = TensorType | Untyped


def element_type(code: int) -> DType | None:
    """The element type that an ONNX type code stands for; None where recipes have none."""
    try:
        return DType.of(helper.tensor_dtype_to_np_dtype(code))
    except KeyError:
        return None


def type_code(dtype: DType) -> int:
    """The ONNX type code of an element type."""
    return int(helper.np_dtype_to_tensor_dtype(dtype.numpy))


def read_type(proto: TypeProto) -> ValueType | None:
    """The type a TypeProto gives; None where it says too little (no type, no rank)."""
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    if kind != "tensor_type":
        return Untyped(f"is a {kind.removesuffix('_type')}, not a tensor", proto=proto)
    tensor = proto.tensor_type
    if tensor.elem_type == TensorProto.UNDEFINED:
        return None
    dtype = element_type(tensor.elem_type)
    if dtype is None:
        name = TensorProto.DataType.Name(tensor.elem_type)
        return Untyped(f"has elements of type {name}", proto=proto)
    if not tensor.HasField("shape"):
        return None
    extents = []
    for axis, dimension in enumerate(tensor.shape.dim):
        if not dimension.HasField("dim_value"):
            symbol = dimension.dim_param or "?"
            return Untyped(f"has no static extent on axis {axis} ({symbol})", Cause.DYNAMIC, proto)
        extents.append(dimension.dim_value)
    return TensorType(dtype, tuple(extents))


def write_type(tensor_type: TensorType) -> TypeProto:
    """The TypeProto of a tensor type."""
    return helper.make_tensor_type_proto(type_code(tensor_type.dtype), tensor_type.shape)


def known_proto(value_type: ValueType | None) -> TypeProto | None:
    """What ONNX knows of a value's type."""
    if isinstance(value_type, TensorType):
        return write_type(value_type)
    return value_type.proto if value_type is not None else None


def value_info(name: str, tensor_type: TensorType) -> ValueInfoProto:
    """The ValueInfoProto of a named value."""
    return helper.make_value_info(name, write_type(tensor_type))
