"""Slices along one axis, as the attributes of the operator."""

from __future__ import annotations

from stages.recipe.graph import Attribute
from stages.tensors import Shape


def slice_along(
    shape: Shape, axis: int, start: int, stop: int, step: int = 1
) -> dict[str, Attribute]:
    """The attributes of a slice that takes a span of one axis, and all of the others."""
    starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return {"starts": tuple(starts), "stops": tuple(stops), "steps": tuple(steps)}
