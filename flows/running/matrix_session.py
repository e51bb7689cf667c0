"""The matrix in progress: brings steps up to date, keeps their answers, shows them. Knows nothing
of Prefect."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flows.dvc_graph.graph import DvcGraph
from flows.dvc_graph.nodes import Node
from flows.running.stage_command import CommandEnd, StageCommands
from flows.steps.board import Clock, Step
from flows.steps.matrix_request import (
    WITH_OUTPUTS,
    MatrixResult,
    Standing,
    StepAnswer,
    places_in,
)
from flows.steps.progress import Progress
from flows.steps.stage_calls import PASS, Stage, StageFailure, StageResult
from flows.steps.step_reports import report_of
from flows.terminal.outcomes import BUG_LINE
from stages.errors import Outcome, RecipeError

_LAST_LINES = 12
_ORDER = tuple(Stage)


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What came of a stage of dvc.yaml; as StepAnswer says."""

    standing: Standing
    outcome: Outcome
    message: str
    verdict: str = ""
    seconds: float = 0.0
    is_bug: bool = False


@dataclass(slots=True)
class MatrixSession:
    """Shared by the tasks of one run.

    `order` holds all stages that were asked for, each after what it needs; `stale` those of them
    that may have to run.
    """

    root: Path
    graph: DvcGraph
    order: Sequence[str]
    stale: Sequence[str]
    forced: Collection[str]
    commands: StageCommands
    progress: Progress
    clock: Clock = field(default_factory=Clock)
    answers: dict[str, NodeAnswer] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, name: str) -> NodeAnswer:
        """Brings a stage up to date; call it once what it needs was taken."""
        node = self.graph.nodes[name]
        lacking = [need for need in node.needs if not self._has_outputs(need)]
        if lacking:
            answer = NodeAnswer(Standing.SKIPPED, Outcome.PASSED, f"{lacking[0]} gave no result")
        else:
            answer = self._attempt(node)
        with self._lock:
            self.answers[name] = answer
        self._show(node, answer)
        return answer

    def fresh_answer(self, name: str) -> NodeAnswer:
        """The answer of a stage that isn't stale: what it wrote before."""
        return self._report(self.graph.nodes[name], Standing.FRESH, 0.0)

    def result(self) -> MatrixResult:
        """What came of all steps; a step that wasn't reached is left out."""
        answers: dict[Step, StepAnswer] = {}
        for name in self.order:
            step = self.graph.nodes[name].step
            answer = self.answers.get(name)
            if step is not None and answer is not None:
                answers[step] = StepAnswer(
                    step, answer.standing, answer.outcome, answer.message, answer.seconds
                )
        return MatrixResult(self.root, answers, tuple(self.clock.spans))

    def _has_outputs(self, need: str) -> bool:
        answer = self.answers.get(need)
        return need not in self.stale or (answer is not None and answer.standing in WITH_OUTPUTS)

    def _attempt(self, node: Node) -> NodeAnswer:
        try:
            return self._bring_up_to_date(node)
        except RecipeError as error:
            return NodeAnswer(Standing.FAILED, error.outcome, str(error))
        except Exception as error:
            lines = "".join(traceback.format_exception(error))
            return NodeAnswer(Standing.FAILED, Outcome.INTERNAL_ERROR, lines, is_bug=True)

    def _bring_up_to_date(self, node: Node) -> NodeAnswer:
        if node.is_frozen:
            self.graph.keep(node.name)
            return self._report(node, Standing.FRESH, 0.0)
        if node.name not in self.forced:
            if self.graph.is_fresh(node.name):
                return self._report(node, Standing.FRESH, 0.0)
            if self.graph.restore(node.name):
                return self._report(node, Standing.RESTORED, 0.0)
        with self.commands.place(self._urgency(node)):  # until it is saved: a kill loses no more
            if self.commands.is_stopped:
                return NodeAnswer(Standing.FAILED, Outcome.INTERRUPTED, "interrupted")
            self.graph.begin(node.name)
            end = self._run(node)
            if end.exit_code != 0:
                return _failed(end)
            self.graph.finish(node.name)
        return self._report(node, Standing.RAN, end.seconds)

    def _run(self, node: Node) -> CommandEnd:
        began = self.clock.now()

        def start() -> None:
            nonlocal began
            began = self.clock.now()
            if node.step is not None:
                self.progress.started(node.step)

        try:
            return self.commands.run(node.commands, node.folder, start)
        finally:
            self.clock.note(began, self.clock.now())

    def _urgency(self, node: Node) -> tuple[int, ...]:
        """Early stages first, and those of large models: what everything waits for, or what lasts
        long, mustn't begin when nothing is left to run beside it."""
        if node.step is None:
            return (0, 0)
        normalized = places_in(self.root, node.step.model).normalized
        try:
            size_bytes = (normalized / "model.onnx").stat().st_size
        except OSError:
            size_bytes = 0
        return (_ORDER.index(node.step.stage), -size_bytes)

    def _report(self, node: Node, standing: Standing, seconds: float) -> NodeAnswer:
        if node.step is None:
            return NodeAnswer(standing, Outcome.PASSED, node.name, PASS, seconds)
        places = places_in(self.root, node.step.model, node.step.hardware)
        report = report_of(node.step.stage, places)
        return NodeAnswer(standing, report.outcome, report.figure, report.verdict, seconds)

    def _show(self, node: Node, answer: NodeAnswer) -> None:
        step = node.step
        if step is None:
            return
        if answer.standing is Standing.SKIPPED:
            self.progress.skipped(step)
        elif answer.standing is Standing.FAILED:
            details = answer.message if answer.is_bug else ""
            self.progress.finished(step, StageFailure(answer.outcome, answer.message, details))
        else:
            figure = answer.message
            if answer.standing is not Standing.RAN:
                figure = f"{figure}  ({answer.standing})"
            self.progress.finished(
                step,
                StageResult(step.stage, answer.verdict, answer.outcome, figure, answer.seconds),
            )


