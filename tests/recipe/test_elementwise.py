"""Elementwise kinds and activations compute what ONNX Runtime computes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.recipe.graph import Attribute
from stages.recipe.kinds import Kind
from tests.recipe.reference import Data, assert_close, numbers, run_onnx, run_ours

UNARY = {
    Kind.NEG: "Neg",
    Kind.ABS: "Abs",
    Kind.EXP: "Exp",
    Kind.LOG: "Log",
    Kind.SQRT: "Sqrt",
    Kind.RECIPROCAL: "Reciprocal",
    Kind.ERF: "Erf",
    Kind.SIN: "Sin",
    Kind.COS: "Cos",
    Kind.FLOOR: "Floor",
    Kind.CEIL: "Ceil",
    Kind.ROUND: "Round",
    Kind.SIGN: "Sign",
    Kind.IS_NAN: "IsNaN",
    Kind.RELU: "Relu",
    Kind.TANH: "Tanh",
    Kind.SIGMOID: "Sigmoid",
    Kind.HARD_SWISH: "HardSwish",
    Kind.SOFTPLUS: "Softplus",
    Kind.SOFTSIGN: "Softsign",
}
HALVES = np.arange(-9, 10, dtype=np.float32) / 2
EXTREMES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 80.0, -80.0, 1e-20], np.float32)


@pytest.mark.parametrize("kind", list(UNARY))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_operand(kind: Kind, dtype: type) -> None:
    if kind in (Kind.ERF, Kind.HARD_SWISH, Kind.SOFTPLUS, Kind.SOFTSIGN, Kind.ROUND):
        dtype = np.float32
    x = np.concatenate([numbers((2, 50)).ravel() * 4, HALVES]).astype(dtype)
    with np.errstate(all="ignore"):
        assert_close(run_ours(kind, [x])[0], run_onnx(UNARY[kind], [x])[0])


ATTRIBUTES: dict[Kind, dict[str, Attribute]] = {
    Kind.LEAKY_RELU: {"alpha": 0.1},
    Kind.CLIP: {"min": 0.0, "max": 6.0},
    Kind.HARD_SIGMOID: {"alpha": 0.2, "beta": 0.5},
    Kind.GELU: {"approximate": "none"},
    Kind.ELU: {"alpha": 1.0},
    Kind.SELU: {"alpha": 1.6, "gamma": 1.05},
}


@pytest.mark.parametrize("kind", [*sorted({*UNARY} - {Kind.IS_NAN}), *ATTRIBUTES, Kind.SILU])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_scalars_and_empty_tensors(kind: Kind, dtype: type) -> None:
    """numpy turns arrays without axes into numbers, which nothing can be written into."""
    whole = np.array([0.5, 2.0], dtype)
    attributes = ATTRIBUTES.get(kind, {})
    wanted = run_ours(kind, [whole], attributes)[0][0]
    assert run_ours(kind, [whole[0].reshape(())], attributes)[0] == wanted
    assert run_ours(kind, [whole[:0]], attributes)[0].shape == (0,)


@pytest.mark.parametrize("kind", sorted({*UNARY} - {Kind.HARD_SWISH, Kind.SIGN, Kind.SOFTSIGN}))
def test_extremes(kind: Kind) -> None:
    known_nan = kind in (Kind.RELU, Kind.TANH, Kind.SIGMOID, Kind.ERF)
    x = EXTREMES[~np.isnan(EXTREMES)] if known_nan else EXTREMES
    assert_close(run_ours(kind, [x])[0], run_onnx(UNARY[kind], [x])[0], 2e-5)


@pytest.mark.parametrize(
    ("kind", "attributes", "op_type", "theirs", "opset"),
    [
        (Kind.LEAKY_RELU, {"alpha": 0.2}, "LeakyRelu", {"alpha": 0.2}, 17),
        (Kind.ELU, {"alpha": 1.3}, "Elu", {"alpha": 1.3}, 17),
        (Kind.SELU, {"alpha": 1.6, "gamma": 1.05}, "Selu", {"alpha": 1.6, "gamma": 1.05}, 17),
        (Kind.HARD_SIGMOID, {"alpha": 0.2, "beta": 0.5}, "HardSigmoid", {}, 17),
        (Kind.GELU, {"approximate": "none"}, "Gelu", {}, 20),
        (Kind.GELU, {"approximate": "tanh"}, "Gelu", {"approximate": "tanh"}, 20),
        (Kind.MISH, {}, "Mish", {}, 18),
    ],
)
def test_activations_with_attributes(
    kind: Kind, attributes: dict[str, Attribute], op_type: str, theirs: dict[str, float], opset: int
) -> None:
    x = np.concatenate([numbers((3, 40)).ravel() * 5, HALVES])
    assert_close(run_ours(kind, [x], attributes)[0], run_onnx(op_type, [x], theirs, opset=opset)[0])


def test_silu_is_x_times_sigmoid() -> None:
    x = numbers((4, 30)) * 6
    assert_close(run_ours(Kind.SILU, [x])[0], x * run_onnx("Sigmoid", [x])[0])


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8, np.int32, np.int64])
@pytest.mark.parametrize(("low", "high"), [(-3, 5), (None, 2), (1, None), (None, None), (4, 1)])
def test_clip(dtype: type, low: int | None, high: int | None) -> None:
    if dtype is np.uint8 and low == -3:
        low = 3
    x = numbers((5, 9), dtype=dtype)
    bounds: list[Data | None] = [
        None if bound is None else np.array(bound, dtype) for bound in (low, high)
    ]
    attributes: dict[str, Attribute] = {
        "min": -np.inf if low is None else float(low),
        "max": np.inf if high is None else float(high),
    }
    assert_close(run_ours(Kind.CLIP, [x], attributes)[0], run_onnx("Clip", [x, *bounds])[0])


@pytest.mark.parametrize(
    ("kind", "op_type", "dtype"),
    [
        (Kind.NEG, "Neg", np.int32),
        (Kind.ABS, "Abs", np.int8),
        (Kind.SIGN, "Sign", np.int64),
        (Kind.RELU, "Relu", np.int32),
        (Kind.NOT, "Not", np.bool_),
    ],
)
def test_one_operand_of_integers(kind: Kind, op_type: str, dtype: type) -> None:
    x = numbers((6, 7), dtype=dtype)
    assert_close(run_ours(kind, [x])[0], run_onnx(op_type, [x])[0])


@st.composite
def broadcasting(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast."""
    whole = draw(st.lists(st.integers(0, 4), max_size=4))
    pair = []
    for _ in range(2):
        kept = whole[draw(st.integers(0, len(whole))) :]
        pair.append(tuple(1 if draw(st.booleans()) else extent for extent in kept))
    return pair[0], pair[1]


