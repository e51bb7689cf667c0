"""Legal oddities from the wild, each in a small model: every one passes, proven equal."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from stages.tensors import Array
from tests.normalizer.graphs import from_text, operators, through_stage

WEIGHT = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)


def test_initialisers_listed_as_inputs_stop_being_inputs(tmp_path: Path) -> None:
    model = from_text(
        "g (float[2,8] x, float[8,4] w) => (float[2,4] y) { y = MatMul (x, w) }",
        {"w": WEIGHT}, opset=9, ir_version=3,
    )  # fmt: skip
    report, written = through_stage(model, tmp_path)
    assert [value.name for value in written.graph.input] == ["x"]
    assert {"name": "initialisers", "done": "1 were inputs too"} in report.steps


def test_nameless_and_twice_named_nodes_get_names_of_their_own(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y) { a = Relu (x) b = Neg (a) y = Exp (b) }")
    for node, name in zip(model.graph.node, ("n", "n", ""), strict=True):
        node.name = name
    _, written = through_stage(model, tmp_path)
    assert [node.name for node in written.graph.node] == ["n", "n_2", "y"]


def test_value_names_with_spaces_slashes_colons_and_unicode_stay(tmp_path: Path) -> None:
    names = ["an input", "a/b:c", "Σ выход", "out put:0"]
    nodes = [helper.make_node(kind, [a], [b]) for kind, a, b in
             zip(("Relu", "Neg", "Exp"), names, names[1:], strict=False)]  # fmt: skip
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in names]
    graph = helper.make_graph(nodes, "names", infos[:1], infos[-1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    report, written = through_stage(model, tmp_path)
    assert [node.output[0] for node in written.graph.node] == names[1:]
    assert report.inputs == {"an input": "f32[3]"}
    assert report.outputs == {"out put:0": "f32[3]"}


def test_optional_inputs_left_empty_stay_empty(tmp_path: Path) -> None:
    model = from_text(
        'g (float[4] x) => (float[4] y) { y = Clip (x, "", high) }', {"high": np.float32(0.5)}
    )
    _, written = through_stage(model, tmp_path)
    assert list(written.graph.node[0].input) == ["x", "", "high"]


def test_an_empty_input_survives_a_change_of_operator_set(tmp_path: Path) -> None:
    model = from_text(
        'g (float[4] x) => (float[4] y) { y = Clip (x, "", high) }',
        {"high": np.float32(0.5)}, opset=11,
    )  # fmt: skip
    _, written = through_stage(model, tmp_path)
    assert list(written.graph.node[0].input) == ["x", "", "high"]


def test_the_domain_spelled_out_is_shortened(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y) { y = Relu (x) }")
    model.opset_import[0].domain = "ai.onnx"
    model.graph.node[0].domain = "ai.onnx"
    _, written = through_stage(model, tmp_path)
    assert written.graph.node[0].domain == ""


def test_a_foreign_domain_imported_and_unused_is_dropped(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y) { y = Relu (x) }", domains={"acme.ops": 3})
    _, written = through_stage(model, tmp_path)
    assert [entry.domain for entry in written.opset_import] == [""]


def test_model_local_functions_are_inlined(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17, "local": 1]>
        g (float[2,3] x) => (float[2,3] y) {
          a = local.twice <times = 3.0> (x)
          y = local.twice <times = 2.0> (a)
        }
        <domain: "local", opset_import: ["": 17]>
        twice <times> (v) => (w) {
          factor = Constant <value_float: float = @times> ()
          scaled = Mul (v, factor)
          w = local.shifted (scaled)
        }
        <domain: "local", opset_import: ["": 17]>
        shifted (v) => (w) {
          one = Constant <value_float = 1.0> ()
          w = Add (v, one)
        }
    """)
    model.functions[0].opset_import.append(helper.make_opsetid("local", 1))
    report, written = through_stage(model, tmp_path)
    assert operators(written) == ["Mul", "Add", "Mul", "Add"]
    assert not written.functions
    assert {"name": "functions", "done": "2 model-local functions inlined"} in report.steps


def test_scalars(tmp_path: Path) -> None:
    model = from_text(
        "g (float x, float[3] v) => (float[3] y, float s) { y = Mul (x, v) s = Neg (x) }"
    )
    report, _ = through_stage(model, tmp_path)
    assert report.inputs == {"x": "f32[]", "v": "f32[3]"}
    assert report.outputs["s"] == "f32[]"


def test_tensors_without_elements(tmp_path: Path) -> None:
    model = from_text(
        "g (float[2,3] x) => (float[2,3] y, float[0,3] z) "
        "{ y = Concat <axis=0> (x, none) z = Slice (x, from, from) }",
        {"none": np.zeros((0, 3), np.float32), "from": np.array([0])},
    )
    report, _ = through_stage(model, tmp_path)
    assert report.outputs == {"y": "f32[2,3]", "z": "f32[0,3]"}


