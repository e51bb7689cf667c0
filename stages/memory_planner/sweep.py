"""Time cut into sections: which buffers are live together, with all needless instants left out."""

from __future__ import annotations

from dataclasses import dataclass

from stages.memory_planner.problem import Buffer


@dataclass(frozen=True, slots=True)
class Sweep:
    """A problem's structure over time; buffers and sections are numbered from 0.

    `members[s]` are the buffers live in section s; buffer b is live in the sections
    `[first[b], last[b])`; `neighbours[b]` are the buffers that are live with it somewhere.
    Only sections whose members are no subset of a neighbouring section's are kept (the maximal
    cliques of the interval graph): what holds there holds everywhere.
    """

    members: tuple[tuple[int, ...], ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    neighbours: tuple[tuple[int, ...], ...]


def sweep(buffers: tuple[Buffer, ...]) -> Sweep:
    """Sections in the order of time."""
    members = _maximal_sections(buffers)
    first = [-1] * len(buffers)
    last = [-1] * len(buffers)
    seen: list[dict[int, None]] = [{} for _ in buffers]
    for section, live in enumerate(members):
        for number in live:
            if first[number] < 0:
                first[number] = section
            last[number] = section + 1
            seen[number].update(dict.fromkeys(live))
    neighbours = tuple(
        tuple(sorted(other for other in found if other != number))
        for number, found in enumerate(seen)
    )
    return Sweep(members, tuple(first), tuple(last), neighbours)


def _maximal_sections(buffers: tuple[Buffer, ...]) -> tuple[tuple[int, ...], ...]:
    """The live sets just before a lifetime ends after another began."""
    events = sorted(
        [(buffer.lower, 1, number) for number, buffer in enumerate(buffers)]
        + [(buffer.upper, 0, number) for number, buffer in enumerate(buffers)]
    )
    live: dict[int, None] = {}
    sections: list[tuple[int, ...]] = []
    grew = False
    for _, starts, number in events:
        if starts:
            live[number] = None
            grew = True
        else:
            if grew:
                sections.append(tuple(sorted(live)))
                grew = False
            del live[number]
    return tuple(sections)
