"""What passes hand on: a recipe in the making, with the data of its constants."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Group, Recipe, Target
from stages.recipe.explanation import Weighed
from stages.recipe.graph import Graph, Operator
from stages.tensors import Array, DType, TensorType


@dataclass(frozen=True, slots=True)
class Draft:
    """A recipe and its constants. Passes make new drafts; they never change one.

    `weighed` is what passes weighed on the way, in the order of the passes."""

    recipe: Recipe
    constants: Mapping[str, Array]
    weighed: tuple[Weighed, ...] = ()

    @property
    def graph(self) -> Graph:
        """The recipe's graph."""
        return self.recipe.graph

    def with_groups(self, groups: Iterable[Group]) -> Draft:
        """The same graph with other groups."""
        return replace(self, recipe=replace(self.recipe, groups=tuple(groups)))

    def with_notes(self, notes: Iterable[str]) -> Draft:
        """The same draft with more notes, each kept once."""
        merged = tuple(dict.fromkeys((*self.recipe.notes, *notes)))
        return replace(self, recipe=replace(self.recipe, notes=merged))

    def with_weighed(self, items: Iterable[Weighed]) -> Draft:
        """The same draft with more of what was weighed; what an earlier pass said of the same
        subject and question gives way."""
        found = {(item.subject, item.question): item for item in self.weighed}
        for item in items:
            found.pop((item.subject, item.question), None)
            found[item.subject, item.question] = item.bounded()
        return replace(self, weighed=tuple(found.values()))


class Pass(Protocol):
    """One step of the compiler. A pass is a frozen dataclass whose fields are its options."""

    @property
    def name(self) -> str:
        """The pass's name, as `--stop-after` takes it."""

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """The draft with this pass's decisions made."""


def first_draft(graph: Graph, constants: Mapping[str, Array], spec: HardwareSpec) -> Draft:
    """A draft without decisions: each operator is a group of its own."""
    groups = tuple(Group(op.name, (op.name,)) for op in graph.operators)
    return Draft(Recipe(graph, Target(spec.name, spec.version), groups), dict(constants))


def fresh_name(stem: str, *taken: Container[str]) -> str:
    """The stem, or the first number behind it, that isn't taken."""
    name, number = stem, 0
    while any(name in names for names in taken):
        number += 1
        name = f"{stem}.{number}"
    return name


class GraphEditor:
    """Builds a changed copy of a draft's graph: the mutable half of a pass.

    Operators may be replaced, dropped and added in any order; `finish` sorts them, drops what
    nothing reads, and makes each operator a group of its own.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.operators = {op.name: op for op in draft.graph.operators}
        self.types = dict(draft.graph.types)
        self.constants = dict(draft.constants)
        self.outputs = draft.graph.outputs
        self.producers = draft.graph.producers()
        self.readers: dict[str, list[str]] = {
            value: [op.name for op in ops] for value, ops in draft.graph.consumers().items()
        }

    def producer(self, value: str) -> Operator | None:
        """The operator that makes a value; None for inputs and constants."""
        return self.producers.get(value)

    def only_reader(self, value: str) -> Operator | None:
        """The one operator that reads a value, where it is the only use."""
        readers = self.readers[value]
        if len(readers) != 1 or value in self.outputs:
            return None
        return self.operators[readers[0]]

    def fresh(self, stem: str) -> str:
        """A value or operator name that isn't taken."""
        return fresh_name(stem, self.types, self.operators)

    def add_constant(self, stem: str, data: Array) -> str:
        """Add a constant; returns its name."""
        name = self.fresh(stem)
        self.constants[name] = data
        self.types[name] = TensorType(DType.of(data.dtype), data.shape)
        self.readers[name] = []
        return name

    def add_value(self, stem: str, tensor_type: TensorType) -> str:
        """Add a value that an operator will make; returns its name."""
        name = self.fresh(stem)
        self.types[name] = tensor_type
        self.readers[name] = []
        return name

    def put(self, operator: Operator) -> Operator:
        """Add an operator, or replace the one of its name; returns it."""
        old = self.operators.get(operator.name)
        if old is not None:
            self.drop(old.name)
        self.operators[operator.name] = operator
        for value in dict.fromkeys(operator.operands):
            self.readers[value].append(operator.name)
        for value in operator.outputs:
            self.producers[value] = operator
        return operator

    def drop(self, name: str) -> None:
        """Remove an operator; its results lose their producer."""
        operator = self.operators.pop(name)
        for value in dict.fromkeys(operator.operands):
            self.readers[value].remove(name)
        for value in operator.outputs:
            if self.producers.get(value) is operator:
                del self.producers[value]

    def redirect(self, old: str, new: str) -> None:
        """Let every reader of `old` read `new`. Graph outputs keep their names."""
        for name in list(self.readers[old]):
            self.reread(name, old, new)

    def reread(self, name: str, old: str, new: str) -> None:
        """Let one reader of `old` read `new`."""
        operator = self.operators[name]
        inputs = tuple(new if value == old else value for value in operator.inputs)
        self.put(replace(operator, inputs=inputs))

    def finish(self) -> Draft:
        """The edited draft: sorted, without dead operators and unread constants."""
        operators = self._sorted_live()
        read = {value for op in operators for value in op.operands} | set(self.outputs)
        constants = {name: data for name, data in self.constants.items() if name in read}
        graph = self._draft.graph
        made = {value for op in operators for value in op.outputs}
        kept = made | set(constants) | set(graph.inputs) | set(graph.outputs)
        edited = Graph(
            graph.name,
            graph.inputs,
            graph.outputs,
            tuple(constants),
            {name: self.types[name] for name in self.types if name in kept},
            tuple(operators),
        )
        groups = tuple(Group(op.name, (op.name,)) for op in operators)
        recipe = replace(self._draft.recipe, graph=edited, groups=groups)
        return replace(self._draft, recipe=recipe, constants=constants)

    def _sorted_live(self) -> list[Operator]:
        """Depth-first from the outputs, so that an operator stands near what it feeds."""
        order: list[Operator] = []
        done: set[str] = set()
        stack = [(value, False) for value in reversed(self.outputs)]
        while stack:
            value, ready = stack.pop()
            operator = self.producers.get(value)
            if operator is None or operator.name in done:
                continue
            if ready:
                done.add(operator.name)
                order.append(operator)
                continue
            stack.append((value, True))
            stack.extend((operand, False) for operand in reversed(operator.operands))
        return order
