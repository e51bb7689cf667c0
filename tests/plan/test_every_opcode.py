"""Nothing that an opcode does is free or not a number, on any shipped device: time and energy."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import isfinite

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.device.energy import inference_energy
from stages.device.latencies import weathered_cycles
from stages.device.weather import Climate
from stages.hardware.cost import cycles_to_nanoseconds
from stages.hardware.load import load_spec, spec_names
from stages.hardware.spec import HardwareSpec, SyncMode
from stages.plan.costs import Role, instruction_costs
from stages.plan.instructions import Contraction, Instruction, Kernel, Opcode, Region
from stages.plan.timing import plan_cycles
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType
from tests.device.plans import copy, plan, region, signal, wait
from tests.hardware.specs import SPECS

NAMES = spec_names(SPECS)
EXTENT = st.integers(0, 70)
SHAPE = st.lists(EXTENT, max_size=3).map(tuple)


@cache
def shipped(name: str) -> HardwareSpec:
    return load_spec(SPECS / f"{name}.yaml")


SPEC = st.builds(
    lambda name, mode, divider: replace(
        shipped(name),
        driver=replace(shipped(name).driver, sync_mode=mode, submit_ns=0, launch_ns={}),
        clock_hz=shipped(name).clock_hz // divider,
    ),
    st.sampled_from(NAMES),
    st.sampled_from(SyncMode),
    st.sampled_from([1, 7, 1000]),
)


@st.composite
def kernels(draw: st.DrawFn, kinds: st.SearchStrategy[Kind]) -> tuple[Kernel, Region, Region]:
    """A chain of operators of one operand, on regions of any shape and type, empty ones too."""
    chain = draw(st.lists(kinds, min_size=1, max_size=4))
    dtype, result = draw(st.sampled_from(DType)), draw(st.sampled_from(DType))
    shape, made = draw(SHAPE), draw(SHAPE)
    values = [f"v{place}" for place in range(len(chain) + 1)]
    operators = tuple(
        Operator(f"o{place}", kind, (values[place],), (values[place + 1],))
        for place, kind in enumerate(chain)
    )
    types = {value: TensorType(result, made) for value in values} | {
        values[0]: TensorType(dtype, shape)
    }
    memory = draw(st.sampled_from(["sram", "ddr"]))
    kernel = Kernel("k", (values[0],), (values[-1],), operators, types)
    return kernel, region(memory, 0, shape, dtype), region("sram", 0, made, result)


@st.composite
def rows(draw: st.DrawFn, opcode: Opcode, spec: HardwareSpec) -> tuple[Instruction, Kernel | None]:
    match opcode:
        case Opcode.DMA_COPY:
            shape, dtype = draw(SHAPE), draw(st.sampled_from(DType))
            strides = tuple(draw(st.integers(0, 3000)) for _ in shape)
            ends = [draw(st.sampled_from(["sram", "ddr"])) for _ in range(2)]
            source = region(ends[0], draw(st.integers(0, 999)), shape, dtype, strides=strides)
            return copy(source, region(ends[1], 0, shape, dtype)), None
        case Opcode.TENSOR_CORE_GEMM | Opcode.TENSOR_CORE_CONV:
            sizes = [draw(st.integers(0, 10**4)) for _ in range(4)]
            dtype = draw(st.sampled_from(sorted(spec.tensor_core.macs_per_cycle)))
            work = Contraction(*sizes, draw(st.integers(1, 49)), dtype)
            return Instruction(opcode, "tensor_core", "g", contraction=work), None
        case Opcode.VECTOR | Opcode.ACTIVATION:
            kernel, read, written = draw(kernels(st.sampled_from(Kind)))
            return Instruction(opcode, "vector", "g", (read,), (written,), kernel=0), kernel
        case Opcode.HOST_CALL:
            plain = st.sampled_from([Kind.RELU, Kind.EXP, Kind.CAST, Kind.SOFTMAX, Kind.IDENTITY])
            kernel, read, written = draw(kernels(plain))
            return Instruction(opcode, "host", "g", (read,), (written,), kernel=0), kernel
        case Opcode.THERMAL_BACKOFF:
            return Instruction(opcode, "vector", cycles=draw(st.integers(1, 10**6))), None
        case Opcode.SIGNAL_EVENT:
            return signal("vector", 0), None
        case _:
            return wait("tensor_core", 0), None


@pytest.mark.parametrize("opcode", Opcode)
@given(data=st.data(), spec=SPEC)
def test_an_opcode_costs_time_and_energy_that_are_numbers(
    opcode: Opcode, data: st.DataObject, spec: HardwareSpec
) -> None:
    row, kernel = data.draw(rows(opcode, spec))
    before = (signal("vector", 0),) if opcode is Opcode.WAIT_EVENT else ()
    program = plan((*before, row), () if kernel is None else (kernel,))
    costs = instruction_costs(program, spec)
    columns = (costs.cycles, costs.launch, costs.latency, costs.port, costs.hit_bytes)
    for column in (*columns, costs.miss_bytes, costs.kept_bytes, costs.crossed_bytes):
        assert all(type(number) is int and number >= 0 for number in column)
    free = costs.roles[-1] in (Role.SIGNAL, Role.WAIT)
    assert (costs.cycles[-1] == 0) if free else (costs.cycles[-1] >= 1)
    total = plan_cycles(program, spec)
    assert total >= costs.cycles[-1]
    assert cycles_to_nanoseconds(spec, total) >= (0 if free else 1)
    energy = inference_energy(program, spec.power)
    assert min(energy.instruction_femtojoules.tolist()) >= 0
    assert isfinite(energy.femtojoules_at(0.7))
    if row.contraction is not None and row.contraction.macs:
        assert energy.femtojoules > 0


@pytest.mark.parametrize("name", NAMES)
def test_weather_makes_no_run_free_or_endless(name: str) -> None:
    spec = shipped(name)
    tile = region("sram", 0, (64, 64))
    work = Contraction(64, 64, 64, 1, 1, sorted(spec.tensor_core.macs_per_cycle)[0])
    core = Instruction(Opcode.TENSOR_CORE_GEMM, "tensor_core", "g", (tile,), contraction=work)
    program = plan((copy(region("ddr", 0, (64, 64)), tile), core))
    calm = plan_cycles(program, spec)
    cycles = weathered_cycles(instruction_costs(program, spec), Climate(spec, 1), 500, Fraction(1))
    assert cycles.dtype == np.int64
    assert (cycles >= calm).all()
    assert cycles.max() < 1_000 * max(calm, spec.clock_hz // 1_000)
