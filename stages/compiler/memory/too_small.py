"""What is said where no tile of a group fits the device."""

from __future__ import annotations

from stages.compiler.tiling.search import Priced
from stages.compiler.tiling.workload import Workload
from stages.errors import DoesNotFitError
from stages.hardware.spec import HardwareSpec


def does_not_fit(
    work: Workload, place: str, smallest: Priced | None, spec: HardwareSpec
) -> DoesNotFitError:
    """Why a group at a place of the order doesn't fit, given its smallest tile."""
    name, capacity = work.group.name, spec.sram.usable_bytes
    largest = max(
        (value for value in (*work.operands, work.result) if value not in work.tables),
        key=lambda value: work.types[value].size_bytes,
    )
    where = f"{place}, largest tensor %{largest} : {work.types[largest]}"
    if smallest is None:
        core = spec.tensor_core
        return DoesNotFitError(
            f"group {name}: no tile keeps to the tensor core's limits, m {core.max_m}, "
            f"n {core.max_n}, k {core.max_k}",
            where=where,
            hint="raise `tensor_core.limits` in the hardware spec, or make the contraction smaller",
        )
    missing = smallest.sram_bytes - capacity
    lack = (
        f"{missing} B more than the {capacity} B of {spec.name}"
        if missing > 0
        else f"and the {capacity} B of {spec.name} hold them only in parts"
    )
    return DoesNotFitError(
        f"group {name}: its smallest tile needs {smallest.sram_bytes} B of SRAM, {lack}",
        where=where,
        hint=f"raise `memory.sram.size` in the hardware spec, or make %{largest} smaller",
    )
