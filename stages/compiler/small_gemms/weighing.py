"""What a few operators of a graph would cost by themselves, grouped as they would be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.group_prices import GroupPrices, structure
from stages.compiler.passes.fuse import Fuse, PrivatizeDequantize
from stages.compiler.support import engine_of
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine, Group, Recipe, Target
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind


@dataclass(frozen=True, slots=True)
class Weigher:
    """Prices parts of graphs for one device."""

    spec: HardwareSpec
    prices: GroupPrices

    def cycles(self, operators: Sequence[Operator], editor: GraphEditor) -> int | None:
        """Cycles of operators that stand in an editor, as groups one after the other; None where
        one of them would be the host's."""
        part = self._part(operators, editor)
        by_name = {op.name: op for op in part.graph.operators}
        constants = frozenset(part.constants)
        total = 0
        for group in part.recipe.groups:
            members = [by_name[name] for name in group.operators]
            engine = group.engine
            if members[0].kind is Kind.SLICE and self._is_view(members[0], editor):
                engine = Engine.NONE
            cost = self.prices.cycles(members, part.graph.types, constants, engine)
            if cost is None:
                return None
            total += cost
        return total

    def likeness(self, operators: Sequence[Operator], editor: GraphEditor) -> object:
        """What the price of operators depends on, names left out."""
        values = dict.fromkeys(v for op in operators for v in (*op.operands, *op.outputs))
        types = {value: editor.types[value] for value in values}
        return structure(operators, types, frozenset(editor.constants))

    def _part(self, operators: Sequence[Operator], editor: GraphEditor) -> Draft:
        made = {value for op in operators for value in op.outputs}
        read = dict.fromkeys(value for op in operators for value in op.operands)
        constants = {value: editor.constants[value] for value in read if value in editor.constants}
        inputs = tuple(value for value in read if value not in made and value not in constants)
        inner = {op.name for op in operators}
        outputs = tuple(
            value
            for value in made
            if value in editor.outputs or not inner.issuperset(editor.readers[value])
        )
        types = {value: editor.types[value] for value in (*read, *sorted(made - read.keys()))}
        ordered = _dataflow(operators, made)
        graph = Graph("part", inputs, tuple(sorted(outputs)), tuple(constants), types, ordered)
        groups = tuple(Group(op.name, (op.name,)) for op in ordered)
        draft = Draft(Recipe(graph, Target(self.spec.name, ""), groups), constants)
        return Fuse().run(PrivatizeDequantize().run(draft, self.spec), self.spec)

    def _is_view(self, operator: Operator, editor: GraphEditor) -> bool:
        """Whether a slice needs no copy: only groups of the device read it."""
        if operator.outputs[0] in editor.outputs:
            return False
        readers = [editor.operators[name] for name in editor.readers[operator.outputs[0]]]
        return all(engine_of(reader, self.spec) is not Engine.HOST for reader in readers)


def _dataflow(operators: Iterable[Operator], made: set[str]) -> tuple[Operator, ...]:
    """The operators, each behind those that it reads."""
    left = list(dict.fromkeys(op.name for op in operators))
    by_name = {op.name: op for op in operators}
    known: set[str] = set()
    order: list[Operator] = []
    while left:
        ready = [n for n in left if known.issuperset(made.intersection(by_name[n].operands))]
        assert ready, "operators form a cycle"
        for name in ready:
            order.append(by_name[name])
            known.update(by_name[name].outputs)
        left = [name for name in left if name not in set(ready)]
    return tuple(order)
