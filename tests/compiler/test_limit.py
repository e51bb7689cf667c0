"""The device limit: by hand for one product, and never above a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stages.compiler.draft import Draft, first_draft
from stages.compiler.limit import DeviceLimit, compulsory_bytes, device_limit
from stages.compiler.pipeline import compile_graph
from stages.hardware.cost import (
    compulsory_cycles,
    contraction_cycles,
    launch_cycles,
    nanoseconds_to_cycles,
)
from stages.hardware.spec import HardwareSpec
from stages.plan.costs import instruction_costs
from stages.plan.instructions import Opcode, Plan
from stages.plan.timing import plan_cycles
from stages.recipe.onnx_import import import_model
from stages.tensors import DType
from tests.compiler.model_builder import SeededChoices
from tests.compiler.passing import draft_of
from tests.compiler.random_models import random_model
from tests.compiler.specs import hardware

SPEC = hardware("npu_tiny")
PRODUCT = """
    input %x : f16[16,32]
    const %w : f16[32,16]
    %y : f16[16,16] = matmul(%x, %w)
    output %y
    """
TABLE = """
    input %i : i64[3]
    const %w : f16[100,16]
    group y on dma
      %y : f16[3,16] = gather(%w, %i) {axis=0}
    output %y
    """
LAST = """
    input %b : f16[2,64]
    const %w : f16[64,4096]
    %c : f16[2,4096] = matmul(%b, %w)
    output %c
    """
HEAVY_END = """
    input %x : f16[1024,64]
    input %y : f16[64,1024]
    input %z : f16[1024,64]
    const %w : f16[64,4096]
    %a : f16[1024,1024] = matmul(%x, %y)
    %s : f16[2,1024] = slice(%a) {starts=[0,0], steps=[1,1], stops=[2,1024]}
    %b : f16[2,64] = matmul(%s, %z)
    %c : f16[2,4096] = matmul(%b, %w)
    output %c
    """


def limit_of(draft: Draft, spec: HardwareSpec) -> tuple[DeviceLimit, Plan]:
    compiled = compile_graph(draft.graph, draft.constants, spec)
    limit = device_limit(Draft(compiled.recipe, compiled.constants), compiled.plan, spec)
    return limit, compiled.plan


def busy(plan: Plan, spec: HardwareSpec, queue: str) -> int:
    """Cycles of a queue's work and launches in a plan."""
    costs = instruction_costs(plan, spec)
    return sum(
        costs.cycles[number] + costs.launch[number]
        for number, instruction in enumerate(plan.instructions)
        if instruction.queue == queue
        and instruction.opcode not in (Opcode.SIGNAL_EVENT, Opcode.WAIT_EVENT)
    )


def test_one_product_by_hand() -> None:
    limit, _ = limit_of(draft_of(PRODUCT), SPEC)
    once = contraction_cycles(SPEC.tensor_core, 16, 16, 32, 1, 1, DType.F16)
    assert limit.engine_cycles["tensor_core"] == once + launch_cycles(SPEC, "tensor_core")
    assert limit.compulsory_bytes == 2 * (16 * 32 + 32 * 16 + 16 * 16)
    assert limit.memory_cycles == compulsory_cycles(SPEC, limit.compulsory_bytes)
    work = max(limit.memory_cycles, limit.engine_cycles["tensor_core"])
    assert limit.cycles == nanoseconds_to_cycles(SPEC, SPEC.driver.submit_ns) + work


def test_of_a_table_only_the_gathered_rows_count() -> None:
    assert compulsory_bytes(draft_of(TABLE).recipe) == 3 * 8 + 2 * 3 * 16 + 2 * 3 * 16


@pytest.mark.parametrize("name", ["npu_tiny/16K", "rk3588_npu", "nvidia_t4"])
def test_no_plan_is_below_it(name: str) -> None:
    spec = hardware(name)
    for seed in range(6):
        made = random_model(SeededChoices(np.random.default_rng(seed)), 6)
        graph, constants = import_model(made.model)
        limit, plan = limit_of(first_draft(graph, constants, spec), spec)
        assert 0 < limit.cycles <= limit.buffered_cycles <= plan_cycles(plan, spec)
        for engine in ("tensor_core", "vector", "host"):
            assert limit.engine_cycles[engine] <= busy(plan, spec, engine)


def test_weights_that_come_last_can_t_come_early() -> None:
    """A long product without weights, then one whose weights are many times the SRAM."""
    spec = hardware("npu_tiny/16K")
    slow = replace(spec.ddr, read_bandwidth=5 * 10**8, write_bandwidth=5 * 10**8)
    spec = replace(spec, ddr=slow)
    limit, plan = limit_of(draft_of(HEAVY_END), spec)
    last, _ = limit_of(draft_of(LAST), spec)
    before = limit.engine_cycles["tensor_core"] - last.engine_cycles["tensor_core"]
    late = compulsory_cycles(spec, 2 * 64 * 4096 - spec.sram.size_bytes)
    assert limit.buffered_cycles == limit.submit_cycles + before + late
    assert limit.cycles < limit.buffered_cycles <= plan_cycles(plan, spec)
