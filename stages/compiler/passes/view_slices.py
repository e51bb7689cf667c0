"""Slices and transposes that need no copy: others read, or write, the bytes where they lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

from stages.compiler.draft import Draft
from stages.compiler.emit.regions import whole_region
from stages.compiler.emit.views import view_region
from stages.compiler.memory.lifetimes import inverse_transpose
from stages.compiler.support import TILED
from stages.hardware.cost import launch_cycles, transfer_cost, vector_cycles
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, SRAM, Region
from stages.recipe.decisions import Engine, Group
from stages.recipe.explanation import Alternative, Weighed
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind

_RESIDENT_SHARE = 8  # a value of an eighth of the SRAM or less is taken to stay there


@dataclass(frozen=True, slots=True)
class ViewSlices:
    """A slice whose bytes lie as a box in its source becomes a view, where every reader is a group
    of the device that reads boxes. A copy would write and read the bytes once more, and launch.

    So does a transpose that keeps runs of elements together, as one of attention's heads does:
    its readers walk its source in another order, or the group before it writes in that order.
    It is a view where the shorter runs cost less than the transpose.

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
    producers: Mapping[str, Operator] = field(init=False)
    weighed: list[Weighed] = field(default_factory=list)

    def __post_init__(self) -> None:
        graph = self.draft.graph
        self.operators = {op.name: op for op in graph.operators}
        self.home = {name: group for group in self.draft.recipe.groups for name in group.operators}
        self.consumers = graph.consumers()
        self.producers = graph.producers()

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
            elif self._is_transpose(group, operator) and self._walked(operator):
                group = replace(group, engine=Engine.NONE)
            groups.append(group)
        return self.draft.with_groups(groups).with_weighed(self.weighed)

    def _is_transpose(self, group: Group, operator: Operator) -> bool:
        alone = len(group.operators) == 1 and operator.kind is Kind.TRANSPOSE
        return alone and group.engine is Engine.VECTOR

    def _walked(self, operator: Operator) -> bool:
        """Whether a transpose is a view, and then where its values lie from now on."""
        (source,), (result,) = operator.inputs, operator.outputs
        producer = self.producers.get(source)
        home = self.home[producer.name] if producer is not None else None
        tiled = home is not None and home.engine in TILED
        if tiled and len(self.consumers[source]) == 1 and source not in self.draft.graph.outputs:
            inverse = inverse_transpose(operator)
            region = self._seen(inverse)
            if region is None or not self._pays(operator, region, 1):
                return False
            self.regions[source] = region
            return True
        region = self._seen(operator)
        readers = len(self.consumers[result])
        if region is None or not self._read_in_place(result, region):
            return False
        if not self._pays(operator, region, readers):
            return False
        self.regions[result] = region
        return True

    def _pays(self, operator: Operator, region: Region, users: int) -> bool:
        """Whether walking in short runs costs its users less than the transpose."""
        spec = self.spec
        run, size = region.contiguous_bytes, region.size_bytes
        if run < spec.sram.burst_bytes:
            return False
        count = prod(region.shape)
        width = region.dtype.size_bytes
        copied = launch_cycles(spec, Engine.VECTOR)
        copied += vector_cycles(spec.vector, [operator.kind], count, width)
        walked = 0
        if size * _RESIDENT_SHARE > spec.sram.usable_bytes:
            short = transfer_cost(spec, size, run, DDR, SRAM).channel_cycles
            long = transfer_cost(spec, size, size, DDR, SRAM).channel_cycles
            walked, copied = users * (short - long), copied + 2 * long
        self.weighed.append(
            Weighed(
                operator.name,
                "view",
                (
                    Alternative("transpose", copied, "a group of its own"),
                    Alternative("view", walked, f"runs of {run} B, {users} groups use them"),
                ),
                "view" if walked < copied else "transpose",
                "what short runs cost their users, beside the transpose",
            )
        )
        return walked < copied

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
