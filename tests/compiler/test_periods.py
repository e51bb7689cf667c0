"""The stretch of a sequence that repeats, against a search by brute force."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stages.compiler.periods import Period, longest_period


def every_period(items: list[int]) -> list[Period]:
    """All stretches that hold two or more whole periods and can't be made longer."""
    count = len(items)
    return [
        Period(start, stop, length)
        for start in range(count)
        for stop in range(start + 2, count + 1)
        for length in range(1, (stop - start) // 2 + 1)
        if all(items[at] == items[at + length] for at in range(start, stop - length))
    ]


@settings(max_examples=300)
@given(st.lists(st.integers(0, 2), max_size=14))
def test_the_longest_period_covers_as_much_as_any(items: list[int]) -> None:
    found = longest_period(items)
    every = every_period(items)
    if not every:
        assert found is None
        return
    assert found in every
    widest = max(item.stop - item.start for item in every)
    assert found.stop - found.start == widest
    alike = [item for item in every if item.stop - item.start == widest]
    assert found.length == min(item.length for item in alike)


def test_layers_between_a_stem_and_a_head() -> None:
    layer = ["norm", "qkv", "softmax", "mlp"]
    assert longest_period(["stem", *layer * 3, "norm", "head"]) == Period(1, 14, 4)
    assert longest_period(["stem", "norm", "head"]) is None
    assert longest_period([]) is None
