"""A recipe with its memory becomes a plan, and what the plan's constants are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stages.compiler.draft import Draft, fresh_name
from stages.compiler.emit.cascades import CascadeEmitter, PackedStreams
from stages.compiler.emit.examples import Example, form_of, packed_alike, written_alike
from stages.compiler.emit.kernels import KernelTable
from stages.compiler.emit.moves import moves
from stages.compiler.emit.packing import StreamPacking
from stages.compiler.emit.program import Access, Place, Program, Written
from stages.compiler.emit.regions import bytes_region, whole_region
from stages.compiler.emit.synchronize import synchronized
from stages.compiler.emit.tiles import TileEmitter, slot_places
from stages.compiler.emit.views import view_region
from stages.compiler.memory.assign import Memory
from stages.compiler.memory.slots import PlacedCascade, Slots
from stages.compiler.schedule.attempts import ATTEMPTS, Attempt
from stages.compiler.schedule.reorder import Order, scheduled, woven_cycles
from stages.compiler.support import placement_alignment
from stages.compiler.tiling.streams import Stream, align, box_bytes, steps
from stages.compiler.tiling.workload import Boxes, Workload
from stages.errors import DoesNotFitError
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, Binding, Buffer, Instruction, Opcode, Plan, Region
from stages.plan.packing import Packed, Packing, Whole
from stages.recipe.decisions import Engine, Group, Lifetime, Tile
from stages.recipe.graph import Operator, outer_operands
from stages.tensors import full_box


@dataclass(slots=True)
class PlanEmitter:
    """Walks the groups in order and writes the program, woven in the first of the `attempts` that
    finds room where that is its order. `examples` are those of its kinds of tiled groups; emitters
    of one order and of the same workloads may share them."""

    draft: Draft
    memory: Memory
    spec: HardwareSpec
    order: Order = Order.GROUPS
    attempts: Sequence[Attempt] = ATTEMPTS
    examples: dict[object, Example] = field(default_factory=dict)
    program: Program = field(init=False)
    packings: list[Packing] = field(default_factory=list)
    constants: list[Binding] = field(default_factory=list)
    constant_places: dict[str, Access] = field(default_factory=dict)
    next_address: int = 0

    def __post_init__(self) -> None:
        graph = self.draft.graph
        names = frozenset({*graph.types, *(operator.name for operator in graph.operators)})
        self.program = Program(self.spec, KernelTable(names))
        allocated = [
            item.offset_bytes + item.size_bytes
            for item in self.draft.recipe.allocations.values()
            if item.memory == DDR
        ]
        self.next_address = max(allocated, default=self.spec.ddr.reserved_bytes)

    def emit(self) -> tuple[Plan, tuple[Packing, ...]]:
        """The plan, and what each of its constants is made of. No constant's elements are read.

        Raises:
            DoesNotFitError: the weights don't fit into what the values leave of the DDR.
        """
        self._write(self.draft.recipe.groups)
        graph = self.draft.graph
        return self._finish(graph.inputs, graph.outputs), tuple(self.packings)

    def write_segment(self, start: int, stop: int) -> None:
        """Write the program of the groups `[start, stop)` alone, to be timed.

        Raises:
            DoesNotFitError: as `emit`.
        """
        self._write(self.draft.recipe.groups[start:stop])

    def segment(self) -> Plan:
        """The plan of the segment that was written: it takes nothing in and gives nothing out."""
        return self._finish((), ())

    def woven_cycles(self, attempts: Sequence[Attempt]) -> dict[Attempt, int]:
        """When the last instruction of the segment that was written ends in each attempt to weave
        it; those that find no room are left out."""
        queues = _queues(self.spec)
        return woven_cycles(self.program, self.constants, queues, self.spec, attempts)

    def _write(self, groups: Iterable[Group]) -> None:
        operators = self.memory.operators
        cascaded = {name for item in self.draft.recipe.cascades for name in item.groups}
        for group in groups:
            members = [operators[name] for name in group.operators]
            if group.name in self.memory.cascades:
                self._cascade(self.memory.cascades[group.name])
            elif group.name in cascaded:
                continue
            elif group.engine is Engine.HOST:
                self._host(group, members)
            elif group.engine is Engine.DMA:
                self._move(group, members[0])
            elif group.engine is not Engine.NONE:
                self._tiled(group)

    def _tiled(self, group: Group) -> None:
        assert group.tile is not None
        work, slots = self.memory.works[group.name], self.memory.slots[group.name]
        if (accesses := self._accesses(work, slots)) is None:
            self._by_itself(work, slots, group.tile)
            return
        form = form_of(work, group.tile, slots, accesses)
        values = [access.place for access in accesses.values()]
        example = self.examples.get(form)
        if example is not None:
            self._by_example(example, work, slots, values)
            return
        begin, bound = len(self.program.written), len(self.packings)
        emitter = self._by_itself(work, slots, group.tile)
        constants = [item for item in self.packings[bound:] if isinstance(item, Packed)]
        places = [*slot_places(slots), *(place for _, place in emitter.packed.values()), *values]
        written = self.program.written[begin:]
        self.examples[form] = Example(work, places, written, constants, emitter.kernels.steps)

    def _by_itself(self, work: Workload, slots: Slots, tile: Tile) -> TileEmitter:
        """A tiled group, step by step."""
        boxes = [work.boxes(step.box, step.reduction) for step in steps(work, tile)]
        packed = self._packed(work, slots, boxes)
        emitter = TileEmitter(work, slots, self.program, self._value, packed)
        emitter.emit(tile)
        return emitter

    def _by_example(
        self, example: Example, work: Workload, slots: Slots, values: Sequence[Place]
    ) -> None:
        """A tiled group as another one was written; `values` are the places of its values."""
        weights = []
        for number, packed in enumerate(example.packings):
            alike = packed_alike(packed, _weights_name(work, number), example.work, work)
            weights.append(self._bound(alike))
        places = [*slot_places(slots), *weights, *values]
        table = self.program.kernels
        self.program.append(written_alike(example, work, places, table))

    def _accesses(self, work: Workload, slots: Slots) -> dict[str, Access] | None:
        """The accesses to what a group reads and writes where it lies, or by a stream of its own;
        None where a raw constant is among it, which has no place before it is asked for."""
        packed = {v for stream, _ in slots.streams if stream.is_constant for v in stream.values}
        asked = [v for v in (*work.operands, work.result) if v not in packed]
        if any(self._is_constant(value) for value in asked):
            return None
        return {value: self._value(value) for value in asked}

    def _is_constant(self, value: str) -> bool:
        """Whether a value is a constant, or a view of one."""
        while value in self.memory.views:
            value = self.memory.views[value].inputs[0]
        return self.memory.roots[value] in self.draft.constants

    def _cascade(self, cascade: PlacedCascade) -> None:
        striped = cascade.striped
        packed = {}
        for place, work in enumerate(striped.chain.works):
            boxes = [striped.boxes(part) for part in striped.parts if part.place == place]
            name = work.group.name
            packed[name] = self._packed(work, cascade.slots[name], boxes)
        CascadeEmitter(cascade, self.program, self._value, packed).emit()

    def _packed(self, work: Workload, slots: Slots, boxes: list[Boxes]) -> PackedStreams:
        """The packings of a group's constant streams."""
        streams = [stream for stream, _ in slots.streams if stream.is_constant]
        return {
            stream: self._packing(work, stream, boxes, number)
            for number, stream in enumerate(streams)
        }

    def _packing(
        self, work: Workload, stream: Stream, boxes: list[Boxes], number: int
    ) -> tuple[StreamPacking, Place]:
        """The packing of a constant stream, every block made now, so that its size is known."""
        packing = StreamPacking(work, stream.values, placement_alignment(self.spec.sram))
        for part in boxes:
            packing.block(part)
        return packing, self._bound(packing.packed(_weights_name(work, number)))

    def _bound(self, packed: Packed) -> Place:
        """The place of packed constants."""
        place = self._weights_place(packed.name, packed.size_bytes)
        self._bind(bytes_region(DDR, place.address, packed.size_bytes), packed)
        return place

    def _weights_place(self, name: str, size_bytes: int) -> Place:
        ddr = self.spec.ddr
        address = align(self.next_address, placement_alignment(ddr))
        if address + size_bytes > ddr.size_bytes:
            raise DoesNotFitError(
                f"weights {name}: {size_bytes} B end {address + size_bytes - ddr.size_bytes} B "
                f"beyond the {ddr.size_bytes} B of ddr",
                where=f"ddr+{address:#x}",
                hint="raise `memory.ddr.size` in the hardware spec, or shrink the model",
            )
        self.next_address = address + size_bytes
        return Place(name, DDR, address, size_bytes, Lifetime.WEIGHTS)

    def _bind(self, region: Region, packing: Packing) -> None:
        self.constants.append(Binding(packing.name, region))
        self.packings.append(packing)

    def _host(self, group: Group, members: list[Operator]) -> None:
        parameters = outer_operands(members)
        made = [value for op in members for value in op.outputs]
        consumers = self.draft.graph.consumers()
        names = {op.name for op in members}
        results = tuple(
            value
            for value in made
            if value in self.draft.graph.outputs
            or any(reader.name not in names for reader in consumers[value])
        )
        types = {value: self.draft.graph.types[value] for value in sorted({*parameters, *made})}
        kernel = self.program.kernels.intern(group.name, members, parameters, results, types)
        reads = [self._value(value) for value in parameters]
        writes = [self._value(value) for value in results]
        instruction = Instruction(
            Opcode.HOST_CALL,
            "host",
            group.name,
            reads=tuple(access.region for access in reads),
            writes=tuple(access.region for access in writes),
            kernel=kernel,
            launch=True,
            comment=group.reason,
        )
        self.program.append(
            [
                Written(
                    instruction,
                    tuple(access.place for access in reads),
                    tuple(access.place for access in writes),
                )
            ]
        )

    def _move(self, group: Group, operator: Operator) -> None:
        """Data movement that DMA does alone: concat, slice, expand, and plain copies."""
        result = self._value(operator.outputs[0])
        sources = [self._value(value) for value in operator.operands]
        written: list[Written] = []
        for source, target in moves(operator, sources, result, self.draft.graph.types):
            written += self.program.copy(
                self.program.load_queue, group.name, source, target, group.name
            )
        if written and self.spec.driver.launch_ns.get("dma", 0):
            first = replace(written[0].instruction, launch=True)
            written[0] = replace(written[0], instruction=first)
        self.program.append(written)

    def _value(self, value: str) -> Access:
        """The access to a whole value in memory; raw constants get a place when first asked for."""
        tensor_type, layout = self.draft.graph.types[value], self.draft.recipe.layout(value)
        if value in self.memory.views:
            operator = self.memory.views[value]
            source = self._value(operator.inputs[0])
            seen = view_region(operator, source.region, tensor_type, layout)
            assert seen is not None, f"%{value} is no view"
            return Access(source.place, seen)
        root = self.memory.roots[value]
        if root in self.draft.constants:
            return self._raw_constant(root)
        allocation = self.draft.recipe.allocations[root]
        place = Place(
            root,
            allocation.memory,
            allocation.offset_bytes,
            allocation.size_bytes,
            allocation.lifetime,
        )
        region = whole_region(allocation.memory, allocation.offset_bytes, tensor_type, layout)
        return Access(place, region)

    def _raw_constant(self, value: str) -> Access:
        if value not in self.constant_places:
            tensor_type, layout = self.draft.graph.types[value], self.draft.recipe.layout(value)
            size = box_bytes(tensor_type, layout, full_box(tensor_type.shape))
            place = self._weights_place(
                fresh_name(f"{value}.raw", self.program.kernels.taken), size
            )
            region = whole_region(DDR, place.address, tensor_type, layout)
            self._bind(region, Whole(place.name, value))
            self.constant_places[value] = Access(place, region)
        return self.constant_places[value]

    def _finish(self, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Plan:
        queues = _queues(self.spec)
        done = scheduled(self.program, self.constants, queues, self.spec, self.order, self.attempts)
        instructions = synchronized(done.written, done.predecessors, queues)
        return Plan(
            hardware=self.spec.name,
            queues=queues,
            kernels=tuple(self.program.kernels.kernels),
            buffers=tuple(self._buffers(done.written, instructions, (*inputs, *outputs))),
            inputs=tuple(Binding(value, self._value(value).region) for value in inputs),
            outputs=tuple(Binding(value, self._value(value).region) for value in outputs),
            constants=tuple(self.constants),
            instructions=tuple(instructions),
        )

    def _buffers(
        self, written: list[Written], instructions: list[Instruction], ends: Sequence[str]
    ) -> list[Buffer]:
        """Every place with its live range; what a run starts or ends with lives all along."""
        touches = _touches(written, instructions)
        places = {place.name: place for item in written for place in (*item.reads, *item.writes)}
        for value in ends:
            place = self._value(value).place
            places.setdefault(place.name, place)
        count = max(1, len(instructions))
        found = []
        for name, place in places.items():
            if not place.size_bytes:
                continue
            whole = place.lifetime in (Lifetime.WEIGHTS, Lifetime.LONG_LIVED)
            start, stop = (0, count) if whole else touches[name]
            found.append(
                Buffer(
                    name,
                    place.memory,
                    place.address,
                    place.size_bytes,
                    place.lifetime,
                    start,
                    stop,
                )
            )
        return found


def _weights_name(work: Workload, number: int) -> str:
    """The name of the packed constants of a group's so-manieth constant stream."""
    return f"{work.stem}.weights" + (f".{number}" if number else "")


def _queues(spec: HardwareSpec) -> tuple[str, ...]:
    channels = [f"dma{channel}" for channel in range(spec.dma.channels)]
    return ("tensor_core", "vector", "host", *channels)


def _touches(
    written: list[Written], instructions: list[Instruction]
) -> Mapping[str, tuple[int, int]]:
    """For each place, the first instruction that touches it and the one after the last."""
    numbers = [
        number
        for number, item in enumerate(instructions)
        if item.opcode not in (Opcode.WAIT_EVENT, Opcode.SIGNAL_EVENT)
    ]
    found: dict[str, tuple[int, int]] = {}
    for number, item in zip(numbers, written, strict=True):
        for place in (*item.reads, *item.writes):
            first, _ = found.get(place.name, (number, number))
            found[place.name] = (first, number + 1)
    return found
