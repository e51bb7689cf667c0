"""What a chain costs when it runs in stripes, by the one cost model; for a choice among many.

A round in the middle stands for all rounds. A held result with a halo is made again in part
whenever its buffer begins a new lap: with room for `laps` rounds, that is once in `laps` rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, inf

from stages.compiler.cascade.chains import Chain, Site, chains_ending
from stages.compiler.support import placement_alignment
from stages.compiler.tiling.streams import Stream, align, box_bytes, dependencies, streams
from stages.compiler.tiling.tile_prices import TilePrices
from stages.compiler.tiling.workload import Boxes, Workload
from stages.hardware.cost import launch_cycles
from stages.hardware.spec import HardwareSpec, SyncMode
from stages.plan.instructions import DDR, SRAM
from stages.tensors import full_box


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a chain in stripes: cycles, bytes to and from the DDR, bytes of SRAM that its
    buffers take, and rows that each buffer should hold."""

    chain: Chain
    stripe: int
    cycles: int
    ddr_bytes: int
    sram_bytes: int
    wanted: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Moved:
    """A transfer: cycles on its channel, latency before it, bytes, and bytes of a slot."""

    cycles: int
    latency: int
    size_bytes: int
    slot_bytes: int


@dataclass(slots=True)
class GroupPrices:
    """Prices of spans of one group's result, in the middle of it; each is worked out once."""

    work: Workload
    axis: int
    spec: HardwareSpec
    resident: frozenset[str]
    prices: TilePrices = field(init=False)
    spans: dict[int, Boxes] = field(default_factory=dict)
    computed: dict[int, int | None] = field(default_factory=dict)
    moved: dict[tuple[str, int], _Moved] = field(default_factory=dict)
    fixed: _Moved = field(init=False)

    def __post_init__(self) -> None:
        everything = frozenset(self.work.types) - self.work.constants
        self.prices = TilePrices(self.work, self.spec, everything)
        self.fixed = self._constants()

    @property
    def extent(self) -> int:
        """The extent of the result along its axis."""
        return self.work.result_type.shape[self.axis]

    def boxes(self, length: int) -> Boxes:
        """The boxes of a span of a length."""
        found = self.spans.get(length)
        if found is None:
            box = list(full_box(self.work.result_type.shape))
            start = (self.extent - length) // 2
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

    def _constants(self) -> _Moved:
        """The group's constants, brought in once."""
        work = self.work
        boxes = self.boxes(self.extent)
        alignment = placement_alignment(self.spec.sram)
        cycles = latency = size = 0
        for stream in streams(work, dependencies(work), self.resident | {*work.operands}):
            for cost in self.prices.load_costs(stream, boxes):
                cycles += cost.channel_cycles
                latency += cost.latency_cycles
            size += _stream_bytes(work, stream, boxes, alignment)
        return _Moved(cycles, latency, size, size)


