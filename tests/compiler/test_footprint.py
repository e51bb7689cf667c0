"""Tiles against brute force: a tile computed from the boxes that it asks for equals that part of
the whole result, and the steps of a tiled group cover the result once."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.compiler.tiling.footprint import operand_boxes, tile_attributes, whole_axes
from stages.compiler.tiling.streams import reduction_spans, steps
from stages.compiler.tiling.workload import workload
from stages.recipe.decisions import Engine, Group, Tile
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.operators import infer
from stages.recipe.semantics import evaluate
from stages.tensors import Array, Box, DType, TensorType, box_shape, box_slices
from tests.compiler.passing import draft_of, random_array

RANDOM = np.random.default_rng(1)
SMALL = st.integers(1, 3)


def operator(kind: Kind, count: int, **attributes) -> Operator:
    return Operator("op", kind, tuple(f"x{index}" for index in range(count)), ("y",), attributes)


def f32(*shape: int) -> TensorType:
    return TensorType(DType.F32, shape)


@st.composite
def windows(draw, axes: int, *, ends: int = 2):
    """Extents, kernel, strides, dilations and pads that give a result."""
    kernel = [draw(SMALL) for _ in range(axes)]
    dilations = [draw(st.integers(1, 2)) for _ in range(axes)]
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    pads = [draw(st.integers(0, min(ends, kernel[i % axes] - 1))) for i in range(2 * axes)]
    extents = [draw(st.integers(span, span + 6)) for span in spans]
    strides = [draw(SMALL) for _ in range(axes)]
    return extents, tuple(kernel), tuple(strides), tuple(dilations), tuple(pads)


@st.composite
def convolutions(draw):
    axes = draw(st.integers(1, 2))
    extents, kernel, strides, dilations, pads = draw(windows(axes))
    group, inner, outer = draw(SMALL), draw(SMALL), draw(SMALL)
    op = operator(Kind.CONV, 3, strides=strides, pads=pads, dilations=dilations, group=group)
    types = [
        f32(2, group * inner, *extents),
        f32(group * outer, inner, *kernel),
        f32(group * outer),
    ]
    return op, types


@st.composite
def transposed(draw):
    axes = draw(st.integers(1, 2))
    kernel = tuple(draw(SMALL) for _ in range(axes))
    strides = tuple(draw(SMALL) for _ in range(axes))
    dilations = tuple(draw(st.integers(1, 2)) for _ in range(axes))
    pads = tuple(draw(st.integers(0, (kernel[i % axes] - 1) // 2)) for i in range(2 * axes))
    spare = tuple(draw(st.integers(0, stride - 1)) for stride in strides)
    group, inner, outer = draw(st.integers(1, 2)), draw(SMALL), draw(SMALL)
    op = operator(
        Kind.CONV_TRANSPOSE,
        2,
        strides=strides,
        pads=pads,
        dilations=dilations,
        group=group,
        output_padding=spare,
    )
    extents = [draw(st.integers(2, 5)) for _ in range(axes)]
    return op, [f32(1, group * inner, *extents), f32(group * inner, outer, *kernel)]


@st.composite
def pools(draw):
    axes = draw(st.integers(1, 2))
    extents, kernel, strides, dilations, pads = draw(windows(axes))
    if draw(st.booleans()):
        op = operator(
            Kind.MAX_POOL, 1, kernel=kernel, strides=strides, pads=pads, dilations=dilations
        )
    else:
        counts = draw(st.integers(0, 1))
        op = operator(
            Kind.AVERAGE_POOL,
            1,
            kernel=kernel,
            strides=strides,
            pads=pads,
            count_include_pad=counts,
        )
        if counts and draw(st.booleans()):
            overhang = tuple(draw(st.integers(0, pad)) for pad in pads[axes:])
            op = replace(op, attributes={**op.attributes, "overhang": overhang})
    return op, [f32(2, 3, *extents)]


@st.composite
def products(draw):
    m, k, n, batch = (draw(st.integers(1, 5)) for _ in range(4))
    right = draw(st.sampled_from([(k, n), (batch, k, n), (1, k, n)]))
    bias = draw(st.sampled_from([None, (n,), (m, 1), (batch, m, n), (1, 1, n)]))
    types = [f32(batch, m, k), f32(*right), *([f32(*bias)] if bias else [])]
    return operator(Kind.MATMUL, len(types)), types


@st.composite
def simple(draw):
    """Elementwise, normalisation, reductions and movement on a tensor of rank 3."""
    shape = tuple(draw(st.integers(2, 6)) for _ in range(3))
    axis = draw(st.integers(0, 2))
    order = draw(st.permutations(range(3)))
    axes = tuple(sorted(draw(st.sets(st.integers(0, 2), min_size=1))))
    other = tuple(draw(st.sampled_from([1, extent])) for extent in shape)[draw(st.integers(0, 3)) :]
    starts = tuple(draw(st.integers(0, extent - 1)) for extent in shape)
    steps_ = tuple(draw(st.sampled_from([1, 2, -1])) for _ in shape)
    stops = tuple(
        draw(st.integers(start + 1, extent)) if step > 0 else draw(st.integers(-1, start - 1))
        for start, extent, step in zip(starts, shape, steps_, strict=True)
    )
    pads = tuple(draw(st.integers(0, 2)) if draw(st.booleans()) else 0 for _ in range(6))
    pads = tuple(min(pad, shape[index % 3] - 1) for index, pad in enumerate(pads))
    x = f32(*shape)
    reduce = draw(st.sampled_from([kind for kind in Kind if kind.startswith("reduce_")]))
    return draw(
        st.sampled_from(
            [
                (operator(Kind.SIGMOID, 1), [x]),
                (operator(Kind.SUB, 2), [x, f32(*other)]),
                (operator(Kind.WHERE, 3), [TensorType(DType.BOOL, other), x, x]),
                (operator(Kind.SOFTMAX, 1, axis=axis), [x]),
                (operator(Kind.LOG_SOFTMAX, 1, axis=axis), [x]),
                (operator(Kind.SOFTMAX_NUMERATOR, 1, axis=axis), [x]),
                (
                    operator(Kind.LAYER_NORM, 3, axis=axis, epsilon=1e-3),
                    [x, f32(*shape[axis:]), f32(*shape[axis:])],
                ),
                (
                    operator(Kind.BATCH_NORM, 5, epsilon=1e-3),
                    [x, *[f32(shape[1])] * 4],
                ),
                (
                    operator(Kind.INSTANCE_NORM, 3, epsilon=1e-3),
                    [x, f32(shape[1]), f32(shape[1])],
                ),
                (operator(reduce, 1, axes=axes, keepdims=draw(st.integers(0, 1))), [x]),
                (operator(Kind.TRANSPOSE, 1, permutation=tuple(order)), [x]),
                (operator(Kind.SLICE, 1, starts=starts, stops=stops, steps=steps_), [x]),
                (operator(Kind.EXPAND, 1, shape=(2, *shape)), [x]),
                (
                    operator(
                        Kind.PAD,
                        1,
                        pads=pads,
                        value=0.5,
                        mode=draw(st.sampled_from(["constant", "edge", "reflect"])),
                    ),
                    [x],
                ),
                (operator(Kind.GATHER, 2, axis=axis), [x, TensorType(DType.I64, (2, 3))]),
                (operator(Kind.QUANTIZE, 2, axis=axis), [x, f32(shape[axis])]),
                (
                    operator(Kind.DEQUANTIZE, 2, axis=-1),
                    [TensorType(DType.I8, shape), f32()],
                ),
            ]
        )
    )


@st.composite
def resizes(draw):
    extents = [draw(st.integers(1, 6)) for _ in range(2)]
    scales = [draw(st.sampled_from([1.0, 2.0, 0.5, 1.5, 0.75])) for _ in range(2)]
    if min(int(e * s) for e, s in zip(extents, scales, strict=True)) < 1:
        scales = [1.0, 2.0]
    op = operator(
        Kind.RESIZE,
        1,
        mode=draw(st.sampled_from(["nearest", "linear", "cubic"])),
        coordinates=draw(
            st.sampled_from(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
        ),
        nearest=draw(st.sampled_from(["round_prefer_floor", "floor", "ceil"])),
        scales=(1.0, 1.0, *scales),
    )
    return op, [f32(1, 2, *extents)]


def declared(op: Operator) -> list[TensorType]:
    """The result type where only the graph says it."""
    return [TensorType(DType.I8, ())] if op.kind is Kind.QUANTIZE else []


def data_for(op: Operator, types: list[TensorType]) -> list[Array]:
    arrays = [random_array(item, RANDOM) for item in types]
    if op.kind is Kind.GATHER:
        extent = types[0].shape[op.integer("axis")]
        arrays[1] = RANDOM.integers(-extent, extent, types[1].shape)
    if op.kind is Kind.QUANTIZE:
        arrays[1] = np.abs(arrays[1]) + np.float32(0.1)
    return arrays


def random_box(draw, op: Operator, result: TensorType) -> Box:
    whole = whole_axes(op, result)
    spans = []
    for axis, extent in enumerate(result.shape):
        group = op.integer("group") if op.kind is Kind.CONV and axis == 1 else 1
        step = extent // group if group > 1 else 1
        start = draw(st.integers(0, extent // step - 1)) * step
        stop = draw(st.integers(start // step + 1, extent // step)) * step
        spans.append((0, extent) if axis in whole else (start, stop))
    return tuple(spans)


@settings(max_examples=500)
@given(st.one_of(convolutions(), transposed(), pools(), products(), simple(), resizes()), st.data())
def test_a_tile_equals_its_part_of_the_whole(made, data) -> None:
    op, types = made
    arrays = data_for(op, types)
    (result,) = infer(op, types, declared(op))
    (whole,) = evaluate(op, arrays, [result])
    box = random_box(data.draw, op, result)
    boxes = operand_boxes(op, box, types, result)
    assert len(boxes) == len(types)
    tile_types = [
        TensorType(item.dtype, box_shape(part)) for item, part in zip(types, boxes, strict=True)
    ]
    for part, item in zip(boxes, types, strict=True):
        assert all(0 <= a < b <= n for (a, b), n in zip(part, item.shape, strict=True))
    tile = replace(op, attributes=tile_attributes(op, box, boxes, types, result.shape))
    result_tile = TensorType(result.dtype, box_shape(box))
    assert infer(tile, tile_types, [result_tile])[0].shape == box_shape(box)
    parts = [array[box_slices(part)] for array, part in zip(arrays, boxes, strict=True)]
    (actual,) = evaluate(tile, parts, [result_tile])
    np.testing.assert_allclose(actual, whole[box_slices(box)], rtol=1e-4, atol=1e-5)


@given(st.one_of(convolutions(), products()), st.integers(1, 4), st.data())
def test_parts_of_a_contraction_add_up(made, parts, data) -> None:
    op, types = made
    if op.kind is Kind.CONV:
        op = replace(op, attributes={**op.attributes, "group": 1})
        inner = types[1].shape[1]
        types[0] = f32(types[0].shape[0], inner, *types[0].shape[2:])
    op, types = replace(op, inputs=op.inputs[:2]), types[:2]
    arrays = data_for(op, types)
    (result,) = infer(op, types, [])
    (whole,) = evaluate(op, arrays, [result])
    box = random_box(data.draw, op, result)
    extent = types[1].shape[1] if op.kind is Kind.CONV else types[0].shape[-1]
    total = np.zeros(box_shape(box), np.float32)
    for start in range(0, extent, parts):
        span = (start, min(start + parts, extent))
        boxes = operand_boxes(op, box, types, result, span)
        tile = replace(op, attributes=tile_attributes(op, box, boxes, types, result.shape))
        cut = [array[box_slices(part)] for array, part in zip(arrays, boxes, strict=True)]
        total += evaluate(tile, cut, [TensorType(DType.F32, box_shape(box))])[0]
    np.testing.assert_allclose(total, whole[box_slices(box)], rtol=1e-4, atol=1e-5)


@given(
    st.tuples(*[st.integers(1, 9)] * 3),
    st.tuples(*[st.integers(1, 9)] * 3),
    st.permutations(range(3)),
    st.integers(0, 20),
)
def test_steps_cover_the_result_once(shape, extents, order, reduction) -> None:
    b, m, n = shape
    draft = draft_of(
        f"input %x : f32[{b},{m},17]\nconst %w : f32[17,{n}]\n"
        f"%y : f32[{b},{m},{n}] = matmul(%x, %w)\noutput %y"
    )
    ops = {op.name: op for op in draft.graph.operators}
    work = workload(draft, Group("y", ("y",), Engine.TENSOR_CORE), ops)
    tile = Tile(tuple(map(min, extents, shape)), reduction, tuple(order))
    covered = np.zeros(shape, np.int64)
    spans = reduction_spans(work, tile)
    contracted = [span or (0, 17) for span in spans]
    assert [index for a, b in contracted for index in range(a, b)] == list(range(17))
    open_box = None
    for step in steps(work, tile):
        assert step.is_first == (step.reduction == spans[0])
        assert open_box in (None, step.box)
        open_box = None if step.is_last else step.box
        covered[box_slices(step.box)] += step.is_last
    assert (covered == 1).all()
    assert open_box is None


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("pads", [(3, 0, 0, 4), (0, 2, 3, 0), (4, 1, 2, 2), (-1, 2, 3, -2)])
def test_every_tile_of_a_padded_tensor(mode: str, pads: tuple[int, ...]) -> None:
    op, types = operator(Kind.PAD, 1, pads=pads, mode=mode, value=0.5), [f32(6, 5)]
    arrays = data_for(op, types)
    (result,) = infer(op, types, [])
    (whole,) = evaluate(op, arrays, [result])
    spans = [
        [(a, b) for a in range(extent) for b in range(a + 1, extent + 1)]
        if axis not in whole_axes(op, result)
        else [(0, extent)]
        for axis, extent in enumerate(result.shape)
    ]
    for box in product(*spans):
        (part,) = operand_boxes(op, box, types, result)
        tile = replace(op, attributes=tile_attributes(op, box, [part], types, result.shape))
        (actual,) = evaluate(tile, [arrays[0][box_slices(part)]], [f32(*box_shape(box))])
        np.testing.assert_array_equal(actual, whole[box_slices(box)])


def test_every_tiled_kind_has_an_example() -> None:
    """Kinds that the spec gives to the tensor core or the vector unit are computed in tiles."""
    shapeless = {Kind.CONCAT, Kind.SPLIT, Kind.RESHAPE, Kind.HOST_CALL}
    for kind, count in product(Kind, [1]):
        op = operator(kind, count)
        if kind in shapeless:
            with pytest.raises(AssertionError, match="has no tiles"):
                operand_boxes(op, ((0, 1),), [f32(1)], f32(1))
