"""From draft to problem and back: what is counted is what is put in."""

from __future__ import annotations

from itertools import product

import pytest

from stages.compiler.draft import Draft
from stages.compiler.layout.choices import Choices, same_bytes
from stages.compiler.layout.network import network
from stages.compiler.layout.prices import LayoutPrices
from stages.compiler.layout.rewrite import Rewriting
from stages.compiler.passes.layout import AssignLayouts
from stages.hardware.spec import HardwareSpec
from stages.recipe.verify import verify
from stages.tensors import ROW_MAJOR, DType, Layout, LayoutKind, TensorType
from tests.compiler.passing import assert_same_meaning, draft_of
from tests.compiler.specs import hardware

CONV = "{dilations=[1,1], group=1, pads=[1,1,1,1], strides=[1,1]}"
NHWC = Layout(LayoutKind.NHWC)
BLOCKED = Layout(LayoutKind.NC1HWC2, 8)

FORKED = f"""
    input %x : f16[1,8,6,6]
    const %w : f16[8,8,3,3]
    group c on tensor_core
      %c : f16[1,8,6,6] = conv(%x, %w) {CONV}
    group a on vector
      %a : f16[1,8,6,6] = sigmoid(%c)
    group s on vector
      %s : f16[1,8,6,6] = softmax(%a) {{axis=3}}
    group b on vector
      %b : f16[1,8,6,6] = mul(%a, %c)
    group m on dma
      %m : f16[1,16,6,6] = concat(%b, %a) {{axis=1}}
    group d on tensor_core
      %d : f16[1,8,6,6] = conv(%b, %w) {CONV}
    group y on vector
      %y : f16[1,8,6,6] = add(%d, %s)
    output %y
    output %m
    """


def problem_of(draft: Draft, spec: HardwareSpec):
    choices = Choices(spec, draft.graph.types, frozenset(draft.constants))
    return choices, network(draft, choices, LayoutPrices(spec))


def priced(draft: Draft, spec: HardwareSpec) -> int:
    """The cycles of a laid out draft's transposes."""
    prices, recipe = LayoutPrices(spec), draft.recipe
    return sum(
        prices.conversion(
            recipe.graph.types[op.inputs[0]],
            recipe.layout(op.inputs[0]),
            recipe.layout(op.outputs[0]),
        )
        for op in recipe.graph.operators
        if op.kind == "relayout"
    )


@pytest.mark.parametrize("name", ["npu_tiny", "nvidia_t4"])
def test_the_choice_costs_what_the_best_of_all_rewritings_costs(name: str) -> None:
    spec = hardware(name)
    draft = draft_of(FORKED, spec=spec)
    choices, found = problem_of(draft, spec)
    costs = {}
    for layouts in product(*found.choices):
        laid_out = Rewriting(draft, choices, layouts).run()
        verify(laid_out.recipe, laid_out.constants)
        assert_same_meaning(draft, laid_out, 1e-2)
        costs[layouts] = priced(laid_out, spec)
    after = AssignLayouts().run(draft, spec)
    assert len(costs) == 16
    assert priced(after, spec) == min(costs.values())
    (note,) = after.recipe.notes
    assert f"{min(costs.values())} cycles, bound {min(costs.values())}, gap 0.00%" in note
    assert "4 of 7 groups free" in note


def test_what_was_weighed_says_what_the_greedy_answer_would_cost() -> None:
    (item,) = AssignLayouts().run(draft_of(FORKED), hardware("npu_tiny")).weighed
    assert (item.subject, item.question, item.chosen) == ("", "layout", "optimal")
    optimal, step_by_step = item.alternatives
    assert optimal.cost_cycles is not None
    assert step_by_step.cost_cycles is not None
    assert 0 < optimal.cost_cycles <= step_by_step.cost_cycles


def test_a_transpose_is_never_free_but_where_the_bytes_are_the_same() -> None:
    spec = hardware("npu_tiny")
    prices = LayoutPrices(spec)
    for shape in ((1, 8, 1, 1), (1, 8, 2, 2), (1, 3, 1, 1), (2, 64, 128, 128)):
        held = TensorType(DType.F16, shape)
        for one, other in product((ROW_MAJOR, BLOCKED, NHWC), repeat=2):
            cost = prices.conversion(held, one, other)
            assert (cost == 0) == same_bytes(held, one, other)
    assert prices.conversion(TensorType(DType.F16, (1, 3, 1, 1)), ROW_MAJOR, BLOCKED) > 0


def test_weights_take_any_layout_for_nothing() -> None:
    text = f"""
        input %x : f16[1,8,6,6]
        const %w : f16[8,8,3,3]
        const %k : f16[1,8,6,6]
        group c on tensor_core
          %c : f16[1,8,6,6] = conv(%x, %w) {CONV}
        group m on dma
          %m : f16[1,16,6,6] = concat(%c, %k) {{axis=1}}
        group d on vector
          %d : f16[1,16,3,3] = max_pool(%m) {{dilations=[1,1], kernel=[2,2], pads=[0,0,0,0],
 strides=[2,2]}}
        output %d
        """
    draft = draft_of(text.replace(",\n strides", ", strides"))
    after = AssignLayouts().run(draft, hardware("npu_tiny"))
    assert [op.outputs[0] for op in after.graph.operators if op.kind == "relayout"] == [
        "x.nc1hwc2/8",
        "d",
    ]
    assert str(after.recipe.layout("k.nc1hwc2/8")) == "nc1hwc2/8"
    assert "k" not in after.constants


def test_an_output_that_a_group_reads_row_major_is_converted_once() -> None:
    text = f"""
        input %x : f16[1,8,6,6]
        const %w : f16[8,8,3,3]
        group c on tensor_core
          %c : f16[1,8,6,6] = conv(%x, %w) {CONV}
        group s on vector
          %s : f16[1,8,6,6] = softmax(%c) {{axis=3}}
        output %c
        output %s
        """
    draft = draft_of(text)
    after = AssignLayouts().run(draft, hardware("npu_tiny"))
    verify(after.recipe, after.constants)
    assert_same_meaning(draft, after, 1e-2)
    kinds = [str(op.kind) for op in after.graph.operators]
    assert kinds == ["relayout", "conv", "relayout", "softmax"]
