"""What the merge gate's reports are made of, and their first line."""

from __future__ import annotations

from dataclasses import dataclass

from stages.comparison.merge_rule import MergeJudgement, PairJudgement, PairVerdict
from stages.comparison.merge_words import percent_text
from stages.evaluation.verdict import Verdict

_COUNTED = {
    PairVerdict.FAIL: "failing",
    PairVerdict.NEW_FAIL: "new and failing",
    PairVerdict.STILL_FAILING: "still failing",
    PairVerdict.ACCEPTED: "slower and accepted",
    PairVerdict.FIXED: "fixed",
    PairVerdict.NEW: "new",
    PairVerdict.PASS: "changed within the limits",
    PairVerdict.DELETED: "deleted",
    PairVerdict.UNCHANGED: "with equal results",
}


@dataclass(frozen=True, slots=True)
class MergeReport:
    """A judged merge.

    `base` and `head` name what was compared, `repository` the model repository (empty: the
    pipeline's own). `untouched` pairs depend on nothing that differs, and weren't run. `notes` are
    for the reader: what couldn't be compared, and why.
    """

    judgement: MergeJudgement
    base: str
    head: str
    repository: str
    limit_percent: int
    untouched: int = 0
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Tells this gate's comment from those of others on the same pull request."""
        return self.repository or "pipeline"


def headline(report: MergeReport) -> str:
    """The verdict and the worst reason, in one line."""
    judgement = report.judgement
    if judgement.verdict is Verdict.FAIL:
        worst = judgement.pairs[0]
        new = " (new)" if worst.verdict is PairVerdict.NEW_FAIL else ""
        others = sum(pair.blocks for pair in judgement.pairs) - 1
        more = f" (and {others} more pair{'s' if others > 1 else ''})" if others else ""
        return f"FAIL: {worst.subject}{new}: {worst.reasons[0]}{more}"
    if not judgement.pairs:
        return f"PASS: no pair is affected ({report.untouched} untouched)"
    return f"PASS: {counts(report)}{_slowest(judgement)}"


def counts(report: MergeReport) -> str:
    """How many pairs came to which verdict."""
    pairs = report.judgement.pairs
    named = [
        f"{count} {words}"
        for verdict, words in _COUNTED.items()
        if (count := len(report.judgement.having(verdict)))
    ]
    compared = f"{len(pairs)} pair{'' if len(pairs) == 1 else 's'} compared"
    untouched = f"; {report.untouched} untouched" if report.untouched else ""
    return f"{compared}: {', '.join(named) or 'none'}{untouched}"


def _slowest(judgement: MergeJudgement) -> str:
    """The largest increase among those that pass."""
    slower = [pair for pair in judgement.pairs if _change(pair) > 0]
    if not slower:
        return ""
    worst = max(slower, key=_change)
    change = worst.p99_change_percent
    assert change is not None
    return f"; P99 at worst {percent_text(change)}, {worst.subject}"


def _change(pair: PairJudgement) -> float:
    change = pair.p99_change_percent
    return 0.0 if change is None else float(change)
