"""The search for what stays in float, on made-up noise that adds up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import inf, log10

from hypothesis import given
from hypothesis import strategies as st

from stages.quantizer.closeness import Closeness
from stages.quantizer.search import Found, Judge, Kept, fewest_in_float

noises = st.lists(st.integers(0, 1000), min_size=1, max_size=9)


def closeness_of(noise: float) -> Closeness:
    return Closeness(sqnr_db=inf if noise == 0 else -10 * log10(noise))


def judge_of(
    measure: Callable[[Kept], Closeness], rank: Callable[[Kept], Closeness], limit: float
) -> Judge:
    def attempt(kept: Kept) -> Closeness | None:
        found = measure(kept)
        return found if found.sqnr_db >= limit else None

    return Judge(measure, attempt, rank, lambda found: found.sqnr_db >= limit)


def search(noise: dict[str, int], floor: int, allowed: int) -> tuple[Found, list[Kept]]:
    """Operators that each add `noise` in int8, over a `floor` that float adds by itself."""
    tried: list[Kept] = []

    def judge(kept: Kept) -> Closeness:
        tried.append(kept)
        return closeness_of(floor + sum(size for name, size in noise.items() if name not in kept))

    limit = closeness_of(allowed).sqnr_db
    return fewest_in_float(tuple(noise), judge_of(judge, judge, limit)), tried


@given(noises, st.integers(0, 3000))
def test_it_is_as_few_as_any_subset_where_noise_adds_up(sizes: list[int], allowed: int) -> None:
    noise = {f"op{place}": size for place, size in enumerate(sizes)}
    found, tried = search(noise, 0, allowed)
    assert found.trials == len(tried)
    assert found.kept is not None
    kept = set(found.kept)
    assert sum(size for name, size in noise.items() if name not in kept) <= allowed
    least = next(
        count
        for count in range(len(noise) + 1)
        for chosen in combinations(noise, count)
        if sum(size for name, size in noise.items() if name not in chosen) <= allowed
    )
    assert len(kept) == least


def test_nothing_is_ranked_where_int8_is_enough() -> None:
    found, tried = search({"a": 1, "b": 1}, 0, 5)
    assert found.kept == ()
    assert tried == [frozenset()]


def test_nothing_is_ranked_where_float_isnt_enough() -> None:
    found, tried = search({"a": 1, "b": 1}, 10, 5)
    assert found.kept is None
    assert found.reached == closeness_of(10)
    assert found.in_int8 == closeness_of(12)
    assert len(tried) == 2


def test_the_worst_alone_is_ranked_first() -> None:
    found, _ = search({"a": 3, "b": 100, "c": 20, "d": 1}, 0, 5)
    assert [name for name, _ in found.alone] == ["b", "c", "a", "d"]
    assert found.kept == ("b", "c")


def test_what_turns_out_needless_goes_back() -> None:
    """Alone `a` hurts most, but beside `b` it doesn't matter."""

    def judge(kept: Kept) -> Closeness:
        return closeness_of((0 if "b" in kept else 100) + (0 if {"a", "b"} & kept else 50))

    def rank(kept: Kept) -> Closeness:
        return closeness_of({"a": 60, "b": 40}.get(next(iter({"a", "b"} - kept), ""), 0))

    found = fewest_in_float(("a", "b"), judge_of(judge, rank, -10))
    assert found.kept == ("b",)


def test_drops_are_bounded() -> None:
    noise = {f"op{place}": 10 for place in range(200)}
    found, tried = search(noise, 0, 5)
    assert found.kept is not None
    assert len(found.kept) == 200
    assert len(tried) <= 2 + 201 + 8 + 8 + 32


def test_no_more_than_the_shortest_beginning_of_many_is_kept() -> None:
    """Among more than dropping alone could come to the end of."""
    noise = {f"op{place}": 1 if place % 3 else 10 for place in range(195)}
    found, _ = search(noise, 0, 130)
    assert found.kept is not None
    assert set(found.kept) == {name for name, size in noise.items() if size == 10}


def test_few_are_tried_first() -> None:
    """More in float may be worse, by luck; a few that do are found all the same."""
    few = ["a", "b", "c"]

    def judge(kept: Kept) -> Closeness:
        return closeness_of(0.1 if set(few) <= kept and (len(kept) < 5 or len(kept) > 60) else 100)

    def rank(kept: Kept) -> Closeness:
        return closeness_of(9 if not set(few) <= kept else 1)

    others = [f"op{place}" for place in range(60)]
    found = fewest_in_float([*others, *few], judge_of(judge, rank, 0))
    assert found.kept is not None
    assert set(found.kept) == set(few)
