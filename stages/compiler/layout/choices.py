"""Which layouts a group may take: what the spec wants of its kind, or any that its kind keeps.

A choice is named by the layout as the spec spells it. Values get it in their own size: blocks of
channels are as large as their element type asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm

from stages.compiler.support import POINTWISE, REDUCTIONS, seed_of
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine, Group
from stages.recipe.graph import Operator, outer_operands
from stages.recipe.kinds import Kind
from stages.tensors import ROW_MAJOR, DType, Layout, LayoutKind, TensorType

_ANY_LAYOUT = POINTWISE | {
    *(Kind.MAX_POOL, Kind.AVERAGE_POOL, Kind.RESIZE, Kind.PAD, Kind.CONCAT, Kind.SLICE),
    *(Kind.INSTANCE_NORM, Kind.IDENTITY),
}
LEAST_RANK = 3
"""A layout other than row-major needs a channel axis and a spatial one."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What the groups of one draft may choose."""

    spec: HardwareSpec
    types: Mapping[str, TensorType]
    constants: frozenset[str]

    def of(self, group: Group, members: Sequence[Operator]) -> tuple[Layout, ...]:
        """The layouts of a group; of those that cost the same the first is taken, which isn't
        row-major: what follows a contraction keeps its layout."""
        if group.engine is Engine.HOST:
            return (ROW_MAJOR,)
        seed = seed_of(members)
        result = self.types[members[-1].outputs[0]]
        if result.rank < LEAST_RANK:
            return (ROW_MAJOR,)
        wanted = self.spec.layouts.get(seed.kind)
        if wanted is not None:
            return (wanted,)
        if not _keeps_layout(seed) or not self._inherits(members, result.rank):
            return (ROW_MAJOR,)
        others = dict.fromkeys(self.spec.layouts.values())
        legal = [item for item in others if item != ROW_MAJOR and self._legal(item, members)]
        return (*legal, ROW_MAJOR)

    def sized(self, choice: Layout, tensor_type: TensorType, rank: int) -> Layout:
        """A choice as one value takes it that is read or made beside a result of `rank`."""
        if tensor_type.rank != rank or rank < LEAST_RANK:
            return ROW_MAJOR
        return self._sized(choice, tensor_type.dtype)

    def result(self, choice: Layout, tensor_type: TensorType) -> Layout:
        """A choice as a value takes it that the group makes."""
        if tensor_type.rank < LEAST_RANK:
            return ROW_MAJOR
        return self._sized(choice, tensor_type.dtype)

    def image(self, members: Sequence[Operator]) -> str:
        """The input that a group's convolution reads as an image, row-major; empty where none."""
        seed = next((op for op in members if op.kind is Kind.CONV), None)
        if seed is None:
            return ""
        made_by = {op.outputs[0]: op for op in members if op.kind is Kind.DEQUANTIZE}
        value = seed.inputs[0]
        value = made_by[value].inputs[0] if value in made_by else value
        channels = self.types[value].shape[1]
        return value if channels <= self.spec.tensor_core.image_channels else ""

    def _sized(self, choice: Layout, dtype: DType) -> Layout:
        if choice.kind is not LayoutKind.NC1HWC2:
            return choice
        return Layout(choice.kind, self.spec.channel_quantum.get(dtype, choice.quantum))

    def _inherits(self, members: Sequence[Operator], rank: int) -> bool:
        """Whether a layout comes in at all: with an operand like the result, no constant."""
        return any(
            self.types[value].rank == rank
            for value in outer_operands(members)
            if value not in self.constants
        )

    def _legal(self, choice: Layout, members: Sequence[Operator]) -> bool:
        """Blocked channels survive a change of element type, a concat, a slice or a resize only
        when the blocks stay whole."""
        if choice.kind is not LayoutKind.NC1HWC2:
            return True
        seed, result = members[0], self.types[members[-1].outputs[0]]
        read = [self.types[value].dtype for value in seed.operands if value in self.types]
        quantum = lcm(*(self._sized(choice, dtype).quantum for dtype in (*read, result.dtype)))
        cuts: list[int] = []
        if seed.kind is Kind.CONCAT and seed.integer("axis") == 1:
            cuts = [self.types[value].shape[1] for value in seed.inputs[:-1]]
        elif seed.kind is Kind.SLICE:
            cuts = [seed.integers("starts")[1]]
            if seed.integers("steps")[1] != 1:
                return False
        elif seed.kind is Kind.RESIZE:
            return self.types[seed.inputs[0]].shape[1] == result.shape[1]
        return all(cut % quantum == 0 for cut in cuts)


def same_bytes(tensor_type: TensorType, first: Layout, second: Layout) -> bool:
    """Whether two layouts give a tensor the same bytes, so that no conversion is needed."""
    if first == second:
        return True
    if tensor_type.rank < LEAST_RANK:
        return False
    pointlike = all(extent == 1 for extent in tensor_type.shape[2:])
    whole_blocks = all(tensor_type.shape[1] % layout.quantum == 0 for layout in (first, second))
    return pointlike and whole_blocks


def _keeps_layout(seed: Operator) -> bool:
    if seed.kind in REDUCTIONS:
        return bool(seed.integer("keepdims"))
    if seed.kind is Kind.SLICE:
        return all(step > 0 for step in seed.integers("steps"))
    return seed.kind in _ANY_LAYOUT
