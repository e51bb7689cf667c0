"""Resize and Upsample."""

from __future__ import annotations

from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.translation import (
    Attributes,
    NotRepresentable,
    Translation,
    Translator,
    axis_of,
)
from stages.tensors import Shape


def resize(t: Translation) -> None:
    """Resize by nearest neighbour, linear or cubic interpolation, without antialiasing."""
    mode = t.node.word("mode", "nearest")
    coordinates = t.node.word("coordinate_transformation_mode", "half_pixel")
    if coordinates == "tf_half_pixel_for_nn" or t.node.integer("antialias", 0):
        raise NotRepresentable("it uses antialiasing or coordinates tf_half_pixel_for_nn")
    nearest = t.node.word("nearest_mode", "round_prefer_floor")
    if t.node.version < 11:
        coordinates, nearest = "asymmetric", "floor"
    _emit(t, mode, coordinates, nearest, _scales(t))


def _cubic(t: Translation) -> dict[str, int | float]:
    coefficient = t.node.number("cubic_coeff_a", -0.75)
    return {
        "cubic_coefficient": coefficient,
        "exclude_outside": t.node.integer("exclude_outside", 0),
    }


def upsample(t: Translation) -> None:
    """Upsample, which opset 10 replaced by Resize."""
    mode = t.node.word("mode", "nearest")
    if mode not in {"nearest", "linear"}:
        raise NotRepresentable(f"its mode is {mode}")
    scales = t.node.numbers("scales") if t.node.version < 9 else _constant_scales(t, 1)
    _emit(t, mode, "asymmetric", "floor", scales)


def _emit(
    t: Translation, mode: str, coordinates: str, nearest: str, scales: tuple[float, ...]
) -> None:
    x = t.operand(0)
    before, after = t.shape(x), t.result.shape
    if 0 in before or 0 in after:
        raise NotRepresentable("it resizes nothing")
    if before == after and all(scale == 1.0 for scale in scales):
        t.alias(x)
        return
    origin = (0,) * len(before)
    attributes: Attributes = {
        "mode": mode,
        "coordinates": coordinates,
        "nearest": nearest,
        "scales": scales,
        "full_input": before,
        "full_output": after,
        "origin_input": origin,
        "origin_output": origin,
        **(_cubic(t) if mode == "cubic" else {}),
    }
    t.emit(Kind.RESIZE, (x,), attributes)


def _scales(t: Translation) -> tuple[float, ...]:
    """A scale for each axis: given, or the ratio of the extents."""
    position = 1 if t.node.version < 11 else 2
    if t.has(position) and t.type(t.operand(position)).element_count:
        return _over_axes(t, _constant_scales(t, position))
    pairs = zip(t.shape(t.operand(0)), t.result.shape, strict=True)
    return tuple(after / before if before else 1.0 for before, after in pairs)


def _constant_scales(t: Translation, position: int) -> tuple[float, ...]:
    data = t.data(t.operand(position))
    if data is None:
        raise NotRepresentable("its scales are computed")
    return tuple(float(scale) for scale in data.reshape(-1).tolist())


def _over_axes(t: Translation, scales: tuple[float, ...]) -> tuple[float, ...]:
    axes: Shape | None = t.node.integers("axes")
    if axes is None:
        return scales
    rank = t.result.rank
    spread = [1.0] * rank
    for axis, scale in zip(axes, scales, strict=True):
        spread[axis_of(axis, rank)] = scale
    return tuple(spread)


TABLE: dict[str, Translator] = {"Resize": resize, "Upsample": upsample}
