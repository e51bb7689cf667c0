"""The price of a chain cut in stripes, part by part: what the estimate of a round in the middle
leaves out. Halos that are made again add up along a chain, and engines wait for each other."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace

from stages.compiler.cascade.estimates import EVENTS, Estimate, price_of
from stages.compiler.cascade.span_prices import SpanPrices
from stages.compiler.cascade.stripes import Part, Striped, striped
from stages.compiler.cascade.walks import ChainPrices
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


@dataclass(frozen=True, slots=True)
class _Member:
    """A group of the chain: what it hands on, the operands that pass within the chain, with the
    axes along which they are cut, those that are loaded, and whether its result is stored."""

    prices: SpanPrices
    passed: str
    inner: tuple[tuple[str, int], ...]
    loaded: tuple[str, ...]
    is_stored: bool


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
    members: list[_Member] = field(init=False)
    compute: int = 0
    moving: int = 0
    latency: int = 0
    ddr_bytes: int = 0

    def __post_init__(self) -> None:
        near = self.prices.resident | self.cut.capacities.keys()
        self.members = [self._member(place, near) for place in range(len(self.cut.chain.works))]

    def _member(self, place: int, near: Set[str]) -> _Member:
        chain = self.cut.chain
        prices = self.prices.group(chain.numbers[place], chain.axes[place])
        work, passed = prices.work, chain.passes[place]
        fixed = near | work.constants | work.tables
        return _Member(
            prices,
            passed,
            tuple((value, chain.axis_of(value)) for value in work.operands if value in chain.inner),
            tuple(value for value in work.operands if value not in fixed),
            passed not in near or passed in self.cut.shared,
        )

    def add(self, part: Part) -> bool:
        """Run a part, if its engine can: it starts when that is free, the rows that it reads are
        made, and those that it overwrites are read."""
        member, boxes = self.members[part.place], self.cut.boxes(part)
        prices, passed = member.prices, member.passed
        made = prices.part_cycles(part.span, boxes)
        if made is None:
            return False
        engine = prices.work.group.engine
        cycles = made + EVENTS * self.prices.spec.driver.event_cycles
        start = max(self.free.get(engine, 0), self._overwritten(part, passed))
        for value, _ in member.inner:
            start = max(start, self.made.get(value, 0))
        self.bases[passed] = part.base
        end = start + cycles
        self.free[engine] = end
        self.made[passed] = max(end, self.made.get(passed, 0))
        for value, axis in member.inner:
            low, high = boxes[value][axis]
            base = self.bases[value]
            self.read.setdefault(value, []).append((low - base, high - base, end))
        self.compute += cycles
        self._move(part.place, boxes)
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

    def _move(self, place: int, boxes: Boxes) -> None:
        member = self.members[place]
        for value in member.loaded:
            if self.brought.get((place, value)) != boxes[value]:
                self.brought[place, value] = boxes[value]
                self._transfer(member.prices, value, boxes, (DDR, SRAM))
        if member.is_stored:
            self._transfer(member.prices, member.prices.work.result, boxes, (SRAM, DDR))

    def _transfer(
        self, prices: SpanPrices, value: str, boxes: Boxes, ends: tuple[str, str]
    ) -> None:
        cost = prices.prices.box_cost(value, boxes, *ends)
        self.moving += cost.channel_cycles
        self.latency += cost.latency_cycles
        work = prices.work
        self.ddr_bytes += box_bytes(work.types[value], work.layout(value), boxes[value])

    def cycles(self) -> int:
        """Cycles of all parts, constants and launches."""
        spec = self.prices.spec
        launches = 0
        for member in self.members:
            fixed = member.prices.fixed
            self.moving += fixed.cycles
            self.latency += fixed.latency
            self.ddr_bytes += fixed.size_bytes
            launches += launch_cycles(spec, member.prices.work.group.engine)
        steps = len(self.cut.parts)
        latency = self.latency // steps if spec.dma.outstanding > 1 else self.latency
        if spec.driver.sync_mode is SyncMode.STRICT:
            return launches + self.compute + self.moving + latency
        ramp = (self.compute + self.moving) // steps
        return launches + max(*self.free.values(), self.moving) + ramp + latency
