"""What the commands print: plain lines, coloured where the terminal can."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flows.terminal.outcomes import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_LOG_WIDTH = 160


@dataclass(frozen=True, slots=True)
class Terminal:
    """stdout for results, which `--quiet` doesn't silence, and progress, which it does."""

    quiet: bool = False

    def say(self, text: str) -> None:
        """One line of progress."""
        if not self.quiet:
            print(printable(text), flush=True)

    def show(self, content: RenderableType) -> None:
        """A table or styled text; without the padding at line ends where it goes to a file."""
        console = make_console()
        with console.capture() as capture:
            console.print(content)
        lines = [line.rstrip() for line in capture.get().splitlines()]
        self.result("\n".join(lines))

    def result(self, text: str) -> None:
        """Text that was asked for, as it is: may be piped, and holds no colours."""
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()


def make_console(*, to_errors: bool = False) -> Console:
    """A console that honours NO_COLOR, and is as wide as the text needs where it writes to no
    terminal, so that a log holds whole lines."""
    from rich.console import Console

    stream = sys.stderr if to_errors else sys.stdout
    width = None if stream.isatty() else _LOG_WIDTH
    return Console(width=width, stderr=to_errors, highlight=False, markup=False, emoji=False)
