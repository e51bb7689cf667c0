"""The program being written: instructions with the buffers they touch, not yet synchronised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stages.compiler.emit.kernels import KernelTable
from stages.compiler.emit.transfers import copies
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import Instruction, Opcode, Region
from stages.recipe.decisions import Lifetime


@dataclass(frozen=True, slots=True)
class Place:
    """A named range of a memory that instructions read and write. A slot is filled again and again,
    each time as a whole, and what it held before counts no more."""

    name: str
    memory: str
    address: int
    size_bytes: int
    lifetime: Lifetime
    is_slot: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """A region and the place that it lies in."""

    place: Place
    region: Region


@dataclass(frozen=True, slots=True)
class Written:
    """An instruction, and the places that it reads and writes."""

    instruction: Instruction
    reads: tuple[Place, ...]
    writes: tuple[Place, ...]


@dataclass(slots=True)
class Program:
    """Instructions in program order."""

    spec: HardwareSpec
    kernels: KernelTable = field(default_factory=KernelTable)
    written: list[Written] = field(default_factory=list)

    @property
    def load_queue(self) -> str:
        """The DMA channel that brings data in."""
        return "dma0"

    @property
    def store_queue(self) -> str:
        """The DMA channel that takes results out: another one where there is one."""
        return f"dma{min(1, self.spec.dma.channels - 1)}"

    def copy(
        self, queue: str, group: str, source: Access, target: Access, comment: str
    ) -> list[Written]:
        """The transfers that copy one region to another; not yet appended."""
        return [
            Written(
                Instruction(
                    Opcode.DMA_COPY,
                    queue,
                    group,
                    reads=(read,),
                    writes=(write,),
                    comment=comment,
                ),
                (source.place,),
                (target.place,),
            )
            for read, write in copies(source.region, target.region, self.spec.dma)
        ]

    def append(self, written: Sequence[Written]) -> None:
        """Put instructions at the end of the program."""
        self.written.extend(written)
