"""A run in progress: takes steps, keeps their answers, shows them. Knows nothing of Prefect."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from flows.project.requests import RunRequest
from flows.running.stage_process import StageProcesses
from flows.steps.board import Answer, Board, Clock, Step, call_of, needs_of
from flows.steps.progress import Progress
from flows.steps.stage_calls import StageCall


@dataclass(slots=True)
class RunSession:
    """Shared by the tasks of one run.

    `calls` makes the stage's call for a step; `reported` says that the flow came to its end.
    """

    request: RunRequest
    processes: StageProcesses
    progress: Progress
    calls: Callable[[Step, RunRequest], StageCall] = call_of
    board: Board = field(default_factory=Board)
    clock: Clock = field(default_factory=Clock)
    reported: bool = False
    _early: dict[Step, Future[Answer]] = field(default_factory=dict)

    def begin(self, steps: list[Step]) -> None:
        """Begins steps that need no others, before the flow engine is there to ask for them."""
        threads = ThreadPoolExecutor(max_workers=max(1, len(steps)))
        self._early = {step: threads.submit(self._run, step) for step in steps}
        threads.shutdown(wait=False)

    def take(self, step: Step) -> Answer | None:
        """Runs a step, or awaits one that was begun; None where a step before it gave no result."""
        if any(self.board.result(need) is None for need in needs_of(step)):
            self.progress.skipped(step)
            return None
        early = self._early.pop(step, None)
        return self._run(step) if early is None else early.result()

    def _run(self, step: Step) -> Answer:
        began = self.clock.now()

        def start() -> None:
            nonlocal began
            began = self.clock.now()
            self.progress.started(step)

        answer = self.processes.run(self.calls(step, self.request), start)
        self.clock.note(began, self.clock.now())
        self.board.post(step, answer)
        self.progress.finished(step, answer)
        return answer
