"""What moved between nights: by hand, and properties of any history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from stages.comparison.drift import (
    Bands,
    Cause,
    Drift,
    PairDrift,
    Timing,
    compare_nights,
    compare_pair,
)
from stages.comparison.nights import SKIPPED, Figure, PairNight
from stages.errors import Outcome

PASSED = ("PASS", "PASS", "PASS", "PASS", "NEW", "PASS")
REFUSED = ("PASS", "COMPILE_REFUSED", SKIPPED, SKIPPED, SKIPPED, SKIPPED)
SOUND = PairNight(
    night="2026-01-01",
    started="2026-01-01T02:00:00Z",
    seed=20260101,
    commit="a" * 40,
    model="m",
    hardware="hw",
    outcome=Outcome.PASSED,
    verdicts=PASSED,
    hardware_digest="d1",
    runs=1000,
    package="p1",
    p50_ns=1_000_000,
    p99_ns=1_100_000,
    hot_p50_ns=1_200_000,
    hot_p99_ns=1_300_000,
    peak_sram_bytes=200_000,
    peak_ddr_bytes=900_000,
    fallbacks=0,
    sqnr_db=40.0,
)
BROKEN = replace(
    SOUND,
    outcome=Outcome.COMPILE_REFUSED,
    verdicts=REFUSED,
    reason="tile doesn't fit",
    package="",
    p50_ns=None,
    p99_ns=None,
    hot_p50_ns=None,
    hot_p99_ns=None,
    peak_sram_bytes=None,
    peak_ddr_bytes=None,
    fallbacks=None,
    sqnr_db=None,
)


def nights_of(*rows: PairNight) -> list[PairNight]:
    """The rows on following nights, each night's start being its number."""
    return [replace(row, started=f"night {number:03}") for number, row in enumerate(rows)]


def with_p99(*p99_ns: int) -> list[PairNight]:
    """A night for each P99; P50 stays."""
    return nights_of(*(replace(SOUND, p99_ns=value) for value in p99_ns))


def drift_of(rows: Sequence[PairNight]) -> PairDrift:
    """The last row against all before."""
    return compare_pair(rows[-1], rows[:-1], Bands(), 7)


def only(pairs: Sequence[PairDrift]) -> PairDrift:
    """The single pair of a list."""
    assert len(pairs) == 1
    return pairs[0]


def p99_move(rows: Sequence[PairNight]) -> tuple[Timing, bool, Fraction] | None:
    """When P99 moved, whether to the worse, and how far."""
    moves = [move for move in drift_of(rows).moves if move.figure is Figure.P99]
    return (moves[0].timing, moves[0].is_worse, moves[0].change) if moves else None


def test_noise_within_the_band_is_unchanged() -> None:
    assert p99_move(with_p99(1_100_000, 1_110_000, 1_090_000, 1_133_000, 1_105_000)) is None
    assert p99_move(with_p99(1_000_000, 1_050_000)) is None  # the edge belongs to the band
    assert p99_move(with_p99(1_000_000, 1_050_001)) is not None


def test_a_jump_tonight_is_counted_from_the_median() -> None:
    rows = with_p99(100, 102, 100, 101, 120)
    assert p99_move(rows) == (Timing.TONIGHT, True, Fraction("19.5"))


def test_with_few_nights_only_the_night_before_counts() -> None:
    assert p99_move(with_p99(100, 120)) == (Timing.TONIGHT, True, Fraction(20))
    assert p99_move(with_p99(80, 100, 120)) == (Timing.TONIGHT, True, Fraction(20))


def test_a_shift_some_nights_ago_stays_visible_until_the_median_follows() -> None:
    assert p99_move(with_p99(100, 100, 100, 100, 120, 120, 120)) == (Timing.LASTING, True, 20)
    assert p99_move(with_p99(100, 100, 100, 120, 120, 120, 120, 120)) is None


def test_creeping_by_less_than_the_band_each_night_shows() -> None:
    rows = with_p99(*(1000 + 15 * night for night in range(8)))
    assert p99_move(rows) == (Timing.LASTING, True, Fraction(60))


