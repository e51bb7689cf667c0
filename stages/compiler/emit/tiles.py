"""Emission of one tiled group: loads, compute and stores of each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stages.compiler.emit.kernels import TileKernels
from stages.compiler.emit.packing import StreamPacking
from stages.compiler.emit.program import Access, Place, Program, Written
from stages.compiler.emit.regions import box_region, bytes_region, slot_region
from stages.compiler.memory.offsets import Placed
from stages.compiler.memory.slots import Slots
from stages.compiler.tiling.streams import Step, Stream, steps
from stages.compiler.tiling.workload import Boxes, Workload
from stages.plan.instructions import DDR, SRAM, Contraction, Instruction, Opcode, Region
from stages.recipe.decisions import Engine, Lifetime, Tile
from stages.recipe.kinds import CONTRACTIONS, Kind
from stages.tensors import DType

_ACTIVATIONS = frozenset(
    {
        *(Kind.RELU, Kind.LEAKY_RELU, Kind.CLIP, Kind.TANH, Kind.SIGMOID, Kind.HARD_SIGMOID),
        *(Kind.HARD_SWISH, Kind.SILU, Kind.GELU, Kind.ELU, Kind.SELU, Kind.SOFTPLUS),
        *(Kind.SOFTSIGN, Kind.MISH, Kind.PRELU),
    }
)

OF_TILE = " tile "
"""Between a value's name and a step's number in the comments of transfers."""


@dataclass(slots=True)
class Feed:
    """A stream being played: its slots, and what the slot in use holds."""

    stream: Stream
    places: tuple[Place, ...]
    packing: StreamPacking | None
    packed: Place | None
    loads: int = 0
    held: object = None
    regions: dict[str, Region] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """The slot in use."""
        return self.places[(self.loads - 1) % len(self.places)]


@dataclass(slots=True)
class TileEmitter:
    """Writes one tiled group. `values` finds the access to a whole value in memory; `packed`
    holds, for each constant stream of the group, its packing and where it lies."""

    work: Workload
    slots: Slots
    program: Program
    values: Callable[[str], Access]
    packed: Mapping[Stream, tuple[StreamPacking, Place]]
    kernels: TileKernels = field(init=False)
    stores: int = 0
    launched: bool = False

    def __post_init__(self) -> None:
        self.kernels = TileKernels(self.work, self.program.kernels)

    def emit(self, tile: Tile) -> None:
        """Append the group's instructions, cut in tiles. Loads are written one step ahead where
        there is a slot to spare, so that one DMA channel fetches the next tile before it takes the
        last result out."""
        feeds = self.feeds()
        double = [feed for feed in feeds if len(feed.places) > 1]
        single = [feed for feed in feeds if len(feed.places) == 1]
        pending: list[Written] = []
        for number, step in enumerate(steps(self.work, tile)):
            boxes = self.work.boxes(step.box, step.reduction)
            self.program.append(self.loads(double, boxes, number))
            self.program.append(pending)
            self.program.append(self.loads(single, boxes, number))
            pending = self.step(feeds, step, boxes, number)
        self.program.append(pending)

    def feeds(self) -> list[Feed]:
        """The group's streams, nothing loaded yet."""
        return [self._feed(stream, placed) for stream, placed in self.slots.streams]

    def _feed(self, stream: Stream, placed: tuple[Placed, ...]) -> Feed:
        places = tuple(slot_place(item) for item in placed)
        packing, where = self.packed.get(stream, (None, None))
        return Feed(stream, places, packing, where)

    def loads(self, feeds: list[Feed], boxes: Boxes, number: int) -> list[Written]:
        """The transfers that bring in what a step reads and its slots don't hold."""
        written: list[Written] = []
        for feed in feeds:
            key = tuple((value, boxes.get(value)) for value in feed.stream.values)
            if key == feed.held:
                continue
            feed.held = key
            feed.loads += 1
            feed.regions = {}
            if feed.packing is not None:
                written += self._load_block(feed, boxes, number)
            else:
                written += self._load_boxes(feed, boxes, number)
        return written

    def _load_block(self, feed: Feed, boxes: Boxes, number: int) -> list[Written]:
        assert feed.packing is not None
        assert feed.packed is not None
        block = feed.packing.block(boxes)
        slot = feed.place
        for value, offset in block.offsets:
            feed.regions[value] = slot_region(
                SRAM,
                slot.address + offset,
                self.work.types[value].dtype,
                boxes[value],
                self.work.layout(value),
            )
        source = bytes_region(DDR, feed.packed.address + block.start, block.size_bytes)
        target = bytes_region(SRAM, slot.address, block.size_bytes)
        comment = f"{feed.stream.values[0]}{OF_TILE}{number}"
        return self.program.copy(
            self.program.load_queue,
            self.work.group.name,
            Access(feed.packed, source),
            Access(slot, target),
            comment,
        )

    def _load_boxes(self, feed: Feed, boxes: Boxes, number: int) -> list[Written]:
        written: list[Written] = []
        for value in feed.stream.values:
            whole = self.values(value)
            box = boxes[value]
            layout = self.work.layout(value)
            region = slot_region(
                SRAM, feed.place.address, self.work.types[value].dtype, box, layout
            )
            feed.regions[value] = region
            written += self.program.copy(
                self.program.load_queue,
                self.work.group.name,
                Access(whole.place, box_region(whole.region, box)),
                Access(feed.place, region),
                f"{value}{OF_TILE}{number}",
            )
        return written

    def step(self, feeds: list[Feed], step: Step, boxes: Boxes, number: int) -> list[Written]:
        """The compute instruction of a step, and the store of its result where it is complete."""
        kernel, index = self.kernels.of(step, boxes)
        reads = [self._operand(value, feeds, boxes) for value in kernel.parameters]
        result, store = self._result(step, boxes, number)
        if kernel.result != self.work.result:
            result = self._accumulator(boxes)
        written = [self._compute(index, reads, result, boxes)]
        return written + (store if step.is_last else [])

    def _operand(self, value: str, feeds: list[Feed], boxes: Boxes) -> Access:
        if value == self.kernels.names.total:
            return self._accumulator(boxes)
        for feed in feeds:
            if value in feed.regions:
                return Access(feed.place, feed.regions[value])
        whole = self.values(value)
        return Access(whole.place, box_region(whole.region, boxes[value]))

    def _accumulator(self, boxes: Boxes) -> Access:
        placed = self.slots.accumulator
        assert placed is not None
        value = self.work.seed.outputs[0]
        region = slot_region(SRAM, placed.address, DType.F32, boxes[value], self.work.layout(value))
        return Access(slot_place(placed), region)

    def _result(self, step: Step, boxes: Boxes, number: int) -> tuple[Access, list[Written]]:
        """Where a step's result goes, and the store that takes it to DDR."""
        result = self.work.result
        whole = self.values(result)
        target = box_region(whole.region, boxes[result])
        if not self.slots.results:
            return Access(whole.place, target), []
        slot = slot_place(self.slots.results[self.stores % len(self.slots.results)])
        region = slot_region(
            SRAM,
            slot.address,
            self.work.result_type.dtype,
            boxes[result],
            self.work.layout(result),
        )
        if not step.is_last:
            return Access(slot, region), []
        self.stores += 1
        store = self.program.copy(
            self.program.store_queue,
            self.work.group.name,
            Access(slot, region),
            Access(whole.place, target),
            f"{result}{OF_TILE}{number}",
        )
        return Access(slot, region), store

    def _compute(self, kernel: int, reads: list[Access], result: Access, boxes: Boxes) -> Written:
        work = self.work
        instruction = Instruction(
            _opcode(work),
            "tensor_core" if work.group.engine is Engine.TENSOR_CORE else "vector",
            work.group.name,
            reads=tuple(access.region for access in reads),
            writes=(result.region,),
            kernel=kernel,
            contraction=_contraction(work, boxes),
            launch=not self.launched,
        )
        self.launched = True
        return Written(instruction, tuple(access.place for access in reads), (result.place,))


