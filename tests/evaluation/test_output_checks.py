"""Judging outputs, fallbacks, memory and hot runs."""

from __future__ import annotations

import numpy as np
import pytest

from stages.device.samples import HeatHistory, HeatLedger, Samples
from stages.errors import DeviceError
from stages.evaluation.output_checks import AccuracyLimits, check_output
from stages.evaluation.package_facts import Fallback, MemoryFacts
from stages.evaluation.thermal_run import StressLimits, judge_hot_run
from stages.evaluation.validation import (
    ValidationLimits,
    check_fallbacks,
    check_memory,
    check_rules,
)
from stages.evaluation.verdict import Verdict
from stages.plan.rules import Violation

LIMITS = AccuracyLimits()
REFERENCE = np.linspace(-1, 1, 1000).astype(np.float32)


def passes(actual: np.ndarray, expected: np.ndarray, quantized: bool = False) -> bool:
    facts = check_output("y", 0, actual, expected, LIMITS, quantized)
    assert facts.check.passed == (not facts.check.message)
    return facts.check.passed


def test_float_outputs_need_cosine_and_error() -> None:
    # the range is 2: an error of 0.02 is 1 % of it
    spot = REFERENCE.copy()
    spot[3] += 0.0199
    assert passes(spot, REFERENCE)
    spot[3] += 0.0003
    assert not passes(spot, REFERENCE)
    # a small error everywhere that turns the vector
    tilted = REFERENCE * np.float32(0.001)
    noisy = tilted + np.float32(0.00008) * np.sign(np.sin(np.arange(1000))).astype(np.float32)
    assert not passes(noisy, tilted)


def test_the_message_has_figure_limit_and_cure() -> None:
    facts = check_output("logits", 2, REFERENCE * 0, REFERENCE, LIMITS, False)
    assert "output 'logits' of sample 2" in facts.check.message
    assert "cosine 0.000000, error 50.000%" in facts.check.message
    assert "cosine 0.999, error 1.000%" in facts.check.message
    assert "params.yaml" in facts.check.message


def test_quantised_outputs_need_their_signal_over_noise() -> None:
    # uniform noise of +-a against a signal power of 1/3: SQNR = 10 log10(1/a^2)
    random = np.random.default_rng(0)
    for amplitude, good in ((10 ** (-31 / 20), True), (10 ** (-29 / 20), False)):
        noise = random.uniform(-amplitude, amplitude, 1000).astype(np.float32)
        assert passes(REFERENCE + noise, REFERENCE, quantized=True) is good


def test_narrow_integers_may_be_off_by_one_step() -> None:
    steps = np.arange(-100, 100).astype(np.int8)
    off = steps.copy()
    off[::2] += 1
    assert passes(off, steps)
    off[0] += 90
    assert not passes(np.where(np.arange(200) % 2, 0, off).astype(np.int8), steps)


def test_wide_integers_and_booleans_are_counted() -> None:
    indices = np.arange(200)
    off = indices.copy()
    off[:2] = 7
    assert passes(off, indices)
    off[:4] = 9
    assert not passes(off, indices)
    one = np.array([5])
    assert passes(one, one.copy())
    assert not passes(one + 1, one)
    assert not passes(np.array([True]), np.array([False]))


def test_nan_and_shapes_fail() -> None:
    broken = REFERENCE.copy()
    broken[0] = np.nan
    assert not passes(broken, REFERENCE)
    assert passes(broken, broken.copy())
    assert not passes(REFERENCE.reshape(10, 100), REFERENCE)
    assert passes(np.zeros((0, 3), np.float16), np.zeros((0, 3), np.float32))


def test_a_broken_rule_fails_and_is_quoted() -> None:
    violation = Violation("plan-overlap", "buffers %a and %b share sram", "raise the size", 3)
    (check,) = check_rules([violation])
    assert not check.passed
    assert "plan-overlap: buffers %a and %b share sram" in check.message
    assert check_rules([])[0].passed


def test_fallbacks_are_counted_by_operator() -> None:
    found = [Fallback("g", ("a", "b"), ("resize", "resize"), "no resize", 10, 0.5)]
    assert check_fallbacks(found, ValidationLimits()).passed
    assert check_fallbacks(found, ValidationLimits(max_fallbacks=2)).passed
    check = check_fallbacks(found, ValidationLimits(max_fallbacks=1))
    assert not check.passed
    assert check.message.startswith("2 operators run on the host, 1 are allowed: resize 'g'")


def test_memory_is_held_against_the_device_and_the_limit() -> None:
    facts = [MemoryFacts("sram", 1000, 900, 1024), MemoryFacts("ddr", 10, 10, 100)]
    assert all(check.passed for check in check_memory(facts, ValidationLimits()))
    sram, ddr = check_memory(facts, ValidationLimits(max_sram_bytes=999))
    assert (sram.passed, ddr.passed) == (False, True)
    assert "1 over the limit of 999" in sram.message


def heat(dividers: list[int], shutdown: int | None = None) -> HeatHistory:
    temperatures = np.linspace(85, 90, len(dividers))
    slowdowns = np.array(dividers, dtype=np.float64)
    ledger = HeatLedger(3.0, 1.0, 2.0)
    return HeatHistory(
        temperatures, slowdowns, 70.0, 85.0, 90.0, np.full(100, 500), ledger, shutdown
    )


def test_a_hot_run_is_judged_by_its_tail() -> None:
    steady = Samples(np.full(100, 1000), heat([1] * 50 + [2] * 50))
    judged = judge_hot_run(steady, 100, StressLimits())
    assert judged.verdict is Verdict.PASS
    assert judged.runs_by_divider == {1: 50, 2: 50}
    assert judged.throttled_runs == 50
    assert judged.clock_changes == 1
    assert judged.slowdown == 2
    uneven = Samples(np.array([1000] * 90 + [2001] * 10), heat([1] * 90 + [2] * 10))
    judged = judge_hot_run(uneven, 100, StressLimits())
    assert judged.verdict is Verdict.FAIL
    assert judged.reasons[0].startswith("P99/P50 at 85 degC is 2.001, over the limit of 2.0")


def test_the_slowdown_is_judged_where_it_has_a_limit() -> None:
    samples = Samples(np.full(100, 1000), heat([2] * 100))  # full clock: 500 ns
    assert judge_hot_run(samples, 100, StressLimits(max_slowdown=2.0)).verdict is Verdict.PASS
    judged = judge_hot_run(samples, 100, StressLimits(max_slowdown=1.9))
    assert judged.verdict is Verdict.FAIL
    assert judged.reasons[0].startswith(
        "P50 from 85 degC is 2.000 times that at full clock, over the limit of 1.9: the clock was "
        "divided by up to 2;"
    )


def test_a_device_that_went_off_fails() -> None:
    samples = Samples(np.full(40, 1000), heat([8] * 40, shutdown=40))
    judged = judge_hot_run(samples, 100, StressLimits())
    assert judged.verdict is Verdict.FAIL
    assert "went off" in judged.reasons[0]


def test_a_device_without_heat_cant_be_stressed() -> None:
    with pytest.raises(DeviceError, match="no hot samples"):
        judge_hot_run(Samples(np.array([1])), 1, StressLimits())
