"""Fuse: which operators run as one group, on which engine, and why some go to the host."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.compiler.draft import Draft
from stages.compiler.passes.canonicalize import Canonicalize
from stages.compiler.passes.fold_affine import FoldAffine
from stages.compiler.passes.fuse import Fuse
from stages.compiler.passes.recognize import Recognize
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine
from tests.compiler.passing import Data, draft_of, run_pass, tidy
from tests.compiler.specs import hardware

CONV = "{dilations=[1,1], group=1, pads=[1,1,1,1], strides=[1,1]}"
T = "f32[1,8,6,6]"
START = f"""
    input %x : {T}
    const %w : f32[8,8,3,3]
    %c : {T} = conv(%x, %w) {CONV}
    """
BN = "const %k : f32[8]\nconst %m : f32[8]\nconst %v : f32[8]\n"


def groups(text: str, name: str = "npu_tiny", data: Data | None = None) -> list[str]:
    """`ENGINE: KIND KIND` for each group."""
    return described(run_pass(Fuse(), text, data, spec=hardware(name)).after)


def after_folding(text: str, data: Data | None = None) -> list[str]:
    """The same behind the passes before it."""
    spec = hardware("npu_tiny")
    draft = draft_of(text, data, spec)
    for step in (Canonicalize(), Recognize(), FoldAffine(), Fuse()):
        draft = step.run(draft, spec)
    return described(draft)


def described(draft: Draft) -> list[str]:
    kinds = {op.name: op.kind for op in draft.graph.operators}
    return [
        f"{group.engine}: {' '.join(kinds[name] for name in group.operators)}"
        for group in draft.recipe.groups
    ]


def reasons(text: str, name: str) -> list[str]:
    spec = hardware(name)
    return [group.reason for group in Fuse().run(draft_of(text, spec=spec), spec).recipe.fallbacks]


def test_the_text_of_a_fused_group() -> None:
    text = f"{START}%s : {T} = add(%c, %x)\n%y : {T} = relu(%s)\noutput %y"
    assert run_pass(Fuse(), text).text == tidy(
        f"""
        input %x : {T}
        const %w : f32[8,8,3,3]
        group c on tensor_core
        %c : {T} = conv(%x, %w) {CONV}
        %s : {T} = add(%c, %x)
        %y : {T} = relu(%s)
        output %y
        """
    )


SQUARES = """
    input %a : f32[4,8]
    input %b : f32[4,8]
    %s : f32[4,8] = mul(%a, %a)
    %t : f32[4,8] = mul(%b, %b)
    %u : f32[4,8] = add(%s, %t)
    %y : f32[4,8] = sqrt(%u)
    output %y
    """


def test_pointwise_operators_that_one_group_reads_join_it() -> None:
    assert groups(SQUARES) == ["vector: mul mul add sqrt"]


def test_an_operator_that_others_read_too_stays_apart() -> None:
    shared = SQUARES.replace("output %y", "%z : f32[4,8] = neg(%t)\noutput %y\noutput %z")
    assert groups(shared) == ["vector: mul", "vector: mul add sqrt", "vector: neg"]


def test_conv_batch_norm_relu_is_one_group() -> None:
    text = f"""
        {BN}{START}
        %n : {T} = batch_norm(%c, %k, %m, %m, %v) {{epsilon=1e-05}}
        %y : {T} = relu(%n)
        output %y
        """
    assert after_folding(text, {"v": 0.5}) == ["tensor_core: conv relu"]


def test_conv_batch_norm_residual_relu_is_one_group() -> None:
    text = f"""
        {BN}{START}
        %n : {T} = batch_norm(%c, %k, %m, %m, %v) {{epsilon=1e-05}}
        %s : {T} = add(%x, %n)
        %y : {T} = relu(%s)
        output %y
        """
    assert after_folding(text, {"v": 0.5}) == ["tensor_core: conv add relu"]


@pytest.mark.parametrize("nothing", ["identity", "cast"])
def test_what_does_nothing_between_them_does_not_part_them(nothing: str) -> None:
    text = f"""
        {BN}{START}
        %i : {T} = {nothing}(%c)
        %n : {T} = batch_norm(%i, %k, %m, %m, %v) {{epsilon=1e-05}}
        %j : {T} = {nothing}(%n)
        %s : {T} = add(%j, %x)
        %l : {T} = {nothing}(%s)
        %y : {T} = relu(%l)
        output %y
        """
    assert after_folding(text, {"v": 0.5}) == ["tensor_core: conv add relu"]


def test_matmul_bias_activation_is_one_group() -> None:
    text = """
        input %x : f32[4,16]
        const %w : f32[16,8]
        const %b : f32[8]
        %c : f32[4,8] = matmul(%x, %w)
        %s : f32[4,8] = add(%c, %b)
        %y : f32[4,8] = hard_swish(%s)
        output %y
        """
    assert after_folding(text) == ["tensor_core: matmul hard_swish"]


def test_a_branch_ends_a_group() -> None:
    text = f"{START}%y : {T} = relu(%c)\n%z : {T} = neg(%c)\noutput %y\noutput %z"
    assert groups(text) == ["tensor_core: conv", "vector: relu", "vector: neg"]


def test_an_output_ends_a_group() -> None:
    text = f"{START}%y : {T} = relu(%c)\noutput %y\noutput %c"
    assert groups(text) == ["tensor_core: conv", "vector: relu"]


def test_a_kind_outside_the_output_stage_ends_a_group() -> None:
    text = f"{START}%a : {T} = relu(%c)\n%y : {T} = exp(%a)\noutput %y"
    assert groups(text) == ["tensor_core: conv relu", "vector: exp"]
    assert groups(text, "nvidia_t4") == ["tensor_core: conv relu exp"]


def test_a_result_that_grows_by_broadcasting_ends_a_group() -> None:
    text = f"{START}input %z : f32[3,8,6,6]\n%y : f32[3,8,6,6] = add(%c, %z)\noutput %y"
    assert groups(text) == ["tensor_core: conv", "vector: add"]


def test_a_reader_of_two_contractions_joins_the_first() -> None:
    text = f"{START}%d : {T} = conv(%x, %w) {CONV}\n%y : {T} = add(%c, %d)\noutput %y"
    assert groups(text) == ["tensor_core: conv", "tensor_core: conv add"]


def test_vector_operators_fuse_in_chains() -> None:
    text = f"""
        input %x : {T}
        const %k : f32[6]
        %a : {T} = exp(%x)
        %b : {T} = mul(%a, %k)
        %y : {T} = sqrt(%b)
        output %y
        """
    assert groups(text, data={"k": 2.0}) == ["vector: exp mul sqrt"]


QDQ = f"""
    input %x : i8[1,8,6,6]
    const %w : i8[8,8,3,3]
    const %sx : f32[]
    const %sw : f32[8]
    %fx : {T} = dequantize(%x, %sx) {{axis=-1}}
    %fw : f32[8,8,3,3] = dequantize(%w, %sw) {{axis=0}}
    %c : {T} = conv(%fx, %fw) {CONV}
    %r : {T} = relu(%c)
    """


@pytest.mark.parametrize("name", ["npu_tiny", "rk3588_npu", "ethos_u65_512", "nvidia_t4"])
def test_an_int8_convolution_is_one_group(name: str) -> None:
    text = QDQ + "%y : i8[1,8,6,6] = quantize(%r, %sx) {axis=-1}\noutput %y"
    text = text.replace("quantize(%r, %sx)", "quantize(%r, %sx, %z)").replace(
        "const %sx", "const %z : i8[]\nconst %sx"
    )
    expected = ["tensor_core: dequantize dequantize conv relu quantize"]
    assert groups(text, name, {"sx": 0.1, "sw": 0.01, "z": 0.0}) == expected


def test_an_int8_convolution_with_a_float_result_is_a_group_only_with_floats() -> None:
    text = QDQ + "output %r"
    data = {"sx": 0.1, "sw": 0.01}
    assert groups(text, "npu_tiny", data) == ["tensor_core: dequantize dequantize conv relu"]
    assert all(line.startswith("host") for line in groups(text, "ethos_u65_512", data))


def test_float_constants_go_with_a_quantised_group_where_the_spec_says_so() -> None:
    affine = """
        input %x : i8[1,4,6,6]
        const %s : f32[]
        const %w : f32[4,1,1]
        %f : f32[1,4,6,6] = dequantize(%x, %s) {axis=-1}
        %m : f32[1,4,6,6] = mul(%f, %w)
        %y : i8[1,4,6,6] = quantize(%m, %s) {axis=-1}
        output %y
        """
    data = {"s": 0.1, "w": 0.5}
    assert groups(affine, "edge_tpu", data) == ["vector: dequantize mul quantize"]
    assert any(line.startswith("host") for line in groups(affine, "ethos_u65_512", data))
    floats = "input %x : f32[4]\nconst %w : f32[4]\n%y : f32[4] = mul(%x, %w)\noutput %y"
    assert groups(floats, "edge_tpu", {"w": 0.5}) == ["host: mul"]


def test_a_dequantize_that_others_read_stays_outside() -> None:
    text = QDQ + f"%t : {T} = neg(%fx)\noutput %r\noutput %t"
    found = groups(text, data={"sx": 0.1, "sw": 0.01})
    assert sorted(found) == [
        "tensor_core: dequantize conv relu",
        "vector: dequantize",
        "vector: neg",
    ]


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        (
            "input %x : f32[3]\n%y : bool[3] = is_nan(%x)\noutput %y",
            "rk3588_npu",
            "is_nan isn't in the operator list of rk3588_npu",
        ),
        (
            "input %x : f32[3]\n%y : f32[3] = relu(%x)\noutput %y",
            "ethos_u65_512",
            "relu on f32: ethos_u65_512 has no float unit; quantise the model",
        ),
        (
            "input %x : i64[3]\n%y : i64[3] = add(%x, %x)\noutput %y",
            "npu_tiny",
            "add on i64: npu_tiny takes f16, i8, u8",
        ),
        (
            "input %x : f32[1,8,40,40]\nconst %w : f32[8,8,33,1]\n%y : f32[1,8,8,40] = conv(%x, %w)"
            " {dilations=[1,1], group=1, pads=[0,0,0,0], strides=[1,1]}\noutput %y",
            "npu_tiny",
            "conv with kernel 33: npu_tiny takes 1 to 31",
        ),
        (
            "input %x : f32[1,2,4,4,4]\nconst %w : f32[2,2,1,1,1]\n"
            "%y : f32[1,2,4,4,4] = conv(%x, %w)"
            " {dilations=[1,1,1], group=1, pads=[0,0,0,0,0,0], strides=[1,1,1]}\noutput %y",
            "rk3588_npu",
            "conv with spatial 3: rk3588_npu takes 1 to 2",
        ),
        (
            "input %x : f32[1,2,40,4]\n%y : f32[1,2,2,4] = max_pool(%x) {dilations=[2,1], "
            "kernel=[20,1], pads=[0,0,0,0], strides=[1,1]}\noutput %y",
            "rk3588_npu",
            "max_pool with dilation 2: rk3588_npu takes 1 to 1",
        ),
    ],
)
def test_a_host_group_says_why(text: str, name: str, reason: str) -> None:
    assert reasons(text, name) == [reason]


def test_views_need_no_engine() -> None:
    text = "input %x : f32[4,6]\n%y : f32[24] = reshape(%x) {shape=[24]}\noutput %y"
    assert groups(text) == ["none: reshape"]


def test_moves_are_the_dma_s_where_it_takes_the_type() -> None:
    text = "input %x : f32[4]\n%y : f32[8] = concat(%x, %x) {axis=0}\noutput %y"
    assert groups(text) == ["dma: concat"]
    halves = text.replace("f32", "i16")
    assert groups(halves) == ["host: concat"]
    assert groups(halves, "ethos_u65_512") == ["dma: concat"]


def test_every_operator_is_in_one_group() -> None:
    text = QDQ + f"%t : {T} = neg(%fx)\noutput %r\noutput %t"
    spec = hardware("npu_tiny")
    draft = Fuse().run(draft_of(text), replace(spec))
    names = [name for group in draft.recipe.groups for name in group.operators]
    assert sorted(names) == sorted(op.name for op in draft.graph.operators)
    assert all(group.engine is not Engine.HOST for group in draft.recipe.groups)


def without(kind: str) -> HardwareSpec:
    spec = hardware("npu_tiny")
    operators = {name: item for name, item in spec.operators.items() if name != kind}
    return replace(spec, operators=operators)


def test_the_vector_unit_quantises_only_where_it_is_listed() -> None:
    text = """
        input %x : i8[4]
        const %s : f32[]
        %f : f32[4] = dequantize(%x, %s) {axis=-1}
        %a : f32[4] = relu(%f)
        %y : u8[4] = quantize(%a, %s) {axis=-1}
        output %y
        """
    data = {"s": 0.1}
    assert groups(text, data=data) == ["vector: dequantize relu quantize"]
    for kind, wanted in (
        ("quantize", ["vector: dequantize relu", "host: quantize"]),
        ("dequantize", ["host: dequantize", "vector: relu quantize"]),
    ):
        assert described(run_pass(Fuse(), text, data, spec=without(kind)).after) == wanted


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "mul", "sub"]), st.integers(0, 30), st.integers(0, 30)),
    min_size=2,
    max_size=14,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from(["npu_tiny", "rk3588_npu", "ethos_u65_512"]), st.booleans())
def test_each_operator_is_in_one_group_also_where_products_are_summed(
    steps: list[tuple[str, int, int]], name: str, many: bool
) -> None:
    """Any graph of pointwise operators; its last values are multiplied and summed."""
    count = 9 if many else 2
    lines = [f"input %x{number} : f16[16,32]" for number in range(count)]
    values = [f"x{number}" for number in range(count)]
    for number, (kind, one, other) in enumerate(steps):
        # Near the end of what there is: long chains.
        operands = values[-1 - one % min(3, len(values))], values[other % len(values)]
        lines.append(f"%v{number} : f16[16,32] = {kind}(%{operands[0]}, %{operands[1]})")
        values.append(f"v{number}")
    lines.append(f"%m : f16[16,32] = mul(%{values[-1]}, %{values[-2]})")
    lines.append("%y : f16[16,1] = reduce_sum(%m) {axes=[1], keepdims=1}")
    draft = draft_of("\n".join([*lines, "output %y"]), {}, hardware(name))
    after = Fuse().run(draft, hardware(name))
    counts = Counter(name for group in after.recipe.groups for name in group.operators)
    assert counts == Counter(op.name for op in draft.graph.operators)


@pytest.mark.parametrize("name", ["npu_tiny", "rk3588_npu"])
def test_a_product_that_a_chain_has_taken_is_no_start_of_a_sum(name: str) -> None:
    inputs = "\n".join(f"input %x{number} : f16[16,32]" for number in range(7))
    sums = "\n".join(
        f"%s{number} : f16[16,32] = add(%{'x0' if number == 1 else f's{number - 1}'}, %x{number})"
        for number in range(1, 7)
    )
    text = f"""
{inputs}
input %u : f16[16,32]
input %v : f16[16,32]
input %c : bool[16,32]
{sums}
%b : f16[16,32] = where(%c, %u, %v)
%m : f16[16,32] = mul(%s6, %b)
%y : f16[16,1] = reduce_sum(%m) {{axes=[1], keepdims=1}}
output %y
"""
    assert groups(text, name) == [
        "vector: where",
        "vector: add add add add add add mul",
        "vector: reduce_sum",
    ]
