"""Weights packed for the device: each tile's constants lie in one unbroken block of DDR."""

from __future__ import annotations

from dataclasses import dataclass, field

from stages.compiler.tiling.streams import align, box_bytes
from stages.compiler.tiling.workload import Boxes, Workload
from stages.plan.packing import Packed, Part
from stages.tensors import Box

BoxKey = tuple[tuple[str, Box], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One tile's constants within the packed bytes; `offsets` say where each value begins."""

    start: int
    size_bytes: int
    offsets: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class StreamPacking:
    """Where the constants of one stream of a group lie, in the order in which tiles need them."""

    work: Workload
    values: tuple[str, ...]
    alignment: int
    blocks: dict[BoxKey, Block] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    size_bytes: int = 0

    def block(self, boxes: Boxes) -> Block:
        """The block that holds these boxes; given a place when it is first asked for."""
        key = tuple((value, boxes[value]) for value in self.values if value in boxes)
        if key not in self.blocks:
            self.blocks[key] = self._place(key)
        return self.blocks[key]

    def packed(self, name: str) -> Packed:
        """All blocks, one after the other, as a plan's constant."""
        return Packed(name, self.size_bytes, tuple(self.parts))

    def _place(self, key: BoxKey) -> Block:
        offsets = []
        start, size = self.size_bytes, 0
        for value, box in key:
            offsets.append((value, size))
            self.parts.append(Part(value, box, start + size))
            size += align(
                box_bytes(self.work.types[value], self.work.layout(value), box), self.alignment
            )
        self.size_bytes += size
        return Block(start, size, tuple(offsets))
