"""The rule that blocks a merge: latencies against the accepted baseline's, on integers.

Sessions of different seeds are compared. From the lowest to the highest of 50 seeds, the P99 of
1,000 runs lay apart by 0.6 % (ppocr_rec on rk3588_npu, 5.1 ms), 1.3 % (ppocr_cls on npu_tiny,
1.3 ms), 2.8 % (silero_vad on nvidia_t4, 0.2 ms), 3.6 % (magika on nvidia_t4, 0.2 ms) and 4.5 %
(residual_cnn on rk3588_npu, 0.09 ms): the shorter the run, the more a single interrupt weighs, and
all of it stays below the 5 % that fail. P50 lay apart by 0.1 to 0.3 %.
"""

from __future__ import annotations

from dataclasses import dataclass

from stages.evaluation.latency import LatencySummary, ratio_text
from stages.evaluation.verdict import Check, Verdict

_ACCEPT = "`recipe baseline accept` takes these samples as the new baseline"


@dataclass(frozen=True, slots=True)
class GateLimits:
    """How much slower than its baseline a package may be, and how long its tail."""

    max_p99_increase_percent: int = 5
    max_p99_over_p50: float = 1.5


SIMULATED = "simulated"


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a session was measured on and with.

    `seed` is that of the device's weather: sessions of two seeds are of the same device on two
    days, and can be compared; those that differ in anything else can't.
    """

    hardware: str
    hardware_digest: str
    runs: int
    warmup: int
    seed: int
    device: str = SIMULATED


@dataclass(frozen=True, slots=True)
class Figures:
    """What the gate compares of a package: its session, and how many groups its recipe fuses."""

    conditions: Conditions
    latency: LatencySummary
    fused_groups: int


@dataclass(frozen=True, slots=True)
class GateDecision:
    """The verdict and why, most important first."""

    verdict: Verdict
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]
    is_baseline_stale: bool = False


def decide(new: Figures, old: Figures | None, limits: GateLimits) -> GateDecision:
    """Judge a package against the accepted one; `old` None where there is none.

    P99 fails when `new * 100 > old * (100 + percent)`; an improvement by more than the same percent
    passes, and says that the baseline is stale. Sessions that can't be compared are INCONCLUSIVE.
    The tail's limit holds with or without a baseline; fewer fused groups than the baseline's fail
    whatever the session's conditions.
    """
    tail = _tail_check(new.latency, limits)
    if old is None:
        verdict = Verdict.NEW if tail.passed else Verdict.FAIL
        p99 = f"no baseline yet: P99 is {new.latency.p99_ns} ns; {_ACCEPT}"
        return GateDecision(verdict, (*_messages((tail,)), p99), (tail,))
    fusion = check_fused_groups(new.fused_groups, old.fused_groups)
    differences = differences_between(new.conditions, old.conditions)
    if differences:
        failed = _messages((tail, fusion))
        reason = (
            f"P99 {new.latency.p99_ns} ns can't be compared with the baseline's "
            f"{old.latency.p99_ns} ns: {'; '.join(differences)}. {_ACCEPT}"
        )
        verdict = Verdict.FAIL if failed else Verdict.INCONCLUSIVE
        return GateDecision(verdict, (*failed, reason), (tail, fusion))
    checks = (_p99_check(new, old, limits), tail, fusion)
    if failed := _messages(checks):
        return GateDecision(Verdict.FAIL, failed, checks)
    stale = new.latency.p99_ns * 100 < old.latency.p99_ns * (100 - limits.max_p99_increase_percent)
    figures = _compared(new, old)
    if stale:
        figures += f": the baseline is stale; {_ACCEPT}"
    return GateDecision(Verdict.PASS, (figures,), checks, stale)


def differences_between(new: Conditions, old: Conditions) -> tuple[str, ...]:
    """Why two sessions can't be compared, in words; empty where they can."""
    pairs = (
        ("hardware", new.hardware, old.hardware),
        ("the device", new.device, old.device),
        ("the hardware spec", new.hardware_digest[:12], old.hardware_digest[:12]),
        ("runs", new.runs, old.runs),
        ("warm-up runs", new.warmup, old.warmup),
    )
    return tuple(
        f"{name}: {after} here, {before} in the baseline"
        for name, after, before in pairs
        if after != before
    )


def check_fused_groups(now: int, before: int) -> Check:
    """Fused groups against the baseline's: fewer means that a fusion was lost."""
    passed = now >= before
    message = (
        f"{now} fused groups, the baseline has {before}: a fusion was lost; compare the recipes "
        "with `recipe show`, or accept it with `recipe baseline accept`"
    )
    return Check("fused_groups", passed, str(now), str(before), "" if passed else message)


def _messages(checks: tuple[Check, ...]) -> tuple[str, ...]:
    return tuple(check.message for check in checks if not check.passed)


def _p99_check(new: Figures, old: Figures, limits: GateLimits) -> Check:
    percent = limits.max_p99_increase_percent
    now, before = new.latency.p99_ns, old.latency.p99_ns
    passed = now * 100 <= before * (100 + percent)
    allowed = before * (100 + percent) // 100
    message = (
        f"{_compared(new, old)}, over the limit of {allowed} ns (+{percent} %): make the recipe "
        "faster, or accept it with `recipe baseline accept`"
    )
    return Check("p99_increase", passed, f"{now} ns", f"{allowed} ns", "" if passed else message)


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


def _compared(new: Figures, old: Figures) -> str:
    """The new P99 in percent of the old, with one decimal, and the seeds where they differ."""
    now, before = new.latency.p99_ns, old.latency.p99_ns
    tenths = (2000 * now + before) // (2 * before)
    seeds = (new.conditions.seed, old.conditions.seed)
    weather = "" if seeds[0] == seeds[1] else f" (seed {seeds[0]} here, {seeds[1]} there)"
    return f"P99 {now} ns is {tenths // 10}.{tenths % 10} % of the baseline's {before} ns{weather}"
