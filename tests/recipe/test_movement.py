"""Data movement computes what ONNX Runtime computes."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.errors import InputError
from stages.recipe.graph import Attribute
from stages.recipe.kinds import Kind
from tests.recipe.reference import Data, assert_close, numbers, run_onnx, run_ours


def int64(values: object) -> Data:
    return np.array(values, np.int64)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_concat(axis: int, dtype: type) -> None:
    shapes = [tuple(part if a == axis else 3 for a in range(3)) for part in (2, 0, 4)]
    parts = [numbers(shape, place, dtype) for place, shape in enumerate(shapes)]
    assert_close(
        run_ours(Kind.CONCAT, parts, {"axis": axis})[0],
        run_onnx("Concat", parts, {"axis": axis})[0],
    )


@given(st.lists(st.integers(0, 5), min_size=1, max_size=3), st.data())
def test_slice(shape: list[int], data: st.DataObject) -> None:
    """Python's own normalisation of slices is ours: a negative step may stop at -1."""
    x = numbers(shape)
    spans = []
    for extent in shape:
        step = data.draw(st.sampled_from([1, 2, 3, -1, -2, -3]))
        ends = st.one_of(st.none(), st.integers(-6, 6))
        start, stop, step = slice(data.draw(ends), data.draw(ends), step).indices(extent)
        if len(range(start, stop, step)) == 0:
            start, stop, step = 0, 0, 1
        spans.append((start, stop, step))
    starts, stops, steps = (tuple(column) for column in zip(*spans, strict=True))
    ours = run_ours(Kind.SLICE, [x], {"starts": starts, "stops": stops, "steps": steps})[0]
    far = [stop if stop >= 0 else -1000 for stop in stops]
    axes = int64(list(range(len(shape))))
    theirs = run_onnx("Slice", [x, int64(starts), int64(far), axes, int64(steps)])[0]
    assert_close(ours, theirs)


def test_split() -> None:
    x = numbers((2, 7, 3))
    ours = run_ours(Kind.SPLIT, [x], {"axis": 1, "sizes": (2, 0, 5)}, results=3)
    theirs = run_onnx("Split", [x, int64([2, 0, 5])], {"axis": 1}, results=3)
    for mine, other in zip(ours, theirs, strict=True):
        assert_close(mine, other)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("pads", [(1, 2, 3, 0), (-1, 2, 0, -2), (0, 0, 0, 0), (-2, -1, 1, 3)])
def test_pad(mode: str, pads: tuple[int, ...]) -> None:
    x = numbers((5, 6))
    value = np.array(1.5, np.float32) if mode == "constant" else None
    ours = run_ours(Kind.PAD, [x], {"pads": pads, "mode": mode, "value": 1.5})[0]
    theirs = run_onnx("Pad", [x, int64(pads), value], {"mode": mode})[0]
    assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.bool_])
def test_pad_of_integers(dtype: type) -> None:
    x = numbers((3, 4), dtype=dtype)
    value = np.array(1, dtype)
    ours = run_ours(Kind.PAD, [x], {"pads": (1, 0, 2, 1), "mode": "constant", "value": 1.0})[0]
    assert_close(ours, run_onnx("Pad", [x, int64([1, 0, 2, 1]), value])[0])


@given(st.permutations(range(4)))
def test_transpose(permutation: list[int]) -> None:
    x = numbers((2, 3, 4, 5))
    assert_close(
        run_ours(Kind.TRANSPOSE, [x], {"permutation": tuple(permutation)})[0],
        run_onnx("Transpose", [x], {"perm": permutation})[0],
    )


@pytest.mark.parametrize("shape", [(6, 4), (24,), (2, 3, 2, 2), (1, 24, 1)])
def test_reshape(shape: tuple[int, ...]) -> None:
    x = numbers((4, 3, 2)).transpose(2, 1, 0)
    ours = run_ours(Kind.RESHAPE, [x], {"shape": shape})[0]
    assert_close(ours, run_onnx("Reshape", [np.ascontiguousarray(x), int64(shape)])[0])


