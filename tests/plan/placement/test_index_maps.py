"""Index maps run forwards, against the compiler's bounds inference run backwards."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.compiler.tiling.footprint import operand_boxes, tile_attributes, whole_axes
from stages.plan.rules.placement.index_maps import MAPS, WHOLE, mapped
from stages.plan.rules.placement.tile import MisplacedError, Side, Tile
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.recipe.operators import infer, is_elementwise
from stages.tensors import Box, DType, Shape, TensorType, box_shape


@dataclass(frozen=True)
class Law:
    """An operator, the shapes of its operands, and which extents its result's tiles begin at
    multiples of."""

    kind: Kind
    shapes: tuple[Shape, ...]
    attributes: dict[str, Attribute]
    steps: tuple[int, ...] = ()
    result: Shape = ()

    @property
    def operator(self) -> Operator:
        names = tuple(f"x{place}" for place in range(len(self.shapes)))
        return Operator("op", self.kind, names, ("y",), self.attributes)

    @property
    def types(self) -> list[TensorType]:
        whole = {Kind.DEQUANTIZE: DType.I8}.get(self.kind, DType.F32)
        found = [TensorType(DType.F32, shape) for shape in self.shapes]
        found[0] = TensorType(whole, self.shapes[0])
        if self.kind is Kind.GATHER:
            found[1] = TensorType(DType.I64, self.shapes[1])
        return found


def window(strides: int, pads: int, dilations: int = 1, **more: Attribute) -> dict[str, Attribute]:
    return {"strides": (strides,) * 2, "pads": (pads,) * 4, "dilations": (dilations,) * 2, **more}


HALF = {
    "mode": "linear",
    "coordinates": "half_pixel",
    "nearest": "floor",
    "scales": (1.0, 1.0, 2.0, 1.5),
}
LAWS = {
    "conv": Law(Kind.CONV, ((2, 6, 9, 9), (4, 6, 3, 3), (4,)), window(2, 1, 2, group=1)),
    "groups": Law(
        Kind.CONV, ((1, 6, 7, 7), (9, 2, 3, 3)), window(1, 2, group=3), steps=(1, 3, 1, 1)
    ),
    "depthwise": Law(Kind.CONV, ((1, 6, 7, 7), (6, 1, 3, 3)), window(2, 1, group=6)),
    "transposed": Law(
        Kind.CONV_TRANSPOSE,
        ((1, 3, 5, 5), (3, 4, 3, 3)),
        window(2, 1, group=1, output_padding=(1, 1)),
    ),
    "max_pool": Law(Kind.MAX_POOL, ((1, 4, 9, 9),), window(2, 1, kernel=(3, 3))),
    "average_pool": Law(
        Kind.AVERAGE_POOL,
        ((1, 2, 8, 8),),
        window(2, 1, kernel=(3, 3), count_include_pad=1, overhang=(1, 1)),
    ),
    "matmul": Law(Kind.MATMUL, ((3, 1, 5, 7), (4, 7, 6), (6,)), {}),
    "softmax": Law(Kind.SOFTMAX, ((4, 5, 6),), {"axis": 1}),
    "softmax_numerator": Law(Kind.SOFTMAX_NUMERATOR, ((4, 5, 6),), {"axis": 2}),
    "layer_norm": Law(Kind.LAYER_NORM, ((4, 5, 6), (6,), (6,)), {"axis": 2, "epsilon": 0.1}),
    "batch_norm": Law(Kind.BATCH_NORM, ((2, 5, 3), *((5,),) * 4), {"epsilon": 0.1}),
    "reduce": Law(Kind.REDUCE_MAX, ((4, 5, 6),), {"axes": (1,), "keepdims": 0}),
    "transpose": Law(Kind.TRANSPOSE, ((4, 5, 6),), {"permutation": (2, 0, 1)}),
    "gather": Law(Kind.GATHER, ((9, 5), (4, 3)), {"axis": 0}),
    "slice": Law(Kind.SLICE, ((9, 8),), {"starts": (1, 7), "stops": (9, -1), "steps": (2, -1)}),
    "add": Law(Kind.ADD, ((4, 1, 6), (5, 1)), {}),
    "dequantize": Law(Kind.DEQUANTIZE, ((4, 5, 6), (5,)), {"axis": 1}),
    "resize": Law(Kind.RESIZE, ((1, 2, 5, 6),), HALF, result=(1, 2, 10, 9)),
    "constant_pad": Law(
        Kind.PAD, ((4, 5),), {"pads": (1, 2, 1, 0), "mode": "constant", "value": 1.0}
    ),
    "reflect_pad": Law(
        Kind.PAD, ((4, 5),), {"pads": (0, 2, 0, 1), "mode": "reflect", "value": 0.0}
    ),
}


def tile_of(law: Law, box: Box) -> tuple[Tile, list[tuple[int, ...]]]:
    """The tile that makes a box of the result, as the compiler cuts it, and where its operands
    begin."""
    operator, types = law.operator, law.types
    result = whole_result(law)
    boxes = operand_boxes(operator, box, types, result)
    parts = [part for part in boxes if part is not None]
    says = tile_attributes(operator, box, boxes, types, result.shape)
    sides = tuple(
        Side(box_shape(part), item.shape) for part, item in zip(parts, types, strict=True)
    )
    tile = Tile(
        replace(operator, attributes=says),
        operator,
        sides,
        (Side(box_shape(box), result.shape),),
    )
    return tile, [tuple(low for low, _ in part) for part in parts]


def whole_result(law: Law) -> TensorType:
    declared = [TensorType(DType.F32, law.result)] if law.result else []
    return infer(law.operator, law.types, declared)[0]


def drawn_box(draw: st.DrawFn, law: Law) -> Box:
    result = whole_result(law)
    whole = whole_axes(law.operator, result)
    box = []
    for axis, extent in enumerate(result.shape):
        step = law.steps[axis] if law.steps else 1
        low = draw(st.integers(0, extent // step - 1)) * step
        high = low + step * draw(st.integers(1, (extent - low) // step))
        box.append((0, extent) if axis in whole else (low, high))
    return tuple(box)


def test_every_kind_has_a_map() -> None:
    for kind in Kind:
        is_sum = kind in (Kind.CONV, Kind.MATMUL) or kind.startswith("reduce_")
        assert is_sum or is_elementwise(kind) or kind in MAPS or kind in WHOLE, kind


@pytest.mark.parametrize("name", LAWS)
@given(st.data())
def test_a_tile_lies_where_the_compiler_cut_it(name: str, data: st.DataObject) -> None:
    law = LAWS[name]
    box = drawn_box(data.draw, law)
    tile, starts = tile_of(law, box)
    (found,), summed = mapped(tile, starts)
    assert all(
        at == low or (at is None and (law.kind is Kind.PAD or side.shape[axis] == 1))
        for axis, (at, (low, _), side) in enumerate(
            zip(found, box, [tile.results[0]] * len(box), strict=True)
        )
    )
    assert summed is None or (summed.start, summed.stop) == (0, summed.extent)


@pytest.mark.parametrize("name", LAWS)
@given(st.data())
def test_a_tile_of_other_elements_lies_elsewhere_or_nowhere(name: str, data: st.DataObject) -> None:
    """One operand begins one further on along one axis."""
    law = LAWS[name]
    box = drawn_box(data.draw, law)
    tile, starts = tile_of(law, box)
    (before,), _ = mapped(tile, starts)
    free = [
        (place, axis)
        for place, side in enumerate(tile.operands)
        if side is not None
        for axis, (extent, full) in enumerate(zip(side.shape, side.full, strict=True))
        if starts[place][axis] + extent < full
    ]
    if not free or None in before:
        return
    place, axis = data.draw(st.sampled_from(free))
    moved = list(starts[place])
    moved[axis] += 1
    try:
        (after,), summed = mapped(tile, [*starts[:place], tuple(moved), *starts[place + 1 :]])
    except MisplacedError:
        return
    complete = summed is None or (summed.start, summed.stop) == (0, summed.extent)
    assert after != before or not complete
