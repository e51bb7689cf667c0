"""Bounds inference: the boxes of an operator's operands that a box of its result needs.

The names follow Halide's bounds inference; each rule is the operator's index arithmetic run
backwards. `tile_attributes` gives the attributes with which the operator computes just that box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stages.compiler.support import POINTWISE
from stages.compiler.tiling.padding import padded_source, tile_padding
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.recipe.semantics.resize import resize_axis, resize_span
from stages.recipe.window import Window
from stages.tensors import Box, Shape, TensorType, box_shape, broadcast_box, full_box

Span = tuple[int, int]

POSITIONED = frozenset(
    {
        *(Kind.CONV, Kind.CONV_TRANSPOSE, Kind.MAX_POOL, Kind.AVERAGE_POOL),
        *(Kind.RESIZE, Kind.PAD),
    }
)
"""Kinds whose `tile_attributes` depend on where a tile lies; those of others follow from its
extents."""


def operand_boxes(
    operator: Operator,
    box: Box,
    operand_types: Sequence[TensorType | None],
    result: TensorType,
    reduction: Span | None = None,
) -> tuple[Box | None, ...]:
    """The box of each operand that `box` of the result needs; None for an omitted operand.

    `reduction` restricts the contracted axis of a convolution or matmul, or one axis of a
    reduction, to a span of it.
    """
    types = list(operand_types)
    match operator.kind:
        case Kind.QUANTIZE | Kind.DEQUANTIZE:
            boxes = [box, *_quantisation_parameters(operator, box, types[1:])]
        case kind if kind in POINTWISE:  # before all that they would be compared with
            boxes = _broadcast(box, types)
        case Kind.CONV:
            boxes = _conv(operator, box, types, reduction)
        case Kind.CONV_TRANSPOSE:
            boxes = _conv_transpose(operator, box, types)
        case Kind.MATMUL:
            boxes = _matmul(box, types, reduction)
        case Kind.MAX_POOL | Kind.AVERAGE_POOL:
            spans = _window_spans(_window(operator, types), box, _shape(types, 0))
            boxes = [(*box[:2], *spans)]
        case Kind.SOFTMAX | Kind.LOG_SOFTMAX | Kind.SOFTMAX_NUMERATOR:
            boxes = [_widen(box, _shape(types, 0), [operator.integer("axis")])]
        case Kind.LAYER_NORM:
            axes = range(operator.integer("axis"), result.rank)
            boxes = [_widen(box, _shape(types, 0), axes), *_whole(types[1:])]
        case Kind.INSTANCE_NORM:
            wide = _widen(box, _shape(types, 0), range(2, result.rank))
            boxes = [wide, (box[1],), (box[1],)]
        case Kind.BATCH_NORM:
            boxes = [box, *[(box[1],)] * 4]
        case Kind.TRANSPOSE:
            permutation = operator.integers("permutation")
            source: list[Span] = [(0, 0)] * len(box)
            for axis, span in zip(permutation, box, strict=True):
                source[axis] = span
            boxes = [tuple(source)]
        case Kind.GATHER:
            boxes = _gather(operator, box, types)
        case Kind.PAD:
            boxes = [padded_source(operator, box, _shape(types, 0))]
        case Kind.RESIZE:
            boxes = [_resize(operator, box, _shape(types, 0), result.shape)]
        case Kind.SLICE:
            boxes = [_slice(operator, box)]
        case kind if kind.startswith("reduce_"):
            boxes = [_reduction(operator, box, _shape(types, 0), reduction)]
        case Kind.CONCAT | Kind.SPLIT | Kind.RESHAPE | Kind.HOST_CALL:
            raise AssertionError(f"{operator.kind} has no tiles")
        case _:
            boxes = _broadcast(box, types)
    return tuple(boxes)


def tile_attributes(
    operator: Operator,
    box: Box,
    boxes: Sequence[Box | None],
    operand_types: Sequence[TensorType | None],
    result_shape: Shape,
) -> Mapping[str, Attribute]:
    """The attributes with which the operator, run on `boxes`, computes `box` of its result."""
    attributes = dict(operator.attributes)
    match operator.kind:
        case Kind.CONV:
            window = _window(operator, operand_types)
            attributes["pads"] = _tile_pads(window, box, _shape(operand_types, 0))
            attributes["group"] = _tile_groups(operator, box, _shape(operand_types, 1)[0])
        case Kind.MAX_POOL | Kind.AVERAGE_POOL:
            window, shape = _window(operator, operand_types), _shape(operand_types, 0)
            attributes["pads"] = _tile_pads(window, box, shape)
            if "overhang" in attributes:
                attributes["overhang"] = _tile_overhang(operator, window, box, shape)
        case Kind.CONV_TRANSPOSE:
            source = boxes[0]
            assert source is not None
            window = _window(operator, operand_types)
            attributes["pads"] = _transposed_pads(window, box, source)
            attributes["output_padding"] = (0,) * (len(box) - 2)
        case Kind.RESIZE:
            source = boxes[0]
            assert source is not None
            attributes["full_input"] = _shape(operand_types, 0)
            attributes["full_output"] = result_shape
            attributes["origin_input"] = tuple(start for start, _ in source)
            attributes["origin_output"] = tuple(start for start, _ in box)
        case Kind.PAD if operator.word("mode") != "reflect":
            source = boxes[0]
            assert source is not None
            attributes["pads"] = tile_padding(operator, box, source)
        case Kind.EXPAND | Kind.RESHAPE:
            attributes["shape"] = box_shape(box)
        case Kind.SLICE:
            lengths = [
                (stop - start - 1) * abs(step)
                for (start, stop), step in zip(box, operator.integers("steps"), strict=True)
            ]
            forward = [step > 0 for step in operator.integers("steps")]
            ends = list(zip(forward, lengths, strict=True))
            attributes["starts"] = tuple(0 if onward else last for onward, last in ends)
            attributes["stops"] = tuple(last + 1 if onward else -1 for onward, last in ends)
    return attributes


def whole_axes(operator: Operator, result: TensorType) -> frozenset[int]:
    """The axes of the result that can't be cut."""
    rank = result.rank
    match operator.kind:
        case Kind.SOFTMAX | Kind.LOG_SOFTMAX | Kind.SOFTMAX_NUMERATOR:
            return frozenset({operator.integer("axis")})
        case Kind.LAYER_NORM:
            return frozenset(range(operator.integer("axis"), rank))
        case Kind.INSTANCE_NORM:
            return frozenset(range(2, rank))
        case Kind.PAD:
            pads = operator.integers("pads")
            padded = [axis for axis in range(rank) if pads[axis] or pads[axis + rank]]
            channels = {1} if rank >= 3 else set()  # blocks of them move together
            return frozenset(padded if operator.word("mode") == "reflect" else channels & {*padded})
        case Kind.CONV_TRANSPOSE if operator.integer("group") > 1:
            return frozenset({1})
    return frozenset()


