"""Percentiles and the gate's rule, on integers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.evaluation.gate_rule import (
    Conditions,
    Figures,
    GateLimits,
    decide,
    differences_between,
)
from stages.evaluation.latency import LatencySummary, percentile, ratio_text, summarize
from stages.evaluation.verdict import Verdict


def test_percentiles_are_nearest_rank() -> None:
    # the textbook's example: 15, 20, 35, 40, 50
    values = [15, 20, 35, 40, 50]
    assert [percentile(values, percent) for percent in (5, 30, 40, 50, 100)] == [15, 20, 20, 35, 50]
    thousand = list(range(1, 1001))
    assert (percentile(thousand, 50), percentile(thousand, 99)) == (500, 990)
    assert percentile([7], 99) == 7


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=200), st.integers(1, 100))
def test_a_percentile_covers_its_share(values: list[int], percent: int) -> None:
    found = percentile(sorted(values), percent)
    covered = sum(1 for value in values if value <= found)
    below = sum(1 for value in values if value < found)
    assert covered * 100 >= percent * len(values) > below * 100


def test_a_summary_keeps_integers() -> None:
    summary = summarize([30, 10, 21])
    assert summary == LatencySummary(3, 10, 21, 30, 30, 30, 21)  # mean 61 / 3, rounded up
    assert summary.p99_over_p50 == Fraction(10, 7)
    assert ratio_text(summary.p99_over_p50) == "1.429"


@pytest.mark.parametrize("values", [[], [0], [5, -1]])
def test_latencies_must_be_positive(values: list[int]) -> None:
    with pytest.raises(ValueError, match="positive"):
        summarize(values)


CONDITIONS = Conditions("npu", "ab" * 32, 1000, 50, 0)


def figures(
    p99: int, p50: int | None = None, conditions: Conditions = CONDITIONS, fused_groups: int = 3
) -> Figures:
    middle = p50 if p50 is not None else p99
    latency = LatencySummary(1000, middle, middle, p99, p99, p99, middle)
    return Figures(conditions, latency, fused_groups)


@pytest.mark.parametrize(
    ("old", "new", "verdict", "stale"),
    [
        (100_000, 105_000, Verdict.PASS, False),  # 10,500,000 isn't over 10,500,000
        (100_000, 105_001, Verdict.FAIL, False),
        (101, 106, Verdict.PASS, False),  # 10,600 <= 10,605
        (101, 107, Verdict.FAIL, False),  # 10,700 > 10,605
        (100_000, 95_000, Verdict.PASS, False),
        (100_000, 94_999, Verdict.PASS, True),
        (100_000, 100_000, Verdict.PASS, False),
        (10**18, 105 * 10**16 + 1, Verdict.FAIL, False),  # no float could tell
    ],
)
def test_the_gate_compares_integers(old: int, new: int, verdict: Verdict, stale: bool) -> None:
    decision = decide(figures(new), figures(old), GateLimits())
    assert (decision.verdict, decision.is_baseline_stale) == (verdict, stale)
    assert ("stale" in decision.reasons[0]) == stale
    if verdict is Verdict.FAIL:
        assert f"P99 {new} ns" in decision.reasons[0]
        assert "recipe baseline accept" in decision.reasons[0]


def test_no_baseline_is_new_and_says_how_to_accept() -> None:
    decision = decide(figures(100), None, GateLimits())
    assert decision.verdict is Verdict.NEW
    assert "recipe baseline accept" in decision.reasons[0]


def test_the_tail_fails_with_and_without_a_baseline() -> None:
    limits = GateLimits(max_p99_over_p50=1.5)
    assert decide(figures(150, 100), None, limits).verdict is Verdict.NEW
    for old in (None, figures(151, 100)):
        decision = decide(figures(151, 100), old, limits)
        assert decision.verdict is Verdict.FAIL
        assert decision.reasons[0].startswith("P99/P50 is 1.510, over the limit of 1.5")


def test_sessions_under_other_conditions_are_inconclusive() -> None:
    new = Conditions("npu", "ab" * 32, 1000, 50, 0)
    old = Conditions("npu", "cd" * 32, 1000, 40, 1)
    differences = differences_between(new, old)
    assert [text.split(":")[0] for text in differences] == ["the hardware spec", "warm-up runs"]
    decision = decide(figures(300, conditions=new), figures(100, conditions=old), GateLimits())
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert "warm-up runs: 50 here, 40 in the baseline" in decision.reasons[0]
    assert differences_between(new, new) == ()


@pytest.mark.parametrize(("p99", "verdict"), [(105, Verdict.PASS), (106, Verdict.FAIL)])
def test_another_seed_is_compared_and_told(p99: int, verdict: Verdict) -> None:
    tomorrow = replace(CONDITIONS, seed=20261130)
    decision = decide(figures(p99, conditions=tomorrow), figures(100), GateLimits())
    assert decision.verdict is verdict
    assert "of the baseline's 100 ns (seed 20261130 here, 0 there)" in decision.reasons[0]
    assert "seed" not in decide(figures(p99), figures(100), GateLimits()).reasons[0]


def test_the_change_is_told_in_percent_with_one_decimal_rounded_half_up() -> None:
    decision = decide(figures(10_005), figures(10_000), GateLimits())
    assert decision.reasons[0].startswith("P99 10005 ns is 100.1 % of the baseline's 10000 ns")


@pytest.mark.parametrize(("now", "good"), [(4, True), (3, True), (2, False)])
def test_fused_groups_may_not_get_fewer(now: int, good: bool) -> None:
    decision = decide(figures(100, fused_groups=now), figures(100), GateLimits())
    assert (decision.verdict is Verdict.PASS) == good
    assert decision.reasons[0].startswith("2 fused groups, the baseline has 3") is not good


def test_a_lost_fusion_fails_where_latencies_cant_be_compared() -> None:
    other = replace(CONDITIONS, runs=500)
    decision = decide(figures(100, conditions=other, fused_groups=2), figures(100), GateLimits())
    assert decision.verdict is Verdict.FAIL
    assert [reason.split(",")[0] for reason in decision.reasons] == [
        "2 fused groups",
        "P99 100 ns can't be compared with the baseline's 100 ns: runs: 500 here",
    ]
