"""Runs the affected pairs of a merge in a workspace for each side, and judges them.

Importing this module imports DVC; the engine is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from flows.dvc_graph.graph import source_prints
from flows.locks.file_lock import warn
from flows.merging.sides import AffectedPairs, affected_pairs, plain_message, side_facts
from flows.merging.source import MergeSource, Side
from flows.project.places import Project
from flows.project.requests import Pair
from flows.steps.board import Step
from flows.steps.matrix_request import MatrixRequest, MatrixResult, MatrixRunner
from flows.terminal.outcomes import GRAVITY
from flows.terminal.terminal import Terminal
from flows.workspaces.workspace import open_workspace
from stages.comparison.merge_facts import Failure, PairSides, SideFacts
from stages.comparison.merge_rule import MergeLimits, judge_merge
from stages.comparison.merge_words import first_line
from stages.errors import InputError, RecipeError
from stages.report.merge_report import MergeReport

HEAD, BASE = "head", "base"
"""The workspaces."""
_PLACED = SideFacts(answered=frozenset({"normalize"}))
"""A side that has a model which wasn't run, since the other side's can't be."""


def compare(
    project: Project,
    source: MergeSource,
    jobs: int | None,
    terminal: Terminal,
    run: MatrixRunner,
) -> MergeReport:
    """Brings the affected pairs of both sides up to date, base first, and judges them; `run` is
    the engine, and isn't called where nothing is affected.

    Raises:
        InputError: head's matrix can't be run at all.
    """
    notes = list(source.notes)
    with ExitStack() as stack:

        def lend(side: Side, name: str) -> Path | None:
            if not side.is_there:
                return None
            opened = open_workspace(project, name, side.tree, side.overlay, warn)
            return stack.enter_context(opened)

        head, base = lend(source.head, HEAD), lend(source.base, BASE)
        prints = _head_prints(head, source)
        affected = affected_pairs(_base_prints(base, notes), prints, source.renamed)
        terminal.say(_plan(affected, source))
        tags = ("merge gate", f"{source.base.name}..{source.head.name}")

        def measure(
            name: str, side: Side, root: Path | None, pairs: frozenset[Pair]
        ) -> Mapping[Pair, SideFacts]:
            if root is None or not pairs:
                return {}
            terminal.say(f"{name}, {side.name}:")
            request = MatrixRequest(root, pairs, jobs=jobs, tags=(*tags, name))
            return _facts(run(request, terminal))

        old = measure(BASE, source.base, base, affected.in_base())
        new = measure(HEAD, source.head, head, affected.in_head())
    sides = [
        PairSides(pair.model, pair.hardware, _before(source, pair, twin, old), new[pair])
        for pair, twin in affected.pairs.items()
    ]
    sides += _without_runs(source, affected)
    return MergeReport(
        judge_merge(sides, MergeLimits(source.limit_percent), GRAVITY),
        source.base.name,
        source.head.name,
        source.repository,
        source.limit_percent,
        affected.untouched + source.untouched,
        tuple(notes),
    )


def _facts(result: MatrixResult) -> Mapping[Pair, SideFacts]:
    """What came of the pairs, read while the workspace is ours."""
    return {pair: side_facts(result, pair) for pair in result.pairs()}


def _head_prints(root: Path | None, source: MergeSource) -> Mapping[Step, str]:
    prints = source_prints(root) if root else {}
    if not prints and not source.repository:
        raise InputError(
            "head has no matrix: dvc.yaml or params.yaml lists no pair",
            where=source.head.name,
            hint="name a head that has both, with a model and a device in `matrix`",
        )
    return prints


def _base_prints(root: Path | None, notes: list[str]) -> Mapping[Step, str]:
    """Base's digests; none, and a note, where its graph can't be read: it may be from before the
    graph had the form that it has now, and must not be in the way of what comes after."""
    if root is None:
        return {}
    try:
        return source_prints(root)
    except RecipeError as error:
        reason = first_line(plain_message(str(error), root))
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(plain_message(str(error), root))}"
    notes.append(f"base can't be read, so every pair counts as new: {reason}")
    return {}


def _before(
    source: MergeSource, pair: Pair, twin: Pair | None, old: Mapping[Pair, SideFacts]
) -> SideFacts | None:
    """The pair in base; None where base has none."""
    if twin is not None:
        return old[twin]
    model = source.renamed.get(pair.model, pair.model)
    return _unplaced(source.base, model) if model in source.base.unplaced else None


def _without_runs(source: MergeSource, affected: AffectedPairs) -> Iterator[PairSides]:
    """Pairs whose models can't be placed in head, and those that head no longer has."""
    broken = [Pair(model, device) for model in source.head.unplaced for device in source.devices]
    for pair in broken:
        model = source.renamed.get(pair.model, pair.model)
        before = _unplaced(source.base, model) if model in source.base.unplaced else _PLACED
        is_old = model in source.base.unplaced or model in source.base.overlay.models
        head = _unplaced(source.head, pair.model)
        yield PairSides(pair.model, pair.hardware, before if is_old else None, head)
    kept = {*source.renamed.values(), *source.head.unplaced}
    gone = {pair for pair in affected.deleted if pair.model not in kept}
    gone |= {Pair(model, device) for model in source.deleted for device in source.devices}
    for pair in gone:
        yield PairSides(pair.model, pair.hardware, SideFacts(), None)


def _unplaced(side: Side, model: str) -> SideFacts:
    """A model that isn't there is a failure of the first stage."""
    error = side.unplaced[model]
    message = "\n".join(filter(None, (error.problem, error.hint and f"hint: {error.hint}")))
    return SideFacts(failures=(Failure("normalize", "", error.outcome, message),))


def _plan(affected: AffectedPairs, source: MergeSource) -> str:
    count = len(affected.pairs)
    deleted = len(affected.deleted) + len(source.deleted) * len(source.devices)
    return (
        f"merge gate: {count} pair{'' if count == 1 else 's'} affected, "
        f"{affected.untouched + source.untouched} untouched, {deleted} deleted"
    )
