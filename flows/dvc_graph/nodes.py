"""The stages of dvc.yaml, in our words. Touches DVC's internals, as `graph` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
from dvc.dvcfile import PROJECT_FILE, ProjectFile
from dvc.parsing import JOIN, MatrixDefinition
from dvc.repo import Repo
from dvc.stage import PipelineStage
from dvc.stage.run import _enforce_cmd_list

from flows.steps.board import Step
from flows.steps.stage_calls import Stage


@dataclass(frozen=True, slots=True)
class Node:
    """A stage of dvc.yaml.

    `commands` run one after the other in `folder`; `needs` names the stages whose outputs it reads,
    none where it is frozen, which means that it never runs; `step` says which cell of the matrix it
    is, and is None for a stage that isn't one of the six.
    """

    name: str
    commands: tuple[str, ...]
    folder: Path
    needs: tuple[str, ...]
    is_frozen: bool
    step: Step | None


def make_nodes(
    repo: Repo, graph: nx.DiGraph, stages: Mapping[str, PipelineStage]
) -> dict[str, Node]:
    """A node for each stage, by name; in the graph an edge leads to what a stage needs."""
    steps = _steps(repo)
    return {
        name: Node(
            name,
            tuple(_enforce_cmd_list(stage.cmd)),
            Path(stage.wdir),
            _needs(graph, stage),
            stage.frozen,
            steps.get(name),
        )
        for name, stage in stages.items()
    }


def _needs(graph: nx.DiGraph, stage: PipelineStage) -> tuple[str, ...]:
    """As DVC, which disconnects a frozen stage from what it depends on."""
    needs = () if stage.frozen else graph.successors(stage)
    return tuple(sorted(need.addressing for need in needs if isinstance(need, PipelineStage)))


def _steps(repo: Repo) -> dict[str, Step]:
    """The cell of the matrix that each stage is, as dvc.yaml's resolver expands it."""
    steps: dict[str, Step] = {}
    resolver = ProjectFile(repo, str(Path(repo.root_dir) / PROJECT_FILE)).resolver
    for kind, definition in resolver.definitions.items():
        if kind not in set(Stage) or not isinstance(definition, MatrixDefinition):
            continue
        for key, cell in definition.normalized_iterable.items():
            step = Step(Stage(kind), str(cell["model"]), str(cell.get("hardware", "")))
            steps[f"{kind}{JOIN}{key}"] = step
    return steps
