"""Which instructions happen before which: queue order and events, as vector clocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.plan.instructions import Opcode, Plan


@dataclass(frozen=True, slots=True)
class Order:
    """What each instruction knows of each queue.

    `queue[i]` is the number of instruction i's queue and `position[i]` its place in it.
    `known[clock[i], q]` counts the instructions of queue q that have ended when i begins; what
    came before i in its own queue has always ended.
    """

    queues: tuple[str, ...]
    queue: NDArray[np.int64]
    position: NDArray[np.int64]
    clock: NDArray[np.int64]
    known: NDArray[np.int64]


def work_out_order(plan: Plan) -> Order:
    """One pass in program order; a wait for an event not yet signalled orders nothing."""
    queues = tuple(dict.fromkeys((*plan.queues, *(row.queue for row in plan.instructions))))
    numbers = {name: number for number, name in enumerate(queues)}
    counts = [0] * len(queues)
    current = list(range(len(queues)))
    known: list[list[int]] = [[0] * len(queues) for _ in queues]
    signalled: dict[int, list[int]] = {}
    queue, position, clock = [], [], []
    for row in plan.instructions:
        number = numbers[row.queue]
        if row.opcode is Opcode.WAIT_EVENT and row.event in signalled:
            joined = list(map(max, known[current[number]], signalled[row.event]))
            if joined != known[current[number]]:
                current[number] = len(known)
                known.append(joined)
        queue.append(number)
        position.append(counts[number])
        clock.append(current[number])
        counts[number] += 1
        if row.opcode is Opcode.SIGNAL_EVENT and row.event not in signalled:
            knowledge = list(known[current[number]])
            knowledge[number] = counts[number]
            signalled[row.event] = knowledge
    return Order(
        queues,
        np.array(queue, np.int64),
        np.array(position, np.int64),
        np.array(clock, np.int64),
        np.array(known, np.int64).reshape(len(known), len(queues)),
    )