def _shape(types: Sequence[TensorType | None], index: int) -> Shape:
    found = types[index]
    assert found is not None
    return found.shape


def _broadcast(box: Box, types: Sequence[TensorType | None]) -> list[Box | None]:
    return [broadcast_box(box, item.shape) if item else None for item in types]


def _whole(types: Sequence[TensorType | None]) -> list[Box | None]:
    return [full_box(item.shape) if item else None for item in types]


def _widen(box: Box, shape: Shape, axes: Sequence[int] | range) -> Box:
    return tuple((0, shape[axis]) if axis in axes else span for axis, span in enumerate(box))


def _conv(
    operator: Operator, box: Box, types: Sequence[TensorType | None], reduction: Span | None
) -> list[Box | None]:
    x, w = _shape(types, 0), _shape(types, 1)
    per_group_out = w[0] // operator.integer("group")
    first, last = box[1][0] // per_group_out, -(-box[1][1] // per_group_out)
    inner = reduction or (0, w[1])
    channels = inner if operator.integer("group") == 1 else (first * w[1], last * w[1])
    boxes: list[Box | None] = [
        (box[0], channels, *_window_spans(_window(operator, types), box, x)),
        (box[1], inner, *full_box(w[2:])),
    ]
    if len(types) > 2:
        boxes.append((box[1],) if types[2] else None)
    return boxes


def _window(operator: Operator, types: Sequence[TensorType | None]) -> Window:
    contraction = operator.kind in (Kind.CONV, Kind.CONV_TRANSPOSE)
    kernel = _shape(types, 1)[2:] if contraction else operator.integers("kernel")
    return Window.of(operator, kernel)


def _reached(window: Window, axis: int, span: Span) -> Span:
    """Input positions that an output span touches along a spatial axis, padding included."""
    stride, before = window.strides[axis], window.begins[axis]
    return span[0] * stride - before, (span[1] - 1) * stride - before + window.spans[axis]


def _window_spans(window: Window, box: Box, shape: Shape) -> list[Span]:
    spans = []
    axes = zip(box[2:], shape[2:], window.strides, window.begins, window.spans, strict=True)
    for (first, last), extent, stride, before, length in axes:
        # A window that lies wholly in the padding still needs an element to stand on.
        low = min(max(0, first * stride - before), extent - 1)
        spans.append((low, max(min(extent, (last - 1) * stride - before + length), low + 1)))
    return spans


def _tile_pads(window: Window, box: Box, shape: Shape) -> tuple[int, ...]:
    before: list[int] = []
    after: list[int] = []
    for axis, (span, held) in enumerate(
        zip(box[2:], _window_spans(window, box, shape), strict=True)
    ):
        start, stop = _reached(window, axis, span)
        before.append(held[0] - start)
        after.append(stop - held[1])
    return (*before, *after)


