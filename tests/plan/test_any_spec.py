"""Whatever a device is like, nothing that an instruction does is free, endless or not a number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stages.hardware.cost import peak_cycles
from stages.hardware.spec import (
    Cache,
    Dataflow,
    HardwareSpec,
    Host,
    Memory,
    SyncMode,
    TensorCore,
    VectorUnit,
    WeightCache,
)
from stages.plan.costs import Role, instruction_costs
from stages.plan.instructions import Contraction, Instruction, Opcode, Plan, Region
from stages.plan.timing import plan_cycles, run_costs
from stages.plan.weathered import Weather
from stages.tensors import DType
from tests.device.plans import copy, plan
from tests.plan.large_plan import large_plan
from tests.plan.sample_plan import legal_plan, small_spec
from tests.plan.test_ddr_traffic import boxes

PERMILLE = st.integers(1, 1000)
BANDWIDTH = st.integers(1, 10**13)
LATENCY = st.integers(0, 10**6)
POWERS = st.integers(0, 12).map(lambda exponent: 1 << exponent)


@st.composite
def cores(draw: st.DrawFn) -> TensorCore:
    instances = draw(st.integers(1, 9))
    count = st.integers(1, 300)
    lanes = draw(st.integers(1, 8))
    return replace(
        small_spec().tensor_core,
        dataflow=draw(st.sampled_from(Dataflow)),
        rows=draw(count),
        cols=draw(count),
        depth=draw(st.integers(1, 40)),
        instances=instances,
        array_dtype=DType.F16,
        macs_per_cycle={dtype: draw(st.integers(instances, 10**6)) for dtype in DType},
        depthwise_macs_per_cycle=draw(st.integers(0, 100)),
        fill_cycles=draw(st.integers(0, 1000)),
        weight_load_cycles=draw(st.integers(0, 40)),
        efficiency_permille={DType.F16: draw(PERMILLE)},
        lanes=lanes,
        lane_alignment_bytes=draw(POWERS),
        misaligned_lanes=draw(st.integers(1, lanes)),
        blocks_per_instance=draw(st.integers(1, 4)),
        block_shapes=tuple(draw(st.lists(st.tuples(count, count), max_size=3))),
        max_split_k=draw(st.integers(1, 20)),
        operand_feed_bytes=draw(st.integers(0, 10**4)),
    )


@st.composite
def memories(draw: st.DrawFn, name: str) -> Memory:
    burst = draw(POWERS)
    return replace(
        small_spec().ddr,
        name=name,
        read_bandwidth=draw(BANDWIDTH),
        write_bandwidth=draw(BANDWIDTH),
        read_latency_ns=draw(LATENCY),
        write_latency_ns=draw(LATENCY),
        burst_bytes=burst,
        banks=draw(st.integers(1, 20)),
        channels=draw(st.integers(1, 12)),
        interleave_bytes=burst * draw(POWERS),
        bank_interleave_bytes=draw(st.just(0) | POWERS.map(lambda times: burst * times)),
        read_efficiency_permille=draw(PERMILLE),
        write_efficiency_permille=draw(PERMILLE),
    )


@st.composite
def caches(draw: st.DrawFn) -> Cache:
    line, ways = draw(st.sampled_from([32, 64, 128])), draw(st.integers(1, 8))
    return Cache(
        size_bytes=line * ways * draw(st.integers(1, 64)),
        line_bytes=line,
        ways=ways,
        read_bandwidth=draw(BANDWIDTH),
        write_bandwidth=draw(BANDWIDTH),
        read_latency_ns=draw(LATENCY),
        write_latency_ns=draw(LATENCY),
    )


@st.composite
def specs(draw: st.DrawFn) -> HardwareSpec:
    base = small_spec()
    clock = draw(st.integers(1, 5 * 10**9))
    driver = replace(
        base.driver,
        sync_mode=draw(st.sampled_from(SyncMode)),
        launch_ns={name: draw(LATENCY) for name in ("tensor_core", "vector", "dma", "host")},
    )
    return replace(
        base,
        clock_hz=clock,
        tensor_core=draw(cores()),
        vector=VectorUnit(
            draw(st.integers(1, 4096)), draw(st.integers(0, 99)), draw(st.integers(1, 9)), {}
        ),
        dma=replace(base.dma, bandwidth=draw(BANDWIDTH), setup_ns=draw(LATENCY)),
        sram=draw(memories("sram")),
        ddr=draw(memories("ddr")),
        host=Host(draw(BANDWIDTH), draw(BANDWIDTH), draw(BANDWIDTH), draw(LATENCY), draw(LATENCY)),
        driver=driver,
        l2=draw(st.none() | caches()),
        weight_cache=draw(st.none() | st.builds(WeightCache, st.integers(1, 10**5), BANDWIDTH)),
    )


PLANS = st.sampled_from([legal_plan(), large_plan(2, 3)])


@given(PLANS, specs())
def test_whatever_is_done_costs_a_whole_number_of_cycles(program: Plan, spec: HardwareSpec) -> None:
    costs = instruction_costs(program, spec)
    for role, cycles, launch, latency, port in zip(
        costs.roles, costs.cycles, costs.launch, costs.latency, costs.port, strict=True
    ):
        assert all(type(number) is int for number in (cycles, launch, latency, port))
        assert (cycles >= 1) == (role not in (Role.SIGNAL, Role.WAIT))
        assert min(launch, latency, port) >= 0
    macs = {DType.F16: sum(i.contraction.macs for i in program.instructions if i.contraction)}
    total = plan_cycles(program, spec)
    assert total >= max(1, peak_cycles(spec.tensor_core, macs))
    assert total >= max(costs.cycles)


@given(PLANS, specs())
def test_one_clock_for_calm_and_weathered_runs(program: Plan, spec: HardwareSpec) -> None:
    costs = instruction_costs(program, spec)
    calm = run_costs(costs)
    many = run_costs(costs, Weather(2))
    assert many.total_cycles.tolist() == [plan_cycles(program, spec)] * 2
    assert np.array_equal(many.starts, calm.starts)
    assert np.array_equal(many.ends, calm.ends)


@given(
    st.lists(st.tuples(boxes(), st.booleans()), min_size=1, max_size=6),
    st.tuples(*[st.integers(0, 10**5)] * 4, st.integers(1, 49), st.sampled_from(DType)),
    specs(),
)
def test_any_instruction_costs_something(
    accesses: list[tuple[Region, bool]],
    sizes: tuple[int, int, int, int, int, DType],
    spec: HardwareSpec,
) -> None:
    steps = []
    for box, write in accesses:
        tile = replace(box, memory="sram")
        steps.append(copy(tile, box) if write else copy(box, tile))
    core = Instruction(
        Opcode.TENSOR_CORE_GEMM,
        "tensor_core",
        "g",
        (accesses[0][0],),
        contraction=Contraction(*sizes),
    )
    costs = instruction_costs(plan((*steps, core)), spec)
    assert min(costs.cycles) >= 1
    assert plan_cycles(plan((*steps, core)), spec) >= max(costs.cycles)
