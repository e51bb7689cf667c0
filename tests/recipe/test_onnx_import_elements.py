"""A model parsed with its large weights cut out of the bytes means what onnx makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

from stages.errors import InputError
from stages.package import mapped
from stages.recipe.onnx_import import import_model, parse_model
from stages.recipe.onnx_import.elements import _GRAPH, _INITIALIZER, _LARGE_BYTES, _sized

_TYPES = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.BFLOAT16,
    TensorProto.DOUBLE,
    TensorProto.INT8,
    TensorProto.INT64,
    TensorProto.BOOL,
)


def tensor(name: str, code: int, shape: tuple[int, ...], seed: int) -> TensorProto:
    """A tensor of random bits, as raw data."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 2 if code == TensorProto.BOOL else 7, shape)
    return numpy_helper.from_array(data.astype(helper.tensor_dtype_to_np_dtype(code)), name)


def model_of(tensors: list[TensorProto]) -> ModelProto:
    """A model whose outputs are its input and these tensors."""
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])]
    for place, item in enumerate(tensors):
        nodes.append(helper.make_node("Identity", [item.name], [f"y{place}"]))
        outputs.append(helper.make_tensor_value_info(f"y{place}", item.data_type, item.dims))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])]
    graph = helper.make_graph(nodes, "weights", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def large_of(code: int, seed: int = 0) -> TensorProto:
    """A tensor that is cut out of the bytes, if its type is one that recipes have."""
    return tensor("w", code, (3, _LARGE_BYTES), seed)


def data_of(model: ModelProto) -> bytes:
    """The bytes of a model's file."""
    return bytes(model.SerializeToString())


@st.composite
def models(draw: st.DrawFn) -> ModelProto:
    """Models of tensors small and large, raw and not."""
    tensors = []
    for place in range(draw(st.integers(0, 4))):
        code = draw(st.sampled_from(_TYPES))
        shape = (draw(st.integers(0, 3)), draw(st.sampled_from([1, 5, _LARGE_BYTES])))
        item = tensor(f"w{place}", code, shape, place)
        if code == TensorProto.FLOAT and draw(st.booleans()):
            values = numpy_helper.to_array(item)
            item = helper.make_tensor(item.name, code, shape, values.reshape(-1))
        item.doc_string = "d" * draw(st.integers(0, 3))  # shifts what follows
        tensors.append(item)
    return model_of(tensors)


@given(models())
def test_a_model_in_parts_means_what_the_whole_means(model: ModelProto) -> None:
    graph, constants = import_model(model)
    parsed, elements = parse_model(memoryview(data_of(model)))
    again, found = import_model(parsed, elements)
    assert again == graph
    assert list(found) == list(constants)
    for name, data in constants.items():
        assert (found[name].dtype, found[name].shape) == (data.dtype, data.shape)
        assert found[name].tobytes() == data.tobytes()
        assert found[name].flags.aligned


def test_large_weights_are_not_in_the_message() -> None:
    parsed, elements = parse_model(memoryview(data_of(model_of([large_of(TensorProto.FLOAT)]))))
    assert list(elements) == [0]
    assert not parsed.graph.initializer[0].HasField("raw_data")
    assert parsed.ByteSize() < _LARGE_BYTES


def test_types_that_recipes_lack_stay_in_the_message() -> None:
    model = model_of([large_of(TensorProto.INT4)])
    parsed, elements = parse_model(memoryview(data_of(model)))
    assert not elements
    assert parsed == model


def test_functions_get_a_model_that_is_whole() -> None:
    model = model_of([large_of(TensorProto.FLOAT)])
    body = [helper.make_node("Relu", ["a"], ["b"])]
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("own", "F", ["a"], ["b"], body, opsets))
    parsed, elements = parse_model(memoryview(data_of(model)))
    assert not elements
    assert parsed == model


def test_a_weight_that_lacks_bytes_is_refused_as_before() -> None:
    item = large_of(TensorProto.FLOAT)
    item.raw_data = item.raw_data[:-4]
    parsed, elements = parse_model(memoryview(data_of(model_of([item]))))
    assert not elements
    with pytest.raises(InputError, match="don't fill its shape"):
        import_model(parsed, elements)


def test_a_graph_in_two_pieces_is_one() -> None:
    """As the wire format allows: what repeats is appended."""
    first, second = large_of(TensorProto.FLOAT, 1), large_of(TensorProto.FLOAT, 2)
    more = ModelProto()
    more.graph.initializer.append(second)
    data = data_of(model_of([first])) + data_of(more)
    _, elements = parse_model(memoryview(data))
    assert [elements[place].tobytes() for place in (0, 1)] == [first.raw_data, second.raw_data]


def test_a_tensor_with_data_given_twice_is_left_to_onnx() -> None:
    item, more = large_of(TensorProto.FLOAT, 1), TensorProto()
    more.raw_data = large_of(TensorProto.FLOAT, 2).raw_data
    once = data_of(model_of([]))
    twice = bytes(item.SerializeToString() + more.SerializeToString())
    graph = _sized(_INITIALIZER, twice)
    data = once + b"".join(_sized(_GRAPH, b"".join(graph)))
    parsed, elements = parse_model(memoryview(data))
    assert not elements
    assert parsed.graph.initializer[0].raw_data == more.raw_data


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_broken_bytes_end_as_onnx_ends_them(place: int, byte: int) -> None:
    """A byte among the lengths and keys is wrong, or the rest is missing."""
    data = bytearray(data_of(model_of([tensor("v", TensorProto.FLOAT, (2,), 0)])))
    data += data_of(model_of([large_of(TensorProto.FLOAT)]))[:400]
    data[place % len(data)] = byte
    assert _answer(bytes(data)) == _answer_of_onnx(bytes(data))


@pytest.mark.parametrize("cut", [2, 5_000, 100_000])
def test_a_broken_file_can_be_closed(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data_of(model_of([large_of(TensorProto.FLOAT)]))[:-cut])
    with pytest.raises(DecodeError), mapped(path) as data:
        parse_model(data)


def _answer(data: bytes) -> ModelProto | str:
    try:
        model, elements = parse_model(memoryview(data))
    except DecodeError:
        return "broken"
    for place, found in elements.items():
        model.graph.initializer[place].raw_data = found.tobytes()
    return model


def _answer_of_onnx(data: bytes) -> ModelProto | str:
    try:
        return ModelProto.FromString(data)
    except DecodeError:
        return "broken"
