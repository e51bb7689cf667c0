"""What a transfer takes along, against copying the elements one by one."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from stages.plan.instructions import SRAM, Region
from stages.plan.rules.placement.holdings import Holding
from stages.plan.rules.placement.lattice import fragment, normal
from stages.plan.rules.placement.transfers import copy
from stages.tensors import ROW_MAJOR, DType

COUNTS, STEPS = (3, 4, 2), (16, 4, 2)
AWAY = 1024


def region(address: int, order: tuple[int, ...], strides: tuple[int, ...]) -> Region:
    shape = tuple(COUNTS[axis] for axis in order)
    return Region(SRAM, address, DType.F16, shape, ROW_MAJOR, strides)


@given(
    st.permutations(range(3)), st.permutations(range(3)), st.sampled_from(((8, 2, 1), (24, 6, 3)))
)
def test_elements_lie_where_they_were_copied(
    read: list[int], written: list[int], elements: tuple[int, int, int]
) -> None:
    """Axes are gone through in one order where it's read and densely in another where it's put."""
    source, target = Holding(0), Holding(AWAY)
    axes = normal(zip(COUNTS, STEPS, elements, strict=True))
    source.put(fragment(0, 2, "v", 0, axes))
    order = tuple(read)
    by, dense = 2, [0, 0, 0]
    for axis in reversed(written):
        dense[axis] = by
        by *= COUNTS[axis]
    one = region(0, order, tuple(STEPS[axis] for axis in order))
    other = region(AWAY, order, tuple(dense[axis] for axis in order))
    copy(source, target, one, other)
    for place in product(*(range(count) for count in COUNTS)):
        address = AWAY + sum(at * step for at, step in zip(place, dense, strict=True))
        index = sum(at * few for at, few in zip(place, elements, strict=True))
        assert target.at(address) == ("v", index)
