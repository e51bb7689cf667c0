"""The node tests that onnx can generate, as models with inputs and expected outputs."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from stages.tensors import Array

RANDOM = ("bernoulli", "random", "dropout", "multinomial")
"""Tests of these operators compare nothing: their results are drawn at random."""


@dataclass(frozen=True, slots=True)
class Case:
    """A node test. `expected` is None where the results are random."""

    name: str
    model: ModelProto
    inputs: Mapping[str, object]
    expected: tuple[object, ...] | None
    relative: float
    absolute: float

    @property
    def operator(self) -> str:
        """The operator type that the test is about."""
        return next((node.op_type for node in self.model.graph.node), "none")


def load_cases() -> list[Case]:
    """Every node test of the installed onnx, sorted by name."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()):
            found = collect_testcases()
    cases = []
    for test in found:
        names = [value.name for value in test.model.graph.input]
        for inputs, outputs in test.data_sets:
            random = any(word in test.name for word in RANDOM) and "training" in test.name
            random = random or any(f"test_{word}" in test.name for word in RANDOM[:2])
            cases.append(
                Case(
                    test.name,
                    test.model,
                    dict(zip(names, inputs, strict=False)),
                    None if random else tuple(outputs),
                    test.rtol,
                    test.atol,
                )
            )
    return sorted(cases, key=lambda case: case.name)


def as_array(value: object) -> Array | None:
    """A test's value as an array; None for sequences, optionals and strings."""
    if isinstance(value, TensorProto):
        value = numpy_helper.to_array(value)
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    return None


def arrays(case: Case) -> dict[str, Array]:
    """The inputs that are arrays."""
    found = {name: as_array(value) for name, value in case.inputs.items()}
    return {name: array for name, array in found.items() if array is not None}


def with_constants(case: Case, names: Sequence[str]) -> Case:
    """The test with some of its inputs made constants of the model."""
    model = ModelProto()
    model.CopyFrom(case.model)
    kept = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    given = arrays(case)
    for name in names:
        data = np.ascontiguousarray(given[name]).reshape(given[name].shape)
        model.graph.initializer.append(numpy_helper.from_array(data, name))
    inputs = {name: value for name, value in case.inputs.items() if name not in names}
    return replace(case, model=model, inputs=inputs)
