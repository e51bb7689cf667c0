"""`recipe flow merge-gate`: what a branch does to every pair, before it is merged."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.arguments import Jobs, Quiet
from flows.project.context import options
from flows.terminal.outcomes import printable, report_error
from flows.terminal.terminal import Terminal
from stages.errors import Outcome, RecipeError

if TYPE_CHECKING:
    from flows.merging.github_api import PullRequest
    from flows.merging.result import MergeGateResult, MergeRequest
    from flows.project.places import Project


def merge_gate(
    context: typer.Context,
    base: Annotated[
        str,
        typer.Option(
            "--base",
            metavar="REF",
            help="The branch to merge into; compared is the commit at which head left it.",
        ),
    ],
    head: Annotated[
        str | None,
        typer.Option(
            "--head",
            metavar="REF",
            help="What is to be merged; else the files as they are, or with --repository the "
            "end of its branch.",
        ),
    ] = None,
    repository: Annotated[
        str | None,
        typer.Option(
            "--repository",
            metavar="NAME",
            help="A model repository of models/repositories.yaml, whose commits these are.",
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="The reports go into its folder merge-gate."),
    ] = Path("out"),
    comment: Annotated[
        bool,
        typer.Option("--comment", help="Put the report on the pull request; needs GITHUB_TOKEN."),
    ] = False,
    pull_request: Annotated[
        int | None,
        typer.Option("--pull-request", min=1, help="Its number, where the run isn't of one."),
    ] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Compare a branch with its base on every pair that it affects; fail where one got worse.

    The first line of stdout is the verdict; progress goes to stderr.
    """
    from flows.merging.result import MergeRequest, judge_idle

    pull = _pull_request(pull_request) if comment else None
    terminal = options(context).terminal_with(quiet)
    project = options(context).project
    request = MergeRequest(base, head, repository or "", jobs)
    with contextlib.redirect_stdout(sys.stderr):
        idle = judge_idle(project, request, out)
        result = idle or _run(project, request, out, terminal)
    _show(result, terminal)
    told = _tell(result, pull)
    blocked = result.outcome is not Outcome.PASSED
    raise typer.Exit(int(result.outcome if blocked else told))


def _run(project: Project, request: MergeRequest, out: Path, terminal: Terminal) -> MergeGateResult:
    from flows.running.engine import flow_engine

    with flow_engine(project):
        from flows.merge_gate import call_merge_gate

        return call_merge_gate(project, request, out, terminal)


def _pull_request(number: int | None) -> PullRequest:
    """Found before anything runs, so that a missing token costs nothing."""
    from flows.merging.github_comment import pull_request_here

    return pull_request_here(os.environ, number)


def _show(result: MergeGateResult, terminal: Terminal) -> None:
    """The first line, a line for each pair that isn't as it was, and where the reports are."""
    from stages.comparison.merge_rule import PairVerdict

    terminal.result(printable(result.headline))
    for note in result.report.notes:
        terminal.result(printable(f"  note: {note}"))
    for pair in result.report.judgement.pairs:
        if pair.verdict is not PairVerdict.UNCHANGED:
            line = f"  {pair.verdict.value}  {pair.subject}: {pair.reasons[0]}"
            terminal.result(printable(line))
    for line in _acceptance(result):
        terminal.result(printable(line))
    terminal.result(f"  reports: {result.folder}")


def _acceptance(result: MergeGateResult) -> Iterator[str]:
    """How to let slower pairs in on purpose."""
    for pair in result.report.judgement.pairs:
        if pair.blocks and pair.outcome is Outcome.GATE_FAILED:
            model, hardware = pair.sides.model, pair.sides.hardware
            words = ["recipe", "baseline", "accept", model, "--hardware", hardware, "--out"]
            yield f"  to let it in: {shlex.join([*words, str(result.results)])}"


def _tell(result: MergeGateResult, pull: PullRequest | None) -> Outcome:
    """The job summary and the comment. What fails here is said, and hides no verdict."""
    from flows.merging.github_comment import append_summary, put_comment

    told = Outcome.PASSED
    try:
        append_summary(result.markdown, os.environ)
    except RecipeError as error:
        told = report_error(error)
    if pull is not None:
        try:
            put_comment(pull, result.markdown, result.marker)
        except RecipeError as error:
            told = report_error(error)
    return told
