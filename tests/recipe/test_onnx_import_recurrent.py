"""LSTM, GRU and RNN, unrolled, against ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from stages.recipe.onnx_import import import_model
from tests.recipe.onnx_models import check, host_types, kinds, random_feeds, run_model

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
OTHERS = ("Relu", "HardSigmoid", "Softsign", "Elu", "LeakyRelu", "Tanh", "Sigmoid")


@dataclass(frozen=True)
class Layer:
    """A recurrent node that a test makes."""

    kind: str = "LSTM"
    direction: str = "forward"
    steps: int = 3
    batch: int = 1
    features: int = 4
    hidden: int = 3
    bias: bool = True
    initial: bool = False
    peepholes: bool = False
    length: int | tuple[int, ...] | None = None
    before: int = 0
    clip: float = 0.0
    activations: tuple[str, ...] = ()
    alphas: tuple[float, ...] = ()
    betas: tuple[float, ...] = ()
    batch_first: bool = False
    outputs: tuple[bool, ...] = (True, True, True)

    @property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    @property
    def attributes(self) -> dict[str, object]:
        made: dict[str, object] = {"hidden_size": self.hidden, "direction": self.direction}
        if self.kind == "GRU":
            made["linear_before_reset"] = self.before
        if self.clip:
            made["clip"] = self.clip
        if self.activations:
            made["activations"] = list(self.activations * self.directions)
        if self.alphas:
            made["activation_alpha"] = self.alphas
        if self.betas:
            made["activation_beta"] = self.betas
        if self.batch_first:
            made["layout"] = 1
        return made


def model_of(layer: Layer, seed: int = 5) -> onnx.ModelProto:
    """A model of one node; states are inputs of the model where the layer has initial ones."""
    random = np.random.default_rng(seed)
    width, dirs = GATES[layer.kind] * layer.hidden, layer.directions
    data = {
        "w": random.normal(size=(dirs, width, layer.features)),
        "r": random.normal(size=(dirs, width, layer.hidden)),
    }
    if layer.bias:
        data["b"] = random.normal(size=(dirs, 2 * width))
    if layer.peepholes:
        data["p"] = random.normal(size=(dirs, 3 * layer.hidden))
    held = [numpy_helper.from_array(item.astype(np.float32), key) for key, item in data.items()]
    if layer.length is not None:
        held.append(numpy_helper.from_array(np.full(layer.batch, layer.length, np.int32), "n"))
    state = (dirs, layer.batch, layer.hidden)
    shape = (layer.steps, layer.batch, layer.features)
    result = (layer.steps, dirs, layer.batch, layer.hidden)
    if layer.batch_first:
        state, shape = (layer.batch, dirs, layer.hidden), (layer.batch, *shape[::2])
        result = (layer.batch, layer.steps, dirs, layer.hidden)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    if layer.initial:
        names = ("h", "c") if layer.kind == "LSTM" else ("h",)
        inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, state) for name in names]
    given_names = {value.name for value in inputs} | {tensor.name for tensor in held}
    places = ["x", "w", "r", "b", "n", "h"] + (["c", "p"] if layer.kind == "LSTM" else [])
    shapes = [result, state, state]
    count = 3 if layer.kind == "LSTM" else 2
    wanted = [f"y{place}" if layer.outputs[place] else "" for place in range(count)]
    node = helper.make_node(
        layer.kind,
        [name if name in given_names else "" for name in places],
        wanted,
        "cell",
        **layer.attributes,
    )
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip(wanted, shapes, strict=False)
        if name
    ]
    graph = helper.make_graph([node], "recurrent", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_directions_and_states(kind, direction):
    graph = check(model_of(Layer(kind, direction, initial=True)), tolerance=1e-5)
    assert not host_types(graph)


def test_the_inputs_of_all_steps_are_one_product():
    graph = check(model_of(Layer(steps=4, direction="bidirectional")), tolerance=1e-5)
    products = [op for op in graph.operators if op.kind == "matmul"]
    assert graph.types[products[0].outputs[0]].shape == (2, 4, 12)
    assert len(products) == 1 + 3, "the first step of a zero state needs no product"


def test_directions_of_other_activations_go_apart():
    layer = Layer("RNN", steps=3, direction="bidirectional", activations=("Relu",))
    model = model_of(layer)
    (activations,) = [a for a in model.graph.node[0].attribute if a.name == "activations"]
    activations.strings[:] = [b"Relu", b"Tanh"]
    products = [op for op in check(model, tolerance=1e-5).operators if op.kind == "matmul"]
    assert len(products) == 2 * 3


def test_gru_reset_after_the_product_needs_one_product_a_step():
    graph = check(model_of(Layer("GRU", steps=2, before=1, initial=True)), tolerance=1e-5)
    assert kinds(graph).count("matmul") == 3
    graph = check(model_of(Layer("GRU", steps=2, before=0, initial=True)), tolerance=1e-5)
    assert kinds(graph).count("matmul") == 5


@pytest.mark.parametrize("clip", [0.0, 2.0, 0.5])
def test_peepholes_and_clip(clip):
    layer = Layer(peepholes=True, initial=True, clip=clip)
    assert not host_types(check(model_of(layer), tolerance=1e-5))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_batch_first_is_the_same_transposed(kind):
    """ONNX Runtime knows no other layout than steps first."""
    layer = Layer(kind, "bidirectional", batch=2, initial=True)
    model = model_of(layer)
    feeds = random_feeds(import_model(model)[0])
    y, *states = run_model(model, feeds)
    turned = {name: np.ascontiguousarray(data.swapaxes(0, 1)) for name, data in feeds.items()}
    graph = check(
        model_of(replace(layer, batch_first=True)),
        turned,
        wanted=[y.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in states)],
    )
    assert not host_types(graph)


def test_the_numbers_of_an_activation_are_the_node_s_own():
    for layer in (
        Layer("RNN", activations=("LeakyRelu",), alphas=(0.4,)),
        Layer("GRU", activations=("HardSigmoid", "Elu"), alphas=(0.3, 0.7), betas=(0.4,)),
    ):
        assert not host_types(check(model_of(layer), tolerance=1e-5))


def test_a_shorter_length_leaves_zeros():
    layer = Layer(steps=5, length=3, batch=2, direction="bidirectional")
    graph = check(model_of(layer), tolerance=1e-5)
    assert not host_types(graph)
    assert "pad" in kinds(graph)


def test_sequences_of_several_lengths_stay_one_call():
    layer = Layer("RNN", batch=2, length=(1, 3))
    assert host_types(check(model_of(layer), tolerance=1e-4)) == ["RNN"]


def test_weights_that_are_computed_stay_one_call():
    model = model_of(Layer("GRU"))
    (weights,) = [tensor for tensor in model.graph.initializer if tensor.name == "r"]
    model.graph.input.append(
        helper.make_tensor_value_info("r", TensorProto.FLOAT, list(weights.dims))
    )
    model.graph.initializer.remove(weights)
    assert host_types(check(model, tolerance=1e-4)) == ["GRU"]


def test_too_many_steps_stay_one_call():
    assert host_types(check(model_of(Layer("RNN", steps=513)), tolerance=1e-4)) == ["RNN"]


def test_an_activation_without_a_kind_stays_one_call():
    layer = Layer("RNN", activations=("ThresholdedRelu",))
    assert host_types(check(model_of(layer), tolerance=1e-4)) == ["RNN"]


@st.composite
def layers(draw):
    kind = draw(st.sampled_from(sorted(GATES)))
    steps = draw(st.integers(1, 4))
    return Layer(
        kind=kind,
        direction=draw(st.sampled_from(["forward", "reverse", "bidirectional"])),
        steps=steps,
        batch=draw(st.integers(1, 3)),
        features=draw(st.integers(1, 5)),
        hidden=draw(st.integers(1, 4)),
        bias=draw(st.booleans()),
        initial=draw(st.booleans()),
        peepholes=kind == "LSTM" and draw(st.booleans()),
        length=draw(st.one_of(st.none(), st.integers(1, steps))),
        before=draw(st.integers(0, 1)),
        clip=draw(st.sampled_from([0.0, 0.7])),
        activations=draw(
            st.one_of(
                st.just(()),
                st.tuples(*[st.sampled_from(OTHERS) for _ in range(ACTIVATIONS[kind])]),
            )
        ),
        outputs=draw(
            st.sampled_from([(True, True, True), (False, True, True), (True, False, True)])
        ),
    )


@settings(max_examples=25, deadline=None)
@given(layers())
def test_random_layers(layer):
    assert not host_types(check(model_of(layer), tolerance=1e-4))
