"""One legal plan, and for each rule plans that break only it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import cleandoc

import pytest

from stages.plan.instructions import (
    SRAM,
    Contraction,
    Instruction,
    Opcode,
    Plan,
)
from stages.plan.rules import REPORTED, RULES, check_plan, rule_name
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType
from tests.plan.broken_plans import BROKEN
from tests.plan.edited_plans import (
    CONV0,
    Case,
    append,
    column,
    copy,
    ghost,
    limited,
    over_itself,
    restrided,
    signal,
    tc,
    wait,
)
from tests.plan.large_plan import large_plan
from tests.plan.sample_plan import (
    NHWC,
    OUT_DDR,
    legal_plan,
    region,
    small_spec,
)


def test_what_is_read_may_repeat() -> None:
    assert check_plan(restrided(0, 0), small_spec()) == ()


def test_the_legal_plans_break_no_rule() -> None:
    assert check_plan(legal_plan(), small_spec()) == ()
    assert check_plan(large_plan(3, 5), small_spec()) == ()
    assert check_plan(over_itself(Kind.SIGMOID, {}), small_spec()) == ()


def test_every_rule_is_broken_here() -> None:
    assert set(BROKEN) == {rule.__name__ for rule in RULES}


@pytest.mark.parametrize(
    ("rule", "case"),
    [
        pytest.param(rule, case, id=f"{rule}{number}")
        for rule, cases in BROKEN.items()
        for number, case in enumerate(cases)
    ],
)
def test_a_plan_breaks_only_this_rule(rule: str, case: Callable[[], Plan | Case]) -> None:
    broken = case()
    plan, spec = broken if isinstance(broken, tuple) else (broken, small_spec())
    violations = check_plan(plan, spec)
    assert {violation.rule for violation in violations} == {f"plan-{rule.replace('_', '-')}"}, (
        violations
    )
    for violation in violations:
        assert str(violation).startswith(f"{violation.rule}: {violation.message}\nhint: ")
        assert violation.hint
        if violation.instruction is not None:
            assert 0 <= violation.instruction < len(plan.instructions) + 1


def test_every_rule_has_a_page() -> None:
    for rule in RULES:
        assert rule.__doc__, rule
        assert "\nCure: " in cleandoc(rule.__doc__), rule


def test_rule_names() -> None:
    assert rule_name(RULES[0]) == "plan-target"
    assert len({rule_name(rule) for rule in RULES}) == len(RULES)


def test_one_fault_everywhere_is_reported_a_bounded_number_of_times() -> None:
    plan = replace(large_plan(3, 5), queues=())
    assert len(check_plan(plan, small_spec())) == REPORTED


def test_the_overlap_message_is_in_the_form_of_the_design() -> None:
    violation = check_plan(ghost(address=0x0600), small_spec())[0]
    assert str(violation) == (
        "plan-overlap: buffers %conv1.x.slot0 [0x0600, 0x0880) and %ghost [0x0600, 0x0640) "
        "share sram in instructions [2, 4)\n"
        "hint: move one of them, or raise `memory.sram.size` in the hardware spec"
    )


def test_the_deadlock_message_names_the_ring() -> None:
    plan = append(wait("host", 9), signal("host", 8), wait("vector", 8), signal("vector", 9))
    (violation,) = check_plan(plan, small_spec())
    assert violation.message == (
        "queues wait for each other in a ring: instruction 28 on vector awaits event 8, which "
        "instruction 27 signals; instruction 26 on host awaits event 9, which instruction 29 "
        "signals"
    )


def test_disjoint_columns_written_by_two_queues_do_not_race() -> None:
    left, right = column(0, 4), column(4, 8)
    out_left = replace(OUT_DDR, shape=(1, 8, 8, 4))
    out_right = replace(out_left, address=OUT_DDR.address + 4 * 16)
    done = (signal("host", 9), wait("dma0", 9), signal("dma0", 10), wait("dma1", 10))
    disjoint = append(*done, copy("dma0", left, out_left), copy("dma1", right, out_right))
    assert check_plan(disjoint, small_spec()) == ()
    shared = append(
        *done,
        copy("dma0", left, out_left),
        copy("dma1", right, replace(out_right, address=OUT_DDR.address + 3 * 16)),
    )
    assert [violation.rule for violation in check_plan(shared, small_spec())] == ["plan-race"]


def test_quantised_operands_count_as_they_lie_in_memory() -> None:
    types = {
        "x": TensorType(DType.U8, (2, 4, 8)),
        "w": TensorType(DType.I8, (8, 16)),
        "xs": TensorType(DType.F32, ()),
        "xf": TensorType(DType.F16, (2, 4, 8)),
        "wf": TensorType(DType.F16, (8, 16)),
        "y": TensorType(DType.F16, (2, 4, 16)),
    }
    operators = (
        Operator("dx", Kind.DEQUANTIZE, ("x", "xs"), ("xf",), {"axis": -1}),
        Operator("dw", Kind.DEQUANTIZE, ("w", "xs"), ("wf",), {"axis": -1}),
        Operator("mm", Kind.MATMUL, ("xf", "wf"), ("y",)),
    )
    regions = {
        "x": region(SRAM, 0x2000, (2, 4, 8), dtype=DType.U8),
        "w": region(SRAM, 0x2100, (8, 16), dtype=DType.I8),
        "xs": region(SRAM, 0x2200, (), dtype=DType.F32),
    }
    kernel = replace(
        legal_plan().kernels[0],
        name="quantised",
        parameters=("x", "w", "xs"),
        operators=operators,
        types=types,
    )

    def rules(work: Contraction) -> set[str]:
        reads = tuple(regions.values())
        gemm = Instruction(
            Opcode.TENSOR_CORE_GEMM,
            "tensor_core",
            "",
            reads,
            (region(SRAM, 0x2300, (2, 4, 16)),),
            kernel=0,
            contraction=work,
        )
        plan = replace(legal_plan(), kernels=(kernel,), instructions=(gemm,))
        spec = limited("matmul", dtypes=frozenset({DType.I8, DType.U8}))
        return {item.rule for item in check_plan(plan, spec)} & {
            "plan-contraction",
            "plan-epilogue",
            "plan-support",
            "plan-kernel-shapes",
            "plan-kernel-form",
        }

    assert rules(Contraction(8, 16, 8, 1, 1, DType.I8)) == set()
    assert rules(Contraction(4, 16, 8, 2, 1, DType.I8)) == set()
    assert rules(Contraction(4, 16, 8, 2, 1, DType.F16)) == {"plan-contraction"}
    assert rules(Contraction(4, 16, 8, 1, 1, DType.I8)) == {"plan-contraction"}


def test_sums_of_a_contraction_in_parts_are_added_by_the_tensor_core() -> None:
    def rules(dtype: DType) -> set[str]:
        first = legal_plan().kernels[0]
        sums = TensorType(dtype, first.types["y"].shape)
        add = Operator("sum", Kind.ADD, ("t", "earlier"), ("y",))
        types = {**first.types, "earlier": sums}
        kernel = replace(
            first,
            parameters=("x", "w", "earlier"),
            operators=(first.operators[0], add),
            types=types,
        )
        plan = replace(legal_plan(), kernels=(kernel,), instructions=())
        earlier = region(SRAM, 0x4000, sums.shape, NHWC, dtype=dtype)
        conv = legal_plan().instructions[CONV0]
        conv = replace(conv, reads=(*conv.reads, earlier))
        plan = replace(plan, instructions=(conv,))
        broken = {item.rule for item in check_plan(plan, tc(output_stage=frozenset({"relu"})))}
        return broken & {"plan-epilogue", "plan-kernel-form", "plan-kernel-types"}

    assert rules(DType.F32) == set()
    assert rules(DType.F16) == {"plan-epilogue"}
