"""What a search for a tile weighed, in words."""

from __future__ import annotations

from collections.abc import Sequence

from stages.compiler.tiling.search import Priced, Search
from stages.compiler.tiling.workload import Workload
from stages.hardware.spec import HardwareSpec, SyncMode
from stages.recipe.decisions import Tile
from stages.recipe.explanation import MAX_ALTERNATIVES, Alternative, Weighed


def weighed_tile(search: Search, budget_bytes: int, chosen: Priced) -> Weighed:
    """The tile of a group, the tiles that would have come next, and what bounds the chosen one."""
    work, spec = search.work, search.spec
    rivals = search.rivals(budget_bytes, chosen, MAX_ALTERNATIVES - 1)
    alternatives = [chosen, *rivals]
    return Weighed(
        work.group.name,
        "tile",
        tuple(
            Alternative(
                tile_name(item.tile), item.cycles, f"{item.steps} steps, {item.sram_bytes} B"
            )
            for item in alternatives
        ),
        tile_name(chosen.tile),
        _bound(work, chosen, rivals, spec),
    )


def tile_name(tile: Tile) -> str:
    """A tile in few characters: extents, reduction and order as the recipe prints them."""
    extents = ",".join(map(str, tile.extents))
    order = ",".join(map(str, tile.order))
    return f"[{extents}] reduce {tile.reduction} order [{order}]"


def _bound(work: Workload, chosen: Priced, rivals: Sequence[Priced], spec: HardwareSpec) -> str:
    """The largest of what a tile's cycles are made of, then what the SRAM has to do with it."""
    parts = {
        work.group.engine.value: chosen.compute,
        "loads by DMA": chosen.loading,
        "stores by DMA": chosen.storing,
    }
    ranked = sorted(parts.items(), key=lambda part: -part[1])
    told = ", ".join(f"{name} {cycles}" for name, cycles in ranked if cycles)
    how = "one after the other" if spec.driver.sync_mode is SyncMode.STRICT else "side by side"
    whole = chosen.tile.extents == work.result_type.shape
    room = "everything in one tile" if whole else f"{chosen.steps} steps"
    fewest = min([chosen.cycles, *(rival.cycles for rival in rivals)]) < chosen.cycles
    choice = ", the fewest of what costs nearly the same" if fewest else ""
    return f"{ranked[0][0]} bounds it: {told} cycles {how}; {room}{choice}"
