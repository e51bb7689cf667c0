"""The choice of a tile: all candidates are priced at once, the cheapest that fits wins."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stages.compiler.tiling.catalogue import Catalogue, result_slots, slots_of
from stages.compiler.tiling.extent_table import Columns, ExtentTable, extent_table
from stages.compiler.tiling.streams import Stream, align, box_bytes, stream_bytes
from stages.compiler.tiling.tile_prices import TilePrices
from stages.compiler.tiling.workload import Boxes, Workload
from stages.hardware.cost import launch_cycles
from stages.hardware.spec import HardwareSpec, SyncMode
from stages.recipe.decisions import Engine, Tile
from stages.tensors import DType, Shape, TensorType, full_box

_NEARLY = 1.01
_HIDDEN = 16
"""One part in so many of the work that is hidden behind other work counts all the same: of tiles
that take equally long, those that leave more of the engines and of the memory to their neighbours
are better."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A tile, its estimated cycles, the SRAM that its slots take, how many steps it makes, and the
    cycles of its engine and of its loads and stores, each without any wait."""

    tile: Tile
    cycles: int
    sram_bytes: int
    steps: int
    compute: int
    loading: int
    storing: int


@dataclass(frozen=True)
class Search:
    """The search for one group. `resident` values lie in the SRAM whole and need no slots."""

    work: Workload
    spec: HardwareSpec
    resident: frozenset[str]
    catalogue: Catalogue = field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.catalogue is None:
            object.__setattr__(self, "catalogue", Catalogue(self.work, self.spec))

    @cached_property
    def prices(self) -> TilePrices:
        """Prices of single boxes."""
        return TilePrices(self.work, self.spec, self.resident)

    def cheapest(self, budget_bytes: int, row_parts: int = 1) -> Priced | None:
        """The cheapest tile whose slots fit the budget; None where none does. Rows of a matrix on
        the vector unit are cut into `row_parts` at least, where a tile that fits does so.

        Of tiles that cost nearly the same one that leaves heads whole is taken, and of those the
        one with the fewest steps: each step is instructions to issue, store and check.
        """
        fits = np.flatnonzero(self.sram_bytes <= budget_bytes)
        if not len(fits):
            return None
        fits = self._by_rows(fits, row_parts)
        cycles = self.cycles[:, fits]
        limit = int(cycles.min() * _NEARLY)
        orders, rows = np.nonzero(cycles <= limit)
        count = self._steps[fits[rows]]
        cut = self._cuts_heads[fits[rows]]
        rank = np.lexsort(
            (rows, orders, self.sram_bytes[fits[rows]], cycles[orders, rows], count, cut)
        )
        return self._priced(int(orders[rank[0]]), int(fits[rows[rank[0]]]))

    def _by_rows(self, rows: Columns, parts: int) -> Columns:
        shape = self.work.result_type.shape
        if parts == 1 or len(shape) != 3 or self.work.group.engine is not Engine.VECTOR:
            return rows
        few: Columns = rows[self.catalogue.table.extents[rows, 1] <= -(-shape[1] // parts)]
        return few if len(few) else rows

    def in_row_blocks(self, budget_bytes: int, blocks: int, dearer: float) -> Priced | None:
        """The cheapest tile whose slots fit the budget and that cuts the rows of a matrix into so
        many blocks; None where none does, or where it is more than `dearer` times as dear as the
        cheapest of all."""
        if self.work.result_type.rank < 2:
            return None
        fits = np.flatnonzero(self.sram_bytes <= budget_bytes)
        return self._cheapest_of(self.catalogue.counts[fits, -2] == blocks, fits, dearer)

    def in_fewer_columns(self, budget_bytes: int, tile: Tile, dearer: float) -> Priced | None:
        """The cheapest tile that is like another one but for fewer columns, and whose slots take
        less than the budget; None as for `in_row_blocks`."""
        if self.work.result_type.rank < 2:
            return None
        table = self.catalogue.table
        fits = np.flatnonzero(self.sram_bytes < budget_bytes)
        extents = table.extents[fits]
        alike = (extents[:, :-1] == np.array(tile.extents[:-1])).all(axis=1)
        alike &= table.reduction[fits] == tile.reduction
        return self._cheapest_of(alike & (extents[:, -1] < tile.extents[-1]), fits, dearer)

    def _cheapest_of(
        self, allowed: NDArray[np.bool_], fits: Columns, dearer: float
    ) -> Priced | None:
        """The cheapest allowed row of those that fit; None where each is more than `dearer` times
        as dear as the cheapest of all that do."""
        mine = fits[allowed]
        if not len(mine):
            return None
        cycles = self.cycles[:, mine]
        order, place = np.unravel_index(np.argmin(cycles), cycles.shape)
        if cycles[order, place] > self.cycles[:, fits].min() * dearer:
            return None
        return self._priced(int(order), int(mine[place]))

    def rivals(self, budget_bytes: int, chosen: Priced, count: int) -> list[Priced]:
        """The cheapest tiles besides the chosen one whose slots fit the budget, in order."""
        fits = np.flatnonzero(self.sram_bytes <= budget_bytes)
        cycles = self.cycles[:, fits]
        order = np.argsort(cycles, axis=None, kind="stable")[: count + 1]
        found = [
            self._priced(index // len(fits), int(fits[index % len(fits)]))
            for index in order.tolist()
        ]
        return [item for item in found if item.tile != chosen.tile][:count]

    def least_cycles(self, budget_bytes: int) -> int | None:
        """The cycles of the cheapest tile whose slots fit the budget; None where none does."""
        sizes, cycles = self._frontier
        place = bisect_right(sizes, budget_bytes)
        return cycles[place - 1] if place else None

    @cached_property
    def _frontier(self) -> tuple[list[int], list[int]]:
        """Bytes of slots, ascending, and the fewest cycles that each amount of them allows."""
        order = np.argsort(self.sram_bytes, kind="stable")
        least = np.minimum.accumulate(self.cycles.min(axis=0)[order])
        return self.sram_bytes[order].tolist(), least.tolist()

    def smallest(self) -> Priced | None:
        """The tile that needs the least SRAM, whatever it costs; None where no tile keeps to the
        limits of the tensor core."""
        if not len(self.sram_bytes):
            return None
        return self._priced(0, int(np.argmin(self.sram_bytes)))

    def fitting_tiles(self, budget_bytes: int) -> Iterator[Tile]:
        """Every tile that is weighed and whose slots fit the budget, whatever it costs."""
        for row in np.flatnonzero(self.sram_bytes <= budget_bytes).tolist():
            for order in range(len(self.catalogue.orders)):
                yield self._tile(order, row)

    @cached_property
    def sram_bytes(self) -> Columns:
        """The SRAM that the slots of each row take."""
        found, work = self.catalogue, self.work
        total: Columns = found.accumulator_bytes.copy()
        for stream, slots, moved in zip(found.streams, found.slots, found.loaded, strict=True):
            if not self._stays(stream):
                total += slots * moved.slot_bytes
        if work.result not in self.resident:
            total += result_slots(work, found.table) * found.result.slot_bytes
        return total

    @cached_property
    def cycles(self) -> Columns:
        """Estimated cycles: int64[orders, rows]. Engines overlap, or queue up where the driver is
        strict; of the first load and the last store half is hidden by neighbours."""
        found, spec = self.catalogue, self.spec
        steps_taken = self._steps
        work_cycles = steps_taken * self._computed
        compute = launch_cycles(spec, self.work.group.engine) + work_cycles
        storing = storing_port = np.zeros(len(compute), dtype=np.int64)
        # What neighbours on another engine wait for: about one step, half of it on either side.
        ramp = work_cycles // steps_taken
        if self.work.result not in self.resident:
            ramp = ramp + found.result.channel
            storing = found.tiles * found.result.channel
            storing_port = found.tiles * found.result.port
        by_order = []
        for order in found.orders:
            loading = port = first = np.zeros(len(compute), dtype=np.int64)
            bare: Columns = loading
            moving_streams = zip(found.streams, found.loaded, found.slots, strict=True)
            for stream, moved, slots in moving_streams:
                if self._stays(stream):
                    continue
                count = found.loads(stream, order)
                loading = loading + count * moved.channel
                port = port + count * moved.port
                # Nothing is loaded in the place of what is still read.
                again: Columns = np.where((slots == 1) & (found.chunks == 1), count - 1, 0)
                bare = bare + again * moved.channel
                if stream.is_constant:
                    # It is loaded beforehand, as far as there is room beside the neighbours.
                    first = first + 2 * moved.channel * moved.slot_bytes // spec.sram.usable_bytes
                else:
                    first = first + moved.channel
            if spec.driver.sync_mode is SyncMode.STRICT:
                by_order.append(compute + loading + storing)
                continue
            if spec.dma.channels > 1:
                moving = np.maximum(np.maximum(loading, storing), port + storing_port)
            else:
                moving = loading + storing
            longer, shorter = np.maximum(compute, moving), np.minimum(compute, moving)
            by_order.append(longer + shorter // _HIDDEN + (ramp + first) // 2 + bare)
        return np.array(by_order, dtype=np.int64)

    @cached_property
    def _cuts_heads(self) -> Columns:
        """Whether each row ends within a head: all alike where nothing reads heads."""
        extents = self.catalogue.table.extents
        found = np.zeros(len(extents), dtype=np.int64)
        if self.work.head_extent:
            found |= extents[:, -1] % self.work.head_extent != 0
        return found

    @cached_property
    def _steps(self) -> Columns:
        found: Columns = self.catalogue.tiles * self.catalogue.chunks
        return found

    @cached_property
    def _computed(self) -> Columns:
        core = self.spec.tensor_core
        if core.misaligned_lanes == core.lanes or self.prices.stored_input() not in self.resident:
            return self.catalogue.computed
        return self.catalogue.compute(self.prices)

    def _stays(self, stream: Stream) -> bool:
        """Whether a stream's operand lies whole in the SRAM."""
        return not stream.is_constant and stream.values[0] in self.resident

    def _tile(self, order: int, row: int) -> Tile:
        table = self.catalogue.table
        extents = tuple(table.extents[row].tolist())
        return Tile(extents, int(table.reduction[row]), self.catalogue.orders[order])

    def _priced(self, order: int, row: int) -> Priced:
        found, steps = self.catalogue, int(self._steps[row])
        loading = sum(
            int(found.loads(stream, found.orders[order])[row] * moved.channel[row])
            for stream, moved in zip(found.streams, found.loaded, strict=True)
            if not self._stays(stream)
        )
        stored = self.work.result not in self.resident
        return Priced(
            self._tile(order, row),
            int(self.cycles[order, row]),
            int(self.sram_bytes[row]),
            steps,
            compute=steps * int(self._computed[row]),
            loading=loading,
            storing=int(found.tiles[row] * found.result.channel[row]) if stored else 0,
        )


