"""What a rewrite does to the plan of the operators that it changes and of those around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from stages.compiler.draft import GraphEditor
from stages.compiler.structure import structure
from stages.compiler.support import engine_of
from stages.compiler.trial_result import Trial
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import TensorType

if TYPE_CHECKING:
    from stages.compiler.group_prices import GroupPrices

_PASSING = frozenset({Kind.DEQUANTIZE, Kind.RESHAPE, Kind.IDENTITY})


@dataclass(frozen=True)
class Weigher:
    """Tries parts of graphs on one device; those that differ in names alone are tried once."""

    spec: HardwareSpec
    known: dict[object, Trial | None] = field(default_factory=dict)

    @cached_property
    def prices(self) -> GroupPrices:
        """What groups cost."""
        # Loads all of tiling: most networks have nothing to weigh.
        from stages.compiler.group_prices import GroupPrices

        return GroupPrices(self.spec)

    def cycles(self, operators: Sequence[Operator], editor: GraphEditor) -> int | None:
        """The prices of operators as groups, one after the other; None where the host takes one.
        Quick, and blind to what runs side by side."""
        from stages.compiler.trial import grouped, part_of

        part = grouped(part_of(operators, editor, self.spec), self.spec)
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

    def _is_view(self, operator: Operator, editor: GraphEditor) -> bool:
        """Whether a slice needs no copy: only groups of the device read it, behind reshapes and
        changes of number format that go where their readers go."""
        pending = [operator]
        while pending:
            (value,) = pending.pop().outputs
            readers = [editor.operators[name] for name in editor.readers[value]]
            if value in editor.outputs or any(
                engine_of(reader, self.spec) is Engine.HOST for reader in readers
            ):
                return False
            pending += [reader for reader in readers if reader.kind in _PASSING]
        return True

    def trial(self, operators: Sequence[Operator], editor: GraphEditor) -> Trial | None:
        """What operators cost where they stand in an editor; None where they don't fit."""
        # Loads all of emission: most networks have nothing to try.
        from stages.compiler.trial import part_of, surroundings, tried

        part = part_of(surroundings(operators, editor), editor, self.spec)
        graph, constants = part.graph, frozenset(part.constants)
        key = (
            structure(graph.operators, graph.types, constants),
            _places(graph.outputs, graph.types),
        )
        if key not in self.known:
            self.known[key] = tried(part, self.spec)
        return self.known[key]


def _places(values: Sequence[str], types: Mapping[str, TensorType]) -> tuple[int, ...]:
    order = list(types)
    return tuple(order.index(value) for value in values)
