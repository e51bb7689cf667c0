"""The host's side of a plan: original ONNX nodes, run by ONNX Runtime on one thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from stages.errors import DeviceError
from stages.recipe.graph import Operator
from stages.tensors import Array, DType, TensorType

if TYPE_CHECKING:
    import onnxruntime

HostCall = Callable[[Sequence[Array | None]], Sequence[Array]]


class HostRuntime:
    """Makes and keeps a session for each distinct node."""

    def __init__(self) -> None:
        self._sessions: dict[object, onnxruntime.InferenceSession] = {}

    def prepare(
        self,
        operator: Operator,
        operand_types: Sequence[TensorType],
        result_types: Sequence[TensorType],
    ) -> HostCall:
        """A function from the node's operands to its results.

        Raises:
            DeviceError: ONNX Runtime doesn't take the node.
        """
        session = self._session(operator, operand_types, result_types)
        names = [item.name for item in session.get_inputs()]
        results = [item.name for item in session.get_outputs()]

        def call(operands: Sequence[Array | None]) -> Sequence[Array]:
            feeds = {
                name: np.asarray(operand, _fed(type_), order="C")
                for name, operand, type_ in zip(
                    _operand_names(operator), operands, operand_types, strict=True
                )
                if operand is not None and name in names
            }
            return run_session(session, results, feeds, f"operator {operator.name}")

        return call

    def _session(
        self,
        operator: Operator,
        operand_types: Sequence[TensorType],
        result_types: Sequence[TensorType],
    ) -> onnxruntime.InferenceSession:
        key = (
            operator.attributes["node"],
            operator.attributes["names"],
            tuple(operand_types),
            tuple(result_types),
        )
        if key not in self._sessions:
            self._sessions[key] = open_session(
                _node_model(operator, operand_types, result_types), f"operator {operator.name}"
            )
        return self._sessions[key]


def open_session(model_bytes: bytes, where: str) -> onnxruntime.InferenceSession:
    """A quiet session on one thread.

    Raises:
        DeviceError: ONNX Runtime doesn't take the model.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(
            model_bytes, options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        raise DeviceError(
            f"ONNX Runtime can't load it: {_first_line(error)}",
            where=where,
            hint="the host needs a runtime that knows every operator left to it",
        ) from error


def run_session(
    session: onnxruntime.InferenceSession,
    results: Sequence[str],
    feeds: Mapping[str, Array],
    where: str,
) -> list[Array]:
    """The named results.

    Raises:
        DeviceError: ONNX Runtime fails.
    """
    try:
        return [np.asarray(result) for result in session.run(list(results), dict(feeds))]
    except Exception as error:
        raise DeviceError(
            f"ONNX Runtime failed: {_first_line(error)}",
            where=where,
            hint="run the model in ONNX Runtime alone to see whether it is sound",
        ) from error


def _operand_names(operator: Operator) -> tuple[str, ...]:
    names = operator.attributes["names"]
    assert isinstance(names, tuple)
    return tuple(str(name) for name in names)


def _node_model(
    operator: Operator,
    operand_types: Sequence[TensorType],
    result_types: Sequence[TensorType],
) -> bytes:
    from stages.normalizer.widening import widen_bfloat16
    from stages.recipe.onnx_export.host_node import host_call_model

    model = host_call_model(operator, operand_types, result_types)
    if any(type_.dtype is DType.BF16 for type_ in (*operand_types, *result_types)):
        model = widen_bfloat16(model)
    return bytes(model.SerializeToString())


def _fed(type_: TensorType) -> np.dtype[np.generic]:
    """ONNX Runtime has no bfloat16 kernels for processors: it computes those in float32."""
    return DType.F32.numpy if type_.dtype is DType.BF16 else type_.dtype.numpy


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
