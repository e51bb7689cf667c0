"""The nine classic image networks of the onnx package, with seeded weights that matter.

The package ships each graph with every weight a constant (`ConstantOfShape`), so that the file is
small; with equal weights the output hardly depends on the input. Here each constant weight becomes
a random tensor: He-scaled where it feeds a convolution or a matrix product, and batch statistics
measured on seeded data where it feeds a BatchNormalization, so that activations stay finite and
the output follows its input.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Weights = dict[str, NDArray[np.float32]]

LOGIT_SPREAD = 1.0
"""Standard deviation wanted of the logits, so that the softmax is neither flat nor one-hot."""

SHIFT_MEAN = 0.5
"""Mean of the shifts after batch normalisation. Around zero, ReLUs cut off half of it all, and
a deep random network is chaotic: rounding the input of inception_v2 to f16 moved its output by
0.4 % of its range; around a half, by 0.03 %.
"""

BRANCH_SCALE = 0.25
"""Scale of the batch normalisation that ends a residual branch. Training starts it at zero (Goyal
et al., "Accurate, Large Minibatch SGD", 2017, section 5.1) and leaves it small; with scales of one
a random ResNet is chaotic: rounding its input to f16 alone moved its output by 2.7 % of its range.
"""


def bvlc_alexnet() -> onnx.ModelProto:
    """AlexNet as BVLC trained it: 8 layers with LRN, 61 M parameters, input f32[1,3,224,224]."""
    return _with_random_weights("bvlc_alexnet")


def densenet121() -> onnx.ModelProto:
    """DenseNet-121: pre-activation blocks joined by Concat, input f32[1,3,224,224]."""
    return _with_random_weights("densenet121")


def inception_v1() -> onnx.ModelProto:
    """GoogLeNet: parallel convolutions joined by Concat, input f32[1,3,224,224]."""
    return _with_random_weights("inception_v1")


def inception_v2() -> onnx.ModelProto:
    """Inception with batch normalisation, scales as separate operators, input f32[1,3,224,224]."""
    return _with_random_weights("inception_v2")


def resnet50() -> onnx.ModelProto:
    """ResNet-50: bottleneck blocks with residual sums, input f32[1,3,224,224]."""
    return _with_random_weights("resnet50")


def shufflenet() -> onnx.ModelProto:
    """ShuffleNet: grouped convolutions with channel shuffles, input f32[1,3,224,224]."""
    return _with_random_weights("shufflenet")


def squeezenet() -> onnx.ModelProto:
    """SqueezeNet 1.0: fire modules, 1.2 M parameters, input f32[1,3,224,224]."""
    return _with_random_weights("squeezenet")


def vgg19() -> onnx.ModelProto:
    """VGG-19: 16 convolutions and three large matrix products, 144 M parameters."""
    return _with_random_weights("vgg19")


def zfnet512() -> onnx.ModelProto:
    """ZFNet with 512 channels: 8 layers with LRN, 87 M parameters, input f32[1,3,224,224]."""
    return _with_random_weights("zfnet512")


def _with_random_weights(name: str) -> onnx.ModelProto:
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = onnx.load(folder / f"light_{name}.onnx")
    weights = _draw_weights(model.graph)
    if any(node.op_type == "BatchNormalization" for node in model.graph.node):
        weights.update(_measure_batch_statistics(_assemble(model, weights), weights))
    weights.update(_spread_logits(_assemble(model, weights), weights))
    return _assemble(model, weights)


def _assemble(
    model: onnx.ModelProto, weights: Mapping[str, NDArray[np.float32]]
) -> onnx.ModelProto:
    """The model with `weights` as initialisers in place of the nodes that made constants."""
    graph = model.graph
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    used = {name for node in nodes for name in node.input}
    kept = [t for t in graph.initializer if t.name in used and t.name not in weights]
    kept_names = {tensor.name for tensor in kept}
    new = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    inputs = [value for value in graph.input if value.name in used - kept_names - set(weights)]
    made = helper.make_graph(nodes, graph.name, inputs, graph.output, [*kept, *new])
    return helper.make_model(made, opset_imports=model.opset_import, ir_version=8)


def _draw_weights(graph: onnx.GraphProto) -> Weights:
    shapes = {
        t.name: tuple(numpy_helper.to_array(t).tolist())
        for t in graph.initializer
        if t.data_type == onnx.TensorProto.INT64
    }
    shapes |= {t.name: t.dims for t in graph.initializer if t.data_type != onnx.TensorProto.INT64}
    made = {n.output[0]: shapes[n.input[0]] for n in graph.node if n.op_type == "ConstantOfShape"}
    given = {
        t.name: tuple(t.dims) for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT
    }
    weights: Weights = {}
    summed = {n.input[0] for n in graph.node if n.op_type == "Sum"}
    aliases = {n.output[0]: n.input[0] for n in graph.node if n.op_type in ("Unsqueeze", "Reshape")}
    for node in graph.node:
        for slot, name in enumerate(node.input):
            source = aliases.get(name, name)
            shape = {**given, **made}.get(source)
            if shape is None or source in weights or node.op_type in ("Unsqueeze", "Reshape"):
                continue
            weights[source] = _draw(source, node, slot, shape)
            if node.op_type == "BatchNormalization" and slot == 1 and node.output[0] in summed:
                weights[source] *= np.float32(BRANCH_SCALE)
    idle = set(made) - set(weights)
    assert not idle, f"constants that no known operator reads: {sorted(idle)}"
    return weights


def _draw(
    name: str, node: onnx.NodeProto, slot: int, shape: tuple[int, ...]
) -> NDArray[np.float32]:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if node.op_type in ("Conv", "Gemm") and slot == 1:
        fan_in = int(np.prod(shape[1:])) if _rows_are_outputs(node) else shape[0]
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(np.sqrt(2.0 / fan_in))
    if (node.op_type, slot) in (("BatchNormalization", 1), ("BatchNormalization", 4)) or (
        node.op_type == "Mul"
    ):
        return rng.uniform(0.7, 1.3, shape).astype(np.float32)
    small = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.1)
    shifts = node.op_type == "Add" or (node.op_type, slot) == ("BatchNormalization", 2)
    return small + np.float32(SHIFT_MEAN) if shifts else small


def _rows_are_outputs(node: onnx.NodeProto) -> bool:
    if node.op_type == "Conv":
        return True
    return any(a.name == "transB" and a.i == 1 for a in node.attribute)


def _measure_batch_statistics(model: onnx.ModelProto, weights: Weights) -> Weights:
    """Mean and variance of what each BatchNormalization sees on seeded data, in one run.

    A copy of the graph normalises by the batch itself (training mode, momentum 0), so the
    statistics that it puts out are those that inference mode needs.
    """
    training = onnx.version_converter.convert_version(model, 15)
    wanted: dict[str, str] = {}
    for node in training.graph.node:
        if node.op_type != "BatchNormalization":
            continue
        kept = [a for a in node.attribute if a.name == "epsilon"]
        del node.attribute[:]
        node.attribute.extend(kept)
        node.attribute.append(helper.make_attribute("training_mode", 1))
        node.attribute.append(helper.make_attribute("momentum", 0.0))
        for slot in (3, 4):
            wanted[node.input[slot]] = f"{node.input[slot]}/measured"
        del node.output[1:]
        node.output.extend(wanted[node.input[slot]] for slot in (3, 4))
    measured = _run_once(training, list(wanted.values()))
    return {
        name: value.reshape(weights[name].shape)
        for name, value in zip(wanted, measured, strict=True)
    }


def _spread_logits(model: onnx.ModelProto, weights: Weights) -> Weights:
    """The last product's weights and bias, scaled so that the logits have `LOGIT_SPREAD`."""
    product = [node for node in model.graph.node if node.op_type in ("Gemm", "Conv")][-1]
    sources = {n.output[0]: n.input[0] for n in model.graph.node if n.op_type == "Reshape"}
    (logits,) = _run_once(model, [product.output[0]])
    factor = np.float32(LOGIT_SPREAD / logits.std())
    names = [sources.get(name, name) for name in product.input[1:]]
    return {name: weights[name] * factor for name in names}


def _run_once(model: onnx.ModelProto, outputs: list[str]) -> list[NDArray[np.float32]]:
    """The named values of the graph for one seeded image."""
    import onnxruntime as ort

    probed = onnx.ModelProto()
    probed.CopyFrom(model)
    del probed.graph.value_info[:]
    del probed.graph.output[:]
    probed.graph.output.extend(
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs
    )
    session = ort.InferenceSession(probed.SerializeToString(), providers=["CPUExecutionProvider"])
    (data,) = session.get_inputs()
    image = np.random.default_rng(zlib.crc32(data.name.encode())).standard_normal(data.shape)
    values = session.run(outputs, {data.name: image.astype(np.float32)})
    return [np.asarray(value, np.float32) for value in values]
