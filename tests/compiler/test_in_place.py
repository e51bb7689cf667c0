"""Residents in place: a result where an operand lay that dies, judged by rules and numbers."""

from __future__ import annotations

import numpy as np
import pytest

from stages.compiler.memory import assign
from stages.compiler.pipeline import Compiled
from stages.evaluation.package_facts import memory_facts
from stages.plan.instructions import SRAM, Instruction, Opcode
from stages.plan.timing import plan_cycles
from tests.compiler.judged import case_of, compile_and_judge
from tests.compiler.specs import hardware
from tests.recipe.onnx_models import parse

CHAIN = """
chain (float[1,64,64] x, float[64,64] w) => (float[1,64,64] y) {{
    a = MatMul (x, w)
    b = Softmax <axis = -1> (a)
    c = MatMul (b, w)
    d = {last}
    y = MatMul (c, d)
}}
"""
"""`d` is made by the last reader of `b`, which two read, so that it is a group of its own."""


def compiled(last: str, name: str) -> Compiled:
    random = np.random.default_rng(5)
    feeds = {
        "x": random.standard_normal((1, 64, 64)).astype(np.float32),
        "w": (random.standard_normal((64, 64)) / 8).astype(np.float32),
    }
    return compile_and_judge(case_of(parse(CHAIN.format(last=last)), feeds), hardware(name))


def in_place(found: Compiled) -> list[Instruction]:
    """Vector instructions that write over what they read, accumulators apart."""
    return [
        step
        for step in found.plan.instructions
        if step.opcode in (Opcode.VECTOR, Opcode.ACTIVATION)
        and any(
            (read.memory, read.address) == (write.memory, write.address)
            for read in step.reads
            for write in step.writes
        )
    ]


@pytest.mark.parametrize("name", ["npu_tiny", "rk3588_npu", "nvidia_t4"])
@pytest.mark.parametrize("last", ["Exp (b)", "Add (b, w)", "Mul (b, b)", "Sub (w, b)"])
def test_an_elementwise_result_lies_where_its_operand_lay(name: str, last: str) -> None:
    found = compiled(last, name)
    places = found.recipe.allocations
    assert places["b"].memory == places["d"].memory == SRAM
    assert places["b"].offset_bytes == places["d"].offset_bytes
    assert places["b"].stop == places["d"].start + 1
    assert in_place(found)


@pytest.mark.parametrize("last", ["Softmax <axis = 1> (b)", "Transpose <perm = [0, 2, 1]> (b)"])
def test_what_looks_at_other_places_lies_elsewhere(last: str) -> None:
    assert not in_place(compiled(last, "npu_tiny"))


@pytest.mark.parametrize("last", ["Exp (b)", "Mul (b, b)"])
def test_it_needs_less_memory_and_no_more_time(last: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = hardware("npu_tiny")
    found = compiled(last, "npu_tiny")
    monkeypatch.setattr(assign, "heirs", lambda *_: {})
    apart = compiled(last, "npu_tiny")
    assert not in_place(apart)
    ours, others = (memory_facts(item.plan, spec)[0] for item in (found, apart))
    assert ours.lower_bound_bytes <= others.lower_bound_bytes
    assert plan_cycles(found.plan, spec) <= plan_cycles(apart.plan, spec)
