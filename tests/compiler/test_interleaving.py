"""What `--cascades` allows across layers: nothing, loads that run ahead, or stripes as well."""

from __future__ import annotations

from functools import cache

import pytest

from models.zoo.ranges import fused_quantization
from stages.compiler.interleaving import Interleaving
from stages.compiler.pipeline import Compiled, compile_graph
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import Opcode
from stages.plan.timing import plan_cycles, simulate
from tests.compiler.cascade.chain_models import inverted_residuals
from tests.compiler.judged import judge_plan, judge_same_bits
from tests.compiler.specs import hardware, with_sram

BLOCKS = inverted_residuals(64)
CHIPS = ("rk3588_npu", "ethos_u65_512", "nvidia_t4")
EVENTS = (Opcode.WAIT_EVENT, Opcode.SIGNAL_EVENT)


@cache
def compiled(name: str, option: Interleaving) -> tuple[Compiled, HardwareSpec]:
    spec = hardware(name)
    if spec.sram.size_bytes > 1 << 20 or name == "rk3588_npu":
        spec = with_sram(spec, 48 * 1024)
    ranges = fused_quantization(BLOCKS.graph, BLOCKS.constants, spec)
    made = compile_graph(BLOCKS.graph, BLOCKS.constants, spec, ranges, interleaving=option)
    return made, spec


def early(made: Compiled, spec: HardwareSpec) -> int:
    """Instructions that start before every instruction of each earlier group has ended."""
    timing = simulate(made.plan, spec)
    rows = [
        (item.group, int(start), int(end))
        for item, start, end in zip(made.plan.instructions, timing.starts, timing.ends, strict=True)
        if item.opcode not in EVENTS
    ]
    place = {group.name: number for number, group in enumerate(made.recipe.groups)}
    ends: dict[int, int] = {}
    for group, _, end in rows:
        ends[place[group]] = max(ends.get(place[group], 0), end)
    until = {number: max((ends[n] for n in ends if n < number), default=0) for number in ends}
    return sum(start < until[place[group]] for group, start, _ in rows)


@pytest.mark.parametrize("name", CHIPS)
def test_layer_by_layer_nothing_starts_before_the_layer_before_has_ended(name: str) -> None:
    made, spec = compiled(name, Interleaving.NOTHING)
    judge_plan(made, spec)
    assert len(made.recipe.groups) > 5
    assert early(made, spec) == 0


@pytest.mark.parametrize("name", CHIPS)
def test_each_step_of_the_ladder_is_as_fast_as_the_one_before(name: str) -> None:
    found = [compiled(name, option) for option in Interleaving]
    cycles = [plan_cycles(made.plan, spec) for made, spec in found]
    assert cycles == sorted(cycles, reverse=True)
    assert early(*found[1]) > 0
    assert cycles[1] < cycles[0]


def test_layer_by_layer_computes_the_same() -> None:
    one, spec = compiled("rk3588_npu", Interleaving.NOTHING)
    other, _ = compiled("rk3588_npu", Interleaving.LOADS)
    judge_same_bits(one, other, BLOCKS.feeds, spec)
