"""Large pieces of a concatenation, made late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stages.compiler.draft import Draft
from stages.compiler.support import TILED
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine, Group
from stages.recipe.graph import Operator, outer_operands
from stages.recipe.kinds import Kind


@dataclass(frozen=True, slots=True)
class LatePieces:
    """A group that makes a large piece of a concatenation in place out of little, as an upsampling
    does, stands right before the concatenation. Until then what it reads takes less room than what
    it makes, and a cascade can run through all of them."""

    name: str = "late_pieces"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Put each such group before the concatenation that is its only reader."""
        operators = {op.name: op for op in draft.graph.operators}
        readers = _only_readers(draft, operators)
        late: dict[str, list[Group]] = {}
        groups: list[Group] = []
        for group in draft.recipe.groups:
            result = operators[group.operators[-1]].outputs[0]
            if result in readers and _grows(group, operators, draft):
                late.setdefault(readers[result], []).append(group)
            else:
                groups += [*late.get(group.name, ()), group]
        in_order = tuple(operators[name] for group in groups for name in group.operators)
        graph = replace(draft.graph, operators=in_order)
        return replace(draft, recipe=replace(draft.recipe, graph=graph, groups=tuple(groups)))


def _only_readers(draft: Draft, operators: Mapping[str, Operator]) -> dict[str, str]:
    """For each value that a concatenation in place alone reads, that group's name."""
    consumers = draft.graph.consumers()
    concats = [
        (group.name, operators[group.operators[0]])
        for group in draft.recipe.groups
        if group.engine is Engine.NONE
    ]
    return {
        value: name
        for name, concat in concats
        if concat.kind is Kind.CONCAT
        for value in concat.operands
        if len(consumers[value]) == 1
    }


def _grows(group: Group, operators: Mapping[str, Operator], draft: Draft) -> bool:
    """Whether a group makes at least twice the bytes that it reads."""
    types = draft.graph.types
    members = [operators[name] for name in group.operators]
    read = {value for value in outer_operands(members) if value not in draft.constants}
    size = types[members[-1].outputs[0]].size_bytes
    return group.engine in TILED and 2 * sum(types[v].size_bytes for v in read) <= size
