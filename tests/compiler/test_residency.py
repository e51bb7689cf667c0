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


def brute_force(count, stores, cost) -> int | None:
    best = None
    subsets = chain.from_iterable(combinations(stores, n) for n in range(len(stores) + 1))
    for kept in subsets:
        total = 0
        for number in range(count):
            alive = [item for item in kept if item.start <= number < item.stop]
            room = CAPACITY - sum(item.size_bytes for item in alive)
            cycles = None
            if room >= 0:
                cycles = cost(number, frozenset(item.root for item in alive), room)
            if cycles is None:
                break
            total += cycles
        else:
            best = total if best is None else min(best, total)
    return best


@settings(max_examples=200)
@given(problems())
def test_the_cheapest_residents_are_those_of_all_choices(problem) -> None:
    count, stores, gains, needs = problem
    cost = cost_of(gains, needs)
    found = choose_residents(stores, count, CAPACITY, cost)
    assert (found.cycles if found else None) == brute_force(count, stores, cost)
    if found is not None:
        assert found.is_exact


def test_what_fills_the_memory_to_the_last_byte_stays() -> None:
    stores = [Storage("half", 5, 0, 2, 0, (), False), Storage("rest", 5, 1, 3, 1, (), False)]
    found = choose_residents(stores, 3, CAPACITY, lambda number, kept, room: 10 - len(kept))
    assert found is not None
    assert set(found.kept) == {"half", "rest"}
    assert found.cycles == 9 + 8 + 9


def test_a_beam_says_that_it_may_have_missed_something(monkeypatch) -> None:
    monkeypatch.setattr(residency, "WIDTH", 1)
    stores = [Storage(f"v{n}", 1, 0, 2, 0, (), False) for n in range(3)]
    found = choose_residents(stores, 2, CAPACITY, lambda number, kept, room: 10 - len(kept))
    assert found is not None
    assert not found.is_exact
    assert set(found.kept) == {"v0", "v1", "v2"}
