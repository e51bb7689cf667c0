"""The choice of a tile: each candidate is priced by the cost model, the cheapest that fits wins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from math import lcm, prod

from stages.compiler.support import CONTRACTIONS, placement_alignment
from stages.compiler.tiling.footprint import cut_axis
from stages.compiler.tiling.streams import (
    REDUCTION,
    Stream,
    align,
    box_bytes,
    dependencies,
    steps,
    stream_bytes,
    streams,
)
from stages.compiler.tiling.tile_prices import TilePrices
from stages.compiler.tiling.workload import PARTIAL, Boxes, Workload
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Tile
from stages.recipe.explanation import MAX_ALTERNATIVES
from stages.recipe.kinds import Kind
from stages.tensors import DType, LayoutKind, Shape, TensorType, box_shape, full_box

_MIN_REDUCTION = 64
_NEARLY = 1.02


@dataclass(frozen=True, slots=True)
class Priced:
    """A tile, its estimated cycles, the SRAM that its slots take, and how many steps it makes.

    `compute` and `traffic` (loads, stores, latency) are the cycles that `cycles` is made of, and
    `rivals` the other tiles that a search would have taken next.
    """

    tile: Tile
    cycles: int
    sram_bytes: int
    steps: int
    compute: int = 0
    traffic: tuple[int, int, int] = (0, 0, 0)
    rivals: tuple[Priced, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Search:
    """The search for one group. `resident` values lie in the SRAM whole and need no slots."""

    work: Workload
    spec: HardwareSpec
    resident: frozenset[str]
    prices: TilePrices = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prices", TilePrices(self.work, self.spec, self.resident))

    def cheapest(self, budget_bytes: int) -> Priced | None:
        """The cheapest tile whose slots fit the budget; None where none does.

        Of tiles that cost nearly the same the one with the fewest steps is taken: each step is
        instructions to issue, store and check.
        """
        depends = dependencies(self.work)
        moved = streams(self.work, depends, self.resident)
        found: list[Priced] = []
        for extents in self._extents():
            boxes = self.work.boxes(self._interior(extents))
            for reduction in self._reductions():
                for order in self._orders(extents):
                    tile = Tile(extents, reduction, order)
                    priced = self._price(tile, moved, boxes, budget_bytes)
                    if priced is not None:
                        found.append(priced)
        if not found:
            return None
        limit = int(min(item.cycles for item in found) * _NEARLY)
        best = min((item for item in found if item.cycles <= limit), key=_rank)
        rivals = nsmallest(MAX_ALTERNATIVES, found, key=lambda item: item.cycles)
        return replace(best, rivals=tuple(item for item in rivals if item is not best))

    def smallest(self) -> Priced | None:
        """The tile that needs the least SRAM, whatever it costs; None where no tile keeps to the
        limits of the tensor core."""
        depends = dependencies(self.work)
        moved = streams(self.work, depends, self.resident)
        candidates = []
        for extents in self._extents():
            boxes = self.work.boxes(self._interior(extents))
            for reduction in self._reductions():
                tile = Tile(extents, reduction, tuple(range(len(extents))))
                candidates.append(self._price(tile, moved, boxes, None))
        legal = [item for item in candidates if item is not None]
        return min(legal, key=lambda item: item.sram_bytes, default=None)

    def fitting_tiles(self, budget_bytes: int) -> Iterator[Tile]:
        """Every tile that is weighed and whose slots fit the budget, whatever it costs."""
        depends = dependencies(self.work)
        moved = streams(self.work, depends, self.resident)
        for extents in self._extents():
            boxes = self.work.boxes(self._interior(extents))
            for reduction in self._reductions():
                for order in self._orders(extents):
                    tile = Tile(extents, reduction, order)
                    if self._price(tile, moved, boxes, budget_bytes) is not None:
                        yield tile

    def _extents(self) -> Iterator[Shape]:
        """Candidate extents: channels of contractions on their own, the other axes nested, so
        that an outer axis is cut to the bone before an inner one is cut."""
        shape = self.work.result_type.shape
        channel = self._channel_axis()
        nest = [axis for axis in self._memory_order() if axis != channel]
        channels = self._cuts(channel) if channel is not None else [0]
        for outer in self._nested(nest):
            for extent in channels:
                chosen = [outer.get(axis, shape[axis]) for axis in range(len(shape))]
                if channel is not None:
                    chosen[channel] = extent
                yield tuple(chosen)

    def _nested(self, axes: list[int]) -> Iterator[dict[int, int]]:
        shape = self.work.result_type.shape
        chosen = {axis: shape[axis] for axis in axes}
        yield dict(chosen)
        for axis in axes:
            for extent in self._cuts(axis)[1:]:
                chosen[axis] = extent
                yield dict(chosen)

    def _cuts(self, axis: int) -> list[int]:
        """Extents along an axis, from the whole down, in balanced parts."""
        full, step = self.work.result_type.shape[axis], self.work.granularity(axis)
        found: dict[int, None] = {full: None}
        parts = 2
        while parts < 2 * full:
            for number in (parts, parts * 3 // 2):
                extent = align(-(-full // number), step)
                if extent < full:
                    found[extent] = None
            parts *= 2
        return [*found, *reversed(self.work.inner_extents(axis))]

    def _memory_order(self) -> list[int]:
        rank = self.work.result_type.rank
        if self.work.layout(self.work.result).kind is LayoutKind.NHWC:
            return [0, *range(2, rank), 1]
        return list(range(rank))

    def _channel_axis(self) -> int | None:
        if self.work.seed.kind is Kind.MATMUL:
            return self.work.result_type.rank - 1
        if self.work.seed.kind in (Kind.CONV, Kind.CONV_TRANSPOSE):
            return 1
        return None

    def _reductions(self) -> list[int]:
        """Spans of the contracted axis: the whole, then halves while they stay worth a step."""
        extent = self.work.reduction_extent
        found = [extent]
        contraction = self.work.seed.kind in CONTRACTIONS
        if not self._joins_parts():
            return found
        blocks = [self.work.layout(name).quantum for name in self.work.operands]
        quantum = lcm(*blocks) if contraction or self._reduces_channels() else 1
        smallest = _MIN_REDUCTION if contraction else 1
        while found[-1] // 2 >= smallest:
            found.append(align(found[-1] // 2, quantum))
            if found[-1] == found[-2]:
                return found[:-1]
        return found

    def _reduces_channels(self) -> bool:
        """Whether a reduction is cut along the channels, which a layout may keep in blocks."""
        seed = self.work.seed
        shape = self.work.types[seed.inputs[0]].shape if seed.inputs else ()
        return seed.kind in PARTIAL and len(shape) > 2 and cut_axis(seed, shape) == 1

    def _joins_parts(self) -> bool:
        """Whether the engine can go on from what it stored of a reduction."""
        joining = PARTIAL.get(self.work.seed.kind)
        if self.work.seed.kind in CONTRACTIONS:
            return joining in self.spec.tensor_core.output_stage
        listed = self.spec.operators.get(joining) if joining is not None else None
        return listed is not None and listed.engine == self.work.group.engine

    def _orders(self, extents: Shape) -> list[tuple[int, ...]]:
        rank = len(extents)
        natural = tuple(range(rank))
        channel = self._channel_axis()
        if channel is None or rank < 2:
            return [natural]
        others = [axis for axis in natural if axis != channel]
        if self.work.seed.kind is Kind.MATMUL:
            return [natural, (*others[:-1], channel, others[-1])]
        return [(*others, channel), (channel, *others)]

    def _interior(self, extents: Shape) -> tuple[tuple[int, int], ...]:
        """A tile away from the edges, where halos are whole."""
        box = []
        for extent, full in zip(extents, self.work.result_type.shape, strict=True):
            start = full // extent // 2 * extent if extent else 0
            start = min(start, max(0, full - extent))
            box.append((start, min(start + extent, full)))
        return tuple(box)

    def _price(
        self, tile: Tile, moved: list[Stream], boxes: Boxes, budget_bytes: int | None
    ) -> Priced | None:
        work = self.work
        shape = work.result_type.shape
        counts = {
            axis: -(-full // extent) if extent else 1
            for axis, (full, extent) in enumerate(zip(shape, tile.extents, strict=True))
        }
        chunks = -(-work.reduction_extent // tile.reduction) if tile.reduction else 1
        if chunks > 1:
            boxes = work.boxes(boxes[work.result], (0, tile.reduction))
        if not self._keeps_limits(boxes):
            return None
        tiles = prod(counts.values())
        loads = {stream: _loads(stream, tile, counts, chunks) for stream in moved}
        sram = self._slots_bytes(loads, boxes, tiles, chunks)
        if budget_bytes is not None and sram > budget_bytes:
            return None
        compute = tiles * chunks * self.prices.compute_cycles(boxes)
        traffic = self.prices.traffic(loads, boxes, tiles)
        cycles = self.prices.total(compute, traffic, tiles * chunks)
        return Priced(tile, cycles, sram, tiles * chunks, compute, traffic)

    def _keeps_limits(self, boxes: Boxes) -> bool:
        """Whether one instruction of the tensor core takes the contraction of a tile."""
        product, core = self.work.product(boxes), self.spec.tensor_core
        if product is None:
            return True
        pixels = product.m
        if self.work.seed.kind is Kind.CONV_TRANSPOSE:
            # Another tile may meet one input pixel more along each axis.
            batch, _, *spatial = box_shape(boxes[self.work.seed.inputs[0]])
            pixels = batch * prod(extent + 1 for extent in spatial)
        return pixels <= core.max_m and product.n <= core.max_n and product.k <= core.max_k

    def _slots_bytes(
        self, loads: Mapping[Stream, int], boxes: Boxes, tiles: int, chunks: int
    ) -> int:
        work, alignment = self.work, placement_alignment(self.spec.sram)
        total = 0
        for stream, count in loads.items():
            slots = 2 if count > 1 else 1
            total += slots * stream_bytes(work, stream, boxes, alignment)
        result = work.result
        if result not in self.resident:
            size = box_bytes(work.result_type, work.layout(result), boxes[result])
            total += (2 if tiles > 1 else 1) * align(size, alignment)
        if chunks > 1:
            extents = box_shape(boxes[work.seed.outputs[0]])
            total += align(accumulator_bytes(work, extents), alignment)
        return total


def accumulator_bytes(work: Workload, extents: Shape) -> int:
    """Bytes of the sums of a tile whose contraction is cut."""
    sums = TensorType(DType.F32, extents)
    return box_bytes(sums, work.layout(work.seed.outputs[0]), full_box(extents))


def exact_slots(
    work: Workload, tile: Tile, moved: list[Stream], alignment: int
) -> tuple[dict[Stream, int], int]:
    """The largest bytes that each stream's slot, and the result's, must hold over all steps."""
    sizes = dict.fromkeys(moved, 0)
    result_bytes = 0
    for step in steps(work, tile):
        boxes = work.boxes(step.box, step.reduction)
        for stream in moved:
            sizes[stream] = max(sizes[stream], stream_bytes(work, stream, boxes, alignment))
        size = box_bytes(work.result_type, work.layout(work.result), boxes[work.result])
        result_bytes = max(result_bytes, align(size, alignment))
    return sizes, result_bytes


def _loads(stream: Stream, tile: Tile, counts: Mapping[int, int], chunks: int) -> int:
    """How often a stream is loaded: once for each change of a loop at or outside the innermost
    loop that changes it."""
    loops = [(axis, counts[axis]) for axis in tile.order] + [(REDUCTION, chunks)]
    depth = max(
        (index for index, (axis, count) in enumerate(loops) if axis in stream.axes and count > 1),
        default=-1,
    )
    return prod(count for _, count in loops[: depth + 1])


def _rank(priced: Priced) -> tuple[int, int, int, Shape]:
    return priced.steps, priced.cycles, priced.sram_bytes, priced.tile.extents
