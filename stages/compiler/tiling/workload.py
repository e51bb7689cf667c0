"""A group as work to be cut: operands, what a box of the result needs of them, arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd, lcm, prod

from stages.compiler.draft import Draft
from stages.compiler.place_names import place_stems
from stages.compiler.support import REDUCTIONS, TILED, seed_of
from stages.compiler.tiling.footprint import Span, cut_axis, operand_boxes, whole_axes
from stages.recipe.decisions import Group
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import CONTRACTIONS, Kind
from stages.tensors import Box, DType, Layout, LayoutKind, Shape, TensorType, box_shape

Boxes = Mapping[str, Box]

PARTIAL = {
    Kind.CONV: Kind.ADD,
    Kind.MATMUL: Kind.ADD,
    Kind.REDUCE_SUM: Kind.ADD,
    Kind.REDUCE_MAX: Kind.MAXIMUM,
    Kind.REDUCE_MIN: Kind.MINIMUM,
}
"""Kinds that can be computed in parts along an axis, and how two parts become one."""


@dataclass(frozen=True, slots=True)
class Product:
    """The contraction of one tile: `groups` products of m x k by k x n; see `Contraction`."""

    m: int
    n: int
    k: int
    groups: int
    taps: int


@dataclass(frozen=True)
class Workload:
    """One device group. `operands` are the values read from outside, constants included.

    `alike` is an earlier group that differs in names alone, where there is one: what is asked of
    both is worked out once. `stem`: what the names of its places in memory begin with.
    """

    group: Group
    members: tuple[Operator, ...]
    types: Mapping[str, TensorType]
    layouts: Mapping[str, Layout]
    constants: frozenset[str]
    head_extent: int = 0
    stem: str = field(default="", compare=False)
    alike: Workload | None = field(default=None, compare=False)

    @property
    def first(self) -> Workload:
        """The first group that is like this one."""
        return self.alike or self

    @cached_property
    def own_names(self) -> Mapping[str, str]:
        """The names of the values of the first group that is like this one, and their own here."""
        return dict(zip(self.first.names, self.names, strict=True))

    @cached_property
    def seed(self) -> Operator:
        """The operator that does the work."""
        return seed_of(self.members)

    @cached_property
    def result(self) -> str:
        """The one value that leaves the group."""
        return self.members[-1].outputs[0]

    @cached_property
    def result_type(self) -> TensorType:
        """The type of the result."""
        return self.types[self.result]

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """The values read from outside, once each, in order of first use."""
        inside = {value for member in self.members for value in member.outputs}
        read = dict.fromkeys(value for member in self.members for value in member.operands)
        return tuple(value for value in read if value not in inside)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every value of the group, in order of first mention: alike groups have theirs alike."""
        named = (value for op in self.members for value in (*op.inputs, *op.outputs) if value)
        return tuple(dict.fromkeys(named))

    @cached_property
    def tables(self) -> frozenset[str]:
        """Operands that the vector unit reads in place, element by element: gather's tables."""
        return frozenset({self.seed.inputs[0]} if self.seed.kind is Kind.GATHER else ())

    @cached_property
    def reduction_extent(self) -> int:
        """How far the contracted or reduced axis can be cut: 0 where it can't."""
        if self.seed.kind is Kind.MATMUL:
            return self.types[self.seed.inputs[0]].shape[-1]
        if self.seed.kind is Kind.CONV and self.seed.integer("group") == 1:
            return self.types[self.seed.inputs[1]].shape[1]
        if self.seed.kind in PARTIAL.keys() & REDUCTIONS:
            shape = self.types[self.seed.inputs[0]].shape
            return shape[cut_axis(self.seed, shape)]
        return 0

    @cached_property
    def operand_dtype(self) -> DType:
        """The type in which a contraction multiplies: that of its operands before any dequantize,
        where both are integers; 8-bit integers of either sign multiply alike and count as i8."""
        stored = {
            member.outputs[0]: self.types[member.inputs[0]].dtype
            for member in self.members
            if member.kind is Kind.DEQUANTIZE
        }
        held = [stored.get(value) or self.types[value].dtype for value in self.seed.inputs[:2]]
        if any(dtype.is_float for dtype in held):
            return self.types[self.seed.inputs[0]].dtype
        return DType.I8 if held[0] is DType.U8 else held[0]

    def layout(self, value: str) -> Layout:
        """The layout of a value."""
        return self.layouts[value]

    @cached_property
    def _backwards(self) -> tuple[tuple[Operator, list[TensorType | None], TensorType, bool], ...]:
        """The members from the last, with the types of what each reads and makes, and whether it
        is the seed."""
        return tuple(
            (
                member,
                [self.types[name] if name else None for name in member.inputs],
                self.types[member.outputs[0]],
                member is self.seed,
            )
            for member in reversed(self.members)
        )

    @cached_property
    def _known_boxes(self) -> dict[tuple[Box, Span | None], Boxes]:
        """Answers of `boxes`: tiles are priced, packed, tried and emitted, and ask each time."""
        return {}

    def boxes(self, box: Box, reduction: Span | None = None) -> Boxes:
        """The box of every value of the group that a box of the result needs."""
        known = self._known_boxes.get((box, reduction))
        if known is None:
            known = self._known_boxes[box, reduction] = self._boxes(box, reduction)
        return known

    def _boxes(self, box: Box, reduction: Span | None) -> Boxes:
        if self.alike is not None:
            names = self.own_names
            return {names[value]: part for value, part in self.alike.boxes(box, reduction).items()}
        found = {self.result: box}
        for member, types, result, is_seed in self._backwards:
            span = reduction if is_seed else None
            needed = operand_boxes(member, found[member.outputs[0]], types, result, span)
            for value, part in zip(member.inputs, needed, strict=True):
                if value and part is not None:
                    known = found.get(value)
                    found[value] = part if known is None else _union(known, part)
        return found

    def inner_extents(self, axis: int) -> list[int]:
        """Extents below the granularity that tiles may have all the same: parts of one group of a
        grouped convolution, where each group begins with a whole block of channels."""
        if axis != 1 or self.seed.kind is not Kind.CONV or self.seed.integer("group") == 1:
            return []
        blocked = self._channel_block()
        per_group = self.result_type.shape[1] // self.seed.integer("group")
        if self.types[self.seed.inputs[1]].shape[1] % blocked:
            return []
        return [extent for extent in range(blocked, per_group, blocked) if per_group % extent == 0]

    def _channel_block(self) -> int:
        return lcm(
            *(
                self.layout(value).quantum
                for value in (*self.operands, self.result)
                if self.layout(value).kind is LayoutKind.NC1HWC2
            )
        )

    def granularity(self, axis: int) -> int:
        """Cuts along a result axis must be multiples of this."""
        if axis in whole_axes(self.seed, self.types[self.seed.outputs[0]]):
            return max(1, self.result_type.shape[axis])
        if axis != 1 or self.result_type.rank < 3:
            return 1
        blocked = self._channel_block()
        if self.seed.kind is not Kind.CONV or (groups := self.seed.integer("group")) == 1:
            return blocked
        # As many groups as fill whole blocks of the operand's channels, and of the result's.
        inner = self.types[self.seed.inputs[1]].shape[1]
        together = blocked // gcd(blocked, inner)
        return lcm(blocked, together * (self.result_type.shape[1] // groups))

    def product(self, boxes: Boxes) -> Product | None:
        """The contraction of one tile; None for groups that contract nothing."""
        if self.seed.kind not in CONTRACTIONS:
            return None
        out = box_shape(boxes[self.seed.outputs[0]])
        x = box_shape(boxes[self.seed.inputs[0]])
        w = box_shape(boxes[self.seed.inputs[1]])
        return product_of(self.seed, out, x, w)

    @cached_property
    def whole_product(self) -> Product | None:
        """The contraction of the whole group; None for groups that contract nothing."""
        if self.seed.kind not in CONTRACTIONS:
            return None
        shapes = (self.types[name].shape for name in (self.seed.outputs[0], *self.seed.inputs[:2]))
        return product_of(self.seed, *shapes)

    def read_elements(self, boxes: Boxes) -> int:
        """Elements of the seed's first operand in one tile."""
        return prod(box_shape(boxes[self.seed.inputs[0]])) if self.seed.inputs else 0


def workload(draft: Draft, group: Group, operators: Mapping[str, Operator]) -> Workload:
    """The work of a device group of a draft."""
    assert group.engine in TILED
    members = tuple(operators[name] for name in group.operators)
    values = {value for op in members for value in (*op.operands, *op.outputs)}
    types = {value: draft.graph.types[value] for value in values}
    layouts = {value: draft.recipe.layout(value) for value in values}
    constants = frozenset(values & draft.constants.keys())
    return Workload(group, members, types, layouts, constants, stem=group.name)


def workloads(draft: Draft, operators: Mapping[str, Operator]) -> dict[int, Workload]:
    """The device groups of a draft by their numbers, each with the first that is like it."""
    found: dict[int, Workload] = {}
    firsts: dict[object, Workload] = {}
    heads = head_extents(draft.graph)
    stems = place_stems((group.name for group in draft.recipe.groups), draft.graph.types)
    for number, group in enumerate(draft.recipe.groups):
        if group.engine in TILED:
            work = workload(draft, group, operators)
            stem, heads_of = stems[group.name], heads.get(work.result, 0)
            work = replace(work, head_extent=heads_of, stem=stem)
            first = firsts.setdefault(work_signature(work), work)
            found[number] = work if first is work else replace(work, alike=first)
    return found


def head_extents(graph: Graph) -> dict[str, int]:
    """For each value that readers see cut into heads, the extent of one along its last axis: it is
    sliced, perhaps, and then reshaped from `[..., heads x extent]` to `[..., heads, extent]`."""
    found: dict[str, int] = {}
    for op in reversed(graph.operators):
        if op.kind not in (Kind.RESHAPE, Kind.SLICE):
            continue
        source, result = op.inputs[0], op.outputs[0]
        shape, target = graph.types[source].shape, graph.types[result].shape
        if op.kind is Kind.SLICE:
            if result in found and shape[-1:] != () and shape[-1] % found[result] == 0:
                found[source] = found[result]
        elif len(target) > 1 and shape and 1 < target[-1] < shape[-1] == prod(target[-2:]):
            found[source] = target[-1]
    return found


def work_signature(work: Workload) -> object:
    """What a group is, names left out: the tiles of equal groups are searched once."""
    numbers: dict[str, int] = {}
    for member in work.members:
        for value in (*member.inputs, *member.outputs):
            numbers.setdefault(value, len(numbers))
    operators = tuple(member.form(numbers) for member in work.members)
    facts = tuple(
        (str(work.types[value]), work.layout(value), value in work.constants)
        for value in numbers
        if value
    )
    return operators, facts, work.group.engine, work.head_extent


def product_of(seed: Operator, out: Shape, x: Shape, w: Shape) -> Product:
    """The contraction that makes a box of these extents of boxes of those, on the array."""
    if seed.kind is Kind.MATMUL:
        if prod(w[:-2]) == 1:
            # One right operand for all of the batch: its rows are those of one product.
            return Product(prod(out[:-1]), out[-1], x[-1], 1, 1)
        return Product(out[-2], out[-1], x[-1], prod(out[:-2]), 1)
    if seed.kind is Kind.CONV_TRANSPOSE:
        groups = seed.integer("group")
        # GEMM, then col2im: each input pixel makes taps x output channels.
        taps = prod(w[2:])
        return Product(prod(x[2:]) * x[0], w[1] * taps, w[0] // groups, groups, 1)
    taps = prod(w[2:])
    groups = x[1] // w[1] if seed.integer("group") > 1 else 1
    return Product(out[0] * prod(out[2:]), out[1] // groups, w[1] * taps, groups, taps)


def _union(first: Box, second: Box) -> Box:
    return tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(first, second, strict=True))
