"""Which part of which value a region of memory holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from stages.plan.instructions import Region
from stages.plan.rules.placement.forms import (
    Form,
    Steps,
    form_of,
    logical_starts,
    memory_corner,
    span_of,
)
from stages.plan.rules.placement.holdings import Holding, TooManyPiecesError
from stages.plan.rules.placement.kernel_maps import Located
from stages.plan.rules.placement.lattice import (
    Fragment,
    Key,
    Label,
    Several,
    choices,
    fragment,
    normal,
)
from stages.plan.rules.placement.tile import MisplacedError, Starts
from stages.plan.rules.placement.views import Piece, Views, atom
from stages.plan.syntax import print_name
from stages.recipe.decisions import Recipe
from stages.tensors import Shape

FormKey = tuple[Key, Shape, str, int, tuple[int, ...], int]


@dataclass(slots=True)
class Reader:
    """Compares what regions hold with the values that they are read as."""

    recipe: Recipe
    views: Views
    forms: dict[FormKey, Form] = field(default_factory=dict)
    sums: dict[str, Shape] = field(init=False)

    def __post_init__(self) -> None:
        graph = self.recipe.graph
        self.sums = {
            operator.name: graph.types[operator.outputs[0]].shape
            for operator in graph.operators
            if operator.outputs and operator.outputs[0]
        }

    def unknown(self, name: str) -> Located:
        """A tile of a value of which nothing else is known."""
        known = self.recipe.graph.types.get(name)
        full = known.shape if known else ()
        return Located(name, full, (None,) * len(full))

    def form(self, region: Region, key: Key) -> Form:
        """A region's form as a tile of a value or of a sum.

        Raises:
            MisplacedError: the value lies in another layout.
        """
        layout = region.layout
        item = region.dtype.size_bytes
        known = (key, region.shape, layout.kind.value, layout.quantum, region.strides, item)
        found = self.forms.get(known)
        if found is None:
            found = self.forms[known] = self._new_form(region, key)
        return found

    def _new_form(self, region: Region, key: Key) -> Form:
        if not isinstance(key, str):
            full = self.sums[key[0]]
            return form_of(region, full, atom(key, full, region.layout))
        full, layout = self.recipe.graph.types[key].shape, self.recipe.layout(key)
        if region.layout != layout:
            raise MisplacedError(f"%{print_name(key)} lies in {layout}, not {region.layout}")
        return form_of(region, full, self.views.of(key))

    def read(self, holding: Holding, region: Region, name: str) -> Located:
        """Which part of a value a region holds.

        Raises:
            MisplacedError: it doesn't hold one.
        """
        found = holding.at(region.address)
        if found is None:
            raise MisplacedError("nothing of a value is known to lie there")
        label, index = found
        begins: Sequence[int] = (0,) * len(region.strides)
        if label is None:
            known = _first_known(holding, region)
            if known is None:
                return self.unknown(name)
            label, index, begins = known
        meant = choices(label, index)
        key = meant[0][0]
        is_sum = not isinstance(key, str)
        if is_sum == (name in self.recipe.graph.types):
            raise MisplacedError(f"it holds {_say(key)}")
        seen: Key = key if is_sum else name
        form = self.form(region, seen)
        if form.pieces is None:
            return self.unknown(name)
        if form.order and not any(begins) and _is_one(holding, region, form, label, index):
            place = form.place(index)
            places: list[Starts] = [] if place is None else [place]
        else:
            places = _searched(holding, region, form, meant, begins)
        if not places:
            raise MisplacedError(f"its elements aren't those of one box of {_say(key)}")
        starts = [logical_starts(form.layout, place) for place in places]
        return Located(seen, form.full, starts[0], tuple(starts[1:]))

    def fragments(self, region: Region, item: Located) -> list[Fragment]:
        """What a region holds into which a tile is put; nothing where its place isn't known.

        Raises:
            MisplacedError: the value lies in another layout, or the tile within a block.
        """
        if isinstance(item.key, str) and item.key not in self.recipe.graph.types:
            return []
        form = self.form(region, item.key)
        size, steps = region.dtype.size_bytes, form.span.steps
        corner = memory_corner(form.layout, item.starts)
        if form.pieces is None:
            return []
        if corner is None:
            free = [axis for axis, start in enumerate(item.starts) if start is None]
            alone = len(form.pieces) == 1 and form.layout.physical_shape(form.full) == form.full
            if not alone or any(form.alone.steps[axis] for axis in free):
                return []
            # along these axes all elements are one
            corner = tuple([start or 0 for start in item.starts])
        if item.others:
            return self._equal_ones(region, item, form)
        if len(form.pieces) == 1:
            piece = form.alone
            index = piece.index + sum(
                [
                    (at - box[0]) * by
                    for at, box, by in zip(corner, piece.box, piece.steps, strict=True)
                ]
            )
            start = region.address
            stop = start + form.span.reach_bytes
            return [Fragment(start, stop, size, piece.source, index, form.axes)]
        box = tuple([(at, at + count) for at, (count, _) in zip(corner, steps, strict=True)])
        return [
            fragment(
                region.address + _offset(part, corner, steps),
                size,
                part.source,
                part.index,
                normal(
                    (high - low, by, over)
                    for (low, high), (_, by), over in zip(part.box, steps, part.steps, strict=True)
                ),
            )
            for piece in form.pieces
            if (part := piece.cut(box)) is not None
        ]

    def _equal_ones(self, region: Region, item: Located, form: Form) -> list[Fragment]:
        """A tile that may as well be in other places."""
        assert form.pieces is not None
        found = [
            self.fragments(region, Located(item.key, item.full, place))
            for place in (item.starts, *item.others)
        ]
        if len(form.pieces) != 1 or any(len(made) != 1 for made in found):
            return []
        (first,), *others = found
        shifts = tuple([other.index - first.index for (other,) in others])
        return [replace(first, value=Several(form.alone.source, shifts))]


def _is_one(holding: Holding, region: Region, form: Form, key: Label, index: int) -> bool:
    """Whether a region lies in one fragment, or in a buffer that is all of one value, just as
    elements lie there; where not, that isn't known yet."""
    if form.alone.source != key:
        return False
    if holding.whole is not None:
        return form.is_dense and holding.item_bytes == region.dtype.size_bytes
    for held in holding.between(region.address, region.address + 1):
        if held.start == region.address and held.axes == form.axes:
            alike = held.item_bytes == region.dtype.size_bytes
            return alike and held.value == key and held.index == index
    return False


