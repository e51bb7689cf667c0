"""What a group would cost, asked before groups, types and layouts are decided.

A rewrite that has to pay is weighed by the one cost model: the group is put together as `fuse`
would make it, in the types and the layout that its device would give it, and its best tile is
searched. What stays in the SRAM isn't known yet: small values are taken to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from stages.compiler.structure import structure
from stages.compiler.support import device_type, engine_of, refusal, seed_of
from stages.compiler.tiling.search import Search
from stages.compiler.tiling.workload import Workload
from stages.hardware.cost import launch_cycles, transfer_cost
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, SRAM
from stages.recipe.decisions import Engine, Group
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import ROW_MAJOR, Layout, LayoutKind, TensorType

_RESIDENT_SHARE = 8  # a value of an eighth of the SRAM or less is taken to stay there


@dataclass(frozen=True, slots=True)
class GroupPrices:
    """Prices of groups on one device; groups that differ in names alone are priced once."""

    spec: HardwareSpec
    known: dict[object, int | None] = field(default_factory=dict)

    def cycles(
        self,
        members: Sequence[Operator],
        types: Mapping[str, TensorType],
        constants: frozenset[str],
        engine: Engine | None = None,
    ) -> int | None:
        """Estimated cycles of a group of operators, the launch included; None where no tile of it
        fits the device, or where it would be the host's. `engine`: where not the spec's own; a
        slice with engine `none` is a view, and costs what its gaps cost whoever reads it."""
        seed = seed_of(members)
        chosen = engine or engine_of(seed, self.spec)
        if chosen is Engine.NONE and seed.kind is not Kind.SLICE:
            return 0
        if chosen is Engine.HOST or self._refused(seed, members, types):
            return None
        values = dict.fromkeys(value for op in members for value in (*op.operands, *op.outputs))
        held = {value: device_type(types[value], self.spec) for value in values}
        key = (structure(members, held, constants), chosen)
        if key not in self.known:
            self.known[key] = (
                self._moved(seed, held, chosen)
                if chosen in (Engine.DMA, Engine.NONE)
                else self._tiled(members, seed, held, constants, chosen)
            )
        return self.known[key]

    def _tiled(
        self,
        members: Sequence[Operator],
        seed: Operator,
        held: Mapping[str, TensorType],
        constants: frozenset[str],
        engine: Engine,
    ) -> int | None:
        layouts = {value: self._layout(seed, item) for value, item in held.items()}
        group = Group(seed.name, tuple(op.name for op in members), engine)
        work = Workload(group, tuple(members), held, layouts, constants & held.keys())
        resident = frozenset(
            value for value in held if value not in constants and self._stays(held[value])
        )
        best = Search(
            work, self.spec, resident & {*work.operands, work.result} - work.tables
        ).cheapest(self.spec.sram.usable_bytes)
        return None if best is None else best.cycles

    def _stays(self, held: TensorType) -> bool:
        """Whether a value is small enough to be in the SRAM already, most likely."""
        return held.size_bytes * _RESIDENT_SHARE <= self.spec.sram.usable_bytes

    def _layout(self, seed: Operator, tensor_type: TensorType) -> Layout:
        wanted = self.spec.layouts.get(seed.kind, ROW_MAJOR)
        if tensor_type.rank < 3:
            return ROW_MAJOR
        if wanted.kind is not LayoutKind.NC1HWC2:
            return wanted
        return Layout(wanted.kind, self.spec.channel_quantum.get(tensor_type.dtype, wanted.quantum))

    def _refused(
        self, seed: Operator, members: Sequence[Operator], types: Mapping[str, TensorType]
    ) -> bool:
        """Whether the device can't run the operator that does the work, in the types that enter
        and leave the group."""
        stored = {
            op.outputs[0]: types[op.inputs[0]] for op in members if op.kind is Kind.DEQUANTIZE
        }
        operands = [
            stored.get(value) or device_type(types[value], self.spec) for value in seed.operands
        ]
        result = device_type(types[members[-1].outputs[0]], self.spec)
        return bool(refusal(seed, operands, result, self.spec))

    def _moved(self, operator: Operator, held: Mapping[str, TensorType], engine: Engine) -> int:
        """A copy by DMA alone, or what reading in place costs more than reading an unbroken run."""
        result = held[operator.outputs[0]]
        size = run = result.size_bytes
        if operator.kind is Kind.SLICE:
            run = _run_bytes(held[operator.inputs[0]], result)
        if engine is Engine.NONE:
            if self._stays(held[operator.inputs[0]]):
                return 0
            read = transfer_cost(self.spec, size, run, DDR, SRAM).channel_cycles
            return read - transfer_cost(self.spec, size, size, DDR, SRAM).channel_cycles
        cost = transfer_cost(self.spec, size, run, DDR, DDR)
        launch = launch_cycles(self.spec, Engine.DMA)
        return launch + cost.latency_cycles + max(cost.channel_cycles, cost.port_cycles)


def _run_bytes(whole: TensorType, part: TensorType) -> int:
    """The unbroken run of a row-major box within its tensor."""
    axis = whole.rank
    while axis and part.shape[axis - 1] == whole.shape[axis - 1]:
        axis -= 1
    return prod(part.shape[max(0, axis - 1) :]) * part.dtype.size_bytes
