"""The order of groups that dataflow asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stages.compiler.draft import Draft
from stages.recipe.decisions import Group
from stages.recipe.graph import Graph


def in_dataflow_order(draft: Draft, groups: Iterable[Group]) -> Draft:
    """The draft with these groups, each behind those that it reads, and the operators in the
    order of the groups."""
    order = tuple(_dataflow_order(groups, draft.graph))
    by_name = {op.name: op for op in draft.graph.operators}
    operators = tuple(by_name[name] for group in order for name in group.operators)
    graph = replace(draft.graph, operators=operators)
    return replace(draft, recipe=replace(draft.recipe, graph=graph, groups=order))


def _dataflow_order(groups: Iterable[Group], graph: Graph) -> list[Group]:
    """Groups in an order in which each follows those that it reads."""
    by_operator = {name: group for group in groups for name in group.operators}
    producers = graph.producers()
    operators = {op.name: op for op in graph.operators}
    order: list[Group] = []
    placed: set[str] = set()
    open_: set[str] = set()
    for root in by_operator.values():
        stack = [(root, False)]
        while stack:
            group, ready = stack.pop()
            if group.name in placed:
                continue
            if ready:
                placed.add(group.name)
                order.append(group)
                continue
            assert group.name not in open_, f"group {group.name} waits for itself"
            open_.add(group.name)
            stack.append((group, True))
            for name in reversed(group.operators):
                for value in reversed(operators[name].operands):
                    producer = producers.get(value)
                    if producer is not None and by_operator[producer.name] is not group:
                        stack.append((by_operator[producer.name], False))
    return order
