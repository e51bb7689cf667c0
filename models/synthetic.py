"""Small models built with nothing but onnx: quick to make, every weight seeded.

They hold what real networks hold, so tests need neither torch nor a download.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from models.textual import batch_norm, convolution_weight, matrix, model_from_text, vector

_RESIDUAL_CNN = """
residual_cnn (float[1,3,32,32] image) => (float[1,10] scores) {
  c1 = Conv <pads=[1,1,1,1], strides=[2,2]> (image, "c1.w")
  n1 = BatchNormalization (c1, "n1.scale", "n1.bias", "n1.mean", "n1.var")
  r1 = Relu (n1)
  p1 = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (r1)
  c2 = Conv <pads=[1,1,1,1]> (p1, "c2.w")
  n2 = BatchNormalization (c2, "n2.scale", "n2.bias", "n2.mean", "n2.var")
  r2 = Relu (n2)
  c3 = Conv <pads=[1,1,1,1]> (r2, "c3.w")
  n3 = BatchNormalization (c3, "n3.scale", "n3.bias", "n3.mean", "n3.var")
  a3 = Add (n3, p1)
  r3 = Relu (a3)
  g = GlobalAveragePool (r3)
  f = Flatten (g)
  scores = Gemm <transB=1> (f, "fc.w", "fc.b")
}
"""

_SEPARABLE_NET = """
separable_net (float[1,3,32,32] image) => (float[1,8] scores) {
  c1 = Conv <pads=[1,1,1,1], strides=[2,2]> (image, "c1.w", "c1.b")
  h1 = HardSwish (c1)
  d1 = Conv <group=16, pads=[1,1,1,1]> (h1, "d1.w", "d1.b")
  l1 = Clip (d1, zero, six)
  e1 = Conv (l1, "e1.w", "e1.b")
  s1 = Add (e1, h1)
  d2 = Conv <group=16, pads=[2,2,2,2], strides=[2,2]> (s1, "d2.w", "d2.b")
  l2 = Clip (d2, zero, six)
  e2 = Conv (l2, "e2.w", "e2.b")
  q = GlobalAveragePool (e2)
  q1 = Conv (q, "q1.w", "q1.b")
  q2 = Relu (q1)
  q3 = Conv (q2, "q2.w", "q2.b")
  gate = HardSigmoid <alpha=0.2> (q3)
  m = Mul (e2, gate)
  g = GlobalAveragePool (m)
  f = Flatten (g)
  scores = Gemm <transB=1> (f, "fc.w", "fc.b")
}
"""

_TRANSFORMER_BLOCK = """
transformer_block (int64[1,16] tokens) => (float[1,16,32] states) {
  e = Gather ("table", tokens)
  x = Add (e, "positions")
  m1 = ReduceMean <axes=[-1]> (x)
  d1 = Sub (x, m1)
  s1 = Pow (d1, two)
  v1 = ReduceMean <axes=[-1]> (s1)
  w1 = Add (v1, epsilon)
  r1 = Sqrt (w1)
  u1 = Div (d1, r1)
  g1 = Mul (u1, "ln1.scale")
  y1 = Add (g1, "ln1.bias")
  qm = MatMul (y1, "q.w")
  km = MatMul (y1, "k.w")
  vm = MatMul (y1, "v.w")
  qs = Reshape (qm, heads)
  ks = Reshape (km, heads)
  vs = Reshape (vm, heads)
  qt = Transpose <perm=[0,2,1,3]> (qs)
  kt = Transpose <perm=[0,2,3,1]> (ks)
  vt = Transpose <perm=[0,2,1,3]> (vs)
  qk = MatMul (qt, kt)
  sc = Mul (qk, scale)
  at = Softmax <axis=-1> (sc)
  av = MatMul (at, vt)
  ab = Transpose <perm=[0,2,1,3]> (av)
  af = Reshape (ab, flat)
  om = MatMul (af, "o.w")
  ob = Add (om, "o.b")
  x2 = Add (x, ob)
  y2 = LayerNormalization <axis=-1, epsilon=0.00001> (x2, "ln2.scale", "ln2.bias")
  fm = MatMul (y2, "f1.w")
  fb = Add (fm, "f1.b")
  gd = Div (fb, root)
  ge = Erf (gd)
  ga = Add (ge, one)
  gm = Mul (fb, ga)
  gh = Mul (gm, half)
  sm = MatMul (gh, "f2.w")
  sb = Add (sm, "f2.b")
  states = Add (x2, sb)
}
"""


def residual_cnn() -> onnx.ModelProto:
    """Conv, BatchNormalization, ReLU, pooling, a residual, Gemm; f32[1,3,32,32] -> f32[1,10]."""
    rng = np.random.default_rng(11)
    weights: dict[str, NDArray[np.generic]] = {
        "c1.w": convolution_weight(rng, 16, 3, 3),
        "c2.w": convolution_weight(rng, 16, 16, 3),
        "c3.w": convolution_weight(rng, 16, 16, 3),
        "fc.w": matrix(rng, 10, 16),
        "fc.b": vector(rng, 10),
    }
    for name in ("n1", "n2", "n3"):
        weights |= batch_norm(rng, name, 16)
    return model_from_text(_RESIDUAL_CNN, weights)


def separable_net() -> onnx.ModelProto:
    """Depthwise and pointwise Conv, hard-swish, ReLU6, squeeze-and-excite; -> f32[1,8]."""
    rng = np.random.default_rng(12)
    shapes = {"c1": (16, 3, 3), "d1": (16, 1, 3), "e1": (16, 16, 1), "d2": (16, 1, 5),
              "e2": (24, 16, 1), "q1": (6, 24, 1), "q2": (24, 6, 1)}  # fmt: skip
    weights: dict[str, NDArray[np.generic]] = {
        "zero": np.float32(0), "six": np.float32(6),
        "fc.w": matrix(rng, 8, 24), "fc.b": vector(rng, 8),
    }  # fmt: skip
    for name, (outputs, inputs, kernel) in shapes.items():
        weights[f"{name}.w"] = convolution_weight(rng, outputs, inputs, kernel)
        weights[f"{name}.b"] = vector(rng, outputs)
    return model_from_text(_SEPARABLE_NET, weights)


def transformer_block() -> onnx.ModelProto:
    """Embedding, LayerNorm (once decomposed), two-head attention, GELU decomposed.

    i64[1,16] below 50 -> f32[1,16,32].
    """
    rng = np.random.default_rng(13)
    width, inner = 32, 64
    weights: dict[str, NDArray[np.generic]] = {
        "table": rng.standard_normal((50, width)).astype(np.float32),
        "positions": rng.standard_normal((16, width)).astype(np.float32),
        "heads": np.array([1, 16, 2, 16], np.int64),
        "flat": np.array([1, 16, width], np.int64),
        "two": np.float32(2), "one": np.float32(1), "half": np.float32(0.5),
        "epsilon": np.float32(1e-5), "root": np.float32(2**0.5), "scale": np.float32(0.25),
        "o.b": vector(rng, width), "f1.b": vector(rng, inner), "f2.b": vector(rng, width),
        "f1.w": matrix(rng, width, inner), "f2.w": matrix(rng, inner, width),
    }  # fmt: skip
    for name in ("q.w", "k.w", "v.w", "o.w"):
        weights[name] = matrix(rng, width, width)
    for name in ("ln1", "ln2"):
        weights[f"{name}.scale"] = rng.uniform(0.7, 1.3, width).astype(np.float32)
        weights[f"{name}.bias"] = vector(rng, width)
    return model_from_text(_TRANSFORMER_BLOCK, weights)


def quantized_cnn() -> onnx.ModelProto:
    """`residual_cnn` in int8, as QuantizeLinear/DequantizeLinear pairs."""
    return quantize(residual_cnn(), QuantizedForm.PAIRS)


def quantized_operators_cnn() -> onnx.ModelProto:
    """`residual_cnn` in int8, as QLinear operators."""
    return quantize(residual_cnn(), QuantizedForm.OPERATORS)


class QuantizedForm(StrEnum):
    """How a quantised graph says so, and how its weights are scaled."""

    PAIRS = "QuantizeLinear/DequantizeLinear pairs, i8, weights per channel"
    PAIRS_PER_TENSOR = "QuantizeLinear/DequantizeLinear pairs, i8, weights per tensor"
    OPERATORS = "QLinear operators, u8 activations, weights per channel"


def quantize(model: onnx.ModelProto, form: QuantizedForm) -> onnx.ModelProto:
    """Static int8 quantisation, calibrated on seeded inputs."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    # ONNX Runtime 1.32 writes a graph that it can't load ("Attempt to replace the existing
    # tensor") when it optimises a transformer before quantising it: then infer shapes alone.
    is_transformer = form is QuantizedForm.PAIRS_PER_TENSOR
    is_operators = form is QuantizedForm.OPERATORS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(model, folder / "float.onnx")
        quant_pre_process(
            str(folder / "float.onnx"),
            str(folder / "ready.onnx"),
            skip_optimization=is_transformer,
            skip_symbolic_shape=not is_transformer,
        )
        quantize_static(
            str(folder / "ready.onnx"),
            str(folder / "quantized.onnx"),
            SeededReader(model),
            quant_format=QuantFormat.QOperator if is_operators else QuantFormat.QDQ,
            activation_type=QuantType.QUInt8 if is_operators else QuantType.QInt8,
            weight_type=QuantType.QInt8,
            per_channel=not is_transformer,
        )
        return onnx.load(folder / "quantized.onnx")


class SeededReader:
    """Calibration data as ONNX Runtime's quantiser reads them: `get_next` until None."""

    def __init__(self, model: onnx.ModelProto, count: int = 8) -> None:
        """Inputs must be static; integers are drawn below 1000, masks are ones."""
        rng = np.random.default_rng(5)
        self._feeds = iter([_feed(model, rng) for _ in range(count)])

    def get_next(self) -> dict[str, NDArray[np.generic]] | None:
        """The next set of inputs by name."""
        return next(self._feeds, None)

    def __iter__(self) -> Iterator[dict[str, NDArray[np.generic]]]:
        return self._feeds


def _feed(model: onnx.ModelProto, rng: np.random.Generator) -> dict[str, NDArray[np.generic]]:
    initialised = {tensor.name for tensor in model.graph.initializer}
    feed: dict[str, NDArray[np.generic]] = {}
    for value in model.graph.input:
        if value.name in initialised:
            continue
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if "mask" in value.name:
            feed[value.name] = np.ones(shape, dtype)
        elif np.issubdtype(dtype, np.integer):
            feed[value.name] = rng.integers(0, 1000, shape).astype(dtype)
        else:
            feed[value.name] = rng.standard_normal(shape).astype(dtype)
    return feed
