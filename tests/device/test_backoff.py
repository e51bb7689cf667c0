"""THERMAL_BACKOFF: pauses that lower the density of compute, and what they do to the die."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stages.device.die import Die
from stages.device.energy import inference_energy
from stages.device.samples import HeatHistory, Samples
from stages.device.session import Length
from stages.device.simulated import SimulatedDevice
from stages.device.surroundings import Surroundings
from stages.hardware.spec import HardwareSpec, Thermal, ThermalStage, Trip
from stages.plan.instructions import Instruction, Opcode, Plan
from stages.plan.timing import plan_cycles
from tests.device.packages import package_of
from tests.device.plans import conv_relu_plan
from tests.device.specs import tiny_spec

PAUSE_CYCLES = 4_000


def hot_spec(trips: tuple[Trip, ...] = (Trip(85.0, 2, 2.0),)) -> HardwareSpec:
    """A die that warms within milliseconds, and multiplications that cost it dearly."""
    stages = (ThermalStage("die", 8_000, 1), ThermalStage("package", 4_000, 10))
    thermal = Thermal(stages, 25.0, 1_000_000, trips, 400.0)
    power = replace(tiny_spec().power, mac_femtojoules=dict.fromkeys(
        tiny_spec().power.mac_femtojoules, 800_000))  # fmt: skip
    return replace(tiny_spec(jitter=()), thermal=thermal, power=power)


def rested(plan: Plan) -> Plan:
    """The plan with a pause of the tensor core before its product."""
    pause = Instruction(Opcode.THERMAL_BACKOFF, "tensor_core", cycles=PAUSE_CYCLES)
    place = next(
        index
        for index, instruction in enumerate(plan.instructions)
        if instruction.opcode is Opcode.TENSOR_CORE_CONV
    )
    instructions = (*plan.instructions[:place], pause, *plan.instructions[place:])
    buffers = tuple(replace(buffer, stop=len(instructions)) for buffer in plan.buffers)
    return replace(plan, instructions=instructions, buffers=buffers)


def ran(plan: Plan, spec: HardwareSpec, ambient_celsius: float) -> tuple[Samples, HeatHistory]:
    device = SimulatedDevice(spec)
    weight = np.zeros((8, 8, 3, 3), dtype=np.float16)
    device.load(package_of(plan, {"w": weight}, spec), Path())
    length = Length(duration_ns=500_000_000)
    samples = device.soak(length, 0, Surroundings(ambient_celsius=ambient_celsius))
    assert samples.heat is not None
    return samples, samples.heat


def test_a_pause_takes_its_cycles_and_no_energy() -> None:
    spec, plan = hot_spec(), conv_relu_plan()
    assert plan_cycles(rested(plan), spec) == plan_cycles(plan, spec) + PAUSE_CYCLES
    both = [inference_energy(item, spec.power).femtojoules for item in (plan, rested(plan))]
    assert both[0] == both[1]


def test_a_pause_isnt_longer_at_a_slower_clock() -> None:
    # in a chamber over the trip every run is at half the clock: compute takes longer, the
    # pause doesn't
    spec, plan = hot_spec(), conv_relu_plan()
    times = {}
    for name, item in {"busy": plan, "rested": rested(plan)}.items():
        device = SimulatedDevice(spec)
        weight = np.zeros((8, 8, 3, 3), dtype=np.float16)
        device.load(package_of(item, {"w": weight}, spec), Path())
        times[name] = int(device.soak(Length(1), 0, Surroundings(90.0)).latencies_ns[0])
    assert times["rested"] - times["busy"] == PAUSE_CYCLES


def test_pauses_spread_the_energy_and_the_die_stays_cooler() -> None:
    # without trips: the same energy over a longer time, at the temperature of its mean power
    spec, plan = hot_spec(trips=()), conv_relu_plan()
    energy = inference_energy(plan, spec.power).femtojoules
    settled = []
    for item in (plan, rested(plan)):
        samples, heat = ran(item, spec, 25.0)
        # a cycle is a nanosecond; 12 K/W from the die to the air
        watts = energy / 1e6 / plan_cycles(item, spec)
        celsius = 25.0
        for _ in range(200):
            celsius = 25 + 12 * (watts + 0.1 + 0.05 * 2 ** ((celsius - 25) / 25))
        assert heat.junction_celsius[-1] == pytest.approx(celsius, abs=0.01)
        settled.append(celsius)
        assert set(samples.latencies_ns.tolist()) == {plan_cycles(item, spec)}
    assert settled[1] < settled[0] - 20


def test_pauses_avoid_a_trip_and_its_tail() -> None:
    spec, plan = hot_spec(), conv_relu_plan()
    busy, hot = ran(plan, spec, 25.0)
    calm, cool = ran(rested(plan), spec, 25.0)
    assert hot.clock_dividers.max() == 2
    assert cool.clock_dividers.max() == 1
    assert cool.junction_celsius.max() < 85.0 <= hot.junction_celsius.max()
    ordered = np.sort(busy.latencies_ns)
    assert ordered[ordered.size * 99 // 100] > 1.01 * ordered[ordered.size // 100]
    assert np.ptp(calm.latencies_ns) == 0


def test_the_die_cools_while_nothing_is_computed() -> None:
    die = Die.placed(hot_spec(), Surroundings(ambient_celsius=25.0))
    start = die.junction_celsius
    die.advance(10.0, 5_000_000)
    warm = die.junction_celsius
    die.advance(0.0, 5_000_000)
    assert start < die.junction_celsius < warm
