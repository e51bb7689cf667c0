"""A draft as a layout problem: groups are nodes, values edges.

A value that several groups read is converted once for all that want it in one layout, so it is a
node of its own between them: its choices are the layout that it is made in, and the set of those
that it is converted to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import inf

from stages.compiler.draft import Draft
from stages.compiler.layout.choices import Choices, same_bytes
from stages.compiler.layout.prices import LayoutPrices
from stages.compiler.layout.problem import Edge, Matrix, Problem
from stages.recipe.decisions import Engine, Group
from stages.recipe.graph import Operator, outer_operands
from stages.tensors import ROW_MAJOR, Layout

OUTSIDE = -1
"""The group number of the caller: it gives the inputs and reads the outputs, all row-major."""


@dataclass(frozen=True, slots=True)
class Network:
    """A problem, and the layouts that the choices of its first nodes, one a group, stand for."""

    problem: Problem
    choices: tuple[tuple[Layout, ...], ...]

    def layouts(self, chosen: Sequence[int]) -> list[Layout]:
        """The layout of each group."""
        return [options[choice] for options, choice in zip(self.choices, chosen, strict=False)]


def network(draft: Draft, choices: Choices, prices: LayoutPrices) -> Network:
    """The problem of a draft whose groups, order and types are final."""
    return _Network(draft, choices, prices).build()


def operands_in_memory(
    members: Sequence[Operator], group: Group, image: str, constants: Mapping[str, object]
) -> list[str]:
    """The values that a group reads where they lie: constants of tiled groups are packed ahead of
    time, in whatever layout they are wanted, and an image is read as it comes."""
    return [
        value
        for value in outer_operands(members)
        if value != image and (value not in constants or group.engine is Engine.DMA)
    ]


@dataclass(slots=True)
class _Network:
    draft: Draft
    choices: Choices
    prices: LayoutPrices
    costs: list[tuple[float, ...]] = field(default_factory=list)
    edges: dict[tuple[int, int], Matrix] = field(default_factory=dict)
    options: list[tuple[Layout, ...]] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)
    wants: dict[str, list[tuple[int, tuple[Layout, ...]]]] = field(default_factory=dict)

    def build(self) -> Network:
        graph = self.draft.graph
        by_name = {op.name: op for op in graph.operators}
        for number, group in enumerate(self.draft.recipe.groups):
            members = [by_name[name] for name in group.operators]
            self._group(number, group, members)
        for output in graph.outputs:
            self.wants.setdefault(output, []).append((OUTSIDE, (ROW_MAJOR,)))
        for value, wants in self.wants.items():
            if value not in self.draft.constants:
                self._value(value, wants)
        edges = tuple(Edge(*pair, costs) for pair, costs in self.edges.items())
        return Network(Problem(tuple(self.costs), edges), tuple(self.options))

    def _group(self, number: int, group: Group, members: list[Operator]) -> None:
        options = self.choices.of(group, members)
        types = self.draft.graph.types
        result = types[members[-1].outputs[0]]
        image = self.choices.image(members)
        read = operands_in_memory(members, group, image, self.draft.constants)
        moves = group.engine is not Engine.NONE
        self.options.append(options)
        self.costs.append(
            tuple(
                float(
                    self.prices.padding(
                        [
                            (result, self.choices.result(option, result)),
                            *(
                                (
                                    types[value],
                                    self.choices.sized(option, types[value], result.rank),
                                )
                                for value in read
                            ),
                        ]
                    )
                    if moves and len(options) > 1
                    else 0
                )
                for option in options
            )
        )
        for value in read:
            wanted = tuple(
                self.choices.sized(option, types[value], result.rank) for option in options
            )
            self.wants.setdefault(value, []).append((number, wanted))
        for op in members:
            self.made.update(dict.fromkeys(op.outputs, number))

    def _value(self, value: str, wants: list[tuple[int, tuple[Layout, ...]]]) -> None:
        maker = self.made.get(value, OUTSIDE)
        held = self.draft.graph.types[value]
        given: tuple[Layout, ...] = (ROW_MAJOR,)
        if maker != OUTSIDE:
            given = tuple(self.choices.result(option, held) for option in self.options[maker])
        if len(set(given)) == 1 and all(set(wanted) == set(given) for _, wanted in wants):
            return
        if len(wants) == 1:
            ((reader, wanted),) = wants
            costs = tuple(
                tuple(float(self.prices.conversion(held, one, other)) for other in wanted)
                for one in given
            )
            self._join(maker, reader, costs)
            return
        self._shared(value, maker, given, wants)

    def _shared(
        self,
        value: str,
        maker: int,
        given: tuple[Layout, ...],
        wants: list[tuple[int, tuple[Layout, ...]]],
    ) -> None:
        """A node for a value of several readers."""
        held = self.draft.graph.types[value]
        targets = list(dict.fromkeys(layout for _, wanted in wants for layout in wanted))
        states: list[tuple[Layout, frozenset[Layout]]] = []
        costs = []
        for layout in dict.fromkeys(given):
            others = [item for item in targets if not same_bytes(held, layout, item)]
            for count in range(len(others) + 1):
                for chosen in combinations(others, count):
                    states.append((layout, frozenset(chosen)))
                    costs.append(
                        float(sum(self.prices.conversion(held, layout, item) for item in chosen))
                    )
        node = self._node(tuple(costs))
        self._join(
            maker,
            node,
            tuple(tuple(0.0 if one == state[0] else inf for state in states) for one in given),
        )
        for reader, wanted in wants:
            self._join(
                node,
                reader,
                tuple(
                    tuple(
                        0.0 if item in state[1] or same_bytes(held, state[0], item) else inf
                        for item in wanted
                    )
                    for state in states
                ),
            )

    def _node(self, costs: tuple[float, ...]) -> int:
        self.costs.append(costs)
        return len(self.costs) - 1

    def _join(self, first: int, second: int, costs: Matrix) -> None:
        """Add costs between two nodes. What is fixed outside is a cost of the other node alone."""
        if first == OUTSIDE and second == OUTSIDE:
            return
        if first == OUTSIDE or second == OUTSIDE:
            node = second if first == OUTSIDE else first
            row = costs[0] if first == OUTSIDE else tuple(row[0] for row in costs)
            self.costs[node] = tuple(a + b for a, b in zip(self.costs[node], row, strict=True))
            return
        if first > second:
            first, second, costs = second, first, tuple(zip(*costs, strict=True))
        known = self.edges.get((first, second))
        if known is not None:
            costs = tuple(
                tuple(a + b for a, b in zip(one, other, strict=True))
                for one, other in zip(known, costs, strict=True)
            )
        self.edges[first, second] = costs
