"""The merge gate's report in Markdown: a job summary, and the comment on a pull request.

Equal facts give equal text: no clock, no path, no machine. Where it would be longer than a comment
can be, the least important is left out, and a line says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from stages.comparison.merge_facts import Metric
from stages.comparison.merge_rule import PairJudgement, PairVerdict
from stages.comparison.merge_words import stage_word
from stages.report.merge_cells import ACCURACY, TITLES, cell
from stages.report.merge_report import MergeReport, counts, headline
from stages.report.merge_text import clip, code_block, html_literal, literal

MOST_CHARACTERS = 65_536
"""GitHub's limit for a comment."""

_ARROW = "→"
_LONGEST_NAME = 200
_LONGEST_REASON = 1_000
_LONGEST_MESSAGE = 3_000
_MOST_REASONS = 20
_FIRST_ROWS = 20
_FIRST_DETAILS = 5
_COLUMNS = (
    (TITLES[Metric.P50], (Metric.P50,)),
    (TITLES[Metric.P99], (Metric.P99,)),
    (TITLES[Metric.TAIL], (Metric.TAIL,)),
    (TITLES[Metric.HOT_TAIL], (Metric.HOT_TAIL,)),
    (TITLES[Metric.SRAM], (Metric.SRAM,)),
    (TITLES[Metric.DDR], (Metric.DDR,)),
    (TITLES[Metric.FALLBACKS], (Metric.FALLBACKS,)),
    ("accuracy", ACCURACY),
)
_EXPLAINED = frozenset(
    {PairVerdict.FAIL, PairVerdict.NEW_FAIL, PairVerdict.STILL_FAILING, PairVerdict.ACCEPTED}
)
_Shown = tuple[int, int, int]
_NOT_IN_KEY = re.compile(r"[^A-Za-z0-9_./-]|--+")


def marker(key: str) -> str:
    """The comment, unseen, by which a gate finds its own text again."""
    return f"<!-- recipe merge gate: {_NOT_IN_KEY.sub('_', key)} -->"


