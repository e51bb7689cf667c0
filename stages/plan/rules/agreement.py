"""More rules for the judge: a package's plan against its recipe's graph and its weights.

`check_plan` looks at a plan and a device alone, so it can't tell a legal plan of another program.
These rules can: each operator, value and constant has one name in recipe and plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from stages.plan.instructions import Binding, Kernel, Opcode, Plan
from stages.plan.packing import Packing
from stages.plan.rules import REPORTED
from stages.plan.rules.facts import LiveBuffers
from stages.plan.rules.placement.loading import packing_fault
from stages.plan.rules.placement.walk import Walk
from stages.plan.rules.violation import Finding, Findings, Violation
from stages.plan.syntax import print_name
from stages.recipe.decisions import Engine, Recipe
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array, TensorType

__all__ = ["AGREEMENTS", "Matter", "check_agreement"]

MOVED_FREELY = frozenset({Kind.IDENTITY, Kind.RESHAPE, Kind.SLICE, Kind.CONCAT, Kind.EXPAND})
"""Kinds that need no instruction where a value is read in place."""

CUT_WITH_TILES: Mapping[Kind, frozenset[str]] = {
    Kind.CONV: frozenset({"pads", "group"}),
    Kind.CONV_TRANSPOSE: frozenset({"pads", "output_padding"}),
    Kind.MAX_POOL: frozenset({"pads", "overhang"}),
    Kind.AVERAGE_POOL: frozenset({"pads", "overhang"}),
    Kind.RESIZE: frozenset({"full_input", "full_output", "origin_input", "origin_output"}),
    Kind.PAD: frozenset({"pads"}),
    Kind.EXPAND: frozenset({"shape"}),
    Kind.RESHAPE: frozenset({"shape"}),
    Kind.SLICE: frozenset({"starts", "stops"}),
}
"""Attributes of which a tile has its part."""

JOINS: Mapping[Kind, Kind] = {
    Kind.CONV: Kind.ADD,
    Kind.MATMUL: Kind.ADD,
    Kind.REDUCE_SUM: Kind.ADD,
    Kind.REDUCE_MAX: Kind.MAXIMUM,
    Kind.REDUCE_MIN: Kind.MINIMUM,
}
"""Kinds that may be computed in parts, and how two parts become one."""


@dataclass(frozen=True)
class Matter:
    """What is judged: a plan, its recipe, the data of its constants, and what those are made of."""

    plan: Plan
    recipe: Recipe
    weights: Mapping[str, Array]
    packings: tuple[Packing, ...]

    @property
    def graph(self) -> Graph:
        """The recipe's operators and values."""
        return self.recipe.graph

    @cached_property
    def moved_freely(self) -> frozenset[str]:
        """Operators that need no instruction: what each reads may be its result, read in place."""
        views = [group for group in self.recipe.groups if group.engine is Engine.NONE]
        seen = {name for group in views for name in group.operators}
        kinds = {op.name for op in self.graph.operators if op.kind in MOVED_FREELY}
        return frozenset(seen | kinds)


Agreement = Callable[[Matter], Findings]


def check_agreement(
    plan: Plan, recipe: Recipe, weights: Mapping[str, Array], packings: tuple[Packing, ...]
) -> tuple[Violation, ...]:
    """Every way in which a plan isn't one of this recipe, for a plan that breaks no plan rule.

    `packings` say what of the recipe's constants is in each of the plan's; a package has them.
    """
    matter = Matter(plan, recipe, weights, packings)
    found: list[Violation] = []
    for rule in AGREEMENTS:
        if rule is placement and found:
            break
        name = agreement_name(rule)
        for finding in islice(rule(matter), REPORTED):
            found.append(Violation(name, finding.message, finding.hint, finding.instruction))
    return tuple(found)


def agreement_name(rule: Agreement) -> str:
    """The name that messages begin with: `package-values` for the function `values`."""
    return f"package-{rule.__name__}"


