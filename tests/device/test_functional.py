"""The functional device: what plans compute on flat memory."""

from __future__ import annotations

import numpy as np
import pytest

from stages.device.functional import Machine
from stages.errors import DeviceError, InputError
from stages.plan.instructions import Binding, Instruction, Kernel, Opcode, Region
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, Layout, LayoutKind, TensorType
from tests.device.plans import CONV_ATTRIBUTES, conv_relu_plan, copy, plan, region
from tests.device.specs import tiny_spec

RANDOM = np.random.default_rng(7)


def vector(kernel: int, reads: tuple[Region, ...], writes: tuple[Region, ...]) -> Instruction:
    return Instruction(Opcode.VECTOR, "vector", "g", reads, writes, kernel=kernel)


def unary(kind: Kind, dtype: DType, shape: tuple[int, ...]) -> Kernel:
    type_ = TensorType(dtype, shape)
    return Kernel(
        kind, ("x",), ("y",), (Operator(kind, kind, ("x",), ("y",)),), {"x": type_, "y": type_}
    )


def test_a_convolution_is_computed_in_float32_and_rounded_once() -> None:
    x = RANDOM.standard_normal((1, 8, 6, 6)).astype(np.float16)
    w = RANDOM.standard_normal((8, 8, 3, 3)).astype(np.float16)
    result = Machine(conv_relu_plan(), {"w": w}, tiny_spec()).run({"x": x})
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)])
    expected = np.zeros((1, 8, 6, 6))
    for row in range(3):
        for col in range(3):
            window = padded[:, :, row : row + 6, col : col + 6]
            expected += np.einsum("oi,bihw->bohw", w[:, :, row, col].astype(np.float64), window)
    expected = np.maximum(expected, 0)
    assert result.outputs["y"].dtype == np.float16
    assert result.overflows == {}
    np.testing.assert_allclose(result.outputs["y"], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("quantum", [4, 8])
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32, DType.I8])
def test_layouts_and_strides_come_back_as_they_went(quantum: int, dtype: DType) -> None:
    shape = (2, 6, 3, 5)
    x = RANDOM.integers(-100, 100, shape).astype(dtype.numpy)
    layouts = (
        Layout(LayoutKind.ROW_MAJOR),
        Layout(LayoutKind.NHWC),
        Layout(LayoutKind.NC1HWC2, quantum),
    )
    source = region("ddr", 0, shape, dtype)
    steps = []
    places = [source]
    for index, layout in enumerate(layouts):
        # strides with a gap after every row of the innermost axis
        physical = layout.physical_shape(shape)
        step, strides = dtype.size_bytes, []
        for axis, extent in enumerate(reversed(physical)):
            strides.append(step)
            step *= extent + (2 if axis == 0 else 0)
        place = region("sram", 8192 * index, shape, dtype, layout, tuple(reversed(strides)))
        steps.append(vector(0, (places[-1],), (place,)))
        places.append(place)
    target = region("ddr", 4096, shape, dtype)
    steps.append(vector(0, (places[-1],), (target,)))
    program = plan(
        tuple(steps),
        (unary(Kind.RELAYOUT, dtype, shape),),
        (Binding("x", source),),
        (Binding("y", target),),
    )
    machine = Machine(program, {}, tiny_spec())
    np.testing.assert_array_equal(machine.run({"x": x}).outputs["y"], x)


def test_a_strided_transfer_moves_a_tile() -> None:
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    whole = region("ddr", 0, (8, 8), DType.F32)
    tile = Region("ddr", 4 * (8 * 2 + 3), DType.F32, (3, 4), whole.layout, (32, 4))
    local = region("sram", 64, (3, 4), DType.F32)
    result = region("ddr", 1024, (3, 4), DType.F32)
    program = plan(
        (copy(tile, local), copy(local, result)),
        (),
        (Binding("x", whole),),
        (Binding("y", result),),
    )
    np.testing.assert_array_equal(
        Machine(program, {}, tiny_spec()).run({"x": x}).outputs["y"], x[2:5, 3:7]
    )


