"""A night in which nothing is stale, told without the flow engine: that takes seconds to start."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from flows.dvc_graph.graph import open_graph
from flows.nights.conclusion import NightResult, conclude, measured_stale
from flows.nights.rows import begin_night, project_commit
from flows.project.params import load_params
from flows.project.places import Project
from flows.steps.matrix_request import MatrixResult, Standing, StepAnswer, places_in
from flows.steps.step_reports import report_of
from stages.errors import InputError


def idle_night(project: Project) -> NightResult | None:
    """What `--only-stale` comes to where nothing is stale; None where something may be.

    Raises:
        InputError: no DVC project, or dvc.yaml, params.yaml or dvc.lock is wrong.
    """
    params = load_params(project.params)
    matrix = fresh_matrix(project.root.resolve())
    if matrix is None:
        return None
    now = datetime.now().astimezone()
    night = begin_night(now, params.benchmark.seed, project_commit(project))
    return conclude(project, params.nightly, measured_stale(matrix, night))


def fresh_matrix(root: Path) -> MatrixResult | None:
    """What all steps came to; None where one is stale, or its report can't be read."""
    with open_graph(root) as graph:
        order = graph.select()
        if graph.stale(order):
            return None
        steps = [step for name in order if (step := graph.nodes[name].step) is not None]
    answers = {}
    for step in steps:
        places = places_in(root, step.model, step.hardware)
        try:
            report = report_of(step.stage, places)
        except InputError:
            return None
        answers[step] = StepAnswer(step, Standing.FRESH, report.outcome, report.figure)
    return MatrixResult(root, answers)
