"""Rules about events: paired, in order, free of deadlock."""

from __future__ import annotations

from stages.plan.instructions import Opcode
from stages.plan.rules.facts import Facts
from stages.plan.rules.violation import Finding, Findings


def events(facts: Facts) -> Findings:
    """Every event is signalled exactly once and awaited at least once.

    Cure: signal each event that is awaited, and leave out a signal that nothing awaits.
    """
    signals, waits = facts.signals, facts.waits
    for event, places in waits.items():
        if event not in signals:
            yield Finding(
                f"event {event}, awaited by instruction {places[0]}, is never signalled",
                "signal it after the instruction that it stands for",
                places[0],
            )
    for event, places in signals.items():
        if len(places) > 1:
            yield Finding(
                f"event {event} is signalled by instructions {', '.join(map(str, places))}",
                "use a number of its own for each signal",
                places[1],
            )
        if event not in waits:
            yield Finding(
                f"event {event}, signalled by instruction {places[0]}, is never awaited",
                "leave the signal out",
                places[0],
            )


def event_order(facts: Facts) -> Findings:
    """An event's signal stands before its waits in the program.

    The program run one instruction at a time, in order, is the plan's meaning, so it must be able
    to run that way.

    Cure: move the wait behind the signal in the program.
    """
    early = _early_waits(facts)
    blocked = frozenset(_blocked(facts)) if early else frozenset()
    for place, event in early:
        if place not in blocked:
            signal = facts.signals[event][0]
            yield Finding(
                f"instruction {place} awaits event {event}, which instruction {signal} signals",
                "move the wait behind the signal in the program",
                place,
            )


def deadlock(facts: Facts) -> Findings:
    """No queue waits for itself by way of others.

    Queues run their instructions in order and stop at a wait until its event is signalled. There
    must be no ring of waits, each for a signal behind the next one.

    Cure: move one of the ring's signals before the wait that holds it up.
    """
    blocked = _blocked(facts) if _early_waits(facts) else []
    if not blocked:
        return
    signals = facts.signals
    rows = facts.plan.instructions
    by_queue = {rows[place].queue: place for place in blocked}
    ring: list[int] = []
    place = blocked[0]
    while place not in ring:
        ring.append(place)
        place = by_queue[rows[signals[rows[place].event][0]].queue]
    ring = ring[ring.index(place) :]
    steps = "; ".join(
        f"instruction {wait} on {rows[wait].queue} awaits event {rows[wait].event}, which "
        f"instruction {signals[rows[wait].event][0]} signals"
        for wait in ring
    )
    yield Finding(
        f"queues wait for each other in a ring: {steps}",
        "move one of these signals before the wait that holds it up",
        ring[0],
    )


def _early_waits(facts: Facts) -> list[tuple[int, int]]:
    """The waits, with their events, that stand before the first signal in the program. Where there
    are none, nothing can be stuck: each queue's order follows the program's."""
    return [
        (place, event)
        for event, places in facts.waits.items()
        for place in places
        if event in facts.signals and place < facts.signals[event][0]
    ]


def _blocked(facts: Facts) -> list[int]:
    """The waits at which the queues stop for good, when each runs as far as it can.

    A wait for an event that nothing signals holds nothing up here: `events` reports it.
    """
    rows = facts.plan.instructions
    queues: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        queues.setdefault(row.queue, []).append(index)
    pending = set(facts.signals)
    heads = dict.fromkeys(queues, 0)
    ready = list(queues)
    sleepers: dict[int, list[str]] = {}
    while ready:
        queue = ready.pop()
        line = queues[queue]
        head = heads[queue]
        while head < len(line):
            row = rows[line[head]]
            if row.opcode is Opcode.WAIT_EVENT and row.event in pending:
                sleepers.setdefault(row.event, []).append(queue)
                break
            if row.opcode is Opcode.SIGNAL_EVENT and row.event in pending:
                pending.remove(row.event)
                ready.extend(sleepers.pop(row.event, ()))
            head += 1
        heads[queue] = head
    return [line[heads[queue]] for queue, line in queues.items() if heads[queue] < len(line)]
