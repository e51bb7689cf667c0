"""What a chain costs when it runs in stripes, by the one cost model; for a choice among many.

A round in the middle stands for all rounds. A held result with a halo is made again in part
whenever its buffer begins a new lap: with room for `laps` rounds, that is once in `laps` rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stages.compiler.cascade.chains import Chain, Site
from stages.compiler.cascade.stripes import Striped
from stages.compiler.support import placement_alignment
from stages.compiler.tiling.streams import (
    align,
    box_bytes,
    dependencies,
    stream_bytes,
    streams,
)
from stages.compiler.tiling.tile_prices import TilePrices
from stages.compiler.tiling.workload import Boxes, Workload
from stages.hardware.cost import compulsory_cycles, launch_cycles
from stages.hardware.spec import HardwareSpec, SyncMode
from stages.plan.instructions import DDR, SRAM
from stages.recipe.decisions import Engine
from stages.tensors import full_box

Price = tuple[int, int]
"""Cycles and a little for traffic, then bytes to and from the DDR."""
EVENTS = 2
"""Events for each part that a group makes: it waits for one and signals one."""
_TRAFFIC_SHARE = 20  # of the time that bytes take on the DDR's port: what traffic itself costs


def price_of(cycles: int, ddr_bytes: int, spec: HardwareSpec) -> Price:
    """What a choice goes by: of ways that take nearly the same time the one that moves less."""
    return cycles + compulsory_cycles(spec, ddr_bytes) // _TRAFFIC_SHARE, ddr_bytes


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a chain in stripes: cycles, bytes to and from the DDR, bytes of SRAM that its
    buffers take, and rows that each buffer should hold. `cut`: its parts, where
    every one of them is priced, and not one round for all."""

    chain: Chain
    stripe: int
    cycles: int
    ddr_bytes: int
    sram_bytes: int
    wanted: Mapping[str, int]
    price: Price
    cut: Striped | None = None

    @property
    def interval(self) -> tuple[int, int]:
        """The groups `[start, stop)` of the chain."""
        return self.chain.start, self.chain.stop

    def is_cut_as(self, other: Estimate) -> bool:
        """Whether another way to cut the same groups comes to the same: its buffers may have been
        asked to hold more rounds than they can use."""
        return (
            self.stripe == other.stripe
            and self.wanted == other.wanted
            and self.chain.axes == other.chain.axes
        )


@dataclass(frozen=True, slots=True)
class _Moved:
    """A transfer: cycles on its channel, latency before it, bytes, and bytes of a slot."""

    cycles: int
    latency: int
    size_bytes: int
    slot_bytes: int


