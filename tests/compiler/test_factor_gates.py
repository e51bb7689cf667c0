"""FactorGates: a gate beside its own residual is one product."""

from __future__ import annotations

import pytest

from stages.compiler.draft import Draft
from stages.compiler.passes.factor_gates import FactorGates
from stages.compiler.passes.quantize import QuantizeActivations
from stages.compiler.quantization import Quantization, Range
from stages.quantizer.placement import calibrated_values, raised_gates, simplified, stored_values
from stages.recipe.kinds import Kind
from tests.compiler.passing import draft_of, run_pass, tidy
from tests.compiler.specs import hardware

BLOCK = """
    input %x : f32[1,8,6,6]
    const %w : f32[8,8,1,1]
    %m : f32[1,8,1,1] = reduce_mean(%x) {{axes=[2,3], keepdims=1}}
    %c : f32[1,8,1,1] = conv(%m, %w) {{dilations=[1,1], group=1, pads=[0,0,0,0], strides=[1,1]}}
    %s : f32[1,8,1,1] = hard_sigmoid(%c) {{alpha=0.2, beta=0.5}}
    %p : f32[1,8,6,6] = {product}
    %y : f32[1,8,6,6] = {total}
    output %y
    """


def block(product: str = "mul(%x, %s)", total: str = "add(%x, %p)") -> str:
    return BLOCK.format(product=product, total=total)


@pytest.mark.parametrize("product", ["mul(%x, %s)", "mul(%s, %x)"])
@pytest.mark.parametrize("total", ["add(%x, %p)", "add(%p, %x)"])
def test_a_gate_and_its_residual_are_one_product(product: str, total: str) -> None:
    ran = run_pass(FactorGates(), block(product, total))
    assert ran.kinds == ["reduce_mean", "conv", "hard_sigmoid", "add", "mul"]
    sum_ = next(op for op in ran.after.graph.operators if op.kind is Kind.ADD)
    assert ran.after.graph.types[sum_.outputs[0]].shape == (1, 8, 1, 1)


@pytest.mark.parametrize(
    ("product", "total"),
    [
        ("mul(%x, %x)", "add(%x, %p)"),  # as large as what it gates
        ("mul(%x, %s)", "add(%p, %p)"),
        ("mul(%x, %s)", "sub(%x, %p)"),
        ("add(%x, %s)", "add(%x, %p)"),
    ],
)
def test_other_sums_stay(product: str, total: str) -> None:
    ran = run_pass(FactorGates(), block(product, total))
    assert ran.text == tidy(ran.text)
    assert ran.kinds[-2:] == [product.split("(")[0], total.split("(")[0]]


def test_a_product_that_others_read_stays() -> None:
    text = block().replace("output %y", "%z : f32[1,8,6,6] = exp(%p)\noutput %y\noutput %z")
    assert run_pass(FactorGates(), text).kinds.count("add") == 1
    assert run_pass(FactorGates(), text).kinds.count("mul") == 1
    assert _sum_shapes(run_pass(FactorGates(), text).after) == [(1, 8, 6, 6)]


def test_a_constant_gate_is_left_to_folding() -> None:
    text = """
        input %x : f32[1,8,6,6]
        const %s : f32[1,8,1,1]
        %p : f32[1,8,6,6] = mul(%x, %s)
        %y : f32[1,8,6,6] = add(%x, %p)
        output %y
        """
    assert _sum_shapes(run_pass(FactorGates(), text).after) == [(1, 8, 6, 6)]


def _sum_shapes(draft: Draft) -> list[tuple[int, ...]]:
    graph = draft.graph
    return [graph.types[op.outputs[0]].shape for op in graph.operators if op.kind is Kind.ADD]


@pytest.mark.parametrize("name", ["ethos_u65_512", "rk3588_npu", "npu_tiny", "nvidia_t4"])
def test_the_gate_has_a_range_and_its_sum_gets_one_from_it(name: str) -> None:
    spec = hardware(name)
    before = draft_of(block(), spec=spec)
    simple = simplified(before.graph, before.constants, spec)
    assert raised_gates(before.graph, simple) == {"s"}
    assert "s" in stored_values(before.graph, simple, spec)
    assert "s" in calibrated_values(before.graph, simple, spec)
    ranges = dict.fromkeys(("x", "m", "y"), Range(-4.0, 4.0)) | {"s": Range(0.0, 1.0)}
    after = QuantizeActivations(Quantization(ranges, frozenset())).run(simple, spec)
    (raised,) = (
        op.outputs[0]
        for op in after.graph.operators
        if op.kind is Kind.ADD and after.graph.types[op.outputs[0]].shape == (1, 8, 1, 1)
    )
    quantize = next(op for op in after.graph.operators if op.inputs[:1] == (raised,))
    assert quantize.kind is Kind.QUANTIZE
    assert float(after.constants[quantize.inputs[1]]) == pytest.approx(2 / 255)


def test_a_sum_that_is_kept_in_float_gets_no_range() -> None:
    spec = hardware("npu_tiny")
    simple = FactorGates().run(draft_of(block(), spec=spec), spec)
    (sum_,) = (op for op in simple.graph.operators if op.kind is Kind.ADD)
    ranges = {"s": Range(0.0, 1.0)}
    for keep, count in ((frozenset[str](), 2), (frozenset({sum_.name}), 0)):
        found = QuantizeActivations(Quantization(ranges, keep)).run(simple, spec)
        assert [op.kind for op in found.graph.operators].count(Kind.QUANTIZE) == count


def test_what_the_model_itself_adds_within_a_chain_gets_no_range() -> None:
    text = """
        input %x : f32[1,8,6,6]
        const %one : f32[]
        %s : f32[1,8,6,6] = erf(%x)
        %t : f32[1,8,6,6] = add(%s, %one)
        %y : f32[1,8,6,6] = mul(%x, %t)
        output %y
        """
    before = draft_of(text)
    ranges = {"s": Range(-1.0, 1.0)}
    after = QuantizeActivations(Quantization(ranges, frozenset())).run(before, hardware("npu_tiny"))
    assert [op.kind for op in after.graph.operators].count(Kind.QUANTIZE) == 1
