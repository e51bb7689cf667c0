"""A small network of YOLO's parts in int8 for the RK3588: its plan keeps the rules and computes
what its integers mean, its image is read as it comes, and nothing between convolutions is float."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models.zoo.device_io import with_device_types
from models.zoo.graph import GraphBuilder
from models.zoo.ranges import fused_quantization
from models.zoo.yolo_blocks import c2f, class_sum, conv, sppf
from stages.calibration.measurements import Precision
from stages.compiler.pipeline import compile_graph
from stages.device.functional import Machine
from stages.hardware.load import load_spec
from stages.recipe.decisions import Engine
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import import import_model
from stages.recipe.semantics import interpret
from stages.tensors import ROW_MAJOR, DType
from tests.compiler.judged import judge_plan

SPEC = load_spec(Path(__file__).resolve().parents[2] / "hardware_specs" / "rk3588_npu.yaml")


def small_network() -> GraphBuilder:
    g = GraphBuilder("small")
    x = g.conv(g.input("image", (1, 3, 64, 64)), 32, 6, 2, "silu", pads=2)
    x = sppf(g, c2f(g, x, 64, 1, shortcut=True), 64)
    scores = conv(g, x, 80, act="sigmoid")
    g.output(scores, class_sum(g, scores))
    return g


def test_the_plan_is_legal_exact_and_in_integers() -> None:
    model = with_device_types(small_network().build(), Precision.INT8)
    graph, constants = import_model(model)
    compiled = compile_graph(graph, constants, SPEC, fused_quantization(graph, constants, SPEC))
    judge_plan(compiled, SPEC)
    image = np.random.default_rng(3).integers(-128, 128, (1, 3, 64, 64), np.int8)
    meant = interpret(compiled.recipe.graph, compiled.constants, {"image": image})
    done = Machine(compiled.plan, compiled.weights, SPEC).run({"image": image}).outputs
    for name, expected in meant.items():
        assert np.abs(done[name].astype(int) - expected.astype(int)).max() <= 1, name

    operators = {operator.name: operator for operator in compiled.recipe.graph.operators}
    types = compiled.recipe.graph.types
    results = [operators[group.operators[-1]] for group in compiled.recipe.groups]
    assert {types[result.outputs[0]].dtype for result in results} == {DType.I8}
    relayouts = [result for result in results if result.kind is Kind.RELAYOUT]
    layouts = [compiled.recipe.layout(result.outputs[0]) for result in relayouts]
    assert layouts == [ROW_MAJOR], "one output comes in blocks, the other in rows"
    assert {compiled.recipe.layout(name) for name in graph.outputs} == {ROW_MAJOR}
    joined = [group for group in compiled.recipe.groups if group.engine is Engine.DMA]
    assert all(operators[group.name].kind in (Kind.CONCAT, Kind.SLICE) for group in joined)


def test_nothing_fuses_behind_a_table_and_interpolation_is_the_hosts() -> None:
    g = GraphBuilder("affine")
    x = g.conv(g.input("image", (1, 16, 16, 16)), 16, 3, 1, "hardswish")
    scaled = g.mul(x, g.scalar(0.5))
    g.output(g.resize(scaled, 32, 32), g.resize(scaled, 24, 24, "linear"))
    graph, constants = import_model(with_device_types(g.build(), Precision.FP16))
    compiled = compile_graph(graph, constants, SPEC)
    judge_plan(compiled, SPEC)
    kinds = {operator.name: operator.kind for operator in compiled.recipe.graph.operators}
    engines = [
        (group.engine, kind)
        for group in compiled.recipe.groups
        for kind in map(kinds.__getitem__, group.operators)
    ]
    assert (Engine.TENSOR_CORE, Kind.HARD_SWISH) in engines
    assert (Engine.VECTOR, Kind.MUL) in engines
    (fallback,) = compiled.recipe.fallbacks
    assert fallback.reason == "resize with taps 2: rk3588_npu takes 1 to 1"
