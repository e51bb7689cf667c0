"""The rule that blocks a merge: each pair of its head against the same pair of its base."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from stages.comparison import merge_words as words
from stages.comparison.merge_facts import (
    Delta,
    Failure,
    HostOperator,
    PairSides,
    SideFacts,
    deltas,
)
from stages.comparison.stage_names import STAGES
from stages.errors import Outcome
from stages.evaluation.verdict import Verdict


class PairVerdict(StrEnum):
    """What the merge does to a pair. The first two block it."""

    FAIL = "FAIL"
    """Head is slower than the limit allows, or fails something that base passes."""
    NEW_FAIL = "NEW/FAIL"
    """Base has no such pair, or broke down on it, and head's fails by itself."""
    STILL_FAILING = "STILL FAILING"
    """All that head fails, base didn't pass either."""
    ACCEPTED = "ACCEPTED"
    """Slower than the limit allows, and the baseline accepts exactly this package."""
    FIXED = "FIXED"
    """Base fails something, head nothing."""
    NEW = "NEW"
    PASS = "PASS"
    DELETED = "DELETED"
    """Head has no such pair."""
    UNCHANGED = "UNCHANGED"
    """The same package, the same samples, and all else the same."""


BLOCKING = frozenset({PairVerdict.FAIL, PairVerdict.NEW_FAIL})
_BROKEN = frozenset({Outcome.INTERNAL_ERROR, Outcome.INTERRUPTED})
_NOTHING = "nothing was measured"
_ORDER = (
    PairVerdict.STILL_FAILING,
    PairVerdict.ACCEPTED,
    PairVerdict.FIXED,
    PairVerdict.NEW,
    PairVerdict.PASS,
    PairVerdict.DELETED,
    PairVerdict.UNCHANGED,
)


@dataclass(frozen=True, slots=True)
class MergeLimits:
    """How much slower than base's a package of head may be."""

    max_p99_increase_percent: int = 5


@dataclass(frozen=True, slots=True)
class PairJudgement:
    """The verdict on a pair and why, most important first.

    `outcome` is the worst of what blocks, PASSED where nothing does. `failures` are all of head's.
    """

    sides: PairSides
    verdict: PairVerdict
    outcome: Outcome
    reasons: tuple[str, ...]
    newly_hosted: tuple[HostOperator, ...] = ()
    no_longer_hosted: tuple[HostOperator, ...] = ()

    @property
    def subject(self) -> str:
        """The pair in words."""
        return f"{self.sides.model} on {self.sides.hardware}"

    @property
    def blocks(self) -> bool:
        """Whether it blocks the merge."""
        return self.verdict in BLOCKING

    @property
    def deltas(self) -> tuple[Delta, ...]:
        """Every metric before and after."""
        return deltas(self.sides.base, self.sides.head)

    @property
    def p99_change_percent(self) -> Fraction | None:
        """How much slower head is; None where a side wasn't measured."""
        base, head = self.sides.base, self.sides.head
        if base is None or head is None or base.latency is None or head.latency is None:
            return None
        return words.change_percent(base.latency.p99_ns, head.latency.p99_ns)


@dataclass(frozen=True, slots=True)
class MergeJudgement:
    """Every pair, worst first. `outcome` is the worst of what blocks."""

    verdict: Verdict
    outcome: Outcome
    pairs: tuple[PairJudgement, ...]

    def having(self, verdict: PairVerdict) -> tuple[PairJudgement, ...]:
        """The pairs with this verdict."""
        return tuple(pair for pair in self.pairs if pair.verdict is verdict)


def judge_merge(
    pairs: Iterable[PairSides], limits: MergeLimits, gravity: Sequence[Outcome]
) -> MergeJudgement:
    """Judges every pair; FAIL where one blocks.

    `gravity` orders outcomes, worst first. The order of `pairs` doesn't matter.

    Raises:
        ValueError: a pair is there twice, or neither side has it.
    """
    sides = list(pairs)
    twice = [key for key, n in Counter((s.model, s.hardware) for s in sides).items() if n > 1]
    if twice:
        raise ValueError(f"judged twice: {twice}")
    judged = [judge_pair(pair, limits, gravity) for pair in sides]
    judged.sort(key=lambda pair: _rank(pair, gravity))
    blocking = [pair.outcome for pair in judged if pair.blocks]
    outcome = min(blocking, key=gravity.index, default=Outcome.PASSED)
    return MergeJudgement(Verdict.FAIL if blocking else Verdict.PASS, outcome, tuple(judged))