def test_the_night_after_an_odd_one_is_no_improvement() -> None:
    assert p99_move(with_p99(100, 100, 100, 150, 100)) == (Timing.RETURNED, False, -50)
    drift = compare_nights(with_p99(100, 100, 100, 150, 100)[-1:], with_p99(100, 100, 100, 150))
    assert only(drift.returned).moves


def test_half_way_back_is_still_worse() -> None:
    assert p99_move(with_p99(100, 100, 100, 100, 150, 120)) == (Timing.LASTING, True, 20)


def test_only_the_last_seven_nights_count() -> None:
    assert p99_move(with_p99(*[50] * 20, *[100] * 7, 100)) is None


def test_p50_has_a_narrower_band_than_its_tail() -> None:
    slower = replace(SOUND, p50_ns=1_015_000, p99_ns=1_115_000, hot_p50_ns=1_215_000)
    moves = drift_of(nights_of(SOUND, slower)).moves
    assert [move.figure for move in moves] == [Figure.P50]


def test_more_decibels_are_better_and_more_of_the_rest_is_worse() -> None:
    better = replace(SOUND, sqnr_db=45.0)
    worse = replace(SOUND, sqnr_db=35.0, fallbacks=2, peak_sram_bytes=300_000)
    assert [m.figure for m in drift_of(nights_of(SOUND, better)).better] == [Figure.SQNR]
    moves = drift_of(nights_of(SOUND, worse))
    assert [m.figure for m in moves.worse] == [Figure.SRAM, Figure.SQNR, Figure.FALLBACKS]
    assert not moves.better


def test_a_single_fallback_counts_and_a_few_bytes_dont() -> None:
    assert drift_of(nights_of(SOUND, replace(SOUND, fallbacks=1))).worse
    assert not drift_of(nights_of(SOUND, replace(SOUND, peak_ddr_bytes=900_064))).moves


def test_the_cause_is_read_from_package_spec_and_runs() -> None:
    slow = replace(SOUND, p99_ns=2_000_000)
    assert drift_of(nights_of(SOUND, slow)).cause is Cause.WEATHER
    assert drift_of(nights_of(SOUND, replace(slow, package="p2"))).cause is Cause.RECIPE
    other = replace(slow, package="p2", hardware_digest="d2")
    assert drift_of(nights_of(SOUND, other)).cause is Cause.DEVICE
    assert drift_of(nights_of(SOUND, replace(slow, runs=10))).cause is Cause.RUNS


def test_a_lasting_move_looks_for_its_cause_in_the_whole_window() -> None:
    slow = replace(SOUND, p99_ns=2_000_000, package="p2")
    assert drift_of(nights_of(*[SOUND] * 5, slow, slow)).cause is Cause.RECIPE
    assert drift_of(nights_of(*[SOUND] * 5, slow, replace(slow, p99_ns=4_000_000))).cause is (
        Cause.WEATHER
    )


def test_another_device_has_no_median_yet() -> None:
    other = replace(SOUND, hardware_digest="d2", p99_ns=2_000_000)
    move = drift_of(nights_of(*[SOUND] * 6, other)).worse[0]
    assert move.usual is None
    assert move.before == 1_100_000


def test_a_broken_night_between_doesnt_hide_the_figures_before_it() -> None:
    rows = nights_of(SOUND, BROKEN, replace(SOUND, p99_ns=2_000_000))
    drift = drift_of(rows)
    assert drift.worse[0].before == 1_100_000
    assert drift.before is not None
    assert drift.before.is_broken


def test_newly_broken_comes_first_then_by_stage() -> None:
    late = replace(
        SOUND,
        outcome=Outcome.STRESS_FAILED,
        verdicts=("PASS", "PASS", "PASS", "PASS", "PASS", "FAIL"),
    )
    earlier = [replace(SOUND, model=name) for name in "abc"] + [replace(BROKEN, model="z")]
    tonight = [
        replace(BROKEN, model="z"),
        replace(late, model="a"),
        replace(BROKEN, model="b"),
        replace(BROKEN, model="n"),
        replace(SOUND, model="c"),
    ]
    drift = compare_nights(nights_of(*tonight), earlier)
    assert [pair.tonight.model for pair in drift.broken] == ["b", "n", "a", "z"]
    assert [pair.tonight.model for pair in drift.newly_broken] == ["b", "n", "a"]


