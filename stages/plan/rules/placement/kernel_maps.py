"""Where the results of a kernel lie, by where its parameters do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice, product

from stages.plan.instructions import Kernel
from stages.plan.rules.placement.index_maps import mapped
from stages.plan.rules.placement.lattice import Key
from stages.plan.rules.placement.tile import MisplacedError, Side, Starts, Tile
from stages.recipe.graph import Graph, Operator
from stages.tensors import Shape

_MOST_MEANINGS = 64
"""Ways to read the operands of one kernel, where elements of values are equal, that are tried."""


@dataclass(frozen=True, slots=True)
class Located:
    """A tile of a value: which, how large the whole is, and where the tile begins. `key` of a sum
    that isn't complete names the operator, and what it has summed up. `others` are the places of
    tiles with the same elements: any of them may be meant."""

    key: Key
    full: Shape
    starts: Starts
    others: tuple[Starts, ...] = ()

    def alternatives(self) -> list[Located]:
        """The tile in each of its places."""
        places = [self.starts, *self.others]
        return [Located(self.key, self.full, place) for place in places]


@dataclass(slots=True)
class KernelMaps:
    """The operators of each kernel, beside those of the recipe."""

    graph: Graph
    operators: Mapping[str, Operator] = field(init=False)
    tiles: dict[int, list[Tile | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.operators = {operator.name: operator for operator in self.graph.operators}

    def results(
        self, number: int, kernel: Kernel, parameters: Mapping[str, Located]
    ) -> dict[str, Located]:
        """Where each value that a kernel of this number makes lies.

        Raises:
            MisplacedError: its parameters aren't the parts that belong together.
        """
        if not any(item.others for item in parameters.values()):
            return self._results(number, kernel, parameters)
        found: list[dict[str, Located]] = []
        fault: MisplacedError | None = None
        names = list(parameters)
        meant = product(*(parameters[name].alternatives() for name in names))
        for items in islice(meant, _MOST_MEANINGS):
            try:
                made = self._results(number, kernel, dict(zip(names, items, strict=True)))
            except MisplacedError as one:
                fault = one
            else:
                found.append(made)
        if not found and fault is not None:
            raise fault
        return {name: _together([made[name] for made in found]) for name in kernel.results}

    def _results(
        self, number: int, kernel: Kernel, parameters: Mapping[str, Located]
    ) -> dict[str, Located]:
        known = dict(parameters)
        tiles = self.tiles.get(number)
        if tiles is None:
            tiles = self.tiles[number] = [self._tile(kernel, op) for op in kernel.operators]
        for operator, tile in zip(kernel.operators, tiles, strict=True):
            try:
                if tile is None:
                    made = [self._joined(kernel, operator, known)]
                else:
                    made = self._made(operator, tile, known)
            except MisplacedError as fault:
                raise MisplacedError(f"{operator.kind} {operator.name}: {fault}") from fault
            for name, item in zip(operator.outputs, made, strict=True):
                if name:
                    known[name] = _settled(item, kernel.types[name].shape)
        return known

    def _tile(self, kernel: Kernel, operator: Operator) -> Tile | None:
        """An operator and the recipe's of its name; None for one that joins parts of a sum."""
        whole = self.operators.get(operator.name)
        if whole is None:
            return None
        types, full = kernel.types, self.graph.types
        operands = tuple(
            [Side(types[name].shape, full[name].shape) if name else None for name in
             operator.inputs]
        )  # fmt: skip
        results = tuple(
            [
                Side(types[name].shape, full[other].shape)
                for name, other in zip(operator.outputs, whole.outputs, strict=True)
                if name
            ]
        )
        return Tile(operator, whole, operands, results)

    def _made(self, operator: Operator, tile: Tile, known: Mapping[str, Located]) -> list[Located]:
        starts = [known[name].starts if name else () for name in operator.inputs]
        places, summed = mapped(tile, starts)
        names = [name for name in tile.whole.outputs if name]
        found = []
        for name, side, place in zip(names, tile.results, places, strict=True):
            key: Key = name
            if operator.outputs != tile.whole.outputs and summed is not None:
                key = (operator.name, summed.start, summed.stop, summed.extent)
            elif summed is not None and (summed.start, summed.stop) != (0, summed.extent):
                raise MisplacedError(
                    f"only [{summed.start}, {summed.stop}) of {summed.extent} is summed up"
                )
            found.append(Located(key, side.full, place))
        return found

    def _joined(self, kernel: Kernel, operator: Operator, known: Mapping[str, Located]) -> Located:
        """Two parts of a sum as one: they're of the same tile, and lie beside each other."""
        parts = [known[name] for name in operator.inputs]
        keys = [part.key for part in parts if not isinstance(part.key, str)]
        (name,) = operator.outputs
        if any(part.key not in self.graph.types for part in parts if isinstance(part.key, str)):
            # a sum of which nothing is known but that it is one
            full = max((part.full for part in parts), key=len)
            return Located(name, full, (None,) * len(full))
        if len(parts) != 2 or len(keys) != 2:
            raise MisplacedError("it joins what aren't parts of a sum")
        (maker, start, stop, extent), (other, begin, end, _) = keys
        if maker != other or (stop != begin and end != start):
            raise MisplacedError(
                f"it joins [{start}, {stop}) of {maker} with [{begin}, {end}) of {other}"
            )
        if parts[0].starts != parts[1].starts:
            raise MisplacedError("it joins parts of the sums of two tiles")
        low, high = min(start, begin), max(stop, end)
        whole = self.operators[maker]
        if name not in self.graph.types:
            return Located((maker, low, high, extent), parts[0].full, parts[0].starts)
        if (low, high) != (0, extent) or name != whole.outputs[0]:
            raise MisplacedError(f"only [{low}, {high}) of {extent} is summed up")
        return Located(name, parts[0].full, parts[0].starts)


def _together(items: list[Located]) -> Located:
    """One tile, with all of the places that it may have."""
    first = items[0]
    places = dict.fromkeys(item.starts for item in items if item.key == first.key)
    return Located(first.key, first.full, first.starts, tuple(places)[1:])


def _settled(item: Located, shape: Shape) -> Located:
    """Where all of an axis is in the tile, it begins at its start; no tile reaches beyond."""
    if item.starts == (0,) * len(shape) and shape == item.full:
        return item
    starts: list[int | None] = []
    for start, extent, full in zip(item.starts, shape, item.full, strict=True):
        if extent == full and not start:
            start = 0
        if start is not None and (start < 0 or start + extent > full):
            raise MisplacedError(f"it makes [{start}, {start + extent}) of {full}")
        starts.append(start)
    return Located(item.key, item.full, tuple(starts))
