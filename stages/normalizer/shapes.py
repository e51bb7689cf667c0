"""Shapes of everything the graph computes."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from stages.errors import InputError
from stages.normalizer.bindings import is_bindable_scalar
from stages.normalizer.operators import ONNX_DOMAIN, place
from stages.normalizer.skeleton import skeleton
from stages.tensors import DType

_DTYPES = frozenset(
    ir.DataType.from_numpy(dtype.numpy) for dtype in DType
)  # those that a recipe can hold


def forget_inferred(model: ir.Model) -> str:
    """Drops the types that a file states of what nodes make: they may be stale, and are inferred.

    Formal inputs and outputs of subgraphs keep theirs.
    """
    outputs = {value for graph in model.graphs() for value in graph.outputs}
    dropped = 0
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for value in node.outputs:
            if value.shape is not None and (value not in outputs or value.is_graph_output()):
                value.shape = None
                value.type = value.type if value in outputs else None
                dropped += 1
    return f"{dropped} stated shapes dropped" if dropped else ""


def infer_shapes(model: ir.Model) -> bool:
    """Infers shapes and element types over the whole graph, in place.

    onnx's inference does the bulk; loops whose state keeps its shape, and operators that only
    ONNX Runtime knows, come after.

    Returns:
        Whether a shape became known.
    """
    before = _unknown_count(model)
    if before == 0:
        return False
    _infer_with_onnx(model)
    if _infer_loops(model):
        _infer_with_onnx(model)
    if _unknown_count(model):
        _infer_with_onnxruntime(model)
    return _unknown_count(model) < before


def require_static(model: ir.Model) -> None:
    """Every tensor has a static shape and an element type that a recipe can hold.

    Raises:
        InputError: names the first operator whose result has not.
    """
    for value in model.graph.inputs:
        _require_type(value, f"input {value.name!r}")
    for node in model.graph:
        for value in node.outputs:
            if not value.name:
                continue
            _require_type(value, place(node))
            if value.shape is None or not value.shape.is_static():
                raise _dynamic_result(node, value)


def _require_type(value: ir.Value, where: str) -> None:
    if value.type is not None and not isinstance(value.type, ir.TensorType):
        raise InputError(
            f"{value.name!r} is no tensor but {value.type}", where=where,
            hint="only tensors have a place in a recipe: cut the graph there",
        )  # fmt: skip
    if value.dtype is not None and value.dtype not in _DTYPES:
        raise InputError(
            f"{value.name!r} holds elements of type {value.dtype.name.lower()}, "
            "which have no place in a recipe",
            where=where,
            hint=f"use one of: {', '.join(DType)}",
        )


def _dynamic_result(node: ir.Node, value: ir.Value) -> InputError:
    reads = [str(v.name) for v in node.inputs if v is not None and v.const_value is None]
    hint = "cut the graph before this operator and run it outside the recipe: "
    hint += f"onnx.utils.extract_model(MODEL, CUT, INPUTS, {reads})"
    if scalars := sorted(_deciding_scalars(node)):
        hint = f"fix what decides it: --bind {' '.join(f'{name}=VALUE' for name in scalars)}"
    if value.shape is None:
        what = f"the shape of {value.name!r} can't be told before a run"
    else:
        axes = [i for i, dim in enumerate(value.shape) if not isinstance(dim, int)]
        listed = ", ".join(map(str, axes))
        what = f"{value.name!r} has axis {listed} whose extent can't be told before a run"
    return InputError(
        f"{what}: {node.op_type} makes it as long as its data say",
        where=place(node),
        hint=hint,
    )


def _deciding_scalars(node: ir.Node) -> set[str]:
    """Scalar integer inputs of the model that the node's operands are computed from."""
    found: set[str] = set()
    waiting = [value for value in node.inputs if value is not None]
    seen: set[ir.Value] = set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        producer = value.producer()
        if producer is not None:
            waiting.extend(operand for operand in producer.inputs if operand is not None)
        elif is_bindable_scalar(value):
            found.add(str(value.name))
    return found