def test_reading_what_nobody_wrote_shows() -> None:
    place, target = region("sram", 0, (4,)), region("ddr", 0, (4,))
    program = plan((copy(place, target),), (), (), (Binding("y", target),))
    assert np.isnan(Machine(program, {}, tiny_spec()).run({}).outputs["y"]).all()


def test_a_run_leaves_nothing_for_the_next() -> None:
    # y reads sram before x is copied there: a second run mustn't see the first one's x.
    x, local, y = region("ddr", 0, (4,)), region("sram", 0, (4,)), region("ddr", 64, (4,))
    program = plan((copy(local, y), copy(x, local)), (), (Binding("x", x),), (Binding("y", y),))
    machine = Machine(program, {}, tiny_spec())
    for _ in range(2):
        assert np.isnan(machine.run({"x": np.ones(4, np.float16)}).outputs["y"]).all()


def test_overflow_is_counted_by_operator_and_infinity_is_not() -> None:
    x, y = region("ddr", 0, (4,), DType.F32), region("ddr", 64, (4,), DType.F16)
    kernel = Kernel(
        "k",
        ("x",),
        ("y",),
        (Operator("make_y", Kind.IDENTITY, ("x",), ("y",)),),
        {"x": TensorType(DType.F32, (4,)), "y": TensorType(DType.F16, (4,))},
    )
    program = plan((vector(0, (x,), (y,)),), (kernel,), (Binding("x", x),), (Binding("y", y),))
    machine = Machine(program, {}, tiny_spec())
    values = np.array([65_519.0, -65_520.0, np.inf, np.nan], np.float32)
    result = machine.run({"x": values})
    assert result.overflows == {"make_y": 1}
    np.testing.assert_array_equal(
        result.outputs["y"], np.array([65_504, -np.inf, np.inf, np.nan], np.float16)
    )
    assert machine.run({"x": np.ones(4, np.float32)}).overflows == {}


def test_an_input_that_overflows_is_counted_under_its_name() -> None:
    x = region("ddr", 0, (2,))
    program = plan((), (), (Binding("x", x),), (Binding("x", x),))
    values = np.array([1e6, 1.0], np.float32)
    assert Machine(program, {}, tiny_spec()).run({"x": values}).overflows == {"x": 1}


def quantised_kernel(bias: bool) -> Kernel:
    types = {
        "x": TensorType(DType.U8, (1, 4, 5, 5)),
        "w": TensorType(DType.I8, (6, 4, 3, 3)),
        "xs": TensorType(DType.F32, ()),
        "xz": TensorType(DType.U8, ()),
        "ws": TensorType(DType.F32, (6,)),
        "b": TensorType(DType.I32, (6,)),
        "bs": TensorType(DType.F32, (6,)),
        "xf": TensorType(DType.F32, (1, 4, 5, 5)),
        "wf": TensorType(DType.F32, (6, 4, 3, 3)),
        "bf": TensorType(DType.F32, (6,)),
        "t": TensorType(DType.F32, (1, 6, 5, 5)),
        "ys": TensorType(DType.F32, ()),
        "y": TensorType(DType.I8, (1, 6, 5, 5)),
    }
    operators = [
        Operator("dx", Kind.DEQUANTIZE, ("x", "xs", "xz"), ("xf",), {"axis": -1}),
        Operator("dw", Kind.DEQUANTIZE, ("w", "ws"), ("wf",), {"axis": 0}),
        Operator(
            "conv", Kind.CONV, ("xf", "wf", "bf") if bias else ("xf", "wf"), ("t",), CONV_ATTRIBUTES
        ),
        Operator("q", Kind.QUANTIZE, ("t", "ys"), ("y",), {"axis": -1}),
    ]
    parameters = ["x", "w", "xs", "xz", "ws", "ys"]
    if bias:
        operators.insert(2, Operator("db", Kind.DEQUANTIZE, ("b", "bs"), ("bf",), {"axis": 0}))
        parameters += ["b", "bs"]
    return Kernel("qconv", tuple(parameters), ("y",), tuple(operators), types)


