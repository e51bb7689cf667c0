"""What a plan is made of: instructions on engine queues, regions of memory, kernels, buffers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from stages.recipe.decisions import Lifetime
from stages.recipe.graph import Operator
from stages.tensors import DType, Layout, Shape, TensorType


class Opcode(StrEnum):
    """Instruction classes, spelled as in the text form."""

    DMA_COPY = "DMA_COPY"
    TENSOR_CORE_GEMM = "TENSOR_CORE_GEMM"
    TENSOR_CORE_CONV = "TENSOR_CORE_CONV"
    VECTOR = "VECTOR"
    ACTIVATION = "ACTIVATION"
    HOST_CALL = "HOST_CALL"
    SIGNAL_EVENT = "SIGNAL_EVENT"
    WAIT_EVENT = "WAIT_EVENT"
    THERMAL_BACKOFF = "THERMAL_BACKOFF"


SRAM = "sram"
DDR = "ddr"


@dataclass(frozen=True, slots=True)
class Region:
    """A strided box of one memory that holds a tensor.

    `shape` is logical; `strides` are bytes, one for each axis of `layout.physical_shape(shape)`.
    """

    memory: str
    address: int
    dtype: DType
    shape: Shape
    layout: Layout
    strides: tuple[int, ...]

    @property
    def physical_shape(self) -> Shape:
        """Extents in memory order."""
        return self.layout.physical_shape(self.shape)

    def moved(self, shift_bytes: int) -> Region:
        """The same box further on."""
        # Asked for by the hundred thousand: `replace` costs three times as much.
        address = self.address + shift_bytes
        return Region(self.memory, address, self.dtype, self.shape, self.layout, self.strides)

    @property
    def size_bytes(self) -> int:
        """Bytes that the box holds, gaps not counted."""
        total = self.dtype.size_bytes
        for extent in self.physical_shape:
            total *= extent
        return total

    @property
    def stop_address(self) -> int:
        """The address after the last byte that the box touches."""
        physical = self.physical_shape
        if 0 in physical:
            return self.address
        last = sum(
            (extent - 1) * stride for extent, stride in zip(physical, self.strides, strict=True)
        )
        return self.address + last + self.dtype.size_bytes

    @property
    def contiguous_bytes(self) -> int:
        """Length of each unbroken run of bytes in the box."""
        run = self.dtype.size_bytes
        pairs = list(zip(self.physical_shape, self.strides, strict=True))
        for extent, stride in reversed(pairs):
            if extent == 1:
                continue
            if stride != run:
                break
            run *= extent
        return run


@dataclass(frozen=True, slots=True)
class Contraction:
    """The work of a tensor-core instruction: `groups` products of m x k by k x n.

    For convolutions m counts output pixels (batch included), n output channels of one group, and
    k = taps x input channels of one group.
    """

    m: int
    n: int
    k: int
    groups: int
    taps: int
    dtype: DType

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.groups * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a compute instruction computes: a chain of operators on its regions.

    `parameters` name the regions read and `results` those written, both in order; `types` gives
    the tile's type of every value. Values inside a kernel keep accumulator precision: only a
    `cast`, `quantize` or the store of a result rounds.
    """

    name: str
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    operators: tuple[Operator, ...]
    types: dict[str, TensorType] = field(default_factory=dict)


NO_KERNEL = -1
NO_EVENT = -1


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a queue.

    `kernel` indexes the plan's kernels, `event` names what is signalled or awaited, `launch` marks
    the first compute instruction of a group (the driver's launch overhead falls there), `group`
    is the recipe's group, `cycles` the length of a `THERMAL_BACKOFF`.
    """

    opcode: Opcode
    queue: str
    group: str = ""
    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()
    kernel: int = NO_KERNEL
    contraction: Contraction | None = None
    event: int = NO_EVENT
    launch: bool = False
    cycles: int = 0
    comment: str = ""

    def touching(self, reads: tuple[Region, ...], writes: tuple[Region, ...]) -> Instruction:
        """The same with other regions."""
        return Instruction(
            self.opcode,
            self.queue,
            self.group,
            reads,
            writes,
            self.kernel,
            self.contraction,
            self.event,
            self.launch,
            self.cycles,
            self.comment,
        )


@dataclass(frozen=True, slots=True)
class Buffer:
    """A named range of a memory, live over instructions `[start, stop)` in program order."""

    name: str
    memory: str
    address: int
    size_bytes: int
    lifetime: Lifetime
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Binding:
    """A model input, output or constant that lies in memory when a run starts or ends."""

    name: str
    region: Region


@dataclass(frozen=True, slots=True)
class Plan:
    """Instructions in program order; each queue runs its own, in that order.

    Queues are named `tensor_core`, `vector`, `host`, and `dma0`, `dma1`, ... Running the program
    one instruction at a time, in order, gives the meaning; the events must keep it.
    """

    hardware: str
    queues: tuple[str, ...]
    kernels: tuple[Kernel, ...]
    buffers: tuple[Buffer, ...]
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    constants: tuple[Binding, ...]
    instructions: tuple[Instruction, ...]
