"""Random graphs: whatever is aliased, folded, dropped or renamed, they compute what they did."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.recipe.onnx_models import check

SHAPE = (2, 3, 4)

SAME_SHAPE = {
    "Identity": {},
    "Dropout": {},
    "Cast": {"to": TensorProto.FLOAT},
    "Relu": {},
    "Tanh": {},
    "Softmax": {"axis": -1},
    "Neg": {},
}
"""One operand, a result of the same shape; the first three leave no trace."""


class Builder:
    """A random graph: values of one shape, and the constants and nodes that make them."""

    def __init__(self, draw):
        self.draw = draw
        self.nodes = []
        self.constants = []
        self.values = ["x0", "x1"]

    def pick(self):
        return self.draw(st.sampled_from(self.values))

    def node(self, op_type, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], f"n{name}", **attributes))
        return name

    def constant(self, data):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(data), name))
        return name

    def step(self):
        kind = self.draw(st.sampled_from([*SAME_SHAPE, "add", "constant", "reshape", "split"]))
        if kind in SAME_SHAPE:
            self.values.append(self.node(kind, [self.pick()], **SAME_SHAPE[kind]))
        elif kind == "add":
            self.values.append(self.node("Add", [self.pick(), self.pick()]))
        elif kind == "constant":
            random = np.random.default_rng(len(self.nodes))
            self.values.append(self.constant(random.standard_normal(SHAPE).astype(np.float32)))
        elif kind == "reshape":
            flat = self.node("Reshape", [self.pick(), self.constant(np.array([6, 4]))])
            turned = self.node("Transpose", [flat], perm=[1, 0])
            back = self.node("Transpose", [turned], perm=[1, 0])
            self.values.append(self.node("Reshape", [back, self.constant(np.array(SHAPE))]))
        else:
            low = self.node("Gather", [self.pick(), self.constant(np.array([0]))], axis=0)
            high = self.node("Gather", [self.pick(), self.constant(np.array([1]))], axis=0)
            self.values.append(self.node("Concat", [low, high], axis=0))


@st.composite
def models(draw):
    builder = Builder(draw)
    for _ in range(draw(st.integers(1, 9))):
        builder.step()
    outputs = draw(st.lists(st.sampled_from(builder.values[2:]), min_size=1, unique=True))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        builder.nodes,
        "random",
        [value(name, TensorProto.FLOAT, SHAPE) for name in ("x0", "x1")],
        [value(name, TensorProto.FLOAT, SHAPE) for name in outputs],
        builder.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@settings(max_examples=150)
@given(models())
def test_random_graphs(model):
    graph = check(model)
    assert graph.outputs == tuple(value.name for value in model.graph.output)
