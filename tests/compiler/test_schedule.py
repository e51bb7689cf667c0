"""The list schedule: the pool's spots, what accesses share, and two small programs by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from stages.compiler.emit.program import Place, Program, Written
from stages.compiler.emit.regions import box_region, bytes_region, whole_region
from stages.compiler.schedule.dependencies import Lane, dependencies
from stages.compiler.schedule.overlap import footprint, may_share
from stages.compiler.schedule.pool import Corner, Pool
from stages.compiler.schedule.reorder import scheduled
from stages.plan.instructions import DDR, SRAM, Instruction, Opcode
from stages.recipe.decisions import Lifetime
from stages.tensors import ROW_MAJOR, DType, Layout, LayoutKind, TensorType
from tests.compiler.specs import hardware

SPEC = hardware("npu_tiny")
QUEUES = ("tensor_core", "vector", "host", "dma0", "dma1")
LAYOUTS = (ROW_MAJOR, Layout(LayoutKind.NHWC), Layout(LayoutKind.NC1HWC2, 4))


def bytes_of(region) -> set[int]:
    """Every byte that a region touches, one by one."""
    found = set()
    for index in product(*(range(extent) for extent in region.physical_shape)):
        offset = sum(at * stride for at, stride in zip(index, region.strides, strict=True))
        start = region.address + offset
        found.update(range(start, start + region.dtype.size_bytes))
    return found


@st.composite
def two_boxes(draw):
    layout = draw(st.sampled_from(LAYOUTS))
    shape = (1, draw(st.integers(1, 9)), draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    whole = whole_region(SRAM, 64, TensorType(DType.F16, shape), layout)
    boxes = []
    for _ in range(2):
        box = []
        for axis, extent in enumerate(shape):
            block = layout.quantum if axis == 1 else 1
            start = draw(st.integers(0, (extent - 1) // block)) * block
            box.append((start, draw(st.integers(start + 1, extent))))
        boxes.append(box_region(whole, tuple(box)))
    return boxes


@settings(max_examples=150)
@given(two_boxes())
def test_boxes_share_bytes_exactly_where_they_meet(boxes) -> None:
    one, other = (footprint(region, 64) for region in boxes)
    assert may_share(one, other) == bool(bytes_of(boxes[0]) & bytes_of(boxes[1]))


def test_a_box_seen_in_another_shape_counts_as_shared() -> None:
    one = whole_region(SRAM, 0, TensorType(DType.I8, (4, 4)), ROW_MAJOR)
    part = bytes_region(SRAM, 4, 8)
    assert may_share(footprint(one, 0), footprint(part, 0))
    assert not may_share(footprint(bytes_region(SRAM, 0, 4), 0), footprint(part, 0))


def test_the_pool_gives_what_is_free_the_soonest_and_says_who_was_there() -> None:
    pool = Pool(0, 96, 16)
    for address in (0, 32, 64):
        spot = pool.find(32, 0)
        assert spot is not None
        assert (spot.address, spot.time, spot.nodes) == (address, 0, ())
        pool.take(address, 32)
    assert pool.find(1, 0) is None
    pool.release(0, 50, (7,))
    pool.release(32, 20, (8, 9))
    spot = pool.find(32, 10)
    assert spot is not None
    assert (spot.address, spot.time, spot.nodes) == (32, 20, (8, 9))
    late = pool.find(32, 60)
    assert late is not None
    assert late.address == 0, "all that is free by then is alike: the lowest"
    both = pool.find(64, 0)
    assert both is not None
    assert (both.address, both.time, both.nodes) == (0, 50, (7, 8, 9))
    assert pool.find(64, 0, [(16, 20)]) is None
    assert pool.spot_at(60, 8) is None


def test_a_corner_counts_for_more_than_a_short_wait() -> None:
    pool = Pool(0, 96, 16)
    for address in (0, 32, 64):
        pool.take(address, 32)
    for address, time in ((0, 500), (32, 0), (64, 1_000_000)):
        pool.release(address, time, (address,))
    found = {corner: pool.find(16, 0, (), corner) for corner in Corner}
    assert {corner: spot and spot.address for corner, spot in found.items()} == {
        Corner.SOONEST: 32,
        Corner.LOW: 0,
        Corner.HIGH: 48,
    }
    late = pool.find(16, 1_000_000, (), Corner.HIGH)
    assert late is not None
    assert (late.address, late.nodes) == (80, (64,))


def slot(name: str, address: int, size: int) -> Place:
    return Place(name, SRAM, address, size, Lifetime.EPHEMERAL, is_slot=True)


def load(source: Place, target: Place, group: str) -> Written:
    size = target.size_bytes
    item = Instruction(
        Opcode.DMA_COPY,
        "dma0",
        group,
        reads=(bytes_region(DDR, source.address, size),),
        writes=(bytes_region(SRAM, target.address, size),),
    )
    return Written(item, (source,), (target,))


def compute(source: Place, target: Place, group: str) -> Written:
    item = Instruction(
        Opcode.THERMAL_BACKOFF,
        "vector",
        group,
        reads=(bytes_region(SRAM, source.address, source.size_bytes),),
        writes=(bytes_region(SRAM, target.address, target.size_bytes),),
        cycles=10_000,
    )
    return Written(item, (source,), (target,))


def two_groups(size: int) -> Program:
    """Two groups of one step each: load, work, each with slots at the same addresses."""
    program = Program(SPEC)
    for number in range(2):
        weights = Place(f"w{number}", DDR, 65536 * (number + 1), size, Lifetime.WEIGHTS)
        source = slot(f"g{number}/operand0.0", SPEC.sram.reserved_bytes, size)
        target = slot(f"g{number}/result.0", SPEC.sram.reserved_bytes + size, size)
        group = f"g{number}"
        program.append([load(weights, source, group), compute(source, target, group)])
    return program


def test_the_next_group_s_weights_are_loaded_while_the_present_one_works() -> None:
    room = SPEC.sram.size_bytes - SPEC.sram.reserved_bytes
    done = scheduled(two_groups(room // 8 // 64 * 64), (), QUEUES, SPEC)
    queues = [item.instruction.queue for item in done.written]
    assert queues[0] == "dma0"
    assert queues[-1] == "vector"
    second = next(n for n, item in enumerate(done.written) if item.instruction.group == "g1")
    assert not done.predecessors[second], "its slot has an address of its own"
    loaded = done.written[second].writes[0]
    for item in done.written:
        if item.instruction.group == "g0":
            other = item.writes[0]
            apart = loaded.address + loaded.size_bytes <= other.address
            assert apart or other.address + other.size_bytes <= loaded.address


def test_without_room_the_next_group_waits_for_the_bytes_that_it_reuses() -> None:
    room = SPEC.sram.size_bytes - SPEC.sram.reserved_bytes
    done = scheduled(two_groups(room // 2 // 64 * 64), (), QUEUES, SPEC)
    groups = [item.instruction.group for item in done.written]
    assert groups == ["g0", "g0", "g1", "g1"]
    assert 1 in done.predecessors[2], "the work of g0 read these bytes last"


def test_slots_are_renamed_and_constants_are_nobody_s() -> None:
    program = two_groups(64)
    repeated = [*program.written, *program.written]
    found = dependencies(repeated)
    assert found.lanes[0] is Lane.LOAD
    slots = [use for use in found.buffers if use.is_slot]
    assert len(slots) == 6, "each filling that was read is a buffer of its own"
    assert all(use.touches == 2 for use in slots)
    assert found.predecessors[0] == []
    assert found.predecessors[1] == [0]
    assert found.predecessors[4] == [], "the second filling of a slot waits for nobody"


def test_what_reads_a_slot_waits_for_every_load_that_filled_it() -> None:
    """Loads may overtake each other: the last one doesn't speak for those before it."""
    whole = slot("a/operand0.0", SPEC.sram.reserved_bytes, 128)
    weights = Place("w", DDR, 65536, 64, Lifetime.WEIGHTS)
    written = []
    for number in range(2):
        half = replace(whole, address=whole.address + 64 * number, size_bytes=64)
        written.append(replace(load(weights, half, "a"), writes=(whole,)))
    written.append(compute(whole, slot("a/result.0", SPEC.sram.reserved_bytes + 128, 128), "a"))
    assert sorted(dependencies(written).predecessors[-1]) == [0, 1]


def test_a_load_of_a_value_waits_for_the_store_of_its_box_alone() -> None:
    value = Place("v", DDR, 4096, 256, Lifetime.SCOPED)
    written = []
    for number in range(2):
        part = slot(f"a/result.{number}", SPEC.sram.reserved_bytes + 128 * number, 128)
        source = slot(f"a/operand0.{number}", SPEC.sram.reserved_bytes + 512, 64)
        constant = Place("w", DDR, 65536, 64, Lifetime.WEIGHTS)
        written += [load(constant, source, "a"), compute(source, part, "a")]
        store = Instruction(
            Opcode.DMA_COPY,
            "dma1",
            "a",
            reads=(bytes_region(SRAM, part.address, 128),),
            writes=(bytes_region(DDR, 4096 + 128 * number, 128),),
        )
        written.append(Written(store, (part,), (value,)))
    first = slot("b/operand0.0", SPEC.sram.reserved_bytes, 128)
    item = load(replace(value, size_bytes=128), first, "b")
    written.append(Written(item.instruction, (value,), (first,)))
    assert dependencies(written).predecessors[-1] == [2]