def _unknown(model: ir.Model) -> list[ir.Value]:
    return [
        value
        for node in model.graph
        for value in node.outputs
        if value.name
        and (value.shape is None or not value.shape.is_static() or value.dtype is None)
    ]


def _unknown_count(model: ir.Model) -> int:
    return len(_unknown(model))


def _infer_with_onnx(model: ir.Model) -> None:
    proto = skeleton(model)
    try:
        inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=False, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
        raise InputError(
            f"shapes contradict each other: {str(error).strip().splitlines()[-1]}",
            where="shape inference",
            hint="check the bindings and the operator's attributes",
        ) from error
    known = {info.name: info.type for info in (*inferred.graph.value_info, *inferred.graph.output)}
    for node in model.graph:
        for value in node.outputs:
            _adopt(value, known.get(str(value.name)))


def _adopt(value: ir.Value, stated: onnx.TypeProto | None) -> None:
    if stated is None:
        return
    shape = ir.serde.deserialize_type_proto_for_shape(stated)
    kind = ir.serde.deserialize_type_proto_for_type(stated)
    if kind is not None:
        value.type = kind
    if shape is not None and (value.shape is None or not value.shape.is_static()):
        value.shape = ir.Shape(
            [dim if isinstance(dim, int) and dim >= 0 else None for dim in shape]
        )


def _infer_loops(model: ir.Model) -> bool:
    """A loop's state keeps its shape if its body, given that shape, gives it back.

    onnx's inference forgets the shape of loop state, since a body might change it.
    """
    changed = False
    for node in model.graph:
        if (node.domain, node.op_type) != (ONNX_DOMAIN, "Loop") or all(
            v.shape is not None for v in node.outputs
        ):
            continue
        body = node.attributes["body"].as_graph()
        states = node.inputs[2:]
        if any(state is None or state.shape is None for state in states):
            continue
        if not len(body.inputs) - 2 == len(states) <= len(node.outputs):
            continue
        for formal, state in zip(body.inputs[2:], states, strict=True):
            assert state is not None
            formal.shape, formal.type = state.shape, state.type
        stated = _body_shapes(model, node)
        for value, state, name in zip(
            node.outputs, states, [str(v.name) for v in body.outputs[1:]], strict=False
        ):
            assert state is not None
            assert state.shape is not None
            if value.shape is None and stated.get(name) == tuple(state.shape):
                value.shape, value.type = ir.Shape(list(state.shape)), state.type
                changed = True
    return changed


def _body_shapes(model: ir.Model, loop: ir.Node) -> dict[str, tuple[int | str, ...]]:
    """Shapes that onnx infers inside a loop's body, by value name."""
    inferred = onnx.shape_inference.infer_shapes(skeleton(model), data_prop=True)
    shapes: dict[str, tuple[int | str, ...]] = {}
    outputs = {str(value.name) for value in loop.outputs}
    for node in inferred.graph.node:
        if not outputs & set(node.output):
            continue
        body = next(attribute.g for attribute in node.attribute if attribute.name == "body")
        for info in (*body.value_info, *body.output, *body.input):
            dims = info.type.tensor_type.shape.dim
            if info.type.tensor_type.HasField("shape"):
                shapes[info.name] = tuple(
                    d.dim_value if d.HasField("dim_value") else d.dim_param for d in dims
                )
    return shapes


def _infer_with_onnxruntime(model: ir.Model) -> None:
    """Asks ONNX Runtime, whose own operators onnx can't infer."""
    from stages.normalizer.reference import shapes_in_onnxruntime

    unknown = {str(value.name): value for value in _unknown(model)}
    proto = skeleton(model)
    stated = shapes_in_onnxruntime(proto, list(unknown))
    for name, (dtype, dims) in stated.items():
        value = unknown[name]
        if value.dtype is None:
            value.type = ir.TensorType(ir.DataType.from_numpy(dtype))
        value.shape = ir.Shape([dim if isinstance(dim, int) else None for dim in dims])
