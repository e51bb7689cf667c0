"""Link by link: each group of a recipe alone, on the reference's own values.

End to end, one rounding flip in an early layer can grow until nothing is left to compare. A group
that starts from the reference's values has nothing to grow from: what it gets wrong is its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from stages.evaluation.accuracy import compare_floats
from stages.evaluation.whole_groups import WholeGroup
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.semantics import rounded
from stages.tensors import Array, TensorType

FLIPS_ALLOWED = 0.01
"""Share of an integer result that may be off by one step, whatever the SQNR then is: a result of
few steps has so little signal that a single flip costs it 30 dB."""


@dataclass(frozen=True, slots=True)
class Link:
    """How one result of one group compares with the reference's.

    `carried`: groups before it whose own results the model doesn't hold (copies into another
    layout, say), judged with this one. `sqnr_db` is infinite where all is equal; `steps_off` and
    `flipped_share` are the largest difference and the share of elements that differ, for integers.
    """

    group: str
    value: str
    carried: tuple[str, ...]
    sqnr_db: float
    steps_off: int | None = None
    flipped_share: float | None = None

    def holds(self, min_sqnr_db: float) -> bool:
        """Whether it is right: quiet enough, or nothing but rare rounding flips."""
        if self.sqnr_db >= min_sqnr_db:
            return True
        if self.steps_off is None or self.flipped_share is None:
            return False
        return self.steps_off <= 1 and self.flipped_share <= FLIPS_ALLOWED


@dataclass(frozen=True, slots=True)
class Links:
    """Every link of a recipe.

    `by_runtime`: groups that ONNX Runtime itself runs, so that there is nothing to compare.
    `unchecked`: the others that no link judges, because no value that they lead to is the model's.
    """

    links: tuple[Link, ...]
    by_runtime: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def checked_groups(self) -> int:
        """Groups that a link judges."""
        return len({name for link in self.links for name in (link.group, *link.carried)})

    def worst(self, min_sqnr_db: float) -> Link | None:
        """The link that is furthest from right: one that doesn't hold before those that do."""
        return min(
            self.links, key=lambda link: (link.holds(min_sqnr_db), link.sqnr_db), default=None
        )

    def broken(self, min_sqnr_db: float) -> tuple[Link, ...]:
        """The links that don't hold, in execution order."""
        return tuple(link for link in self.links if not link.holds(min_sqnr_db))


def compare_links(
    groups: Sequence[WholeGroup], constants: Mapping[str, Array], reference: Mapping[str, Array]
) -> Links:
    """Run every group on the reference's values, and compare what it makes with the reference's.

    `reference` holds the model's inputs and whatever ONNX Runtime shows, by name. A value that it
    doesn't hold is what the group before makes of the reference's values. Nodes that ONNX Runtime
    runs for the recipe too run only where such a value is theirs.

    Raises:
        DeviceError: a node fails on the host.
    """
    known = _Known(groups, constants, reference)
    links: list[Link] = []
    pending: dict[str, tuple[str, ...]] = {}
    for group in groups:
        if _is_runtime(group) and all(known.holds(name) for name in group.results):
            continue
        made = group.run(known.operands(group))
        carried = tuple(
            dict.fromkeys(name for value in group.operands for name in pending.get(value, ()))
        )
        for value, array in made.items():
            if known.holds(value):
                links.append(_link(group, value, carried, array, reference[value], constants))
            else:
                known.carry(value, array)
                pending[value] = (*carried, group.name)
    judged = {name for link in links for name in (link.group, *link.carried)}
    left = [group for group in groups if group.name not in judged]
    return Links(
        tuple(links),
        tuple(group.name for group in left if _is_runtime(group)),
        tuple(group.name for group in left if not _is_runtime(group)),
    )


class _Known:
    """The values that groups read: the reference's, or else what was made of them."""

    def __init__(
        self,
        groups: Sequence[WholeGroup],
        constants: Mapping[str, Array],
        reference: Mapping[str, Array],
    ) -> None:
        types = {
            name: type_
            for group in groups
            for name, type_ in zip(group.results, group.result_types, strict=True)
        }
        self._constants = constants
        self._reference = {
            name: array if name not in types else rounded(array, types[name])
            for name, array in reference.items()
            if name not in types or _same_kind(array, types[name])
        }
        self._made: dict[str, Array] = {}

    def holds(self, value: str) -> bool:
        """Whether the reference has this value."""
        return value in self._reference

    def carry(self, value: str, array: Array) -> None:
        """Keep a value that the reference hasn't."""
        self._made[value] = array

    def operands(self, group: WholeGroup) -> dict[str, Array]:
        """What a group reads."""
        return {name: self._value(name) for name in group.operands}

    def _value(self, name: str) -> Array:
        for source in (self._constants, self._reference):
            if name in source:
                return source[name]
        return self._made[name]


def _same_kind(array: Array, type_: TensorType) -> bool:
    if array.shape != type_.shape:
        return False
    is_float = array.dtype.kind not in "iub"
    return is_float == type_.dtype.is_float and (is_float or array.dtype == type_.dtype.numpy)


def _link(
    group: WholeGroup,
    value: str,
    carried: tuple[str, ...],
    actual: Array,
    expected: Array,
    constants: Mapping[str, Array],
) -> Link:
    if actual.dtype.kind not in "iu":
        accuracy = compare_floats(actual, expected)
        sqnr = -inf if accuracy.special_mismatches else accuracy.sqnr_db
        return Link(group.name, value, carried, sqnr)
    if np.array_equal(actual, expected):
        return Link(group.name, value, carried, inf, 0, 0.0)
    off = np.abs(actual.astype(np.int64) - expected.astype(np.int64))
    maker = group.maker(value)
    meant = compare_floats(_meant(actual, maker, constants), _meant(expected, maker, constants))
    return Link(
        group=group.name,
        value=value,
        carried=carried,
        sqnr_db=meant.sqnr_db,
        steps_off=int(off.max()),
        flipped_share=np.count_nonzero(off) / off.size,
    )


def _meant(steps: Array, maker: Operator, constants: Mapping[str, Array]) -> Array:
    """What integers stand for: the zero point is no signal."""
    if maker.kind is not Kind.QUANTIZE or any(name not in constants for name in maker.inputs[1:]):
        return steps
    centred = steps.astype(np.float64)
    rank, axis = steps.ndim, maker.integer("axis")
    if len(maker.inputs) > 2:
        centred = centred - _along(constants[maker.inputs[2]], axis, rank)
    return np.asarray(centred * _along(constants[maker.inputs[1]], axis, rank))


def _along(vector: Array, axis: int, rank: int) -> np.ndarray:
    wide = vector.astype(np.float64)
    if axis < 0 or wide.size == 1:
        return wide.reshape(())
    shape = [1] * rank
    shape[axis] = wide.size
    return wide.reshape(shape)


def _is_runtime(group: WholeGroup) -> bool:
    return any(operator.kind is Kind.HOST_CALL for operator in group.operators)