def _failed(end: CommandEnd) -> NodeAnswer:
    outcome = _outcome_of(end)
    if end.died:
        message = f"its process died ({end.died}); run again, with fewer --jobs if memory is short"
        return NodeAnswer(Standing.FAILED, outcome, message, "", end.seconds)
    is_bug = outcome is Outcome.INTERNAL_ERROR
    return NodeAnswer(Standing.FAILED, outcome, _last_words(end), "", end.seconds, is_bug)


def _outcome_of(end: CommandEnd) -> Outcome:
    """A shell has exit codes of its own; they count as a bug, for nobody expects them."""
    known = {int(outcome): outcome for outcome in Outcome if outcome is not Outcome.PASSED}
    return known.get(end.exit_code, Outcome.INTERNAL_ERROR)


def _last_words(end: CommandEnd) -> str:
    """The error that a command printed, or else the end of what it printed; of a bug of ours the
    exception first, then its traceback."""
    lines = end.output.rstrip().splitlines()
    if _outcome_of(end) is Outcome.INTERNAL_ERROR and BUG_LINE in lines:
        traceback_lines = lines[: lines.index(BUG_LINE)]
        return "\n".join([*traceback_lines[-1:], *traceback_lines[:-1]])
    begins = [index for index, line in enumerate(lines) if line.startswith("error: ")]
    if begins:
        return "\n".join(lines[begins[-1] :]).removeprefix("error: ")
    last = lines[-_LAST_LINES:]
    return "\n".join([f"the command ended with exit code {end.exit_code}", *last])


def forced_names(nodes: Mapping[str, Node], stages: Collection[Stage]) -> frozenset[str]:
    """The stages of dvc.yaml that are steps of these kinds."""
    return frozenset(
        name for name, node in nodes.items() if node.step is not None and node.step.stage in stages
    )
