"""SmallGemms: siblings become one contraction where that pays, and what is computed stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.textual import matrix, model_from_text
from stages.compiler.draft import GraphEditor
from stages.compiler.passes.fuse import Fuse
from stages.compiler.passes.small_gemms import SmallGemms
from stages.compiler.small_gemms.dots import has_one_row, to_dots
from stages.compiler.small_gemms.regroup import regroup, widths
from stages.compiler.small_gemms.siblings import families, merge, tail_of
from stages.compiler.trial import surroundings
from stages.recipe.decisions import Engine
from stages.recipe.verify import verify
from stages.tensors import Array
from tests.compiler.judged import case_of, compile_and_judge
from tests.compiler.passing import Ran, assert_same_meaning, draft_of, run_pass, tidy
from tests.compiler.specs import hardware
from tests.recipe.onnx_models import parse

PROJECTIONS = """
    input %x : f32[16,64]
    const %wq : f32[64,16]
    const %bq : f32[16]
    const %wk : f32[64,16]
    const %wv : f32[64,8]
    const %bv : f32[8]
    %q : f32[16,16] = matmul(%x, %wq, %bq)
    %k : f32[16,16] = matmul(%x, %wk)
    %v : f32[16,8] = matmul(%x, %wv, %bv)
    output %q
    output %k
    output %v
    """


def small(text: str, name: str = "rk3588_npu", tolerance: float = 1e-5) -> Ran:
    return run_pass(SmallGemms(), text, spec=hardware(name), tolerance=tolerance)


def merged(text: str) -> Ran:
    """Every family of a text as one, whatever it costs."""
    before = draft_of(text)
    editor = GraphEditor(before)
    for family in list(families(editor)):
        merge(family, editor)
    after = editor.finish()
    verify(after.recipe, after.constants)
    assert_same_meaning(before, after, 1e-5)
    return Ran(before, after)


def test_projections_of_one_operand_become_one_product() -> None:
    inner = PROJECTIONS.replace("output %q\n", "%u : f32[16,16] = neg(%q)\noutput %u\n")
    inner = inner.replace("output %k\n", "%s : f32[16,16] = neg(%k)\noutput %s\n")
    inner = inner.replace("output %v\n", "%t : f32[16,8] = neg(%v)\noutput %t\n")
    assert small(inner).graph_text == tidy(
        """
        note "q, k, v: merged, n = 16 + 16 + 8"
        input %x : f32[16,64]
        const %q.siblings.weights : f32[64,40]
        const %q.siblings.bias : f32[40]
        %q.siblings : f32[16,40] = matmul(%x, %q.siblings.weights, %q.siblings.bias)
        %q : f32[16,16] = slice(%q.siblings) {starts=[0,0], steps=[1,1], stops=[16,16]} # q.part
        %u : f32[16,16] = neg(%q)
        %k : f32[16,16] = slice(%q.siblings) {starts=[0,16], steps=[1,1], stops=[16,32]} # k.part
        %s : f32[16,16] = neg(%k)
        %v : f32[16,8] = slice(%q.siblings) {starts=[0,32], steps=[1,1], stops=[16,40]} # v.part
        %t : f32[16,8] = neg(%v)
        output %u
        output %s
        output %t
        """
    )


def test_what_was_weighed_is_kept() -> None:
    ran = small(PROJECTIONS)
    (item,) = ran.after.weighed
    assert item.question == "small_gemm"
    assert [each.name for each in item.alternatives] == ["separate", "merged"]
    separate, merged_cost = (each.cost_cycles for each in item.alternatives)
    assert separate is not None
    assert merged_cost is not None
    assert separate < merged_cost
    assert item.chosen == "separate"


QUANTISED = """
    input %x : i8[16,64]
    const %sx : f32[]
    const %wq : i8[64,16]
    const %sq : f32[16]
    const %wk : i8[64,8]
    const %sk : f32[8]
    const %oq : f32[]
    const %ok : f32[]
    const %zq : i8[]
    const %zk : i8[]
    %xf : f32[16,64] = dequantize(%x, %sx) {axis=-1}
    %wqf : f32[64,16] = dequantize(%wq, %sq) {axis=1}
    %wkf : f32[64,8] = dequantize(%wk, %sk) {axis=1}
    %qf : f32[16,16] = matmul(%xf, %wqf)
    %kf : f32[16,8] = matmul(%xf, %wkf)
    %q : i8[16,16] = quantize(%qf, %oq, %zq) {axis=-1}
    %k : i8[16,8] = quantize(%kf, %ok, %zk) {axis=-1}
    output %q
    output %k
    """


def test_quantised_siblings_keep_their_scales_channel_by_channel() -> None:
    before = draft_of(QUANTISED, {"oq": 30.0, "ok": 50.0, "zq": 3, "zk": -5})
    editor = GraphEditor(before)
    (family,) = families(editor)
    merge(family, editor)
    after = editor.finish()
    assert_same_meaning(before, after, 0.0)
    quantize = [op for op in after.graph.operators if op.kind == "quantize"]
    assert [op.integer("axis") for op in quantize] == [1]
    steps = after.constants[quantize[0].inputs[1]]
    assert steps.tolist() == [30.0] * 16 + [50.0] * 8


def test_convolutions_of_one_image_are_joined_with_what_follows_them() -> None:
    ran = merged(
        """
        input %x : f32[1,16,5,5]
        const %wa : f32[8,16,1,1]
        const %wb : f32[24,16,1,1]
        %a : f32[1,8,5,5] = conv(%x, %wa) {dilations=[1,1], group=1, pads=[0,0,0,0], strides=[1,1]}
        %b : f32[1,24,5,5] = conv(%x, %wb) {dilations=[1,1], group=1, pads=[0,0,0,0], strides=[1,1]}
        %ra : f32[1,8,5,5] = relu(%a)
        %rb : f32[1,24,5,5] = relu(%b)
        output %ra
        output %rb
        """
    )
    assert ran.kinds == ["conv", "relu", "slice", "slice"]


@pytest.mark.parametrize("operands", ["%y, %v", "%x, %y"])
def test_strangers_stay_apart(operands: str) -> None:
    ran = merged(
        f"""
        input %x : f32[8,8]
        input %y : f32[8,8]
        const %w : f32[8,8]
        const %v : f32[8,8]
        %a : f32[8,8] = matmul(%x, %w)
        %b : f32[8,8] = matmul({operands})
        %c : f32[8,8] = add(%b, %v)
        output %a
        output %c
        """
    )
    assert ran.kinds == ["matmul", "matmul", "add"]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(1, 20), min_size=2, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.sampled_from(["", "relu", "gelu"]),
    st.integers(1, 9),
)
def test_merged_siblings_compute_the_same(
    widths: list[int], biased: list[bool], follower: str, rows: int
) -> None:
    lines = [f"input %x : f32[{rows},12]"]
    body, ends = [], []
    for number, width in enumerate(widths):
        lines.append(f"const %w{number} : f32[12,{width}]")
        operands = f"%x, %w{number}"
        if biased[number]:
            lines.append(f"const %b{number} : f32[{width}]")
            operands += f", %b{number}"
        body.append(f"%y{number} : f32[{rows},{width}] = matmul({operands})")
        end = f"y{number}"
        if follower:
            attributes = " {approximate=none}" if follower == "gelu" else ""
            body.append(f"%z{number} : f32[{rows},{width}] = {follower}(%{end}){attributes}")
            end = f"z{number}"
        ends.append(f"output %{end}")
    ran = merged("\n".join([*lines, *body, *ends]))
    assert ran.kinds.count("matmul") == 1


def test_siblings_whose_joined_result_leaves_the_sram_stay_apart() -> None:
    ran = small(
        """
        input %x : f32[512,64]
        const %w : f32[64,128]
        const %v : f32[64,128]
        %a : f32[512,128] = matmul(%x, %w)
        %b : f32[512,128] = matmul(%x, %v)
        %c : f32[512,128] = exp(%a)
        %d : f32[512,128] = exp(%b)
        output %c
        output %d
        """
    )
    assert "slice" not in ran.text
    (item,) = ran.after.weighed
    assert item.chosen == "separate"


def test_narrow_groups_become_wider_ones_with_zeros_between_them() -> None:
    ran = small(
        GROUPED.format(
            attributes=EIGHT,
            types="",
            operand="%x",
            weights="%w",
            constants="const %w : f32[32,4,3,3]",
        )
    )
    (conv,) = (op for op in ran.after.graph.operators if op.kind == "conv")
    assert conv.integer("group") == 2
    weights = ran.after.constants[conv.inputs[1]]
    assert weights.shape == (32, 16, 3, 3)
    before = ran.before.constants["w"]
    for group in range(8):
        rows, start = slice(4 * group, 4 * group + 4), group % 4 * 4
        assert np.array_equal(weights[rows, start : start + 4], before[rows])
    assert np.count_nonzero(weights) == np.count_nonzero(before)
    assert ran.after.recipe.notes == ("c: 4 as one, of 8 groups",)


EIGHT = "{dilations=[1,1], group=8, pads=[1,1,1,1], strides=[1,1]}"
POINT = "{dilations=[1,1], group=1, pads=[0,0,0,0], strides=[1,1]}"
GROUPED = """
    input %x : f32[1,32,12,12]
    {constants}
    {types}
    %c : f32[1,32,12,12] = conv({operand}, {weights}) {attributes}
    output %c
    """


def test_between_groups_of_quantised_weights_stands_their_zero_point() -> None:
    text = GROUPED.format(
        attributes=EIGHT,
        constants="const %q : i8[32,4,3,3]\nconst %s : f32[32]\nconst %z : i8[32]",
        types="%w : f32[32,4,3,3] = dequantize(%q, %s, %z) {axis=0}",
        operand="%x",
        weights="%w",
    )
    before = draft_of(text)
    editor = GraphEditor(before)
    (conv,) = (op for op in editor.operators.values() if op.kind == "conv")
    assert list(widths(conv, editor)) == [2, 4, 8]
    regroup(conv, 4, editor)
    after = editor.finish()
    verify(after.recipe, after.constants)
    assert_same_meaning(before, after, 1e-5)


ROW = """
    input %x : f32[{batch}1,32]
    input %k : f32[{batch}32,{n}]
    %s : f32[{batch}1,{n}] = matmul(%x, %k)
    %y : f32[{batch}1,{n}] = sigmoid(%s)
    output %y
    """


def test_many_rows_by_columns_are_dot_products_where_the_array_is_slow() -> None:
    ran = small(ROW.format(batch="16,", n=1), "npu_tiny")
    assert ran.kinds == ["reshape", "mul", "reduce_sum", "sigmoid"]
    assert ran.after.recipe.notes == ("s: vector, a product of one row",)
    fused = Fuse().run(ran.after, hardware("npu_tiny"))
    assert [len(group.operators) for group in fused.recipe.groups] == [1, 3]


@pytest.mark.parametrize("batch", ["", "3,"])
@pytest.mark.parametrize("n", [1, 5])
def test_dot_products_compute_the_product(batch: str, n: int) -> None:
    as_dots(ROW.format(batch=batch, n=n))


def test_a_column_of_weights_is_summed_along_the_rows() -> None:
    as_dots(
        """
        input %x : f32[2,7,32]
        const %w : f32[32,1]
        const %b : f32[1]
        %s : f32[2,7,1] = matmul(%x, %w, %b)
        output %s
        """
    )


def test_squeeze_and_excitation_are_dot_products_with_what_follows() -> None:
    ran = as_dots(
        f"""
        input %x : i8[1,16,1,1]
        const %sx : f32[]
        const %w : i8[8,16,1,1]
        const %s : f32[8]
        const %b : f32[8]
        const %o : f32[]
        const %z : i8[]
        %xf : f32[1,16,1,1] = dequantize(%x, %sx) {{axis=-1}}
        %wf : f32[8,16,1,1] = dequantize(%w, %s) {{axis=0}}
        %c : f32[1,8,1,1] = conv(%xf, %wf, %b) {POINT}
        %r : f32[1,8,1,1] = relu(%c)
        %y : i8[1,8,1,1] = quantize(%r, %o, %z) {{axis=-1}}
        output %y
        """
    )
    assert ran.kinds[-5:] == ["reduce_sum", "add", "relu", "quantize", "reshape"]


def as_dots(text: str) -> Ran:
    """The one contraction of a text as dot products, whatever that costs."""
    before = draft_of(text)
    editor = GraphEditor(before)
    (contraction,) = (op for op in before.graph.operators if op.kind in ("matmul", "conv"))
    assert has_one_row(contraction, editor)
    followers, quantize = tail_of(contraction, editor)
    to_dots(contraction, [*followers, *([quantize] if quantize else [])], editor)
    after = editor.finish()
    verify(after.recipe, after.constants)
    assert_same_meaning(before, after, 1e-5)
    return Ran(before, after)


DECODING = """
    g (float[16, 1, 32] x, float[16, 32, 1] k) => (float[16, 1, 1] y) {
      s = MatMul(x, k) y = Sigmoid(s) }"""


def normal(*shape: int) -> Array:
    return np.random.default_rng(3).standard_normal(shape, np.float32)


def test_dot_products_on_the_device() -> None:
    feeds = {"x": normal(16, 1, 32), "k": normal(16, 32, 1)}
    made = compile_and_judge(case_of(parse(DECODING), feeds), hardware("npu_tiny"))
    engines = {str(group.engine) for group in made.recipe.groups}
    assert "tensor_core" not in engines


def test_rows_of_a_batch_share_one_right_operand() -> None:
    model = model_from_text(
        "g (float[6, 5, 32] x) => (float[6, 5, 16] y) { y = MatMul(x, w) }",
        {"w": matrix(np.random.default_rng(4), 32, 16)},
    )
    made = compile_and_judge(case_of(model, {"x": normal(6, 5, 32)}), hardware("npu_tiny"))
    works = [item.contraction for item in made.plan.instructions if item.contraction]
    assert sum(work.m for work in works) == 30
    assert {work.groups for work in works} == {1}


ATTENTION = """
    g (float[16, 64] x) => (float[4, 16, 16] y) {
      heads = Constant <value_ints = [16, 4, 16]> ()
      q = MatMul(x, wq) k = MatMul(x, wk)
      qh = Reshape(q, heads) kh = Reshape(k, heads)
      qt = Transpose <perm = [1, 0, 2]> (qh) kt = Transpose <perm = [1, 2, 0]> (kh)
      s = MatMul(qt, kt) y = Softmax <axis = -1> (s) }"""


@pytest.mark.parametrize(
    ("name", "columns"), [("npu_tiny", 0), ("nvidia_t4", 2), ("rk3588_npu", 2)]
)
def test_heads_of_merged_projections_read_their_columns_in_place(name: str, columns: int) -> None:
    """But for a device on which merging them doesn't pay: there they stay apart."""
    random = np.random.default_rng(4)
    model = model_from_text(
        ATTENTION, {weights: matrix(random, 64, 64) for weights in ("wq", "wk")}
    )
    made = compile_and_judge(case_of(model, {"x": normal(16, 64)}), hardware(name))
    slices = {op.name for op in made.recipe.graph.operators if op.kind == "slice"}
    engines = [g.engine for g in made.recipe.groups if slices & set(g.operators)]
    assert engines == [Engine.NONE] * columns


@pytest.mark.parametrize("stem", "abcdefghijkl")
def test_what_is_tried_follows_no_order_of_hashes(stem: str) -> None:
    """Two slices are equally near to the product, and what reads them equally far."""
    text = """
        input %x : f32[1,64]
        const %w : f32[64,96]
        %STEM : f32[1,96] = matmul(%x, %w)
        %STEM1 : f32[1,48] = slice(%STEM) {starts=[0,0], stops=[1,48], steps=[1,1]}
        %STEM2 : f32[1,48] = slice(%STEM) {starts=[0,48], stops=[1,96], steps=[1,1]}
        %left : f32[1,48] = exp(%STEM1)
        %right : f32[1,48] = exp(%STEM2)
        output %left
        output %right
        """
    editor = GraphEditor(draft_of(text.replace("STEM", stem)))
    product = editor.producers[stem]
    around = surroundings([product], editor)
    assert [op.outputs[0] for op in around] == [stem, f"{stem}1", f"{stem}2", "left", "right"]
