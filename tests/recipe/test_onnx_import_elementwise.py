"""Elementwise operators, activations, casts: import, meaning and export agree with ONNX Runtime."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.elementwise import DIRECT
from tests.recipe.onnx_models import check, host_types, kinds, parse

COMPARISONS = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}
LOGICAL = {"And", "Or", "Xor", "Not"}
THREE = {"Where"}
UNARY = {
    "Neg",
    "Abs",
    "Exp",
    "Log",
    "Sqrt",
    "Reciprocal",
    "Erf",
    "Sin",
    "Cos",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Not",
    "IsNaN",
}


@pytest.mark.parametrize("name", sorted([*DIRECT, "Mul"]))
def test_direct(name):
    element = "bool" if name in LOGICAL else "float"
    result = "bool" if name in COMPARISONS | LOGICAL | {"IsNaN"} else "float"
    operands = dict.fromkeys([*DIRECT, "Mul"], 2) | dict.fromkeys(UNARY, 1) | {"Where": 3}
    names = ["a", "b", "c"][: operands[name]]
    shapes = ["[2,3,4]", "[3,1]", "[4]"]
    elements = ["bool", "float", "float"] if name == "Where" else [element] * 3
    given = ", ".join(f"{e}{s} {n}" for n, s, e in zip(names, shapes, elements, strict=False))
    model = parse(f"g ({given}) => ({result}[2,3,4] y) {{ y = {name}({', '.join(names)}) }}")
    graph = check(model)
    assert kinds(graph) == [str((DIRECT | {"Mul": Kind.MUL})[name])]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = Relu(x)", ["relu"]),
        ("y = Tanh(x)", ["tanh"]),
        ("y = Sigmoid(x)", ["sigmoid"]),
        ("y = HardSwish(x)", ["hard_swish"]),
        ("y = HardSigmoid<alpha=0.3, beta=0.4>(x)", ["hard_sigmoid"]),
        ("y = LeakyRelu<alpha=0.2>(x)", ["leaky_relu"]),
        ("y = Elu<alpha=0.7>(x)", ["elu"]),
        ("y = Selu(x)", ["selu"]),
        ("y = Softplus(x)", ["softplus"]),
        ("y = Softsign(x)", ["softsign"]),
        ("y = Celu(x)", ["elu"]),
        ("y = Celu<alpha=0.5>(x)", ["div", "elu", "mul"]),
        ("y = ThresholdedRelu<alpha=0.3>(x)", ["greater", "where"]),
        ("y = Softmax(x)", ["softmax"]),
        ("y = LogSoftmax<axis=1>(x)", ["log_softmax"]),
        ("y = Sum(x, x, x)", ["add", "add"]),
        ("y = Mean(x, x, x)", ["add", "add", "div"]),
        ("y = Max(x, x)", ["maximum"]),
        ("y = Min(x, x, x)", ["minimum", "minimum"]),
        ("y = Identity(x)", ["identity"]),
        ("y = Clip(x)", ["clip"]),
        ("low = Constant<value_float=-0.5>() y = Clip(x, low)", ["clip"]),
        ("high = Constant<value_float=0.5>() y = Clip(x, , high)", ["clip"]),
        ("low = ReduceMin<keepdims=0>(x) y = Clip(x, low)", ["reduce_min", "maximum"]),
        ("top = ReduceMean<keepdims=0>(x) y = Clip(x, , top)", ["reduce_mean", "minimum"]),
        ("two = Constant<value_float=2.0>() y = Pow(x, two)", ["pow"]),
        ("two = Constant<value_int=2>() y = Pow(x, two)", ["pow"]),
        ("y = Mod<fmod=1>(x, x)", ["mod"]),
    ],
)
def test_activation(text, expected):
    graph = check(parse(f"g (float[2,3,4] x) => (float[2,3,4] y) {{ {text} }}"))
    assert kinds(graph) == expected


@pytest.mark.parametrize("name", ["Mish", "Gelu", 'Gelu<approximate="tanh">'])
def test_activations_of_later_opsets(name):
    model = parse(f"g (float[2,3] x) => (float[2,3] y) {{ y = {name}(x) }}", opset=20)
    assert len(check(model).operators) == 1


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_before_opset_13_flattens(axis):
    text = f"g (float[2,3,4] x) => (float[2,3,4] y) {{ y = Softmax<axis={axis}>(x) }}"
    graph = check(parse(text, opset=11))
    assert "softmax" in kinds(graph)


def test_clip_before_opset_11_has_attributes():
    text = "g (float[6] x) => (float[6] y) { y = Clip<min=-0.5, max=0.25>(x) }"
    graph = check(parse(text, opset=9))
    assert graph.operators[0].attributes == {"min": -0.5, "max": 0.25}


def test_clip_with_crossed_bounds_gives_the_upper_one():
    model = parse(
        "g (float[6] x) => (float[6] y) <float low = {0.5}, float high = {-0.5}>"
        "{ y = Clip(x, low, high) }"
    )
    check(model)


@pytest.mark.parametrize("signs", [(1, 1), (1, 0), (0, 1)])
def test_is_inf(signs):
    positive, negative = signs
    model = parse(
        "g (float[4] x) => (bool[4] y) "
        f"{{ y = IsInf<detect_positive={positive}, detect_negative={negative}>(x) }}"
    )
    feeds = {"x": np.array([1, np.inf, -np.inf, np.nan], np.float32)}
    assert "equal" in kinds(check(model, feeds))


@pytest.mark.parametrize("name", ["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Pow"])
@pytest.mark.parametrize("element", ["int32", "int64"])
def test_integers(name, element):
    model = parse(f"g ({element}[6] a, {element}[6] b) => ({element}[6] y) {{ y = {name}(a, b) }}")
    dtype = np.dtype(element)
    a = np.array([7, -7, 5, -5, 0, 9], dtype)
    b = np.array([2, 2, 3, 3, 4, 1], dtype)
    if name == "Div":
        b = np.array([2, 2, -3, -3, 4, 1], dtype)
    check(model, {"a": a, "b": b})


def test_cast_to_the_same_type_is_dropped_and_narrowing_is_kept():
    text = (
        "g (float[4] x) => (float[4] y)"
        "{ a = Cast<to=1>(x) h = Cast<to=10>(a) b = Cast<to=1>(h) y = Relu(b) }"
    )
    assert kinds(check(parse(text))) == ["cast", "cast", "relu"]


@pytest.mark.parametrize("code", [TensorProto.INT32, TensorProto.UINT8, TensorProto.BOOL])
def test_cast(code):
    node = helper.make_node("Cast", ["x"], ["y"], to=code)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5])],
        [helper.make_tensor_value_info("y", code, [5])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    check(model, {"x": np.array([0, 0.4, 1.6, 2.5, 200], np.float32)})


def test_dropout_leaves_no_trace_and_its_mask_is_true():
    text = "g (float[4] x) => (float[4] y, bool[4] m) { d, m = Dropout(x) y = Relu(d) }"
    graph = check(parse(text))
    assert kinds(graph) == ["relu", "identity"]
    assert not host_types(graph)


@pytest.mark.parametrize("element", ["float16", "double"])
def test_other_float_widths(element):
    text = (
        f"g ({element}[2,8] x) => ({element}[2,8] y) {{ a = Tanh(x) b = Softmax(a) y = Add(b, x) }}"
    )
    check(parse(text), tolerance=2e-3)
