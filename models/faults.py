"""Models with what goes wrong in the field: things between Conv and its BatchNormalization,
foreign operators, control flow, data-dependent shapes, odd element types.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from models.synthetic import residual_cnn
from models.textual import batch_norm, convolution_weight, model_from_text, vector

Between = Callable[[str], tuple[str, str]]
"""What stands between Conv and BatchNormalization: the lines of text, and the value they make."""


def conv_bn_clean() -> onnx.ModelProto:
    """Conv, BatchNormalization, ReLU, twice, nothing between."""
    return _conv_bn(lambda value: ("", value))


def conv_bn_identity() -> onnx.ModelProto:
    """An Identity between Conv and BatchNormalization."""
    return _conv_bn(lambda value: (f"{value}i = Identity ({value})", f"{value}i"))


def conv_bn_cast() -> onnx.ModelProto:
    """A Cast to the same type between Conv and BatchNormalization: it does nothing."""
    return _conv_bn(lambda value: (f"{value}i = Cast <to=1> ({value})", f"{value}i"))


def conv_bn_cast16() -> onnx.ModelProto:
    """Casts to float16 and back between Conv and BatchNormalization: they round, so they stay."""
    return _conv_bn(
        lambda value: (
            f"{value}h = Cast <to=10> ({value})\n{value}i = Cast <to=1> ({value}h)",
            f"{value}i",
        )
    )


def conv_bn_dropout() -> onnx.ModelProto:
    """A Dropout between Conv and BatchNormalization: in inference it does nothing."""
    return _conv_bn(lambda value: (f"{value}i = Dropout ({value})", f"{value}i"))


def conv_bn_branch() -> onnx.ModelProto:
    """Conv's result is read twice, so its BatchNormalization can't fold into it in place."""
    rng, weights = np.random.default_rng(7), {}
    weights = {"w0": convolution_weight(rng, 8, 3, 3), "b0": vector(rng, 8)}
    text = """
    fault (float[1,3,32,32] x) => (float[1,8,1,1] y) {
      c0 = Conv <pads=[1,1,1,1], strides=[2,2]> (x, w0, b0)
      side = Relu (c0)
      n0 = BatchNormalization (c0, "n0.scale", "n0.bias", "n0.mean", "n0.var")
      r0 = Relu (n0)
      j0 = Add (r0, side)
      y = GlobalAveragePool (j0)
    }
    """
    return model_from_text(text, weights | batch_norm(rng, "n0", 8))


def contrib() -> onnx.ModelProto:
    """Operators that ONNX Runtime's own optimiser writes, from the domain com.microsoft."""
    rng, width = np.random.default_rng(9), 64

    def draw(*shape: int) -> NDArray[np.float32]:
        return (rng.standard_normal(shape) * 0.1).astype(np.float32)

    weights = {"w1": draw(4 * width, width), "b1": draw(4 * width), "w2": draw(4 * width, width),
               "gamma": draw(width), "beta": draw(width)}  # fmt: skip
    text = """
    contrib (float[1,16,64] x) => (float[1,16,64] y) {
      a = com.microsoft.FusedMatMul <alpha=0.5, transB=1> (x, w1)
      g = com.microsoft.BiasGelu (a, b1)
      m = MatMul (g, w2)
      y = com.microsoft.SkipLayerNormalization <epsilon=0.00001> (m, x, gamma, beta)
    }
    """
    return model_from_text(text, weights)


def unknown_operator() -> onnx.ModelProto:
    """An operator of a domain that nobody defines."""
    nodes = [helper.make_node("FancyNorm", ["x"], ["t"], domain="acme.ops", alpha=1.0),
             helper.make_node("Relu", ["t"], ["y"])]  # fmt: skip
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in "xy"]
    graph = helper.make_graph(nodes, "unknown", info[:1], info[1:])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme.ops", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def loop_if_scan() -> onnx.ModelProto:
    """A Loop of three rounds, an If that its result decides, a Scan over five rows."""
    text = """
    control (float[4] x, float[5,4] sequence) => (float[4] y, float[5,4] ys) {
      looped = Loop (trips, go, x) <body = add_one (int64 i, bool c, float[4] v)
        => (bool c2, float[4] v2) { v2 = Add (v, one)
                                    c2 = Identity (c) }>
      total = ReduceSum <keepdims=0> (looped)
      is_large = Greater (total, one)
      chosen = If (is_large) <
        then_branch = keep () => (float[4] kept) { kept = Relu (looped) },
        else_branch = turn () => (float[4] turned) { turned = Neg (looped) }>
      y, ys = Scan <num_scan_inputs=1, body = sum (float[4] s, float[4] e)
        => (float[4] s2, float[4] o2) { s2 = Add (s, e)
                                        o2 = Identity (s2) }> (chosen, sequence)
    }
    """
    weights = {"trips": np.int64(3), "go": np.bool_(True), "one": np.float32(1)}
    return model_from_text(text, weights)


