"""What an operator reads of its operands, against which elements its result depends on."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.recipe.touched import read_elements
from stages.tensors import DType, TensorType
from tests.recipe.reference import run_ours

WINDOW = {"strides": (3, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}


def read(
    kind: Kind,
    shapes: list[tuple[int, ...] | None],
    results: list[tuple[int, ...]],
    attributes: dict[str, Attribute],
    place: int = 0,
) -> int:
    operator = Operator("o", kind, tuple("x" if shape else "" for shape in shapes), (), attributes)
    operands = [None if shape is None else TensorType(DType.F32, shape) for shape in shapes]
    return read_elements(operator, place, operands, [TensorType(DType.F32, s) for s in results])


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(prod(shape), dtype=np.float32).reshape(shape)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=3), st.data())
def test_slices_read_what_they_cut_out(shape: list[int], data: st.DataObject) -> None:
    spans = [
        (start, data.draw(st.integers(start, extent)), data.draw(st.integers(1, 3)))
        for extent in shape
        for start in [data.draw(st.integers(0, extent))]
    ]
    starts, stops, steps = (tuple(column) for column in zip(*spans, strict=True))
    attributes: dict[str, Attribute] = {"starts": starts, "stops": stops, "steps": steps}
    result = run_ours(Kind.SLICE, [numbered(tuple(shape))], attributes)[0]
    seen = len(np.unique(result))
    assert read(Kind.SLICE, [tuple(shape)], [result.shape], attributes) == seen


@given(st.lists(st.integers(1, 5), min_size=1, max_size=2), st.data())
def test_pads_read_what_they_do_not_crop(shape: list[int], data: st.DataObject) -> None:
    crops = [data.draw(st.integers(0, extent)) for extent in shape]
    pads = tuple(-crop for crop in crops) + (2,) * len(shape)
    attributes: dict[str, Attribute] = {"pads": pads, "mode": "constant", "value": -1.0}
    result = run_ours(Kind.PAD, [numbered(tuple(shape))], attributes)[0]
    seen = len(np.unique(result[result >= 0]))
    assert read(Kind.PAD, [tuple(shape)], [result.shape], attributes) == seen


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("indices", [[], [0], [2, 1], [1, 1, 1], [0, 1, 2, 0, 1, 2]])
def test_gathers_read_at_most_the_rows_that_they_pick(axis: int, indices: list[int]) -> None:
    table, places = numbered((3, 4)), np.array(indices, np.int64)
    result = run_ours(Kind.GATHER, [table, places], {"axis": axis})[0]
    of_table = read(Kind.GATHER, [(3, 4), places.shape], [result.shape], {"axis": axis})
    assert len(np.unique(result)) <= of_table == min(12, result.size)
    of_indices = read(Kind.GATHER, [(3, 4), places.shape], [result.shape], {"axis": axis}, 1)
    assert of_indices == len(indices)


def test_windows_further_apart_than_they_are_long_skip_rows() -> None:
    # rows 0, 1, 3, 4 and 6, 7 of 8 lie under windows of 2 rows, 3 apart
    x = numbered((1, 2, 8, 5))
    pooled = {**WINDOW, "kernel": (2, 1)}
    result = run_ours(Kind.MAX_POOL, [x], pooled)[0]
    assert result.shape == (1, 2, 3, 5)
    assert read(Kind.MAX_POOL, [x.shape], [result.shape], pooled) == 2 * 6 * 5
    conv = {**WINDOW, "group": 1}
    shapes: list[tuple[int, ...] | None] = [x.shape, (4, 2, 2, 1)]
    assert read(Kind.CONV, shapes, [(1, 4, 3, 5)], conv) == 2 * 6 * 5
    assert read(Kind.CONV, shapes, [(1, 4, 3, 5)], conv, 1) == 4 * 2 * 2
    dense = {**WINDOW, "strides": (1, 1), "kernel": (2, 1)}
    assert read(Kind.MAX_POOL, [x.shape], [(1, 2, 7, 5)], dense) == x.size


def test_a_nearest_resize_to_fewer_reads_only_those() -> None:
    attributes: dict[str, Attribute] = {"mode": "nearest", "scales": (1.0, 1.0, 0.25, 0.5)}
    assert read(Kind.RESIZE, [(1, 2, 8, 8)], [(1, 2, 2, 4)], attributes) == 16
    linear: dict[str, Attribute] = {"mode": "linear", "scales": (1.0, 1.0, 0.25, 1.0)}
    assert read(Kind.RESIZE, [(1, 2, 8, 8)], [(1, 2, 2, 8)], linear) == 64


def test_others_read_all_of_each_operand_and_nothing_of_an_omitted_one() -> None:
    assert read(Kind.ADD, [(4, 4), (4,)], [(4, 4)], {}, 1) == 4
    assert read(Kind.CONCAT, [(4,), (3,)], [(7,)], {"axis": 0}, 1) == 3
    assert read(Kind.CLIP, [(4,), None], [(4,)], {}, 1) == 0


@pytest.mark.parametrize(
    ("name", "elements"),
    [("GatherElements", 6), ("GatherND", 6), ("Shape", 0), ("Size", 0), ("TopK", 100)],
)
def test_nodes_that_only_the_host_knows(name: str, elements: int) -> None:
    node = helper.make_node(name, ["x", "i"], ["y"]).SerializeToString()
    attributes: dict[str, Attribute] = {"node": node}
    assert read(Kind.HOST_CALL, [(10, 10), (6,)], [(6,)], attributes) == elements
    assert read(Kind.HOST_CALL, [(10, 10), (6,)], [(6,)], attributes, 1) == 6


@pytest.mark.parametrize("node", [b"\xff\xff", b""])
def test_a_node_that_cannot_be_read_counts_whole(node: bytes) -> None:
    assert read(Kind.HOST_CALL, [(10, 10)], [(6,)], {"node": node}) == 100
