"""Which values are quantised: those at the ends of what the device fuses.

Between a contraction and the operators of its output stage nothing is rounded to int8: the
accumulator goes through bias, activation and residual, and is quantised once on its way out
(TensorRT's explicit and implicit quantisation, Vela and QNN alike).
"""

from __future__ import annotations

from collections.abc import Mapping

from stages.compiler.draft import Draft, GraphEditor, first_draft
from stages.compiler.passes.mean_first import made_means
from stages.compiler.pipeline import foldings, simplifications
from stages.compiler.support import POINTWISE, engine_of
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine
from stages.recipe.graph import Graph
from stages.recipe.kinds import CONTRACTIONS, Kind
from stages.tensors import Array


def simplified(graph: Graph, constants: Mapping[str, Array], spec: HardwareSpec) -> Draft:
    """The graph as `QuantizeActivations` meets it."""
    draft = first_draft(graph, constants, spec)
    for step in (*simplifications(), *foldings()):
        draft = step.run(draft, spec)
    return draft


def stored_values(graph: Graph, draft: Draft, spec: HardwareSpec) -> tuple[str, ...]:
    """Every float activation that the device stores, in the graph's order: all but those that stay
    within a fused group; then the means that `MeanFirst` made. `draft` is the graph
    `simplified`."""
    editor = GraphEditor(draft)
    gates = raised_gates(graph, draft)
    fused: set[str] = set()
    for operator in draft.graph.operators:
        starts = operator.kind in CONTRACTIONS
        continues = operator.kind in POINTWISE and any(x in fused for x in operator.inputs)
        (value,) = operator.outputs[:1]
        ends = operator.kind in spec.tensor_core.output_ends
        goes_on = value not in gates and not ends
        if (starts or continues) and goes_on and _continues(value, editor, spec):
            # Of two that meet in a sum the later one goes through; the other is stored for it.
            reader = editor.only_reader(value)
            fused.difference_update(reader.inputs if reader is not None else ())
            fused.add(value)
    floats = {name for name, type_ in graph.types.items() if type_.dtype.is_float}
    stored = floats & set(draft.graph.types) - set(draft.constants) - fused
    return (*(name for name in graph.types if name in stored), *made_means(graph, draft))


def calibrated_values(graph: Graph, draft: Draft, spec: HardwareSpec) -> tuple[str, ...]:
    """The stored values without those that stay within a chain of pointwise operators on the
    vector engine, which is a group of its own: that reads and writes int8, and rounds nothing on
    the way."""
    editor = GraphEditor(draft)
    stored = stored_values(graph, draft, spec)
    known = frozenset(stored)
    gates = raised_gates(graph, draft)
    return tuple(
        name for name in stored if name in gates or not _within_chain(name, known, editor, spec)
    )


def raised_gates(graph: Graph, draft: Draft) -> frozenset[str]:
    """The gates of the model to which `FactorGates` adds one. They have a range of their own, from
    which that of the sum follows: the model itself doesn't have it."""
    return frozenset(
        operator.inputs[0]
        for operator in draft.graph.operators
        if operator.kind is Kind.ADD
        and operator.outputs[0] not in graph.types
        and operator.inputs[0] in graph.types
        and operator.inputs[1] in draft.constants
    )


def _within_chain(
    value: str, stored: frozenset[str], editor: GraphEditor, spec: HardwareSpec
) -> bool:
    maker, reader = editor.producer(value), editor.only_reader(value)
    if maker is None or reader is None:
        return False
    operators = (maker, reader)
    activations = [
        [name for name in op.operands if name not in editor.constants] for op in operators
    ]
    return (
        all(op.kind in POINTWISE and engine_of(op, spec) is Engine.VECTOR for op in operators)
        and editor.types[reader.outputs[0]].shape == editor.types[value].shape
        and all(stored.issuperset(names) for names in activations)  # neither ends a contraction
    )


def surviving(names: frozenset[str], graph: Graph, draft: Draft) -> frozenset[str]:
    """The operators of the simplified graph into which operators of the model went: themselves,
    or those that make what they made, or what was made of that."""
    kept = {op.name for op in draft.graph.operators}
    makers = draft.graph.producers()
    operators = {op.name: op for op in graph.operators}
    readers = graph.consumers()
    found: set[str] = set()
    for name in names:
        pending = [operators[name]] if name in operators else []
        done: set[str] = set()
        while pending:
            operator = pending.pop()
            done.add(operator.name)
            if operator.name in kept:
                found.add(operator.name)
                continue
            for value in operator.outputs:
                if value in makers:
                    found.add(makers[value].name)
                else:
                    pending += [op for op in readers[value] if op.name not in done]
    return frozenset(found)


def _continues(value: str, editor: GraphEditor, spec: HardwareSpec) -> bool:
    reader = editor.only_reader(value)
    return (
        reader is not None
        and reader.kind in POINTWISE
        and reader.kind in spec.tensor_core.output_stage
        and editor.types[reader.outputs[0]].shape == editor.types[value].shape
    )
