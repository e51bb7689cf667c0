"""What moved between this night and earlier ones, pair by pair and figure by figure.

Every night runs with other seeds, so latencies differ a little between nights of one recipe on one
device. A figure counts as moved where it leaves a band that is wider than this noise. It is held
against two things: the latest earlier night that has it, and the median of the last nights on the
same device, which one odd night can't bend. The median has the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from statistics import median
from types import MappingProxyType

from stages.comparison.nights import Figure, PairNight
from stages.comparison.stage_names import STAGES

MEDIAN_NIGHTS = 7
_FEWEST_FOR_MEDIAN = 3
_MEMORY = frozenset({Figure.SRAM, Figure.DDR})
_BETTER_HIGHER = frozenset({Figure.SQNR})


@dataclass(frozen=True, slots=True)
class Bands:
    """How far a figure may stray without having moved: of its reference in percent, SQNR in dB.

    Measured over 12 seeds on 12 pairs of simulated devices (docs/nightly.md): P50 ranges by 0.2 %
    at most; P99 and the ratios of tails have a standard deviation of 1.3 % at most. Bytes,
    fallbacks and SQNR don't depend on seeds; their bands keep trifles out, and any other number of
    fallbacks counts.
    """

    p50_percent: Fraction = Fraction(1)
    p99_percent: Fraction = Fraction(5)
    memory_percent: Fraction = Fraction(1)
    sqnr_db: Fraction = Fraction(1)

    def width(self, figure: Figure, reference: Fraction) -> Fraction:
        """The band around a reference, in the figure's own unit."""
        if figure is Figure.FALLBACKS:
            return Fraction(0)
        if figure is Figure.SQNR:
            return self.sqnr_db
        if figure in _MEMORY:
            return abs(reference) * self.memory_percent / 100
        percent = self.p50_percent if figure is Figure.P50 else self.p99_percent
        return abs(reference) * percent / 100

    def weight(self, figure: Figure, change: Fraction, reference: Fraction) -> float:
        """How much a change matters beside others.

        1 is the band of P99 or of SQNR, or one fallback; bytes count as nanoseconds do.
        """
        if figure is Figure.FALLBACKS:
            return float(abs(change))
        if figure is Figure.SQNR:
            return float(abs(change) / self.sqnr_db)
        return float(abs(change) * 100 / (max(abs(reference), Fraction(1)) * self.p99_percent))


class Timing(StrEnum):
    """When a figure moved."""

    TONIGHT = "tonight"
    LASTING = "earlier"
    """It equals the night before and still isn't the median: it moved nights ago, or crept."""
    RETURNED = "back to usual"
    """It equals the median again: the night before was the odd one."""


class Cause(StrEnum):
    """What else changed since the night that the figure is held against."""

    RECIPE = "recipe changed"
    DEVICE = "hardware spec changed"
    RUNS = "number of runs changed"
    WEATHER = "same recipe"
    """Seeds alone differ; on a real device, its surroundings too."""


@dataclass(frozen=True, slots=True)
class Move:
    """A figure that left its band.

    `before` is the latest earlier value; `usual` the median, None where too few nights have one.
    `change` is against the median where there is one (the night before, where it returned), in the
    figure's unit; positive is more. `weight` orders moves of different figures.
    """

    figure: Figure
    timing: Timing
    after: Fraction
    before: Fraction
    usual: Fraction | None
    change: Fraction
    weight: float

    @property
    def is_worse(self) -> bool:
        """Whether more is worse and it is more, or the reverse."""
        return (self.change > 0) is not (self.figure in _BETTER_HIGHER)

    @property
    def reference(self) -> Fraction:
        """What `change` is counted from."""
        return self.after - self.change


@dataclass(frozen=True, slots=True)
class PairDrift:
    """A pair tonight, the night before that it is held against, and its moves, heaviest first."""

    tonight: PairNight
    before: PairNight | None
    moves: tuple[Move, ...] = ()
    cause: Cause = Cause.WEATHER

    @property
    def worse(self) -> tuple[Move, ...]:
        """Moves to the worse that stand."""
        return tuple(m for m in self.moves if m.is_worse and m.timing is not Timing.RETURNED)

    @property
    def better(self) -> tuple[Move, ...]:
        """Moves to the better that stand."""
        return tuple(m for m in self.moves if not m.is_worse and m.timing is not Timing.RETURNED)

    @property
    def is_newly_broken(self) -> bool:
        """Whether it is broken, and wasn't the night before."""
        return self.tonight.is_broken and not (self.before is not None and self.before.is_broken)


@dataclass(frozen=True, slots=True)
class Drift:
    """Every pair of the night in exactly one list; each list has its worst first.

    `gone` are pairs of the night before that this one hasn't.
    """

    broken: tuple[PairDrift, ...] = ()
    regressions: tuple[PairDrift, ...] = ()
    improvements: tuple[PairDrift, ...] = ()
    mended: tuple[PairDrift, ...] = ()
    returned: tuple[PairDrift, ...] = ()
    unchanged: tuple[PairDrift, ...] = ()
    first: tuple[PairDrift, ...] = ()
    gone: tuple[tuple[str, str], ...] = ()

    @property
    def newly_broken(self) -> tuple[PairDrift, ...]:
        """Those that were sound the night before."""
        return tuple(pair for pair in self.broken if pair.is_newly_broken)


