"""Low-rank branches: which are merged, that the model computes the same, and what is said."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from stages.compiler.draft import Draft, first_draft
from stages.compiler.lora import Lora, lora_notes
from stages.compiler.passes.merge_lora import MergeLora
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import import import_model
from stages.recipe.semantics import interpret
from stages.recipe.verify import verify
from tests.compiler.specs import hardware

K, N, RANK = 24, 32, 4
SPEC = hardware("npu_tiny")


class Branches:
    """A model with a product of x, and low-rank branches beside it."""

    def __init__(self, *shape: int) -> None:
        self.random = np.random.default_rng(3)
        self.shape = shape or (1, 6, K)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []

    def constant(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        data = self.random.standard_normal(shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(data, name))
        return name

    def number(self, value: float) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.float32(value), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: int | float) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], f"n{name}", **attributes))
        return name

    def low_rank(self, x: str, k: int = K, n: int = N, rank: int = RANK) -> str:
        down = self.node("MatMul", x, self.constant(k, rank))
        return self.node("MatMul", down, self.constant(rank, n))

    def model(self, *outputs: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "lora",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.weights,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made, strict_mode=True, data_prop=True)


def plain(b: Branches) -> str:
    return b.node("Add", b.node("MatMul", "x", b.constant(K, N)), b.low_rank("x"))


def scaled_behind(b: Branches) -> str:
    branch = b.node("Mul", b.low_rank("x"), b.number(0.5))
    return b.node("Add", branch, b.node("MatMul", "x", b.constant(K, N)))


def scaled_between_and_before(b: Branches) -> str:
    x = b.node("Div", "x", b.number(4.0))
    down = b.node("Mul", b.number(3.0), b.node("MatMul", x, b.constant(K, RANK)))
    up = b.node("MatMul", down, b.constant(RANK, N))
    return b.node("Add", b.node("MatMul", "x", b.constant(K, N)), up)


def both_read_a_scaled_value(b: Branches) -> str:
    x = b.node("Mul", "x", b.number(2.0))
    return b.node("Add", b.node("MatMul", x, b.constant(K, N)), b.low_rank(x))


def biased_product(b: Branches) -> str:
    base = b.node("Add", b.constant(N), b.node("MatMul", "x", b.constant(K, N)))
    return b.node("Add", base, b.node("Div", b.low_rank("x"), b.number(8.0)))


def dropout_before(b: Branches) -> str:
    x = b.node("Identity", "x")
    return b.node("Add", b.node("MatMul", "x", b.constant(K, N)), b.low_rank(x))


def two_adapters(b: Branches) -> str:
    one = b.node("Add", b.node("MatMul", "x", b.constant(K, N)), b.low_rank("x"))
    return b.node("Add", one, b.node("Mul", b.low_rank("x", rank=2), b.number(0.25)))


def transposed(b: Branches) -> str:
    down = b.node("Transpose", b.constant(RANK, K))
    up = b.node("Transpose", b.constant(N, RANK))
    branch = b.node("MatMul", b.node("MatMul", "x", down), up)
    return b.node("Add", b.node("MatMul", "x", b.constant(K, N)), branch)


def gemms(b: Branches) -> str:
    b.shape = (6, K)
    base = b.node("Gemm", "x", b.constant(N, K), b.constant(N), transB=1)
    down = b.node("Gemm", "x", b.constant(RANK, K), transB=1)
    up = b.node("Gemm", down, b.constant(N, RANK), transB=1, alpha=0.5)
    return b.node("Add", base, up)


MERGED = [
    plain, scaled_behind, scaled_between_and_before, both_read_a_scaled_value, biased_product,
    dropout_before, two_adapters, transposed, gemms,
]  # fmt: skip


def run(model: onnx.ModelProto, lora: Lora) -> Draft:
    graph, constants = import_model(model)
    draft = MergeLora(lora).run(first_draft(graph, constants, SPEC), SPEC)
    verify(draft.recipe, draft.constants)
    return draft


def products(draft: Draft) -> int:
    return sum(operator.kind is Kind.MATMUL for operator in draft.graph.operators)


@pytest.mark.parametrize("form", MERGED)
def test_a_branch_becomes_part_of_the_weights(form: object) -> None:
    assert callable(form)
    branches = Branches()
    output = form(branches)
    model = branches.model(output)
    draft = run(model, Lora.MERGE)
    assert products(draft) == 1
    assert draft.recipe.notes[0].startswith("LoRA branches merged into weights: ")
    assert lora_notes(("layout: best", *draft.recipe.notes)) == draft.recipe.notes
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(5).standard_normal(branches.shape).astype(np.float32)
    (wanted,) = session.run(None, {"x": x})
    found = interpret(draft.graph, draft.constants, {"x": x})[output]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * float(np.abs(wanted).max()))


@pytest.mark.parametrize("form", MERGED)
def test_a_branch_that_is_kept_is_told(form: object) -> None:
    assert callable(form)
    branches = Branches()
    model = branches.model(form(branches))
    graph, _ = import_model(model)
    draft = run(model, Lora.KEEP)
    assert draft.graph == graph
    assert "kept, --merge-lora merges them" in draft.recipe.notes[0]


def computed_scale(b: Branches) -> str:
    gate = b.node("ReduceMean", "x", keepdims=1)
    branch = b.node("Mul", b.low_rank("x"), gate)
    return b.node("Add", b.node("MatMul", "x", b.constant(K, N)), branch)


def read_elsewhere(b: Branches) -> str:
    base = b.node("MatMul", "x", b.constant(K, N))
    return b.node("Mul", b.node("Add", base, b.low_rank("x")), base)


def computed_weights(b: Branches) -> str:
    b.shape = (K, K)
    return b.node("Add", b.node("MatMul", "x", "x"), b.low_rank("x", n=K))


REFUSED = [
    (computed_scale, "scale isn't one constant number"),
    (read_elsewhere, "is read elsewhere too"),
    (computed_weights, "aren't a constant matrix"),
]


@pytest.mark.parametrize(("form", "reason"), REFUSED)
def test_an_ambiguous_branch_is_kept_and_the_note_says_why(form: object, reason: str) -> None:
    assert callable(form)
    branches = Branches()
    model = branches.model(form(branches))
    draft = run(model, Lora.MERGE)
    assert draft.graph == import_model(model)[0]
    (note,) = draft.recipe.notes
    assert reason in note


def another_value(b: Branches) -> str:
    x = b.node("Relu", "x")
    return b.node("Add", b.node("MatMul", "x", b.constant(K, N)), b.low_rank(x))


def full_rank(b: Branches) -> str:
    branch = b.low_rank("x", rank=K)
    return b.node("Add", b.node("MatMul", "x", b.constant(K, N)), branch)


def nonlinear(b: Branches) -> str:
    down = b.node("Relu", b.node("MatMul", "x", b.constant(K, RANK)))
    up = b.node("MatMul", down, b.constant(RANK, N))
    return b.node("Add", b.node("MatMul", "x", b.constant(K, N)), up)


def a_sum_with_itself(b: Branches) -> str:
    value = b.low_rank("x")
    return b.node("Add", value, value)


@pytest.mark.parametrize("form", [another_value, full_rank, nonlinear, a_sum_with_itself])
def test_what_is_no_low_rank_branch_is_left_alone(form: object) -> None:
    assert callable(form)
    branches = Branches()
    model = branches.model(form(branches))
    draft = run(model, Lora.MERGE)
    assert draft.graph == import_model(model)[0]
    assert draft.recipe.notes == ()
