"""The host's side: nodes that only ONNX Runtime knows."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from stages.device.functional import Machine
from stages.errors import DeviceError
from stages.plan.instructions import Binding, Instruction, Kernel, Opcode, Plan
from stages.plan.timing import simulate
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType
from tests.device.plans import plan, region
from tests.device.specs import tiny_spec

TYPES = {
    "x": TensorType(DType.F16, (3, 8)),
    "k": TensorType(DType.I64, (1,)),
    "values": TensorType(DType.F16, (3, 2)),
    "indices": TensorType(DType.I64, (3, 2)),
    "y": TensorType(DType.F16, (3, 2)),
}


def top_k_plan(opset: int = 17, dtype: DType = DType.F16) -> Plan:
    types = {
        name: TensorType(dtype if kind.dtype is DType.F16 else kind.dtype, kind.shape)
        for name, kind in TYPES.items()
    }
    node = helper.make_node("TopK", ["data", "count"], ["top", "where"], axis=1)
    call = Operator(
        "top_k",
        Kind.HOST_CALL,
        ("x", "k"),
        ("values", "indices"),
        {
            "node": node.SerializeToString(),
            "names": ("data", "count"),
            "results": ("top", "where"),
            "opsets": (f"ai.onnx:{opset}",),
        },
    )
    negate = Operator("negate", Kind.NEG, ("values",), ("y",))
    kernel = Kernel("host", ("x", "k"), ("y", "indices"), (call, negate), types)
    address, places = 0, {}
    for name in ("x", "k", "y", "indices"):
        places[name] = region("ddr", address, types[name].shape, types[name].dtype)
        address += 256
    instruction = Instruction(
        Opcode.HOST_CALL,
        "host",
        "top_k",
        (places["x"], places["k"]),
        (places["y"], places["indices"]),
        kernel=0,
    )
    return plan(
        (instruction,),
        (kernel,),
        (Binding("x", places["x"]),),
        (Binding("y", places["y"]), Binding("indices", places["indices"])),
        (Binding("k", places["k"]),),
    )


@pytest.mark.parametrize("dtype", [DType.F16, DType.F32, DType.BF16])
def test_a_host_call_runs_in_onnx_runtime_amid_other_operators(dtype: DType) -> None:
    x = np.random.default_rng(3).standard_normal((3, 8)).astype(dtype.numpy)
    machine = Machine(top_k_plan(dtype=dtype), {"k": np.array([2])}, tiny_spec())
    outputs = machine.run({"x": x}).outputs
    order = np.argsort(-x, axis=1)[:, :2]
    np.testing.assert_array_equal(outputs["indices"], order)
    np.testing.assert_array_equal(outputs["y"], -np.take_along_axis(x, order, axis=1))


def test_a_scalar_stays_one() -> None:
    node = helper.make_node("Range", ["start", "limit", "delta"], ["out"])
    scalar = TensorType(DType.F32, ())
    call = Operator(
        "range",
        Kind.HOST_CALL,
        ("a", "b", "c"),
        ("y",),
        {
            "node": node.SerializeToString(),
            "names": ("start", "limit", "delta"),
            "results": ("out",),
            "opsets": ("ai.onnx:17",),
        },
    )
    types = {"a": scalar, "b": scalar, "c": scalar, "y": TensorType(DType.F32, (4,))}
    places = {
        name: region("ddr", 64 * at, types[name].shape, DType.F32) for at, name in enumerate(types)
    }
    program = plan(
        (
            Instruction(
                Opcode.HOST_CALL,
                "host",
                reads=(places["a"], places["b"], places["c"]),
                writes=(places["y"],),
                kernel=0,
            ),
        ),
        (Kernel("k", ("a", "b", "c"), ("y",), (call,), types),),
        tuple(Binding(name, places[name]) for name in "abc"),
        (Binding("y", places["y"]),),
    )
    inputs = {
        "a": np.array(1, np.float32),
        "b": np.array(9, np.float32),
        "c": np.array(2, np.float32),
    }
    outputs = Machine(program, {}, tiny_spec()).run(inputs).outputs
    assert outputs["y"].tolist() == [1, 3, 5, 7]


def test_a_node_that_onnx_runtime_refuses_is_named() -> None:
    with pytest.raises(DeviceError, match="can't load") as caught:
        Machine(top_k_plan(opset=999), {"k": np.array([2])}, tiny_spec())
    assert "top_k" in str(caught.value)


def test_a_host_call_is_priced_by_hand() -> None:
    # submission 1,000; synchronisation 1,000; two operators 500 each. The link carries x (48
    # bytes), y (12) and indices (48), not the constant k: 108 ns at a byte a nanosecond. Then the
    # larger of arithmetic - top_k touches 24 + 1 + 6 + 6 elements, negate makes 6: 43 - and memory
    # - x 48, k 8, values 12, indices 48, values 12, y 12: 140 ns.
    timing = simulate(top_k_plan(), tiny_spec())
    assert int(timing.total_cycles[0]) == 1_000 + 1_000 + 2 * 500 + 108 + 140
