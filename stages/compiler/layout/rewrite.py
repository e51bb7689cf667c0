"""Chosen layouts put into a draft: values get them, and a `relayout` stands where one changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stages.compiler.draft import Draft, fresh_name
from stages.compiler.layout.choices import Choices, same_bytes
from stages.compiler.layout.network import operands_in_memory
from stages.recipe.decisions import Engine, Group
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import ROW_MAJOR, Array, Layout, TensorType


@dataclass(slots=True)
class Rewriting:
    """Walks the groups in order, each with its layout. A value is converted once for all groups
    that want it in one layout; constants are stored in the one that is wanted."""

    draft: Draft
    choices: Choices
    chosen: Sequence[Layout]
    layouts: dict[str, Layout] = field(default_factory=dict)
    types: dict[str, TensorType] = field(init=False)
    constants: dict[str, Array] = field(init=False)
    operators: list[Operator] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    converted: dict[tuple[str, Layout], str] = field(default_factory=dict)

    named: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.named = {operator.name for operator in self.draft.graph.operators}
        self.types = dict(self.draft.graph.types)
        self.constants = dict(self.draft.constants)

    def run(self) -> Draft:
        """The draft with layouts, and with the groups that change them."""
        graph = self.draft.graph
        by_name = {op.name: op for op in graph.operators}
        for group, layout in zip(self.draft.recipe.groups, self.chosen, strict=True):
            self._take(group, [by_name[name] for name in group.operators], layout)
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

    @property
    def conversions(self) -> int:
        """How many groups change a layout."""
        return sum(operator.kind is Kind.RELAYOUT for operator in self.operators)

    def _take(self, group: Group, members: list[Operator], layout: Layout) -> None:
        rank = self.types[members[-1].outputs[0]].rank
        image = self.choices.image(members)
        names = {
            value: self._operand(value, self.choices.sized(layout, self.types[value], rank))
            for value in operands_in_memory(members, group, image, self.draft.constants)
        }
        for member in members:
            inputs = tuple(names.get(value, value) for value in member.inputs)
            self.operators.append(replace(member, inputs=inputs))
            for value in member.outputs:
                self.layouts[value] = self.choices.result(layout, self.types[value])
        self.groups.append(group)

    def _operand(self, value: str, wanted: Layout) -> str:
        """The name under which a group reads a value in a layout."""
        current = self.layouts.get(value, ROW_MAJOR)
        if current == wanted or same_bytes(self.types[value], current, wanted):
            return value
        key = (value, wanted)
        if key not in self.converted:
            self.converted[key] = self._convert(value, wanted)
        return self.converted[key]

    def _convert(self, value: str, layout: Layout) -> str:
        result = fresh_name(f"{value}.{layout}", self.types)
        self.types[result] = self.types[value]
        self.layouts[result] = layout
        if value in self.constants:
            self.constants[result] = self.constants[value]
            return result
        self._add_relayout(value, result, result)
        return result

    def _add_relayout(self, value: str, result: str, label: str) -> None:
        name = fresh_name(f"relayout.{label}", self.named)
        self.named.add(name)
        self.operators.append(Operator(name, Kind.RELAYOUT, (value,), (result,)))
        self.groups.append(Group(name, (name,), Engine.VECTOR))

    def _restore_outputs(self) -> None:
        """Model outputs are row-major: the caller reads them."""
        for output in self.draft.graph.outputs:
            layout = self.layouts.get(output, ROW_MAJOR)
            if layout == ROW_MAJOR:
                continue
            if same_bytes(self.types[output], layout, ROW_MAJOR):
                del self.layouts[output]
                continue
            inner = fresh_name(f"{output}.{layout}", self.types)
            self.types[inner] = self.types[output]
            self.layouts[inner] = layout
            del self.layouts[output]
            rename = {output: inner}
            known = self.converted.get((output, ROW_MAJOR))
            if known is not None:
                # A group reads it row-major already: that copy is the output.
                rename[known] = output
                del self.types[known]
                del self.layouts[known]
            self._rename(rename)
            if known is None:
                self._add_relayout(inner, output, output)

    def _rename(self, names: Mapping[str, str]) -> None:
        self.operators = [
            replace(
                op,
                inputs=tuple(names.get(value, value) for value in op.inputs),
                outputs=tuple(names.get(value, value) for value in op.outputs),
            )
            for op in self.operators
        ]
