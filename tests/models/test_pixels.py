"""Classifiers that take pixels: what stands before them, what of it is left among integers, and
what the Hexagon's plan makes of it."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from models.zoo import ZOO
from models.zoo.device_io import with_device_types
from models.zoo.graph import GraphBuilder
from models.zoo.pixels import (
    CENTRED,
    DEFINITIONS,
    STANDARDIZED,
    Steps,
    from_pixels,
    norms_as_arithmetic,
)
from models.zoo.resnets import batch_norm
from stages.calibration.measurements import Precision
from stages.compiler.vendor_way import compile_as_vendors_do
from stages.hardware.load import load_spec
from stages.plan.instructions import Plan
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import import import_model
from tests.hardware.specs import SPECS

SHAPE = (1, 3, 16, 16)


def small() -> onnx.ModelProto:
    g = GraphBuilder("small")
    x = g.conv(g.input("image", SHAPE), 32, 3, 2, "relu")
    g.output(g.activation(batch_norm(g, g.max_pool(x, 2, 2)), "relu"))
    return g.build()


def image() -> np.ndarray:
    return np.random.default_rng(5).random(SHAPE, np.float32)


def run(model: onnx.ModelProto, pixels: np.ndarray) -> np.ndarray:
    onnx.checker.check_model(model, full_check=True)
    (result,) = ReferenceEvaluator(model).run(None, {"image": pixels})
    return np.asarray(result)


def test_the_network_sees_pixels_normalised() -> None:
    means = np.array([0.485, 0.456, 0.406], np.float32).reshape(1, 3, 1, 1)
    deviations = np.array([0.229, 0.224, 0.225], np.float32).reshape(1, 3, 1, 1)
    pixels, model = image(), small()
    standardised = run(from_pixels(model, STANDARDIZED), pixels)
    np.testing.assert_allclose(standardised, run(model, (pixels - means) / deviations), rtol=1e-4)
    centred = run(from_pixels(model, CENTRED), pixels)
    np.testing.assert_allclose(centred, run(model, 2 * pixels - 1), rtol=1e-4, atol=1e-6)


def test_norms_as_arithmetic_compute_the_same() -> None:
    model = small()
    for item in model.graph.initializer:
        if item.dims == [32]:  # scale, bias, mean and variance, that no two may be taken for equal
            numbers = np.random.default_rng(len(item.name)).random(32, np.float32) + 0.5
            item.CopyFrom(numpy_helper.from_array(numbers, item.name))
    made = norms_as_arithmetic(model)
    kinds = [node.op_type for node in made.graph.node]
    assert kinds[kinds.index("MaxPool") + 1 :] == ["Sub", "Mul", "Add", "Relu"]
    np.testing.assert_allclose(run(made, image()), run(model, image()), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("steps", "left"), [(CENTRED, []), (STANDARDIZED, ["Sub", "Div"])])
def test_one_number_for_all_changes_what_integers_mean_and_not_them(
    steps: Steps, left: list[str]
) -> None:
    model = from_pixels(small(), steps)
    made = with_device_types(model, Precision.INT8)
    onnx.checker.check_model(made)
    kinds = [node.op_type for node in made.graph.node]
    assert kinds[: len(left) + 2] == ["DequantizeLinear", *left, "Conv"]
    halves = with_device_types(model, Precision.FP16)
    assert len(halves.graph.node) == len(model.graph.node) + 2, "floats are computed with"


def test_every_definition_is_in_the_zoo_beside_the_network_it_begins() -> None:
    assert DEFINITIONS.keys() <= ZOO.keys()
    assert {name.removesuffix("_from_pixels") for name in DEFINITIONS} <= ZOO.keys()


def test_the_channels_of_an_image_stay_together() -> None:
    """Padded to whole blocks, three tiles of one channel would cost three times one of three."""
    g = GraphBuilder("large")
    g.output(g.conv(g.input("image", (1, 3, 224, 224)), 32, 3, 2, "relu"))
    spec = load_spec(SPECS / "qualcomm_htp_v73.yaml")
    model = with_device_types(from_pixels(g.build(), STANDARDIZED), Precision.FP16)
    plan = compile_as_vendors_do(*import_model(model), spec).plan
    shapes = _shapes_of(plan, Kind.DIV)
    assert sum(prod(shape) for shape in shapes) == 3 * 224 * 224
    assert all(shape[1] == 3 for shape in shapes)


def _shapes_of(plan: Plan, kind: Kind) -> list[tuple[int, ...]]:
    kernels = {
        index
        for index, kernel in enumerate(plan.kernels)
        if any(operator.kind is kind for operator in kernel.operators)
    }
    steps = [step for step in plan.instructions if step.kernel in kernels]
    return [step.writes[0].shape for step in steps]
