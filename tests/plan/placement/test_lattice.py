"""Fragments against their elements, one by one."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from stages.plan.rules.placement.holdings import Holding, TooManyPiecesError
from stages.plan.rules.placement.lattice import Fragment, clipped, fragment, locate, merged, normal

ITEM = 2
Elements = dict[int, int]


def elements(held: Fragment) -> Elements:
    """The element of the value at each address."""
    return {
        held.start + sum(at * axis[1] for at, axis in zip(place, held.axes, strict=True)): (
            held.index + sum(at * axis[2] for at, axis in zip(place, held.axes, strict=True))
        )
        for place in product(*(range(count) for count, _, _ in held.axes))
    }


@st.composite
def boxes(draw: st.DrawFn, value: str = "v", base: int = 0) -> Fragment:
    """A box of a value that lies within a buffer of 4 x 4 x 6 elements; the value is larger."""
    counts, axes, start, index = (4, 4, 6), [], base, 0
    widths, elements_of = (48, 12, 2), (draw(st.sampled_from((24, 40, 60))), 6, 1)
    for count, width, few in zip(counts, widths, elements_of, strict=True):
        low = draw(st.integers(0, count - 1))
        axes.append((draw(st.integers(1, count - low)), width, few))
        start += low * width
        index += low * few
    return fragment(start, ITEM, value, index, normal(axes))


@given(boxes(), st.integers(0, 200), st.integers(0, 200))
def test_a_clipped_fragment_has_what_lies_inside(held: Fragment, low: int, high: int) -> None:
    found: Elements = {}
    for part in clipped(held, low, high):
        assert not found.keys() & elements(part).keys()
        found |= elements(part)
    wanted = {at: of for at, of in elements(held).items() if low <= at and at + ITEM <= high}
    assert found == wanted


@given(boxes(), boxes())
def test_merged_fragments_have_the_elements_of_both(one: Fragment, other: Fragment) -> None:
    together = merged(one, other)
    if together is not None:
        assert elements(together) == elements(one) | elements(other)


@given(boxes(), boxes())
def test_what_is_located_is_there(held: Fragment, region: Fragment) -> None:
    steps = [(count, step) for count, step, _ in region.axes]
    found = locate(held, region.start, steps)
    known = elements(held)
    if found is None:
        return
    index, along = found
    for place in product(*(range(count) for count, _ in steps)):
        address = region.start + sum(at * step for at, (_, step) in zip(place, steps, strict=True))
        expected = index
        for at, parts in zip(place, along, strict=True):
            for count, by, over in parts:
                expected += at // by % count * over
        assert known[address] == expected


@given(st.lists(boxes(), min_size=1, max_size=6), boxes())
def test_a_holding_knows_what_was_put_last(put: list[Fragment], region: Fragment) -> None:
    """What is known is right; all is known of boxes of one grid."""
    holding = Holding(0)
    memory: Elements = {}
    for number, item in enumerate(put):
        named = fragment(item.start, ITEM, f"v{number % 2}", item.index, item.axes)
        holding.put(named)
        memory |= {at: (number % 2) * 1000 + of for at, of in elements(named).items()}
    steps = [(count, step) for count, step, _ in region.axes]
    asked = elements(region).keys()
    if holding.whole is not None:
        assert asked & memory.keys() == {at for at in asked & memory.keys() if holding.at(at)}
        for address in asked & memory.keys():
            at = holding.at(address)
            assert at is not None
            assert at == (f"v{memory[address] // 1000}", memory[address] % 1000)
        return
    known: Elements = {}
    try:
        for found in holding.pieces(region.start, steps, ITEM):
            known |= pieced(region, found.begins, found.value, found.index, found.axes)
    except TooManyPiecesError:
        return
    assert known == {at: memory[at] for at in asked if at in memory}


def pieced(region: Fragment, begins, value, index, axes) -> Elements:  # type: ignore[no-untyped-def]
    """The elements of a piece of a region, by address."""
    found = {}
    for place in product(*(range(count) for _, count, _, _ in axes)):
        address, of = region.start, index
        for begin, (_, step, _) in zip(begins, region.axes, strict=True):
            address += begin * step
        for at, (axis, _, by, over) in zip(place, axes, strict=True):
            address += at * by * region.axes[axis][1]
            of += at * over
        found[address] = int(value[1:]) * 1000 + of
    return found