def test_each_kind_of_pair_has_its_list() -> None:
    names = ("worse", "better", "same", "mended", "gone")
    earlier = [replace(SOUND, model=name) for name in names]
    earlier[3] = replace(BROKEN, model="mended")
    tonight = [
        replace(SOUND, model="worse", p99_ns=1_500_000, p50_ns=900_000),
        replace(SOUND, model="better", p99_ns=1_010_000),
        replace(SOUND, model="same"),
        replace(SOUND, model="mended"),
        replace(SOUND, model="new"),
    ]
    drift = compare_nights(tonight, earlier)
    assert only(drift.regressions).tonight.model == "worse"
    assert only(drift.regressions).better
    assert only(drift.improvements).tonight.model == "better"
    assert only(drift.unchanged).tonight.model == "same"
    assert only(drift.mended).tonight.model == "mended"
    assert only(drift.first).tonight.model == "new"
    assert drift.gone == (("gone", "hw"),)


def test_regressions_come_worst_first() -> None:
    factors = {"a": 110, "b": 200, "c": 140}
    earlier = [replace(SOUND, model=name) for name in factors]
    tonight = [
        replace(SOUND, model=name, p99_ns=1_100_000 * factor // 100)
        for name, factor in factors.items()
    ]
    drift = compare_nights(tonight, earlier)
    assert [pair.tonight.model for pair in drift.regressions] == ["b", "c", "a"]


def test_the_first_night_of_all() -> None:
    assert compare_nights([], []) == Drift()
    drift = compare_nights([SOUND, replace(BROKEN, model="b")], [])
    assert only(drift.first).tonight == SOUND
    assert only(drift.broken).is_newly_broken


values = st.integers(min_value=1, max_value=10**12)
rows = st.builds(
    replace,
    st.sampled_from([SOUND, BROKEN]),
    model=st.sampled_from("abc"),
    package=st.sampled_from(["p1", "p2", ""]),
    hardware_digest=st.sampled_from(["d1", "d2"]),
    p50_ns=st.none() | values,
    p99_ns=st.none() | values,
    fallbacks=st.none() | st.integers(0, 5),
    sqnr_db=st.none() | st.floats(-50, 200),
)
nights = st.lists(rows, max_size=3, unique_by=lambda row: row.model)


@given(nights, st.lists(nights, max_size=9))
def test_every_pair_is_in_one_list_and_order_of_models_is_nothing(
    tonight: list[PairNight], before: list[list[PairNight]]
) -> None:
    earlier = [
        replace(row, started=f"night {number:03}")
        for number, night in enumerate(before)
        for row in night
    ]
    drift = compare_nights(tonight, earlier)
    lists = (drift.broken, drift.regressions, drift.improvements, drift.mended)
    found = [
        pair for pairs in (*lists, drift.returned, drift.unchanged, drift.first) for pair in pairs
    ]
    assert sorted(pair.tonight.model for pair in found) == sorted(row.model for row in tonight)
    assert compare_nights(tonight[::-1], earlier) == drift
    for pair in found:
        for move in pair.moves:
            assert move.reference in (move.before, move.usual)
            assert abs(move.change) > Bands().width(move.figure, move.reference)


@given(st.lists(values, min_size=1, max_size=9), st.integers(2, 1000))
def test_the_unit_of_time_is_nothing(p99_ns: list[int], factor: int) -> None:
    def outcome(scale: int) -> list[tuple[Figure, Timing, bool]]:
        rows = nights_of(
            *(
                replace(SOUND, p50_ns=scale, p99_ns=value * scale, hot_p99_ns=None)
                for value in p99_ns
            )
        )
        return [(move.figure, move.timing, move.is_worse) for move in drift_of(rows).moves]

    assert outcome(1) == outcome(factor)


@given(values, st.lists(st.integers(-2300, 2300), min_size=2, max_size=9))
def test_noise_of_the_measured_size_never_counts(p99_ns: int, noise: list[int]) -> None:
    scaled = p99_ns * 1_000_000
    rows = with_p99(*(scaled + scaled * part // 100_000 for part in noise))
    assert p99_move(rows) is None
