"""The node tests that onnx can generate, as models with inputs and expected outputs."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto

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


def arrays(case: Case) -> dict[str, Array]:
    """The inputs that are arrays, scalars made arrays."""
    return {
        name: np.asarray(value)
        for name, value in case.inputs.items()
        if isinstance(value, np.ndarray | np.generic)
    }
