"""What a transfer takes along: the elements of its source lie in its target afterwards."""

from __future__ import annotations

from stages.plan.instructions import Region
from stages.plan.rules.placement.forms import span_of
from stages.plan.rules.placement.holdings import Holding, TooManyPiecesError
from stages.plan.rules.placement.lattice import Axis, Fragment, clipped, fragment, normal


def copy(source: Holding, target: Holding, read: Region, written: Region) -> None:
    """Put into one buffer what a transfer reads from another; what isn't known isn't put."""
    size = read.dtype.size_bytes
    one, other = span_of(read), span_of(written)
    if one.is_run and other.is_run:
        stop = read.address + one.reach_bytes
        moved = _run(source, read.address, stop, written.address - read.address)
    else:
        moved = _scattered(source, read, written)
    exact = len(moved) == 1 and moved[0].start == written.address
    if not (exact and moved[0].stop == written.address + other.reach_bytes):
        target.erase(written.address, size, other.steps)
    for item in moved:
        target.put(item)


def _run(source: Holding, start: int, stop: int, shift: int) -> list[Fragment]:
    """Unbroken bytes to unbroken bytes."""
    if source.whole is not None:
        size = source.item_bytes
        index, rest = divmod(start - source.origin, size)
        count, over = divmod(stop - start, size)
        if rest or over:
            return []
        axes = ((count, size, 1),) if count > 1 else ()
        return [Fragment(start + shift, stop + shift, size, source.whole, index, axes)]
    return [
        Fragment(
            item.start + shift,
            item.stop + shift,
            item.item_bytes,
            item.value,
            item.index,
            item.axes,
        )
        for held in source.between(start, stop)
        for item in clipped(held, start, stop)
    ]


def _scattered(source: Holding, read: Region, written: Region) -> list[Fragment]:
    """Regions with gaps, element by element."""
    size = read.dtype.size_bytes
    steps, targets = span_of(read).steps, span_of(written).steps
    if source.whole is not None:
        item = source.item_bytes
        index, rest = divmod(read.address - source.origin, item)
        if rest or item != size or any(by % item for _, by in steps):
            return []
        axes = normal(
            (count, to, by // item) for (count, by), (_, to) in zip(steps, targets, strict=True)
        )
        return [fragment(written.address, size, source.whole, index, axes)]
    moved = []
    try:
        for found in source.pieces(read.address, steps, size):
            begin = written.address + sum(
                at * to for at, (_, to) in zip(found.begins, targets, strict=True)
            )
            parts: list[Axis] = [
                (many, by * targets[axis][1], over) for axis, many, by, over in found.axes
            ]
            moved.append(fragment(begin, size, found.value, found.index, normal(parts)))
    except TooManyPiecesError:
        return []
    return moved
