"""Slices that need no copy: their readers read the box where it lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stages.compiler.draft import Draft
from stages.compiler.emit.regions import whole_region
from stages.compiler.emit.views import view_region
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, Region
from stages.recipe.decisions import Engine, Group
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind


@dataclass(frozen=True, slots=True)
class ViewSlices:
    """A slice whose bytes lie as a box in its source becomes a view, where every reader is a group
    of the device that reads boxes. A copy would write and read the bytes once more, and launch.

    Runs when layouts are final: they say where the bytes lie.
    """

    name: str = "view_slices"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Take the engine from each such slice."""
        return _Viewing(draft, spec).run()


@dataclass(slots=True)
class _Viewing:
    draft: Draft
    spec: HardwareSpec
    operators: Mapping[str, Operator] = field(init=False)
    home: Mapping[str, Group] = field(init=False)
    consumers: Mapping[str, list[Operator]] = field(init=False)
    regions: dict[str, Region] = field(default_factory=dict)
    views: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        graph = self.draft.graph
        self.operators = {op.name: op for op in graph.operators}
        self.home = {name: group for group in self.draft.recipe.groups for name in group.operators}
        self.consumers = graph.consumers()

    def run(self) -> Draft:
        groups = []
        for group in self.draft.recipe.groups:
            operator = self.operators[group.operators[0]]
            if group.engine is Engine.NONE:
                self._follow(operator)
            elif group.engine is Engine.DMA and operator.kind is Kind.SLICE:
                region = self._seen(operator)
                if region is not None and self._read_in_place(operator.outputs[0], region):
                    self.regions[operator.outputs[0]] = region
                    group = replace(group, engine=Engine.NONE)
            groups.append(group)
        return self.draft.with_groups(groups)

    def _follow(self, operator: Operator) -> None:
        """A view of what may be a view with gaps itself."""
        region = self._seen(operator)
        if region is not None:
            self.regions[operator.outputs[0]] = region

    def _seen(self, operator: Operator, source: Region | None = None) -> Region | None:
        """Where the result lies as a view."""
        value = operator.outputs[0]
        source = source or self._region(operator.inputs[0])
        if operator.inputs[0] in self.draft.constants:
            return None
        recipe = self.draft.recipe
        return view_region(operator, source, recipe.graph.types[value], recipe.layout(value))

    def _region(self, value: str) -> Region:
        """Where a value lies, from the beginning of its storage."""
        if value not in self.regions:
            recipe = self.draft.recipe
            self.regions[value] = whole_region(
                DDR, 0, recipe.graph.types[value], recipe.layout(value)
            )
        return self.regions[value]

    def _read_in_place(self, value: str, region: Region) -> bool:
        """Whether everything that reads a value can read it there, and the caller doesn't."""
        if value in self.draft.graph.outputs or region.address % self.spec.dma.alignment_bytes:
            return False
        return all(self._reads_in_place(op, value, region) for op in self.consumers[value])

    def _reads_in_place(self, reader: Operator, value: str, region: Region) -> bool:
        group = self.home[reader.name]
        result = reader.outputs[0]
        match group.engine:
            case Engine.TENSOR_CORE | Engine.VECTOR:
                return reader.kind is not Kind.GATHER or reader.inputs[0] != value
            case Engine.DMA:
                layouts = self.draft.recipe.layout(value), self.draft.recipe.layout(result)
                moves = reader.kind in (Kind.CONCAT, Kind.SLICE, Kind.EXPAND)
                return moves and layouts[0] == layouts[1]
            case Engine.NONE:
                inner = self._seen(reader, region)
                return inner is not None and self._read_in_place(result, inner)
            case _:
                return False
