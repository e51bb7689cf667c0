"""Tiles of a padded tensor, some of which lie wholly in the padding."""

from __future__ import annotations

from stages.recipe.graph import Operator
from stages.tensors import Box, Shape


def padded_source(operator: Operator, box: Box, shape: Shape) -> Box:
    """The box of the operand that a box of the padded result needs."""
    pads = operator.integers("pads")
    if operator.word("mode") == "reflect":
        return tuple(
            (0, extent) if pads[axis] or pads[axis + len(shape)] else span
            for axis, (span, extent) in enumerate(zip(box, shape, strict=True))
        )
    spans = []
    for before, span, extent in zip(pads, box, shape, strict=False):
        # A tile that lies wholly in the padding still needs an element to stand on.
        low = min(max(0, span[0] - before), extent - 1)
        spans.append((low, max(min(extent, span[1] - before), low + 1)))
    return tuple(spans)


def tile_padding(operator: Operator, box: Box, source: Box) -> tuple[int, ...]:
    """The padding of one tile. Where the tile holds nothing of the operand, a constant takes the
    place of the one element that was read, and an edge repeats it."""
    begins: list[int] = []
    ends: list[int] = []
    is_constant = operator.word("mode") == "constant"
    for before, span, held in zip(operator.integers("pads"), box, source, strict=False):
        start, stop = span[0] - before, span[1] - before
        begin, end = held[0] - start, stop - held[1]
        if end < 0:  # wholly in front
            begin, end = (stop - start, -1) if is_constant else (stop - start - 1, 0)
        elif begin < 0:  # wholly behind
            begin, end = (-1, stop - start) if is_constant else (0, stop - start - 1)
        begins.append(begin)
        ends.append(end)
    return (*begins, *ends)
