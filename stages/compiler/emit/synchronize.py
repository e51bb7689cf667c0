"""Events: the fewest signals and waits under which the queues keep the meaning of program order.

Queues run in order, so what an instruction must wait for is, for each other queue, the last
instruction there that it depends on. What a queue already knows to have ended, directly or through
the queue it waited for, needs no second wait (vector clocks after Mattern, 1989).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stages.compiler.emit.program import Place, Written
from stages.plan.instructions import Instruction, Opcode

_Clock = list[int]
"""For each queue, the last instruction (its number in program order) known to have ended; -1."""


@dataclass(slots=True)
class _History:
    """The last write of a place and the last access, for each queue."""

    place: Place
    written: _Clock
    touched: _Clock


@dataclass(slots=True)
class Synchronizer:
    """Finds the waits of each instruction, then writes events into the program."""

    queues: tuple[str, ...]
    histories: dict[str, _History] = field(default_factory=dict)
    by_memory: dict[str, list[_History]] = field(default_factory=dict)

    def synchronized(self, program: Sequence[Written]) -> list[Instruction]:
        """The program with SIGNAL_EVENT and WAIT_EVENT instructions."""
        waits = self._waits(program)
        signalled = sorted({number for needed in waits for number in needed})
        events = {number: event for event, number in enumerate(signalled)}
        result: list[Instruction] = []
        for number, (item, needed) in enumerate(zip(program, waits, strict=True)):
            queue, group = item.instruction.queue, item.instruction.group
            for other in sorted(needed):
                wait = Instruction(Opcode.WAIT_EVENT, queue, group, event=events[other])
                result.append(wait)
            result.append(replace(item.instruction))
            if number in events:
                signal = Instruction(Opcode.SIGNAL_EVENT, queue, group, event=events[number])
                result.append(signal)
        return result

    def _waits(self, program: Sequence[Written]) -> list[list[int]]:
        index = {queue: number for number, queue in enumerate(self.queues)}
        count = len(self.queues)
        known: list[_Clock] = [[-1] * count for _ in self.queues]
        ended: dict[int, _Clock] = {}
        waits: list[list[int]] = []
        for number, item in enumerate(program):
            queue = index[item.instruction.queue]
            clock = known[queue]
            needed = self._dependencies(item, count)
            found = []
            for other in range(count):
                if other != queue and needed[other] > clock[other]:
                    found.append(needed[other])
            for other in found:
                for place, value in enumerate(ended[other]):
                    if value > clock[place]:
                        clock[place] = value
            waits.append(_without_implied(found, ended, index, program))
            clock[queue] = number
            ended[number] = list(clock)
            self._note(item, queue, number)
        return waits

    def _dependencies(self, item: Written, count: int) -> _Clock:
        needed = [-1] * count
        for place in item.reads:
            _raise(needed, self._history(place, count).written)
        for place in item.writes:
            _raise(needed, self._history(place, count).touched)
        return needed

    def _history(self, place: Place, count: int) -> _History:
        found = self.histories.get(place.name)
        if found is None:
            found = self._inherited(place, count)
            self.histories[place.name] = found
        return found

    def _inherited(self, place: Place, count: int) -> _History:
        """A place that is new takes over the accesses of those whose addresses it reuses."""
        fresh = _History(place, [-1] * count, [-1] * count)
        kept = []
        for old in self.by_memory.get(place.memory, []):
            if not _overlap(old.place, place):
                kept.append(old)
                continue
            _raise(fresh.touched, old.touched)
            if not _covers(place, old.place):
                kept.append(old)
        kept.append(fresh)
        self.by_memory[place.memory] = kept
        return fresh

    def _note(self, item: Written, queue: int, number: int) -> None:
        for place in item.reads:
            self.histories[place.name].touched[queue] = number
        for place in item.writes:
            history = self.histories[place.name]
            history.touched[queue] = history.written[queue] = number


def _raise(clock: _Clock, other: _Clock) -> None:
    for index, value in enumerate(other):
        if value > clock[index]:
            clock[index] = value


def _without_implied(
    found: list[int],
    ended: dict[int, _Clock],
    index: dict[str, int],
    program: Sequence[Written],
) -> list[int]:
    """Waits that no other wait of the same instruction implies."""
    kept = []
    for number in found:
        queue = index[program[number].instruction.queue]
        if not any(other != number and ended[other][queue] >= number for other in found):
            kept.append(number)
    return kept


def _overlap(first: Place, second: Place) -> bool:
    return (
        first.address < second.address + second.size_bytes
        and second.address < first.address + first.size_bytes
    )


def _covers(outer: Place, inner: Place) -> bool:
    return (
        outer.address <= inner.address
        and inner.address + inner.size_bytes <= outer.address + outer.size_bytes
    )
