"""A shell session as a page shows it: its commands run, and what they print is compared."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

LEFT_OUT = "..."
_STEP = re.compile(
    r"^```sh\n(?P<command>.*?)^```$(?:\n\n^```text\n(?P<shown>.*?)^```$)?", re.DOTALL | re.MULTILINE
)
_MARK = "@@@ ended with"
_PROGRESS = re.compile(r"^\[ *\d+/\d+\] ")
_SECONDS = re.compile(r" +\d+\.\d s$")
_HASH = re.compile(r"\b[0-9a-f]{10,40}\b")
_FIGURE = re.compile(r"\d+\.\d+|\d+(?= (?:ns|us|ms|KiB)\b)")
_FIGURES_MAY_DIFFER_BY = 0.25  # the compiler gets better, and the page needn't follow each time


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and the lines that the page shows after it; None where it shows none."""

    command: str
    shown: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a step: stdout and stderr as a terminal shows them."""

    code: int
    lines: tuple[str, ...]


def read_steps(page: str, heading: str) -> list[Step]:
    """The steps below a heading of a page, up to the next one."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [
        Step(found["command"].rstrip("\n"), _lines(found["shown"]))
        for found in _STEP.finditer(section)
    ]


def _lines(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(text.rstrip("\n").split("\n"))


def run_session(
    commands: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> list[Ended]:
    """Runs commands one after the other in one shell, whatever they end with."""
    script = "".join(f'{command}\necho "{_MARK} $?"\n' for command in commands)
    ended = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=True,
    )
    lines = ended.stdout.splitlines()
    marks = [at for at, line in enumerate(lines) if line.startswith(_MARK)]
    assert len(marks) == len(commands), ended.stdout
    return [
        Ended(int(lines[end].removeprefix(_MARK)), tuple(lines[start + 1 : end]))
        for start, end in pairwise((-1, *marks))
    ]


def check_shown(shown: Sequence[str], printed: Sequence[str]) -> None:
    """Asserts that a page shows what was printed.

    Lines of progress may come in any order, for stages run side by side. The others come in the
    order that is shown, nothing between them where no `...` stands. Words and counts are compared
    exactly, latencies and sizes with a tolerance; hashes, counters and seconds aren't.
    """
    left = [line for line in printed if _PROGRESS.match(line)]
    for line in filter(_PROGRESS.match, shown):
        twin = next((other for other in left if _is_alike(line, other)), None)
        assert twin is not None, f"not printed: {line!r}\namong: {left}"
        left.remove(twin)
    rest = [line for line in printed if not _PROGRESS.match(line)]
    wanted = [line for line in shown if not _PROGRESS.match(line)]
    if LEFT_OUT not in shown:
        assert not left, f"printed and not shown: {left}"
        assert len(wanted) == len(rest), f"shown: {wanted}\nprinted: {rest}"
    at = 0
    for run in _runs(wanted):
        found = [
            start
            for start in range(at, len(rest) - len(run) + 1)
            if all(map(_is_alike, run, rest[start:]))
        ]
        assert found, f"not printed: {run}\nin: {rest[at:]}"
        at = found[0] + len(run)


def _runs(lines: Sequence[str]) -> list[list[str]]:
    """The lines between `...`."""
    runs: list[list[str]] = [[]]
    for line in lines:
        if line == LEFT_OUT:
            runs.append([])
        else:
            runs[-1].append(line)
    return [run for run in runs if run]


def _is_alike(shown: str, printed: str) -> bool:
    one, other = _plain(shown), _plain(printed)
    if _FIGURE.sub("#", one) != _FIGURE.sub("#", other):
        return False
    figures = zip(_FIGURE.findall(one), _FIGURE.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= _FIGURES_MAY_DIFFER_BY * float(a) for a, b in figures)


def _plain(line: str) -> str:
    """The line without what differs from run to run, and without a table's padding."""
    line = _PROGRESS.sub("", _SECONDS.sub("", line))
    return " ".join(_HASH.sub("HASH", re.sub("─+", "─", line)).split())
