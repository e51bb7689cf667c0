"""The rule that blocks a merge: latencies against the accepted baseline's, on integers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from stages.evaluation.latency import LatencySummary, ratio_text
from stages.evaluation.verdict import Check, Verdict

_ACCEPT = "`recipe baseline accept` takes these samples as the new baseline"


@dataclass(frozen=True, slots=True)
class GateLimits:
    """How much slower than its baseline a package may be, and how long its tail."""

    max_p99_increase_percent: int = 5
    max_p99_over_p50: float = 1.5


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a session was measured on and with: sessions that differ here can't be compared."""

    hardware: str
    hardware_digest: str
    runs: int
    warmup: int
    seed: int


@dataclass(frozen=True, slots=True)
class GateDecision:
    """The verdict and why, most important first."""

    verdict: Verdict
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]
    is_baseline_stale: bool = False


def decide(
    new: LatencySummary,
    old: LatencySummary | None,
    limits: GateLimits,
    differences: tuple[str, ...] = (),
) -> GateDecision:
    """Judge a session against its baseline's; `differences` say why the two can't be compared.

    P99 fails when `new * 100 > old * (100 + percent)`; an improvement by more than the same percent
    passes, and says that the baseline is stale. The tail's limit holds with or without one.
    """
    tail = _tail_check(new, limits)
    if old is None:
        verdict = Verdict.NEW if tail.passed else Verdict.FAIL
        first = (tail.message,) if tail.message else ()
        return GateDecision(
            verdict, (*first, f"no baseline yet: P99 is {new.p99_ns} ns; {_ACCEPT}"), (tail,)
        )
    if differences:
        verdict = Verdict.INCONCLUSIVE if tail.passed else Verdict.FAIL
        reason = (
            f"P99 {new.p99_ns} ns can't be compared with the baseline's {old.p99_ns} ns: "
            f"{'; '.join(differences)}. {_ACCEPT}"
        )
        first = (tail.message,) if tail.message else ()
        return GateDecision(verdict, (*first, reason), (tail,))
    slower = _p99_check(new, old, limits)
    checks = (slower, tail)
    failed = tuple(check.message for check in checks if not check.passed)
    if failed:
        return GateDecision(Verdict.FAIL, failed, checks)
    stale = new.p99_ns * 100 < old.p99_ns * (100 - limits.max_p99_increase_percent)
    figures = f"P99 {new.p99_ns} ns is {_change(new, old)} of the baseline's {old.p99_ns} ns"
    if stale:
        figures += f": the baseline is stale; {_ACCEPT}"
    return GateDecision(Verdict.PASS, (figures,), checks, stale)


def differences_between(new: Conditions, old: Conditions) -> tuple[str, ...]:
    """Why two sessions can't be compared, in words; empty where they can."""
    pairs = (
        ("hardware", new.hardware, old.hardware),
        ("the hardware spec", new.hardware_digest[:12], old.hardware_digest[:12]),
        ("runs", new.runs, old.runs),
        ("warm-up runs", new.warmup, old.warmup),
        ("seed", new.seed, old.seed),
    )
    return tuple(
        f"{name}: {after} here, {before} in the baseline"
        for name, after, before in pairs
        if after != before
    )


def _p99_check(new: LatencySummary, old: LatencySummary, limits: GateLimits) -> Check:
    percent = limits.max_p99_increase_percent
    passed = new.p99_ns * 100 <= old.p99_ns * (100 + percent)
    allowed = old.p99_ns * (100 + percent) // 100
    message = (
        f"P99 {new.p99_ns} ns is {_change(new, old)} of the baseline's {old.p99_ns} ns, over the "
        f"limit of {allowed} ns (+{percent} %): make the recipe faster, or accept it with "
        "`recipe baseline accept`"
    )
    return Check(
        "p99_increase", passed, f"{new.p99_ns} ns", f"{allowed} ns", "" if passed else message
    )


def _tail_check(new: LatencySummary, limits: GateLimits) -> Check:
    passed = not new.exceeds_tail(limits.max_p99_over_p50)
    figure = ratio_text(new.p99_over_p50)
    message = (
        f"P99/P50 is {figure}, over the limit of {limits.max_p99_over_p50}: see trace.json for "
        "what the slow runs share, or raise `gate.max_p99_over_p50` in params.yaml"
    )
    return Check(
        "p99_over_p50", passed, figure, str(limits.max_p99_over_p50), "" if passed else message
    )


def _change(new: LatencySummary, old: LatencySummary) -> str:
    """The new P99 in percent of the old, with one decimal."""
    thousandths = ratio_text(Fraction(new.p99_ns, old.p99_ns))
    whole, decimals = thousandths.split(".")
    percent = int(whole) * 1000 + int(decimals)
    return f"{percent // 10}.{percent % 10} %"