def judge_pair(pair: PairSides, limits: MergeLimits, gravity: Sequence[Outcome]) -> PairJudgement:
    """Judges one pair.

    P99 fails when `head * 100 > base * (100 + percent)`, unless the baseline has accepted head's
    package and had not accepted base's.

    Raises:
        ValueError: neither side has the pair.
    """
    if pair.head is None:
        if pair.base is None:
            raise ValueError(f"no side has {pair.model} on {pair.hardware}")
        return PairJudgement(pair, PairVerdict.DELETED, Outcome.PASSED, ("deleted",))
    if pair.base is None or is_unknown(pair.base, pair.head):
        return _judge_new(pair, pair.head, gravity)
    if is_unchanged(pair.base, pair.head) and not pair.head.failures:
        return PairJudgement(pair, PairVerdict.UNCHANGED, Outcome.PASSED, ("nothing changed",))
    return _judge_changed(pair, pair.base, pair.head, limits, gravity)


def _judge_new(pair: PairSides, head: SideFacts, gravity: Sequence[Outcome]) -> PairJudgement:
    hosted = head.fallbacks
    figures = [words.p99_alone(head.latency)] if head.latency else []
    figures += [f"on the host: {words.operators_text(hosted)}"] if hosted else []
    failures = _worst_first(head.failures, gravity)
    broken = _broken(pair.base) if pair.base else []
    unknown = [f"nothing to compare with: in base {words.failure_text(item)}" for item in broken]
    reasons = (*map(words.failure_text, failures), *figures, *unknown)
    verdict = PairVerdict.NEW_FAIL if failures else PairVerdict.NEW
    outcome = failures[0].outcome if failures else Outcome.PASSED
    return PairJudgement(pair, verdict, outcome, reasons or (_NOTHING,), hosted)


def _judge_changed(
    pair: PairSides,
    base: SideFacts,
    head: SideFacts,
    limits: MergeLimits,
    gravity: Sequence[Outcome],
) -> PairJudgement:
    gained = moved_operators(base.fallbacks, head.fallbacks)
    causes = words.causes(base, head, gained)
    too_slow = is_slower(base, head, limits)
    accepted = too_slow and is_accepted(base, head)
    failures = _worst_first(head.failures, gravity)
    new = [failure for failure in failures if _passes(base, failure)]
    old = [failure for failure in failures if not _passes(base, failure)]
    blocking = [(failure.outcome, words.failure_text(failure)) for failure in new]
    if too_slow and not accepted:
        blocking.insert(_place_of_p99(new, gravity), _p99_failure(base, head, limits, causes))
    reasons = [reason for _, reason in blocking]
    reasons += [f"still failing: {words.failure_text(failure)}" for failure in old]
    mended = [failure for failure in base.failures if _passes(head, failure)]
    reasons += [words.fixed_text(mended)] if mended else []
    if too_slow and not accepted:
        reasons.append(words.P99_CURE)
    else:
        reasons += _notes(base, head, causes, accepted)
    return PairJudgement(
        pair,
        _verdict(bool(blocking), bool(old), accepted, bool(base.failures)),
        blocking[0][0] if blocking else Outcome.PASSED,
        tuple(reasons) or (_NOTHING,),
        gained,
        moved_operators(head.fallbacks, base.fallbacks),
    )


def _p99_failure(
    base: SideFacts, head: SideFacts, limits: MergeLimits, causes: Sequence[str]
) -> tuple[Outcome, str]:
    assert base.latency is not None
    assert head.latency is not None
    limit = limits.max_p99_increase_percent
    return Outcome.GATE_FAILED, words.p99_reason(base.latency, head.latency, limit, causes)


