"""Concatenations that need no copy: each operand is written where the result has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stages.compiler.draft import Draft
from stages.compiler.emit.regions import whole_region
from stages.compiler.emit.views import view_region
from stages.compiler.memory.lifetimes import concat_slices, view_operators
from stages.compiler.support import TILED
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, Region
from stages.recipe.decisions import Engine, Group
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind

_BOX_MOVES = (Kind.CONCAT, Kind.SLICE, Kind.EXPAND)


@dataclass(frozen=True, slots=True)
class ViewConcats:
    """A concatenation becomes a view, where every operand is made by a group of the device that can
    write it in place, lies there in runs that a transfer moves at full speed, and is read, if at
    all, by groups that read boxes. A copy would read and write all bytes once more, and launch.

    Runs when layouts are final: they say where the bytes lie.
    """

    name: str = "view_concats"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Take the engine from each such concatenation."""
        return _Joining(draft, spec).run()


@dataclass(slots=True)
class _Joining:
    draft: Draft
    spec: HardwareSpec
    operators: Mapping[str, Operator] = field(init=False)
    home: Mapping[str, Group] = field(init=False)
    makers: Mapping[str, Group] = field(init=False)
    consumers: Mapping[str, list[Operator]] = field(init=False)
    views: set[str] = field(init=False)

    def __post_init__(self) -> None:
        groups = self.draft.recipe.groups
        self.operators = {op.name: op for op in self.draft.graph.operators}
        self.home = {name: group for group in groups for name in group.operators}
        self.makers = {
            self.operators[group.operators[-1]].outputs[0]: group
            for group in groups
            if group.engine in TILED
        }
        self.consumers = self.draft.graph.consumers()
        known = view_operators(self.draft)
        self.views = {*known, *(op.inputs[0] for op in known.values())}

    def run(self) -> Draft:
        groups = []
        for group in self.draft.recipe.groups:
            operator = self.operators[group.operators[0]]
            if (
                group.engine is Engine.DMA
                and operator.kind is Kind.CONCAT
                and self._joins(operator)
            ):
                self.views.update(operator.operands)
                self.views.add(operator.outputs[0])
                group = replace(group, engine=Engine.NONE)
            groups.append(group)
        return self.draft.with_groups(groups)

    def _joins(self, operator: Operator) -> bool:
        """Whether each operand can be written where the result has it. What is a view already, or
        the source of one, stays as it is."""
        (result,), operands = operator.outputs, operator.operands
        recipe = self.draft.recipe
        if self.views & {result, *operands} or len(set(operands)) < len(operands):
            return False
        whole = whole_region(DDR, 0, recipe.graph.types[result], recipe.layout(result))
        for piece in concat_slices(operator, recipe.graph.types):
            (value,) = piece.outputs
            region = view_region(piece, whole, recipe.graph.types[value], recipe.layout(value))
            if region is None or not self._suits(value, region, operator):
                return False
        return True

    def _suits(self, value: str, region: Region, concat: Operator) -> bool:
        if value not in self.makers or value in self.draft.graph.outputs:
            return False
        if region.address % self.spec.dma.alignment_bytes:
            return False
        burst = max(self.spec.sram.burst_bytes, self.spec.ddr.burst_bytes)
        if region.contiguous_bytes < min(burst, region.size_bytes):
            return False
        return all(
            reader.name == concat.name or self._reads_boxes(reader, value)
            for reader in self.consumers[value]
        )

    def _reads_boxes(self, reader: Operator, value: str) -> bool:
        engine = self.home[reader.name].engine
        if engine is Engine.DMA:
            layout = self.draft.recipe.layout
            return reader.kind in _BOX_MOVES and layout(value) == layout(reader.outputs[0])
        if engine not in TILED:
            return False
        return reader.kind is not Kind.GATHER or reader.inputs[0] != value
