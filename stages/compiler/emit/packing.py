"""Weights packed for the device: each tile's constants lie in one unbroken block of DDR."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.compiler.tiling.streams import align, box_bytes
from stages.compiler.tiling.workload import Boxes, Workload
from stages.tensors import Array, Box, box_slices

BoxKey = tuple[tuple[str, Box], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One tile's constants within the packed bytes; `offsets` say where each value begins."""

    start: int
    size_bytes: int
    offsets: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Packing:
    """The packed constants of one stream of a group, in the order in which tiles need them."""

    work: Workload
    values: tuple[str, ...]
    constants: dict[str, Array]
    alignment: int
    blocks: dict[BoxKey, Block] = field(default_factory=dict)
    parts: list[NDArray[np.uint8]] = field(default_factory=list)
    size_bytes: int = 0

    def block(self, boxes: Boxes) -> Block:
        """The block that holds these boxes; packed when it is first asked for."""
        key = tuple((value, boxes[value]) for value in self.values if value in boxes)
        if key not in self.blocks:
            self.blocks[key] = self._pack(key)
        return self.blocks[key]

    def data(self) -> NDArray[np.uint8]:
        """All blocks, one after the other."""
        return np.concatenate(self.parts) if self.parts else np.zeros(0, np.uint8)

    def _pack(self, key: BoxKey) -> Block:
        offsets = []
        start, size = self.size_bytes, 0
        for value, box in key:
            offsets.append((value, size))
            size += align(
                box_bytes(self.work.types[value], self.work.layout(value), box), self.alignment
            )
        packed = np.zeros(size, np.uint8)
        for (value, box), (_, offset) in zip(key, offsets, strict=True):
            part = self.constants[value][box_slices(box)]
            physical = np.ascontiguousarray(self.work.layout(value).to_physical(part))
            raw = physical.reshape(-1).view(np.uint8)
            packed[offset : offset + raw.size] = raw
        self.parts.append(packed)
        self.size_bytes += size
        return Block(start, size, tuple(offsets))
