"""The price of a chain cut in stripes, part by part: what the estimate of a round in the middle
leaves out. Halos that are made again add up along a chain, and engines wait for each other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from stages.compiler.cascade.chains import Chain
from stages.compiler.cascade.prices import (
    EVENTS,
    ChainPrices,
    Estimate,
    GroupPrices,
    keeps_limits,
    price_of,
)
from stages.compiler.cascade.stripes import Part, Striped, striped
from stages.compiler.tiling.streams import box_bytes
from stages.compiler.tiling.workload import Boxes
from stages.hardware.cost import launch_cycles
from stages.hardware.spec import SyncMode
from stages.plan.instructions import DDR, SRAM
from stages.recipe.decisions import Engine
from stages.tensors import Box


def replayed(estimate: Estimate, prices: ChainPrices) -> Estimate | None:
    """The same chain and stripes with the cycles and bytes of all their parts; None where the
    tensor core can't make one of them: a part in the middle may take fewer pixels than others."""
    cut = striped(estimate.chain, estimate.stripe, estimate.wanted)
    replay = _Replay(cut, prices)
    for part in cut.parts:
        if not replay.add(part):
            return None
    cycles = replay.cycles()
    size = replay.ddr_bytes
    price = price_of(cycles, size, prices.spec)
    return replace(estimate, cycles=cycles, ddr_bytes=size, price=price, cut=cut)


@dataclass(slots=True)
class _Replay:
    """Parts that run one after the other on each engine, what they read made before.

    `made`: when the rows so far of what passes are ready. `bases`: the row with which its buffer
    begins. `read`: which rows of a buffer, counted from its first, are read until when.
    """

    cut: Striped
    prices: ChainPrices
    free: dict[Engine, int] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)
    read: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    bases: dict[str, int] = field(default_factory=dict)
    brought: dict[tuple[int, str], Box] = field(default_factory=dict)
    compute: int = 0
    moving: int = 0
    latency: int = 0
    ddr_bytes: int = 0

    @property
    def chain(self) -> Chain:
        """The chain."""
        return self.cut.chain

    def add(self, part: Part) -> bool:
        """Run a part, if its engine can: it starts when that is free, the rows that it reads are
        made, and those that it overwrites are read."""
        prices = self._prices(part.place)
        work, boxes, passed = prices.work, self.cut.boxes(part), self.chain.passes[part.place]
        if not keeps_limits(work, boxes, self.prices.spec):
            return False
        cycles = prices.prices.compute_cycles(boxes) + EVENTS * self.prices.spec.driver.event_cycles
        inner = [value for value in work.operands if value in self.chain.inner]
        start = max(
            self.free.get(work.group.engine, 0), *(self.made.get(value, 0) for value in inner), 0
        )
        start = max(start, self._overwritten(part, passed))
        self.bases[passed] = part.base
        end = start + cycles
        self.free[work.group.engine] = end
        self.made[passed] = max(end, self.made.get(passed, 0))
        for value in inner:
            low, high = boxes[value][self.chain.axis_of(value)]
            base = self.bases[value]
            self.read.setdefault(value, []).append((low - base, high - base, end))
        self.compute += cycles
        self._move(part.place, prices, boxes)
        return True

    def _overwritten(self, part: Part, passed: str) -> int:
        """When what a part overwrites in its buffer has been read."""
        reads = self.read.get(passed, [])
        low, high = (row - part.base for row in part.span)
        found = max((end for start, stop, end in reads if start < high and low < stop), default=0)
        if reads:
            kept = [item for item in reads if item[0] < low or item[1] > high]
            self.read[passed] = kept
        return found

    def _prices(self, place: int) -> GroupPrices:
        return self.prices.group(self.chain.numbers[place], self.chain.axes[place])

    def _move(self, place: int, prices: GroupPrices, boxes: Boxes) -> None:
        work, near = prices.work, self.prices.resident | self.cut.capacities.keys()
        passed = self.chain.passes[place]
        for value in work.operands:
            if value in work.constants or value in work.tables or value in near:
                continue
            if self.brought.get((place, value)) != boxes[value]:
                self.brought[place, value] = boxes[value]
                self._transfer(prices, value, boxes, (DDR, SRAM))
        if passed not in near or passed in self.cut.shared:
            self._transfer(prices, work.result, boxes, (SRAM, DDR))

    def _transfer(
        self, prices: GroupPrices, value: str, boxes: Boxes, ends: tuple[str, str]
    ) -> None:
        cost = prices.prices.box_cost(value, boxes, *ends)
        self.moving += cost.channel_cycles
        self.latency += cost.latency_cycles
        work = prices.work
        self.ddr_bytes += box_bytes(work.types[value], work.layout(value), boxes[value])

    def cycles(self) -> int:
        """Cycles of all parts, constants and launches."""
        spec, chain = self.prices.spec, self.chain
        launches = 0
        for place, work in enumerate(chain.works):
            fixed = self._prices(place).fixed
            self.moving += fixed.cycles
            self.latency += fixed.latency
            self.ddr_bytes += fixed.size_bytes
            launches += launch_cycles(spec, work.group.engine)
        steps = len(self.cut.parts)
        latency = self.latency // steps if spec.dma.outstanding > 1 else self.latency
        if spec.driver.sync_mode is SyncMode.STRICT:
            return launches + self.compute + self.moving + latency
        ramp = (self.compute + self.moving) // steps
        return launches + max(*self.free.values(), self.moving) + ramp + latency
