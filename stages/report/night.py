"""A night for people: what broke and what moved, worst first, as Markdown and as table rows.

Equal nights give equal text: no clock, no path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from stages.comparison.drift import Drift, Move, PairDrift, Timing
from stages.comparison.nights import Figure, PairNight
from stages.comparison.stage_names import STAGES
from stages.evaluation.latency import ratio_text
from stages.report.markdown import escape
from stages.units import format_bytes, format_ns

_NANOSECONDS = frozenset({Figure.P50, Figure.P99, Figure.HOT_P99})
_BYTES = frozenset({Figure.SRAM, Figure.DDR})
_SHORT_COMMIT = 10
_MOST_NAMED = 12


@dataclass(frozen=True, slots=True)
class NightHeading:
    """What stands under the headline. `notes` are said as they are, such as a mended history."""

    night: str
    seed: int | None
    commit: str
    earlier_nights: int
    notes: tuple[str, ...] = ()


def night_headline(drift: Drift) -> str:
    """The night in one line, worst first: `1 of 24 pairs newly broken; 2 worse, 21 unchanged`."""
    newly = len(drift.newly_broken)
    counts = (
        (newly, "newly broken"),
        (len(drift.broken) - newly, "still broken"),
        (len(drift.regressions), "worse"),
        (len(drift.improvements), "better"),
        (len(drift.mended), "mended"),
        (len(drift.returned), "back to usual"),
        (len(drift.first), "new"),
        (len(drift.unchanged), "unchanged"),
        (len(drift.gone), "gone"),
    )
    said = [f"{count} {what}" for count, what in counts if count]
    total = sum(count for count, _ in counts) - len(drift.gone)
    return f"{total} pair{'' if total == 1 else 's'}: {', '.join(said) or 'nothing ran'}"


def night_markdown(headline: str, heading: NightHeading, drift: Drift) -> str:
    """Broken pairs, then regressions worst first, then improvements, then the rest by name."""
    blocks = [
        f"**{escape(headline)}**",
        _heading(heading),
        *(f"> {escape(note)}" for note in heading.notes),
        *_broken(drift.broken),
        *_moved("Worse", drift.regressions),
        *_moved("Better", drift.improvements),
        *_moved("Back to usual", drift.returned),
        *_named("Mended", drift.mended),
        *_named("New", drift.first),
        *_names("Gone", [f"{model} on {hardware}" for model, hardware in drift.gone]),
    ]
    return "\n\n".join(blocks) + "\n"


def night_table(drift: Drift) -> list[dict[str, str]]:
    """A row for each pair, in the order of the summary, with its figures in words."""
    return [
        _table_row(standing, pair)
        for standing, pairs in (
            ("broken", drift.broken),
            ("worse", drift.regressions),
            ("better", drift.improvements),
            ("mended", drift.mended),
            ("back to usual", drift.returned),
            ("new", drift.first),
            ("unchanged", drift.unchanged),
        )
        for pair in pairs
    ]


def value_text(figure: Figure, value: Fraction | None) -> str:
    """A figure with its unit; a dash where there is none."""
    if value is None:
        return "-"
    if figure in _NANOSECONDS:
        return format_ns(round(value))
    if figure in _BYTES:
        return format_bytes(round(value))
    if figure is Figure.FALLBACKS:
        return f"{float(value):g}"
    return f"{float(value):.1f} dB" if figure is Figure.SQNR else ratio_text(value)


def change_text(move: Move) -> str:
    """How far a figure moved: in percent, decibels, or operators."""
    if move.figure is Figure.SQNR:
        return f"{float(move.change):+.1f} dB"
    if move.figure is Figure.FALLBACKS or not move.reference:
        return f"{float(move.change):+g}"
    return f"{float(100 * move.change / move.reference):+.1f} %"


def _heading(heading: NightHeading) -> str:
    parts = [f"Night {heading.night}"]
    if heading.seed is not None:
        parts.append(f"seed {heading.seed}")
    if heading.commit:
        sha, plus, changes = heading.commit.partition("+")
        parts.append(f"project {sha[:_SHORT_COMMIT]}{plus}{changes}")
    earlier = heading.earlier_nights
    parts.append(f"compared with {_counted(earlier, 'earlier night')}" if earlier else "the first")
    return escape(", ".join(parts))


def _broken(pairs: Sequence[PairDrift]) -> Iterator[str]:
    if not pairs:
        return
    groups: dict[tuple[str, ...], list[str]] = {}
    for pair in pairs:
        row = pair.tonight
        said = row.outcome.name.lower().replace("_", " ")
        since = "" if pair.is_newly_broken else ", not for the first night"
        what = f"{row.failed_stage}: {said}{since}" + (f": {row.reason}" if row.reason else "")
        groups.setdefault((row.model, what), []).append(row.hardware)
    lines = [
        f"- **{escape(f'{model} on ' + ', '.join(devices))}**, {escape(what)}"
        for (model, what), devices in groups.items()
    ]
    yield "\n".join(["### Broken", "", *lines])
    yield from _moved("Broken, and moved", [pair for pair in pairs if pair.moves])


def _moved(title: str, pairs: Sequence[PairDrift]) -> Iterator[str]:
    if not pairs:
        return
    lines = [
        f"### {title}",
        "",
        "| model | device | figure | change | tonight | before | usual | why |",
        "|---|---|---|--:|--:|--:|--:|---|",
    ]
    for pair in pairs:
        name = (pair.tonight.model, pair.tonight.hardware)
        for index, move in enumerate(pair.moves):
            cells = (
                move.figure,
                change_text(move),
                value_text(move.figure, move.after),
                value_text(move.figure, move.before),
                value_text(move.figure, move.usual),
                ", ".join(_why(pair, index)),
            )
            lines.append(_cells(*(name if index == 0 else ("", "")), *cells))
    yield "\n".join(lines)


def _why(pair: PairDrift, index: int) -> Iterator[str]:
    """The cause beside the first figure, and when it moved where that isn't tonight."""
    if index == 0:
        yield pair.cause
    if pair.moves[index].timing is not Timing.TONIGHT:
        yield pair.moves[index].timing


def _named(title: str, pairs: Sequence[PairDrift]) -> Iterator[str]:
    return _names(title, [f"{pair.tonight.model} on {pair.tonight.hardware}" for pair in pairs])


def _names(title: str, names: Sequence[str]) -> Iterator[str]:
    if not names:
        return
    rest = len(names) - _MOST_NAMED
    tail = f" and {rest} more" if rest > 0 else ""
    yield f"{title}: {escape(', '.join(names[:_MOST_NAMED]))}{tail}"


def _table_row(standing: str, pair: PairDrift) -> dict[str, str]:
    row = pair.tonight
    figures = {str(figure): value_text(figure, row.value(figure)) for figure in Figure}
    return {
        "pair": f"{row.model} on {row.hardware}",
        "standing": standing,
        "what": _what(pair),
        **figures,
        "gate": _verdict(row, "gate"),
    }


def _what(pair: PairDrift) -> str:
    if pair.tonight.is_broken:
        return f"{pair.tonight.failed_stage}: {pair.tonight.reason}"
    shown = [f"{move.figure} {change_text(move)}" for move in pair.moves]
    said = ", ".join(shown)
    timing = pair.moves[0].timing if pair.moves else Timing.TONIGHT
    return f"{said} ({timing}, {pair.cause})" if said else ""


def _verdict(row: PairNight, stage: str) -> str:
    return row.verdicts[STAGES.index(stage)]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _cells(*cells: str) -> str:
    return f"| {' | '.join(escape(cell) for cell in cells)} |"
