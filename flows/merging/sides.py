"""Which pairs a merge affects, and what each side's runs came to, as the merge rule wants it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flows.project.requests import Pair
from flows.steps.board import Step, steps_of
from flows.steps.matrix_request import WITH_OUTPUTS, MatrixResult, Standing, StepAnswer
from stages.comparison.merge_facts import Failure, SideFacts
from stages.errors import InputError, Outcome
from stages.report.merge_reading import read_side

_TRACEBACK = "Traceback (most recent call last)"
_READING = "compile"
"""What hides all reports of a pair where they can't be read: the package that they are of."""


@dataclass(frozen=True, slots=True)
class AffectedPairs:
    """Pairs of head with what they are called in base; None where base has none.

    `deleted` are only base's. `untouched` counts pairs that depend on nothing that differs.
    """

    pairs: Mapping[Pair, Pair | None]
    deleted: tuple[Pair, ...]
    untouched: int

    def in_base(self) -> frozenset[Pair]:
        """The pairs to run in base."""
        return frozenset(pair for pair in self.pairs.values() if pair is not None)

    def in_head(self) -> frozenset[Pair]:
        """The pairs to run in head."""
        return frozenset(self.pairs)


def affected_pairs(
    base: Mapping[Step, str], head: Mapping[Step, str], renamed: Mapping[str, str]
) -> AffectedPairs:
    """Compares the digests of what each step depends on; `renamed` maps new names to old ones."""
    old, new = _digests(base), _digests(head)
    found: dict[Pair, Pair | None] = {}
    untouched, met = 0, set()
    for pair in sorted(new):
        before = Pair(renamed.get(pair.model, pair.model), pair.hardware)
        met.add(before)
        if old.get(before) == new[pair]:
            untouched += 1
        else:
            found[pair] = before if before in old else None
    deleted = tuple(sorted(set(old) - met))
    return AffectedPairs(found, deleted, untouched)


def _digests(prints: Mapping[Step, str]) -> dict[Pair, tuple[str, ...]]:
    """A pair's digests, in the order of the stages."""
    pairs = {Pair(step.model, step.hardware) for step in prints if step.hardware}
    return {pair: tuple(prints.get(step, "") for step in steps_of(pair)) for pair in pairs}


def side_facts(result: MatrixResult, pair: Pair) -> SideFacts:
    """What a side's run came to, for one pair. Reports that can't be read are a failure too."""
    answers = result.answers_of(pair)
    answered = frozenset(a.step.stage.value for a in answers if a.standing in WITH_OUTPUTS)
    errors = [_failure(a, result.root) for a in answers if a.standing is Standing.FAILED]
    try:
        return read_side(result.places(pair).folder, answered, errors)
    except InputError as error:
        message = plain_message(str(error), result.root)
        unread = Failure(_READING, "", Outcome.INTERNAL_ERROR, message)
        return SideFacts(failures=(*errors, unread))


def _failure(answer: StepAnswer, root: Path) -> Failure:
    stage = answer.step.stage.value
    return Failure(stage, "", answer.outcome, plain_message(answer.message, root))


def plain_message(message: str, root: Path) -> str:
    """A message that says the same on every machine: paths within `root` are relative to it, and
    of a traceback only the error is left, which is what tells."""
    lines = [line for line in message.splitlines() if line.strip()]
    if any(_TRACEBACK in line for line in lines):
        lines = lines[-1:]
    text = "\n".join(lines) or "no message"
    for folder in (root.resolve(), root):
        text = text.replace(f"{folder}/", "")
    return text
