"""A gate beside its own residual: one product in place of a product and a sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stages.compiler.draft import Draft, GraphEditor
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind

_SMALLER = 4
"""The gate has at most one element for so many of what it gates."""


@dataclass(frozen=True, slots=True)
class FactorGates:
    """`x + x * s` becomes `x * (s + 1)` where `s` is a gate of few elements, as in a
    squeeze-and-excite block with a residual: the sum over all of `x` is left out, and a value as
    large as `x` with it."""

    name: str = "factor_gates"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Factor every sum of a value and its own gated self."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            if operator.kind is Kind.ADD:
                _factor(operator, editor)
        return editor.finish()


def _factor(total: Operator, editor: GraphEditor) -> None:
    for value, gated in (total.inputs, total.inputs[::-1]):
        product = editor.producer(gated)
        if product is None or product.kind is not Kind.MUL or value not in product.inputs:
            continue
        gate = product.inputs[1] if product.inputs[0] == value else product.inputs[0]
        if editor.only_reader(gated) is total and _is_gate(gate, value, total, editor):
            _put_product(total, value, gate, editor)
            return


def _is_gate(gate: str, value: str, total: Operator, editor: GraphEditor) -> bool:
    gate_type, type_ = editor.types[gate], editor.types[value]
    return (
        editor.producer(gate) is not None
        and type_.dtype.is_float
        and gate_type.dtype is type_.dtype
        and editor.types[total.outputs[0]] == type_
        and gate_type.element_count * _SMALLER <= type_.element_count
    )


def _put_product(total: Operator, value: str, gate: str, editor: GraphEditor) -> None:
    one = editor.add_constant(f"{total.name}.one", np.ones((), editor.types[gate].dtype.numpy))
    raised = editor.add_value(f"{gate}.raised", editor.types[gate])
    editor.put(Operator(editor.fresh(f"{total.name}.gate"), Kind.ADD, (gate, one), (raised,)))
    editor.put(Operator(total.name, Kind.MUL, (value, raised), total.outputs))
