"""The reasons of the merge gate in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from stages.comparison.merge_facts import Failure, HostOperator, SideFacts
from stages.evaluation.latency import LatencySummary, ratio_text

P99_CURE = "make the recipe faster, or let it in with `recipe baseline accept` on the same branch"
_OPERATORS_NAMED = 4
_LEADING = frozenset({"cast", "relayout"})
_MOST_DECIMALS = 6
_STAGE_WORDS = {"validate": "validation", "thermal_stress": "stress"}
_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3))


def time_text(duration_ns: int) -> str:
    """A latency with three decimals: `1.204 ms`; below 1 us in whole nanoseconds."""
    for unit, factor in _UNITS:
        if duration_ns >= factor:
            return f"{ratio_text(Fraction(duration_ns, factor))} {unit}"
    return f"{duration_ns} ns"


def percent_text(percent: Fraction, decimals: int = 1) -> str:
    """A change with its sign, rounded half away from zero: `+142.0 %`, `-2.1 %`, `0.0 %`."""
    scaled = abs(percent) * 10**decimals
    digits = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    whole, rest = divmod(digits, 10**decimals)
    sign = "" if digits == 0 else "-" if percent < 0 else "+"
    return f"{sign}{whole}.{rest:0{decimals}d} %"


def change_over(percent: Fraction, limit_percent: int) -> str:
    """A change that is over its limit, with as many decimals as it takes to see that."""
    for decimals in range(1, _MOST_DECIMALS):
        text = percent_text(percent, decimals)
        if Fraction(text.removesuffix(" %")) > limit_percent:
            return text
    return percent_text(percent, _MOST_DECIMALS)


def change_percent(before_ns: int, after_ns: int) -> Fraction:
    """The change in percent of what was before."""
    return Fraction((after_ns - before_ns) * 100, before_ns)


def p99_reason(
    base: LatencySummary, head: LatencySummary, limit_percent: int, causes: Sequence[str]
) -> str:
    """A P99 over its limit, and what explains it."""
    change = change_over(change_percent(base.p99_ns, head.p99_ns), limit_percent)
    return "; ".join(
        (f"{_p99_move(base, head)} ({change}, limit +{limit_percent} %)", *causes),
    )


def p99_note(base: LatencySummary, head: LatencySummary, causes: Sequence[str]) -> str:
    """A P99 within its limit, or accepted; what explains it only where it is slower."""
    if base.p99_ns == head.p99_ns:
        return f"P99 {time_text(head.p99_ns)}, as before"
    change = percent_text(change_percent(base.p99_ns, head.p99_ns))
    explained = causes if head.p99_ns > base.p99_ns else ()
    return "; ".join((f"{_p99_move(base, head)} ({change})", *explained))


def _p99_move(base: LatencySummary, head: LatencySummary) -> str:
    return f"P99 {time_text(base.p99_ns)} -> {time_text(head.p99_ns)}"


def p99_alone(head: LatencySummary) -> str:
    """The latency of a pair that has nothing to be compared with."""
    return f"P99 {time_text(head.p99_ns)}, P99/P50 {ratio_text(head.p99_over_p50)}"


def causes(base: SideFacts, head: SideFacts, newly_hosted: Sequence[HostOperator]) -> list[str]:
    """What makes a recipe slower, as far as its structure tells."""
    found = []
    if newly_hosted:
        found.append(f"now on the host: {operators_text(newly_hosted)}")
    before, after = base.fused_groups, head.fused_groups
    if before is not None and after is not None and after < before:
        found.append(f"fused groups {before} -> {after}")
    return found


def operators_text(operators: Sequence[HostOperator]) -> str:
    """Operators by the reason why they are on the host, the first of each reason named."""
    by_reason: dict[str, list[HostOperator]] = {}
    for operator in operators:
        by_reason.setdefault(operator.reason, []).append(operator)
    return ", ".join(f"{_named(found)} ({reason})" for reason, found in by_reason.items())


def _named(operators: Sequence[HostOperator]) -> str:
    """The model's own operators; those that only lead to them where there are no others."""
    operators = [item for item in operators if item.kind not in _LEADING] or operators
    names = ", ".join(operator.name for operator in operators[:_OPERATORS_NAMED])
    more = len(operators) - _OPERATORS_NAMED
    return f"{names} and {more} more" if more > 0 else names


def failure_text(failure: Failure) -> str:
    """A failure in one line; place and cure are left to the details."""
    return f"{stage_word(failure.stage)} failed: {first_line(failure.message)}"


def stage_word(stage: str) -> str:
    """The stage as it stands in a sentence."""
    return _STAGE_WORDS.get(stage, stage)


def first_line(text: str) -> str:
    """The first line that holds something; errors end theirs with place and hint."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")


def fixed_text(failures: Iterable[Failure]) -> str:
    """What base failed and head passes."""
    words = dict.fromkeys(stage_word(failure.stage) for failure in failures)
    return f"fixed: {', '.join(words)}"