def interface(matter: Matter) -> Findings:
    """Inputs and outputs of the plan are the recipe's, in their order and of their types.

    Cure: recompile.
    """
    sides = (
        ("input", matter.plan.inputs, matter.graph.inputs),
        ("output", matter.plan.outputs, matter.graph.outputs),
    )
    for word, bound, names in sides:
        if tuple(binding.name for binding in bound) != names:
            yield _stale(f"{word}s are {_named(item.name for item in bound)}; the recipe's are "
                         f"{_named(names)}")  # fmt: skip
            continue
        for binding in bound:
            held = TensorType(binding.region.dtype, binding.region.shape)
            wanted = matter.graph.types[binding.name]
            if held != wanted:
                yield _stale(f"{word} %{print_name(binding.name)} is {held}; in the recipe it is "
                             f"{wanted}")  # fmt: skip


def constants(matter: Matter) -> Findings:
    """Every constant of the plan has data of its type and extents, and all data are loaded.

    The package says of which boxes of the recipe's constants each is made.

    Cure: recompile.
    """
    known = {item.name: item for item in matter.packings}
    bound = {binding.name for binding in matter.plan.constants}
    for name in matter.weights:
        if name not in bound:
            yield _stale(f"the data of constant %{print_name(name)} are never loaded")
    for binding in matter.plan.constants:
        if fault := data_fault(binding, matter.weights):
            yield _stale(fault)
        if fault := packing_fault(binding, known.get(binding.name), matter.recipe):
            yield _stale(f"constant %{print_name(binding.name)}: {fault}")


def data_fault(binding: Binding, weights: Mapping[str, Array]) -> str:
    """What is wrong with the data of a constant; nothing where it suits its region."""
    region, data = binding.region, weights.get(binding.name)
    if data is None:
        return f"there are no data for constant %{print_name(binding.name)}"
    shape = () if data.size == 1 and region.physical_shape == () else data.shape
    if (data.dtype, shape) == (region.dtype.numpy, region.physical_shape):
        return ""
    return (
        f"the data of constant %{print_name(binding.name)} are {data.dtype}{list(data.shape)}, the "
        f"plan wants {region.dtype}{list(region.physical_shape)}"
    )


def operators(matter: Matter) -> Findings:
    """Kernels compute the recipe's operators, and every value that is put into memory whole.

    An operator of a kernel has the kind, the operands, the results and the attributes of the
    recipe's operator of that name, on values of the same element types; a tile has its part of a
    padding or of groups. A contraction or
    reduction may be computed in parts, which take names of their own, without a bias, and are then
    joined to its result. The tiles of a value that a kernel puts into memory have as many elements
    as the value, or more where they share a border. Reshapes, slices, concatenations and the like
    may need no instruction.

    Cure: recompile.
    """
    known = {operator.name: operator for operator in matter.graph.operators}
    for number, kernel in enumerate(matter.plan.kernels):
        for operator in kernel.operators:
            if fault := _difference(operator, kernel, known, matter.graph):
                yield _stale(
                    f"kernel {number}, {kernel.name}: {operator.kind} {operator.name} {fault}"
                )
    made, inside = _made_elements(matter.plan)
    for operator in matter.graph.operators:
        if operator.name in matter.moved_freely:
            continue
        for name in filter(None, operator.outputs):
            wanted = matter.graph.types[name].element_count
            if name in made and made[name] < wanted:
                yield _stale(
                    f"{operator.kind} {operator.name} makes {wanted} elements of "
                    f"%{print_name(name)}; the instructions make {made[name]}"
                )
            if not inside & {*operator.outputs} and wanted:
                yield _stale(f"no instruction computes {operator.kind} {operator.name}")


