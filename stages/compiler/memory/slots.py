"""Where what a group reads and writes tile by tile lies in the SRAM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stages.compiler.cascade.stripes import Striped
from stages.compiler.memory.offsets import Placed
from stages.compiler.tiling.streams import Stream


@dataclass(frozen=True, slots=True)
class Slots:
    """Where the tiles of one group lie: addresses of each stream's slots, of the result's slots
    and of the accumulator (an empty tuple and None where there are none)."""

    streams: tuple[tuple[Stream, tuple[Placed, ...]], ...]
    results: tuple[Placed, ...]
    accumulator: Placed | None


@dataclass(frozen=True, slots=True)
class PlacedCascade:
    """A cascade with the slots of its groups, by name, and the buffers of what passes in it."""

    striped: Striped
    slots: Mapping[str, Slots]
    buffers: Mapping[str, Placed]