@pytest.mark.parametrize("bias", [False, True])
def test_quantised_contractions_accumulate_exactly(bias: bool) -> None:
    kernel = quantised_kernel(bias)
    x_scale, y_scale = np.float32(0.037), np.float32(11.0)
    w_scale = RANDOM.uniform(0.01, 0.02, 6).astype(np.float32)
    data = {
        "x": RANDOM.integers(0, 256, (1, 4, 5, 5)).astype(np.uint8),
        "w": RANDOM.integers(-128, 128, (6, 4, 3, 3)).astype(np.int8),
        "xs": np.array(x_scale),
        "xz": np.array(117, np.uint8),
        "ws": w_scale,
        "ys": np.array(y_scale),
        "b": RANDOM.integers(-(10**6), 10**6, 6).astype(np.int32),
        "bs": (x_scale * w_scale).astype(np.float32),
    }
    address, places = 0, {}
    for name in kernel.parameters:
        type_ = kernel.types[name]
        places[name] = region("ddr", address, type_.shape, type_.dtype)
        address += -(-type_.size_bytes // 64) * 64
    target = region("ddr", address, (1, 6, 5, 5), DType.I8)
    program = plan(
        (vector(0, tuple(places[name] for name in kernel.parameters), (target,)),),
        (kernel,),
        (),
        (Binding("y", target),),
        tuple(Binding(name, place) for name, place in places.items()),
    )
    result = Machine(program, data, tiny_spec()).run({}).outputs["y"]
    padded = np.pad(data["x"].astype(np.int64) - 117, [(0, 0), (0, 0), (1, 1), (1, 1)])
    sums = np.zeros((1, 6, 5, 5), np.int64)
    for row in range(3):
        for col in range(3):
            window = padded[:, :, row : row + 5, col : col + 5]
            sums += np.einsum("oi,bihw->bohw", data["w"][:, :, row, col].astype(np.int64), window)
    if bias:
        sums += data["b"].reshape(1, 6, 1, 1)
    scale = (x_scale * w_scale).reshape(1, 6, 1, 1)
    steps = np.rint(sums.astype(np.float32) * scale / y_scale)
    np.testing.assert_array_equal(result, np.clip(steps, -128, 127).astype(np.int8))


def test_a_plan_that_leaves_memory_is_refused() -> None:
    outside = region("sram", 256 * 1024 - 4, (4,))
    with pytest.raises(DeviceError, match="sram"):
        Machine(plan((copy(region("ddr", 0, (4,)), outside),)), {}, tiny_spec())


def test_a_transfer_between_extents_is_refused() -> None:
    with pytest.raises(DeviceError, match="transfer"):
        Machine(plan((copy(region("ddr", 0, (4,)), region("sram", 0, (8,))),)), {}, tiny_spec())


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x' is missing"),
        ({"x": np.zeros((4,), np.float32), "z": np.zeros(1)}, "no input 'z'"),
        ({"x": np.zeros((5,), np.float32)}, r"float32\[5\]"),
        ({"x": np.zeros((4,), np.int32)}, r"int32\[4\]"),
    ],
)
def test_wrong_inputs_are_named(inputs: dict[str, np.ndarray], message: str) -> None:
    x = region("ddr", 0, (4,))
    machine = Machine(plan((), (), (Binding("x", x),), (Binding("x", x),)), {}, tiny_spec())
    with pytest.raises(InputError, match=message):
        machine.run(inputs)


def test_missing_weights_are_named() -> None:
    with pytest.raises(DeviceError, match="'w'"):
        Machine(conv_relu_plan(), {}, tiny_spec())
