"""Exported recipes: number formats, functions, names and decisions."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from stages.errors import CompileError
from stages.recipe.decisions import Allocation, Engine, Group, Lifetime, Recipe, Target, Tile
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.recipe.onnx_export import export_recipe, host_call_model, operator_to_nodes
from stages.recipe.onnx_export.table import EXPORTERS
from stages.recipe.onnx_import import import_model
from stages.recipe.semantics import interpret
from stages.tensors import DType, Layout, LayoutKind, TensorType
from tests.recipe.onnx_models import assert_close, check, kinds, parse, recipe_of, run_model


def test_every_kind_has_an_exporter():
    assert set(EXPORTERS) == set(Kind)


def compare(operator, types, constants, feeds, tolerance=1e-5, steps=0):
    """One operator: the interpreter against the exported model."""
    inputs = tuple(name for name in operator.operands if name not in constants)
    graph = Graph("g", inputs, operator.outputs, tuple(constants), types, (operator,))
    meant = interpret(graph, constants, feeds)
    model = export_recipe(recipe_of(graph), constants)
    onnx.checker.check_model(model)
    for name, result in zip(graph.outputs, run_model(model, feeds), strict=True):
        assert_close(result, meant[name], tolerance, name, steps)


@pytest.mark.parametrize("target", [DType.I8, DType.U8, DType.I16, DType.U16, DType.I32])
@pytest.mark.parametrize("source", [DType.F32, DType.F16, DType.F64])
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("has_zero_point", [True, False])
def test_quantize(target, source, axis, has_zero_point):
    random = np.random.default_rng(2)
    count = {-1: (), 0: (3,), 1: (4,)}[axis]
    scale = np.asarray(random.uniform(0.01, 0.1, count), np.float32)
    constants = {"s": scale}
    types = {
        "x": TensorType(source, (3, 4)),
        "s": TensorType(DType.F32, count),
        "z": TensorType(target, count),
        "y": TensorType(target, (3, 4)),
    }
    if has_zero_point:
        constants["z"] = np.asarray(random.integers(0, 9, count)).astype(target.numpy)
    operator = Operator("q", Kind.QUANTIZE, ("x", *constants), ("y",), {"axis": axis})
    x = (random.standard_normal((3, 4)) * 3).astype(source.numpy)
    compare(operator, types, constants, {"x": x}, steps=1)


@pytest.mark.parametrize("source", [DType.I8, DType.U8, DType.I16, DType.U16, DType.I32])
@pytest.mark.parametrize("scale_type", [DType.F32, DType.F16, DType.F64])
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("has_zero_point", [True, False])
def test_dequantize(source, scale_type, axis, has_zero_point):
    random = np.random.default_rng(2)
    count = {-1: (1,), 0: (3,), 1: (4,)}[axis]
    constants = {"s": random.uniform(0.01, 0.1, count).astype(scale_type.numpy)}
    types = {
        "x": TensorType(source, (3, 4)),
        "s": TensorType(scale_type, count),
        "z": TensorType(source, count),
        "y": TensorType(scale_type, (3, 4)),
    }
    if has_zero_point:
        constants["z"] = random.integers(0, 9, count).astype(source.numpy)
    operator = Operator("d", Kind.DEQUANTIZE, ("x", *constants), ("y",), {"axis": axis})
    x = random.integers(0, 100, (3, 4)).astype(source.numpy)
    compare(operator, types, constants, {"x": x}, 2e-3 if scale_type is DType.F16 else 1e-5)


@pytest.mark.parametrize("target", [d for d in DType if d is not DType.BF16])
@pytest.mark.parametrize("source", [DType.F32, DType.F16, DType.I8, DType.I64, DType.BOOL])
def test_cast(source, target):
    types = {"x": TensorType(source, (5,)), "y": TensorType(target, (5,))}
    x = np.array([0, 1, 3.7, 5.2, 100]).astype(source.numpy)
    compare(Operator("c", Kind.CAST, ("x",), ("y",), {}), types, {}, {"x": x})


@pytest.mark.parametrize("indices", [DType.I32, DType.I64, DType.U8])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I8, DType.BOOL])
def test_gather(indices, dtype):
    types = {
        "t": TensorType(dtype, (3, 4)),
        "i": TensorType(indices, (2,)),
        "y": TensorType(dtype, (3, 2)),
    }
    table = np.arange(12).reshape(3, 4).astype(dtype.numpy)
    operator = Operator("g", Kind.GATHER, ("t", "i"), ("y",), {"axis": 1})
    compare(operator, types, {}, {"t": table, "i": np.array([3, 0]).astype(indices.numpy)})


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I8, DType.I64, DType.BOOL])
def test_where(dtype):
    types = {"c": TensorType(DType.BOOL, (3,))}
    types |= dict.fromkeys("abr", TensorType(dtype, (3,)))
    feeds = {
        "c": np.array([True, False, True]),
        "a": np.array([1, 0, 1]).astype(dtype.numpy),
        "b": np.array([0, 1, 1]).astype(dtype.numpy),
    }
    compare(Operator("w", Kind.WHERE, ("c", "a", "b"), ("r",), {}), types, {}, feeds)


def test_operands_of_several_float_widths():
    types = {
        "x": TensorType(DType.F16, (2, 4)),
        "s": TensorType(DType.F32, (4,)),
        "y": TensorType(DType.F16, (2, 4)),
    }
    random = np.random.default_rng(0)
    feeds = {"x": random.standard_normal((2, 4)).astype(np.float16)}
    constants = {"s": np.ones(4, np.float32)}
    operator = Operator("n", Kind.LAYER_NORM, ("x", "s"), ("y",), {"axis": 1, "epsilon": 1e-5})
    compare(operator, types, constants, feeds, 2e-3)
    operator = Operator("m", Kind.MUL, ("x", "s"), ("y",), {})
    compare(operator, types, constants, feeds, 2e-3)


def test_resize_by_scales_that_are_no_ratio_of_extents():
    types = {"x": TensorType(DType.F32, (1, 1, 5, 5)), "y": TensorType(DType.F32, (1, 1, 6, 7))}
    attributes = {
        "mode": "linear",
        "coordinates": "half_pixel",
        "nearest": "floor",
        "scales": (1.0, 1.0, 1.3, 1.5),
    }
    x = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    compare(Operator("r", Kind.RESIZE, ("x",), ("y",), attributes), types, {}, {"x": x})


def test_symmetric_resize_is_refused_where_opset_17_cannot_say_it():
    types = {"x": TensorType(DType.F32, (1, 1, 5, 5)), "y": TensorType(DType.F32, (1, 1, 6, 10))}
    attributes = {
        "mode": "linear",
        "coordinates": "half_pixel_symmetric",
        "nearest": "floor",
        "scales": (1.0, 1.0, 1.3, 2.0),
    }
    operator = Operator("r", Kind.RESIZE, ("x",), ("y",), attributes)
    with pytest.raises(CompileError, match="half_pixel_symmetric has no form in opset 17"):
        operator_to_nodes(operator, types)


def tiny_recipe():
    """Two groups with every kind of decision, and their constants."""
    model = parse(
        "g (float[1,2,4,4] x) => (float[1,8,2,2] y) "
        "<float[8,2,3,3] w = {0}, float[8] b = {1,2,3,4,5,6,7,8}> "
        "{ c = Conv<strides=[2,2], pads=[1,1,1,1]>(x, w, b) r = Relu(c) y = Exp(r) }"
    )
    del model.graph.initializer[0]
    weights = np.random.default_rng(1).standard_normal((8, 2, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    graph, constants = import_model(model)
    names = [operator.name for operator in graph.operators]
    tile = Tile((1, 8, 2, 2), 18, (0, 1, 2, 3), 2)
    groups = (
        Group("conv 1/a", tuple(names[:2]), Engine.TENSOR_CORE, tile=tile),
        Group("conv 1_a", tuple(names[2:]), Engine.HOST, reason="exp isn't in the list"),
    )
    layout = Layout(LayoutKind.NC1HWC2, 8)
    allocation = Allocation("sram", 1024, 64, Lifetime.SCOPED, 0, 2)
    recipe = Recipe(
        graph, Target("npu_tiny", "1.0"), groups, {"r": layout}, {"r": allocation}, ("note",)
    )
    return recipe, constants


def test_each_group_is_a_function_with_its_decisions():
    recipe, constants = tiny_recipe()
    model = export_recipe(recipe, constants)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["conv_1_a", "conv_1_a_2"]
    assert [node.name for node in model.graph.node] == ["conv 1/a", "conv 1_a"]
    assert [function.name for function in model.functions] == ["conv_1_a", "conv_1_a_2"]
    assert list(model.functions[0].input) == ["x", "w", "b"]
    assert list(model.functions[0].output) == ["r"]
    first = {entry.key: entry.value for entry in model.graph.node[0].metadata_props}
    assert first["recipe.engine"] == "tensor_core"
    assert first["recipe.tile"] == "1,8,2,2"
    second = {entry.key: entry.value for entry in model.graph.node[1].metadata_props}
    assert second["recipe.reason"] == "exp isn't in the list"
    (value,) = model.graph.value_info
    about = {entry.key: entry.value for entry in value.metadata_props}
    assert about["recipe.layout"] == "nc1hwc2/8"
    assert about["recipe.memory"] == "sram"
    assert about["recipe.live"] == "[0,2)"


def test_export_computes_what_the_recipe_means_and_is_the_same_twice():
    recipe, constants = tiny_recipe()
    model = export_recipe(recipe, constants)
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype(np.float32)
    meant = interpret(recipe.graph, constants, {"x": x})
    assert_close(run_model(model, {"x": x})[0], meant["y"], 1e-5, "y")
    again = export_recipe(recipe, constants)
    assert again.SerializeToString(deterministic=True) == model.SerializeToString(
        deterministic=True
    )


def test_an_exported_recipe_can_be_imported_again():
    recipe, constants = tiny_recipe()
    graph, _ = import_model(export_recipe(recipe, constants))
    assert kinds(graph) == ["conv", "relu", "exp"]


def test_host_calls_in_functions_see_the_names_they_know():
    text = (
        "g (bool c, float[3] x) => (float[3] y) { d = Relu(x) e = Identity(d) "
        "r = If (c) <then_branch = t () => (float[3] a) { a = Neg(e) }, "
        "else_branch = f () => (float[3] b) { b = Exp(x) }> y = Identity(r) }"
    )
    graph = check(parse(text), {"c": np.array(True), "x": np.ones(3, np.float32)})
    call = graph.operators[-1]
    assert call.outputs == ("y",)
    assert call.attributes["results"] == ("r",)
    types = [graph.types[name] for name in call.inputs]
    model = host_call_model(call, types, [graph.types["y"]])
    onnx.checker.check_model(model)
    assert [value.name for value in model.graph.input] == ["c", "e", "x"]
    assert [value.name for value in model.graph.output] == ["r"]


def test_values_inside_a_group_keep_float32_and_casts_round():
    types = dict.fromkeys(["x", "a", "y"], TensorType(DType.F16, (1,)))
    steps = (
        Operator("a", Kind.MUL, ("x", "x"), ("a",), {}),
        Operator("b", Kind.SUB, ("a", "x"), ("y",), {}),
    )
    graph = Graph("g", ("x",), ("y",), (), types, steps)
    x = np.array([0.0999], np.float16)
    wide = np.float32(x) * np.float32(x) - np.float32(x)
    (result,) = run_model(export_recipe(recipe_of(graph, 2), {}), {"x": x})
    np.testing.assert_array_equal(result, wide.astype(np.float16))
    rounded = Operator("r", Kind.CAST, ("a",), ("r",), {})
    types = {**types, "r": types["x"], "a": TensorType(DType.F32, (1,))}
    steps = (steps[0], rounded, replace(steps[1], inputs=("r", "x")))
    graph = Graph("g", ("x",), ("y",), (), types, steps)
    narrow = (np.float32(x) * np.float32(x)).astype(np.float16).astype(np.float32) - np.float32(x)
    (result,) = run_model(export_recipe(recipe_of(graph, 3), {}), {"x": x})
    np.testing.assert_array_equal(result, narrow.astype(np.float16))


def test_parts_of_a_split_that_leave_the_group_are_narrow_again():
    types = dict.fromkeys(["x", "w"], TensorType(DType.F16, (4,)))
    types |= dict.fromkeys(["a", "b", "y"], TensorType(DType.F16, (2,)))
    steps = (
        Operator("m", Kind.MUL, ("x", "x"), ("w",), {}),
        Operator("s", Kind.SPLIT, ("w",), ("a", "b"), {"axis": 0, "sizes": (2, 2)}),
        Operator("n", Kind.NEG, ("a",), ("y",), {}),
    )
    graph = Graph("g", ("x",), ("y", "b"), (), types, steps)
    x = np.array([0.5, 1.5, 2.5, 3.5], np.float16)
    y, b = run_model(export_recipe(recipe_of(graph, 3), {}), {"x": x})
    np.testing.assert_array_equal(y, -(x * x)[:2])
    np.testing.assert_array_equal(b, (x * x)[2:])


def test_names_that_look_like_intermediate_ones_do_not_clash():
    types = dict.fromkeys(["x", "y", "y:sigmoid1", "y:wide1"], TensorType(DType.F16, (2,)))
    operators = (
        Operator("a", Kind.EXP, ("x",), ("y:sigmoid1",), {}),
        Operator("b", Kind.SILU, ("y:sigmoid1",), ("y",), {}),
    )
    graph = Graph("g", ("x",), ("y",), (), types, operators)
    feeds = {"x": np.array([0.5, 1.5], np.float16)}
    model = export_recipe(recipe_of(graph), {})
    assert_close(run_model(model, feeds)[0], interpret(graph, {}, feeds)["y"], 2e-3, "y")


def test_host_calls_of_one_group_may_know_one_value_by_different_names():
    """A compiler may narrow a value: the calls then read copies under other names."""
    text = (
        "g (float[3] x) => (float[3] y, float[3] z) "
        "{ r = Relu(x) y = Hardmax<axis=0>(r) z = CumSum(r, a) }"
    )
    model = parse(text.replace("{ r", "<int64 a = {0}> { r", 1))
    graph, constants = import_model(model)
    relu, first, second = graph.operators
    types = {**graph.types, "r": TensorType(DType.F16, (3,))}
    types |= dict.fromkeys(("wide 1", "wide 2"), TensorType(DType.F32, (3,)))
    operators = (
        relu,
        Operator("up 1", Kind.CAST, ("r",), ("wide 1",), {}),
        Operator("up 2", Kind.CAST, ("r",), ("wide 2",), {}),
        replace(first, inputs=("wide 1",)),
        replace(second, inputs=("wide 2", "a")),
    )
    narrow = replace(graph, types=types, operators=operators)
    exported = export_recipe(recipe_of(narrow, 5), constants)
    onnx.checker.check_model(exported)
    x = np.array([0.5, -1, 2], np.float32)
    y, z = run_model(exported, {"x": x})
    np.testing.assert_array_equal(y, [0, 0, 1])
    np.testing.assert_array_equal(z, [0.5, 0.5, 2.5])


def test_a_subgraph_gives_way_where_it_would_hide_a_value():
    text = (
        "g (bool c, float[3] x) => (float[3] y) { h = Relu(x) "
        "y = If (c) <then_branch = t () => (float[3] a) { k = Neg(h) a = Exp(k) }, "
        "else_branch = f () => (float[3] b) { b = Exp(h) }> }"
    )
    graph, constants = import_model(parse(text))
    relu, call = graph.operators
    types = {**graph.types, "k": graph.types["h"]}
    del types["h"]
    operators = (replace(relu, outputs=("k",)), replace(call, inputs=("c", "k")))
    graph = replace(graph, types=types, operators=operators)
    exported = export_recipe(recipe_of(graph), constants)
    onnx.checker.check_model(exported)
    x = np.array([0.5, -1, 2], np.float32)
    (y,) = run_model(exported, {"c": np.array(True), "x": x})
    np.testing.assert_allclose(y, np.exp(-np.maximum(x, 0)), rtol=1e-6)
