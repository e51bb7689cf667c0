"""Models built without torch: legal, seeded, and with outputs that follow their inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from models import faults, light, synthetic
from stages.normalizer.reference import OnnxRuntimeReference
from stages.tensors import Array

SMALL = [
    synthetic.residual_cnn, synthetic.separable_net, synthetic.transformer_block,
    synthetic.quantized_cnn, synthetic.quantized_operators_cnn,
    faults.conv_bn_clean, faults.conv_bn_identity, faults.conv_bn_cast, faults.conv_bn_cast16,
    faults.conv_bn_dropout, faults.conv_bn_branch, faults.contrib, faults.loop_if_scan,
    faults.int4_weights, faults.float16_cnn, faults.bfloat16_perceptron,
]  # fmt: skip
Builder = Callable[[], onnx.ModelProto]


def outputs(model: onnx.ModelProto, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    initialised = {tensor.name for tensor in model.graph.initializer}
    feed: dict[str, Array] = {}
    for value in model.graph.input:
        if value.name in initialised:
            continue
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        drawn = rng.integers(0, 50, shape) if dtype.kind == "i" else rng.standard_normal(shape)
        feed[value.name] = drawn.astype(dtype)
    return list(OnnxRuntimeReference(model).run(feed).values())


@pytest.mark.parametrize("build", SMALL)
def test_outputs_are_finite_and_follow_the_input(build: Builder) -> None:
    model = build()
    onnx.checker.check_model(model, full_check=build is not faults.int4_weights)
    for first, second in zip(outputs(model, 1), outputs(model, 2), strict=True):
        a, b = first.astype(np.float64), second.astype(np.float64)
        assert np.isfinite(a).all()
        assert np.abs(a - b).max() > 1e-3 * np.abs(a).max()


@pytest.mark.parametrize("build", SMALL)
def test_a_second_build_is_the_same(build: Builder) -> None:
    assert build().SerializeToString() == build().SerializeToString()


def test_quantised_forms() -> None:
    pairs = {node.op_type for node in synthetic.quantized_cnn().graph.node}
    assert {"QuantizeLinear", "DequantizeLinear", "Conv"} <= pairs
    fused = {node.op_type for node in synthetic.quantized_operators_cnn().graph.node}
    assert {"QLinearConv", "QLinearAdd"} <= fused


@pytest.mark.parametrize("build", [light.squeezenet, light.shufflenet, light.inception_v1])
def test_light_networks_have_weights_that_matter(build: Builder) -> None:
    model = build()
    assert not [node for node in model.graph.node if node.op_type == "ConstantOfShape"]
    assert len(model.graph.input) == 1
    (first,), (second,) = outputs(model, 1), outputs(model, 2)
    assert np.isfinite(first).all()
    assert float(np.abs(first - second).max()) > 0.02 * float(first.max())


def test_light_networks_with_batch_norm_keep_the_signal_alive() -> None:
    """With statistics of 0 and 1 it would die or explode within a few dozen layers."""
    model = light.shufflenet()
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    probed = onnx.ModelProto()
    probed.CopyFrom(model)
    del probed.graph.output[:]
    names = [norms[0].output[0], norms[-1].output[0]]
    probed.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    for array in outputs(probed, 3):
        assert 0.3 < float(array.astype(np.float32).std()) < 3


def test_light_networks_are_seeded() -> None:
    assert light.squeezenet().SerializeToString() == light.squeezenet().SerializeToString()