@dataclass(slots=True)
class GroupPrices:
    """Prices of spans of one group's result along an axis, in the middle of it; each is worked out
    once. `extent` of that axis; `step`: what cuts are multiples of."""

    work: Workload
    axis: int
    spec: HardwareSpec
    resident: frozenset[str]
    prices: TilePrices = field(init=False)
    spans: dict[int, Boxes] = field(default_factory=dict)
    computed: dict[int, int | None] = field(default_factory=dict)
    moved: dict[tuple[str, int], _Moved] = field(default_factory=dict)
    fixed: _Moved = field(init=False)
    extent: int = field(init=False)
    step: int = field(init=False)
    brought: dict[int, _Moved] = field(default_factory=dict)

    def __post_init__(self) -> None:
        everything = frozenset(self.work.types) - self.work.constants
        self.prices = TilePrices(self.work, self.spec, everything)
        self.extent = self.work.result_type.shape[self.axis]
        self.step = self.work.granularity(self.axis)
        self.fixed = self._constants()

    def whole(self, length: int) -> int:
        """A length as cuts can have it: in whole blocks, and no longer than the result."""
        return min(self.extent, align(length, self.step))

    def boxes(self, length: int) -> Boxes:
        """The boxes of a span of a length."""
        found = self.spans.get(length)
        if found is None:
            box = list(full_box(self.work.result_type.shape))
            start = (self.extent - length) // 2 // self.step * self.step
            box[self.axis] = (start, start + length)
            found = self.spans[length] = self.work.boxes(tuple(box))
        return found

    def compute_cycles(self, length: int) -> int | None:
        """Cycles of one instruction that makes a span; None where the tensor core can't."""
        if length not in self.computed:
            boxes = self.boxes(length)
            fits = keeps_limits(self.work, boxes, self.spec)
            self.computed[length] = self.prices.compute_cycles(boxes) if fits else None
        return self.computed[length]

    def total_cycles(self, total: int, rounds: int) -> int | None:
        """Cycles of so many rows in so many instructions, some of one row more than others; None
        where the tensor core can't."""
        most = self.whole(-(-total // rounds))
        cycles, least = self.compute_cycles(most), most - self.step
        if cycles is None or least <= 0:
            return cycles if cycles is None else rounds * cycles
        longer = min(rounds, max(0, -(-(total - least * rounds) // self.step)))
        return longer * cycles + (rounds - longer) * (self.compute_cycles(least) or 0)

    def transfer(self, value: str, length: int) -> _Moved:
        """What it takes to bring in the box of an operand, or take out that of the result."""
        found = self.moved.get((value, length))
        if found is None:
            boxes = self.boxes(length)
            ends = (SRAM, DDR) if value == self.work.result else (DDR, SRAM)
            cost = self.prices.box_cost(value, boxes, *ends)
            size = box_bytes(self.work.types[value], self.work.layout(value), boxes[value])
            slot = align(size, placement_alignment(self.spec.sram))
            found = _Moved(cost.channel_cycles, cost.latency_cycles, size, slot)
            self.moved[value, length] = found
        return found

    def constants(self, length: int) -> _Moved:
        """The group's constants, brought in once: what a span needs of those that the axis cuts
        while the span before is made, in two slots."""
        if length >= self.extent:
            return self.fixed
        found = self.brought.get(length)
        if found is None:
            found = self.brought[length] = self._brought(length)
        return found

    def _constants(self) -> _Moved:
        return self._brought(self.extent)

    def _brought(self, length: int) -> _Moved:
        work, whole = self.work, self.boxes(self.extent)
        alignment = placement_alignment(self.spec.sram)
        cycles = latency = size = slots = 0
        for stream in streams(work, dependencies(work), self.resident | {*work.operands}):
            is_cut = self.axis in stream.axes and length < self.extent
            boxes = self.boxes(length) if is_cut else whole
            times = -(-self.extent // length) if is_cut else 1
            for cost in self.prices.load_costs(stream, boxes):
                cycles += times * cost.channel_cycles
                latency += times * cost.latency_cycles
            size += stream_bytes(work, stream, whole, alignment)
            slots += (2 if is_cut else 1) * stream_bytes(work, stream, boxes, alignment)
        return _Moved(cycles, latency, size, slots)


def keeps_limits(work: Workload, boxes: Boxes, spec: HardwareSpec) -> bool:
    """Whether one instruction of the tensor core takes the contraction of some boxes."""
    product, core = work.product(boxes), spec.tensor_core
    if product is None:
        return True
    return product.m <= core.max_m and product.n <= core.max_n and product.k <= core.max_k


@dataclass(slots=True)
class ChainPrices:
    """Estimates of chains that end with one group. `resident`: values that lie whole in the SRAM
    anyway."""

    site: Site
    spec: HardwareSpec
    resident: frozenset[str]
    groups: dict[tuple[int, int], GroupPrices] = field(default_factory=dict)

    def group(self, number: int, axis: int) -> GroupPrices:
        """The prices of one group, cut along an axis."""
        found = self.groups.get((number, axis))
        if found is None:
            found = GroupPrices(self.site.works[number], axis, self.spec, self.resident)
            self.groups[number, axis] = found
        return found

    def estimates(
        self, chains: Sequence[Chain], stripe: int, laps: int | None, sram_bytes: int
    ) -> Iterator[Estimate]:
        """Estimates of chains that end with one group, each one group longer than the one before,
        up to one that no instruction can make, or that can't fit so many bytes of SRAM.

        `laps`: rounds for which buffers have room; None: for all of them.
        """
        last, axis = chains[0].stop - 1, chains[0].axes[-1]
        walk = _Walk(self, last, stripe, laps, -(-self.group(last, axis).extent // stripe))
        walk.add(last, axis)
        for chain in chains:
            walk.add(chain.start, chain.axes[0])
            if not walk.is_legal or walk.sram_bytes > sram_bytes:
                return
            if chain.is_whole:
                yield walk.estimate(chain)


@dataclass(slots=True)
class _Walk:
    """A chain being followed backwards, its cost so far. `needed`: rows of a value in one round, at
    most; on average it is its extent over the rounds, and what is beyond that, the halo. `drawn`:
    rows of a value that its readers take in all rounds, where none of them takes a row twice;
    `engines`: theirs."""

    prices: ChainPrices
    last: int
    stripe: int
    laps: int | None
    rounds: int
    needed: dict[str, int] = field(default_factory=dict)
    drawn: dict[str, int | None] = field(default_factory=dict)
    engines: dict[str, set[Engine]] = field(default_factory=dict)
    outside: dict[str, _Moved] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)
    compute: dict[Engine, int] = field(default_factory=dict)
    launches: int = 0
    loading: int = 0
    storing: int = 0
    latency: int = 0
    ddr_bytes: int = 0
    sram_bytes: int = 0
    is_legal: bool = True

    def add(self, number: int, axis: int) -> None:
        """Put a group before the chain."""
        site, prices = self.prices.site, self.prices.group(number, axis)
        work = prices.work
        value = work.result if number == self.last else site.passed(number)
        is_held = site.is_held(value, self.last + 1)
        is_buffered = number != self.last and (is_held or value not in self.prices.resident)
        most = prices.whole(self.needed.get(value, self.stripe))
        total = self._buffered(value, most, prices) if is_buffered else prices.extent
        made = prices.whole(-(-total // self.rounds))
        cycles = prices.total_cycles(total, self.rounds)
        if cycles is None or prices.compute_cycles(most) is None:
            self.is_legal = False
            return
        engine = work.group.engine
        cycles += self.rounds * EVENTS * self.prices.spec.driver.event_cycles
        self.compute[engine] = self.compute.get(engine, 0) + cycles
        self.launches += launch_cycles(self.prices.spec, engine)
        self._constants(prices.constants(most))
        if is_buffered:
            self.outside.pop(value, None)
            if not is_held:
                fresh = prices.whole(-(-prices.extent // self.rounds))
                self._store(prices.transfer(work.result, fresh), 0)
        elif value not in self.prices.resident:
            self._store(prices.transfer(work.result, made), 2)
        self._operands(number, prices, (total, made), most)

    def _buffered(self, value: str, most: int, prices: GroupPrices) -> int:
        """Give what a group hands on its buffer; returns the rows that are made in all rounds.

        Laps spare halos, and let another engine read while rows are made. What is read without a
        halo by the engine that makes it needs room for one round.
        """
        extent, rounds = prices.extent, self.rounds
        laps = self.laps
        drawn = self.drawn.get(value)
        if drawn is not None and self.engines[value] == {prices.work.group.engine}:
            laps = 1
        more = extent if laps is None else -(-(laps - 1) * extent // rounds)
        capacity = prices.whole(most + more)
        self.wanted[value] = max(capacity, self.wanted.get(value, 0))
        step = prices.step
        row_bytes = prices.transfer(prices.work.result, min(step, extent)).size_bytes
        alignment = placement_alignment(self.prices.spec.sram)
        self.sram_bytes += align(-(-capacity // step) * row_bytes, alignment)
        if drawn is not None:
            return min(drawn, extent * rounds)
        if capacity == extent:
            return extent
        in_lap = (capacity - most) * rounds // extent + 1
        halo = max(0, most * rounds - extent)
        return min(extent + halo // in_lap, extent * rounds)

    def _constants(self, fixed: _Moved) -> None:
        self.loading += fixed.cycles
        self.latency += fixed.latency
        self.ddr_bytes += fixed.size_bytes
        self.sram_bytes += fixed.slot_bytes

    def _store(self, moved: _Moved, slots: int) -> None:
        self.storing += self.rounds * moved.cycles
        self.latency += self.rounds * moved.latency
        self.ddr_bytes += self.rounds * moved.size_bytes
        self.sram_bytes += slots * moved.slot_bytes

    def _operands(self, number: int, prices: GroupPrices, rows: tuple[int, int], most: int) -> None:
        """Note what a group reads. `rows`: of its result, in all rounds, and in one of them."""
        work, site = prices.work, self.prices.site
        total, made = rows
        for value in work.operands:
            if value in work.constants or value in work.tables:
                continue
            cut = site.cut_axes(number, prices.axis)[value]
            if cut >= 0:
                low, high = prices.boxes(most)[value][cut]
                self.needed[value] = max(self.needed.get(value, 0), high - low)
                self._draw(value, cut, prices, rows)
            if value not in self.prices.resident:
                moved = prices.transfer(value, made)
                if cut == -1:
                    self._load(value, moved, 1, 1)
                else:
                    self._load(value, moved, min(self.rounds, -(-total // made)), 2)

    def _draw(self, value: str, cut: int, prices: GroupPrices, drawing: tuple[int, int]) -> None:
        """Note who reads a value, and how many rows of it where no two spans share one."""
        total, made = drawing
        self.engines.setdefault(value, set()).add(prices.work.group.engine)
        (low, high), (first, last) = (prices.boxes(rows)[value][cut] for rows in (made, 2 * made))
        overlaps = 2 * made > prices.extent or last - first < 2 * (high - low)
        rows = None if overlaps else -(-total * (high - low) // made)
        known = self.drawn.get(value, 0)
        self.drawn[value] = None if rows is None or known is None else max(known, rows)

    def _load(self, value: str, moved: _Moved, times: int, slots: int) -> None:
        """Note the load of an operand; it is none where its maker joins the chain later."""
        other = self.outside.get(value, _Moved(0, 0, 0, 0))
        self.outside[value] = _Moved(
            other.cycles + times * moved.cycles,
            other.latency + times * moved.latency,
            other.size_bytes + times * moved.size_bytes,
            other.slot_bytes + slots * moved.slot_bytes,
        )

    def estimate(self, chain: Chain) -> Estimate:
        """The cost of what was put together so far."""
        spec, outside = self.prices.spec, self.outside.values()
        loading = self.loading + sum(item.cycles for item in outside)
        latency = self.latency + sum(item.latency for item in outside)
        ddr_bytes = self.ddr_bytes + sum(item.size_bytes for item in outside)
        steps = self.rounds * len(chain.works)
        if spec.dma.outstanding > 1:
            latency //= steps
        moving = loading + self.storing
        compute = sum(self.compute.values())
        # With rows to spare in the buffers, one engine goes on while the other reads.
        longest = compute if self.laps == 1 else max(self.compute.values())
        if spec.driver.sync_mode is SyncMode.STRICT:
            cycles = self.launches + compute + moving + latency
        else:
            ramp = (compute + moving) // steps
            cycles = self.launches + max(longest, moving) + ramp + latency
        return Estimate(
            chain,
            self.stripe,
            cycles,
            ddr_bytes,
            self.sram_bytes + sum(item.slot_bytes for item in outside),
            {value: self.wanted[value] for value in self.wanted if value in chain.inner},
            price_of(cycles, ddr_bytes, spec),
        )
