"""Layouts: each group gets its values as its engine wants them; conversions stand between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stages.compiler.draft import Draft
from stages.compiler.support import POINTWISE
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine, Group
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import ROW_MAJOR, Array, DType, Layout, LayoutKind, TensorType

_ANY_LAYOUT = POINTWISE | {
    *(Kind.MAX_POOL, Kind.AVERAGE_POOL, Kind.RESIZE, Kind.PAD, Kind.CONCAT, Kind.SLICE),
    *(Kind.INSTANCE_NORM, Kind.IDENTITY),
}
_REDUCTIONS = frozenset(kind for kind in Kind if kind.startswith("reduce_"))


@dataclass(frozen=True, slots=True)
class AssignLayouts:
    """Contractions take the layout that the spec wants; what follows them keeps it as long as its
    kind allows; the rest is row-major. A `relayout` group is put where a value must change."""

    name: str = "layout"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Walk the groups in order, deciding each result's layout from its operands'."""
        return _Assignment(draft, spec).run()


@dataclass(slots=True)
class _Assignment:
    draft: Draft
    spec: HardwareSpec
    layouts: dict[str, Layout] = field(default_factory=dict)
    types: dict[str, TensorType] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    converted: dict[tuple[str, Layout], str] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)

    def run(self) -> Draft:
        graph = self.draft.graph
        self.types = dict(graph.types)
        self.constants = dict(self.draft.constants)
        by_name = {op.name: op for op in graph.operators}
        for group in self.draft.recipe.groups:
            members = [by_name[name] for name in group.operators]
            layout = self._wanted(group, members)
            self._take(group, members, layout)
        self._restore_outputs()
        read = {value for op in self.operators for value in op.operands} | set(graph.outputs)
        constants = {name: data for name, data in self.constants.items() if name in read}
        unread = self.constants.keys() - constants.keys()
        edited = replace(
            graph,
            constants=tuple(constants),
            types={name: item for name, item in self.types.items() if name not in unread},
            operators=tuple(self.operators),
        )
        kept = {name: layout for name, layout in self.layouts.items() if layout != ROW_MAJOR}
        recipe = replace(self.draft.recipe, graph=edited, groups=tuple(self.groups), layouts=kept)
        return replace(self.draft, recipe=recipe, constants=constants)

    def _wanted(self, group: Group, members: list[Operator]) -> Layout:
        """The layout of a group's operands and result."""
        if group.engine is Engine.HOST:
            return ROW_MAJOR
        seed = next(op for op in members if op.kind is not Kind.DEQUANTIZE or len(members) == 1)
        wanted = self.spec.layouts.get(seed.kind)
        result = self.types[members[-1].outputs[0]]
        if wanted is not None and result.rank >= 3:
            return self._sized(wanted, members)
        if self._keeps_layout(seed):
            return self._inherited(members, result)
        return ROW_MAJOR

    def _keeps_layout(self, seed: Operator) -> bool:
        if seed.kind in _REDUCTIONS:
            return bool(seed.integer("keepdims"))
        if seed.kind is Kind.SLICE:
            return all(step > 0 for step in seed.integers("steps"))
        return seed.kind in _ANY_LAYOUT

    def _inherited(self, members: list[Operator], result: TensorType) -> Layout:
        """The layout of the largest operand that has the result's rank."""
        inside = {value for op in members for value in op.outputs}
        candidates = [
            (self.types[value].size_bytes, self.layouts.get(value, ROW_MAJOR))
            for op in members
            for value in op.operands
            if value not in inside
            and value not in self.draft.constants
            and self.types[value].rank == result.rank >= 3
        ]
        if not candidates:
            return ROW_MAJOR
        _, layout = max(candidates, key=lambda pair: pair[0])
        if layout.kind is LayoutKind.NC1HWC2:
            layout = self._blocked_or_row_major(layout, members)
        return layout

    def _blocked_or_row_major(self, layout: Layout, members: list[Operator]) -> Layout:
        """Blocked channels survive a change of element type, a concat, a slice or a resize only
        when the blocks stay whole."""
        seed = members[0]
        result = self.types[members[-1].outputs[0]]
        cuts: list[int] = []
        if seed.kind is Kind.CONCAT and seed.integer("axis") == 1:
            cuts = [self.types[value].shape[1] for value in seed.inputs[:-1]]
        elif seed.kind is Kind.SLICE:
            cuts = [seed.integers("starts")[1]]
            if seed.integers("steps")[1] != 1:
                return ROW_MAJOR
        elif seed.kind is Kind.RESIZE and self.types[seed.inputs[0]].shape[1] != result.shape[1]:
            return ROW_MAJOR
        if any(cut % layout.quantum for cut in cuts):
            return ROW_MAJOR
        return Layout(layout.kind, self._quantum(result.dtype, layout))

    def _sized(self, wanted: Layout, members: list[Operator]) -> Layout:
        if wanted.kind is not LayoutKind.NC1HWC2:
            return wanted
        dtype = self.types[members[-1].outputs[0]].dtype
        return Layout(wanted.kind, self._quantum(dtype, wanted))

    def _quantum(self, dtype: DType, wanted: Layout) -> int:
        return self.spec.channel_quantum.get(dtype, wanted.quantum)

    def _take(self, group: Group, members: list[Operator], layout: Layout) -> None:
        inside = {value for op in members for value in op.outputs}
        rank = self.types[members[-1].outputs[0]].rank
        image = self._image(members)
        taken = []
        for member in members:
            inputs = tuple(
                self._operand(value, layout, rank, member)
                if value not in ("", image, *inside) and self._lies_in_memory(value, group)
                else value
                for value in member.inputs
            )
            taken.append(replace(member, inputs=inputs))
        for value in inside:
            self.layouts[value] = layout if self.types[value].rank >= 3 else ROW_MAJOR
        self.operators.extend(taken)
        self.groups.append(group)

    def _lies_in_memory(self, value: str, group: Group) -> bool:
        """Whether a group reads a value where it lies: constants of tiled groups are packed."""
        return value not in self.draft.constants or group.engine is Engine.DMA

    def _operand(self, value: str, layout: Layout, rank: int, member: Operator) -> str:
        """The name under which a group reads a value in a layout."""
        tensor_type = self.types[value]
        current = self.layouts.get(value, ROW_MAJOR)
        wanted = layout
        if tensor_type.rank != rank or tensor_type.rank < 3:
            wanted = ROW_MAJOR
        elif wanted.kind is LayoutKind.NC1HWC2:
            wanted = Layout(wanted.kind, self._quantum(tensor_type.dtype, wanted))
        if current == wanted or _same_bytes(tensor_type, current, wanted):
            return value
        key = (value, wanted)
        if key not in self.converted:
            self.converted[key] = self._convert(value, wanted)
        return self.converted[key]

    def _image(self, members: list[Operator]) -> str:
        """The input that a group's convolution reads as an image, row-major; empty where none."""
        seed = next((op for op in members if op.kind is Kind.CONV), None)
        if seed is None:
            return ""
        made_by = {op.outputs[0]: op for op in members if op.kind is Kind.DEQUANTIZE}
        value = seed.inputs[0]
        value = made_by[value].inputs[0] if value in made_by else value
        channels = self.types[value].shape[1]
        return value if channels <= self.spec.tensor_core.image_channels else ""

    def _convert(self, value: str, layout: Layout) -> str:
        result = _fresh(f"{value}.{layout}", self.types)
        self.types[result] = self.types[value]
        self.layouts[result] = layout
        if value in self.constants:
            self.constants[result] = self.constants[value]
            return result
        name = f"relayout.{result}"
        self.operators.append(Operator(name, Kind.RELAYOUT, (value,), (result,)))
        self.groups.append(Group(name, (name,), Engine.VECTOR))
        return result

    def _restore_outputs(self) -> None:
        """Model outputs are row-major: the caller reads them."""
        for output in self.draft.graph.outputs:
            layout = self.layouts.get(output, ROW_MAJOR)
            if layout == ROW_MAJOR:
                continue
            inner = _fresh(f"{output}.{layout}", self.types)
            self.types[inner] = self.types[output]
            self.layouts[inner] = layout
            del self.layouts[output]
            rename: Mapping[str, str] = {output: inner}
            self.operators = [
                replace(
                    op,
                    inputs=tuple(rename.get(value, value) for value in op.inputs),
                    outputs=tuple(rename.get(value, value) for value in op.outputs),
                )
                for op in self.operators
            ]
            name = f"relayout.{output}"
            self.operators.append(Operator(name, Kind.RELAYOUT, (inner,), (output,)))
            self.groups.append(Group(name, (name,), Engine.VECTOR))


def _same_bytes(tensor_type: TensorType, first: Layout, second: Layout) -> bool:
    """Whether two layouts give a tensor the same bytes, so that no conversion is needed."""
    if first == second:
        return True
    pointlike = all(extent == 1 for extent in tensor_type.shape[2:])
    whole_blocks = all(tensor_type.shape[1] % layout.quantum == 0 for layout in (first, second))
    return pointlike and whole_blocks


def _fresh(stem: str, taken: Mapping[str, TensorType]) -> str:
    name, number = stem, 0
    while name in taken:
        number += 1
        name = f"{stem}.{number}"
    return name
