"""What a plan's constants are made of: which part of which of a recipe's constants lies where.

This is all that stands between a recipe's constants and the weights that a device loads, and it
depends on no constant's elements. So new weights for an old plan need no compiler: only `pack`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.tensors import Array, Box, Layout, box_slices

LayoutOf = Callable[[str], Layout]


@dataclass(frozen=True, slots=True)
class Part:
    """A box of a recipe's constant, from `offset_bytes` of the packed bytes on, dense in the
    constant's layout."""

    value: str
    box: Box
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class Packed:
    """A plan's constant of u8[`size_bytes`], zero where no part lies."""

    name: str
    size_bytes: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Whole:
    """A plan's constant that is one of the recipe's, whole, in its layout."""

    name: str
    value: str


Packing = Packed | Whole


def pack(
    packings: Iterable[Packing], constants: Mapping[str, Array], layout: LayoutOf
) -> dict[str, Array]:
    """The weights by name. `layout` gives a value's layout, as `Recipe.layout` does."""
    weights: dict[str, Array] = {}
    for item in packings:
        if isinstance(item, Whole):
            physical = layout(item.value).to_physical(constants[item.value])
            weights[item.name] = np.asarray(physical, order="C")
        else:
            weights[item.name] = _packed(item, constants, layout)
    return weights


def _packed(item: Packed, constants: Mapping[str, Array], layout: LayoutOf) -> NDArray[np.uint8]:
    packed = np.zeros(item.size_bytes, np.uint8)
    for part in item.parts:
        data = constants[part.value][box_slices(part.box)]
        physical = layout(part.value).to_physical(data)
        stop = part.offset_bytes + physical.nbytes
        target = packed[part.offset_bytes : stop].view(physical.dtype)
        np.copyto(target.reshape(physical.shape), physical)
    return packed