def _tile_overhang(operator: Operator, window: Window, box: Box, shape: Shape) -> tuple[int, ...]:
    """The part of a tile's padding at the end that never counts."""
    never = operator.integers("overhang")
    result = []
    for axis, extent in enumerate(shape[2:]):
        _, stop = _reached(window, axis, box[axis + 2])
        result.append(max(0, stop - extent - (window.ends[axis] - never[axis])))
    return tuple(result)


def _tile_groups(operator: Operator, box: Box, out_channels: int) -> int:
    group = operator.integer("group")
    per_group = out_channels // group
    return max(1, (box[1][1] - box[1][0]) // per_group) if group > 1 else 1


def _conv_transpose(
    operator: Operator, box: Box, types: Sequence[TensorType | None]
) -> list[Box | None]:
    x, w = _shape(types, 0), _shape(types, 1)
    spans = []
    window = _window(operator, types)
    for axis, (span, extent) in enumerate(zip(box[2:], x[2:], strict=True)):
        stride, pad = window.strides[axis], window.begins[axis]
        low = max(0, -((window.spans[axis] - 1 - span[0] - pad) // stride))
        high = min(extent, (span[1] - 1 + pad) // stride + 1)
        low = min(low, extent - 1)
        spans.append((low, max(high, low + 1)))
    group = operator.integer("group")
    out = box[1] if group == 1 else (0, w[1])
    boxes: list[Box | None] = [
        (box[0], (0, x[1]), *spans),
        ((0, w[0]), out, *full_box(w[2:])),
    ]
    if len(types) > 2:
        boxes.append((box[1],) if types[2] else None)
    return boxes


def _transposed_pads(window: Window, box: Box, source: Box) -> tuple[int, ...]:
    """Crops that leave just the tile of the transposed convolution of the source box."""
    before: list[int] = []
    after: list[int] = []
    for axis, (span, held) in enumerate(zip(box[2:], source[2:], strict=True)):
        stride = window.strides[axis]
        begin = span[0] + window.begins[axis] - held[0] * stride
        length = (held[1] - held[0] - 1) * stride + window.spans[axis]
        before.append(begin)
        after.append(length - begin - (span[1] - span[0]))
    return (*before, *after)


def _matmul(
    box: Box, types: Sequence[TensorType | None], reduction: Span | None
) -> list[Box | None]:
    a, b = _shape(types, 0), _shape(types, 1)
    inner = reduction or (0, a[-1])
    boxes: list[Box | None] = [
        (*broadcast_box(box[:-2], a[:-2]), box[-2], inner),
        (*broadcast_box(box[:-2], b[:-2]), inner, box[-1]),
    ]
    if len(types) > 2:
        bias = types[2]
        boxes.append(broadcast_box(box, bias.shape) if bias else None)
    return boxes


def _gather(operator: Operator, box: Box, types: Sequence[TensorType | None]) -> list[Box | None]:
    table, indices = _shape(types, 0), _shape(types, 1)
    axis = operator.integer("axis")
    end = axis + len(indices)
    return [(*box[:axis], (0, table[axis]), *box[end:]), tuple(box[axis:end])]


def _resize(operator: Operator, box: Box, shape: Shape, result: Shape) -> Box:
    return tuple(
        resize_span(resize_axis(operator, shape, result, axis), *span)
        for axis, span in enumerate(box)
    )


def _quantisation_parameters(
    operator: Operator, box: Box, types: Sequence[TensorType | None]
) -> list[Box | None]:
    axis = operator.integer("axis")
    return [
        None if item is None else (box[axis],) if axis >= 0 and item.rank else full_box(item.shape)
        for item in types
    ]


def _slice(operator: Operator, box: Box) -> Box:
    spans = []
    for start, step, span in zip(
        operator.integers("starts"), operator.integers("steps"), box, strict=True
    ):
        ends = start + span[0] * step, start + (span[1] - 1) * step
        spans.append((min(ends), max(ends) + 1))
    return tuple(spans)


def cut_axis(operator: Operator, shape: Shape) -> int:
    """The axis along which a reduction is cut: its first reduced axis of more than one element
    (channels only where nothing else is reduced, since layouts block them)."""
    axes = [axis for axis in operator.integers("axes") if shape[axis] > 1]
    others = [axis for axis in axes if axis != 1]
    return (others or axes or [0])[0]


def _reduction(operator: Operator, box: Box, shape: Shape, cut: Span | None) -> Box:
    axes = set(operator.integers("axes"))
    along = cut_axis(operator, shape)
    kept = iter(box)
    spans = []
    for axis, extent in enumerate(shape):
        if axis in axes:
            spans.append(cut if cut is not None and axis == along else (0, extent))
            if operator.integer("keepdims"):
                next(kept)
        else:
            spans.append(next(kept))
    return tuple(spans)
