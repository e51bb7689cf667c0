"""Convolutions, pools and resizes over random windows."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.shape_inference import InferenceError, infer_shapes

from tests.recipe.onnx_models import check, host_types, kinds, parse, run_model

RANDOM = np.random.default_rng(7)


def model_of(op_type, attributes, shape, weights=(), opset=17):
    """A model of one node with constant operands after the first."""
    names = [f"w{i}" for i in range(len(weights))]
    node = helper.make_node(op_type, ["x", *names], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, n) for n, w in zip(names, weights, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    try:
        return infer_shapes(model, strict_mode=True)
    except InferenceError:
        assume(False)


def runs(model, shape):
    """Whether ONNX Runtime accepts the model, and onnx infers the shape that it makes.

    ONNX Runtime refuses some legal windows; onnx counts windows of `ceil_mode` that begin in the
    end padding, which ONNX Runtime leaves out.
    """
    try:
        result = run_model(model, {"x": np.zeros(shape, np.float32)})[0]
    except Exception:
        return False
    declared = tuple(axis.dim_value for axis in model.graph.output[0].type.tensor_type.shape.dim)
    return result.size > 0 and result.shape == declared


@st.composite
def windows(draw, ceil):
    axes = draw(st.integers(1, 3))
    kernel = draw(st.lists(st.integers(1, 3), min_size=axes, max_size=axes))
    attributes = {
        "kernel_shape": kernel,
        "strides": draw(st.lists(st.integers(1, 3), min_size=axes, max_size=axes)),
    }
    padding = draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if padding == "NOTSET":
        attributes["pads"] = [draw(st.integers(0, extent - 1)) for extent in kernel + kernel]
        if ceil:
            attributes["ceil_mode"] = draw(st.integers(0, 1))
    else:
        attributes["auto_pad"] = padding
    spatial = draw(st.lists(st.integers(4, 8), min_size=axes, max_size=axes))
    return attributes, spatial


@settings(max_examples=120, deadline=None)
@given(windows(ceil=False), st.sampled_from([1, 2, 4]), st.booleans(), st.integers(1, 2))
def test_conv(window, group, bias, dilation):
    attributes, spatial = window
    attributes = attributes | {"group": group}
    if "auto_pad" not in attributes:
        attributes["dilations"] = [dilation] * len(spatial)
    weights = [RANDOM.standard_normal((8, 4 // group, *attributes["kernel_shape"]), np.float32)]
    if bias:
        weights.append(RANDOM.standard_normal(8, np.float32))
    shape = (2, 4, *spatial)
    model = model_of("Conv", attributes, shape, weights)
    assume(runs(model, shape))
    assert kinds(check(model)) == ["conv"]


@settings(max_examples=120, deadline=None)
@given(windows(ceil=False), st.sampled_from([1, 2]), st.booleans(), st.data())
def test_conv_transpose(window, group, bias, data):
    attributes, spatial = window
    attributes = attributes | {"group": group}
    strides = attributes["strides"]
    if data.draw(st.booleans(), label="output padding") and "pads" in attributes:
        attributes["output_padding"] = [min(1, stride - 1) for stride in strides]
    elif data.draw(st.booleans(), label="output shape"):
        attributes.pop("pads", None)
        pairs = zip(spatial, strides, strict=True)
        attributes["output_shape"] = [extent * stride for extent, stride in pairs]
    weights = [RANDOM.standard_normal((4, 3, *attributes["kernel_shape"]), np.float32)]
    if bias:
        weights.append(RANDOM.standard_normal(3 * group, np.float32))
    shape = (2, 4, *spatial)
    model = model_of("ConvTranspose", attributes, shape, weights)
    assume(runs(model, shape))
    assert kinds(check(model)) == ["conv_transpose"]


@settings(max_examples=120, deadline=None)
@given(windows(ceil=True), st.integers(1, 2))
def test_max_pool(window, dilation):
    attributes, spatial = window
    if "auto_pad" not in attributes:
        attributes = attributes | {"dilations": [dilation] * len(spatial)}
    shape = (1, 2, *spatial)
    model = model_of("MaxPool", attributes, shape)
    assume(runs(model, shape))
    assert kinds(check(model)) == ["max_pool"]


@settings(max_examples=120, deadline=None)
@given(windows(ceil=True), st.integers(0, 1))
def test_average_pool(window, include):
    attributes, spatial = window
    shape = (1, 2, *spatial)
    model = model_of("AveragePool", attributes | {"count_include_pad": include}, shape)
    assume(runs(model, shape))
    assert kinds(check(model)) == ["average_pool"]


def test_dilated_average_pool_of_opset_19():
    text = (
        "g (float[1,2,7,7] x) => (float[1,2,3,3] y) "
        "{ y = AveragePool<kernel_shape=[3,3], dilations=[2,2]>(x) }"
    )
    assert kinds(check(parse(text, opset=19))) == ["average_pool"]


def test_max_pool_with_indices_runs_on_the_host():
    text = (
        "g (float[1,2,6,6] x) => (float[1,2,3,3] y, int64[1,2,3,3] i) "
        "{ y, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }"
    )
    graph = check(parse(text))
    assert host_types(graph) == ["MaxPool"]
    assert graph.operators[0].attributes["why"] == "its indices are read"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("GlobalAveragePool(x)", "reduce_mean"),
        ("GlobalMaxPool(x)", "reduce_max"),
        ("GlobalLpPool(x)", "reduce_l2"),
        ("GlobalLpPool<p=1>(x)", "reduce_l1"),
    ],
)
def test_global_pools(text, kind):
    graph = check(parse(f"g (float[2,3,4,5] x) => (float[2,3,1,1] y) {{ y = {text} }}"))
    assert kinds(graph) == [kind]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]),
    st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    st.booleans(),
    st.lists(st.sampled_from([0.5, 0.6, 1.0, 1.5, 2.0, 3.0]), min_size=2, max_size=2),
)
def test_resize(mode, coordinates, nearest, by_sizes, factors):
    shape = (1, 2, 5, 6)
    assume(not (mode == "cubic" and coordinates == "pytorch_half_pixel"))
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
        "nearest_mode": nearest,
    }
    scales = np.array([1, 1, *factors], np.float32)
    if by_sizes:
        sizes = np.floor(shape * scales).astype(np.int64)
        weights = [np.zeros(0, np.float32), np.zeros(0, np.float32), sizes]
    else:
        weights = [np.zeros(0, np.float32), scales]
    model = model_of("Resize", attributes, shape, weights)
    assume(runs(model, shape))
    graph = check(model)
    assert set(kinds(graph)) <= {"resize", "identity"}


def test_upsample_of_opset_7_has_its_scales_as_an_attribute():
    text = (
        "g (float[1,2,3,3] x) => (float[1,2,6,6] y) "
        '{ y = Upsample<mode="nearest", scales=[1.0,1.0,2.0,2.0]>(x) }'
    )
    assert kinds(check(parse(text, opset=7))) == ["resize"]


def test_upsample():
    text = (
        "g (float[1,2,3,3] x) => (float[1,2,6,6] y) <float[4] s = {1, 1, 2, 2}> "
        '{ y = Upsample<mode="nearest">(x, s) }'
    )
    assert kinds(check(parse(text, opset=9))) == ["resize"]
