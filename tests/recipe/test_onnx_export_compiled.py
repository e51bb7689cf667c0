"""Recipes that the compiler made: their ONNX form computes what the device computes."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from stages.compiler.pipeline import compile_graph
from stages.device.functional import Machine
from stages.hardware.load import find_spec, load_spec
from stages.recipe.onnx_export import export_recipe
from stages.recipe.onnx_import import import_model
from tests.recipe.onnx_models import assert_close, parse, random_feeds, run_model

RESIDUAL = (
    "g (float[1,4,8,8] x) => (float[1,8,8,8] y) "
    "{ c = Conv<pads=[1,1,1,1]>(x, w, b) r = Relu(c) d = Conv<pads=[1,1,1,1]>(r, v, b) "
    "s = Add(d, r) y = HardSwish(s) }",
    {"w": (8, 4, 3, 3), "v": (8, 8, 3, 3), "b": (8,)},
)
ATTENTION = (
    "g (float[1,16,32] x) => (float[1,16,32] y) "
    "{ q = MatMul(x, w) t = Transpose<perm=[0,2,1]>(x) s = MatMul(q, t) p = Softmax(s) "
    "a = MatMul(p, x) r = Add(a, x) y = LayerNormalization(r, g, b) }",
    {"w": (32, 32), "g": (32,), "b": (32,)},
)
HOSTED = (
    "g (float[2,8] x) => (float[2,8] y, float[2,8] z) "
    "{ r = Relu(x) h = Hardmax(r) y = Add(h, r) c = CumSum(r, axis0) z = Neg(c) }",
    {},
)
QUANTISED = (
    "g (float[1,4,8,8] x) => (float[1,8,8,8] y) "
    "<float s = {0.04}, int8 z = {3}, float o = {0.2}> "
    "{ q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) "
    "e = QuantizeLinear(w, s, zero8) f = DequantizeLinear(e, s, zero8) "
    "c = Conv<pads=[1,1,1,1]>(d, f) r = Relu(c) "
    "k = QuantizeLinear(r, o, z) y = DequantizeLinear(k, o, z) }",
    {"w": (8, 4, 3, 3)},
)


def model_of(text, shapes):
    model = parse(text)
    random = np.random.default_rng(4)
    for name, shape in shapes.items():
        data = (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(data, name))
    model.graph.initializer.append(numpy_helper.from_array(np.array(1), "axis0"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(0, np.int8), "zero8"))
    return model


@pytest.mark.parametrize("hardware", ["npu_tiny", "ethos_u65_512"])
@pytest.mark.parametrize(
    "network",
    [RESIDUAL, ATTENTION, HOSTED, QUANTISED],
    ids=["residual", "attention", "hosted", "quantised"],
)
def test_export_is_what_the_device_computes(network, hardware, repository):
    spec = load_spec(find_spec(hardware, repository / "hardware_specs"))
    graph, constants = import_model(model_of(*network))
    feeds = random_feeds(graph)
    compiled = compile_graph(graph, constants, spec)
    given = Machine(compiled.plan, compiled.weights, spec).run(feeds).outputs
    model = export_recipe(compiled.recipe, compiled.constants)
    onnx.checker.check_model(model)
    inner = compiled.recipe.graph.types
    narrowed = {name: data.astype(inner[name].dtype.numpy) for name, data in feeds.items()}
    for name, result in zip(graph.outputs, run_model(model, narrowed), strict=True):
        wide = np.asarray(result, np.float32)
        assert_close(wide, np.asarray(given[name], np.float32), 4e-3, name)
