"""Models that the compiler once got wrong: each compiles, keeps the rules, and computes right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper

from stages.compiler.pipeline import Compiled
from stages.errors import DoesNotFitError
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine
from tests.compiler.judged import case_of, compile_and_judge
from tests.compiler.model_builder import ModelBuilder
from tests.compiler.specs import NAMES, hardware, with_sram
from tests.recipe.onnx_models import parse

RANDOM = np.random.default_rng(5)


def compiled(text: str, shape: tuple[int, ...], name: str) -> Compiled:
    """A model with one float input, in onnx's text form, compiled and judged."""
    feeds = {"x": RANDOM.standard_normal(shape).astype(np.float32)}
    return compile_and_judge(case_of(parse(text), feeds), hardware(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_views_alone_is_a_plan_without_instructions(name: str) -> None:
    made = compiled(
        """g (float[2, 6] x) => (float[3, 4] y) {
             s = Constant <value_ints = [3, 4]> () y = Reshape(x, s) }""",
        (2, 6),
        name,
    )
    assert made.plan.instructions == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_slice_that_runs_backwards_moves_row_by_row(name: str) -> None:
    made = compiled(
        """g (float[2, 9, 5] x) => (float[2, 4, 5] y) {
             from = Constant <value_ints = [8]> () to = Constant <value_ints = [0]> ()
             axis = Constant <value_ints = [1]> () step = Constant <value_ints = [-2]> ()
             y = Slice(x, from, to, axis, step) }""",
        (2, 9, 5),
        name,
    )
    engines = {g.engine for g in made.recipe.groups if "slice" in g.name.lower()}
    assert Engine.HOST not in engines or name == "ethos_u65_512"


def test_a_slice_that_reverses_many_rows_goes_to_the_host_and_says_why() -> None:
    made = compiled(
        """g (float[2, 300] x) => (float[2, 300] y) {
             from = Constant <value_ints = [299]> () to = Constant <value_ints = [-301]> ()
             axis = Constant <value_ints = [1]> () step = Constant <value_ints = [-1]> ()
             y = Slice(x, from, to, axis, step) }""",
        (2, 300),
        "npu_tiny",
    )
    assert any("reverses 300 rows" in group.reason for group in made.recipe.fallbacks)


@pytest.mark.parametrize("name", ["npu_tiny/8K", "rk3588_npu"])
def test_groups_with_a_channel_multiplier_are_cut_at_whole_blocks(name: str) -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.input((1, 8, 6, 6))
    w = builder.constant(builder.normal((16, 1, 3, 3), 0.3))
    made = builder.add("Conv", [x.name, w], [("f32", (1, 16, 4, 4))], group=8)
    compile_and_judge(case_of(builder.model(made), builder.feeds), hardware(name))


def test_a_core_that_cannot_add_to_its_sums_contracts_in_one_step() -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.input((24, 1568))
    parameters = [builder.constant(np.float32(4 / 127)), builder.constant(np.int8(0))]
    (stored,) = builder.add("QuantizeLinear", [x.name, *parameters], [("i8", x.shape)])
    (left,) = builder.add("DequantizeLinear", [stored.name, *parameters], [("f32", x.shape)])
    weights = builder.constant(builder.random.integers(-127, 128, (1568, 16)).astype(np.int8))
    (right,) = builder.add("DequantizeLinear", [weights, *parameters], [("f32", (1568, 16))])
    (product,) = builder.add("MatMul", [left.name, right.name], [("f32", (24, 16))])
    coarse = [builder.constant(np.float32(0.5)), parameters[1]]
    made = builder.add("QuantizeLinear", [product.name, *coarse], [("i8", (24, 16))])
    case = case_of(builder.model(made), builder.feeds)
    compiled = compile_and_judge(case, with_sram(hardware("ethos_u65_512"), 24 * 1024))
    (group,) = (g for g in compiled.recipe.groups if g.engine is Engine.TENSOR_CORE)
    assert group.tile is not None
    assert group.tile.reduction == 1568


@pytest.mark.parametrize("name", ["npu_tiny", "nvidia_t4"])
def test_a_constant_that_is_joined_takes_the_layout_of_the_others(name: str) -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.input((1, 8, 6, 6))
    w = builder.constant(builder.normal((12, 8, 1, 1), 0.3))
    (part,) = builder.add("Conv", [x.name, w], [("f32", (1, 12, 6, 6))])
    extra = builder.constant(builder.normal((2, 12, 6, 6)))
    made = builder.add("Concat", [extra, part.name], [("f32", (3, 12, 6, 6))], axis=0)
    made += builder.add("Concat", [part.name, extra], [("f32", (3, 12, 6, 6))], axis=0)
    compile_and_judge(case_of(builder.model(made), builder.feeds), hardware(name))


def test_a_scalar_goes_through_a_sigmoid() -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.input((3, 5))
    (mean,) = builder.add("ReduceMean", [x.name], [("f32", ())], axes=[0, 1], keepdims=0)
    made = [builder.float_like("Sigmoid", mean)]
    compile_and_judge(case_of(builder.model(made), builder.feeds), hardware("npu_tiny"))


@pytest.mark.parametrize("name", NAMES)
def test_an_output_that_is_a_view_lives_to_the_end(name: str) -> None:
    compiled(
        """g (float[2, 6] x) => (int64[1, 2] y, float[2, 6] z) {
             shape = Constant <value_ints = [1, 2]> ()
             a = ArgMax <axis = 1, keepdims = 1> (x) y = Reshape(a, shape)
             b = Cast <to = 1> (a) c = Add(x, b) d = Sigmoid(c) z = Tanh(d) }""",
        (2, 6),
        name,
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_point_is_moved_in_the_layout_of_where_it_goes(name: str) -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.input((2, 8, 3, 5))
    w = builder.constant(builder.normal((16, 8, 1, 1), 0.3))
    (c,) = builder.add("Conv", [x.name, w], [("f32", (2, 16, 3, 5))])
    (point,) = builder.add("GlobalAveragePool", [c.name], [("f32", (2, 16, 1, 1))])
    target = builder.constant(np.array([2, 16, 1, 3], np.int64))
    made = builder.add("Expand", [point.name, target], [("f32", (2, 16, 1, 3))])
    soft = builder.float_like("Softmax", point, axis=1)
    made += builder.add("Concat", [soft.name, point.name], [("f32", (2, 32, 1, 1))], axis=1)
    ends = [builder.constant(np.array([number], np.int64)) for number in (3, 12, 1)]
    made += builder.add("Slice", [point.name, *ends], [("f32", (2, 9, 1, 1))])
    compile_and_judge(case_of(builder.model(made), builder.feeds), hardware(name))


@pytest.mark.parametrize("operator", ["Mul", "Add", "Sub", "Div", "Max"])
def test_a_number_in_the_first_place_has_a_type_that_the_device_takes(operator: str) -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.input((2, 70))
    base = builder.float_like("Sigmoid", x)
    made = builder.add(operator, [builder.constant(0.5), base.name], [("f32", x.shape)])
    compile_and_judge(case_of(builder.model(made), builder.feeds), hardware("npu_tiny"))


@pytest.mark.parametrize("name", ["npu_tiny/8K", "npu_tiny/16K", "rk3588_npu"])
@pytest.mark.parametrize("operator", ["Conv", "MaxPool", "MatMul", "Transpose"])
def test_a_value_that_a_group_reads_in_two_ways_has_two_tiles(operator: str, name: str) -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.input((1, 16, 30, 30))
    attributes: dict[str, object] = {}
    names = [x.name]
    if operator == "Conv":
        attributes = {"group": 16, "pads": [1, 1, 1, 1]}
        names.append(builder.constant(builder.normal((16, 1, 3, 3), 0.3)))
    elif operator == "MaxPool":
        attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    elif operator == "MatMul":
        names.append(x.name)
    else:
        attributes = {"perm": [0, 1, 3, 2]}
    (part,) = builder.add(operator, names, [("f32", x.shape)], **attributes)
    made = [builder.float_like("Add", part, x.name)]
    compile_and_judge(case_of(builder.model(made), builder.feeds), hardware(name))


def test_two_dequantizes_of_one_value_have_two_tiles() -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.input((1, 16, 40, 40))
    parameters = [builder.constant(np.float32(4 / 127)), builder.constant(np.int8(0))]
    (stored,) = builder.add("QuantizeLinear", [x.name, *parameters], [("i8", x.shape)])
    (left,) = builder.add("DequantizeLinear", [stored.name, *parameters], [("f32", x.shape)])
    w = builder.constant(builder.random.integers(-127, 128, (16, 16, 3, 3)).astype(np.int8))
    small = [builder.constant(np.float32(1e-3)), parameters[1]]
    (weights,) = builder.add("DequantizeLinear", [w, *small], [("f32", (16, 16, 3, 3))])
    (part,) = builder.add("Conv", [left.name, weights.name], [("f32", x.shape)], pads=[1] * 4)
    total = builder.float_like("Add", part, left.name)
    made = builder.add("QuantizeLinear", [total.name, *parameters], [("i8", x.shape)])
    compile_and_judge(case_of(builder.model(made), builder.feeds), hardware("npu_tiny/16K"))


def test_elements_are_aligned_where_the_memory_asks_for_less() -> None:
    spec = hardware("npu_tiny")
    loose = replace(
        spec,
        sram=replace(spec.sram, alignment_bytes=1),
        ddr=replace(spec.ddr, alignment_bytes=1),
    )
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.input((3, 7))
    (mask,) = builder.add("Less", [x.name, builder.constant(0.5)], [("bool", x.shape)])
    made = [mask, builder.float_like("Sigmoid", x)]
    compile_and_judge(case_of(builder.model(made), builder.feeds), loose)


def without(kind: str, sram_bytes: int = 16 * 1024) -> HardwareSpec:
    """npu_tiny with little memory, and one operator fewer."""
    spec = with_sram(hardware("npu_tiny"), sram_bytes)
    operators = {name: item for name, item in spec.operators.items() if name != kind}
    return replace(spec, operators=operators)


def test_a_cast_from_a_type_that_the_device_lacks_begins_on_the_host() -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.input((3, 7))
    (wide,) = builder.add("Cast", [x.name], [("f64", x.shape)], to=11)
    (gate,) = builder.add("Sigmoid", [wide.name], [("f64", x.shape)])
    (narrow,) = builder.add("Cast", [gate.name], [("f32", x.shape)], to=1)
    made = [builder.float_like("Tanh", narrow)]
    compile_and_judge(case_of(builder.model(made), builder.feeds), without("sigmoid"))


def test_a_maximum_is_taken_whole_where_the_device_cannot_join_its_parts() -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.input((1, 9000))
    made = builder.add("ReduceMax", [x.name], [("f32", (1, 1))], axes=[1], keepdims=1)
    case = case_of(builder.model(made), builder.feeds)
    compile_and_judge(case, without("exp"))
    with pytest.raises(DoesNotFitError, match="its smallest tile needs"):
        compile_and_judge(case, without("maximum"))
    compile_and_judge(case, without("maximum", 64 * 1024))


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("most", [16, 30, 64, 100])
def test_every_tile_of_a_transposed_convolution_keeps_to_the_limits(stride: int, most: int) -> None:
    spec = hardware("npu_tiny")
    spec = replace(spec, tensor_core=replace(spec.tensor_core, max_m=most))
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.input((1, 8, 9, 11))
    w = builder.constant(builder.normal((8, 8, 4, 4), 0.1))
    shape = (1, 8, 8 * stride + 4, 10 * stride + 4)
    made = builder.add("ConvTranspose", [x.name, w], [("f32", shape)], strides=[stride, stride])
    compile_and_judge(case_of(builder.model(made), builder.feeds), spec)


def test_what_a_kernel_adds_is_called_like_no_value_of_the_model() -> None:
    """A sum that is made in steps has an accumulator, parts, and operators that join them."""
    shapes = {"x": [16, 4096], "w": [4096, 8], "m.sum": [16, 8], "m.part": [16, 8]}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="n"),
        helper.make_node("Add", ["m", "m.sum"], ["m.sum.next"], name="n.join"),
        helper.make_node("Mul", ["m.sum.next", "m.part"], ["y"], name="n.join.join"),
    ]
    values = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in {**shapes, "y": [16, 8]}.items()
    }
    inputs = [values[name] for name in shapes]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, [values["y"]]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    feeds = {
        name: RANDOM.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }
    made = compile_and_judge(case_of(model, feeds), with_sram(hardware("npu_tiny"), 16 * 1024))
    added = {value for kernel in made.plan.kernels for value in kernel.types} - {*values, "m"}
    assert {"m.sum.1", "m.part.1", "m.sum.next.1"} <= added
