"""One pair in one night: what was measured, what every stage said, and under which conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType

from stages.comparison.stage_names import STAGES
from stages.errors import Outcome
from stages.evaluation.verdict import Verdict

SKIPPED = "SKIPPED"
"""The verdict of a stage that one before it gave nothing to work on."""

_HARMLESS = frozenset({Verdict.PASS, Verdict.NEW, Verdict.INCONCLUSIVE, ""})


class Figure(StrEnum):
    """What is followed from night to night."""

    P50 = "P50"
    P99 = "P99"
    TAIL = "P99/P50"
    HOT_P99 = "hot P99"
    HOT_TAIL = "hot P99/P50"
    SRAM = "peak SRAM"
    DDR = "peak DDR"
    FALLBACKS = "fallbacks"
    SQNR = "SQNR"


@dataclass(frozen=True, slots=True)
class PairNight:
    """A row of the history. A figure is None where its stage gave none.

    `started` (UTC, ISO 8601) tells one night from another, also where two bear one date.
    `commit` is the project's, empty where it isn't known. `hardware_digest` and `runs` are the
    benchmark's conditions. `sqnr_db` is the worst output's. `verdicts` are those of `STAGES`: a
    verdict, the name of an outcome, or SKIPPED; `reason` says why it isn't PASSED, in a line.
    """

    night: str
    started: str
    seed: int
    commit: str
    model: str
    hardware: str
    outcome: Outcome
    verdicts: tuple[str, ...]
    reason: str = ""
    hardware_digest: str = ""
    runs: int | None = None
    package: str = ""
    p50_ns: int | None = None
    p99_ns: int | None = None
    hot_p50_ns: int | None = None
    hot_p99_ns: int | None = None
    peak_sram_bytes: int | None = None
    peak_ddr_bytes: int | None = None
    fallbacks: int | None = None
    sqnr_db: float | None = None

    @property
    def pair(self) -> tuple[str, str]:
        """The model and the device."""
        return self.model, self.hardware

    @property
    def is_broken(self) -> bool:
        """Whether a stage failed, or said no."""
        return self.outcome is not Outcome.PASSED

    @property
    def failed_stage(self) -> str:
        """The first stage that failed or said no; empty where none did."""
        named = zip(STAGES, self.verdicts, strict=True)
        return next((stage for stage, verdict in named if verdict not in _HARMLESS), "")

    def value(self, figure: Figure) -> Fraction | None:
        """The figure, exactly as it is written."""
        return _VALUES[figure](self)


def _ratio(part: int | None, whole: int | None) -> Fraction | None:
    return None if part is None or not whole else Fraction(part, whole)


def _exact(value: float | None) -> Fraction | None:
    return None if value is None else Fraction(str(value))


_VALUES: Mapping[Figure, Callable[[PairNight], Fraction | None]] = MappingProxyType(
    {
        Figure.P50: lambda row: _exact(row.p50_ns),
        Figure.P99: lambda row: _exact(row.p99_ns),
        Figure.TAIL: lambda row: _ratio(row.p99_ns, row.p50_ns),
        Figure.HOT_P99: lambda row: _exact(row.hot_p99_ns),
        Figure.HOT_TAIL: lambda row: _ratio(row.hot_p99_ns, row.hot_p50_ns),
        Figure.SRAM: lambda row: _exact(row.peak_sram_bytes),
        Figure.DDR: lambda row: _exact(row.peak_ddr_bytes),
        Figure.FALLBACKS: lambda row: _exact(row.fallbacks),
        Figure.SQNR: lambda row: _exact(row.sqnr_db),
    }
)
