"""Normalised folders of small models, as the compile stage reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from stages.compile import MODEL_FILE, SAMPLES_FILE
from stages.normalizer.sample_files import Sample, save_samples


def residual(seed: int, channels: int = 16) -> onnx.ModelProto:
    """Two convolutions with a residual, a mean and a dense layer; weights of a seed."""
    random = np.random.default_rng(seed)

    def weights(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array(random.standard_normal(shape, np.float32) / 4, name)

    nodes = [
        helper.make_node("Conv", ["x", "k1", "b1"], ["c1"], "stem", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], "stem_relu"),
        helper.make_node("Conv", ["r1", "k2"], ["c2"], "body", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c2", "r1"], ["a"], "join"),
        helper.make_node("MaxPool", ["a"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["g"], "mean"),
        helper.make_node("Flatten", ["g"], ["f"], "flatten"),
        helper.make_node("MatMul", ["f", "w"], ["y"], "dense"),
    ]
    graph = helper.make_graph(
        nodes,
        "residual",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [
            weights("k1", channels, 3, 3, 3),
            weights("b1", channels),
            weights("k2", channels, channels, 3, 3),
            weights("w", channels, 10),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save_folder(folder: Path, model: onnx.ModelProto, *samples: Sample) -> Path:
    """A normalised folder of a model, with these samples."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / MODEL_FILE)
    save_samples(folder / SAMPLES_FILE, samples)
    return folder


def residual_folder(folder: Path, seed: int, channels: int = 16) -> Path:
    """`residual` in a normalised folder, with a sample."""
    x = np.random.default_rng(5).standard_normal((1, 3, 12, 12), np.float32)
    return save_folder(folder, residual(seed, channels), {"x": x})


def with_other_weights(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """The same model, its wide float weights drawn anew, in the spread that they had."""
    random = np.random.default_rng(seed)
    other = onnx.ModelProto()
    other.CopyFrom(model)
    for tensor in other.graph.initializer:
        data = numpy_helper.to_array(tensor)
        if data.dtype == np.float32 and data.size >= 16:
            drawn = random.standard_normal(data.shape) * data.std() + data.mean()
            tensor.CopyFrom(numpy_helper.from_array(drawn.astype(np.float32), tensor.name))
    return other


def package_bytes(folder: Path) -> dict[str, bytes]:
    """The files of a package, but for what is said of the machine."""
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.name != "compile_environment.json"
    }
