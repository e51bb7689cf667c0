"""Which part of which value a region of memory holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stages.plan.instructions import Region
from stages.plan.rules.placement.forms import Form, Steps, form_of, logical_starts, memory_corner
from stages.plan.rules.placement.holdings import Holding, TooManyPiecesError
from stages.plan.rules.placement.kernel_maps import Located
from stages.plan.rules.placement.lattice import Fragment, Key, fragment, normal
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
        key, index = found
        begins: Sequence[int] = (0,) * len(region.strides)
        if key is None:
            known = _first_known(holding, self.form(region, name).span.steps, region.address)
            if known is None:
                return self.unknown(name)
            key, index, begins = known
        is_sum = not isinstance(key, str)
        if is_sum == (name in self.recipe.graph.types):
            raise MisplacedError(f"it holds {_say(key)}")
        label: Key = key if is_sum else name
        form = self.form(region, label)
        if form.order and not any(begins) and _is_one(holding, region, form, key, index):
            place: Starts | None = form.place(index)
            if place is None:
                raise MisplacedError(f"its elements aren't those of one box of {_say(key)}")
        else:
            place = _searched(holding, region, form, key, index, begins)
        if place is None:
            return self.unknown(name)
        return Located(label, form.full, logical_starts(form.layout, place))

    def fragments(self, region: Region, item: Located) -> list[Fragment]:
        """What a region holds into which a tile is put; nothing where its place isn't known.

        Raises:
            MisplacedError: the value lies in another layout, or the tile within a block.
        """
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


def _is_one(holding: Holding, region: Region, form: Form, key: Key, index: int) -> bool:
    """Whether a region lies in one fragment, or in a buffer that is all of one value, just as
    elements lie there; where not, that isn't known yet."""
    if form.alone.source != key:
        return False
    if holding.whole is not None:
        return form.is_dense and holding.item_bytes == region.dtype.size_bytes
    for held in holding.between(region.address, region.address + 1):
        if held.start == region.address and held.axes == form.axes:
            return held.value == key and held.index == index
    return False


def _searched(
    holding: Holding, region: Region, form: Form, key: Key, index: int, begins: Sequence[int]
) -> Starts | None:
    """Where a region's tile begins, whatever pieces it's made of; None where it may begin at more
    than one place, or where what the value is made of isn't known.

    Raises:
        MisplacedError: it holds another value, or not one box of it.
    """
    if form.pieces is None:
        return None
    candidates = [piece for piece in form.pieces if piece.source == key]
    if not candidates:
        raise MisplacedError(f"it holds {_say(key)}")
    fitting: list[Starts] = []
    for piece in candidates:
        place = piece.place(index)
        if place is None:
            continue
        moved = [at if at is None else at - begin for at, begin in zip(place, begins, strict=True)]
        corner = [at or 0 for at in moved]
        if _matches(holding, region, form, corner):
            fitting.append(
                tuple(
                    [
                        0 if at is None and count == whole else at
                        for at, (count, _), whole in zip(
                            moved, form.span.steps, form.whole, strict=True
                        )
                    ]
                )
            )
    if not fitting:
        raise MisplacedError(f"its elements aren't those of one box of {_say(key)}")
    return fitting[0] if len(fitting) == 1 else None


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


def _first_known(
    holding: Holding, steps: Steps, address: int
) -> tuple[Key, int, Sequence[int]] | None:
    """The first element of a region of which something is known, and where in the region."""
    try:
        for found in holding.pieces(address, steps):
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
