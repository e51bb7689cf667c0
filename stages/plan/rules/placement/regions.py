"""Which part of which value a region of memory holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from stages.plan.instructions import Region
from stages.plan.rules.placement.holdings import Holding, TooManyPiecesError
from stages.plan.rules.placement.kernel_maps import Located
from stages.plan.rules.placement.lattice import Axes, Key, normal
from stages.plan.rules.placement.tile import MisplacedError, Starts
from stages.plan.rules.placement.views import Piece, Pieces, Views, atom
from stages.plan.syntax import print_name
from stages.recipe.decisions import Recipe
from stages.tensors import Layout, LayoutKind, Shape

Steps = tuple[tuple[int, int], ...]


def steps_of(region: Region) -> Steps:
    """How many, and bytes from one to the next, along each axis of a region in memory order."""
    return _steps(region.shape, region.layout, region.strides)


@lru_cache(maxsize=65536)
def _steps(shape: Shape, layout: Layout, strides: tuple[int, ...]) -> Steps:
    return tuple(zip(layout.physical_shape(shape), strides, strict=True))


@lru_cache(maxsize=65536)
def _expected(steps: Steps, widths: tuple[int, ...]) -> Axes:
    """Axes of a fragment, from steps in bytes and in elements."""
    return normal((count, by, over) for (count, by), over in zip(steps, widths, strict=True))


@lru_cache(maxsize=65536)
def _is_dense(steps: Steps, widths: tuple[int, ...], item_bytes: int) -> bool:
    """Whether elements lie as they do where the whole value is dense."""
    return all(
        count == 1 or by == over * item_bytes
        for (count, by), over in zip(steps, widths, strict=True)
    )


def memory_corner(layout: Layout, starts: Starts) -> tuple[int, ...] | None:
    """Where a tile begins along each axis in memory order; None where that isn't known."""
    if any(start is None for start in starts):
        return None
    known = tuple([start or 0 for start in starts])
    if layout.kind is LayoutKind.ROW_MAJOR:
        return known
    batch, channel, *spatial = known
    if layout.kind is LayoutKind.NHWC:
        return (batch, *spatial, channel)
    if channel % layout.quantum:
        raise MisplacedError(f"it begins at channel {channel}, within a block of {layout.quantum}")
    return (batch, channel // layout.quantum, *spatial, 0)


def _logical(layout: Layout, place: Starts) -> Starts:
    """The inverse of `memory_corner`, for what is known."""
    if layout.kind is LayoutKind.ROW_MAJOR:
        return place
    if layout.kind is LayoutKind.NHWC:
        return (place[0], place[-1], *place[1:-1])
    block, within = place[1], place[-1]
    if within:
        raise MisplacedError("it begins within a block of channels")
    return (place[0], None if block is None else block * layout.quantum, *place[2:-1])


@dataclass(slots=True)
class Reader:
    """Compares what regions hold with the values that they are read as."""

    recipe: Recipe
    views: Views
    atoms: dict[Key, Pieces] = field(default_factory=dict)

    def unknown(self, name: str) -> Located:
        """A tile of a value of which nothing else is known."""
        known = self.recipe.graph.types.get(name)
        full = known.shape if known else ()
        return Located(name, full, (None,) * len(full))

    def read(self, holding: Holding, region: Region, name: str) -> Located:
        """Which part of a value a region holds.

        Raises:
            MisplacedError: it doesn't hold one.
        """
        found = holding.at(region.address)
        if found is None:
            raise MisplacedError("nothing of a value is known to lie there")
        key, index = found
        begins: Sequence[int] = (0,) * len(region.strides)
        if key is None:
            known = _first_known(holding, region)
            if known is None:
                return self.unknown(name)
            key, index, begins = known
        full, pieces = self._seen(key, region, name)
        if pieces is None:
            return self.unknown(name)
        layout, extents = region.layout, region.physical_shape
        candidates = [piece for piece in pieces if piece.source == key]
        if not candidates:
            raise MisplacedError(f"it holds {_say(key)}")
        fitting = []
        for piece in candidates:
            place = piece.place(index)
            if place is None:
                continue
            place = tuple(
                [at if at is None else at - begin for at, begin in zip(place, begins, strict=True)]
            )
            corner = _fitted(place, extents, layout.physical_shape(full))
            if corner is not None and self._matches(holding, region, pieces, corner, extents):
                fitting.append(place)
                break
        if not fitting:
            raise MisplacedError(f"its elements aren't those of one box of {_say(key)}")
        if len(candidates) > 1:
            return self.unknown(name)
        starts = [
            0 if start is None and extent == whole else start
            for start, extent, whole in zip(
                fitting[0], extents, layout.physical_shape(full), strict=True
            )
        ]
        label: Key = name if isinstance(key, str) else key
        return Located(label, full, _logical(layout, tuple(starts)))

    def _seen(self, key: Key, region: Region, name: str) -> tuple[Shape, Pieces | None]:
        """The whole extents of what is read, and what it's made of."""
        types = self.recipe.graph.types
        if isinstance(key, str):
            if name not in types:
                raise MisplacedError(f"it holds {_say(key)}")
            if region.layout != self.recipe.layout(name):
                raise MisplacedError(
                    f"%{print_name(name)} lies in {self.recipe.layout(name)}, not {region.layout}"
                )
            return types[name].shape, self.views.of(name)
        maker = self.atoms.get(key)
        full = self._sum_shape(key[0])
        if name in types:
            raise MisplacedError(f"it holds {_say(key)}")
        if maker is None:
            maker = self.atoms[key] = atom(key, full, region.layout)
        return full, maker

    def _sum_shape(self, operator: str) -> Shape:
        whole = next(item for item in self.recipe.graph.operators if item.name == operator)
        return self.recipe.graph.types[whole.outputs[0]].shape

    def pieces_of(self, item: Located, layout: Layout) -> Pieces:
        """What a tile is made of; nothing where it isn't known where in the value it lies."""
        known = item.key
        if isinstance(known, str):
            pieces = self.views.of(known) if layout == self.recipe.layout(known) else None
        else:
            pieces = atom(known, item.full, layout)
        if pieces is None:
            return ()
        free = [axis for axis, start in enumerate(item.starts) if start is None]
        if not free:
            return pieces
        alone = len(pieces) == 1 and layout.kind is LayoutKind.ROW_MAJOR
        return pieces if alone and not any(pieces[0].steps[axis] for axis in free) else ()

    def _matches(
        self,
        holding: Holding,
        region: Region,
        pieces: Pieces,
        corner: Sequence[int],
        extents: Sequence[int],
    ) -> bool:
        steps = steps_of(region)
        box = tuple([(at, at + count) for at, count in zip(corner, extents, strict=True)])
        for piece in pieces:
            part = piece.cut(box)
            if part is None:
                continue
            address = region.address + sum(
                (low - at) * by
                for (low, _), at, (_, by) in zip(part.box, corner, steps, strict=True)
            )
            counted = tuple(
                [(high - low, by) for (low, high), (_, by) in zip(part.box, steps, strict=True)]
            )
            if not _holds(holding, address, counted, part, region.dtype.size_bytes):
                return False
        return True


def _fitted(place: Starts, extents: Sequence[int], whole: Sequence[int]) -> tuple[int, ...] | None:
    """A corner from which a region doesn't reach beyond the value; 0 stands for an axis along which
    all elements are one."""
    corner = tuple([start or 0 for start in place])
    inside = all(
        at >= 0 and at + count <= full
        for at, count, full in zip(corner, extents, whole, strict=True)
    )
    return corner if inside else None


def _first_known(holding: Holding, region: Region) -> tuple[Key, int, Sequence[int]] | None:
    """The first element of a region of which something is known, and where in the region."""
    try:
        for found in holding.pieces(region.address, steps_of(region)):
            if found.value is not None:
                return found.value, found.index, found.begins
    except TooManyPiecesError:
        pass
    return None


def _holds(holding: Holding, address: int, steps: Steps, part: Piece, item_bytes: int) -> bool:
    """Whether a region holds just these elements of a source, in their order."""
    if holding.whole is not None:
        return (
            holding.whole == part.source
            and holding.item_bytes == item_bytes
            and holding.origin + part.index * item_bytes == address
            and _is_dense(steps, part.steps, item_bytes)
        )
    wanted = _expected(steps, part.steps)
    total = 1
    for count, _ in steps:
        total *= count
    for held in holding.between(address, address + 1):
        if held.start == address and held.axes == wanted:
            return held.value is None or (held.value, held.index) == (part.source, part.index)
    try:
        return sum(_agreeing(holding, address, steps, part)) == total
    except TooManyPiecesError:
        return True


def _agreeing(holding: Holding, address: int, steps: Steps, part: Piece) -> Iterator[int]:
    """How many elements of each fragment are those that are wanted."""
    for found in holding.pieces(address, steps):
        index = part.index + sum(
            begin * over for begin, over in zip(found.begins, part.steps, strict=True)
        )
        count = 1
        agrees = found.value is None or (found.value, found.index) == (part.source, index)
        for axis, many, by, over in found.axes:
            count *= many
            agrees = agrees and (found.value is None or over == by * part.steps[axis])
        if agrees:
            yield count


def _say(key: Key) -> str:
    if isinstance(key, str):
        return f"%{print_name(key)}"
    return f"[{key[1]}, {key[2]}) of {key[3]} of the sum of {key[0]}"
