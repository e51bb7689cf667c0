"""Run one node over constants, or ask a runtime what type its results have.

ONNX Runtime answers first, since it also runs the model later; onnx's reference evaluator answers
for what ONNX Runtime has no kernel for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import (
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    defs,
    helper,
    numpy_helper,
    shape_inference,
)

from stages.recipe.onnx_import.loops import loop_state_types
from stages.recipe.onnx_import.node import DEFAULT_DOMAIN, Node, operand_names
from stages.recipe.onnx_import.value_types import (
    Cause,
    Untyped,
    ValueType,
    read_type,
)
from stages.tensors import Array, TensorType

RANDOM = frozenset(
    {
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
    }
)
_IR_VERSION = 8
_NEW_TYPES_IR_VERSION = 10  # the first with 4-bit tensors
_LARGEST_HINT = 4096  # elements of a constant that a shape rule may want to read


def one_node_model(
    node: NodeProto,
    opsets: Mapping[str, int],
    inputs: Mapping[str, TypeProto],
    initializers: Sequence[TensorProto] = (),
) -> ModelProto:
    """A model of one node, its outputs untyped."""
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_value_info(name, known) for name, known in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        list(initializers),
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    new = opsets.get(DEFAULT_DOMAIN, 0) > 20
    version = _NEW_TYPES_IR_VERSION if new else _IR_VERSION
    return helper.make_model(graph, opset_imports=imports, ir_version=version)


def evaluate_node(
    node: NodeProto, opsets: Mapping[str, int], operands: Mapping[str, TensorProto]
) -> tuple[Array, ...] | None:
    """The node's outputs, given all its operands; None where neither runtime can run it."""
    if any(name not in operands for name in operand_names(node)):
        return None
    model = one_node_model(node, opsets, {}, list(operands.values()))
    # onnxruntime 1.32 ends the process when a Split leaves an output out
    unsafe = node.op_type == "Split" and not all(node.output)
    results = None if unsafe else _run_onnxruntime(model)
    if results is None:
        results = _run_reference(model)
    if results is None or not all(isinstance(result, np.ndarray) for result in results):
        return None
    return tuple(np.asarray(result) for result in results)


def _run_onnxruntime(model: ModelProto) -> list[object] | None:
    session = _session(model)
    if session is None:
        return None
    try:
        return list(session.run(None, {}))  # type: ignore[attr-defined]
    except Exception:
        return None  # its errors share no class of their own; the reference evaluator is asked next


def _session(model: ModelProto) -> object | None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session: object = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception:
        return None  # no kernel for these types, or an operator that it doesn't know
    return session


def _run_reference(model: ModelProto) -> list[object] | None:
    from onnx.reference import ReferenceEvaluator

    try:
        return list(ReferenceEvaluator(model).run(None, {}))
    except Exception:
        return None  # not implemented there either: the node stays a node


def infer_types(
    node: Node,
    opsets: Mapping[str, int],
    operands: Mapping[str, TypeProto],
    constants: Mapping[str, TensorProto],
) -> dict[str, ValueType]:
    """The types of a node's outputs, as far as onnx's shape rules or ONNX Runtime's know them."""
    found = _infer_with_schema(node, opsets, operands, constants)
    if node.proto.op_type == "Loop":
        found |= loop_state_types(node, opsets, operands)
    missing = [name for name in node.proto.output if name and name not in found]
    if missing or any(isinstance(answer, Untyped) for answer in found.values()):
        for name, answer in _infer_with_onnxruntime(node, opsets, operands, constants).items():
            if not isinstance(found.get(name), TensorType):
                found[name] = answer
    return found


def _infer_with_schema(
    node: Node,
    opsets: Mapping[str, int],
    operands: Mapping[str, TypeProto],
    constants: Mapping[str, TensorProto],
) -> dict[str, ValueType]:
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        schema = defs.get_schema(node.proto.op_type, node.version, node.domain)
        answers = shape_inference.infer_node_outputs(
            schema,
            node.proto,
            dict(operands),
            input_data=dict(constants),
            opset_imports=imports,
        )
    except Exception as error:
        # no schema, or the operands break its rule; ONNX Runtime is asked next
        lines = str(error).strip().splitlines()
        reason = f"has no type: {lines[-1] if lines else 'its operator has no shape rule'}"
        outputs = [name for name in node.proto.output if name]
        return dict.fromkeys(outputs, Untyped(reason, Cause.ILL_TYPED))
    types = {name: read_type(answer) for name, answer in answers.items()}
    return {name: answer for name, answer in types.items() if answer is not None}


def _infer_with_onnxruntime(
    node: Node,
    opsets: Mapping[str, int],
    operands: Mapping[str, TypeProto],
    constants: Mapping[str, TensorProto],
) -> dict[str, ValueType]:
    inputs = {name: given for name, given in operands.items() if name not in constants}
    model = one_node_model(node.proto, opsets, inputs, list(constants.values()))
    session = _session(model)
    if session is None:
        return {}
    found: dict[str, ValueType] = {}
    for output in session.get_outputs():  # type: ignore[attr-defined]
        answer = _read_onnxruntime_type(str(output.type), list(output.shape))
        if answer is not None:
            found[output.name] = answer
    return found


_ELEMENT_NAMES = {
    "float": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "double": TensorProto.DOUBLE,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16,
    "uint16": TensorProto.UINT16,
    "int32": TensorProto.INT32,
    "uint32": TensorProto.UINT32,
    "int64": TensorProto.INT64,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
}


def _read_onnxruntime_type(text: str, shape: list[object]) -> ValueType | None:
    if not text.startswith("tensor(") or text[7:-1] not in _ELEMENT_NAMES:
        return None
    if not shape:  # what ONNX Runtime says of scalars, but of unknown ranks too
        return None
    return read_type(helper.make_tensor_type_proto(_ELEMENT_NAMES[text[7:-1]], shape))  # type: ignore[arg-type]


def as_tensor(name: str, data: Array) -> TensorProto:
    """A constant as a named TensorProto."""
    return numpy_helper.from_array(np.ascontiguousarray(data).reshape(data.shape), name)


def is_small(data: Array) -> bool:
    """Whether a shape rule may want to read this constant."""
    return data.size <= _LARGEST_HINT
