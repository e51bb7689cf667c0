"""DMA copies: strided bytes from one place to another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stages.device.memory import Memories
from stages.errors import DeviceError
from stages.plan.instructions import Instruction

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def transfer(memories: Memories, instruction: Instruction) -> Callable[[], None]:
    """A function that moves the bytes of a DMA_COPY.

    Raises:
        DeviceError: the two regions differ in type or extents, or lie outside their memory.
    """
    source, target = instruction.reads[0], instruction.writes[0]
    if source.dtype != target.dtype or source.physical_shape != target.physical_shape:
        raise DeviceError(
            f"a transfer from {source.dtype}{list(source.physical_shape)} to "
            f"{target.dtype}{list(target.physical_shape)}",
            where=f"{source.memory}+0x{source.address:x} -> {target.memory}+0x{target.address:x}",
            hint="a transfer moves bytes: type and extents in memory order must agree",
        )
    unsigned = _UNSIGNED[source.dtype.size_bytes]
    read = memories.view(source).view(unsigned)
    write = memories.view(target).view(unsigned)
    return lambda: np.copyto(write, read)
