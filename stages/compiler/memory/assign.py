"""Residency, tiles and addresses, decided together: residents leave less room for tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stages.compiler.cascade.stripes import Striped
from stages.compiler.draft import Draft
from stages.compiler.memory.cascades import NoRoomError, cascade_tile, place_cascade, widened
from stages.compiler.memory.ddr import Residency, allocation, ddr_allocations
from stages.compiler.memory.lifetimes import Storage, storages, view_operators, view_roots
from stages.compiler.memory.offsets import (
    Arena,
    Placed,
    Request,
    place_within,
)
from stages.compiler.memory.residency import choose_residents
from stages.compiler.memory.slots import PlacedCascade, SlotNeeds, Slots
from stages.compiler.memory.tile_slots import place_slots, renamed_needs, slot_needs
from stages.compiler.support import placement_alignment
from stages.compiler.tiling.catalogue import Catalogue
from stages.compiler.tiling.search import (
    Priced,
    Search,
)
from stages.compiler.tiling.weighing import weighed_tile
from stages.compiler.tiling.workload import Workload, workloads
from stages.errors import DoesNotFitError
from stages.hardware.cost import transfer_cost
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, SRAM
from stages.recipe.decisions import Engine, Lifetime, Tile
from stages.recipe.explanation import Weighed
from stages.recipe.graph import Operator

_SHRINK = 7 / 8
_ROW_PARTS = 4
"""Parts into which the vector unit cuts rows where groups are to be woven, so that none waits for
all rows of another."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory decisions that the plan is emitted from. `operators` go by their names, `views`
    are those of `view_operators`, `roots` maps them to their storage,
    `cascades` goes by the name of each one's first group, `cycles` are estimates by group number,
    and `resident` are the storages that lie whole in the SRAM."""

    operators: Mapping[str, Operator]
    views: Mapping[str, Operator]
    roots: Mapping[str, str]
    works: Mapping[str, Workload]
    slots: Mapping[str, Slots]
    cascades: Mapping[str, PlacedCascade]
    cycles: Mapping[int, int]
    resident: Mapping[str, Storage]


@dataclass(slots=True)
class Assignment:
    """Finds residency, tiles and addresses for a draft whose groups are final, or, given
    `cascades`, places for them among the residents `kept`."""

    draft: Draft
    spec: HardwareSpec
    cascades: tuple[Striped, ...] = ()
    kept: frozenset[str] = frozenset()
    residency: Residency = Residency.CHOSEN
    works: dict[int, Workload] = field(default_factory=dict)
    memo: dict[object, Priced | None] = field(default_factory=dict)
    searches: dict[object, Search] = field(default_factory=dict)
    catalogues: dict[str, Catalogue] = field(default_factory=dict)
    needs: dict[object, SlotNeeds] = field(default_factory=dict)
    operators: Mapping[str, Operator] = field(default_factory=dict)
    views: Mapping[str, Operator] = field(default_factory=dict)

    def beside(self, cascades: tuple[Striped, ...], kept: frozenset[str]) -> Assignment:
        """The same draft with some of its groups in cascades, among these residents: what was
        searched isn't searched again."""
        return replace(self, cascades=cascades, kept=kept)

    def streaming(self) -> Assignment:
        """The same draft with all values in the DDR: what was searched isn't searched again."""
        return replace(self, residency=Residency.STREAMING)

    def run(self) -> tuple[Draft, Memory]:
        """The draft with tiles and allocations, and where its tiles lie.

        Raises:
            DoesNotFitError: no tile of a group fits the SRAM, or the DDR is too small.
            NoRoomError: a cascade's buffers find no place.
        """
        if not self.works:
            self.operators = {op.name: op for op in self.draft.graph.operators}
            self.works = workloads(self.draft, self.operators)
            self.views = view_operators(self.draft)
        roots = view_roots(self.draft, self.views)
        stores = storages(self.draft, roots)
        if self.cascades:
            stores = widened(stores, self.cascades)
        if self.residency is Residency.STREAMING:
            resident: dict[str, Storage] = {}
        elif self.cascades:
            resident = {root: item for root, item in stores.items() if root in self.kept}
        else:
            resident = self._choose_residents(stores, roots)
        while True:
            placed = self._try(resident, stores, roots)
            if isinstance(placed, _Solution):
                return self._finish(placed, stores, roots)
            if any(placed == item.chain.start for item in self.cascades):
                raise NoRoomError(placed, self.draft.recipe.groups[placed].name)
            resident = self._give_up_one(resident, placed)

    def _choose_residents(
        self, stores: Mapping[str, Storage], roots: Mapping[str, str]
    ) -> dict[str, Storage]:
        """Values to keep in the SRAM: those that make the whole cheapest by estimate."""
        capacity = self._capacity()
        tables = {roots[table] for work in self.works.values() for table in work.tables}
        candidates = [
            item
            for item in stores.values()
            if not item.crosses and item.root not in tables and 0 < item.size_bytes <= capacity
        ]
        touched = {
            number: {value: roots[value] for value in (*work.operands, work.result)}
            for number, work in self.works.items()
        }

        def cost(number: int, resident: frozenset[str], room_bytes: int) -> int | None:
            if number not in touched:
                return self._moving_cycles(number, resident, roots)
            held = frozenset(value for value, root in touched[number].items() if root in resident)
            return self._searched(number, held).least_cycles(room_bytes)

        count = len(self.draft.recipe.groups)
        found = choose_residents(candidates, count, capacity, cost)
        return dict(found.kept) if found is not None else {}

    def _moving_cycles(
        self, number: int, resident: frozenset[str], roots: Mapping[str, str]
    ) -> int:
        """Cycles of a group that DMA does alone; 0 for others."""
        group = self.draft.recipe.groups[number]
        if group.engine is not Engine.DMA:
            return 0
        operator = self.operators[group.operators[0]]
        types, spec = self.draft.graph.types, self.spec
        result = operator.outputs[0]
        target = SRAM if roots[result] in resident else DDR
        total = 0
        for value in operator.operands:
            source = SRAM if roots[value] in resident else DDR
            size = min(types[value].size_bytes, types[result].size_bytes)
            total += transfer_cost(spec, size, size, source, target).channel_cycles
        return total

    def least_cycles(self, number: int, resident: frozenset[str], alive_bytes: int) -> int | None:
        """Estimated cycles of a group beside residents of that many bytes, `resident` among what it
        touches; None where no tile fits."""
        return self._searched(number, resident).least_cycles(self._capacity() - alive_bytes)

    def _searched(self, number: int, resident: frozenset[str]) -> Search:
        """The search of a group, shared by layers that repeat."""
        work = self.works[number]
        first = work.first
        key = (first.group.name, *(value in resident for value in work.names))
        search = self.searches.get(key)
        if search is None:
            catalogue = self.catalogues.get(first.group.name)
            if catalogue is None:
                catalogue = self.catalogues[first.group.name] = Catalogue(first, self.spec)
            same = frozenset(name for name, own in work.own_names.items() if own in resident)
            search = self.searches[key] = Search(first, self.spec, same, catalogue)
        return search

    def _needs(self, number: int, resident: frozenset[str], tile: Tile) -> SlotNeeds:
        """The slots of a group's tiles, worked out once for layers that repeat."""
        search = self._searched(number, resident)
        key = (id(search), tile)
        if key not in self.needs:
            self.needs[key] = slot_needs(search.work, tile, search.resident, self.spec)
        return renamed_needs(self.needs[key], self.works[number])

    def _search(self, number: int, resident: frozenset[str], budget: int | None) -> Priced | None:
        """A memoised search; without a budget, the smallest tile."""
        search = self._searched(number, resident)
        parts = _ROW_PARTS if self.residency is Residency.STREAMING else 1
        key = (id(search), budget, parts)
        if key not in self.memo:
            self.memo[key] = search.smallest() if budget is None else search.cheapest(budget, parts)
        return self.memo[key]

    def in_row_blocks(self, number: int, tile: Tile, blocks: int, dearer: float) -> Priced | None:
        """The cheapest tile of a group that cuts its rows into so many blocks and needs no more
        slots than `tile`, all operands in the DDR; see `Search.in_row_blocks`."""
        budget = self._needs(number, frozenset(), tile).total_bytes
        return self._searched(number, frozenset()).in_row_blocks(budget, blocks, dearer)

    def in_fewer_columns(self, number: int, tile: Tile, dearer: float) -> Priced | None:
        """The cheapest tile of a group that is like `tile` but for fewer columns, and needs less
        room, all operands in the DDR; see `Search.in_fewer_columns`."""
        budget = self._needs(number, frozenset(), tile).total_bytes
        return self._searched(number, frozenset()).in_fewer_columns(budget, tile, dearer)

    def retiled(
        self, solved: tuple[Draft, Memory], numbers: Sequence[int], priced: Priced
    ) -> tuple[Draft, Memory] | None:
        """A solution without residents with another tile for some groups; None where its slots find
        no room side by side."""
        draft, memory = solved
        groups, slots, cycles = list(draft.recipe.groups), dict(memory.slots), dict(memory.cycles)
        for number in numbers:
            needs = self._needs(number, frozenset(), priced.tile)
            placed = place_slots(needs, self._sram(), number)
            if placed is None:
                return None
            groups[number] = replace(groups[number], tile=priced.tile)
            slots[groups[number].name] = placed
            cycles[number] = priced.cycles
        recipe = replace(draft.recipe, groups=tuple(groups))
        return replace(draft, recipe=recipe), replace(memory, slots=slots, cycles=cycles)

    def _try(
        self,
        resident: Mapping[str, Storage],
        stores: Mapping[str, Storage],
        roots: Mapping[str, str],
    ) -> _Solution | int:
        """A whole solution, or the number of the group whose tiles find no place."""
        arena = self._sram()
        requests = [
            Request(item.root, item.size_bytes, item.start, item.stop) for item in resident.values()
        ]
        homeless = place_within(arena, requests)
        if homeless is not None:
            return homeless.start
        fixed = {placed.request.name: placed for placed in arena.placed}
        solution = _Solution(fixed)
        cascaded = {number: item for item in self.cascades for number in item.chain.numbers}
        whole = frozenset(value for value, root in roots.items() if root in resident)
        for number in self.works:
            if (striped := cascaded.get(number)) is not None:
                if number == striped.chain.start:
                    placed_cascade = place_cascade(striped, whole, arena, self.spec)
                    if placed_cascade is None:
                        return number
                    solution.cascades.append(placed_cascade)
            elif not self._place_tiles(number, arena, resident, roots, solution):
                return number
        return solution

    def _place_tiles(
        self,
        number: int,
        arena: Arena,
        resident: Mapping[str, Storage],
        roots: Mapping[str, str],
        solution: _Solution,
    ) -> bool:
        work = self.works[number]
        held = frozenset(
            value for value in (*work.operands, work.result) if roots[value] in resident
        )
        alive = sum(
            item.size_bytes for item in resident.values() if item.start <= number < item.stop
        )
        budget = self._capacity() - alive
        smallest = self._search(number, held, None)
        while smallest is not None and budget >= smallest.sram_bytes:
            priced = self._search(number, held, budget)
            if priced is None:
                return False
            slots = place_slots(self._needs(number, held, priced.tile), arena, number)
            if slots is not None:
                solution.tiles[number] = priced.tile
                solution.cycles[number] = priced.cycles
                solution.weighed[number] = weighed_tile(
                    self._searched(number, held), budget, priced
                )
                solution.slots[work.group.name] = slots
                return True
            budget = min(int(budget * _SHRINK), priced.sram_bytes - 1)
        return False

    def _give_up_one(self, resident: Mapping[str, Storage], number: int) -> dict[str, Storage]:
        """Residents without the least worthwhile of those alive at a group."""
        alive = [item for item in resident.values() if item.start <= number < item.stop]
        if not alive:
            raise self._does_not_fit(number)
        loser = min(alive, key=_worth)
        return {root: item for root, item in resident.items() if root != loser.root}

    def _does_not_fit(self, number: int) -> DoesNotFitError:
        group = self.draft.recipe.groups[number]
        smallest = self._search(number, frozenset(), None)
        capacity = self._capacity()
        work = self.works[number]
        largest = max(
            (value for value in (*work.operands, work.result) if value not in work.tables),
            key=lambda value: work.types[value].size_bytes,
        )
        where = f"group {number} of {len(self.draft.recipe.groups)}, largest tensor "
        where += f"%{largest} : {work.types[largest]}"
        if smallest is None:
            core = self.spec.tensor_core
            return DoesNotFitError(
                f"group {group.name}: no tile keeps to the tensor core's limits, m {core.max_m}, "
                f"n {core.max_n}, k {core.max_k}",
                where=where,
                hint="raise `tensor_core.limits` in the hardware spec, or make the contraction "
                "smaller",
            )
        missing = smallest.sram_bytes - capacity
        lack = (
            f"{missing} B more than the {capacity} B of {self.spec.name}"
            if missing > 0
            else f"and the {capacity} B of {self.spec.name} hold them only in parts"
        )
        return DoesNotFitError(
            f"group {group.name}: its smallest tile needs {smallest.sram_bytes} B of SRAM, {lack}",
            where=where,
            hint=f"raise `memory.sram.size` in the hardware spec, or make %{largest} smaller",
        )

    def _finish(
        self, solution: _Solution, stores: Mapping[str, Storage], roots: Mapping[str, str]
    ) -> tuple[Draft, Memory]:
        for item in solution.cascades:
            chain = item.striped.chain
            for place, work in enumerate(chain.works):
                solution.tiles[chain.numbers[place]] = cascade_tile(item.striped, place)
                solution.slots[work.group.name] = item.slots[work.group.name]
        groups = tuple(
            replace(group, tile=solution.tiles.get(number))
            for number, group in enumerate(self.draft.recipe.groups)
        )
        allocations = {
            root: allocation(placed, SRAM, Lifetime.SCOPED)
            for root, placed in solution.residents.items()
        }
        allocations |= {
            value: allocation(placed, SRAM, Lifetime.EPHEMERAL)
            for item in solution.cascades
            for value, placed in item.buffers.items()
            if value in item.striped.chain.held
        }
        allocations |= ddr_allocations(
            self.draft,
            [item for item in stores.values() if item.root not in solution.residents],
            roots,
            self.spec,
            self.residency,
        )
        ordered = {
            value: allocations[roots[value]]
            for value in self.draft.graph.types
            if roots[value] in allocations
        }
        cascades = {item.striped.chain.works[0].group.name: item for item in solution.cascades}
        recipe = replace(
            self.draft.recipe,
            groups=groups,
            allocations=ordered,
            cascades=tuple(item.striped.decision() for item in cascades.values()),
        )
        works = {work.group.name: work for work in self.works.values()}
        memory = Memory(
            self.operators,
            self.views,
            roots,
            works,
            solution.slots,
            cascades,
            solution.cycles,
            {root: stores[root] for root in solution.residents},
        )
        explained = replace(self.draft, recipe=recipe).with_weighed(solution.weighed.values())
        return explained, memory

    def _capacity(self) -> int:
        return self.spec.sram.usable_bytes

    def _sram(self) -> Arena:
        sram = self.spec.sram
        return Arena(sram.reserved_bytes, sram.size_bytes, placement_alignment(sram))


@dataclass(slots=True)
class _Solution:
    residents: dict[str, Placed]
    tiles: dict[int, Tile] = field(default_factory=dict)
    slots: dict[str, Slots] = field(default_factory=dict)
    cycles: dict[int, int] = field(default_factory=dict)
    cascades: list[PlacedCascade] = field(default_factory=list)
    weighed: dict[int, Weighed] = field(default_factory=dict)


def _worth(item: Storage) -> tuple[float, int, str]:
    """Traffic saved for each group that a resident blocks; larger is better."""
    saved = 1 + len(item.readers)
    return saved / (item.stop - item.start), -item.size_bytes, item.root