def _difference(
    operator: Operator, kernel: Kernel, known: Mapping[str, Operator], graph: Graph
) -> str:
    original = known.get(operator.name)
    if original is None:
        return "" if _joins(operator, kernel, known, graph) else "isn't in the recipe"
    if operator.kind is not original.kind:
        return f"is {original.kind} in the recipe"
    is_part = original.kind in JOINS and operator.outputs[0] not in graph.types
    takes = {original.inputs, original.inputs[:2]} if is_part else {original.inputs}
    if operator.inputs not in takes:
        return f"takes {_named(operator.inputs)}; in the recipe {_named(original.inputs)}"
    if operator.outputs != original.outputs and not is_part:
        return f"makes {_named(operator.outputs)}; in the recipe {_named(original.outputs)}"
    cut = CUT_WITH_TILES.get(operator.kind, frozenset())
    for name in sorted({*operator.attributes, *original.attributes} - cut):
        one, other = operator.attributes.get(name), original.attributes.get(name)
        if one != other:
            return f"has {name}={one!r}; in the recipe {other!r}"
    for name in (*operator.operands, *operator.outputs):
        if name in graph.types and kernel.types[name].dtype is not graph.types[name].dtype:
            held, wanted = kernel.types[name].dtype, graph.types[name].dtype
            return f"has %{print_name(name)} in {held}; in the recipe it is {wanted}"
    return ""


def _joins(operator: Operator, kernel: Kernel, known: Mapping[str, Operator], graph: Graph) -> bool:
    """Whether it joins a part, made in this kernel, to earlier ones; what comes out is again parts
    or the whole result."""
    for maker in kernel.operators:
        original = known.get(maker.name)
        if original is None or maker.outputs[0] not in operator.inputs:
            continue
        parts = all(name not in graph.types for name in operator.inputs)
        (made,) = operator.outputs
        whole = made in (*original.outputs, *kernel.results)
        return parts and whole and JOINS.get(original.kind) is operator.kind
    return False


def _made_elements(plan: Plan) -> tuple[dict[str, int], set[str]]:
    """Elements of each value that the instructions put into memory, tile by tile; and the names of
    all that they make, in memory or on the way."""
    runs: dict[int, int] = {}
    for row in plan.instructions:
        if row.kernel >= 0:
            runs[row.kernel] = runs.get(row.kernel, 0) + 1
    made: dict[str, int] = {}
    inside: set[str] = set()
    for number, times in runs.items():
        kernel = plan.kernels[number]
        inside.update(name for operator in kernel.operators for name in operator.outputs)
        for name in kernel.results:
            count = times * kernel.types[name].element_count
            made[name] = made.get(name, 0) + count
    return made, inside


def groups(matter: Matter) -> Findings:
    """Instructions belong to the group whose operators they compute, which is launched once.

    The first compute instruction of a group carries the driver's launch, and no other does: a
    group that isn't launched would cost too little.

    Cure: recompile.
    """
    plan = matter.plan
    members = {group.name: {*group.operators} for group in matter.recipe.groups}
    known = {operator.name for operator in matter.graph.operators}
    begun: set[str] = set()
    for index, row in enumerate(plan.instructions):
        if row.kernel < 0:
            continue
        computed = {operator.name for operator in plan.kernels[row.kernel].operators} & known
        if not computed <= members.get(row.group, set()):
            yield _stale(f"instruction {index} computes operators of another group than "
                         f"{row.group!r}", index)  # fmt: skip
        elif row.launch == (row.group in begun):
            said = "is launched again" if row.launch else "begins without a launch"
            yield _stale(f"group {row.group!r} {said} at instruction {index}", index)
        begun.add(row.group)


