"""One operator at a time: ours, and ONNX Runtime's with its optimiser off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.recipe.operators import infer
from stages.recipe.semantics import evaluate
from stages.tensors import DType, TensorType

Data = NDArray[Any]


def run_onnx(
    op_type: str,
    inputs: Sequence[Data | None],
    attributes: Mapping[str, object] | None = None,
    *,
    results: int = 1,
    opset: int = 17,
) -> list[Data]:
    """What ONNX Runtime makes of one node."""
    names = [f"i{place}" if data is not None else "" for place, data in enumerate(inputs)]
    outputs = [f"o{place}" for place in range(results)]
    node = onnx.helper.make_node(op_type, names, outputs, **(attributes or {}))
    graph = onnx.helper.make_graph(
        [node],
        "one",
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(data.dtype), data.shape
            )
            for name, data in zip(names, inputs, strict=True)
            if data is not None
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=9
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feed = {
        name: np.asarray(data) for name, data in zip(names, inputs, strict=True) if data is not None
    }
    found = session.run(None, feed)
    return [np.asarray(item) for item in found]


def type_of(data: Data) -> TensorType:
    """The type of an array."""
    return TensorType(DType.of(data.dtype), data.shape)


def run_ours(
    kind: Kind,
    inputs: Sequence[Data | None],
    attributes: Mapping[str, Attribute] | None = None,
    *,
    declared: Sequence[TensorType] = (),
    results: int = 1,
) -> list[Data]:
    """What we make of one operator; the shape rule and the semantics must agree."""
    operator = Operator(
        "one",
        kind,
        tuple(f"i{place}" if data is not None else "" for place, data in enumerate(inputs)),
        tuple(f"o{place}" for place in range(results)),
        dict(attributes or {}),
    )
    types = infer(operator, [None if d is None else type_of(d) for d in inputs], declared)
    found = evaluate(operator, inputs, types)
    assert [data.shape for data in found] == [type_.shape for type_ in types]
    for data, type_ in zip(found, types, strict=True):
        narrow = type_.dtype in (DType.F16, DType.BF16)
        assert data.dtype == (np.float32 if narrow else type_.dtype.numpy)
    return [np.asarray(data) for data in found]


def assert_close(ours: Data, theirs: Data, tolerance: float = 1e-5) -> None:
    """Equal integers; floats within a tolerance relative to the largest magnitude."""
    assert ours.shape == theirs.shape
    if theirs.dtype.kind != "f":
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
        return
    finite = np.abs(theirs[np.isfinite(theirs)])
    scale = float(finite.max(initial=0.0))
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * scale)


def numbers(shape: Sequence[int], seed: int = 0, dtype: Any = np.float32) -> Data:
    """Seeded numbers: normal for floats, small ones of both signs for integers."""
    generator = np.random.default_rng([seed, *shape])
    kind = np.dtype(dtype).kind
    if kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    if kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    low = 0 if kind == "u" else -20
    return generator.integers(low, 20, shape).astype(dtype)