def merge_markdown(report: MergeReport, most_characters: int = MOST_CHARACTERS) -> str:
    """Verdict and worst reason; a table of all pairs that changed; what failed; what didn't change.

    The last line is the marker. Never longer than `most_characters`, of which it needs some 4,000.
    """
    pairs = report.judgement.pairs
    changed = [pair for pair in pairs if pair.verdict is not PairVerdict.UNCHANGED]
    parts = _Parts(
        top=_top(report),
        rows=[_row(pair) for pair in changed],
        details=[_details(pair) for pair in changed if pair.verdict in _EXPLAINED],
        unchanged=[
            literal(clip(pair.subject, _LONGEST_NAME))
            for pair in report.judgement.having(PairVerdict.UNCHANGED)
        ],
        marker=marker(report.key),
    )
    return _fitting(parts, sum(pair.blocks for pair in changed), most_characters)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The text in pieces, each list most important first."""

    top: str
    rows: Sequence[str]
    details: Sequence[str]
    unchanged: Sequence[str]
    marker: str

    def text(self, rows: int, details: int, unchanged: int) -> str:
        """The text with so many of each."""
        blocks = [self.top]
        if rows:
            blocks.append("\n".join((*_TABLE_HEAD, *self.rows[:rows])))
        blocks += self.details[:details]
        if unchanged:
            count = len(self.unchanged)
            blocks.append(
                f"<details><summary>{count} pair{'' if count == 1 else 's'} with equal results"
                f"</summary>\n\n{', '.join(self.unchanged[:unchanged])}\n\n</details>"
            )
        left = [
            f"{total - shown} {what}"
            for total, shown, what in (
                (len(self.rows), rows, "rows of the table"),
                (len(self.details), details, "failures' details"),
                (len(self.unchanged), unchanged, "names of pairs with equal results"),
            )
            if shown < total
        ]
        if left:
            blocks.append(
                f"Left out, since a comment can't be longer: {', '.join(left)}. "
                "They are in report.json."
            )
        return "\n\n".join((*blocks, self.marker)) + "\n"


def _fitting(parts: _Parts, blocking: int, most_characters: int) -> str:
    """As much as fits; what blocks the merge comes first, the names of unchanged pairs last."""

    def fits(shown: _Shown) -> bool:
        return _length(parts.text(*shown)) <= most_characters

    most = (len(parts.rows), len(parts.details), len(parts.unchanged))
    shown: _Shown = most if fits(most) else (0, 0, 0)
    for rows, details in ((_FIRST_ROWS, _FIRST_DETAILS), (blocking, blocking), most[:2]):
        shown = _raised(shown, 0, min(rows, most[0]), fits)
        shown = _raised(shown, 1, min(details, most[1]), fits)
    return parts.text(*_raised(shown, 2, most[2], fits))


def _raised(shown: _Shown, place: int, most: int, fits: Callable[[_Shown], bool]) -> _Shown:
    """One of the counts raised as far as fits, up to `most`; what is shown already fits."""

    def with_count(count: int) -> _Shown:
        counts = list(shown)
        counts[place] = count
        rows, details, unchanged = counts
        return rows, details, unchanged

    fitting = _most(shown[place], most, lambda count: fits(with_count(count)))
    return with_count(max(shown[place], fitting))


def _most(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The largest count from `low` to `high` that fits; `low` is known to."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _length(text: str) -> int:
    """In UTF-16 units, the largest of what services count."""
    return len(text.encode("utf-16-le")) // 2


def _top(report: MergeReport) -> str:
    subject = f"{literal(report.repository)}: " if report.repository else ""
    lines = [
        f"### {literal(clip(headline(report), _LONGEST_REASON))}",
        "",
        f"{subject}{literal(clip(report.base, _LONGEST_NAME))} {_ARROW} "
        f"{literal(clip(report.head, _LONGEST_NAME))}. {counts(report)}. "
        f"P99 may grow by {report.limit_percent} %.",
    ]
    lines += [
        f"\n> {literal(clip(note, _LONGEST_REASON))}" for note in report.notes[:_MOST_REASONS]
    ]
    return "\n".join(lines)


_TABLE_HEAD = (
    "| " + " | ".join(("pair", "verdict", *(title for title, _ in _COLUMNS))) + " |",
    "| " + " | ".join(("---", "---", *("---" for _ in _COLUMNS))) + " |",
)


def _row(pair: PairJudgement) -> str:
    name = literal(clip(pair.subject, _LONGEST_NAME))
    verdict = f"**{pair.verdict.value}**" if pair.blocks else pair.verdict.value
    found = pair.deltas
    cells = [cell(found, *metrics, arrow=_ARROW) for _, metrics in _COLUMNS]
    return "| " + " | ".join((name, verdict, *cells)) + " |"


def _details(pair: PairJudgement) -> str:
    subject = html_literal(clip(pair.subject, _LONGEST_NAME))
    state = " open" if pair.blocks else ""
    reasons = [f"- {literal(clip(text, _LONGEST_REASON))}" for text in pair.reasons[:_MOST_REASONS]]
    return "\n".join(
        (
            f"<details{state}><summary>{subject}: {pair.verdict.value}</summary>",
            "",
            *reasons,
            *_moved(pair),
            *_messages(pair),
            "",
            "</details>",
        )
    )


def _moved(pair: PairJudgement) -> Iterator[str]:
    """Operators that came to the host or left it."""
    for title, operators in (
        ("now on the host", pair.newly_hosted),
        ("no longer on the host", pair.no_longer_hosted),
    ):
        if operators:
            yield f"- {title}:"
        for operator in operators[:_MOST_REASONS]:
            text = f"{operator.name}, {operator.kind}: {operator.reason}"
            yield f"  - {literal(clip(text, _LONGEST_REASON))}"
        if len(operators) > _MOST_REASONS:
            yield f"  - and {len(operators) - _MOST_REASONS} more"


def _messages(pair: PairJudgement) -> Iterator[str]:
    """The failures whose messages have a place and a cure in lines of their own."""
    failures = pair.sides.head.failures if pair.sides.head else ()
    whole = [failure for failure in failures if "\n" in failure.message.strip()]
    for failure in whole[:_MOST_REASONS]:
        yield ""
        yield f"{stage_word(failure.stage)}:"
        yield ""
        yield code_block(clip(failure.message.strip(), _LONGEST_MESSAGE))
