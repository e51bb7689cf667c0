"""A pair's results in Markdown, for a flow's page or a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stages.report.facts import PairFacts
from stages.report.words import summary_lines


@dataclass(frozen=True, slots=True)
class StageRow:
    """What became of a stage, in words; empty where there is nothing to say."""

    stage: str
    result: str
    figure: str


def pair_markdown(model: str, hardware: str, rows: Sequence[StageRow], facts: PairFacts) -> str:
    """A heading, a table with a row for each stage, and the summary as a list.

    Equal facts give equal text: no clock, no path.
    """
    lines = [f"### {escape(model)} on {escape(hardware)}", ""]
    lines += ["| stage | result | figure |", "| --- | --- | --- |"]
    lines += [f"| {row.stage} | {escape(row.result)} | {escape(row.figure)} |" for row in rows]
    lines += ["", *(f"- {escape(line)}" for line in summary_lines(facts)), ""]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Text as Markdown shows it literally, in one line, inside a table cell too."""
    plain = "".join(f"\\{character}" if character in _SPECIAL else character for character in text)
    return " ".join(plain.split())


_SPECIAL = frozenset("\\`*_{}[]<>#|!~")