def values(matter: Matter) -> Findings:
    """What an instruction reads as a value is where that value was put.

    Each operand of a kernel lies in a buffer into which an earlier instruction or the host put a
    value of that name, or one that a reshape, slice, concatenation or the like makes of it; a
    constant in one that holds constants. An output lies where its value was put.

    Cure: recompile.
    """
    plan = matter.plan
    same = _Classes(matter)
    live = LiveBuffers(plan.buffers)
    live.advance(0)
    held: dict[int, set[str]] = {}

    def put(memory: str, start: int, stop: int, names: set[str]) -> None:
        held.setdefault(live.holder(memory, start, stop), set()).update(names)

    loaded = [(binding.region, same.of(binding.name)) for binding in plan.inputs]
    loaded += [(binding.region, _CONSTANT) for binding in plan.constants]
    for region, name in loaded:
        put(region.memory, region.address, region.stop_address, {name})
    for index, row in enumerate(plan.instructions):
        live.advance(index)
        if row.opcode is Opcode.DMA_COPY:
            source, target = row.reads[0], row.writes[0]
            found = held.get(live.holder(source.memory, source.address, source.stop_address), set())
            put(target.memory, target.address, target.stop_address, found)
        elif row.kernel >= 0:
            kernel = plan.kernels[row.kernel]
            for name, region in zip(kernel.parameters, row.reads, strict=True):
                number = live.holder(region.memory, region.address, region.stop_address)
                if region.size_bytes and same.of(name) not in held.get(number, set()):
                    yield _stale(
                        f"instruction {index} reads %{print_name(name)} from "
                        f"{region.memory}+{region.address:#06x}, where it was never put",
                        index,
                    )
            for name, region in zip(kernel.results, row.writes, strict=True):
                put(region.memory, region.address, region.stop_address, {same.of(name)})
    for binding in plan.outputs:
        region = binding.region
        number = live.holder(region.memory, region.address, region.stop_address)
        if region.size_bytes and same.of(binding.name) not in held.get(number, set()):
            yield _stale(f"output %{print_name(binding.name)} was never put where it is taken from")


def placement(matter: Matter) -> Findings:
    """Every instruction reads the part of a value that its tile needs, and outputs are whole.

    The program is gone through once, and of all that lies in memory it is known which elements of
    which value they are. Inputs and constants lie where the package says; a transfer takes along
    what it copies; what a kernel makes is the tile that its operands say. Operands of an operator
    are parts that belong together: the same box for arithmetic, one span of a contracted axis,
    the output channels of weights and bias, all elements that a window slides over, with padding
    only beyond the value's edges, whole rows for softmax and reductions. Parts of a sum are joined
    to the whole sum, each once. Slices, concatenations, splits, transposes, expansions and
    reshapes are the elements of other values that they're made of, wherever those lie.

    Every kind has its map; concatenations, splits and host calls take whole values. Where equal
    elements stand in several places of a value, any of them will do. Not known, and taken for any
    part of the value that is read, are a tile wholly of padding and what is computed of it alone, a
    view whose elements don't lie at regular steps of another value, and a region in more than
    20,000 pieces: for these `package-values` alone says that they are read where they were put.

    Cure: recompile.
    """
    yield from Walk(matter.plan, matter.recipe, matter.packings).findings()


_CONSTANT = ""
"""Stands for every constant: a group's constants lie packed in one buffer."""


class _Classes:
    """Values that lie in the same bytes: what is moved freely, and all constants."""

    def __init__(self, matter: Matter) -> None:
        self._parents: dict[str, str] = dict.fromkeys(matter.graph.constants, _CONSTANT)
        for operator in matter.graph.operators:
            if operator.name in matter.moved_freely:
                moved = operator.inputs if operator.kind is Kind.CONCAT else operator.inputs[:1]
                for name in (*moved, *operator.outputs[1:]):
                    self._join(name, operator.outputs[0])

    def of(self, name: str) -> str:
        """One name for each class."""
        while name in self._parents:
            name = self._parents[name]
        return name

    def _join(self, one: str, other: str) -> None:
        first, second = self.of(one), self.of(other)
        if first != second:
            # a class that holds a constant goes by the constants' name
            if second == _CONSTANT:
                first, second = second, first
            self._parents[second] = first


def _stale(message: str, instruction: int | None = None) -> Finding:
    return Finding(message, "the plan isn't this recipe's: recompile the model", instruction)


def _named(names: Iterator[str] | tuple[str, ...]) -> str:
    return ", ".join(f"%{print_name(name)}" for name in names) or "none"


AGREEMENTS: tuple[Agreement, ...] = (
    interface,
    constants,
    operators,
    groups,
    values,
    placement,
)
