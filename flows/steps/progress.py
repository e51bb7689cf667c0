"""Says what a run does: a line for each stage that ended, and on a terminal what runs now."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from flows.steps.board import Answer, Step
from flows.steps.stage_calls import FAIL, StageFailure
from flows.terminal.outcomes import BUG_LINE, printable
from flows.terminal.terminal import Terminal, make_console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status
    from rich.text import Text

_STYLES = {"PASS": "green", "NEW": "cyan", "FAIL": "bold red", "INCONCLUSIVE": "yellow"}


class Progress:
    """May be told from many threads; each line is whole."""

    def __init__(self, terminal: Terminal, total: int) -> None:
        self._quiet = terminal.quiet
        self._total = total
        self._ended = 0
        self._running: list[Step] = []
        self._lock = threading.Lock()
        self._console: Console = make_console()
        self._errors: Console = make_console(to_errors=True)
        self._status: Status | None = None

    def open(self) -> None:
        """Shows what runs now, where stdout is a terminal."""
        if self._console.is_terminal and not self._quiet:
            self._status = self._console.status("starting")
            self._status.start()

    def close(self) -> None:
        """Leaves the terminal as it was."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def started(self, step: Step) -> None:
        """A stage's process runs."""
        with self._lock:
            self._running.append(step)
            self._refresh()

    def finished(self, step: Step, answer: Answer) -> None:
        """A stage gave a result, or failed."""
        with self._lock:
            self._ended += 1
            if step in self._running:
                self._running.remove(step)
            self._refresh()
            line = self._beginning(step)
            if isinstance(answer, StageFailure):
                self._fail(line, answer)
            elif not self._quiet or answer.verdict == FAIL:
                line.append(answer.verdict, style=_STYLES.get(answer.verdict, ""))
                line.append(f"  {printable(answer.figure)}  {answer.seconds:.1f} s")
                self._console.print(line, soft_wrap=True)

    def skipped(self, step: Step) -> None:
        """A stage couldn't begin, since one before it gave no result."""
        with self._lock:
            self._ended += 1
            if not self._quiet:
                self._console.print(self._beginning(step).append("skipped"), soft_wrap=True)

    def _beginning(self, step: Step) -> Text:
        from rich.text import Text

        count = f"[{self._ended:>{len(str(self._total))}}/{self._total}]"
        return Text(printable(f"{count} {step.stage:<14} {step.subject}  "))

    def _fail(self, line: Text, failure: StageFailure) -> None:
        line.append(failure.outcome.name, style="bold red")
        if not self._quiet:
            self._console.print(line, soft_wrap=True)
        if failure.details:
            self._errors.print(printable(failure.details), soft_wrap=True)
            self._errors.print(BUG_LINE)
        else:
            self._errors.print(printable(f"error: {failure.message}"), soft_wrap=True)

    def _refresh(self) -> None:
        if self._status is not None:
            names = ", ".join(f"{step.stage} {step.subject}" for step in self._running)
            from rich.text import Text

            self._status.update(Text(printable(names or "waiting")))
