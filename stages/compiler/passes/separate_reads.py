"""Where a group reads one value in two ways, each way gets a name, and so a tile, of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stages.compiler.draft import Draft, fresh_name
from stages.compiler.support import COMPARISONS, POINTWISE, TILED, seed_of
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine, Group
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array, Layout, TensorType

_TAIL = -1
"""Stands for the reads of operators behind the one that does the work."""


@dataclass(frozen=True, slots=True)
class SeparateReads:
    """A convolution whose own operand is added to its result reads a halo of it for the one, and
    none for the other; a product of a matrix with itself reads rows and columns. Views separate
    them: they cost nothing, and tiles are cut by name.
    """

    name: str = "separate_reads"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Put a view (of a constant: a copy) before each group that reads a value in two ways."""
        return _Separation(draft).run()


@dataclass(slots=True)
class _Separation:
    draft: Draft
    types: dict[str, TensorType] = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    named: set[str] = field(default_factory=set)

    def run(self) -> Draft:
        recipe, graph = self.draft.recipe, self.draft.graph
        self.types, self.layouts = dict(graph.types), dict(recipe.layouts)
        self.constants = dict(self.draft.constants)
        by_name = {op.name: op for op in graph.operators}
        self.named = {*by_name}
        for group in recipe.groups:
            members = [by_name[name] for name in group.operators]
            if group.engine in TILED:
                members = self._separated(members)
            self.operators += members
            self.groups.append(group)
        edited = replace(
            graph,
            constants=tuple(self.constants),
            types=self.types,
            operators=tuple(self.operators),
        )
        changed = replace(recipe, graph=edited, groups=tuple(self.groups), layouts=self.layouts)
        return replace(self.draft, recipe=changed, constants=self.constants)

    def _separated(self, members: list[Operator]) -> list[Operator]:
        inside = {value for member in members for value in member.outputs}
        names: dict[tuple[str, int], str] = {}
        taken: set[str] = set()
        separated = []
        for member, ways in zip(members, _ways(members), strict=True):
            inputs = []
            for value, way in zip(member.inputs, ways, strict=True):
                if not value or value in inside or self.types[value].element_count == 1:
                    inputs.append(value)
                    continue
                if (value, way) not in names:
                    names[value, way] = self._again(value) if value in taken else value
                    taken.add(value)
                inputs.append(names[value, way])
            separated.append(replace(member, inputs=tuple(inputs)))
        return separated

    def _again(self, value: str) -> str:
        name = fresh_name(f"{value}.again", self.types)
        self.types[name] = self.types[value]
        if value in self.layouts:
            self.layouts[name] = self.layouts[value]
        if value in self.constants:
            self.constants[name] = self.constants[value]
        else:
            view = fresh_name(f"view.{name}", self.named)
            self.named.add(view)
            self.operators.append(Operator(view, Kind.IDENTITY, (value,), (name,)))
            self.groups.append(Group(view, (view,), Engine.NONE))
        return name


def _ways(members: Sequence[Operator]) -> list[list[int]]:
    """For each operand of each member, the way in which it is read: the place among the operands
    of the operator that does the work, or behind it."""
    seed = seed_of(members)
    if seed.kind in POINTWISE | COMPARISONS:
        return [[_TAIL] * len(member.inputs) for member in members]
    feeds: dict[str, int] = {}
    found: list[list[int]] = []
    for member in reversed(members):
        if member is seed:
            ways = list(range(len(member.inputs)))
        else:
            ways = [feeds.get(member.outputs[0], _TAIL)] * len(member.inputs)
        feeds.update((value, way) for value, way in zip(member.inputs, ways, strict=True) if value)
        found.append(ways)
    return found[::-1]
