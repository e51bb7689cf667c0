"""Rules about events: paired, in order, free of deadlock."""

from __future__ import annotations

from stages.plan.instructions import NO_EVENT, Opcode, Plan
from stages.plan.rules.facts import Facts
from stages.plan.rules.violation import Finding, Findings


def events(facts: Facts) -> Findings:
    """Every event is signalled exactly once and awaited at least once.

    Cure: signal each event that is awaited, and leave out a signal that nothing awaits.
    """
    signals = _by_event(facts.plan, Opcode.SIGNAL_EVENT)
    waits = _by_event(facts.plan, Opcode.WAIT_EVENT)
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
    blocked = frozenset(_blocked(facts.plan))
    signals = _by_event(facts.plan, Opcode.SIGNAL_EVENT)
    for event, places in _by_event(facts.plan, Opcode.WAIT_EVENT).items():
        signal = signals.get(event, [-1])[0]
        for place in places:
            if place < signal and place not in blocked:
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
    blocked = _blocked(facts.plan)
    if not blocked:
        return
    signals = _by_event(facts.plan, Opcode.SIGNAL_EVENT)
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


def _by_event(plan: Plan, opcode: Opcode) -> dict[int, list[int]]:
    """The instructions of this class by their event; `operands` reports those without one."""
    places: dict[int, list[int]] = {}
    for index, row in enumerate(plan.instructions):
        if row.opcode is opcode and row.event != NO_EVENT:
            places.setdefault(row.event, []).append(index)
    return places


def _blocked(plan: Plan) -> list[int]:
    """The waits at which the queues stop for good, when each runs as far as it can.

    A wait for an event that nothing signals holds nothing up here: `events` reports it.
    """
    rows = plan.instructions
    queues: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        queues.setdefault(row.queue, []).append(index)
    pending = set(_by_event(plan, Opcode.SIGNAL_EVENT))
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
