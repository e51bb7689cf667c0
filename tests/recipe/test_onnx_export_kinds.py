"""Every kind in every element type: the exported operator computes what the interpreter does."""

import numpy as np
import onnx
import pytest

from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.recipe.onnx_export import export_recipe
from stages.recipe.operators import IllegalOperatorError, infer
from stages.recipe.semantics import interpret
from stages.tensors import DType, TensorType
from tests.recipe.onnx_models import assert_close, random_array, recipe_of, run_model

IMAGE, MATRIX, CUBE = (1, 4, 6, 6), (3, 4), (2, 3, 4)
WINDOW = {"strides": (2, 1), "pads": (1, 0, 0, 1), "dilations": (1, 2), "group": 1}
POOL = {"kernel": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}
REDUCE = {"axes": (0, 2), "keepdims": 0}
RESIZE = {"coordinates": "half_pixel", "nearest": "round_prefer_floor"}
ALL = {"starts": (0, 5, 0, 4), "stops": (1, -1, 6, 0), "steps": (1, -2, 3, -3)}

UNARY = [
    "neg",
    "abs",
    "exp",
    "log",
    "sqrt",
    "reciprocal",
    "erf",
    "sin",
    "cos",
    "floor",
    "ceil",
    "round",
    "sign",
    "not",
    "is_nan",
    "relu",
    "tanh",
    "sigmoid",
    "hard_swish",
    "silu",
    "softplus",
    "softsign",
    "mish",
    "identity",
    "relayout",
]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "minimum",
    "maximum",
    "prelu",
    "equal",
    "less",
    "less_or_equal",
    "greater",
    "greater_or_equal",
    "and",
    "or",
    "xor",
]

CASES = [
    *((kind, (CUBE,), {}) for kind in UNARY),
    *((kind, (CUBE, (3, 1)), {}) for kind in BINARY),
    ("mod", (CUBE, (4,)), {"fmod": 0}),
    ("mod", (CUBE, (4,)), {"fmod": 1}),
    ("leaky_relu", (CUBE,), {"alpha": 0.1}),
    ("clip", (CUBE,), {"min": -0.5, "max": 0.7}),
    ("clip", (CUBE,), {"min": -np.inf, "max": 1.0}),
    ("clip", (CUBE,), {"min": -np.inf, "max": np.inf}),
    ("hard_sigmoid", (CUBE,), {"alpha": 0.3, "beta": 0.4}),
    ("gelu", (CUBE,), {"approximate": "none"}),
    ("gelu", (CUBE,), {"approximate": "tanh"}),
    ("elu", (CUBE,), {"alpha": 0.8}),
    ("selu", (CUBE,), {"alpha": 1.6, "gamma": 1.05}),
    ("conv", (IMAGE, (2, 4, 3, 3), (2,)), WINDOW),
    ("conv", (IMAGE, (8, 1, 3, 3)), WINDOW | {"group": 4}),
    ("conv_transpose", (IMAGE, (4, 2, 3, 3), (2,)), WINDOW | {"output_padding": (1, 0)}),
    ("matmul", (CUBE, (4, 5)), {}),
    ("matmul", (CUBE, (4, 5), (5,)), {}),
    ("batch_norm", (IMAGE, (4,), (4,), (4,), (4,)), {"epsilon": 1e-3}),
    ("layer_norm", (CUBE, (4,), (3, 1)), {"axis": 1, "epsilon": 1e-3}),
    ("layer_norm", (CUBE, (4,)), {"axis": 2, "epsilon": 1e-3}),
    ("instance_norm", (IMAGE, (4,), (4,)), {"epsilon": 1e-3}),
    ("softmax", (CUBE,), {"axis": 1}),
    ("log_softmax", (CUBE,), {"axis": 2}),
    ("softmax_numerator", (CUBE,), {"axis": 1}),
    ("max_pool", (IMAGE,), POOL | {"dilations": (1, 2)}),
    ("max_pool", (IMAGE,), POOL | {"pads": (1, 0, 4, 2)}),
    ("average_pool", (IMAGE,), POOL | {"count_include_pad": 0}),
    ("average_pool", (IMAGE,), POOL | {"count_include_pad": 1}),
    ("average_pool", (IMAGE,), POOL | {"count_include_pad": 1, "overhang": (1, 0)}),
    ("average_pool", (IMAGE,), POOL | {"count_include_pad": 0, "dilations": (1, 2)}),
    *(
        (kind, (CUBE,), attributes)
        for kind in Kind
        if kind.startswith("reduce_")
        for attributes in (REDUCE, REDUCE | {"keepdims": 1, "axes": (1,)})
    ),
    ("concat", (CUBE, (2, 1, 4)), {"axis": 1}),
    ("slice", ((*IMAGE[:1], 6, 6, 6),), ALL),
    ("split", (MATRIX,), {"axis": 1, "sizes": (1, 3)}),
    ("pad", (MATRIX,), {"pads": (1, 0, 2, 1), "mode": "constant", "value": 2.0}),
    ("pad", (MATRIX,), {"pads": (1, 0, 1, 2), "mode": "reflect", "value": 0.0}),
    ("pad", (MATRIX,), {"pads": (1, 0, 1, 2), "mode": "edge", "value": 0.0}),
    ("resize", (IMAGE,), RESIZE | {"mode": "nearest", "scales": (1.0, 1.0, 2.0, 1.5)}),
    ("resize", (IMAGE,), RESIZE | {"mode": "linear", "scales": (1.0, 1.0, 0.5, 1.7)}),
    ("resize", (IMAGE,), RESIZE | {"mode": "cubic", "scales": (1.0, 1.0, 2.0, 2.0)}),
    ("transpose", (CUBE,), {"permutation": (2, 0, 1)}),
    ("reshape", (CUBE,), {"shape": (4, 6)}),
    ("expand", ((3, 1),), {"shape": (2, 3, 4)}),
]

