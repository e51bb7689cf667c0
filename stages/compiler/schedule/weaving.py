"""The schedules that attempts to weave a program give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stages.compiler.emit.program import Written
from stages.compiler.schedule.attempts import Attempt, Freedom, ScheduledProgram
from stages.compiler.schedule.clock import Clock, Pricing
from stages.compiler.schedule.dependencies import Dependencies
from stages.compiler.schedule.forwarding import forwarded
from stages.compiler.schedule.holding import held
from stages.compiler.schedule.holds import Hold, holds_of
from stages.compiler.schedule.ordered import OrderedProgram
from stages.compiler.schedule.ordering import Packing, Scheduler, Stuck
from stages.compiler.schedule.permute import permuted, relaunched, reordered, without
from stages.compiler.schedule.weave import woven_order
from stages.hardware.spec import HardwareSpec

_LARGE_TENTHS = 4
"""Slots of as many tenths of the SRAM are filled one after the other."""
_MOST_INSTRUCTIONS = 120_000
"""No further schedule is begun once so many instructions have been scheduled in vain."""


@dataclass(frozen=True, slots=True)
class _Laid:
    """A program in a woven order, not yet scheduled."""

    written: list[Written]
    found: Dependencies
    clock: Clock


def _scheduled(laid: _Laid, spec: HardwareSpec) -> tuple[int, ScheduledProgram] | None:
    """A list schedule and when it ends; None where a buffer finds no room."""
    scheduler = Scheduler(laid.found, laid.clock.fresh(), spec, frozenset(), Packing.SORTED)
    try:
        ordering = scheduler.run()
    except Stuck:
        return None
    end = max(scheduler.ends, default=0)
    return end, ScheduledProgram(laid.written, laid.found, laid.clock, ordering)


@dataclass(slots=True)
class Weaving:
    """A program to weave; its orders, and what could be held in each, are found once. `found` holds
    every dependency (`Reach.ALL`)."""

    written: Sequence[Written]
    found: Dependencies
    clock: Clock
    price: Pricing
    spec: HardwareSpec
    orders: dict[Freedom, OrderedProgram] = field(default_factory=dict)
    holds: dict[Freedom, list[Hold]] = field(default_factory=dict)

    def first(self, attempts: Sequence[Attempt]) -> ScheduledProgram | None:
        """The program in the first attempt that finds room; None where none does."""
        spent = 0
        for attempt in attempts:
            if spent > _MOST_INSTRUCTIONS:
                break
            laid = self._laid(attempt)
            spent += len(laid.written)
            scheduled = _scheduled(laid, self.spec)
            if scheduled is not None:
                return scheduled[1]
        return None

    def ends(self, attempts: Sequence[Attempt]) -> dict[Attempt, int]:
        """When the last instruction ends in each attempt; those that find no room are left out."""
        found = {attempt: _scheduled(self._laid(attempt), self.spec) for attempt in attempts}
        return {attempt: item[0] for attempt, item in found.items() if item is not None}

    def _laid(self, attempt: Attempt) -> _Laid:
        """The program in the order of an attempt, without the transfers that it saves."""
        ordered, clock, room = self._ordered(attempt.freedom), self.clock, self._bytes
        if attempt.held:
            holds = self._holds(attempt.freedom)
            done = held(ordered, holds, clock.prices, self.price, self.spec.dma, room(attempt.held))
            left = done.program
            clock = without(clock, left.kept, done.prices)
            ordered = OrderedProgram(left.written, left.found, left.order)
        short = forwarded(ordered, room(attempt.loaded))
        program = relaunched(short.written, short.order)
        clock = reordered(clock, [short.kept[number] for number in short.order], program)
        return _Laid(program, permuted(short.found, short.order), clock)

    def _bytes(self, tenths: int) -> int:
        return self.spec.sram.usable_bytes * tenths // 10

    def _ordered(self, freedom: Freedom) -> OrderedProgram:
        if freedom not in self.orders:
            large = self._bytes(_LARGE_TENTHS)
            order = woven_order(self.written, self.found, self.clock, freedom, large)
            self.orders[freedom] = OrderedProgram(self.written, self.found, order)
        return self.orders[freedom]

    def _holds(self, freedom: Freedom) -> list[Hold]:
        if freedom not in self.holds:
            self.holds[freedom] = holds_of(self._ordered(freedom), self.clock.prices)
        return self.holds[freedom]