def accumulator_bytes(work: Workload, extents: Shape) -> int:
    """Bytes of the sums of a tile whose contraction is cut."""
    sums = TensorType(DType.F32, extents)
    return box_bytes(sums, work.layout(work.seed.outputs[0]), full_box(extents))


def exact_slots(
    work: Workload, parts: Iterable[Boxes], moved: list[Stream], alignment: int
) -> tuple[dict[Stream, int], int]:
    """The largest bytes that each stream's slot, and the result's, must hold over all the parts
    that a group is made in."""
    sizes = dict.fromkeys(moved, 0)
    result_bytes = 0
    for boxes in parts:
        for stream in moved:
            sizes[stream] = max(sizes[stream], stream_bytes(work, stream, boxes, alignment))
        size = box_bytes(work.result_type, work.layout(work.result), boxes[work.result])
        result_bytes = max(result_bytes, align(size, alignment))
    return sizes, result_bytes


def stream_slots(work: Workload, tile: Tile, stream: Stream, spec: HardwareSpec) -> int:
    """How many slots a stream has in a tiled group."""
    table = extent_table(work, [(tile.extents, tile.reduction)])
    return int(slots_of(work, table, stream, spec)[0])


def tile_result_slots(work: Workload, tile: Tile) -> int:
    """How many slots the result has in a tiled group."""
    return int(result_slots(work, _row_of(work, tile))[0])


def _row_of(work: Workload, tile: Tile) -> ExtentTable:
    extents = np.array([tile.extents], dtype=np.int64).reshape(1, work.result_type.rank)
    return ExtentTable(extents, np.array([tile.reduction], dtype=np.int64), {})
