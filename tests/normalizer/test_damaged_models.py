"""Damaged models are refused with a message, or happen to be legal; nothing else happens."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
from hypothesis import given, settings
from hypothesis import strategies as st

from models.faults import contrib
from models.synthetic import quantized_cnn, residual_cnn, transformer_block
from stages.errors import InputError
from stages.normalize import normalize
from tests.normalizer.graphs import check_form, save

SOUND = [residual_cnn(), transformer_block(), contrib(), quantized_cnn()]
"""None holds a Loop: damaged, it may be legal and endless."""
KINDS = ["Conv", "MatMul", "Reshape", "Split", "Concat", "If", "LSTM", "Pad", "Gather", "Resize",
         "NonZero", "Loop", "Cast", "BatchNormalization", "Dropout", "Scan"]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> onnx.ModelProto:
    """A sound model with one node, weight or input changed."""
    model = onnx.ModelProto()
    model.CopyFrom(draw(st.sampled_from(SOUND)))
    graph = model.graph
    node = graph.node[draw(st.integers(0, len(graph.node) - 1))]
    slot = draw(st.integers(0, 7))
    match draw(st.integers(0, 7)):
        case 0 if node.input:
            names = ["", graph.input[0].name, graph.node[0].output[0], "ghost"]
            node.input[slot % len(node.input)] = names[slot % 4]
        case 1 if node.input:
            del node.input[slot % len(node.input)]
        case 2 if node.attribute:
            del node.attribute[slot % len(node.attribute)]
        case 3:
            node.op_type = draw(st.sampled_from(KINDS))
        case 4 if node.attribute:
            attribute = node.attribute[slot % len(node.attribute)]
            attribute.i = draw(st.sampled_from([-5, 0, 99]))
            if attribute.ints:
                attribute.ints[0] = draw(st.sampled_from([-1, 0, 7]))
        case 5 if graph.initializer and graph.initializer[slot % len(graph.initializer)].dims:
            tensor = graph.initializer[slot % len(graph.initializer)]
            tensor.dims[0] = draw(st.sampled_from([-1, 0, 1, 3]))
        case 6:
            kind = draw(st.sampled_from([0, 1, 6, 7, 8, 9, 10, 16, 20, 99]))
            graph.input[0].type.tensor_type.elem_type = kind
        case _:
            node.output[0] = ["", graph.input[0].name, graph.node[0].output[0]][slot % 3]
    return model


@settings(max_examples=80)
@given(damaged())
def test_damaged_models(model: onnx.ModelProto) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            normalize(save(model, folder), folder / "out", seed=1, sample_count=1)
        except InputError:
            assert sorted(path.name for path in folder.iterdir()) == ["model.onnx"]
        else:
            check_form(onnx.load(folder / "out" / "model.onnx"))


@settings(max_examples=80)
@given(st.sampled_from(SOUND), st.data())
def test_damaged_bytes(model: onnx.ModelProto, data: st.DataObject) -> None:
    content = bytearray(model.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = save(model, folder)
        source.path.write_bytes(content)
        try:
            normalize(source, folder / "out", seed=1, sample_count=1)
        except InputError:
            assert not (folder / "out").exists()
        else:
            check_form(onnx.load(folder / "out" / "model.onnx"))
