"""What layouts cost: the transposes between them, and the padding that they move.

All of it comes from `hardware/cost.py`. A transpose is a group of its own: it is launched, goes
through the vector unit, and moves its value in and out; it never costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from stages.compiler.layout.choices import same_bytes
from stages.hardware.cost import launch_cycles, transfer_cost, vector_cycles
from stages.hardware.spec import HardwareSpec, SyncMode
from stages.plan.instructions import DDR, SRAM
from stages.recipe.decisions import Engine
from stages.recipe.kinds import Kind
from stages.tensors import Layout, TensorType

_RESIDENT_SHARE = 4
"""A value of at most a fourth of the SRAM is taken to stay there: it isn't moved."""


@dataclass(frozen=True, slots=True)
class LayoutPrices:
    """Prices on one device; equal conversions are priced once."""

    spec: HardwareSpec
    known: dict[tuple[TensorType, Layout, Layout], int] = field(default_factory=dict)

    def conversion(self, tensor_type: TensorType, given: Layout, wanted: Layout) -> int:
        """Cycles of the transpose of a value from one layout to another; 0 where both give it the
        same bytes, at least 1 where not."""
        if same_bytes(tensor_type, given, wanted):
            return 0
        key = tensor_type, given, wanted
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._conversion(tensor_type, given, wanted)
        return found

    def padding(self, values: Iterable[tuple[TensorType, Layout]]) -> int:
        """Cycles that a group's values take on the way in and out more than their own elements."""
        extra = 0
        for tensor_type, layout in values:
            size = _size_bytes(tensor_type, layout)
            if size != tensor_type.size_bytes and not self._stays(tensor_type, layout):
                extra += self._moving(size) - self._moving(tensor_type.size_bytes)
        return extra

    def _conversion(self, tensor_type: TensorType, given: Layout, wanted: Layout) -> int:
        spec = self.spec
        width = tensor_type.dtype.size_bytes
        work = vector_cycles(spec.vector, (Kind.RELAYOUT,), tensor_type.element_count, width)
        moved = sum(
            self._moving(_size_bytes(tensor_type, layout))
            for layout in (given, wanted)
            if not self._stays(tensor_type, layout)
        )
        launch = launch_cycles(spec, Engine.VECTOR)
        if spec.driver.sync_mode is SyncMode.STRICT:
            return max(1, launch + work + moved)
        return max(1, launch + max(work, moved))

    def _stays(self, tensor_type: TensorType, layout: Layout) -> bool:
        size = _size_bytes(tensor_type, layout)
        return size * _RESIDENT_SHARE <= self.spec.sram.usable_bytes

    def _moving(self, size_bytes: int) -> int:
        return transfer_cost(self.spec, size_bytes, size_bytes, DDR, SRAM).channel_cycles


def _size_bytes(tensor_type: TensorType, layout: Layout) -> int:
    return prod(layout.physical_shape(tensor_type.shape)) * tensor_type.dtype.size_bytes
