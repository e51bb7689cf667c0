"""Kernels: what the compute instruction of one tile computes, shared by tiles that are alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stages.compiler.draft import fresh_name
from stages.compiler.tiling.footprint import POSITIONED, tile_attributes
from stages.compiler.tiling.streams import Step
from stages.compiler.tiling.workload import PARTIAL, Boxes, Workload
from stages.plan.instructions import Kernel
from stages.recipe.graph import Attribute, Operator, outer_operands
from stages.tensors import DType, TensorType, box_shape

_KernelKey = tuple[object, ...]


@dataclass(slots=True)
class KernelTable:
    """The kernels of a plan, each kept once. `taken`: the names of the recipe's values and
    operators, which none that is made here may have."""

    taken: frozenset[str] = frozenset()
    kernels: list[Kernel] = field(default_factory=list)
    known: dict[_KernelKey, int] = field(default_factory=dict)

    def intern(
        self,
        stem: str,
        operators: Sequence[Operator],
        parameters: Sequence[str],
        results: Sequence[str],
        types: dict[str, TensorType],
    ) -> int:
        """The index of a kernel, made when it is new."""
        key: _KernelKey = (
            tuple(
                (op.name, op.kind, op.inputs, op.outputs, tuple(sorted(op.attributes.items())))
                for op in operators
            ),
            tuple(parameters),
            tuple(results),
            tuple(types.items()),
        )
        if key not in self.known:
            self.known[key] = len(self.kernels)
            name = f"k{len(self.kernels)}.{stem}"
            self.kernels.append(
                Kernel(name, tuple(parameters), tuple(results), tuple(operators), types)
            )
        return self.known[key]


@dataclass(frozen=True, slots=True)
class PartNames:
    """What the kernels of a group call that is made in steps: the sum so far, the part of a step,
    the sum with it, and the operator that joins the two."""

    total: str
    part: str
    updated: str
    joining: str

    @classmethod
    def of(cls, work: Workload, taken: frozenset[str]) -> PartNames:
        """Names that begin like the group's own, and that none of those `taken` is equal to."""
        value, operator = work.seed.outputs[0], work.seed.name
        names = f"{value}.sum", f"{value}.part", f"{value}.sum.next", f"{operator}.join"
        return cls(*(fresh_name(name, taken) for name in names))


@dataclass(frozen=True, slots=True)
class TileKernel:
    """A tile's operators, the values that its regions hold, and the tile's types."""

    operators: tuple[Operator, ...]
    parameters: tuple[str, ...]
    result: str
    types: dict[str, TensorType]


@dataclass(slots=True)
class TileKernels:
    """The kernels of one group's tiles: those of tiles that are alike are made once. `steps` has,
    for each, the first step that it was made for."""

    work: Workload
    table: KernelTable
    known: dict[_KernelKey, tuple[TileKernel, int]] = field(default_factory=dict)
    steps: dict[int, Step] = field(default_factory=dict)
    names: PartNames = field(init=False)

    def __post_init__(self) -> None:
        self.names = PartNames.of(self.work, self.table.taken)

    def of(self, step: Step, boxes: Boxes) -> tuple[TileKernel, int]:
        """The kernel of a step, and its index."""
        key = (
            *(step.is_first, step.is_last, step.reduction is None),
            tuple(boxes),
            tuple([box_shape(box) for box in boxes.values()]),
            *(
                tuple(_tile_attributes(member, self.work, boxes).items())
                for member in self.work.members
                if member.kind in POSITIONED
            ),
        )
        found = self.known.get(key)
        if found is None:
            kernel = tile_kernel(self.work, self.names, step, boxes)
            index = self.table.intern(
                self.work.group.name,
                kernel.operators,
                kernel.parameters,
                (kernel.result,),
                kernel.types,
            )
            found = self.known[key] = (kernel, index)
            self.steps.setdefault(index, step)
        return found


def tile_kernel(work: Workload, names: PartNames, step: Step, boxes: Boxes) -> TileKernel:
    """What one step of a tiled group computes.

    Where the contraction (or reduction) is cut, all but the last step leave what they have in an
    accumulator, and only the last adds the bias and goes on through the group.
    """
    operators = [_tile_operator(member, work, boxes) for member in work.members]
    types = {
        value: TensorType(work.types[value].dtype, box_shape(box)) for value, box in boxes.items()
    }
    result = work.result
    if step.reduction is not None:
        operators, result = _accumulated(work, names, step, operators, types)
    parameters = outer_operands(operators)
    used = {*parameters, *(value for op in operators for value in op.outputs)}
    kept = {value: types[value] for value in sorted(types) if value in used}
    return TileKernel(tuple(operators), parameters, result, kept)


def _tile_operator(member: Operator, work: Workload, boxes: Boxes) -> Operator:
    return replace(member, attributes=_tile_attributes(member, work, boxes))


def _tile_attributes(member: Operator, work: Workload, boxes: Boxes) -> Mapping[str, Attribute]:
    types = [work.types[value] if value else None for value in member.inputs]
    parts = [boxes.get(value) if value else None for value in member.inputs]
    result = work.types[member.outputs[0]].shape
    return tile_attributes(member, boxes[member.outputs[0]], parts, types, result)


def _accumulated(
    work: Workload,
    names: PartNames,
    step: Step,
    operators: list[Operator],
    types: dict[str, TensorType],
) -> tuple[list[Operator], str]:
    seed_result = work.seed.outputs[0]
    place = next(index for index, op in enumerate(operators) if op.name == work.seed.name)
    total, partial, updated = names.total, names.part, names.updated
    sum_type = TensorType(DType.F32, types[seed_result].shape)
    types[total] = types[partial] = sum_type
    seed = operators[place]
    join = PARTIAL[seed.kind]
    prologue = _feeding(seed.inputs[:2], operators[:place])
    if step.is_last:
        contraction = replace(seed, outputs=(partial,))
        adding = Operator(names.joining, join, (partial, total), (seed_result,))
        return [*operators[:place], contraction, adding, *operators[place + 1 :]], work.result
    bare = replace(seed, inputs=seed.inputs[:2])
    if step.is_first:
        return [*prologue, replace(bare, outputs=(total,))], total
    types[updated] = sum_type
    contraction = replace(bare, outputs=(partial,))
    adding = Operator(names.joining, join, (partial, total), (updated,))
    return [*prologue, contraction, adding], updated


def _feeding(values: Sequence[str], operators: Sequence[Operator]) -> list[Operator]:
    """The operators that make these values, and what those read, in order."""
    needed = {value for value in values if value}
    found = []
    for operator in reversed(operators):
        if operator.outputs[0] in needed:
            needed.update(operator.operands)
            found.append(operator)
    return found[::-1]