def test_stale_shapes_are_inferred_anew(tmp_path: Path) -> None:
    model = from_text("g (float[2,3] x) => (float[7,7] y) { a = Transpose (x) y = Relu (a) }")
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.INT64, [9, 9]))
    report, written = through_stage(model, tmp_path)
    assert report.outputs == {"y": "f32[3,2]"}
    (info,) = written.graph.value_info
    assert [dim.dim_value for dim in info.type.tensor_type.shape.dim] == [3, 2]


def test_shape_arithmetic_folds_once_axes_are_bound(tmp_path: Path) -> None:
    model = from_text(
        """
        g (float[N,3,H,W] x) => (float[a,b] y, float[c,d,e] z) {
          s = Shape (x)
          n, c, h, w = Split <axis=0> (s)
          hw = Mul (h, w)
          flat = Concat <axis=0> (n, c, hw)
          z = Reshape (x, flat)
          first = Slice (s, zero, one)
          rest = Concat <axis=0> (first, minus)
          y = Reshape (x, rest)
        }
        """,
        {"zero": np.array([0]), "one": np.array([1]), "minus": np.array([-1])},
    )
    report, written = through_stage(model, tmp_path, {"N": 2, "H": 4, "W": 5})
    assert operators(written) == ["Reshape", "Reshape"]
    assert report.outputs == {"y": "f32[2,60]", "z": "f32[2,3,20]"}


def test_subgraphs_may_read_outer_values(tmp_path: Path) -> None:
    model = from_text(
        """
        g (float[3] x, float limit) => (float[3] y) {
          outer = Exp (x)
          total = ReduceSum <keepdims=0> (x)
          high = Greater (total, limit)
          y = If (high) <
            then_branch = t () => (float[3] a) { a = Add (outer, bias) },
            else_branch = e () => (float[3] b) { m = Mul (outer, x) b = Sub (m, bias) }>
        }
        """,
        {"bias": np.array([1, 2, 3], np.float32)},
    )
    _, written = through_stage(model, tmp_path)
    assert operators(written) == ["Exp", "ReduceSum", "Greater", "If"]


def test_an_if_whose_condition_is_constant_becomes_the_branch_taken(tmp_path: Path) -> None:
    model = from_text(
        """
        g (float[N,3] x) => (float[a,3] y) {
          s = Shape (x)
          n = Gather (s, first)
          many = Greater (n, limit)
          y = If (many) <
            then_branch = t () => (float[a,3] a) { a = Relu (x) },
            else_branch = e () => (float[a,3] b) { c = Mul (x, half) b = Neg (c) }>
        }
        """,
        {"first": np.int64(0), "limit": np.int64(4), "half": np.float32(0.5)},
    )
    _, many = through_stage(model, tmp_path, {"N": 8})
    assert operators(many) == ["Relu"]
    _, few = through_stage(model, tmp_path, {"N": 2})
    assert operators(few) == ["Mul", "Neg"]
    assert few.graph.output[0].name == "y"


def test_dead_branches_go(tmp_path: Path) -> None:
    model = from_text(
        "g (float[4] x) => (float[4] y) { y = Relu (x) a = Exp (x) b = Add (a, w) }",
        {"w": np.ones(4, np.float32), "unused": np.ones(99, np.float32)},
    )
    _, written = through_stage(model, tmp_path)
    assert operators(written) == ["Relu"]
    assert not written.graph.initializer


def test_an_output_that_is_an_input(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y, float[4] x) { y = Relu (x) }")
    report, written = through_stage(model, tmp_path)
    assert report.renamed_outputs == {"x": "x/output"}
    assert [value.name for value in written.graph.output] == ["y", "x/output"]
    assert operators(written) == ["Relu", "Identity"]


@pytest.mark.parametrize("how", ["initialiser", "folded", "identity"])
def test_an_output_that_is_a_constant(tmp_path: Path, how: str) -> None:
    body = {
        "initialiser": "y = Relu (x)",
        "folded": "y = Relu (x) c = Add (half, half)",
        "identity": "y = Relu (x) c = Identity (half)",
    }[how]
    value = np.array([0.5, 2], np.float32)
    name = "c" if how == "initialiser" else "half"
    model = from_text(f"g (float[4] x) => (float[4] y, float[2] c) {{ {body} }}", {name: value})
    report, written = through_stage(model, tmp_path)
    assert report.renamed_outputs == {}
    assert [output.name for output in written.graph.output] == ["y", "c"]
    assert operators(written) == ["Relu", "Identity"]


