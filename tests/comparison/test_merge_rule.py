"""The rule that blocks a merge."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.terminal.outcomes import GRAVITY
from stages.comparison.merge_facts import (
    Failure,
    HostOperator,
    Metric,
    PairSides,
    SideFacts,
    deltas,
)
from stages.comparison.merge_rule import (
    MergeLimits,
    PairJudgement,
    PairVerdict,
    judge_merge,
    judge_pair,
    moved_operators,
)
from stages.comparison.merge_words import P99_CURE, change_over, percent_text, time_text
from stages.errors import Outcome
from stages.evaluation.verdict import Verdict
from tests.comparison.merge_cases import (
    HOT_TAIL,
    INACCURATE,
    LONG_TAIL,
    REFUSED,
    SOFTSIGN,
    refused_side,
    side,
    sides,
)

LIMITS = MergeLimits(5)


def judge(base: SideFacts | None, head: SideFacts | None) -> PairJudgement:
    return judge_pair(sides(base, head), LIMITS, GRAVITY)


def test_a_slower_p99_names_what_fell_back_and_why() -> None:
    judged = judge(side(1_204_000), side(2_913_000, fallbacks=(SOFTSIGN,), package="b2"))
    assert judged.verdict is PairVerdict.FAIL
    assert judged.outcome is Outcome.GATE_FAILED
    assert judged.reasons == (
        "P99 1.204 ms -> 2.913 ms (+141.9 %, limit +5 %); "
        "now on the host: Softsign_3 (npu_tiny has no softsign)",
        P99_CURE,
    )
    assert judged.newly_hosted == (SOFTSIGN,)


def test_a_lost_fusion_is_named() -> None:
    judged = judge(side(1_000_000), side(1_100_000, package="b2", fused_groups=9))
    assert judged.reasons == (
        "P99 1.000 ms -> 1.100 ms (+10.0 %, limit +5 %); fused groups 12 -> 9",
        P99_CURE,
    )


@pytest.mark.parametrize(
    ("p99_ns", "verdict"),
    [
        (1_050_000, PairVerdict.PASS),  # exactly +5 %
        (1_050_001, PairVerdict.FAIL),
        (950_000, PairVerdict.PASS),
    ],
)
def test_the_limit_itself_passes(p99_ns: int, verdict: PairVerdict) -> None:
    judged = judge(side(1_000_000), side(p99_ns, package="b2"))
    assert judged.verdict is verdict


def test_a_hair_over_the_limit_shows_its_decimals() -> None:
    judged = judge(side(1_000_000), side(1_050_001, package="b2"))
    assert "(+5.0001 %, limit +5 %)" in judged.reasons[0]


def test_slower_within_the_limit_says_why() -> None:
    judged = judge(side(1_000_000), side(1_030_000, package="b2", fallbacks=(SOFTSIGN,)))
    assert judged.verdict is PairVerdict.PASS
    assert judged.reasons == (
        "P99 1.000 ms -> 1.030 ms (+3.0 %); now on the host: Softsign_3 (npu_tiny has no softsign)",
    )


def test_an_accepted_baseline_lets_a_slower_package_in() -> None:
    base = side(1_000_000, accepted="a1")
    head = side(1_200_000, package="b2", accepted="b2")
    judged = judge(base, head)
    assert judged.verdict is PairVerdict.ACCEPTED
    assert judged.outcome is Outcome.PASSED
    assert judged.reasons == (
        "P99 1.000 ms -> 1.200 ms (+20.0 %); accepted: the baseline holds this package",
    )
    assert judge(base, replace(head, accepted_package="a1")).verdict is PairVerdict.FAIL
    same_package = replace(head, package="a1", accepted_package="a1")
    assert judge(base, same_package).verdict is PairVerdict.FAIL
    assert judge(base, replace(head, package="", accepted_package="")).blocks


def test_what_only_head_fails_blocks() -> None:
    judged = judge(side(), side(failures=(HOT_TAIL, INACCURATE), package="b2"))
    assert judged.verdict is PairVerdict.FAIL
    assert judged.outcome is Outcome.VALIDATION_FAILED
    assert judged.reasons == (
        "validation failed: cosine 0.9, below 0.999",
        "stress failed: P99/P50 hot is 2.1",
        "P99 1.204 ms, as before",
    )


def test_a_refused_compile_blocks_and_keeps_its_cure_for_the_details() -> None:
    judged = judge(side(), refused_side())
    assert judged.outcome is Outcome.COMPILE_REFUSED
    assert judged.reasons == ("compile failed: %x needs 9 bytes more",)
    assert judged.sides.head is not None
    assert "hint" in judged.sides.head.failures[0].message


def test_a_slower_p99_stands_before_the_gates_own_checks_and_after_graver_ones() -> None:
    head = side(2_000_000, failures=(HOT_TAIL, LONG_TAIL, INACCURATE), package="b2")
    reasons = judge(side(1_000_000), head).reasons
    assert [reason.split()[0] for reason in reasons] == [
        "validation",
        "P99",
        "gate",
        "stress",
        "make",
    ]


def test_what_fails_on_both_is_said_and_does_not_block() -> None:
    judged = judge(side(failures=(LONG_TAIL,)), side(failures=(LONG_TAIL,), package="b2"))
    assert judged.verdict is PairVerdict.STILL_FAILING
    assert judged.outcome is Outcome.PASSED
    assert judged.reasons[0] == "still failing: gate failed: P99/P50 is 1.6, over 1.5"


def test_an_old_failure_does_not_hide_a_new_one_of_the_same_stage() -> None:
    slower = Failure("gate", "p99_increase", Outcome.GATE_FAILED, "over the baseline's limit")
    judged = judge(side(failures=(LONG_TAIL,)), side(failures=(LONG_TAIL, slower), package="b2"))
    assert judged.verdict is PairVerdict.FAIL
    assert judged.reasons[:2] == (
        "gate failed: over the baseline's limit",
        "still failing: gate failed: P99/P50 is 1.6, over 1.5",
    )


def test_a_stage_that_base_never_reached_was_not_passed() -> None:
    judged = judge(refused_side(), side(failures=(INACCURATE,), package="b2"))
    assert judged.verdict is PairVerdict.STILL_FAILING
    assert judged.reasons == (
        "still failing: validation failed: cosine 0.9, below 0.999",
        "fixed: compile",
        "P99 1.204 ms, P99/P50 1.204",
    )


def test_an_unchanged_failure_is_not_taken_for_unchanged() -> None:
    assert judge(refused_side(), refused_side()).verdict is PairVerdict.STILL_FAILING


def test_what_head_mends_is_said() -> None:
    judged = judge(side(failures=(INACCURATE, LONG_TAIL)), side(package="b2"))
    assert judged.verdict is PairVerdict.FIXED
    assert judged.reasons == ("fixed: validation, gate", "P99 1.204 ms, as before")


def test_a_new_pair_must_pass_by_itself() -> None:
    passes = judge(None, side(fallbacks=(SOFTSIGN,)))
    assert passes.verdict is PairVerdict.NEW
    assert passes.reasons == (
        "P99 1.204 ms, P99/P50 1.204",
        "on the host: Softsign_3 (npu_tiny has no softsign)",
    )
    fails = judge(None, refused_side())
    assert (fails.verdict, fails.outcome) == (PairVerdict.NEW_FAIL, Outcome.COMPILE_REFUSED)
    assert fails.blocks


def test_a_base_that_broke_down_excuses_nothing() -> None:
    crashed = Failure("normalize", "", Outcome.INTERNAL_ERROR, "ZeroDivisionError: division")
    base = SideFacts(failures=(crashed,))
    judged = judge(base, side(failures=(INACCURATE,)))
    assert (judged.verdict, judged.outcome) == (
        PairVerdict.NEW_FAIL,
        Outcome.VALIDATION_FAILED,
    )
    assert judged.reasons[-1] == (
        "nothing to compare with: in base normalize failed: ZeroDivisionError: division"
    )
    assert judge(base, side()).verdict is PairVerdict.NEW
    assert judge(base, base).verdict is PairVerdict.STILL_FAILING


def test_deleted_and_unchanged_pairs_block_nothing() -> None:
    assert judge(side(), None).verdict is PairVerdict.DELETED
    assert judge(side(), side()).verdict is PairVerdict.UNCHANGED
    assert judge(side(), side(accepted="a1")).verdict is PairVerdict.UNCHANGED
    assert judge(side(), side(package="b2")).verdict is PairVerdict.PASS


def test_nothing_measured_is_said() -> None:
    assert judge(None, SideFacts()).reasons == ("nothing was measured",)
    assert judge(SideFacts(package="a"), SideFacts()).reasons == ("nothing was measured",)


def test_a_pair_of_no_side_or_of_two_verdicts_is_a_bug_of_the_caller() -> None:
    with pytest.raises(ValueError, match="no side has net_b on npu_tiny"):
        judge(None, None)
    with pytest.raises(ValueError, match="judged twice"):
        judge_merge([sides(None, side()), sides(side(), None)], LIMITS, GRAVITY)


def test_worst_comes_first() -> None:
    pairs = [
        sides(side(), side(), "same"),
        sides(None, side(), "new"),
        sides(side(), None, "gone"),
        sides(side(), side(1_210_000, package="b"), "slower"),
        sides(side(), side(package="b"), "level"),
        sides(side(failures=(LONG_TAIL,)), side(failures=(LONG_TAIL,)), "still"),
        sides(side(failures=(LONG_TAIL,)), side(), "mended"),
        sides(side(1_000), side(1_500, package="b", accepted="b"), "accepted"),
        sides(side(), side(failures=(HOT_TAIL,)), "hot"),
        sides(side(1_000), side(1_200, package="b"), "b slow"),
        sides(side(1_000), side(1_300, package="b"), "a slower"),
        sides(None, refused_side(), "refused"),
    ]
    judged = judge_merge(pairs, LIMITS, GRAVITY)
    assert [pair.sides.model for pair in judged.pairs] == [
        "refused",
        "a slower",
        "b slow",
        "hot",
        "still",
        "accepted",
        "mended",
        "new",
        "slower",
        "level",
        "gone",
        "same",
    ]
    assert judged.verdict is Verdict.FAIL
    assert judged.outcome is Outcome.COMPILE_REFUSED
    assert [pair.sides.model for pair in judged.having(PairVerdict.NEW)] == ["new"]


def test_nothing_blocks_nothing() -> None:
    judged = judge_merge([], LIMITS, GRAVITY)
    assert (judged.verdict, judged.outcome) == (Verdict.PASS, Outcome.PASSED)


def test_a_renamed_operator_is_not_a_new_fallback() -> None:
    renamed = replace(SOFTSIGN, name="Softsign_9")
    assert moved_operators((SOFTSIGN,), (renamed,)) == ()
    assert moved_operators((SOFTSIGN,), (SOFTSIGN, renamed)) == (renamed,)
    first, second = replace(SOFTSIGN, name="a"), replace(SOFTSIGN, name="b")
    assert moved_operators((SOFTSIGN,), (first, second)) == (first,)  # one of them is the old one
    other = HostOperator("Softsign_3x", "softsign", "f16 only")
    assert moved_operators((SOFTSIGN,), (SOFTSIGN, other)) == (other,)


def test_many_operators_are_counted_not_listed() -> None:
    many = tuple(replace(SOFTSIGN, name=f"s{number}") for number in range(7))
    judged = judge(side(1_000), side(2_000, package="b", fallbacks=many))
    assert judged.reasons[0].endswith(
        "now on the host: s0, s1, s2, s3 and 3 more (npu_tiny has no softsign)"
    )


def test_what_only_leads_to_a_fallback_is_not_named() -> None:
    cast = replace(SOFTSIGN, name="cast.1", kind="cast")
    judged = judge(side(1_000), side(2_000, package="b", fallbacks=(cast, SOFTSIGN)))
    assert judged.reasons[0].endswith("host: Softsign_3 (npu_tiny has no softsign)")
    assert judged.newly_hosted == (cast, SOFTSIGN)
    judged = judge(side(1_000), side(2_000, package="b", fallbacks=(cast,)))
    assert judged.reasons[0].endswith("host: cast.1 (npu_tiny has no softsign)")


def test_deltas_know_what_each_side_knows() -> None:
    found = {delta.metric: delta for delta in deltas(refused_side(), side())}
    assert found[Metric.P99].before is None
    assert found[Metric.P99].change_percent is None
    assert found[Metric.TAIL].after == Fraction(1204, 1000)
    assert found[Metric.COSINE].after == Fraction("0.99999")
    assert Metric.SQNR not in found
    both = {delta.metric: delta for delta in deltas(side(1_000_000), side(1_100_000))}
    assert both[Metric.P99].change_percent == 10


def test_words_of_figures() -> None:
    assert time_text(850) == "850 ns"
    assert time_text(12_345) == "12.345 us"
    assert time_text(1_204_000) == "1.204 ms"
    assert time_text(1_500_000_000) == "1.500 s"
    assert percent_text(Fraction(-21, 10)) == "-2.1 %"
    assert percent_text(Fraction(-1, 1000)) == "0.0 %"
    assert percent_text(Fraction(1999, 20)) == "+100.0 %"
    assert change_over(Fraction(5) + Fraction(1, 10**9), 5) == "+5.000000 %"


# Properties: any pairs, whatever they hold.

_failures = st.lists(
    st.sampled_from([REFUSED, INACCURATE, LONG_TAIL, HOT_TAIL]), unique=True, max_size=3
).map(tuple)
_operators = st.lists(
    st.builds(HostOperator, st.sampled_from("pqrs"), st.sampled_from(["k1", "k2"]), st.just("why")),
    unique_by=lambda operator: operator.name,
    max_size=4,
).map(tuple)
_sides = st.none() | st.builds(
    side,
    p99_ns=st.integers(900_000, 1_200_000),
    failures=_failures,
    fallbacks=_operators,
    package=st.sampled_from("ab"),
    accepted=st.sampled_from(["", "a", "b"]),
)


@st.composite
def _merges(draw: st.DrawFn) -> list[PairSides]:
    names = draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=6))
    found = [sides(draw(_sides), draw(_sides), name) for name in names]
    return [pair for pair in found if pair.base is not None or pair.head is not None]


@given(_merges(), st.randoms())
def test_the_order_of_pairs_does_not_matter(pairs: list[PairSides], chance: random.Random) -> None:
    shuffled = list(pairs)
    chance.shuffle(shuffled)
    one, other = (judge_merge(some, LIMITS, GRAVITY) for some in (pairs, shuffled))
    assert one == other
    assert len(one.pairs) == len(pairs)
    assert all(pair.reasons and all(pair.reasons) for pair in one.pairs)


@given(_merges())
def test_it_fails_just_where_a_pair_blocks(pairs: list[PairSides]) -> None:
    judged = judge_merge(pairs, LIMITS, GRAVITY)
    blocking = [pair for pair in judged.pairs if pair.blocks]
    assert (judged.verdict is Verdict.FAIL) == bool(blocking)
    assert judged.pairs[: len(blocking)] == tuple(blocking)
    assert (judged.outcome is Outcome.PASSED) == (not blocking)
    assert judged.outcome is (blocking[0].outcome if blocking else Outcome.PASSED)


@given(_sides.filter(bool))
def test_a_side_against_itself_never_blocks(facts: SideFacts) -> None:
    judged = judge(facts, facts)
    assert judged.verdict in (PairVerdict.UNCHANGED, PairVerdict.STILL_FAILING)


@given(_sides.filter(bool), _sides.filter(bool))
def test_there_and_back_can_not_both_be_slower(one: SideFacts, other: SideFacts) -> None:
    there, back = judge(one, other), judge(other, one)
    assert there.newly_hosted == back.no_longer_hosted
    slower = [judged for judged in (there, back) if any("limit +5" in r for r in judged.reasons)]
    assert len(slower) <= 1
    if there.p99_change_percent is not None and back.p99_change_percent is not None:
        assert (there.p99_change_percent > 0) == (back.p99_change_percent < 0)


@given(st.integers(1, 10**12), st.integers(1, 10**12), st.integers(0, 100))
def test_the_rule_is_exact(base_ns: int, head_ns: int, percent: int) -> None:
    pair = sides(side(base_ns), side(head_ns, package="b"))
    judged = judge_pair(pair, MergeLimits(percent), GRAVITY)
    assert judged.blocks == (Fraction(head_ns, base_ns) > 1 + Fraction(percent, 100))


@given(st.integers(1, 10**9), st.integers(0, 100))
def test_a_multiple_of_the_limit_itself_passes(base_ns: int, percent: int) -> None:
    pair = sides(side(base_ns * 100), side(base_ns * (100 + percent), package="b"))
    assert not judge_pair(pair, MergeLimits(percent), GRAVITY).blocks
