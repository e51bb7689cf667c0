"""Models read without a copy of their weights are the models that protobuf reads."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from stages.recipe.onnx_import import import_model, read_message

_LARGE = (40, 40)


def model_with(*tensors: TensorProto) -> onnx.ModelProto:
    """A model that adds initialisers to its input, one after the other."""
    nodes, last = [], "x"
    for number, tensor in enumerate(tensors):
        nodes.append(helper.make_node("Add", [last, tensor.name], [f"y{number}"]))
        last = f"y{number}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, _LARGE) for name in ("x", last)]
    graph = helper.make_graph(nodes, "sums", ends[:1], ends[1:], list(tensors))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weights(name: str, seed: int, shape: tuple[int, ...] = _LARGE) -> TensorProto:
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return numpy_helper.from_array(data, name)


def as_bytes(model: onnx.ModelProto) -> NDArray[np.uint8]:
    return np.frombuffer(model.SerializeToString(), np.uint8)


def assert_same(data: NDArray[np.uint8], cut: int) -> None:
    """Read both ways, a model means the same; so many of its weights were cut out."""
    message = read_message(data)
    assert len(message.weights) == cut
    graph, constants = import_model(message.model, message.weights)
    expected_graph, expected = import_model(onnx.ModelProto.FromString(data.tobytes()))
    assert graph == expected_graph
    assert list(constants) == list(expected)
    for name, array in constants.items():
        assert array.dtype == expected[name].dtype
        np.testing.assert_array_equal(array, expected[name])


def test_large_weights_are_views_of_what_was_read() -> None:
    data = as_bytes(model_with(weights("w", 1), weights("small", 2, (40,)), weights("v", 3)))
    assert_same(data, cut=2)
    found = read_message(data)
    assert all(np.shares_memory(array, data) for array in found.weights.values())
    assert found.model.ByteSize() < 1000
    assert found.is_whole


def test_types_that_recipes_lack_stay_inside() -> None:
    wide = numpy_helper.from_array(np.ones((4, 400), np.complex64), "c")
    assert_same(as_bytes(model_with(weights("w", 1), wide)), cut=1)


def test_of_two_of_one_name_the_last_counts() -> None:
    assert_same(as_bytes(model_with(weights("w", 1), weights("w", 2))), cut=1)
    small = weights("w", 3, (40,))
    assert_same(as_bytes(model_with(weights("w", 1), small)), cut=1)
    assert_same(as_bytes(model_with(small, weights("w", 1))), cut=1)


def test_data_in_two_parts_are_left_to_protobuf() -> None:
    tensor = weights("w", 1)
    twice = tensor.SerializeToString() + TensorProto(raw_data=b"\1" * 6400).SerializeToString()
    plain = model_with(tensor).SerializeToString()
    inner = tensor.SerializeToString()
    assert plain.count(inner) == 1
    merged = onnx.ModelProto.FromString(plain)
    merged.graph.initializer[0].ParseFromString(twice)
    assert_same(as_bytes(merged), cut=1)
    field = b"\x2a" + bytes([len(twice) & 0x7F | 0x80, len(twice) >> 7]) + twice
    graph = onnx.GraphProto.FromString(merged.graph.SerializeToString())
    del graph.initializer[:]
    content = graph.SerializeToString() + field
    size = bytes([len(content) & 0x7F | 0x80, len(content) >> 7])
    rest = onnx.ModelProto(ir_version=8, opset_import=merged.opset_import).SerializeToString()
    assert len(content) < 1 << 14
    assert_same(np.frombuffer(rest + b"\x3a" + size + content, np.uint8), cut=0)


def test_functions_are_inlined_as_ever() -> None:
    model = model_with(weights("w", 1))
    body = [helper.make_node("Relu", ["a"], ["b"])]
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("own", "Mine", ["a"], ["b"], body, opsets))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node[0].output[0] = "before"
    model.graph.node.append(helper.make_node("Mine", ["before"], ["y0"], domain="own"))
    assert_same(as_bytes(model), cut=0)


def test_data_in_other_files_are_noticed() -> None:
    tensor = weights("w", 1)
    onnx.external_data_helper.set_external_data(tensor, "w.data")
    tensor.ClearField("raw_data")
    assert not read_message(as_bytes(model_with(tensor))).is_whole


@pytest.mark.parametrize("cut", [1, 2, 100, 3000, 6000])
def test_part_of_a_model_is_none(cut: int) -> None:
    data = as_bytes(model_with(weights("w", 1)))
    with pytest.raises(DecodeError):
        read_message(data[:-cut])


def test_other_bytes_are_no_model() -> None:
    for content in (b"garbage", b"\xff" * 40, bytes(range(3, 200))):
        with pytest.raises(DecodeError):
            read_message(np.frombuffer(content, np.uint8))
    assert not read_message(np.zeros(0, np.uint8)).model.HasField("graph")


@pytest.mark.parametrize("length", [0, 1, 7])
def test_data_that_dont_fill_their_shape_are_refused(length: int) -> None:
    from stages.errors import InputError

    tensor = weights("w", 1)
    tensor.raw_data = tensor.raw_data[: len(tensor.raw_data) - length]
    message = read_message(as_bytes(model_with(tensor)))
    if not length:
        import_model(message.model, message.weights)
        return
    with pytest.raises(InputError, match="don't fill its shape"):
        import_model(message.model, message.weights)
