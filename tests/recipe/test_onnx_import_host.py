"""What no kind means: host calls, enclosed regions, refusals, and the names of outputs."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from stages.errors import CompileError, InputError
from stages.recipe.onnx_import import import_model
from tests.recipe.onnx_models import check, host_types, kinds, parse


def test_host_call_carries_the_node_and_its_names():
    text = (
        "g (float[1,5,3] x) => (float[5,1,1,2] y) <float[1,8,3] w = {1}, float[1,8,2] r = {1}> "
        "{ t = Transpose<perm=[1,0,2]>(x) i = Identity(t) "
        "y = LSTM<hidden_size=2, input_forget=1>(i, w, r) }"
    )
    model = parse(text)
    del model.graph.initializer[:]
    random = np.random.default_rng(0)
    for name, shape in (("w", (1, 8, 3)), ("r", (1, 8, 2))):
        data = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(data, name))
    graph = check(model)
    call = graph.operators[-1]
    assert call.inputs == ("t", "w", "r")
    assert call.attributes["names"] == ("i", "w", "r")
    assert call.attributes["results"] == ("y",)
    assert call.attributes["opsets"] == ("ai.onnx:17",)
    again, _ = import_model(model)
    assert again.operators[-1].attributes["node"] == call.attributes["node"]


def test_a_value_read_twice_is_one_operand():
    text = "g (float[2,3] x) => (float[2,3] y) { y = Hardmax(x) z = Unique(x) }"
    graph = check(parse(text))
    assert host_types(graph) == ["Hardmax"]
    assert "why" not in graph.operators[0].attributes
    text = "g (float[4] x, int64[4] i) => (float[4] y) { y = ScatterElements(x, i, x) }"
    feeds = {"x": np.arange(4, dtype=np.float32), "i": np.array([3, 2, 1, 0])}
    graph = check(parse(text), feeds)
    assert graph.operators[0].inputs == ("x", "i")


def test_subgraphs_capture_outer_values():
    text = (
        "g (bool c, float[3] x) => (float[3] y) { d = Relu(x) e = Identity(d) "
        "y = If (c) <then_branch = t () => (float[3] a) { a = Neg(e) }, "
        "else_branch = f () => (float[3] b) { b = Exp(x) }> }"
    )
    for value in (True, False):
        graph = check(parse(text), {"c": np.array(value), "x": np.ones(3, np.float32)})
    call = graph.operators[-1]
    assert call.attributes["names"] == ("c", "e", "x")
    assert call.inputs == ("c", "d", "x")


def test_small_constants_that_a_subgraph_captures_move_into_it():
    text = (
        "g (bool c, float[3] x) => (float[3] y) <float[3] w = {1,2,3}, int64[1] s = {3}> "
        "{ y = If (c) <then_branch = t () => (float[3] a) { a = Add(x, w) }, "
        "else_branch = f () => (float[3] b) { b = Reshape(x, s) }> }"
    )
    graph = check(parse(text), {"c": np.array(True), "x": np.ones(3, np.float32)})
    assert graph.operators[0].attributes["names"] == ("c", "x")
    assert graph.constants == ()


def test_loop_and_scan():
    text = (
        "g (float[4] x, float[5,4] s) => (float[4] y, float[5,4] ys) "
        "<int64 n = {3}, bool c = {1}> "
        "{ l = Loop (n, c, x) <body = b (int64 i, bool c1, float[4] v) => (bool c2, float[4] w) "
        "{ c2 = Identity(c1) w = Add(v, x) }> r = Relu(l) "
        "y, ys = Scan (r, s) <num_scan_inputs = 1, body = f (float[4] a, float[4] e) "
        "=> (float[4] a2, float[4] o) { a2 = Add(a, e) o = Identity(a2) }> }"
    )
    graph = check(parse(text))
    assert kinds(graph) == ["host_call", "relu", "host_call"]


def test_sequences_are_enclosed_with_the_nodes_around_them():
    text = (
        "g (float[6] x) => (float[3] y) <int64 one = {1}, int64 z = {0}, int64[2] n = {3,3}> "
        "{ r = Relu(x) s = SplitToSequence(r, n) a = SequenceAt(s, one) b = SequenceAt(s, z) "
        "m = Add(a, b) y = Exp(m) }"
    )
    graph = check(parse(text))
    assert host_types(graph) == ["If"]
    assert kinds(graph)[0] == "relu"


def test_dynamic_shapes_are_enclosed_until_they_end():
    text = (
        "g (float[6] x) => (float y) "
        "{ r = Abs(x) n = NonZero(r) g = GatherND(r, t) s = ReduceSum<keepdims=0>(g) y = Neg(s) "
        "}".replace("g = GatherND", "t = Transpose(n) g = GatherND")
    )
    graph = check(parse(text), {"x": np.array([1, 0, 2, 0, -3, 4], np.float32)})
    assert kinds(graph) == ["abs", "host_call", "neg"]
    assert host_types(graph) == ["If"]


def test_what_lies_between_two_enclosed_nodes_is_enclosed_too():
    text = (
        "g (float[6] x) => (float[2] y) "
        "{ a = NonZero(x) c = Shape(a) f = Cast<to=1>(c) e = Exp(f) "
        "i = Cast<to=7>(e) p = Slice(a, z, i) q = Shape(p) y = Cast<to=1>(q) }"
    )
    model = parse(text.replace("{ a", "<int64[2] z = {0,0}> { a", 1))
    graph = check(model, {"x": np.array([1, 0, 2, 0, -3, 4], np.float32)})
    assert host_types(graph) == ["If"]


def test_strings_inside_a_model():
    strings = helper.make_tensor("s", TensorProto.STRING, [3], [b"a", b"b", b"a"])
    nodes = [
        helper.make_node("Constant", [], ["t"], value=strings),
        helper.make_node("Gather", ["t", "i"], ["p"]),
        helper.make_node("Gather", ["t", "j"], ["q"]),
        helper.make_node("Equal", ["p", "q"], ["e"]),
        helper.make_node("Not", ["e"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.INT64, [2]) for name in "ij"],
        [helper.make_tensor_value_info("y", TensorProto.BOOL, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    feeds = {"i": np.array([0, 1]), "j": np.array([2, 2])}
    imported = check(model, feeds)
    assert kinds(imported) == ["host_call", "not"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "g (float[1,9,4] b, float[1,2,9] s) => (int64[n,3] y) { y = NonMaxSuppression(b, s) }",
            ("%y has no static extent on axis 0", "NonMaxSuppression"),
        ),
        (
            "g (float[6] x) => (int64[1,n] y) { y = NonZero(x) }",
            ("%y has no static extent on axis 1", "NonZero"),
        ),
        (
            "g (float[n,3] x) => (float[n,3] y) { y = Relu(x) }",
            ("model input %x has no static extent on axis 0 (n)", "--bind"),
        ),
        (
            "g (float[2] x, int32[2] i) => (float[2] y) { z = Add(x, i) y = Relu(z) }",
            ("%z has no type", "Add of %x: f32[2], %i: i32[2]"),
        ),
    ],
)
def test_refusals(text, words):
    with pytest.raises(CompileError) as refusal:
        import_model(parse(text))
    for word in words:
        assert word in str(refusal.value)
    assert refusal.value.hint


def test_a_node_that_reads_what_nothing_makes_is_refused():
    model = parse("g (float[2] x) => (float[2] y) { y = Add(x, w) }")
    with pytest.raises(InputError, match="Add reads %w, which no input, constant or earlier node"):
        import_model(model)


def test_a_value_that_is_made_twice_is_refused():
    model = parse(
        "g (float[2] x) => (float[2] y) <float[2] w = {1,2}> { w = Exp(x) y = Add(w, x) }"
    )
    with pytest.raises(InputError, match="Exp makes %w, which is made before"):
        import_model(model)


def test_a_node_with_too_few_operands_is_refused():
    model = parse("g (float[2] x) => (float[2] y) { y = Add(x) }")
    with pytest.raises(InputError, match="Add has 1 operands, it needs 2"):
        import_model(model)


def test_an_operator_that_came_after_the_opset_is_refused():
    model = parse("g (float[2] x) => (float[2] y) { y = Mish(x) }")
    with pytest.raises(InputError, match="Mish isn't in opset 17"):
        import_model(model)


def test_an_unknown_operator_is_refused_by_name():
    node = helper.make_node("FancyNorm", ["x"], ["y"], "norm", domain="acme.ops")
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([node], "g", value[:1], value[1:])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme.ops", 1)]
    with pytest.raises(CompileError, match=r"acme\.ops\.FancyNorm is unknown"):
        import_model(helper.make_model(graph, opset_imports=imports))


def test_external_data_is_refused():
    model = parse("g (float[2] x) => (float[2] y) <float[2] w = {1,2}> { y = Add(x, w) }")
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL
    with pytest.raises(InputError, match="%w lies outside the model"):
        import_model(model)


def test_constants_that_do_not_fill_their_shape_are_refused():
    model = parse("g (float[2] x) => (float[2] y) <float[2] w = {1}> { y = Add(x, w) }")
    with pytest.raises(InputError, match=r"the data of %w don't fill its shape \[2\]"):
        import_model(model)


def test_a_mistyped_attribute_is_refused():
    model = parse("g (float[2,2] x) => (float[2,2] y) { y = Softmax<axis=1.5>(x) }")
    with pytest.raises(InputError, match="attribute `axis` of Softmax has the wrong type"):
        import_model(model)


def test_dead_branches_and_unused_constants_are_dropped():
    text = (
        "g (float[2] x) => (float[2] y) <float[2] w = {1,2}, float[2] u = {3,4}> "
        "{ a = Add(x, w) d = NonZero(x) e = Exp(a) y = Relu(a) }"
    )
    graph = check(parse(text))
    assert kinds(graph) == ["add", "relu"]
    assert graph.constants == ("w",)
    assert set(graph.types) == {"x", "w", "a", "y"}


def test_identities_are_dropped_and_outputs_keep_their_names():
    text = (
        "g (float[2] x) => (float[2] y) "
        "{ a = Identity(x) b = Relu(a) c = Identity(b) d = Cast<to=1>(c) y = Identity(d) }"
    )
    graph = check(parse(text))
    assert [(o.inputs, o.outputs) for o in graph.operators] == [(("x",), ("y",))]


def test_two_outputs_of_one_value_and_one_that_is_read_inside():
    text = (
        "g (float[2] x) => (float[2] y, float[2] z, float[2] w) "
        "{ r = Relu(x) y = Identity(r) z = Identity(r) w = Exp(r) }"
    )
    graph = check(parse(text))
    assert graph.outputs == ("y", "z", "w")
    assert sorted(kinds(graph)) == ["exp", "identity", "relu"]


def test_an_output_that_is_an_input_or_a_constant():
    text = (
        "g (float[2] x) => (float[2] y, float[2] w, float[2] v) <float[2] w = {1,2}> "
        "{ y = Identity(x) v = Add(x, w) }"
    )
    model = parse(text)
    graph = check(model)
    assert graph.outputs == ("y", "w", "v")
    assert sorted(kinds(graph)) == ["add", "identity", "identity"]
    assert not set(graph.constants) & set(graph.outputs)


def test_an_output_under_the_name_of_an_input():
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [value], [value, result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    imported = check(model)
    assert imported.inputs == ("x",)
    assert imported.outputs == ("x.output", "y")


def test_functions_are_inlined():
    text = """
        <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[2] x) => (float[2] y) { y = local.twice(x) }
        <domain: "local", opset_import: ["" : 17]>
        twice (a) => (b) { c = Relu(a) b = Add(c, c) }
    """
    model = onnx.parser.parse_model(text)
    graph = check(model)
    assert kinds(graph) == ["relu", "add"]


def test_names_of_any_kind_survive():
    nodes = [
        helper.make_node("Relu", ["in put/0:ü"], ["mid dle"], "same"),
        helper.make_node("Exp", ["mid dle"], ["a"], "same"),
        helper.make_node("Neg", ["a"], ["out.0"], ""),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "",
        [value("in put/0:ü", TensorProto.FLOAT, [2])],
        [value("out.0", TensorProto.FLOAT, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    imported, _ = import_model(model)
    assert imported.name == "model"
    assert len({operator.name for operator in imported.operators}) == 3
    nodes[1].name = "an other"
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    check(model)


def test_the_default_domain_spelled_out():
    node = helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([node], "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx", 17)])
    assert kinds(import_model(model)[0]) == ["relu"]
