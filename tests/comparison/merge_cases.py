"""Pairs before and after a merge, made by hand."""

from __future__ import annotations

from stages.comparison.merge_facts import (
    Accuracy,
    Failure,
    HostOperator,
    PairSides,
    SideFacts,
)
from stages.comparison.stage_names import STAGES
from stages.errors import Outcome
from stages.evaluation.latency import LatencySummary

ALL = frozenset(STAGES)
SOFTSIGN = HostOperator("Softsign_3", "softsign", "npu_tiny has no softsign")
REFUSED = Failure(
    "compile", "", Outcome.COMPILE_REFUSED, "%x needs 9 bytes more\nat: conv1\nhint: smaller tiles"
)
INACCURATE = Failure("validate", "accuracy", Outcome.VALIDATION_FAILED, "cosine 0.9, below 0.999")
LONG_TAIL = Failure("gate", "p99_over_p50", Outcome.GATE_FAILED, "P99/P50 is 1.6, over 1.5")
HOT_TAIL = Failure("thermal_stress", "p99_over_p50", Outcome.STRESS_FAILED, "P99/P50 hot is 2.1")


def latency(p99_ns: int, p50_ns: int = 1_000_000) -> LatencySummary:
    """A session with these percentiles."""
    return LatencySummary(1000, 1, p50_ns, p50_ns, p99_ns, max(p99_ns, p50_ns), p50_ns)


def side(
    p99_ns: int = 1_204_000,
    failures: tuple[Failure, ...] = (),
    fallbacks: tuple[HostOperator, ...] = (),
    package: str = "a1",
    accepted: str = "",
    fused_groups: int = 12,
) -> SideFacts:
    """A side on which every stage gave a report."""
    return SideFacts(
        answered=ALL,
        failures=failures,
        package=package,
        samples=f"samples of {p99_ns}",
        accepted_package=accepted,
        latency=latency(p99_ns),
        hot=latency(p99_ns + 300_000),
        sram_bytes=200 * 1024,
        ddr_bytes=3 * 1024 * 1024,
        fused_groups=fused_groups,
        fallbacks=fallbacks,
        accuracy=Accuracy(cosine=0.99999, relative_error=0.0004),
    )


def refused_side() -> SideFacts:
    """A side whose compile found no recipe, so that nothing came after it."""
    return SideFacts(answered=frozenset({"normalize"}), failures=(REFUSED,))


def sides(
    base: SideFacts | None,
    head: SideFacts | None,
    model: str = "net_b",
    hardware: str = "npu_tiny",
) -> PairSides:
    """A pair."""
    return PairSides(model, hardware, base, head)
