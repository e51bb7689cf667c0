"""Views: which bytes a slice or a reshape of a strided box has, and which have none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.compiler.emit.regions import whole_region
from stages.compiler.emit.views import view_region
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import ROW_MAJOR, Array, DType, Layout, LayoutKind, TensorType
from tests.compiler.judged import case_of, compile_and_judge
from tests.compiler.specs import hardware
from tests.recipe.onnx_models import parse


def cut(starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...] = ()) -> Operator:
    attributes = {"starts": starts, "stops": stops, "steps": steps or (1,) * len(starts)}
    return Operator("s", Kind.SLICE, ("x",), ("y",), attributes)


def seen(memory: Array, region) -> Array:
    """What a row-major region shows of memory that begins at address 0."""
    return np.lib.stride_tricks.as_strided(
        memory.reshape(-1)[region.address // memory.itemsize :], region.shape, region.strides
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_reshape_of_a_slice_shows_the_same_elements_or_is_no_view(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    memory = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    spans = [data.draw(st.integers(0, extent - 1)) for extent in shape]
    stops = tuple(
        data.draw(st.integers(start + 1, extent))
        for start, extent in zip(spans, shape, strict=True)
    )
    steps = tuple(data.draw(st.sampled_from([1, 1, 2])) for _ in shape)
    whole = whole_region("ddr", 0, TensorType(DType.I32, shape), ROW_MAJOR)
    expected = memory[tuple(slice(a, b, c) for a, b, c in zip(spans, stops, steps, strict=True))]
    part = view_region(
        cut(tuple(spans), stops, steps), whole, TensorType(DType.I32, expected.shape), ROW_MAJOR
    )
    assert part is not None
    assert np.array_equal(seen(memory, part), expected)
    wanted, rest = [1], expected.size
    while rest > 1:
        wanted.append(data.draw(st.sampled_from([n for n in range(2, rest + 1) if rest % n == 0])))
        rest //= wanted[-1]
    wanted = data.draw(st.permutations(wanted))
    operator = Operator("r", Kind.RESHAPE, ("y",), ("z",), {"shape": tuple(wanted)})
    view = view_region(operator, part, TensorType(DType.I32, tuple(wanted)), ROW_MAJOR)
    copied = expected.reshape(wanted)
    if view is not None:
        assert np.array_equal(seen(memory, view), copied)
    else:
        assert not np.shares_memory(copied, memory), "numpy finds a view where there is said none"


def test_axes_that_lie_one_behind_the_other_may_be_cut_anew() -> None:
    memory = np.arange(24, dtype=np.int32).reshape(3, 2, 4)
    whole = whole_region("ddr", 0, TensorType(DType.I32, (3, 2, 4)), ROW_MAJOR)
    column = TensorType(DType.I32, (3, 2, 1))
    part = view_region(cut((0, 0, 1), (3, 2, 2)), whole, column, ROW_MAJOR)
    assert part is not None
    operator = Operator("r", Kind.RESHAPE, ("y",), ("z",), {"shape": (2, 3)})
    view = view_region(operator, part, TensorType(DType.I32, (2, 3)), ROW_MAJOR)
    assert view is not None
    assert np.array_equal(seen(memory, view), memory[:, :, 1].reshape(2, 3))


def test_blocks_of_channels_are_cut_whole_or_not_at_all() -> None:
    layout = Layout(LayoutKind.NC1HWC2, 8)
    whole = whole_region("ddr", 0, TensorType(DType.I8, (1, 24, 3, 3)), layout)
    result = TensorType(DType.I8, (1, 8, 3, 3))
    part = view_region(cut((0, 8, 0, 0), (1, 16, 3, 3)), whole, result, layout)
    assert part is not None
    assert part.address == 8 * 9
    for start, stop in ((4, 12), (4, 16), (8, 12)):
        assert view_region(cut((0, start, 0, 0), (1, stop, 3, 3)), whole, result, layout) is None
    assert view_region(cut((0, 8, 0, 0), (1, 16, 3, 3)), whole, result, ROW_MAJOR) is None


@pytest.mark.parametrize("name", ["npu_tiny", "rk3588_npu"])
def test_slices_are_read_where_they_lie(name: str) -> None:
    model = parse(
        """g (float[6, 32] x) => (float[6, 8] y, float[3, 16] z) {
             from = Constant <value_ints = [0, 4]> () to = Constant <value_ints = [6, 12]> ()
             low = Constant <value_ints = [1, 16]> () high = Constant <value_ints = [6, 32]> ()
             axes = Constant <value_ints = [0, 1]> () two = Constant <value_ints = [2, 1]> ()
             r = Relu(x) a = Slice(r, from, to, axes) b = Slice(r, low, high, axes, two)
             y = Exp(a) z = Softmax(b) }"""
    )
    feeds = {"x": np.random.default_rng(4).standard_normal((6, 32)).astype(np.float32)}
    made = compile_and_judge(case_of(model, feeds), hardware(name))
    slices = [op.name for op in made.recipe.graph.operators if op.kind == "slice"]
    engines = {g.name: str(g.engine) for g in made.recipe.groups}
    assert [engines[each] for each in slices] == ["none", "none"]


def test_a_slice_that_the_caller_reads_is_a_copy() -> None:
    model = parse(
        """g (float16[6, 32] x) => (float16[6, 8] a) {
             from = Constant <value_ints = [0, 4]> () to = Constant <value_ints = [6, 12]> ()
             r = Relu(x) a = Slice(r, from, to) }"""
    )
    feeds = {"x": np.random.default_rng(4).standard_normal((6, 32)).astype(np.float16)}
    made = compile_and_judge(case_of(model, feeds), hardware("npu_tiny"))
    assert [str(g.engine) for g in made.recipe.groups] == ["vector", "dma"]
