"""Random data movement: concat, slice, split, pad, resize, transpose, reshape, gather."""

from __future__ import annotations

from math import prod

import numpy as np

from tests.compiler.model_builder import Choices, ModelBuilder, Value
from tests.compiler.random_contractions import images
from tests.compiler.random_pointwise import floats


def _shaped(builder: ModelBuilder) -> list[Value]:
    return [value for value in floats(builder) if value.shape]


def _whole(numbers: object) -> np.ndarray:
    return np.array(numbers, np.int64)


def concat(builder: ModelBuilder, choices: Choices) -> None:
    """Values that agree but for one axis, joined along it."""
    x = choices.pick(_shaped(builder))
    axis = choices.integer(0, len(x.shape) - 1)
    others = [
        other
        for other in _shaped(builder)
        if len(other.shape) == len(x.shape)
        and all(
            a == b for n, (a, b) in enumerate(zip(other.shape, x.shape, strict=True)) if n != axis
        )
    ]
    parts = [x, *(choices.pick(others) for _ in range(choices.integer(1, 2)))]
    shape = list(x.shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    if prod(shape) > 60_000:
        return
    exact = all(part.exact for part in parts)
    names = [part.name for part in parts]
    if choices.integer(0, 3) == 1:
        extra = builder.eighths(x.shape)
        names.append(builder.constant(extra))
        shape[axis] += x.shape[axis]
    builder.add("Concat", names, [("f32", tuple(shape))], exact=exact, axis=axis)


def slice_box(builder: ModelBuilder, choices: Choices) -> None:
    """A box with steps, negative ones too."""
    x = choices.pick(_shaped(builder))
    starts, stops, steps, shape = [], [], [], []
    for extent in x.shape:
        start = choices.integer(0, extent - 1)
        stop = choices.integer(start + 1, extent)
        step = choices.pick((1, 1, 2, -1)) if choices.integer(0, 1) else 1
        if choices.integer(0, 1) == 0:
            start, stop, step = 0, extent, 1
        count = -(-(stop - start) // abs(step))
        if step < 0:
            start, stop = stop - 1, start - 1 if start else -extent - 1
        starts.append(start)
        stops.append(stop)
        steps.append(step)
        shape.append(count)
    names = [builder.constant(_whole(part)) for part in (starts, stops, range(len(starts)), steps)]
    builder.add("Slice", [x.name, *names], [("f32", tuple(shape))], exact=x.exact)


def split(builder: ModelBuilder, choices: Choices) -> None:
    """A split into two or three parts; each may stay unread."""
    found = [value for value in _shaped(builder) if max(value.shape) >= 2]
    if not found:
        return
    x = choices.pick(found)
    axis = choices.pick([axis for axis, extent in enumerate(x.shape) if extent >= 2])
    first = choices.integer(1, x.shape[axis] - 1)
    sizes = [first, x.shape[axis] - first]
    results = []
    for size in sizes:
        shape = list(x.shape)
        shape[axis] = size
        results.append(("f32", tuple(shape)))
    builder.add(
        "Split", [x.name, builder.constant(_whole(sizes))], results, exact=x.exact, axis=axis
    )


def pad(builder: ModelBuilder, choices: Choices) -> None:
    """Constant, reflected or edge padding."""
    x = choices.pick(_shaped(builder))
    mode = choices.pick(("constant", "edge", "reflect"))
    begins = [choices.integer(0, 2) if choices.integer(0, 1) else 0 for _ in x.shape]
    ends = [choices.integer(0, 2) if choices.integer(0, 1) else 0 for _ in x.shape]
    if mode == "reflect":
        begins = [min(number, extent - 1) for number, extent in zip(begins, x.shape, strict=True)]
        ends = [min(number, extent - 1) for number, extent in zip(ends, x.shape, strict=True)]
    shape = tuple(
        low + extent + high for low, extent, high in zip(begins, x.shape, ends, strict=True)
    )
    names = [x.name, builder.constant(_whole([*begins, *ends]))]
    if mode == "constant" and choices.integer(0, 1):
        names.append(builder.constant(np.float32(choices.pick((0.5, -1.0)))))
    builder.add("Pad", names, [("f32", shape)], exact=x.exact, mode=mode)


def resize(builder: ModelBuilder, choices: Choices) -> None:
    """Nearest or linear resizing of the spatial axes, up or down."""
    found = images(builder)
    if not found:
        return
    x = choices.pick(found)
    mode = choices.pick(("nearest", "linear"))
    coordinates = choices.pick(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    by_sizes = choices.integer(0, 1)
    attributes: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = choices.pick(("round_prefer_floor", "floor", "ceil"))
    if by_sizes:
        spatial = tuple(choices.integer(1, 2 * extent) for extent in x.shape[2:])
        names = [x.name, "", "", builder.constant(_whole([*x.shape[:2], *spatial]))]
    else:
        scales = [choices.pick((2.0, 1.0, 0.5, 1.5)) for _ in x.shape[2:]]
        spatial = tuple(
            int(extent * scale) for extent, scale in zip(x.shape[2:], scales, strict=True)
        )
        names = [x.name, "", builder.constant(np.array([1, 1, *scales], np.float32))]
    shape = (*x.shape[:2], *spatial)
    if min(spatial) < 1 or prod(shape) > 60_000:
        return
    exact = x.exact and mode == "nearest"
    builder.add("Resize", names, [("f32", shape)], exact=exact, **attributes)


def transpose(builder: ModelBuilder, choices: Choices) -> None:
    """A permutation of the axes."""
    x = choices.pick(_shaped(builder))
    left = list(range(len(x.shape)))
    order = [left.pop(choices.integer(0, len(left) - 1)) for _ in x.shape]
    shape = tuple(x.shape[axis] for axis in order)
    builder.add("Transpose", [x.name], [("f32", shape)], exact=x.exact, perm=order)


def reshape(builder: ModelBuilder, choices: Choices) -> None:
    """Axes merged, split off or added."""
    x = choices.pick(_shaped(builder))
    count = prod(x.shape)
    kind = choices.pick(("flat", "merge", "split", "unsqueeze"))
    if kind == "flat":
        shape: tuple[int, ...] = (1, count)
    elif kind == "merge" and len(x.shape) > 1:
        axis = choices.integer(0, len(x.shape) - 2)
        shape = (*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :])
    elif kind == "split" and len(x.shape) < 5:
        axis = choices.integer(0, len(x.shape) - 1)
        parts = [part for part in (2, 3, 4, 1) if x.shape[axis] % part == 0]
        part = choices.pick(parts)
        shape = (*x.shape[:axis], part, x.shape[axis] // part, *x.shape[axis + 1 :])
    elif len(x.shape) < 5:
        axis = choices.integer(0, len(x.shape))
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
    else:
        return
    target = builder.constant(_whole(shape))
    builder.add("Reshape", [x.name, target], [("f32", shape)], exact=x.exact)


def gather(builder: ModelBuilder, choices: Choices) -> None:
    """Rows of a value by constant indices, or of a constant table by indices of a value."""
    x = choices.pick(_shaped(builder))
    axis = choices.integer(0, len(x.shape) - 1)
    shape = choices.pick(((3,), (2, 2), ()))
    extent = x.shape[axis]
    indices = builder.random.integers(-extent, extent, shape)
    result = (*x.shape[:axis], *shape, *x.shape[axis + 1 :])
    if len(result) <= 5 and prod(result) <= 60_000:
        name = builder.constant(_whole(indices))
        builder.add("Gather", [x.name, name], [("f32", result)], exact=x.exact, axis=axis)


def expand(builder: ModelBuilder, choices: Choices) -> None:
    """Broadcast to a larger shape."""
    x = choices.pick(_shaped(builder))
    shape = tuple(
        choices.pick((1, 3)) if extent == 1 and choices.integer(0, 1) else extent
        for extent in x.shape
    )
    if len(shape) < 4 and choices.integer(0, 1):
        shape = (choices.pick((1, 2)), *shape)
    if prod(shape) <= 60_000:
        target = builder.constant(_whole(shape))
        builder.add("Expand", [x.name, target], [("f32", shape)], exact=x.exact)
