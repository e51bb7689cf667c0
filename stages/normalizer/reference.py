"""ONNX Runtime, set up so that two runs are equal: the reference for what a model computes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from stages.errors import InputError
from stages.normalizer.widening import compute_in_float32, holds_other_floats
from stages.tensors import Array

_FATAL_ONLY = 4
_ORT_TYPES: dict[str, type[Any]] = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
    "tensor(int8)": np.int8, "tensor(uint8)": np.uint8, "tensor(int16)": np.int16,
    "tensor(uint16)": np.uint16, "tensor(int32)": np.int32, "tensor(uint32)": np.uint32,
    "tensor(int64)": np.int64, "tensor(uint64)": np.uint64, "tensor(bool)": np.bool_,
}  # fmt: skip


class OnnxRuntimeReference:
    """Runs a model on one thread, deterministically, with graph optimisation disabled.

    Disabled, a quantised graph computes its float meaning: each QuantizeLinear and
    DequantizeLinear by itself, nothing fused. Where ONNX Runtime lacks kernels (bfloat16; float64
    in convolutions, say) the graph is computed in float32, and `is_widened` says so: the results
    then are float32, and the float meaning of the same graph.
    """

    def __init__(self, model: onnx.ModelProto | Path) -> None:
        """Loads the model; a path with external data is read by ONNX Runtime itself, once.

        Raises:
            InputError: ONNX Runtime refuses the model.
        """
        where = str(model) if isinstance(model, Path) else f"graph {model.graph.name!r}"
        self.is_widened = False
        session = None
        try:
            session = _session(model, where)
        except InputError:
            if not holds_other_floats(_message(model)):
                raise
        if session is None or _takes_bfloat16(session):
            session = _session(compute_in_float32(_message(model)), where)
            self.is_widened = True
        self._session = session
        self._dtypes: dict[str, np.dtype[Any]] = {
            value.name: np.dtype(_ORT_TYPES.get(value.type, np.object_))
            for value in session.get_inputs()
        }
        self.output_names: tuple[str, ...] = tuple(v.name for v in session.get_outputs())

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs that a run needs."""
        return tuple(self._dtypes)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One inference: arrays by input name in, arrays by output name out.

        Raises:
            InputError: an input is missing or has the wrong shape, or an operator fails.
        """
        missing = [name for name in self._dtypes if name not in inputs]
        if missing:
            raise InputError(f"no sample for input {', '.join(map(repr, missing))}")
        fed = {name: self._fit(name, inputs[name]) for name in self._dtypes}
        try:
            results = self._session.run(list(self.output_names), fed)
        except Exception as error:  # ONNX Runtime raises a dozen types with no common base
            raise InputError(
                f"ONNX Runtime can't run the model: {onnxruntime_message(error)}",
                hint="check the sample inputs: their values may lie outside what the model takes",
            ) from error
        return dict(zip(self.output_names, results, strict=True))

    def _fit(self, name: str, array: Array) -> Array:
        return np.asarray(array, self._dtypes[name] if self.is_widened else None)


def run_in_onnxruntime(
    model: onnx.ModelProto, inputs: Mapping[str, Array], outputs: Sequence[str]
) -> dict[str, Array] | None:
    """The named outputs; None where ONNX Runtime can't run the model."""
    try:
        session = _session(model, "")
        results = session.run(list(outputs), dict(inputs))
    except InputError:
        return None
    except Exception as error:
        if "onnxruntime" not in type(error).__module__:
            raise
        return None
    if not all(isinstance(result, np.ndarray) for result in results):
        return None
    return dict(zip(outputs, results, strict=True))


def shapes_in_onnxruntime(
    model: onnx.ModelProto, names: Sequence[str]
) -> dict[str, tuple[np.dtype[Any], tuple[int | str | None, ...]]]:
    """Element type and shape that ONNX Runtime infers of the named values, without a run.

    A model that ONNX Runtime refuses gives nothing. Neither do scalars: ONNX Runtime shows them
    like tensors of unknown rank.
    """
    probed = onnx.ModelProto()
    probed.CopyFrom(model)
    stated = {value.name for value in probed.graph.output}
    del probed.graph.value_info[:]
    probed.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(name) for name in names if name not in stated
    )
    try:
        session = _session(probed, "")
    except InputError:
        return {}
    return {
        value.name: (np.dtype(_ORT_TYPES[value.type]), tuple(value.shape))
        for value in session.get_outputs()
        if value.name in names and value.type in _ORT_TYPES and value.shape
    }


def onnxruntime_message(error: Exception) -> str:
    """ONNX Runtime's message without its source paths and status codes."""
    text = " ".join(str(error).split())
    text = re.sub(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ", "", text)
    text = re.sub(r"/\S*onnxruntime\S*:\d+ \S.*?\) ", "", text)
    text = re.sub(
        r"Non-zero status code returned while running (\w+) node\. Name:'(.*?)' Status Message: ",
        r"\1 '\2': ",
        text,
    )
    text = re.sub(r"const \[with .*?\] ", "", text)
    text = re.sub(r"Load model from \S+ failed:\s*", "", text)
    return text.strip()


def _message(model: onnx.ModelProto | Path) -> onnx.ModelProto:
    return onnx.load(model) if isinstance(model, Path) else model


def _takes_bfloat16(session: Any) -> bool:
    values = (*session.get_inputs(), *session.get_outputs())
    return any(value.type == "tensor(bfloat16)" for value in values)


def _session(model: onnx.ModelProto | Path, where: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.use_deterministic_compute = True
    options.log_severity_level = _FATAL_ONLY
    content = str(model) if isinstance(model, Path) else model.SerializeToString()
    try:
        return onnxruntime.InferenceSession(
            content, sess_options=options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # ONNX Runtime raises a dozen types with no common base
        message = onnxruntime_message(error)
        hint = "check the model with onnx.checker.check_model(MODEL, full_check=True)"
        if "find an implementation" in message:
            hint = "it has no kernel for these element types: export the model in float32"
        raise InputError(
            f"ONNX Runtime refuses the model: {message}", where=where, hint=hint
        ) from error