@dataclass(slots=True)
class _Lists:
    """Lists being filled."""

    broken: list[PairDrift] = field(default_factory=list)
    regressions: list[PairDrift] = field(default_factory=list)
    improvements: list[PairDrift] = field(default_factory=list)
    mended: list[PairDrift] = field(default_factory=list)
    returned: list[PairDrift] = field(default_factory=list)
    unchanged: list[PairDrift] = field(default_factory=list)
    first: list[PairDrift] = field(default_factory=list)

    def of(self, pair: PairDrift) -> list[PairDrift]:
        """The list that a pair belongs to."""
        if pair.tonight.is_broken:
            return self.broken
        if pair.worse:
            return self.regressions
        if pair.before is None:
            return self.first
        if pair.before.is_broken:
            return self.mended
        if pair.better:
            return self.improvements
        return self.returned if pair.moves else self.unchanged


def compare_nights(
    tonight: Sequence[PairNight],
    earlier: Sequence[PairNight],
    bands: Bands | None = None,
    nights: int = MEDIAN_NIGHTS,
) -> Drift:
    """What moved; `earlier` holds rows of earlier nights, oldest first.

    Only the order of `earlier` within one pair matters, and of nights for `gone`.
    """
    by_pair: dict[tuple[str, str], list[PairNight]] = {}
    for row in earlier:
        by_pair.setdefault(row.pair, []).append(row)
    lists = _Lists()
    for row in tonight:
        drift = compare_pair(row, by_pair.get(row.pair, ()), bands or Bands(), nights)
        lists.of(drift).append(drift)
    return Drift(
        broken=tuple(sorted(lists.broken, key=_by_gravity)),
        regressions=tuple(sorted(lists.regressions, key=lambda pair: _by_weight(pair, pair.worse))),
        improvements=tuple(
            sorted(lists.improvements, key=lambda pair: _by_weight(pair, pair.better))
        ),
        mended=tuple(sorted(lists.mended, key=_by_name)),
        returned=tuple(sorted(lists.returned, key=lambda pair: _by_weight(pair, pair.moves))),
        unchanged=tuple(sorted(lists.unchanged, key=_by_name)),
        first=tuple(sorted(lists.first, key=_by_name)),
        gone=_gone(tonight, earlier),
    )


def compare_pair(
    tonight: PairNight, earlier: Sequence[PairNight], bands: Bands, nights: int
) -> PairDrift:
    """What moved in one pair; `earlier` are its own rows, oldest first."""
    found = (_move(figure, tonight, earlier, bands, nights) for figure in Figure)
    moves = sorted(
        (move for move in found if move is not None),
        key=lambda move: (not move.is_worse, -move.weight, list(Figure).index(move.figure)),
    )
    before = earlier[-1] if earlier else None
    lasting = any(move.timing is Timing.LASTING for move in moves)
    measured = [row for row in earlier if row.package]
    cause = _cause(tonight, measured[-nights:] if lasting else measured[-1:])
    return PairDrift(tonight, before, tuple(moves), cause)


def _move(
    figure: Figure, tonight: PairNight, earlier: Sequence[PairNight], bands: Bands, nights: int
) -> Move | None:
    after = tonight.value(figure)
    known = [(row, value) for row in earlier if (value := row.value(figure)) is not None]
    if after is None or not known:
        return None
    before = known[-1][1]
    alike = [value for row, value in known if _are_alike(row, tonight)][-nights:]
    usual = median(alike) if len(alike) >= _FEWEST_FOR_MEDIAN else None
    since_before = _side(figure, after, before, bands)
    since_usual = since_before if usual is None else _side(figure, after, usual, bands)
    if not since_before and not since_usual:
        return None
    if not since_usual:
        timing, reference = Timing.RETURNED, before
    else:
        timing = Timing.TONIGHT if since_before == since_usual else Timing.LASTING
        reference = before if usual is None else usual
    change = after - reference
    weight = bands.weight(figure, change, reference)
    return Move(figure, timing, after, before, usual, change, weight)


def _side(figure: Figure, after: Fraction, reference: Fraction, bands: Bands) -> int:
    """-1 or 1 where the value lies below or above the reference's band, 0 within it."""
    distance = after - reference
    if abs(distance) <= bands.width(figure, reference):
        return 0
    return 1 if distance > 0 else -1


def _are_alike(one: PairNight, other: PairNight) -> bool:
    """Whether two nights were measured on the same device, equally often."""
    return _conditions(one) == _conditions(other)


def _conditions(row: PairNight) -> tuple[str, int | None]:
    return row.hardware_digest, row.runs


def _cause(tonight: PairNight, earlier: Iterable[PairNight]) -> Cause:
    rows = list(earlier)
    for cause, kind in _CAUSES.items():
        if any(getattr(row, kind) != getattr(tonight, kind) for row in rows):
            return cause
    return Cause.WEATHER


_CAUSES: Mapping[Cause, str] = MappingProxyType(
    {Cause.DEVICE: "hardware_digest", Cause.RUNS: "runs", Cause.RECIPE: "package"}
)
"""The strongest first: another spec makes another recipe too."""


def _gone(
    tonight: Sequence[PairNight], earlier: Sequence[PairNight]
) -> tuple[tuple[str, str], ...]:
    if not earlier:
        return ()
    latest = earlier[-1].started
    there = {row.pair for row in tonight}
    return tuple(
        sorted({row.pair for row in earlier if row.started == latest and row.pair not in there})
    )


def _by_gravity(pair: PairDrift) -> tuple[bool, int, tuple[str, str]]:
    stage = pair.tonight.failed_stage
    position = STAGES.index(stage) if stage else len(STAGES)
    return not pair.is_newly_broken, position, pair.tonight.pair


def _by_weight(pair: PairDrift, moves: Sequence[Move]) -> tuple[float, tuple[str, str]]:
    return -max(move.weight for move in moves), pair.tonight.pair


def _by_name(pair: PairDrift) -> tuple[str, str]:
    return pair.tonight.pair
