"""What lies in memory before the program runs: the constants, as they are packed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from stages.plan.instructions import Binding
from stages.plan.packing import Packed, Packing, Part
from stages.plan.rules.placement.forms import memory_corner
from stages.plan.rules.placement.holdings import Holding
from stages.plan.rules.placement.lattice import Fragment, fragment, normal
from stages.plan.rules.placement.views import dense_steps
from stages.plan.syntax import print_name
from stages.recipe.decisions import Recipe
from stages.tensors import LayoutKind, box_shape, dense_strides, full_box


def packing_fault(binding: Binding, packing: Packing | None, recipe: Recipe) -> str:
    """Why a constant of the plan can't be made as a package says; nothing where it can."""
    if packing is None:
        return "nothing says what it's made of"
    for part in _parts(packing, recipe):
        held = recipe.graph.types.get(part.value)
        if held is None or part.value not in recipe.graph.constants:
            return f"it's made of %{print_name(part.value)}, which is no constant of the recipe"
        within = len(part.box) == held.rank and all(
            0 <= low <= high <= extent
            for (low, high), extent in zip(part.box, held.shape, strict=True)
        )
        if not within:
            return f"it's made of {list(part.box)} of %{print_name(part.value)}, which is {held}"
        layout = recipe.layout(part.value)
        if layout.kind is LayoutKind.NC1HWC2 and part.box[1][0] % layout.quantum:
            return f"a part of %{print_name(part.value)} begins within a block of channels"
        size = held.dtype.size_bytes * prod(layout.physical_shape(box_shape(part.box)))
        if part.offset_bytes < 0 or part.offset_bytes + size > binding.region.size_bytes:
            return f"a part of %{print_name(part.value)} lies beyond its bytes"
    return ""


def load_constants(holding: Holding, binding: Binding, packing: Packing, recipe: Recipe) -> None:
    """What a constant of the plan holds."""
    start = binding.region.address
    parts = [item for item in _parts(packing, recipe) if prod(box_shape(item.box))]
    holding.load([_part(item, start, recipe) for item in parts])


def _parts(packing: Packing, recipe: Recipe) -> Sequence[Part]:
    if isinstance(packing, Packed):
        return packing.parts
    held = recipe.graph.types.get(packing.value)
    return (Part(packing.value, full_box(held.shape) if held else (), 0),)


def _part(part: Part, start: int, recipe: Recipe) -> Fragment:
    """A box of a constant, dense in the constant's layout."""
    held, layout = recipe.graph.types[part.value], recipe.layout(part.value)
    size = held.dtype.size_bytes
    physical = layout.physical_shape(box_shape(part.box))
    widths = dense_steps(held.shape, layout)
    corner = memory_corner(layout, tuple([low for low, _ in part.box]))
    assert corner is not None, "a box of a constant begins somewhere"
    index = sum(at * width for at, width in zip(corner, widths, strict=True))
    axes = normal(
        (count, by, over)
        for count, by, over in zip(physical, dense_strides(physical, size), widths, strict=True)
    )
    return fragment(start + part.offset_bytes, size, part.value, index, axes)