def _stream_bytes(work: Workload, stream: Stream, boxes: Boxes, alignment: int) -> int:
    return sum(
        align(box_bytes(work.types[value], work.layout(value), boxes[value]), alignment)
        for value in stream.values
        if value in boxes
    )


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
        self, last: int, axis: int, stripe: int, laps: float, longest: int
    ) -> Iterator[Estimate]:
        """Estimates of the chains that end with a group, from two groups on, each one group
        longer, up to one that no instruction can make."""
        prices = self.group(last, axis)
        walk = _Walk(self, last, stripe, laps, -(-prices.extent // stripe))
        walk.add(last, axis)
        for chain in chains_ending(self.site, last, axis, longest):
            walk.add(chain.start, chain.axes[0])
            if not walk.is_legal:
                return
            yield walk.estimate(chain)


@dataclass(slots=True)
class _Rows:
    """Rows of a value in one round: at most `most`; `fresh` of them weren't needed before."""

    most: int
    fresh: Fraction


@dataclass(slots=True)
class _Walk:
    """A chain being followed backwards, its cost so far."""

    prices: ChainPrices
    last: int
    stripe: int
    laps: float
    rounds: int
    needed: dict[str, _Rows] = field(default_factory=dict)
    outside: dict[str, _Moved] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)
    compute: int = 0
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
        is_held = number != self.last and site.is_held(work.result, self.last + 1)
        if number == self.last:
            rows = _Rows(self.stripe, Fraction(prices.extent, self.rounds))
        else:
            rows = self._rows(work.result, prices)
        made = self._held(rows, prices) if is_held else ceil(rows.fresh)
        cycles = prices.compute_cycles(made)
        if cycles is None or prices.compute_cycles(rows.most) is None:
            self.is_legal = False
            return
        self.compute += self.rounds * cycles
        self.launches += launch_cycles(self.prices.spec, work.group.engine)
        self._constants(prices.fixed)
        if is_held:
            self.outside.pop(work.result, None)
        elif work.result not in self.prices.resident:
            self._store(prices.transfer(work.result, made))
        self._operands(number, prices, made, rows)

    def _rows(self, value: str, prices: GroupPrices) -> _Rows:
        rows = self.needed[value]
        return _Rows(min(rows.most, prices.extent), min(rows.fresh, Fraction(prices.extent)))

    def _held(self, rows: _Rows, prices: GroupPrices) -> int:
        """Give a held result its buffer; returns the rows that are made in a round, on average."""
        value = prices.work.result
        if self.laps == inf:
            capacity = prices.extent
        else:
            capacity = min(prices.extent, rows.most + ceil((self.laps - 1) * rows.fresh))
        self.wanted[value] = capacity
        row_bytes = prices.transfer(value, 1).size_bytes
        alignment = placement_alignment(self.prices.spec.sram)
        self.sram_bytes += align(capacity * row_bytes, alignment)
        if capacity >= prices.extent:
            return ceil(rows.fresh)
        halo = max(Fraction(0), rows.most - rows.fresh)
        in_lap = max(1, int((capacity - rows.most) / rows.fresh) + 1) if rows.fresh else 1
        return min(prices.extent, ceil(rows.fresh + halo / in_lap))

    def _constants(self, fixed: _Moved) -> None:
        self.loading += fixed.cycles
        self.latency += fixed.latency
        self.ddr_bytes += fixed.size_bytes
        self.sram_bytes += fixed.slot_bytes

    def _store(self, moved: _Moved) -> None:
        self.storing += self.rounds * moved.cycles
        self.latency += self.rounds * moved.latency
        self.ddr_bytes += self.rounds * moved.size_bytes
        self.sram_bytes += 2 * moved.slot_bytes

    def _operands(self, number: int, prices: GroupPrices, made: int, rows: _Rows) -> None:
        work, site = prices.work, self.prices.site
        for value in work.operands:
            if value in work.constants or value in work.tables:
                continue
            cut = site.cut_axes(number, prices.axis)[value]
            if cut >= 0:
                self._need(value, prices, cut, rows)
            if value not in self.prices.resident:
                times = self.rounds if cut != -1 else 1
                self._load(value, prices.transfer(value, made), times)

    def _need(self, value: str, prices: GroupPrices, cut: int, rows: _Rows) -> None:
        low, high = prices.boxes(rows.most)[value][cut]
        whole = prices.work.types[value].shape[cut]
        fresh = rows.fresh * Fraction(whole, prices.extent)
        other = self.needed.get(value)
        if other is not None:
            self.needed[value] = _Rows(max(other.most, high - low), max(other.fresh, fresh))
        else:
            self.needed[value] = _Rows(high - low, fresh)

    def _load(self, value: str, moved: _Moved, times: int) -> None:
        """Note the load of an operand; it is none where its maker joins the chain later."""
        slots = 2 if times > 1 else 1
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
        steps = self.rounds * len(chain.works)
        if spec.dma.outstanding > 1:
            latency //= steps
        moving = loading + self.storing
        if spec.driver.sync_mode is SyncMode.STRICT:
            cycles = self.launches + self.compute + moving + latency
        else:
            ramp = (self.compute + moving) // steps
            cycles = self.launches + max(self.compute, moving) + ramp + latency
        return Estimate(
            chain,
            self.stripe,
            cycles,
            self.ddr_bytes + sum(item.size_bytes for item in outside),
            self.sram_bytes + sum(item.slot_bytes for item in outside),
            {value: self.wanted[value] for value in chain.held},
        )
