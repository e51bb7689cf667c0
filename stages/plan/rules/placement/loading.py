"""What lies in memory before the program runs: the constants, as they are packed."""

from __future__ import annotations

from collections.abc import Sequence

from stages.plan.instructions import Binding
from stages.plan.packing import Packing, Part, Whole
from stages.plan.rules.placement.holdings import Holding
from stages.plan.rules.placement.lattice import Fragment, fragment, normal
from stages.plan.rules.placement.regions import memory_corner
from stages.plan.rules.placement.views import dense_steps
from stages.recipe.decisions import Recipe
from stages.tensors import box_shape, dense_strides, full_box


def load_constants(
    holding: Holding, binding: Binding, packing: Packing | None, recipe: Recipe
) -> None:
    """What a constant of the plan holds; `packing` is None where nobody says."""
    region = binding.region
    start = region.address
    if packing is None:
        size = region.stop_address - start
        axes = normal([(size, 1, 0)])
        holding.load([fragment(start, 1, None, 0, axes)])
        return
    if isinstance(packing, Whole):
        box = full_box(recipe.graph.types[packing.value].shape)
        parts: Sequence[Part] = (Part(packing.value, box, 0),)
    else:
        parts = packing.parts
    holding.load([_part(item, start, recipe) for item in parts])


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
