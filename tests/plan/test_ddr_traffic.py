"""What caches make of a plan's traffic, against a cache that takes a line at a time."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.hardware.cost import (
    CacheUse,
    Side,
    cached_transfer_cost,
    kept_weights_cost,
    transfer_cost,
)
from stages.hardware.load import load_spec
from stages.hardware.lru import UNTOUCHED, Touched
from stages.hardware.spec import Cache, HardwareSpec, WeightCache
from stages.plan.costs import instruction_costs
from stages.plan.ddr_traffic import NOTHING_KEPT, cache_uses, kept_constants
from stages.plan.instructions import Binding, Instruction, Kernel, Opcode, Plan, Region
from stages.plan.timing import plan_cycles
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType
from tests.device.plans import copy, plan, region
from tests.device.specs import tiny_spec
from tests.hardware.specs import SPECS
from tests.hardware.test_lru import OneByOne, cache

SPEC = tiny_spec()
L2 = cache(sets=4, ways=2)  # 512 bytes in lines of 64


def with_l2(l2: Cache = L2) -> HardwareSpec:
    """16 bytes a cycle out of the cache and 32 into it, after 5 and 3 ns; ddr gives 8."""
    return replace(
        SPEC,
        l2=replace(
            l2,
            read_bandwidth=16_000_000_000,
            write_bandwidth=32_000_000_000,
            read_latency_ns=5,
            write_latency_ns=3,
        ),
        dma=replace(SPEC.dma, bandwidth=64_000_000_000),
    )


def line(number: int, count: int = 1) -> Region:
    return region("ddr", 64 * number, (64 * count,), DType.U8)


def slot(count: int = 1) -> Region:
    return region("sram", 0, (64 * count,), DType.U8)


def lines_of(where: Region) -> list[int]:
    """Every line that a box touches, byte by byte."""
    shape, strides = where.physical_shape, where.strides
    return sorted(
        {
            (where.address + byte + sum(p * s for p, s in zip(places, strides, strict=True))) // 64
            for places in product(*(range(extent) for extent in shape))
            for byte in range(where.dtype.size_bytes)
        }
    )


def naive_uses(program: Plan, sets: int, ways: int) -> list[CacheUse | None]:
    """Two inferences, a line at a time; what the second one found."""
    held = OneByOne(sets, ways)
    uses: list[CacheUse | None] = []
    for _ in range(2):
        uses = []
        for step in program.instructions:
            source, target = step.reads[0], step.writes[0]
            read = held.touch(lines_of(source), False) if source.memory == "ddr" else UNTOUCHED
            write = held.touch(lines_of(target), True) if target.memory == "ddr" else UNTOUCHED
            uses.append(CacheUse(read, write) if "ddr" in (source.memory, target.memory) else None)
    return uses


@st.composite
def boxes(draw: st.DrawFn) -> Region:
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    strides = tuple(draw(st.integers(0, 300)) for _ in shape)
    return region("ddr", draw(st.integers(0, 2000)), shape, DType.F16, strides=strides)


@given(st.lists(st.tuples(boxes(), st.booleans()), max_size=60), st.integers(1, 9), st.data())
def test_equals_a_line_at_a_time(
    accesses: list[tuple[Region, bool]], sets: int, data: st.DataObject
) -> None:
    ways = data.draw(st.integers(1, 4))
    steps = []
    for box, write in accesses:
        tile = region("sram", 0, box.shape)
        steps.append(copy(tile, box) if write else copy(box, tile))
    steps.append(copy(region("sram", 0, (4,)), region("sram", 64, (4,))))
    program = plan(tuple(steps))
    spec = with_l2(cache(sets, ways))
    assert spec.l2 is not None
    assert cache_uses(program, spec, spec.l2, NOTHING_KEPT) == naive_uses(program, sets, ways)


def test_columns_count_hits_and_misses_of_the_second_inference() -> None:
    # lines 0 to 3 are read twice over, and a fifth is written in between to set 0
    program = plan((copy(line(0, 4), slot(4)), copy(slot(), line(4)), copy(line(0, 4), slot(4))))
    costs = instruction_costs(program, with_l2())
    assert costs.hit_bytes == [256, 64, 256]
    assert costs.miss_bytes == [0, 0, 0]
    # three lines to a set of two: every one is gone before it comes round again
    program = plan(tuple(copy(line(4 * number), slot()) for number in range(3)))
    costs = instruction_costs(program, with_l2())
    assert (costs.hit_bytes, costs.miss_bytes) == ([0, 0, 0], [64, 64, 64])


def test_hits_come_at_the_caches_pace_and_misses_at_the_memorys() -> None:
    spec = with_l2()
    assert spec.l2 is not None
    ends = Side("ddr"), Side("sram")
    # 256 bytes: 16 cycles out of the cache. Latency: 50 of setup, 5 of the cache.
    hit = cached_transfer_cost(spec, spec.l2, 256, 256, *ends, CacheUse(Touched(4, 0, 0)))
    assert (hit.latency_cycles, hit.channel_cycles, hit.port_cycles) == (55, 16, 16)
    # one line of four from memory: 8 cycles of its port, hidden behind the cache's 16
    mixed = cached_transfer_cost(spec, spec.l2, 256, 256, *ends, CacheUse(Touched(3, 1, 0)))
    assert (mixed.latency_cycles, mixed.channel_cycles, mixed.port_cycles) == (105, 16, 16)
    # all from memory: 32 cycles; three lines put out hold its port 24 more
    cold = cached_transfer_cost(spec, spec.l2, 256, 256, *ends, CacheUse(Touched(0, 4, 3)))
    assert (cold.latency_cycles, cold.channel_cycles, cold.port_cycles) == (105, 32, 56)


def test_what_is_written_stays_in_the_cache_until_it_is_put_out() -> None:
    spec = with_l2()
    assert spec.l2 is not None
    ends = Side("sram"), Side("ddr")
    # 256 bytes: 8 cycles out of the sram at 32 a cycle, 8 into the cache
    kept = cached_transfer_cost(
        spec, spec.l2, 256, 256, *ends, CacheUse(UNTOUCHED, Touched(0, 4, 0))
    )
    assert (kept.latency_cycles, kept.channel_cycles, kept.port_cycles) == (53, 8, 8)
    putting_out = cached_transfer_cost(
        spec, spec.l2, 256, 256, *ends, CacheUse(UNTOUCHED, Touched(0, 4, 4))
    )
    assert (putting_out.channel_cycles, putting_out.port_cycles) == (8, 32)


def test_a_plan_that_fits_the_cache_is_quicker_than_one_that_does_not() -> None:
    small = plan(tuple(copy(line(number), slot()) for number in range(8)))
    large = plan(tuple(copy(line(4 * number), slot()) for number in range(8)))
    assert plan_cycles(small, with_l2()) < plan_cycles(large, with_l2())


CONSTANTS = tuple(
    Binding(name, region("ddr", address, (size,), DType.U8))
    for name, address, size in (("c", 4096, 300), ("a", 0, 600), ("b", 1024, 500))
)


def load(binding: Binding, start: int = 0, size: int | None = None) -> Instruction:
    whole = binding.region
    count = whole.size_bytes if size is None else size
    part = region("ddr", whole.address + start, (count,), DType.U8)
    return copy(part, region("sram", 0, (count,), DType.U8))


def keeping(size_bytes: int) -> HardwareSpec:
    return replace(SPEC, weight_cache=WeightCache(size_bytes, read_bandwidth=16_000_000_000))


@pytest.mark.parametrize(
    ("size_bytes", "kept"),
    [
        (1400, [600, 500, 300]),
        (1399, [600, 500, 0]),
        (1000, [600, 0, 300]),  # b doesn't fit behind a; c, which comes later, does
        (599, [0, 500, 0]),
        (1, [0, 0, 0]),
    ],
)
def test_constants_are_kept_whole_in_the_order_of_their_use(
    size_bytes: int, kept: list[int]
) -> None:
    c, a, b = CONSTANTS
    program = plan((load(a), load(b), load(c)), constants=CONSTANTS)
    assert instruction_costs(program, keeping(size_bytes)).kept_bytes == kept


def test_a_constant_is_one_however_many_transfers_read_it() -> None:
    _, a, b = CONSTANTS
    program = plan((load(a, 0, 100), load(a, 100, 500), load(b)), constants=CONSTANTS)
    costs = instruction_costs(program, keeping(1100))
    assert costs.kept_bytes == [100, 500, 500]
    # what lies beside it isn't kept
    beside = copy(region("ddr", 600, (8,), DType.U8), region("sram", 0, (8,), DType.U8))
    kept = kept_constants(plan((load(a), beside), constants=CONSTANTS), keeping(1100))
    assert (kept.holds(load(a)), kept.holds(beside)) == (True, False)


def test_kept_constants_come_at_their_own_pace_and_leave_the_port_alone() -> None:
    _, a, _ = CONSTANTS
    program = plan((load(a),), constants=CONSTANTS)
    kept = instruction_costs(program, keeping(600))
    # 600 bytes: at 16 a cycle 38, but the channel moves 4 a cycle: 150. Latency: 50 of setup.
    assert (kept.cycles[0], kept.latency[0], kept.port[0]) == (150, 50, 0)
    streamed = instruction_costs(program, keeping(599))
    plain = transfer_cost(SPEC, 600, 600, "ddr", "sram")
    assert (streamed.cycles[0], streamed.port[0]) == (plain.channel_cycles, plain.port_cycles)
    fast = replace(keeping(600), dma=replace(SPEC.dma, bandwidth=64_000_000_000))
    assert kept_weights_cost(fast, 16_000_000_000, 600, 600, "sram").channel_cycles == 38


def test_the_cliff_beyond_the_capacity() -> None:
    """As on the Edge TPU: one constant more than fits costs its stream, every time."""
    count, size = 8, 4096
    constants = tuple(
        Binding(f"w{number}", region("ddr", number * size, (size,), DType.U8))
        for number in range(count)
    )
    program = plan(tuple(load(item) for item in constants), constants=constants)
    slow = replace(
        SPEC, ddr=replace(SPEC.ddr, read_bandwidth=500_000_000)
    )  # USB: half a byte a cycle

    def cycles(size_bytes: int) -> int:
        return plan_cycles(program, replace(slow, weight_cache=WeightCache(size_bytes, 10**11)))

    fits, one_less, none = cycles(count * size), cycles(count * size - 1), cycles(1)
    # a kept constant takes 1,024 cycles of the channel, a streamed one 8,192
    assert one_less - fits == 8192 - 1024
    # the first one's latency in ddr is hidden by nothing
    assert none - fits == count * (8192 - 1024) + 50


def test_the_edge_tpus_eight_megabytes() -> None:
    """The shipped spec: layers of 100 KiB are all kept up to 79 of them; the next one crosses USB
    in every inference, and so does each that follows."""
    spec = load_spec(SPECS / "edge_tpu.yaml")
    assert spec.weight_cache is not None
    size = 100 * 1024
    assert spec.weight_cache.size_bytes == 79 * size

    def cycles(count: int) -> int:
        constants = tuple(
            Binding(f"w{number}", region("ddr", 65_536 + number * size, (size,), DType.U8))
            for number in range(count)
        )
        return plan_cycles(plan(tuple(map(load, constants)), constants=constants), spec)

    within, beyond = cycles(79) - cycles(78), cycles(82) - cycles(81)
    streamed = -(-size * spec.clock_hz // spec.ddr.read_bandwidth)
    assert beyond == streamed
    assert within < streamed / 50
    assert cycles(80) - cycles(79) >= streamed


def test_kept_constants_pass_the_cache_by() -> None:
    _, a, _ = CONSTANTS
    program = plan((load(a),), constants=CONSTANTS)
    costs = instruction_costs(program, replace(with_l2(), weight_cache=WeightCache(600, 10**10)))
    assert (costs.hit_bytes, costs.miss_bytes, costs.kept_bytes) == ([0], [0], [600])


def test_what_a_vector_instruction_picks_is_not_looked_up() -> None:
    table, rows = region("ddr", 0, (1000, 64)), region("sram", 512, (4, 64))
    indices = region("sram", 0, (4,), DType.I64)
    types = {
        "x": TensorType(DType.F16, (1000, 64)),
        "i": TensorType(DType.I64, (4,)),
        "y": TensorType(DType.F16, (4, 64)),
    }
    operator = Operator("g", Kind.GATHER, ("x", "i"), ("y",), {"axis": 0})
    gather = Kernel("k", ("x", "i"), ("y",), (operator,), types)
    step = Instruction(Opcode.VECTOR, "vector", "g", (table, indices), (rows,), kernel=0)
    program = plan((step,), (gather,))
    costs = instruction_costs(program, with_l2())
    assert (costs.hit_bytes, costs.miss_bytes) == ([0], [0])
    assert costs.cycles == instruction_costs(program, replace(with_l2(), l2=None)).cycles
