"""Truth values on devices that compare and choose, but know no logic of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.support import refusal_in_device_types
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType


@dataclass(frozen=True, slots=True)
class LowerLogic:
    """Where the operator list lacks an operator on truth values but has `where` (and `equal`),
    the operator is written with those, exactly:

        and(a, b)   where(a, b, false)         not(a)      where(a, false, true)
        or(a, b)    where(a, true, b)          is_nan(x)   where(equal(x, x), false, true)
        xor(a, b)   where(a, not(b), b)        cast(bool)  where(a, 1, 0)
                                               cast to bool   where(equal(x, 0), false, true)
    """

    name: str = "lower_logic"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Rewrite every operator that the list refuses, where it takes the replacement."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            lower = _LOWERED.get(operator.kind)
            if lower is None or not refusal_in_device_types(operator, editor.types, spec):
                continue
            trial = _Trial(operator, editor, spec)
            lower(trial)
            if trial.complete:
                for made in trial.made:
                    editor.put(made)
        return editor.finish()


class _Trial:
    """The replacement of one operator; complete where the device takes every part of it."""

    def __init__(self, operator: Operator, editor: GraphEditor, spec: HardwareSpec) -> None:
        self.operator = operator
        self.made: list[Operator] = []
        self.complete = True
        self._editor = editor
        self._spec = spec

    def type(self, value: str) -> TensorType:
        return self._editor.types[value]

    def number(self, value: float, dtype: DType) -> str:
        return self._editor.add_constant(
            f"{self.operator.name}.{value:g}", np.asarray(value).astype(dtype.numpy)
        )

    def truth(self, value: bool) -> str:
        return self._editor.add_constant(
            f"{self.operator.name}.{value}".lower(), np.asarray(value, np.bool_)
        )

    def where(self, condition: str, yes: str, no: str) -> None:
        """The choice that makes the operator's own result."""
        self._add(Operator(self.operator.name, Kind.WHERE, (condition, yes, no),
                           self.operator.outputs))  # fmt: skip

    def inner(self, kind: Kind, *inputs: str) -> str:
        """A part that makes a truth value of its first operand's shape."""
        shape = np.broadcast_shapes(*(self.type(value).shape for value in inputs))
        tensor_type = TensorType(DType.BOOL, tuple(int(extent) for extent in shape))
        name = self._editor.add_value(f"{self.operator.name}.{kind}", tensor_type)
        self._add(Operator(self._editor.fresh(f"{name}.of"), kind, inputs, (name,)))
        return name

    def _add(self, operator: Operator) -> None:
        self.made.append(operator)
        reason = refusal_in_device_types(operator, self._editor.types, self._spec)
        self.complete = self.complete and not reason


def _and(trial: _Trial) -> None:
    a, b = trial.operator.inputs
    trial.where(a, b, trial.truth(False))


def _or(trial: _Trial) -> None:
    a, b = trial.operator.inputs
    trial.where(a, trial.truth(True), b)


def _xor(trial: _Trial) -> None:
    a, b = trial.operator.inputs
    opposite = trial.inner(Kind.WHERE, b, trial.truth(False), trial.truth(True))
    trial.where(a, opposite, b)


def _not(trial: _Trial) -> None:
    trial.where(trial.operator.inputs[0], trial.truth(False), trial.truth(True))


def _is_nan(trial: _Trial) -> None:
    (x,) = trial.operator.inputs
    trial.where(trial.inner(Kind.EQUAL, x, x), trial.truth(False), trial.truth(True))


def _cast(trial: _Trial) -> None:
    (x,) = trial.operator.inputs
    source, result = trial.type(x).dtype, trial.type(trial.operator.outputs[0]).dtype
    if source is DType.BOOL:
        trial.where(x, trial.number(1, result), trial.number(0, result))
    elif result is DType.BOOL:
        zero = trial.inner(Kind.EQUAL, x, trial.number(0, source))
        trial.where(zero, trial.truth(False), trial.truth(True))
    else:
        trial.complete = False


_LOWERED: dict[Kind, Callable[[_Trial], None]] = {
    Kind.AND: _and,
    Kind.OR: _or,
    Kind.XOR: _xor,
    Kind.NOT: _not,
    Kind.IS_NAN: _is_nan,
    Kind.CAST: _cast,
}