def _searched(
    holding: Holding,
    region: Region,
    form: Form,
    meant: Sequence[tuple[Key, int]],
    begins: Sequence[int],
) -> list[Starts]:
    """Where a region's tile begins, whatever pieces it's made of, if its element at `begins` is one
    of those that are meant; more than one place where elements of the value are equal.

    Raises:
        MisplacedError: it holds another value.
    """
    assert form.pieces is not None
    sources = {piece.source for piece in form.pieces}
    if not any(key in sources for key, _ in meant):
        raise MisplacedError(f"it holds {_say(meant[0][0])}")
    fitting: dict[Starts, None] = {}
    for piece, (key, index) in product(form.pieces, meant):
        place = piece.place(index) if piece.source == key else None
        if place is None:
            continue
        moved = [at if at is None else at - begin for at, begin in zip(place, begins, strict=True)]
        if _matches(holding, region, form, [at or 0 for at in moved]):
            starts = [
                0 if at is None and count == whole else at
                for at, (count, _), whole in zip(moved, form.span.steps, form.whole, strict=True)
            ]
            fitting[tuple(starts)] = None
    return list(fitting)


def _matches(holding: Holding, region: Region, form: Form, corner: Sequence[int]) -> bool:
    """Whether a region holds the tile of a value that begins there."""
    steps = form.span.steps
    box = tuple([(at, at + count) for at, (count, _) in zip(corner, steps, strict=True)])
    for (low, high), extent in zip(box, form.whole, strict=True):
        if low < 0 or high > extent:
            return False
    assert form.pieces is not None
    for piece in form.pieces:
        part = piece.cut(box)
        if part is None:
            continue
        address = region.address + _offset(part, corner, steps)
        counted = tuple(
            [(high - low, by) for (low, high), (_, by) in zip(part.box, steps, strict=True)]
        )
        if not _holds(holding, address, counted, part, region.dtype.size_bytes):
            return False
    return True


def _offset(part: Piece, corner: Sequence[int], steps: Steps) -> int:
    """Bytes from a tile's first element to that of a part of it."""
    return sum(
        (low - at) * by for (low, _), at, (_, by) in zip(part.box, corner, steps, strict=True)
    )


def _first_known(holding: Holding, region: Region) -> tuple[Label, int, Sequence[int]] | None:
    """The first element of a region of which something is known, and where in the region."""
    try:
        steps, item_bytes = span_of(region).steps, region.dtype.size_bytes
        for found in holding.pieces(region.address, steps, item_bytes):
            if found.value is not None:
                return found.value, found.index, found.begins
    except TooManyPiecesError:
        return None
    return None


def _holds(holding: Holding, address: int, steps: Steps, part: Piece, item_bytes: int) -> bool:
    """Whether a region holds just these elements of a source, in their order."""
    if holding.whole is not None:
        return (
            holding.whole == part.source
            and holding.item_bytes == item_bytes
            and holding.origin + part.index * item_bytes == address
            and all(
                count == 1 or by == over * item_bytes
                for (count, by), over in zip(steps, part.steps, strict=True)
            )
        )
    total = 1
    for count, _ in steps:
        total *= count
    try:
        return sum(_agreeing(holding, address, steps, part, item_bytes)) == total
    except TooManyPiecesError:
        return True


def _agreeing(
    holding: Holding, address: int, steps: Steps, part: Piece, item_bytes: int
) -> Iterator[int]:
    """How many elements of each fragment are those that are wanted."""
    for found in holding.pieces(address, steps, item_bytes):
        index = part.index + sum(
            begin * over for begin, over in zip(found.begins, part.steps, strict=True)
        )
        count = 1
        agrees = found.value is None or (part.source, index) in choices(found.value, found.index)
        for axis, many, by, over in found.axes:
            count *= many
            agrees = agrees and (found.value is None or over == by * part.steps[axis])
        if agrees:
            yield count


def _say(key: Key) -> str:
    if isinstance(key, str):
        return f"%{print_name(key)}"
    return f"[{key[1]}, {key[2]}) of {key[3]} of the sum of {key[0]}"
