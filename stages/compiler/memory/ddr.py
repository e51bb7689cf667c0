"""Where values that don't stay in the SRAM lie in the DDR."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from stages.compiler.draft import Draft
from stages.compiler.memory.lifetimes import Storage
from stages.compiler.memory.offsets import Arena, Placed, Request, place_low
from stages.compiler.support import placement_alignment
from stages.errors import DoesNotFitError
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR
from stages.recipe.decisions import Allocation, Lifetime


class Residency(Enum):
    """Whether values may stay in the SRAM from group to group, or all pass through the DDR tile by
    tile: then groups can be woven together."""

    CHOSEN = "chosen"
    STREAMING = "streaming"


_NEIGHBOURS = 16
"""Groups for which bytes don't change hands behind a value's last reader, so that what is woven
with it needn't wait for them: about a layer of a transformer."""


def ddr_allocations(
    draft: Draft,
    stores: Iterable[Storage],
    roots: Mapping[str, str],
    spec: HardwareSpec,
    residency: Residency,
) -> dict[str, Allocation]:
    """Allocations of values by their root. `roots` maps views to their storage.

    Raises:
        DoesNotFitError: the DDR is too small.
    """
    ddr = spec.ddr
    arena = Arena(ddr.reserved_bytes, ddr.size_bytes, placement_alignment(ddr))
    ends = {roots[value] for value in (*draft.graph.inputs, *draft.graph.outputs)}
    count = len(draft.recipe.groups)
    requests = {}
    for item in stores:
        whole = item.root in ends
        start, stop = (0, max(count, 1)) if whole else (item.start, item.stop)
        if residency is Residency.STREAMING:
            stop = max(stop, min(stop + _NEIGHBOURS, count))
        requests[item.root] = Request(item.root, item.size_bytes, start, stop)
    request = place_low(arena, list(requests.values()))
    if request is not None:
        raise DoesNotFitError(
            f"value %{request.name}: {request.size_bytes} B find no place in the "
            f"{ddr.size_bytes} B of ddr at group {request.start}",
            where=f"groups [{request.start}, {request.stop})",
            hint="raise `memory.ddr.size` in the hardware spec, or lower the batch",
        )
    found = {}
    for placed in arena.placed:
        name = placed.request.name
        lifetime = Lifetime.LONG_LIVED if name in ends else Lifetime.SCOPED
        found[name] = allocation(placed, DDR, lifetime)
    return found


def allocation(placed: Placed, memory: str, lifetime: Lifetime) -> Allocation:
    """What was placed, as the recipe says it."""
    request = placed.request
    return Allocation(
        memory, placed.address, request.size_bytes, lifetime, request.start, request.stop
    )
