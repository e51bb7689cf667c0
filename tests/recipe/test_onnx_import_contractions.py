"""Matrix products, normalisations and reductions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from stages.recipe.onnx_import import import_model
from tests.recipe.onnx_models import check, host_types, kinds, parse


@pytest.mark.parametrize(
    ("a", "b", "y"),
    [
        ("[2,3]", "[3,4]", "[2,4]"),
        ("[3]", "[3,4]", "[4]"),
        ("[2,3]", "[3]", "[2]"),
        ("[3]", "[3]", "[]"),
        ("[5,2,3]", "[3,4]", "[5,2,4]"),
        ("[2,1,2,3]", "[5,3,4]", "[2,5,2,4]"),
        ("[3]", "[2,3,4]", "[2,4]"),
    ],
)
def test_matmul(a, b, y):
    result = "float" if y == "[]" else f"float{y}"
    graph = check(parse(f"g (float{a} a, float{b} b) => ({result} y) {{ y = MatMul(a, b) }}"))
    assert "matmul" in kinds(graph)


@settings(max_examples=40, deadline=None)
@given(
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([None, (), (1,), (4,), (2, 1), (2, 4)]),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_gemm(trans_a, trans_b, alpha, beta, bias, constant):
    random = np.random.default_rng(3)
    shapes = {"a": (3, 2) if trans_a else (2, 3), "b": (4, 3) if trans_b else (3, 4)}
    if bias is not None:
        shapes["c"] = bias
    fixed = {name for name, is_fixed in zip("abc", constant, strict=True) if is_fixed}
    fixed -= {"a"} if {"a", "b"} <= fixed else set()
    arrays = {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    node = helper.make_node(
        "Gemm", list(shapes), ["y"], transA=trans_a, transB=trans_b, alpha=alpha, beta=beta
    )
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in shapes.items()
            if name not in fixed
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [
            numpy_helper.from_array(np.asarray(arrays[name]), name)
            for name in shapes
            if name in fixed
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    check(model, {name: data for name, data in arrays.items() if name not in fixed})


def test_gemm_with_constant_weights_is_one_matmul():
    model = parse(
        "g (float[2,3] x) => (float[2,2] y) <float[2,3] w = {1,2,3,4,5,6}, float[2] b = {1,2}>"
        "{ y = Gemm<transB=1, alpha=0.5, beta=2.0>(x, w, b) }"
    )
    graph, constants = import_model(model)
    assert kinds(graph) == ["matmul"]
    x, weights, bias = graph.operators[0].inputs
    assert x == "x"
    np.testing.assert_array_equal(constants[weights], np.array([[0.5, 2], [1, 2.5], [1.5, 3]]))
    np.testing.assert_array_equal(constants[bias], np.array([2, 4]))
    assert set(constants) == {weights, bias}


@pytest.mark.parametrize(
    ("equation", "a", "b", "y"),
    [
        ("bchw,cd->bdhw", "[2,3,4,5]", "[3,6]", "[2,6,4,5]"),
        ("bhid,bhjd->bhij", "[2,2,3,4]", "[2,2,5,4]", "[2,2,3,5]"),
        ("ij,jk", "[2,3]", "[3,4]", "[2,4]"),
        ("ij,kl->ijkl", "[2,3]", "[4,2]", "[2,3,4,2]"),
        ("ijk,kl->li", "[2,3,4]", "[4,5]", "[5,2]"),
        ("i,i->", "[4]", "[4]", ""),
    ],
)
def test_einsum(equation, a, b, y):
    text = (
        f'g (float{a} a, float{b} b) => (float{y} y) {{ y = Einsum<equation="{equation}">(a, b) }}'
    )
    graph = check(parse(text))
    assert not host_types(graph)


@pytest.mark.parametrize("equation", ["ij->ji", "ij->i", "ij->"])
def test_einsum_of_one_operand(equation):
    results = {"ij->ji": "[3,2]", "ij->i": "[2]", "ij->": ""}
    text = (
        f"g (float[2,3] a) => (float{results[equation]} y) "
        f'{{ y = Einsum<equation="{equation}">(a) }}'
    )
    assert not host_types(check(parse(text)))


def test_unusual_einsum_runs_on_the_host():
    text = 'g (float[3,3] a) => (float[3] y) { y = Einsum<equation="ii->i">(a) }'
    assert host_types(check(parse(text))) == ["Einsum"]


REDUCTIONS = [
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
]


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axes", ["", "axes=[1],", "axes=[-1, 0],"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, axes, keep):
    rank = {"": 0, "axes=[1],": 2, "axes=[-1, 0],": 1}[axes]
    shapes = {
        (0, 0): "",
        (0, 1): "[1,1,1]",
        (2, 0): "[2,4]",
        (2, 1): "[2,1,4]",
        (1, 0): "[3]",
        (1, 1): "[1,3,1]",
    }
    text = (
        f"g (float[2,3,4] x) => (float{shapes[rank, keep]} y) "
        f"{{ a = Abs(x) y = {name}<{axes} keepdims={keep}>(a) }}"
    )
    graph = check(parse(text))
    assert not host_types(graph)


def test_reduce_sum_and_later_opsets_take_axes_as_operands():
    text = (
        "g (float[2,3,4] x) => (float[2,4] y) <int64[1] a = {-2}> "
        "{ y = ReduceSum<keepdims=0>(x, a) }"
    )
    assert kinds(check(parse(text))) == ["reduce_sum"]
    later = text.replace("ReduceSum", "ReduceMax")
    assert kinds(check(parse(later, opset=18))) == ["reduce_max"]


def test_reduction_of_nothing_is_dropped():
    text = (
        "g (float[2,3] x) => (float[2,3] y) <int64[0] a = {}> "
        "{ s = ReduceSum<noop_with_empty_axes=1>(x, a) y = Relu(s) }"
    )
    assert kinds(check(parse(text))) == ["relu"]


@pytest.mark.parametrize("axis", [-1, 1, 2])
def test_layer_norm(axis):
    shapes = {-1: "[4]", 1: "[3,4]", 2: "[4]"}
    text = (
        f"g (float[2,3,4] x, float{shapes[axis]} s, float{shapes[axis]} b) => (float[2,3,4] y) "
        f"{{ y = LayerNormalization<axis={axis}, epsilon=0.001>(x, s, b) }}"
    )
    graph = check(parse(text))
    assert kinds(graph) == ["layer_norm"]
    assert graph.operators[0].attributes["axis"] == axis % 3


def test_layer_norm_whose_moments_are_read():
    text = (
        "g (float[2,3,4] x, float[4] s) => (float[2,3,4] y, float[2,3,1] m, float[2,3,1] d) "
        "{ y, m, d = LayerNormalization<axis=-1>(x, s) }"
    )
    graph = check(parse(text))
    assert not host_types(graph)
    assert kinds(graph)[-1] == "layer_norm"


def test_batch_and_instance_norm():
    text = (
        "g (float[2,3,4,4] x, float[3] s, float[3] b, float[3] m, float[3] v) "
        "=> (float[2,3,4,4] y) "
        "{ w = Abs(v) n = BatchNormalization(x, s, b, m, w) y = InstanceNormalization(n, s, b) }"
    )
    assert kinds(check(parse(text), tolerance=1e-4)) == ["abs", "batch_norm", "instance_norm"]


@pytest.mark.parametrize(("opset", "count"), [(18, 2), (21, 4)])
def test_group_norm(opset, count):
    text = (
        f"g (float[2,4,3,3] x, float[{count}] s, float[{count}] b) => (float[2,4,3,3] y) "
        "{ y = GroupNormalization<num_groups=2>(x, s, b) }"
    )
    graph = check(parse(text, opset=opset), tolerance=1e-4)
    assert "instance_norm" in kinds(graph)


def test_rms_norm_of_onnx_runtime():
    text = (
        "g (float[2,3,4] x, float[4] s) => (float[2,3,4] y) "
        "{ y = SimplifiedLayerNormalization<axis=-1, epsilon=0.001>(x, s) }"
    )
    assert not host_types(check(parse(text)))


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization(p):
    text = f"g (float[2,3] x) => (float[2,3] y) {{ y = LpNormalization<p={p}, axis=1>(x) }}"
    assert not host_types(check(parse(text)))


def test_lp_normalization_of_zeros_is_zero():
    text = "g (float[2,3] x) => (float[2,3] y) { y = LpNormalization<axis=1>(x) }"
    x = np.array([[0, 0, 0], [3, 0, 4]], np.float32)
    check(parse(text), {"x": x}, wanted=[np.array([[0, 0, 0], [0.6, 0, 0.8]], np.float32)])
