"""The energy of a plan, instruction by instruction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stages.device.energy import Activity, activity_of, inference_energy
from stages.hardware.spec import WeightCache
from stages.plan.costs import instruction_costs
from stages.plan.instructions import Instruction, Opcode
from stages.tensors import DType
from tests.device.plans import conv_relu_plan, copy
from tests.device.plans import plan as plan_of
from tests.device.specs import tiny_spec
from tests.plan.large_plan import LargePlan
from tests.plan.test_ddr_traffic import line, slot, with_l2

POWER = tiny_spec().power  # 1,000 fJ a MAC in f16; vector 500, sram 300, dram 20,000 fJ/B


def test_energy_of_a_plan_is_counted_by_hand() -> None:
    # conv of 8x8x3x3 on 6x6: 36 x 8 x 72 = 20,736 MAC at 1,000 fJ; x and y are 576 bytes each, w
    # 1,152. Transfers touch ddr once each (576 + 576 + 1,152) and sram likewise; the core reads
    # and writes sram for the same bytes: 4,608. No vector work.
    activity = activity_of(conv_relu_plan())
    assert activity == Activity({DType.F16: 20_736}, 0, 4_608, 2_304)
    assert activity.femtojoules(POWER) == 20_736 * 1_000 + 4_608 * 300 + 2_304 * 20_000


def test_each_instruction_has_its_own() -> None:
    energy = inference_energy(conv_relu_plan(), POWER)
    # the copies of w (1,152 B) and x (576 B) in, the product, and y (576 B) out; events none
    copied = [size * 20_300 for size in (1_152, 576, 576)]
    product = 20_736 * 1_000 + 2_304 * 300
    each = (energy.core_femtojoules + energy.dram_femtojoules).tolist()
    assert each == [copied[0], 0, copied[1], 0, 0, 0, product, 0, 0, copied[2]]
    assert energy.by_opcode() == {
        Opcode.DMA_COPY: sum(copied),
        Opcode.SIGNAL_EVENT: 0,
        Opcode.WAIT_EVENT: 0,
        Opcode.TENSOR_CORE_CONV: product,
    }


def test_opcodes_and_instructions_sum_to_the_inference() -> None:
    for plan in (conv_relu_plan(), LargePlan(3, 4).build()):
        energy = inference_energy(plan, POWER)
        assert energy.core_femtojoules.dtype == np.int64
        assert sum(energy.by_opcode().values()) == energy.femtojoules
        assert energy.femtojoules == activity_of(plan).femtojoules(POWER)
        assert energy.femtojoules_at(1.0) == energy.femtojoules


def test_the_chips_energy_falls_with_the_square_of_the_voltage_and_the_drams_doesnt() -> None:
    energy = inference_energy(conv_relu_plan(), POWER)
    core, dram = 20_736 * 1_000 + 4_608 * 300, 2_304 * 20_000
    assert energy.femtojoules_at(0.5) == core / 4 + dram


def test_a_backoff_costs_no_energy_of_its_own() -> None:
    plan = conv_relu_plan()
    pause = Instruction(Opcode.THERMAL_BACKOFF, "tensor_core", cycles=1_000)
    rested = replace(plan, instructions=(*plan.instructions, pause))
    before, after = (inference_energy(item, POWER) for item in (plan, rested))
    assert after.femtojoules == before.femtojoules
    assert after.by_opcode()[Opcode.THERMAL_BACKOFF] == 0


def test_what_stays_on_the_chip_costs_no_dram_energy() -> None:
    # w, 1,152 bytes, stays in a cache of weights from one inference to the next: the chip's own
    # energy twice, once out of that cache and once into the sram
    plan = conv_relu_plan()
    spec = replace(tiny_spec(), weight_cache=WeightCache(1_152, 10**10))
    energy = inference_energy(plan, POWER, instruction_costs(plan, spec))
    assert (int(energy.core_femtojoules[0]), int(energy.dram_femtojoules[0])) == (
        1_152 * 2 * 300,
        0,
    )
    # x and y cross to the dram as before
    assert energy.dram_femtojoules.sum() == (576 + 576) * 20_000
    one_byte_less = replace(spec, weight_cache=WeightCache(1_151, 10**10))
    streamed = inference_energy(plan, POWER, instruction_costs(plan, one_byte_less))
    assert streamed.femtojoules == inference_energy(plan, POWER).femtojoules


def test_behind_a_cache_the_lines_that_cross_cost_dram_energy() -> None:
    spec = with_l2()
    # four lines that the inference before has read already; then four that never fit, and are
    # changed, so that each puts one out
    found = plan_of((copy(line(0, 4), slot(4)),))
    energy = inference_energy(found, POWER, instruction_costs(found, spec))
    assert energy.dram_femtojoules.tolist() == [0]
    assert energy.core_femtojoules.tolist() == [(256 + 256) * 300]
    written = plan_of(tuple(copy(slot(), line(4 * number)) for number in range(3)))
    energy = inference_energy(written, POWER, instruction_costs(written, spec))
    assert energy.dram_femtojoules.tolist() == [64 * 20_000] * 3
    assert energy.core_femtojoules.tolist() == [(64 + 64) * 300] * 3
