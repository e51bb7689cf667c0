"""Residents: the dynamic program against all choices."""

from __future__ import annotations

from itertools import chain, combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from stages.compiler.memory import residency
from stages.compiler.memory.lifetimes import Storage
from stages.compiler.memory.residency import choose_residents

CAPACITY = 10


@st.composite
def problems(draw):
    """Storages over a few groups, and what each group costs with what resident."""
    count = draw(st.integers(1, 5))
    stores = []
    for number in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, count - 1))
        stop = draw(st.integers(start + 1, count))
        size = draw(st.integers(1, 8))
        stores.append(Storage(f"v{number}", size, start, stop, start, (), False))
    gains = {
        (item.root, group): draw(st.integers(0, 9))
        for item in stores
        for group in range(item.start, item.stop)
    }
    needs = [draw(st.integers(0, 6)) for _ in range(count)]
    return count, stores, gains, needs


def cost_of(gains, needs):
    def cost(number: int, resident: frozenset[str], room: int) -> int | None:
        if room < needs[number]:
            return None
        saved = sum(gains.get((root, number), 0) for root in resident)
        return 100 - saved - min(room, 8)

    return cost


def brute_force(count, stores, cost, taken) -> int | None:
    best = None
    subsets = chain.from_iterable(combinations(stores, n) for n in range(len(stores) + 1))
    for kept in subsets:
        total = 0
        for number in range(count):
            alive = [item for item in kept if item.start <= number < item.stop]
            names = {item.root for item in alive}
            room = CAPACITY - sum(
                item.size_bytes
                for item in alive
                if not (item.start == number and taken.get(item.root) in names)
            )
            cycles = None
            if room >= 0:
                cycles = cost(number, frozenset(item.root for item in alive), room)
            if cycles is None:
                break
            total += cycles
        else:
            best = total if best is None else min(best, total)
    return best


def places_taken(stores) -> dict[str, str]:
    """Each storage takes the place of one of its size that dies as it is made, where there is
    one."""
    taken: dict[str, str] = {}
    for item in stores:
        for other in stores:
            fits = other.size_bytes == item.size_bytes and other.root not in taken.values()
            if fits and other.start < item.start and other.stop == item.start + 1:
                taken[item.root] = other.root
                break
    return taken


@settings(max_examples=300)
@given(problems(), st.booleans())
def test_the_cheapest_residents_are_those_of_all_choices(problem, in_place: bool) -> None:
    count, stores, gains, needs = problem
    cost = cost_of(gains, needs)
    taken = places_taken(stores) if in_place else {}
    found = choose_residents(stores, count, CAPACITY, cost, taken)
    assert (found.cycles if found else None) == brute_force(count, stores, cost, taken)
    if found is not None:
        assert found.is_exact


def test_what_fills_the_memory_to_the_last_byte_stays() -> None:
    stores = [Storage("half", 5, 0, 2, 0, (), False), Storage("rest", 5, 1, 3, 1, (), False)]
    found = choose_residents(stores, 3, CAPACITY, lambda number, kept, room: 10 - len(kept), {})
    assert found is not None
    assert set(found.kept) == {"half", "rest"}
    assert found.cycles == 9 + 8 + 9


def test_a_beam_says_that_it_may_have_missed_something(monkeypatch) -> None:
    monkeypatch.setattr(residency, "WIDTH", 1)
    stores = [Storage(f"v{n}", 1, 0, 2, 0, (), False) for n in range(3)]
    found = choose_residents(stores, 2, CAPACITY, lambda number, kept, room: 10 - len(kept), {})
    assert found is not None
    assert not found.is_exact
    assert set(found.kept) == {"v0", "v1", "v2"}


def test_one_that_takes_anothers_place_needs_no_room_beside_it() -> None:
    stores = [Storage("old", 8, 0, 2, 0, (1,), False), Storage("new", 8, 1, 3, 1, (), False)]
    for taken, kept in (({}, 1), ({"new": "old"}, 2)):
        found = choose_residents(stores, 3, CAPACITY, lambda n, held, room: 10 - len(held), taken)
        assert found is not None
        assert len(found.kept) == kept
