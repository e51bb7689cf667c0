"""A part of a graph compiled by itself, to see what a rewrite does to the whole plan of it.

Sums of prices know nothing of what runs side by side, or of what finds room in the SRAM. Where a
rewrite changes either, the operators around it are compiled both ways, and the plans' own cycles
compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from stages.compiler.draft import Draft, GraphEditor, first_draft
from stages.compiler.emit.plan import PlanEmitter
from stages.compiler.memory.assign import Assignment
from stages.compiler.passes.fuse import Fuse, PrivatizeDequantize
from stages.compiler.passes.layout import AssignLayouts
from stages.compiler.passes.order import Order
from stages.compiler.passes.precision import Precision
from stages.compiler.passes.separate_reads import SeparateReads
from stages.compiler.passes.view_slices import ViewSlices
from stages.compiler.support import device_type
from stages.compiler.trial_result import Trial
from stages.errors import DoesNotFitError
from stages.hardware.spec import HardwareSpec
from stages.plan.timing import plan_cycles
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.tensors import TensorType

_GROUPING = (PrivatizeDequantize(), Fuse())
_DECIDING = (Precision(), Order(), AssignLayouts(), SeparateReads(), ViewSlices())
_FREE = frozenset({Kind.RESHAPE, Kind.IDENTITY, Kind.DEQUANTIZE, Kind.QUANTIZE, Kind.SLICE})
"""Kinds that don't count as a step when the surroundings of an operator are gathered: they are
views, or go with their neighbours."""
_AHEAD, _ALONE, _BACK = 8, 2, 1
"""Steps of `surroundings`."""


def part_of(operators: Iterable[Operator], editor: GraphEditor, spec: HardwareSpec) -> Draft:
    """Operators that stand in an editor as a draft of their own: what they read from elsewhere are
    its inputs, what others read its outputs, both in the types that the device gives them."""
    ordered = _dataflow(operators)
    made = dict.fromkeys(value for op in ordered for value in op.outputs)
    read = dict.fromkeys(value for op in ordered for value in op.operands)
    constants = {value: editor.constants[value] for value in read if value in editor.constants}
    inputs = tuple(value for value in read if value not in made and value not in constants)
    inner = {op.name for op in ordered}
    outputs = tuple(
        value
        for value in made
        if value in editor.outputs
        or not inner.issuperset(editor.readers[value])
        or not editor.readers[value]
    )
    types: dict[str, TensorType] = {value: editor.types[value] for value in read | made}
    types |= {value: device_type(types[value], spec) for value in (*inputs, *outputs)}
    graph = Graph("part", inputs, outputs, tuple(constants), types, tuple(ordered))
    return first_draft(graph, constants, spec)


def grouped(part: Draft, spec: HardwareSpec) -> Draft:
    """A part with the groups that it would have."""
    for step in _GROUPING:
        part = step.run(part, spec)
    return part


def tried(part: Draft, spec: HardwareSpec) -> Trial | None:
    """A part compiled; None where it doesn't fit."""
    draft = grouped(part, spec)
    hosts = sum(len(group.operators) for group in draft.recipe.fallbacks)
    for step in _DECIDING:
        draft = step.run(draft, spec)
    try:
        planned, memory = Assignment(draft, spec).run()
        plan, _ = PlanEmitter(planned, memory, spec).emit()
    except DoesNotFitError:
        return None
    return Trial(plan_cycles(plan, spec), hosts)


def surroundings(operators: Sequence[Operator], editor: GraphEditor) -> list[Operator]:
    """Operators, and what runs beside them: all between them and where their results come together
    again, if that is at most `_AHEAD` steps away, else what is at most `_ALONE` steps away; one
    step behind that, and `_BACK` steps before them."""
    own = {op.name: op for op in operators}
    ends = [op for op in operators if any(r.name not in own for r in _readers(op, editor))]
    reached = [_reached([end], editor, _AHEAD, _readers) for end in ends]
    common = [name for name in reached[0] if all(name in item for item in reached)] if ends else []
    found = dict(own)
    if common:
        # Of those equally far the one that was reached first.
        meeting = editor.operators[
            min(common, key=lambda name: max(item[name] for item in reached))
        ]
        before = _reached([meeting], editor, 2 * _AHEAD, _producers)
        between = {name for item in reached for name in item} & before.keys()
        found |= _named(sorted(between), editor)
        found |= _named(_reached([meeting], editor, 1, _readers), editor)
    else:
        found |= _named(_reached(operators, editor, _ALONE, _readers), editor)
    found |= _named(_reached(operators, editor, _BACK, _producers), editor)
    # What an operator reads through a dequantize comes along: it is a part of its group.
    for operator in list(found.values()):
        for maker in _producers(operator, editor):
            if maker.kind is Kind.DEQUANTIZE:
                found.setdefault(maker.name, maker)
    return list(found.values())


def _reached(
    starts: Iterable[Operator],
    editor: GraphEditor,
    steps: int,
    near: Callable[[Operator, GraphEditor], list[Operator]],
) -> dict[str, int]:
    """The operators within so many steps of some, and how many; the free ones are no step."""
    found = {op.name: 0 for op in starts}
    pending = deque(found)
    while pending:
        name = pending.popleft()
        for other in near(editor.operators[name], editor):
            far = found[name] + (0 if other.kind in _FREE else 1)
            if far <= steps and far < found.get(other.name, steps + 1):
                found[other.name] = far
                pending.append(other.name)
    return found


def _named(names: Iterable[str], editor: GraphEditor) -> dict[str, Operator]:
    return {name: editor.operators[name] for name in names}


def _readers(operator: Operator, editor: GraphEditor) -> list[Operator]:
    names = dict.fromkeys(name for value in operator.outputs for name in editor.readers[value])
    return [editor.operators[name] for name in names]


def _producers(operator: Operator, editor: GraphEditor) -> list[Operator]:
    found = [editor.producer(value) for value in operator.operands]
    return [op for op in found if op is not None]


def _dataflow(operators: Iterable[Operator]) -> list[Operator]:
    """The operators, each behind those that it reads."""
    left: Mapping[str, Operator] = {op.name: op for op in operators}
    made = {value for op in left.values() for value in op.outputs}
    known: set[str] = set()
    order: list[Operator] = []
    while left:
        ready = [op for op in left.values() if known.issuperset(made.intersection(op.operands))]
        assert ready, "operators form a cycle"
        order += ready
        known.update(value for op in ready for value in op.outputs)
        done = {op.name for op in ready}
        left = {name: op for name, op in left.items() if name not in done}
    return order
