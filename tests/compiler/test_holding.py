"""Values that stay in the SRAM while some write parts of them and others read other parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.compiler.emit.program import Access, Place, Program, Written
from stages.compiler.emit.regions import box_region, slot_region, whole_region
from stages.compiler.schedule.dependencies import BufferUse, Reach, dependencies
from stages.compiler.schedule.holding import Held, held
from stages.compiler.schedule.holds import holds_of
from stages.compiler.schedule.images import carried, covering, extents_of, transfer_map
from stages.compiler.schedule.ordered import OrderedProgram
from stages.compiler.schedule.outlook import Outlook
from stages.plan.instructions import DDR, SRAM, Instruction, Opcode, Region
from stages.plan.prices import Price
from stages.recipe.decisions import Lifetime
from stages.tensors import ROW_MAJOR, Box, DType, TensorType, full_box
from tests.compiler.specs import hardware

SPEC = hardware("npu_tiny")
VALUE = TensorType(DType.I8, (1, 6, 8))
WHOLE = full_box(VALUE.shape)
OUTER = whole_region(DDR, SPEC.ddr.reserved_bytes + 512, VALUE, ROW_MAJOR)
LEFT, RIGHT = ((0, 1), (0, 6), (0, 4)), ((0, 1), (0, 6), (4, 8))
TOP, BOTTOM = ((0, 1), (0, 3), (0, 8)), ((0, 1), (3, 6), (0, 8))


def offsets(region: Region, base: int) -> np.ndarray:
    """Where each element of a region lies, counted from a base."""
    found = np.full(region.physical_shape, region.address - base)
    for axis, (extent, step) in enumerate(zip(region.physical_shape, region.strides, strict=True)):
        shape = [1] * found.ndim
        shape[axis] = extent
        found = found + step * np.arange(extent).reshape(shape)
    return found


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    """A box of a tensor of 3 x 4 x 5 elements."""
    spans = []
    for extent in (3, 4, 5):
        start = draw(st.integers(0, extent - 1))
        spans.append((start, draw(st.integers(start + 1, extent))))
    return tuple(spans)


@given(boxes(), st.lists(boxes(), min_size=1, max_size=3), st.sampled_from([DType.I8, DType.I16]))
def test_a_part_of_a_slot_finds_its_elements_in_the_box_that_covers_it(
    part: Box, others: list[Box], dtype: DType
) -> None:
    whole = whole_region(DDR, 640, TensorType(dtype, (3, 4, 5)), ROW_MAJOR)
    transfers = []
    for box in (part, *others):
        slot = slot_region(SRAM, 128, dtype, box, ROW_MAJOR)
        transfers += Program(SPEC).copy(
            "dma0",
            "g",
            Access(Place("value", DDR, 640, 240, Lifetime.SCOPED), box_region(whole, box)),
            Access(Place("slot", SRAM, 128, 240, Lifetime.EPHEMERAL, is_slot=True), slot),
            "",
        )
    sides = [(item.instruction.reads[0], item.instruction.writes[0]) for item in transfers]
    cells = [(outer.address - 640, extents_of(outer)) for outer, _ in sides]
    grid = covering(cells, dtype.size_bytes)
    if grid is None:
        return
    places: dict[int, int] = {}
    for (outer, inner), box in zip(sides, (part, *others), strict=True):
        mapping = transfer_map(inner, outer, 640 + grid.start)
        assert mapping is not None
        slot = slot_region(SRAM, 128, dtype, box, ROW_MAJOR)
        moved = carried(slot, 128, (mapping, grid.mapping))
        assert moved is not None
        here = offsets(box_region(whole, box), 640).ravel().tolist()
        there = offsets(moved, 0).ravel().tolist()
        for one, other in zip(here, there, strict=True):
            assert places.setdefault(one, other) == other
    taken = sorted(places.values())
    assert all(after - before >= dtype.size_bytes for before, after in pairwise(taken))
    assert taken[0] >= 0
    assert taken[-1] + dtype.size_bytes <= grid.size_bytes <= 60 * dtype.size_bytes


def test_strides_that_are_no_grid_have_no_box() -> None:
    assert covering([(0, [(4, 6)]), (0, [(4, 4)])], 2) is None
    assert covering([(3, [(4, 4)])], 2) is None


def slot(name: str, number: int, box: Box) -> Access:
    address = SPEC.sram.reserved_bytes + 64 * number
    region = slot_region(SRAM, address, DType.I8, box, ROW_MAJOR)
    return Access(Place(name, SRAM, address, 64, Lifetime.EPHEMERAL, is_slot=True), region)


def step(reads: Sequence[Access], target: Access) -> Written:
    item = Instruction(
        Opcode.THERMAL_BACKOFF,
        "vector",
        "steps",
        reads=tuple(access.region for access in reads),
        writes=(target.region,),
        cycles=10,
    )
    return Written(item, tuple(access.place for access in reads), (target.place,))


def passed(written: Sequence[Box], read: Sequence[Box], value: Place) -> Program:
    """A value that is stored by some boxes and loaded by others, in turn."""
    program = Program(SPEC)
    result = Access(
        Place("out", DDR, SPEC.ddr.reserved_bytes, 64, Lifetime.LONG_LIVED),
        whole_region(DDR, SPEC.ddr.reserved_bytes, TensorType(DType.I8, (64,)), ROW_MAJOR),
    )
    for number, box in enumerate(written):
        made = slot(f"made{number}", number, box)
        program.append([step([], made)])
        target = Access(value, box_region(OUTER, box))
        program.append(program.copy(program.store_queue, "a", made, target, ""))
    for number, box in enumerate(read, len(written)):
        loaded, done = slot(f"loaded{number}", number, box), slot("done", 15, ((0, 64),))
        source = Access(value, box_region(OUTER, box))
        program.append(program.copy(program.load_queue, "b", source, loaded, ""))
        program.append([step([loaded], done)])
        program.append(program.copy(program.store_queue, "b", done, result, ""))
    return program


def shortened(program: Program, room_bytes: int = 1 << 10, slower: int = 0) -> Held:
    """The program with what may stay; instructions on the vector unit with other regions take
    `slower` cycles more."""
    written = program.written
    known = {id(item.instruction) for item in written}

    def price(instruction: Instruction) -> Price:
        if instruction.opcode is Opcode.DMA_COPY:
            return (100, 20, 100)
        return (10 if id(instruction) in known else 10 + slower, 0, 0)

    found = dependencies(written, Reach.ALL)
    ordered = OrderedProgram(written, found, range(len(written)))
    prices = [price(item.instruction) for item in written]
    holds = holds_of(ordered, prices)
    return held(ordered, holds, prices, price, SPEC.dma, room_bytes)


SCOPED = Place("value", DDR, OUTER.address, 48, Lifetime.SCOPED)
OUTPUT = Place("value", DDR, OUTER.address, 48, Lifetime.LONG_LIVED)


@pytest.mark.parametrize("read", [(WHOLE,), (TOP, BOTTOM), (LEFT, RIGHT, WHOLE)])
def test_what_is_written_by_columns_and_read_otherwise_stays(read: tuple[Box, ...]) -> None:
    done = shortened(passed((LEFT, RIGHT), read, SCOPED)).program
    lanes = [item.instruction.opcode for item in done.written]
    assert lanes.count(Opcode.DMA_COPY) == len(read)
    names = [use.place.name for use in done.found.buffers]
    if read == (TOP, BOTTOM):
        assert names.count("made0.held") == 1
    (use,) = [use for use in done.found.buffers if use.size_bytes == 48 and use.is_slot][:1]
    assert use.place.name == "made0.held"
    writers = [done.written[number].instruction.writes[0] for number in use.writers]
    assert [(item.address, item.strides) for item in writers] == [(0, (48, 8, 1)), (4, (48, 8, 1))]


def test_readers_wait_for_the_writers_of_their_parts_alone() -> None:
    done = shortened(passed((TOP, BOTTOM), (WHOLE, TOP), SCOPED)).program
    assert sorted(done.found.predecessors[2]) == [0, 1]
    assert done.found.predecessors[4][0] == 0
    assert 1 not in done.found.predecessors[4]
    assert done.written[4].instruction.reads[0].address == 0
    assert done.found.buffers[done.found.buffers_of[4][0]].touches == 4


def test_an_output_is_stored_all_the_same_from_where_it_lies() -> None:
    done = shortened(passed((LEFT, RIGHT), (TOP, BOTTOM), OUTPUT)).program
    stores = [item for item in done.written if item.writes[0].name == "value"]
    assert [item.reads[0].name for item in stores] == ["made0.held"] * 2
    assert stores[1].instruction.reads[0].address == 4
    assert stores[1].instruction.reads[0].strides == (8, 1)


def test_nothing_stays_without_room_or_where_engines_would_be_slower() -> None:
    program = passed((LEFT, RIGHT), (TOP, BOTTOM), SCOPED)
    everything = list(range(len(program.written)))
    assert shortened(program, room_bytes=47).program.kept == everything
    assert shortened(program, slower=100).program.kept == everything
    changed = shortened(program, slower=99)
    assert len(changed.program.kept) < len(everything)
    assert changed.prices[0] == (109, 0, 0)


def test_what_is_written_twice_doesn_t_stay() -> None:
    program = passed((LEFT, RIGHT, TOP), (WHOLE,), SCOPED)
    assert shortened(program).program.kept == list(range(len(program.written)))


def uses(*spans: tuple[int, int, int]) -> list[BufferUse]:
    """Buffers by size, first and last instruction."""
    return [
        BufferUse(slot(str(number), 0, WHOLE).place, True, first, last, size)
        for number, (size, first, last) in enumerate(spans)
    ]


@pytest.mark.parametrize(
    ("lying", "spared"),
    [
        ({}, [(40, 60)]),  # only in the middle would it be in the way
        ({2: (0, 20)}, [(40, 80)]),
        ({2: (0, 20), 3: (90, 100)}, [(30, 80)]),
        ({2: (40, 45), 3: (50, 55)}, [(55, 100)]),  # nowhere is there room: not in the widest gap
    ],
)
def test_small_buffers_leave_room_for_the_large_one_that_comes(
    lying: dict[int, tuple[int, int]], spared: list[tuple[int, int]]
) -> None:
    buffers = uses((8, 0, 9), (60, 5, 6), (20, 0, 9), (10, 0, 9), (30, 0, 4))
    outlook = Outlook(buffers, [0, 1], 0, 100, 1)
    outlook.lying = {**lying, 4: (0, 30)}  # which is gone by then
    assert outlook.spared(0) == spared
    assert outlook.spared(1) == []
    outlook.forget(0)
    assert outlook.spared(0) == []


def test_a_box_of_another_axis_order_is_found() -> None:
    """Every element of a transposed slot lies where its transfer says."""
    outer = Region(DDR, 100, DType.I8, (4, 3), ROW_MAJOR, (1, 4))
    inner = Region(SRAM, 0, DType.I8, (4, 3), ROW_MAJOR, (3, 1))
    mapping = transfer_map(inner, outer, 100)
    assert mapping is not None
    for row, column in product(range(4), range(3)):
        assert mapping.of(3 * row + column, []) == (row + 4 * column, [])
    assert mapping.of(12, []) is None