def non_max_suppression() -> onnx.ModelProto:
    """As many boxes come out as the data say."""
    text = """
    boxes (float[1,100,4] boxes, float[1,2,100] scores) => (int64[n,3] selected) {
      selected = NonMaxSuppression (boxes, scores, most, overlap, least)
    }
    """
    weights = {"most": np.array([10]), "overlap": np.array([0.5], np.float32),
               "least": np.array([0.1], np.float32)}  # fmt: skip
    return model_from_text(text, weights)


def int4_weights() -> onnx.ModelProto:
    """A matrix in 4-bit integers, one scale for each 32 rows, as operator set 21 can say it."""
    rng, rows, columns = np.random.default_rng(3), 128, 64
    values = rng.integers(-8, 8, (rows, columns)).astype(ml_dtypes.int4)
    scales = rng.uniform(0.01, 0.05, (rows // 32, columns)).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["wq", "scales"], ["w"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "int4",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, columns])],
        [numpy_helper.from_array(values, "wq"), numpy_helper.from_array(scales, "scales")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def float16_cnn() -> onnx.ModelProto:
    """`residual_cnn` in float16 throughout."""
    return _in_type(residual_cnn(), TensorProto.FLOAT16)


def bfloat16_perceptron() -> onnx.ModelProto:
    """Two matrix products with a GELU between them, in bfloat16 throughout."""
    rng = np.random.default_rng(17)
    text = """
    perceptron (float[4,64] x) => (float[4,10] y) {
      h = Gemm <transB=1> (x, w1, b1)
      d = Div (h, root)
      e = Erf (d)
      a = Add (e, one)
      m = Mul (h, a)
      g = Mul (m, half)
      z = Gemm <transB=1> (g, w2, b2)
      y = Softmax <axis=-1> (z)
    }
    """
    weights = {
        "w1": (rng.standard_normal((32, 64)) / 8).astype(np.float32), "b1": vector(rng, 32),
        "w2": (rng.standard_normal((10, 32)) / 4).astype(np.float32), "b2": vector(rng, 10),
        "root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5),
    }  # fmt: skip
    return _in_type(model_from_text(text, weights), TensorProto.BFLOAT16)


def _conv_bn(between: Between) -> onnx.ModelProto:
    rng = np.random.default_rng(7)
    weights: dict[str, NDArray[np.generic]] = {}
    lines, current, channels = [], "x", 3
    for index, width in enumerate((8, 16)):
        weights[f"w{index}"] = convolution_weight(rng, width, channels, 3)
        weights |= batch_norm(rng, f"n{index}", width)
        lines.append(f"c{index} = Conv <pads=[1,1,1,1], strides=[2,2]> ({current}, w{index})")
        line, value = between(f"c{index}")
        lines.append(line)
        parameters = ", ".join(f'"n{index}.{p}"' for p in ("scale", "bias", "mean", "var"))
        lines.append(f"n{index} = BatchNormalization <epsilon=0.001> ({value}, {parameters})")
        lines.append(f"r{index} = Relu (n{index})")
        current, channels = f"r{index}", width
    body = "\n".join([*lines, f"y = GlobalAveragePool ({current})"])
    header = "fault (float[1,3,32,32] x) => (float[1,16,1,1] y)"
    return model_from_text(f"{header} {{\n{body}\n}}", weights)


def _in_type(model: onnx.ModelProto, kind: int) -> onnx.ModelProto:
    """The model with every float32 in another float type."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            values = numpy_helper.to_array(tensor).astype(dtype)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for info in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = kind
    return model