def test_an_output_listed_as_two_names_of_one_value(tmp_path: Path) -> None:
    model = from_text(
        "g (float[4] x) => (float[4] a, float[4] b) "
        "{ r = Relu (x) a = Identity (r) b = Identity (r) }"
    )
    _, written = through_stage(model, tmp_path)
    assert [output.name for output in written.graph.output] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("float16", np.float16), ("float", np.float32), ("double", np.float64),
        ("bfloat16", ml_dtypes.bfloat16),
    ],
)  # fmt: skip
def test_float_types(tmp_path: Path, name: str, dtype: type) -> None:
    weight: Array = WEIGHT.astype(dtype)
    model = from_text(
        f"g ({name}[2,8] x) => ({name}[2,4] y) {{ m = MatMul (x, w) y = Relu (m) }}",
        {"w": weight},
    )
    report, _ = through_stage(model, tmp_path)
    assert report.proof.samples == 2
    assert report.proof.max_relative_difference == 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.bool_])
def test_integer_types(tmp_path: Path, dtype: type) -> None:
    name = {"int8": "int8", "uint8": "uint8", "int32": "int32", "int64": "int64", "bool": "bool"}[
        np.dtype(dtype).name
    ]
    model = from_text(
        f"g ({name}[2,4] x) => ({name}[2,2,4] y) {{ y = Expand (x, shape) }}",
        {"shape": np.array([2, 1, 1])},
    )
    report, _ = through_stage(model, tmp_path)
    assert report.proof.samples == 2


def test_a_graph_that_is_out_of_order_is_sorted(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y) { y = Neg (a) a = Relu (x) }")
    _, written = through_stage(model, tmp_path)
    assert operators(written) == ["Relu", "Neg"]


def test_traces_of_the_exporter_are_dropped(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y) { y = Relu (x) }")
    model.graph.node[0].doc_string = "File /somebody/secret/model.py, line 3"
    model.graph.doc_string = model.doc_string = "here too"
    helper.set_model_props(model, {"path": "/somebody/secret"})
    through_stage(model, tmp_path)
    content = (tmp_path / "out" / "model.onnx").read_bytes()
    assert b"secret" not in content
    assert b"here too" not in content


def test_operators_of_onnx_runtime_stay_and_get_shapes(tmp_path: Path) -> None:
    model = from_text(
        "g (float[1,4,8] x) => (float[1,4,8] y) "
        "{ a = com.microsoft.Gelu (x) b = com.microsoft.FusedMatMul (a, w) y = Relu (b) }",
        {"w": np.eye(8, dtype=np.float32)}, domains={"com.microsoft": 1},
    )  # fmt: skip
    report, _ = through_stage(model, tmp_path)
    assert report.operators_after == {
        "Relu": 1, "com.microsoft.FusedMatMul": 1, "com.microsoft.Gelu": 1,
    }  # fmt: skip


def test_no_onnx_operator_set_is_imported_at_all(tmp_path: Path) -> None:
    model = from_text(
        "g (float[1,4] x) => (float[1,4] y) { y = com.microsoft.Gelu (x) }",
        domains={"com.microsoft": 1},
    )
    del model.opset_import[0]
    report, written = through_stage(model, tmp_path)
    assert report.opset_from == 17
    assert operators(written) == ["Gelu"]


def test_a_constant_spread_very_far_is_not_written_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stages.normalizer.folding._LARGEST_SPREAD", 10_000)
    model = from_text(
        "g (float[1,1] x) => (float[1] y) "
        "{ e = Expand (w, shape) m = ReduceMax <keepdims=0> (e) a = Add (m, x) "
        "y = ReduceSum <keepdims=0> (a, axis) }",
        {"w": np.ones((1, 1), np.float32), "shape": np.array([128, 128]),
         "axis": np.array([0])},
    )  # fmt: skip
    report, _ = through_stage(model, tmp_path)
    assert (tmp_path / "out" / "model.onnx").stat().st_size < 10_000
    assert "Expand" in report.operators_after


def test_loops_whose_state_keeps_its_shape(tmp_path: Path) -> None:
    model = from_text(
        """
        g (float[4] x) => (float[4] y) {
          l = Loop (trips, go, x) <body = b (int64 i, bool c, float[k] v) => (bool d, float[k] u)
            { u = Add (v, one) d = Identity (c) }>
          y = Relu (l)
        }
        """,
        {"trips": np.int64(3), "go": np.bool_(True), "one": np.float32(1)},
    )
    report, written = through_stage(model, tmp_path)
    assert operators(written) == ["Loop", "Relu"]
    assert report.outputs == {"y": "f32[4]"}


def test_a_constant_loop_folds(tmp_path: Path) -> None:
    model = from_text(
        """
        g (float[4] x) => (float[4] y) {
          l, all = Loop (trips, go, start) <body = b (int64 i, bool c, float[4] v)
            => (bool d, float[4] u, float[4] w)
            { u = Add (v, one) d = Identity (c) w = Neg (u) }>
          s = ReduceSum <keepdims=0> (all, axes)
          t = Add (l, s)
          y = Mul (x, t)
        }
        """,
        {"trips": np.int64(3), "go": np.bool_(True), "one": np.float32(1),
         "start": np.zeros(4, np.float32), "axes": np.array([0])},
    )  # fmt: skip
    _, written = through_stage(model, tmp_path)
    assert operators(written) == ["Mul"]