def _notes(base: SideFacts, head: SideFacts, causes: Sequence[str], accepted: bool) -> list[str]:
    """The latency, where it blocks nothing."""
    if head.latency is None:
        return list(causes)
    if base.latency is None:
        return ["; ".join((words.p99_alone(head.latency), *causes))]
    note = words.p99_note(base.latency, head.latency, causes)
    return [f"{note}; accepted: the baseline holds this package" if accepted else note]


def _verdict(blocks: bool, still_fails: bool, accepted: bool, was_failing: bool) -> PairVerdict:
    if blocks:
        return PairVerdict.FAIL
    if still_fails:
        return PairVerdict.STILL_FAILING
    if accepted:
        return PairVerdict.ACCEPTED
    return PairVerdict.FIXED if was_failing else PairVerdict.PASS


def is_unchanged(base: SideFacts, head: SideFacts) -> bool:
    """Whether all that was found out is the same; what a baseline accepts isn't of the pair."""
    return replace(base, accepted_package="") == replace(head, accepted_package="")


def is_unknown(base: SideFacts, head: SideFacts) -> bool:
    """Whether base broke down, by no fault of the pair, where head gave an answer: what head fails
    must then not be excused by it."""
    return any(failure.stage in head.answered for failure in _broken(base))


def _broken(side: SideFacts) -> list[Failure]:
    """Failures that say nothing about the pair: a bug of ours, a stage that was interrupted."""
    return [failure for failure in side.failures if failure.outcome in _BROKEN]


def is_slower(base: SideFacts, head: SideFacts, limits: MergeLimits) -> bool:
    """Whether head's P99 is over the limit, on integers; exactly at the limit it isn't."""
    if base.latency is None or head.latency is None:
        return False
    allowed = base.latency.p99_ns * (100 + limits.max_p99_increase_percent)
    return head.latency.p99_ns * 100 > allowed


def is_accepted(base: SideFacts, head: SideFacts) -> bool:
    """Whether somebody accepted just this change: the baseline holds head's package, not base's."""
    return bool(head.package) and head.package == head.accepted_package != base.package


def moved_operators(
    before: Sequence[HostOperator], after: Sequence[HostOperator]
) -> tuple[HostOperator, ...]:
    """Operators that only `after` has on the host, in its order.

    Names may change with the model, so an operator counts only where there are more of its kind and
    reason than before; of those, the ones whose names are new.
    """
    names = {operator.name for operator in before}
    extra = Counter((o.kind, o.reason) for o in after)
    extra.subtract((o.kind, o.reason) for o in before)
    moved = []
    for operator in after:
        group = operator.kind, operator.reason
        if operator.name not in names and extra[group] > 0:
            extra[group] -= 1
            moved.append(operator)
    return tuple(moved)


def _passes(side: SideFacts, failure: Failure) -> bool:
    """Whether a side passes what the other fails. A stage that gave no report passed nothing."""
    known = {(item.stage, item.check) for item in side.failures}
    return failure.stage in side.answered and (failure.stage, failure.check) not in known


def _worst_first(failures: Iterable[Failure], gravity: Sequence[Outcome]) -> list[Failure]:
    """By gravity, then in the order of the stages; checks of one stage stay as it gave them."""
    return sorted(failures, key=lambda f: (gravity.index(f.outcome), STAGES.index(f.stage)))


def _place_of_p99(failures: Sequence[Failure], gravity: Sequence[Outcome]) -> int:
    """After what is graver than a slower P99, before the gate's own checks."""
    own = gravity.index(Outcome.GATE_FAILED)
    return sum(1 for failure in failures if gravity.index(failure.outcome) < own)


def _rank(
    pair: PairJudgement, gravity: Sequence[Outcome]
) -> tuple[int, int, bool, Fraction, str, str]:
    """Worst first: what blocks by its gravity, then the rest by verdict; the slower first."""
    change = pair.p99_change_percent
    return (
        0 if pair.blocks else 1 + _ORDER.index(pair.verdict),
        gravity.index(pair.outcome),
        change is None,
        -(change or Fraction(0)),
        pair.sides.model,
        pair.sides.hardware,
    )