BINARY = {
    Kind.ADD: ("Add", (np.float32, np.int32, np.int64, np.float64)),
    Kind.SUB: ("Sub", (np.float32, np.int32)),
    Kind.MUL: ("Mul", (np.float32, np.int64)),
    Kind.DIV: ("Div", (np.float32, np.float64)),
    Kind.MINIMUM: ("Min", (np.float32, np.int32)),
    Kind.MAXIMUM: ("Max", (np.float32, np.int64)),
    Kind.EQUAL: ("Equal", (np.float32, np.int64, np.bool_)),
    Kind.LESS: ("Less", (np.float32, np.int32)),
    Kind.LESS_OR_EQUAL: ("LessOrEqual", (np.float32, np.int64)),
    Kind.GREATER: ("Greater", (np.float32, np.int64)),
    Kind.GREATER_OR_EQUAL: ("GreaterOrEqual", (np.float32, np.int32)),
    Kind.AND: ("And", (np.bool_,)),
    Kind.OR: ("Or", (np.bool_,)),
    Kind.XOR: ("Xor", (np.bool_,)),
}


@given(st.sampled_from(list(BINARY)), broadcasting(), st.integers(0, 9))
def test_two_operands_broadcast(
    kind: Kind, shapes: tuple[tuple[int, ...], tuple[int, ...]], seed: int
) -> None:
    op_type, dtypes = BINARY[kind]
    dtype = dtypes[seed % len(dtypes)]
    a, b = numbers(shapes[0], seed, dtype), numbers(shapes[1], seed + 1, dtype)
    assert_close(run_ours(kind, [a, b])[0], run_onnx(op_type, [a, b])[0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_integers_divide_towards_zero(dtype: type) -> None:
    a = numbers((400,), 1, dtype)
    b = numbers((400,), 2, dtype)
    b[b == 0] = 3
    wanted = np.trunc(a.astype(np.float64) / b).astype(dtype)
    assert_close(run_ours(Kind.DIV, [a, b])[0], wanted)
    assert_close(run_ours(Kind.DIV, [a, b])[0], run_onnx("Div", [a, b])[0])


@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_modulo(dtype: type, fmod: int) -> None:
    fmod = 1 if dtype is np.float32 else fmod
    a, b = numbers((200,), 1, dtype), numbers((200,), 2, dtype)
    b[b == 0] = 3
    assert_close(
        run_ours(Kind.MOD, [a, b], {"fmod": fmod})[0], run_onnx("Mod", [a, b], {"fmod": fmod})[0]
    )


@pytest.mark.parametrize(
    ("base", "exponent"),
    [
        (np.float32, np.float32),
        (np.float32, np.int64),
        (np.int32, np.int32),
        (np.int64, np.float32),
    ],
)
def test_power(base: type, exponent: type) -> None:
    a = np.abs(numbers((3, 40), 1, base)) + np.array(1, base)
    b = (np.abs(numbers((40,), 2, exponent)) % 4).astype(exponent)
    assert_close(run_ours(Kind.POW, [a, b])[0], run_onnx("Pow", [a, b])[0], 2e-5)


def test_power_of_negative_integers_truncates() -> None:
    a, b = np.array([2, 1, -1, 0], np.int32), np.array([-1, -2, -3, 2], np.int32)
    assert run_ours(Kind.POW, [a, b])[0].tolist() == [0, 1, -1, 0]


@given(broadcasting(), st.integers(0, 9))
def test_where(shapes: tuple[tuple[int, ...], tuple[int, ...]], seed: int) -> None:
    condition = numbers(shapes[0], seed, np.bool_)
    x, y = numbers(shapes[1], seed), numbers((), seed + 1)
    assert_close(
        run_ours(Kind.WHERE, [condition, x, y])[0], run_onnx("Where", [condition, x, y])[0]
    )


def test_prelu() -> None:
    x, slope = numbers((2, 3, 4, 5)), numbers((3, 1, 1), 7)
    assert_close(run_ours(Kind.PRELU, [x, slope])[0], run_onnx("PRelu", [x, slope])[0])


def test_every_half_widens_to_the_same_number() -> None:
    for bits in (np.arange(1 << 16), np.arange(0x7C00)):
        half = bits.astype(np.uint16).view(np.float16)
        wide = run_ours(Kind.IDENTITY, [half])[0]
        np.testing.assert_array_equal(wide, half.astype(np.float32))
        np.testing.assert_array_equal(np.signbit(wide), np.signbit(half))


@pytest.mark.parametrize("kind", [Kind.ADD, Kind.MUL])
def test_halves_are_computed_in_float32(kind: Kind) -> None:
    a, b = numbers((50,)).astype(np.float16), numbers((50,), 1).astype(np.float16)
    wide = run_ours(kind, [a.astype(np.float32), b.astype(np.float32)])[0]
    np.testing.assert_array_equal(run_ours(kind, [a, b])[0], wide)
