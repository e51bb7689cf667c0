"""What the merge gate compares: the facts of one pair in the base of a merge and in its head."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from stages.errors import Outcome
from stages.evaluation.latency import LatencySummary


@dataclass(frozen=True, slots=True)
class Failure:
    """What a stage said no to.

    `check` is what it looked at; it is empty where the stage gave no report at all. `message` says
    what is wrong, and may hold more lines with the place and the cure.
    """

    stage: str
    check: str
    outcome: Outcome
    message: str


@dataclass(frozen=True, slots=True)
class HostOperator:
    """A fallback: an operator on the host, its kind, and why it is there."""

    name: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The worst of all outputs and samples; None where a figure doesn't apply."""

    cosine: float | None = None
    relative_error: float | None = None
    sqnr_db: float | None = None


@dataclass(frozen=True, slots=True)
class SideFacts:
    """A pair as one side of the merge has it; None, or empty, where no stage said it.

    `answered` are the stages that gave a report. `package` is the package's hash, `samples` a
    digest of its latencies, and `accepted_package` the hash of the package that the baseline holds.
    """

    answered: frozenset[str] = frozenset()
    failures: tuple[Failure, ...] = ()
    package: str = ""
    samples: str = ""
    accepted_package: str = ""
    latency: LatencySummary | None = None
    hot: LatencySummary | None = None
    sram_bytes: int | None = None
    ddr_bytes: int | None = None
    fused_groups: int | None = None
    fallbacks: tuple[HostOperator, ...] = ()
    accuracy: Accuracy = field(default_factory=Accuracy)


@dataclass(frozen=True, slots=True)
class PairSides:
    """One model on one device, before and after. A side is None where it has no such pair."""

    model: str
    hardware: str
    base: SideFacts | None
    head: SideFacts | None


class Metric(StrEnum):
    """What is compared, named with its unit."""

    P50 = "p50_ns"
    P99 = "p99_ns"
    TAIL = "p99_over_p50"
    HOT_TAIL = "hot_p99_over_p50"
    SRAM = "peak_sram_bytes"
    DDR = "peak_ddr_bytes"
    FUSED_GROUPS = "fused_groups"
    FALLBACKS = "fallbacks"
    COSINE = "cosine"
    RELATIVE_ERROR = "relative_error"
    SQNR = "sqnr_db"


@dataclass(frozen=True, slots=True)
class Delta:
    """A metric before and after; None where a side doesn't know it."""

    metric: Metric
    before: Fraction | None
    after: Fraction | None

    @property
    def change_percent(self) -> Fraction | None:
        """The change in percent of what was before; None where there is no such thing."""
        if not self.before or self.after is None:
            return None
        return (self.after - self.before) * 100 / self.before


def deltas(base: SideFacts | None, head: SideFacts | None) -> tuple[Delta, ...]:
    """Every metric that a side knows, in the order of `Metric`."""
    before = figures(base) if base is not None else {}
    after = figures(head) if head is not None else {}
    return tuple(
        Delta(metric, before.get(metric), after.get(metric))
        for metric in Metric
        if metric in before or metric in after
    )


def figures(side: SideFacts) -> dict[Metric, Fraction]:
    """The metrics that a side knows, exactly."""
    known: dict[Metric, Fraction | int | float | None] = {
        Metric.SRAM: side.sram_bytes,
        Metric.DDR: side.ddr_bytes,
        Metric.FUSED_GROUPS: side.fused_groups,
        Metric.FALLBACKS: len(side.fallbacks) if "validate" in side.answered else None,
        Metric.COSINE: side.accuracy.cosine,
        Metric.RELATIVE_ERROR: side.accuracy.relative_error,
        Metric.SQNR: side.accuracy.sqnr_db,
    }
    if side.latency is not None:
        known |= {
            Metric.P50: side.latency.p50_ns,
            Metric.P99: side.latency.p99_ns,
            Metric.TAIL: side.latency.p99_over_p50,
        }
    if side.hot is not None:
        known[Metric.HOT_TAIL] = side.hot.p99_over_p50
    return {metric: _exact(value) for metric, value in known.items() if value is not None}


def _exact(value: Fraction | int | float) -> Fraction:
    """A float as it is printed."""
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
