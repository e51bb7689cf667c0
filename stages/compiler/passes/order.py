"""The order of groups: dataflow first, then as few changes between host and device as it allows."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

from stages.compiler.draft import Draft
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine, Group
from stages.recipe.graph import Graph


@dataclass(frozen=True, slots=True)
class Order:
    """Sorts groups and makes one host group of host groups that follow each other: each change
    to the host costs a synchronisation."""

    name: str = "order"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Order the groups, merge the host's, and lay the operators out in that order."""
        order = _schedule(draft.recipe.groups, draft.graph)
        merged = _merge_host(order)
        return _reordered(draft, merged)


def _reordered(draft: Draft, groups: list[Group]) -> Draft:
    by_name = {op.name: op for op in draft.graph.operators}
    operators = tuple(by_name[name] for group in groups for name in group.operators)
    graph = replace(draft.graph, operators=operators)
    recipe = replace(draft.recipe, graph=graph, groups=tuple(groups))
    return replace(draft, recipe=recipe)


def _schedule(groups: tuple[Group, ...], graph: Graph) -> list[Group]:
    """List scheduling; ready groups on the side in use come first, then the original order."""
    owner = {name: index for index, group in enumerate(groups) for name in group.operators}
    producers = graph.producers()
    operators = {op.name: op for op in graph.operators}
    waits_for: list[set[int]] = []
    feeds: list[set[int]] = [set() for _ in groups]
    for index, group in enumerate(groups):
        needed = {
            owner[producers[value].name]
            for name in group.operators
            for value in operators[name].operands
            if value in producers
        } - {index}
        waits_for.append(needed)
        for other in needed:
            feeds[other].add(index)
    missing = [len(needed) for needed in waits_for]
    ready: dict[bool, list[int]] = {True: [], False: []}
    for index, group in enumerate(groups):
        if not missing[index]:
            heapq.heappush(ready[group.engine is Engine.HOST], index)
    order: list[Group] = []
    on_host = False
    while ready[True] or ready[False]:
        if not ready[on_host]:
            on_host = not on_host
        index = heapq.heappop(ready[on_host])
        order.append(groups[index])
        for other in sorted(feeds[index]):
            missing[other] -= 1
            if not missing[other]:
                heapq.heappush(ready[groups[other].engine is Engine.HOST], other)
    assert len(order) == len(groups), "groups form a cycle"
    return order


def _merge_host(order: list[Group]) -> list[Group]:
    merged: list[Group] = []
    for group in order:
        last = merged[-1] if merged else None
        if last is not None and last.engine is Engine.HOST and group.engine is Engine.HOST:
            reasons = dict.fromkeys([*last.reason.split("; "), *group.reason.split("; ")])
            merged[-1] = replace(
                last,
                operators=(*last.operators, *group.operators),
                reason="; ".join(reason for reason in reasons if reason),
            )
        else:
            merged.append(group)
    return merged
