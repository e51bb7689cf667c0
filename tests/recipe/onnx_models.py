"""Running models and graphs beside each other: what the import and export tests compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
import onnx
from onnx import ModelProto, parser

from stages.recipe.decisions import Engine, Group, Recipe, Target
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.recipe.onnx_export import export_recipe, host_call_model
from stages.recipe.onnx_import import import_model
from stages.recipe.semantics import interpret
from stages.recipe.verify import verify_graph
from stages.tensors import Array, TensorType

Arrays = dict[str, Array]


def parse(text: str, *, opset: int = 17, microsoft: bool = False) -> ModelProto:
    """A model from onnx's text form, its header written here."""
    imports = f'"" : {opset}' + (', "com.microsoft" : 1' if microsoft else "")
    version = 8 if opset <= 18 else 10
    return parser.parse_model(f"<ir_version: {version}, opset_import: [{imports}]> {text}")


def session(model: ModelProto):
    """An ONNX Runtime session that runs the model as it is written."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run_model(model: ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """The model's outputs under ONNX Runtime; bfloat16 is fed and read through OrtValue."""
    import onnxruntime

    runner = session(model)
    if not any(array.dtype == ml_dtypes.bfloat16 for array in feeds.values()):
        return [np.asarray(result) for result in runner.run(None, dict(feeds))]
    values = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, 16)
        if array.dtype == ml_dtypes.bfloat16
        else onnxruntime.OrtValue.ortvalue_from_numpy(array)
        for name, array in feeds.items()
    }
    return [value.numpy() for value in runner.run_with_ort_values(None, values)]


def host_call(graph: Graph):
    """What runs the `host_call` operators of a graph: ONNX Runtime."""

    def call(operator: Operator, operands: Sequence[Array | None]) -> list[Array]:
        model = host_call_model(
            operator,
            [graph.types[name] for name in operator.inputs],
            [graph.types[name] for name in operator.outputs],
        )
        names = operator.attributes["names"]
        assert isinstance(names, tuple)
        feeds = {
            str(name): operand
            for name, operand in zip(names, operands, strict=True)
            if operand is not None
        }
        return run_model(model, feeds)

    return call


def random_feeds(graph: Graph, seed: int = 0) -> Arrays:
    """Values for a graph's inputs: normal floats, small integers."""
    random = np.random.default_rng(seed)
    return {name: random_array(random, graph.types[name]) for name in graph.inputs}


def random_array(random: np.random.Generator, tensor_type: TensorType) -> Array:
    """A random array of a type."""
    if tensor_type.dtype.is_float:
        return random.standard_normal(tensor_type.shape).astype(tensor_type.dtype.numpy)
    return random.integers(0, 2, tensor_type.shape).astype(tensor_type.dtype.numpy)


def recipe_of(graph: Graph, group_size: int = 3) -> Recipe:
    """A recipe with groups of a few operators each, undecided otherwise."""
    names = [operator.name for operator in graph.operators]
    groups = tuple(
        Group(f"group {start}", tuple(names[start : start + group_size]), Engine.HOST)
        for start in range(0, len(names), group_size)
    )
    return Recipe(graph, Target("none", "0"), groups)


def kinds(graph: Graph) -> list[str]:
    """The kinds of a graph's operators, in order."""
    return [str(operator.kind) for operator in graph.operators]


def host_types(graph: Graph) -> list[str]:
    """The ONNX operator types that became `host_call`."""
    found = []
    for operator in graph.operators:
        if operator.kind is Kind.HOST_CALL:
            node = onnx.NodeProto()
            node.ParseFromString(operator.attributes["node"])
            found.append(node.op_type)
    return found


def check(
    model: ModelProto,
    feeds: Mapping[str, Array] | None = None,
    *,
    tolerance: float = 1e-5,
    steps: int = 0,
    wanted: Sequence[Array] | None = None,
    export: bool = True,
) -> Graph:
    """Assert that import, interpreter and export compute what the model computes.

    `steps`: by how much integers may differ, where rounding meets ties.
    """
    graph, constants = import_model(model)
    verify_graph(graph, constants)
    feeds = dict(feeds) if feeds is not None else random_feeds(graph)
    if wanted is None:
        wanted = run_model(model, feeds)
    meant = interpret(graph, constants, feeds, host_call=host_call(graph))
    for name, expected in zip(graph.outputs, wanted, strict=True):
        assert_close(meant[name], expected, tolerance, f"interpreter, %{name}", steps)
    if export:
        exported = export_recipe(recipe_of(graph), constants)
        onnx.checker.check_model(exported, full_check=False)
        results = run_model(exported, feeds)
        for name, result in zip(graph.outputs, results, strict=True):
            assert_close(result, meant[name], tolerance, f"export, %{name}", steps)
    return graph


def assert_close(
    actual: Array, expected: Array, tolerance: float, what: str, steps: int = 0
) -> None:
    """Equal types and shapes; values within `tolerance` of the largest finite one."""
    assert actual.shape == expected.shape, f"{what}: {actual.shape} != {expected.shape}"
    assert actual.dtype == expected.dtype, f"{what}: {actual.dtype} != {expected.dtype}"
    if not expected.size:
        return
    real, wanted = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    if actual.dtype.kind in "iu":
        assert np.abs(real - wanted).max() <= steps, what
        return
    finite = wanted[np.isfinite(wanted)]
    scale = float(np.abs(finite).max(initial=1e-6))
    np.testing.assert_allclose(real, wanted, rtol=tolerance, atol=tolerance * scale, err_msg=what)
