"""The race detector: conflicting accesses that neither queue order nor events put in order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stages.plan.rules.boxes import box_of, boxes_overlap
from stages.plan.rules.facts import Accesses, Facts
from stages.plan.rules.order import Order
from stages.plan.rules.violation import Finding, Findings, say_range, say_region
from stages.plan.syntax import Form, form_of

_CHUNK = 1_000_000
"""Numbers looked at in one numpy step."""

Numbers = NDArray[np.int64]
"""Numbers of accesses; in pairs, a row of earlier ones above a row of later ones."""


def race(facts: Facts) -> Findings:
    """Every read happens after its write and before the next one.

    When two instructions touch the same byte and at least one writes it, the first in program
    order must have ended before the second begins: they are on one queue, or a signal behind the
    first reaches a wait before the second, directly or by way of other queues. Strided regions
    conflict only where they share a byte.

    Cure: signal an event behind the first instruction and await it before the second.
    """
    accesses, order = facts.accesses, facts.order
    rows = facts.plan.instructions
    seen: set[tuple[int, int]] = set()
    for earlier, later in _conflicts(accesses, order):
        one, other = int(accesses.instruction[earlier]), int(accesses.instruction[later])
        if (one, other) in seen:
            continue
        seen.add((one, other))
        shared = say_range(
            int(max(accesses.start[earlier], accesses.start[later])),
            int(min(accesses.stop[earlier], accesses.stop[later])),
        )
        yield Finding(
            f"instruction {one} on {rows[one].queue} {verb(accesses, earlier)} and instruction "
            f"{other} on {rows[other].queue} {verb(accesses, later)}; they share bytes of "
            f"{shared} and nothing puts them in order",
            f"signal an event behind instruction {one} and await it before instruction {other}",
            other,
        )


def ranges_meet(accesses: Accesses, one: Numbers, other: Numbers) -> NDArray[np.bool_]:
    """Whether bounding ranges have bytes of one memory in common."""
    same: NDArray[np.bool_] = accesses.memory[one] == accesses.memory[other]
    starts, stops = accesses.start, accesses.stop
    meet: NDArray[np.bool_] = (starts[one] < stops[other]) & (starts[other] < stops[one])
    return same & meet


def verb(accesses: Accesses, access: int) -> str:
    """What an access does, as findings say it."""
    word = "writes" if accesses.writes[access] else "reads"
    return f"{word} {say_region(accesses.regions[access])}"


def _conflicts(accesses: Accesses, order: Order) -> Iterator[tuple[int, int]]:
    """Numbers of accesses that conflict and aren't ordered."""
    verdicts: dict[tuple[Form, Form, int], bool] = {}
    for one, other in _unordered(accesses, order):
        hit = (accesses.writes[one] | accesses.writes[other]) & ranges_meet(accesses, one, other)
        for earlier, later in zip(one[hit].tolist(), other[hit].tolist(), strict=True):
            first, second = accesses.regions[earlier], accesses.regions[later]
            key = (form_of(first), form_of(second), second.address - first.address)
            if (verdict := verdicts.get(key)) is None:
                verdict = verdicts[key] = boxes_overlap(box_of(first), box_of(second))
            if verdict:
                yield earlier, later


def _unordered(accesses: Accesses, order: Order) -> Iterator[Numbers]:
    """Numbers of accesses on different queues, the first earlier in the program, that no chain of
    events puts in order.

    For an access b, what its queue knows of another queue q is a count of q's instructions. The
    accesses of q behind that count and before b in the program are those that b may race with.
    """
    queue = order.queue[accesses.instruction]
    members = [np.flatnonzero(queue == number) for number in range(len(order.queues))]
    positions = [order.position[accesses.instruction[mine]] for mine in members]
    for number, mine in enumerate(members):
        clocks = order.clock[accesses.instruction[mine]]
        for other, theirs in enumerate(members):
            if other == number or not mine.size or not theirs.size:
                continue
            low = np.searchsorted(positions[other], order.known[clocks, other])
            high = np.searchsorted(accesses.instruction[theirs], accesses.instruction[mine])
            yield from _expand(mine, theirs, low, high)


def _expand(mine: Numbers, theirs: Numbers, low: Numbers, high: Numbers) -> Iterator[Numbers]:
    """Every (theirs[j], mine[i]) with low[i] <= j < high[i], in chunks."""
    some = np.flatnonzero(low < high)
    counts = (high - low)[some]
    ends = np.cumsum(counts)
    done = 0
    while done < some.size:
        base = int(ends[done - 1]) if done else 0
        stop = max(int(np.searchsorted(ends, base + _CHUNK, side="right")), done + 1)
        part, sizes = some[done:stop], counts[done:stop]
        later = np.repeat(mine[part], sizes)
        offsets = np.arange(later.size) - np.repeat(ends[done:stop] - sizes - base, sizes)
        earlier = theirs[np.repeat(low[part], sizes) + offsets]
        yield np.stack((earlier, later))
        done = stop
