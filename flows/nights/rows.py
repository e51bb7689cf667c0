"""From what came of a matrix to rows of the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from flows.git.command import GitError, git
from flows.project.places import Project
from flows.project.requests import Pair
from flows.steps.board import steps_of
from flows.steps.matrix_request import WITH_OUTPUTS, MatrixResult, Standing, StepAnswer
from flows.steps.stage_calls import PASS, Stage
from stages.comparison.nights import SKIPPED, PairNight
from stages.errors import Outcome, RecipeError
from stages.evaluation.package_facts import MemoryFacts
from stages.package.read import load_manifest
from stages.report.facts import PairFacts

_CHANGED = "+changes"


@dataclass(frozen=True, slots=True)
class Night:
    """A night as all its rows have it; see `PairNight`."""

    date: str
    started: str
    seed: int
    commit: str


def begin_night(now: datetime, seed: int | None, commit: str) -> Night:
    """The night that begins now; its seed is the date as YYYYMMDD unless one is given."""
    date = now.date()
    chosen = int(f"{date:%Y%m%d}") if seed is None else seed
    return Night(str(date), f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", chosen, commit)


def project_commit(project: Project) -> str:
    """The project's commit, with `+changes` where files differ from it; empty without Git."""
    try:
        changes = git(project.root, "status", "--porcelain", "--", ".")
        return git(project.root, "rev-parse", "HEAD") + (_CHANGED if changes else "")
    except GitError:
        return ""


def night_rows(result: MatrixResult, night: Night) -> list[PairNight]:
    """A row for each pair, whatever became of it."""
    return [_row(result, pair, night) for pair in result.pairs()]


def pairs_that_ran(result: MatrixResult) -> frozenset[Pair]:
    """Pairs of which a step wasn't fresh."""
    stale = {step for step, answer in result.answers.items() if answer.standing != Standing.FRESH}
    return frozenset(pair for pair in result.pairs() if not stale.isdisjoint(steps_of(pair)))


def _row(result: MatrixResult, pair: Pair, night: Night) -> PairNight:
    """The pair's row; a report that can't be read is one more thing that broke it."""
    answers = {step.stage: result.answers.get(step) for step in steps_of(pair)}
    outcome = result.outcome_of(pair)
    try:
        facts = result.facts(pair)
        row = _measured(bare_row(pair, night, outcome, _verdicts(answers, facts)), facts)
        compiled = answers[Stage.COMPILE]
        if compiled is not None and compiled.standing in WITH_OUTPUTS:
            manifest = load_manifest(result.places(pair).package)
            row = replace(
                row, package=manifest.package_sha256, hardware_digest=manifest.hardware_sha256
            )
        return replace(row, reason=_reason(answers))
    except RecipeError as error:
        broken = error.outcome if outcome is Outcome.PASSED else outcome
        row = bare_row(pair, night, broken, _verdicts(answers, PairFacts()))
        return replace(row, reason=_reason(answers) or f"{error.problem} ({error.where})")


def bare_row(pair: Pair, night: Night, outcome: Outcome, verdicts: Sequence[str]) -> PairNight:
    """A row without figures; `verdicts` in the order of the stages."""
    return PairNight(
        night=night.date,
        started=night.started,
        seed=night.seed,
        commit=night.commit,
        model=pair.model,
        hardware=pair.hardware,
        outcome=outcome,
        verdicts=tuple(verdicts),
    )


def _verdicts(answers: Mapping[Stage, StepAnswer | None], facts: PairFacts) -> list[str]:
    """Of each stage in a word: its verdict, the name of its outcome, or SKIPPED."""
    judged = {
        Stage.VALIDATE: facts.validation,
        Stage.GATE: facts.gate,
        Stage.THERMAL_STRESS: facts.stress,
    }
    verdicts = []
    for stage, answer in answers.items():
        report = judged.get(stage)
        if answer is None or answer.standing is Standing.SKIPPED:
            verdicts.append(SKIPPED)
        elif answer.standing is Standing.FAILED:
            verdicts.append(answer.outcome.name)
        else:
            verdicts.append(PASS if report is None else report.verdict.value)
    return verdicts


def _reason(answers: Mapping[Stage, StepAnswer | None]) -> str:
    """The first line of what the first stage that didn't pass says."""
    for answer in answers.values():
        if (
            answer is not None
            and answer.outcome is not Outcome.PASSED
            and answer.standing is not Standing.SKIPPED
        ):
            return answer.message.strip().partition("\n")[0]
    return ""


def _measured(row: PairNight, facts: PairFacts) -> PairNight:
    """The row with the figures that there are."""
    if (benchmark := facts.benchmark) is not None:
        latency = benchmark.latency
        row = replace(row, runs=latency.runs, p50_ns=latency.p50_ns, p99_ns=latency.p99_ns)
    if (stress := facts.stress) is not None:
        row = replace(row, hot_p50_ns=stress.latency.p50_ns, hot_p99_ns=stress.latency.p99_ns)
    if (validation := facts.validation) is not None:
        sram, ddr = _peaks(validation.memory)
        ratios = [output.sqnr_db for output in validation.outputs if output.sqnr_db is not None]
        row = replace(
            row,
            peak_sram_bytes=sram,
            peak_ddr_bytes=ddr,
            fallbacks=sum(len(fallback.operators) for fallback in validation.fallbacks),
            sqnr_db=min(ratios, default=None),
        )
    return row


def _peaks(memory: tuple[MemoryFacts, ...]) -> tuple[int | None, int | None]:
    """SRAM's and DDR's, which the report has in this order."""
    peaks = [facts.peak_bytes for facts in memory]
    sram, ddr = (*peaks, None, None)[:2]
    return sram, ddr
