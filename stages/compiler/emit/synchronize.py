"""Events: the fewest signals and waits under which the queues keep the meaning of program order.

Queues run in order, so what an instruction must wait for is, for each other queue, the last
instruction there that it depends on. What a queue already knows to have ended, directly or through
the queue it waited for, needs no second wait (vector clocks after Mattern, 1989).
"""

from __future__ import annotations

from collections.abc import Sequence

from stages.compiler.emit.program import Written
from stages.plan.instructions import Instruction, Opcode

_Clock = list[int]
"""For each queue, the last instruction (its number in program order) known to have ended; -1."""


def synchronized(
    program: Sequence[Written], predecessors: Sequence[Sequence[int]], queues: Sequence[str]
) -> list[Instruction]:
    """The program with SIGNAL_EVENT and WAIT_EVENT instructions; `predecessors` are the numbers of
    those that each instruction must wait for."""
    waits = _waits(program, predecessors, queues)
    signalled = sorted({number for needed in waits for number in needed})
    events = {number: event for event, number in enumerate(signalled)}
    result: list[Instruction] = []
    for number, (item, needed) in enumerate(zip(program, waits, strict=True)):
        queue, group = item.instruction.queue, item.instruction.group
        for other in sorted(needed):
            wait = Instruction(Opcode.WAIT_EVENT, queue, group, event=events[other])
            result.append(wait)
        result.append(item.instruction)
        if number in events:
            signal = Instruction(Opcode.SIGNAL_EVENT, queue, group, event=events[number])
            result.append(signal)
    return result


def _waits(
    program: Sequence[Written], predecessors: Sequence[Sequence[int]], queues: Sequence[str]
) -> list[list[int]]:
    index = {queue: number for number, queue in enumerate(queues)}
    queue_of = [index[item.instruction.queue] for item in program]
    count = len(queues)
    known: list[_Clock] = [[-1] * count for _ in queues]
    ended: list[_Clock] = []
    waits: list[list[int]] = []
    for number, others in enumerate(predecessors):
        queue = queue_of[number]
        clock = known[queue]
        needed = [-1] * count
        for other in others:
            if other > needed[queue_of[other]]:
                needed[queue_of[other]] = other
        found = [
            needed[other]
            for other in range(count)
            if other != queue and needed[other] > clock[other]
        ]
        for other in found:
            for place, value in enumerate(ended[other]):
                if value > clock[place]:
                    clock[place] = value
        waits.append(_without_implied(found, ended, queue_of))
        clock[queue] = number
        ended.append(list(clock))
    return waits


def _without_implied(
    found: list[int], ended: Sequence[_Clock], queue_of: Sequence[int]
) -> list[int]:
    """Waits that no other wait of the same instruction implies."""
    return [
        number
        for number in found
        if not any(other != number and ended[other][queue_of[number]] >= number for other in found)
    ]