def test_reshape_to_and_from_a_scalar() -> None:
    assert run_ours(Kind.RESHAPE, [numbers((1, 1))], {"shape": ()})[0].shape == ()
    assert run_ours(Kind.RESHAPE, [numbers(())], {"shape": (1,)})[0].shape == (1,)
    assert run_ours(Kind.RESHAPE, [numbers((0, 3))], {"shape": (5, 0)})[0].shape == (5, 0)


@pytest.mark.parametrize(("before", "shape"), [((3, 1), (2, 3, 4)), ((2, 3), (1, 1)), ((), (2,))])
def test_expand(before: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = numbers(before)
    ours = run_ours(Kind.EXPAND, [x], {"shape": shape})[0]
    assert_close(ours, run_onnx("Expand", [x, int64(shape)])[0])


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_gather(axis: int, shape: tuple[int, ...], dtype: type) -> None:
    table = numbers((4, 5, 6))
    indices = (numbers(shape, 3, dtype) % 8 - 4).astype(dtype)
    ours = run_ours(Kind.GATHER, [table, indices], {"axis": axis})[0]
    assert_close(ours, run_onnx("Gather", [table, indices], {"axis": axis})[0])


@pytest.mark.parametrize("index", [4, -5])
def test_gather_outside_the_table_is_refused(index: int) -> None:
    with pytest.raises(InputError, match=f"gather reads index {index} of an axis that has 4"):
        run_ours(Kind.GATHER, [numbers((4, 2)), int64([0, index])], {"axis": 0})


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_come_back_wide(dtype: type) -> None:
    table, indices = numbers((6, 4)).astype(dtype), int64([5, -6])
    wide = table.astype(np.float32)
    np.testing.assert_array_equal(
        run_ours(Kind.GATHER, [table, indices], {"axis": 0})[0], wide[[5, 0]]
    )
    box: dict[str, Attribute] = {"starts": (5, 0), "stops": (-1, 4), "steps": (-2, 3)}
    np.testing.assert_array_equal(run_ours(Kind.SLICE, [table], box)[0], wide[5::-2, 0:4:3])
    parts = run_ours(Kind.SPLIT, [table], {"axis": 1, "sizes": (1, 3)}, results=2)
    np.testing.assert_array_equal(parts[1], wide[:, 1:])
    np.testing.assert_array_equal(
        run_ours(Kind.TRANSPOSE, [table], {"permutation": (1, 0)})[0], wide.T
    )


@pytest.mark.parametrize("kind", [Kind.IDENTITY, Kind.RELAYOUT])
def test_identity(kind: Kind) -> None:
    x = numbers((2, 3), dtype=np.int64)
    assert_close(run_ours(kind, [x])[0], x)


@pytest.mark.parametrize(
    ("kind", "shapes", "attributes", "problem"),
    [
        (Kind.CONCAT, [(2, 3), (2, 4)], {"axis": 0}, "the other axes|concat along axis 0"),
        (Kind.CONCAT, [(2, 3), (2,)], {"axis": 0}, "concat along axis 0"),
        (Kind.SLICE, [(4,)], {"starts": (0,), "stops": (5,), "steps": (1,)}, "leaves an axis"),
        (Kind.SLICE, [(4,)], {"starts": (0,), "stops": (-1,), "steps": (1,)}, "leaves an axis"),
        (Kind.SLICE, [(4,)], {"starts": (4,), "stops": (0,), "steps": (-1,)}, "leaves an axis"),
        (Kind.SLICE, [(4,)], {"starts": (0,), "stops": (4,), "steps": (0,)}, "hold a zero"),
        (Kind.PAD, [(4,)], {"pads": (-3, -2), "mode": "constant", "value": 0.0}, "crop more"),
        (Kind.PAD, [(4,)], {"pads": (4, 0), "mode": "reflect", "value": 0.0}, "reflect more"),
        (Kind.TRANSPOSE, [(2, 3)], {"permutation": (0, 0)}, "permutation"),
        (Kind.EXPAND, [(2, 3)], {"shape": (2, 4)}, "doesn't broadcast to"),
    ],
)
def test_illegal_shapes_are_refused(
    kind: Kind, shapes: list[tuple[int, ...]], attributes: dict[str, Attribute], problem: str
) -> None:
    with pytest.raises(Exception, match=problem):
        run_ours(kind, [numbers(shape) for shape in shapes], attributes)