FLOATS = (DType.F32, DType.F16, DType.BF16, DType.F64)
NARROW = (DType.I8, DType.U8, DType.I16, DType.U16)
INTEGERS = (*NARROW, DType.I32, DType.U32, DType.I64)
MOVING = [
    "identity",
    "relayout",
    "concat",
    "slice",
    "split",
    "pad",
    "transpose",
    "reshape",
    "expand",
]
POSITIVE = ("sqrt", "log", "pow", "batch_norm")
NO_INTEGERS = ("conv", "conv_transpose", "average_pool")
NO_NARROW_INTEGERS = [
    kind for kind in Kind if kind.startswith("reduce_") and kind not in ("reduce_max", "reduce_min")
]


def is_defined(kind, attributes, dtype):
    """Whether ONNX has the operator for this type, where the operator table is more generous."""
    if dtype is DType.BOOL:
        return kind in (*MOVING, "equal", "and", "or", "xor", "not")
    if dtype.is_float:
        return True
    if kind == "resize":
        return attributes["mode"] == "nearest" and dtype is not DType.I64
    return kind not in NO_INTEGERS and not (kind in NO_NARROW_INTEGERS and dtype in NARROW)


def one_operator(kind, shapes, attributes, dtype):
    """A graph of one operator between casts from and to types that ONNX Runtime can be fed."""
    kind = Kind(kind)
    names = [f"x{position}" for position in range(len(shapes))]
    outer = DType.F32 if dtype is DType.BF16 else dtype
    types = {}
    operators = []
    for position, (name, shape) in enumerate(zip(names, shapes, strict=True)):
        inner = DType.BOOL if kind is Kind.WHERE and position == 0 else dtype
        types[f"in.{name}"] = TensorType(outer, shape)
        types[name] = TensorType(inner, shape)
        operators.append(Operator(f"cast {name}", Kind.CAST, (f"in.{name}",), (name,), {}))
    outputs = ("y", "z")[: len(attributes.get("sizes", (1,)))]
    operator = Operator("op", kind, tuple(names), outputs, attributes)
    declared = [TensorType(dtype, ())] if kind is Kind.CAST else []
    results = infer(operator, [types[name] for name in names], declared)
    operators.append(operator)
    for output, result in zip(outputs, results, strict=True):
        types[output] = result
        wide = DType.F32 if result.dtype is DType.BF16 else result.dtype
        types[f"out.{output}"] = TensorType(wide, result.shape)
        operators.append(Operator(f"cast {output}", Kind.CAST, (output,), (f"out.{output}",), {}))
    inputs = tuple(f"in.{name}" for name in names)
    return Graph("g", inputs, tuple(f"out.{o}" for o in outputs), (), types, tuple(operators))


def feeds_of(graph, kind):
    random = np.random.default_rng(11)
    feeds = {name: random_array(random, graph.types[name]) for name in graph.inputs}
    for name, data in feeds.items():
        if data.dtype.kind == "i":
            feeds[name] = random.integers(-9, 9, data.shape).astype(data.dtype)
        if data.dtype.kind == "u":
            feeds[name] = random.integers(0, 12, data.shape).astype(data.dtype)
        if kind in POSITIVE or (kind in ("div", "mod", "pow") and name == "in.x1"):
            feeds[name] = np.abs(feeds[name]).astype(data.dtype) + np.ones((), data.dtype)
    return feeds


def legal_cases():
    for kind, shapes, attributes in CASES:
        for dtype in (*FLOATS, *INTEGERS, DType.BOOL):
            if not is_defined(kind, attributes, dtype):
                continue
            try:
                one_operator(kind, shapes, attributes, dtype)
            except IllegalOperatorError:
                continue
            yield pytest.param(kind, shapes, attributes, dtype, id=f"{kind}-{dtype}")


TOLERANCES = {DType.F16: 2e-3, DType.BF16: 2e-2}


@pytest.mark.parametrize(("kind", "shapes", "attributes", "dtype"), list(legal_cases()))
def test_every_kind(kind, shapes, attributes, dtype):
    graph = one_operator(kind, shapes, attributes, dtype)
    feeds = feeds_of(graph, kind)
    meant = interpret(graph, {}, feeds)
    model = export_recipe(recipe_of(graph, len(graph.operators)), {})
    onnx.checker.check_model(model)
    results = run_model(model, feeds)
    for name, result in zip(graph.outputs, results, strict=True):
        assert_close(result, meant[name], TOLERANCES.get(dtype, 1e-5), name)
