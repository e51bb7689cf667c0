"""One operator of a kernel, and which parts of whole values its operands are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stages.recipe.graph import Operator
from stages.tensors import Shape

Starts = tuple[int | None, ...]
"""Where a tile begins along each axis of the whole value; None where that isn't known, or where all
elements along an axis are one."""


class MisplacedError(Exception):
    """Operands aren't the parts of values that belong together."""


@dataclass(frozen=True, slots=True)
class Side:
    """An operand or a result of a tile: its extents and those of the whole value."""

    shape: Shape
    full: Shape

    @property
    def is_whole(self) -> bool:
        """Whether the tile is all of the value."""
        return self.shape == self.full


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile's operator and the whole one; operands that are left out are None."""

    operator: Operator
    whole: Operator
    operands: tuple[Side | None, ...]
    results: tuple[Side, ...]

    def operand(self, place: int) -> Side:
        """An operand that every operator of the kind has."""
        side = self.operands[place]
        assert side is not None, "the operator table wants it"
        return side


@dataclass(slots=True)
class Summed:
    """How much of a contraction or reduction is in a result: `[start, stop)` of `extent`."""

    start: int
    stop: int
    extent: int


def same(one: int | None, other: int | None, word: str) -> int | None:
    """The place that two agree on.

    Raises:
        MisplacedError: they don't.
    """
    if one is None:
        return other
    if other is not None and other != one:
        raise MisplacedError(f"{word} begins at {one} in one operand and at {other} in another")
    return one


def need_whole(side: Side, starts: Starts, axes: Sequence[int], word: str) -> None:
    """Along these axes the tile must be all of the value.

    Raises:
        MisplacedError: it isn't.
    """
    for axis in axes:
        if side.shape[axis] != side.full[axis] or starts[axis]:
            raise MisplacedError(
                f"{word} is a part along axis {axis}: {side.shape[axis]} of {side.full[axis]} "
                f"from {starts[axis] or 0} on"
            )


def spread(parts: Sequence[tuple[Side, Starts]], result: Side, skip: int = 0) -> list[int | None]:
    """Where a result begins that is computed from elements at the same place, operands being
    broadcast, but for its last `skip` axes.

    Raises:
        MisplacedError: operands are from other places.
    """
    rank = len(result.full) - skip
    found: list[int | None] = [None] * rank
    for side, starts in parts:
        held = len(side.full) - skip
        for axis in range(held):
            at = rank - held + axis
            if side.full[axis] == 1 and result.full[at] != 1:
                continue
            found[at] = same(found[at], starts[axis], f"axis {at}")
    return found