def slot_place(placed: Placed) -> Place:
    """A slot as a place that instructions touch."""
    request = placed.request
    size, lifetime = request.size_bytes, Lifetime.EPHEMERAL
    return Place(request.name, SRAM, placed.address, size, lifetime, is_slot=True)


def slot_places(slots: Slots) -> list[Place]:
    """All slots of a group."""
    rest = [*slots.results, *([slots.accumulator] if slots.accumulator is not None else [])]
    streamed = [item for _, placed in slots.streams for item in placed]
    return [slot_place(item) for item in (*streamed, *rest)]


def _opcode(work: Workload) -> Opcode:
    if work.group.engine is Engine.TENSOR_CORE:
        is_gemm = work.seed.kind is Kind.MATMUL
        return Opcode.TENSOR_CORE_GEMM if is_gemm else Opcode.TENSOR_CORE_CONV
    return Opcode.ACTIVATION if work.seed.kind in _ACTIVATIONS else Opcode.VECTOR


def _contraction(work: Workload, boxes: Boxes) -> Contraction | None:
    if work.seed.kind not in CONTRACTIONS or work.group.engine is not Engine.TENSOR_CORE:
        return None
    product = work.product(boxes)
    assert product is not None
    return Contraction(
        product.m, product.n, product.k, product.groups, product.taps, work.operand_dtype
    )
