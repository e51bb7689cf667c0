"""Pooling computes what ONNX Runtime computes, whole, in tiles, and with ceil_mode's overhang."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.recipe.operators import flops, infer, macs
from stages.recipe.window import Window
from tests.recipe.reference import Data, assert_close, numbers, run_onnx, run_ours, type_of


@st.composite
def pools(draw: st.DrawFn) -> tuple[Data, dict[str, Attribute]]:
    """An operand and the attributes of a pooling that fits it."""
    axes = draw(st.integers(1, 3))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(axes))
    strides = tuple(draw(st.integers(1, 3)) for _ in range(axes))
    extents = tuple(draw(st.integers(0, 4)) + k for k in kernel)
    pads = tuple(draw(st.integers(0, k - 1)) for k in kernel * 2)
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 3)), *extents)
    return numbers(shape), {"kernel": kernel, "strides": strides, "pads": pads}


def in_onnx(attributes: dict[str, Attribute]) -> dict[str, object]:
    """The same attributes as ONNX spells them."""
    spelled = {"kernel": "kernel_shape"}
    return {spelled.get(key, key): value for key, value in attributes.items()}


@given(pools(), st.booleans())
def test_max_pool(case: tuple[Data, dict[str, Attribute]], dilated: bool) -> None:
    x, attributes = case
    kernel = attributes["kernel"]
    assert isinstance(kernel, tuple)
    attributes = attributes | {"dilations": (2 if dilated else 1,) * len(kernel)}
    if dilated:
        x = np.concatenate([x] * 3, axis=2)
        assume(all(e >= 2 * int(k) for e, k in zip(x.shape[2:], kernel, strict=True)))
    assert_close(
        run_ours(Kind.MAX_POOL, [x], attributes)[0],
        run_onnx("MaxPool", [x], in_onnx(attributes))[0],
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_max_pool_of_integers(dtype: type) -> None:
    x = numbers((1, 2, 5, 5), dtype=dtype)
    attributes: dict[str, Attribute] = {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
    assert_close(
        run_ours(Kind.MAX_POOL, [x], attributes)[0],
        run_onnx("MaxPool", [x], in_onnx(attributes))[0],
    )


@given(pools(), st.integers(0, 1))
def test_average_pool(case: tuple[Data, dict[str, Attribute]], include: int) -> None:
    x, attributes = case
    attributes = attributes | {"count_include_pad": include}
    assert_close(
        run_ours(Kind.AVERAGE_POOL, [x], attributes)[0],
        run_onnx("AveragePool", [x], in_onnx(attributes))[0],
    )


def with_overhang(x: Data, attributes: dict[str, Attribute]) -> dict[str, Attribute] | None:
    """ceil_mode as explicit end pads, and how much of them lies beyond the padded operand."""
    window = window_of(attributes)
    over = []
    for axis, extent in enumerate(x.shape[2:]):
        padded = extent + window.begins[axis] + window.ends[axis]
        stride, span = window.strides[axis], window.spans[axis]
        count = -(-(padded - span) // stride) + 1
        if (count - 1) * stride >= extent + window.begins[axis]:
            count -= 1
        over.append((count - 1) * stride + span - padded)
    if any(extra < 0 for extra in over):
        return None
    ends = [end + extra for end, extra in zip(window.ends, over, strict=True)]
    return attributes | {"pads": (*window.begins, *ends), "overhang": tuple(over)}


def window_of(attributes: dict[str, Attribute]) -> Window:
    """The window that attributes describe."""
    operator = Operator("", Kind.MAX_POOL, (), (), attributes)
    return Window.of(operator, operator.integers("kernel"))


@given(pools(), st.integers(0, 1))
def test_average_pool_with_ceil_mode(case: tuple[Data, dict[str, Attribute]], include: int) -> None:
    x, attributes = case
    attributes = attributes | {"count_include_pad": include}
    ours = with_overhang(x, attributes)
    assume(ours is not None)
    assert ours is not None
    theirs = run_onnx("AveragePool", [x], in_onnx(attributes) | {"ceil_mode": 1}, opset=19)[0]
    assert_close(run_ours(Kind.AVERAGE_POOL, [x], ours)[0], theirs)


@given(pools(), st.sampled_from([Kind.MAX_POOL, Kind.AVERAGE_POOL]), st.integers(0, 1), st.data())
def test_a_tile_is_part_of_the_whole(
    case: tuple[Data, dict[str, Attribute]], kind: Kind, include: int, data: st.DataObject
) -> None:
    x, attributes = case
    if kind is Kind.AVERAGE_POOL:
        attributes = attributes | {"count_include_pad": include}
    whole = run_ours(kind, [x], attributes)[0]
    window = window_of(attributes)
    begins, ends, rows = [], [], []
    read: list[slice] = [slice(None), slice(None)]
    for axis in range(x.ndim - 2):
        start = data.draw(st.integers(0, whole.shape[axis + 2] - 1))
        stop = data.draw(st.integers(start + 1, whole.shape[axis + 2]))
        low = start * window.strides[axis] - window.begins[axis]
        high = (stop - 1) * window.strides[axis] - window.begins[axis] + window.spans[axis]
        extent = x.shape[axis + 2]
        first, last = max(low, 0), min(high, extent)
        begins.append(first - low)
        ends.append(high - last)
        read.append(slice(first, last))
        rows.append(slice(start, stop))
    tile = attributes | {"pads": (*begins, *ends)}
    part = run_ours(kind, [x[tuple(read)]], tile)[0]
    assert_close(part, whole[(slice(None), slice(None), *rows)], 1e-6)


def test_work_of_pooling() -> None:
    attributes: dict[str, Attribute] = {"kernel": (3, 2), "strides": (1, 1), "pads": (0, 0, 0, 0)}
    pool = Operator("p", Kind.MAX_POOL, ("x",), ("y",), attributes)
    operands = [type_of(numbers((1, 2, 5, 5)))]
    results = infer(pool, operands)
    assert macs(pool, operands, results) == 0
    assert flops(pool, operands, results) == 2 * 3 * 4 * 6
