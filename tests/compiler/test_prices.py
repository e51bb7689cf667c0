"""What the compiler makes of devices with caches, channels, lanes, blocks and launches: the plan
takes what the device says, and a type that a device lacks is paid for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stages.compiler.pipeline import compile_graph
from stages.compiler.quantization import Quantization, Range
from stages.hardware.cost import launch_cycles
from stages.hardware.spec import Cache, HardwareSpec, WeightCache
from stages.plan.costs import instruction_costs
from stages.plan.instructions import Opcode, Plan
from stages.plan.timing import plan_cycles
from stages.recipe.kinds import Kind
from stages.tensors import DType
from tests.compiler.judged import case_of_graph, compile_and_judge
from tests.compiler.passing import draft_of
from tests.compiler.specs import hardware

CONV = "{dilations=[1,1], group=1, pads=[1,1,1,1], strides=[1,1]}"
TWO_CONVS = f"""
    input %x : f32[1,16,12,12]
    const %w : f32[16,16,3,3]
    const %v : f32[16,16,3,3]
    %a : f32[1,16,12,12] = conv(%x, %w) {CONV} # first
    %b : f32[1,16,12,12] = conv(%a, %v) {CONV} # second
    %c : f32[1,48,12,12] = concat(%a, %b, %a) {{axis=1}} # both
    output %c
    """
TINY = hardware("npu_tiny")
GRAPH = draft_of(TWO_CONVS).graph
CONSTANTS = draft_of(TWO_CONVS).constants
L2 = Cache(16 * 1024, 64, 4, 10**10, 10**10, 40, 40)
DEVICES = {
    "l2": replace(TINY, l2=L2),
    "weight cache": replace(TINY, weight_cache=WeightCache(6000, 10**10)),
    "both": replace(TINY, l2=L2, weight_cache=WeightCache(6000, 10**10)),
    "channels": replace(
        TINY, ddr=replace(TINY.ddr, channels=4, interleave_bytes=64, bank_interleave_bytes=256)
    ),
    "lanes": replace(
        TINY,
        tensor_core=replace(TINY.tensor_core, lanes=4, lane_alignment_bytes=64, misaligned_lanes=2),
    ),
    "launches": replace(
        TINY, driver=replace(TINY.driver, launch_ns={"tensor_core": 5, "dma": 900, "host": 7})
    ),
    "efficiencies": replace(
        TINY,
        tensor_core=replace(TINY.tensor_core, efficiency_permille={DType.F16: 500}),
        vector=replace(TINY.vector, efficiency_permille=500),
        ddr=replace(TINY.ddr, read_efficiency_permille=700, write_efficiency_permille=600),
    ),
}


def plan_of(spec: HardwareSpec, quantization: Quantization | None = None) -> Plan:
    return compile_graph(GRAPH, CONSTANTS, spec, quantization).plan


@pytest.mark.parametrize("name", DEVICES)
def test_the_estimate_is_the_devices(name: str) -> None:
    feeds = {"x": np.random.default_rng(1).standard_normal((1, 16, 12, 12)).astype(np.float32)}
    compiled = compile_and_judge(case_of_graph(GRAPH, CONSTANTS, feeds), DEVICES[name])
    if name != "channels":  # whose compiler keeps to dense transfers here
        priced, plain = (instruction_costs(compiled.plan, spec) for spec in (DEVICES[name], TINY))
        assert (priced.cycles, priced.latency, priced.launch) != (
            plain.cycles,
            plain.latency,
            plain.launch,
        )


def kinds_of(plan: Plan, kinds: frozenset[Kind]) -> list[int]:
    """The instructions whose kernel runs one of these kinds."""
    return [
        number
        for number, step in enumerate(plan.instructions)
        if step.kernel >= 0
        and not kinds.isdisjoint(op.kind for op in plan.kernels[step.kernel].operators)
    ]


def test_a_type_that_the_device_lacks_costs_its_conversions() -> None:
    core = TINY.tensor_core
    integers = {dtype: rate for dtype, rate in core.macs_per_cycle.items() if not dtype.is_float}
    lacking = replace(TINY, tensor_core=replace(core, macs_per_cycle=integers))
    ranges = Quantization({name: Range(-4.0, 4.0) for name in ("x", "a", "b", "c")}, frozenset())
    in_floats, in_integers = plan_of(TINY), plan_of(lacking, ranges)
    assert kinds_of(in_floats, frozenset({Kind.QUANTIZE})) == []
    converting = kinds_of(in_integers, frozenset({Kind.QUANTIZE, Kind.DEQUANTIZE}))
    alone = [
        number
        for number in converting
        if in_integers.instructions[number].opcode in (Opcode.VECTOR, Opcode.ACTIVATION)
    ]
    costs = instruction_costs(in_integers, lacking)
    assert alone
    assert all(costs.cycles[number] > lacking.vector.startup_cycles for number in alone)
    # without ranges there is no integer to multiply: it runs on the host, at the host's price
    on_host = plan_of(lacking)
    calls = [
        number
        for number, step in enumerate(on_host.instructions)
        if step.opcode is Opcode.HOST_CALL
    ]
    sync = lacking.host.sync_ns + lacking.host.call_ns
    prices = instruction_costs(on_host, lacking).cycles
    assert calls
    assert all(prices[number] * 2 > sync for number in calls)  # two nanoseconds a cycle


def test_moves_of_their_own_pay_the_launch_of_transfers() -> None:
    launching = DEVICES["launches"]
    plan = plan_of(launching)
    costs = instruction_costs(plan, launching)
    launched = [
        step
        for step, launch in zip(plan.instructions, costs.launch, strict=True)
        if launch == launch_cycles(launching, "dma")
    ]
    assert [step.group for step in launched] == ["both"]
    assert launched[0].opcode is Opcode.DMA_COPY
    # where the launch of transfers is free, plans don't say so
    free = plan_of(TINY)
    assert not any(step.launch for step in free.instructions if step.opcode is Opcode.DMA_COPY)


def test_tiles_are_chosen_with_the_devices_prices() -> None:
    """A device whose memory punishes columns gets other tiles, or pays for the same ones."""
    text = """
        input %x : f32[1024,512]
        const %w : f32[512,512]
        %y : f32[1024,512] = matmul(%x, %w) # product
        output %y
        """
    draft = draft_of(text)
    punishing = replace(TINY, ddr=replace(TINY.ddr, channels=8, interleave_bytes=64))
    chosen = compile_graph(draft.graph, draft.constants, punishing).plan
    as_before = compile_graph(draft.graph, draft.constants, TINY).plan
    assert plan_cycles(chosen, punishing) <= plan_cycles(as_before, punishing)
