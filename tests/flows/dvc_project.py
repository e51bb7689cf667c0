"""A small project under Git and DVC, with the real dvc.yaml and stages, and models of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import yaml

from flows.dvc_graph.graph import open_graph
from flows.running.matrix_session import MatrixSession, NodeAnswer, forced_names
from flows.running.stage_command import StageCommands
from flows.steps.progress import Progress
from flows.steps.stage_calls import Stage
from flows.terminal.terminal import Terminal
from tests.flows import small_models
from tests.flows.command import REPOSITORY
from tests.flows.git_repositories import ENVIRONMENT, Repository
from tests.flows.project_files import OF_DVC, copy_project

HARDWARE = ("npu_tiny", "rk3588_npu")
_COPIED = (*OF_DVC, ".gitignore", "dvc.yaml", "params.yaml")
_MACHINE_FACTS = "compile_environment.json"


@dataclass(frozen=True)
class DvcProject:
    """A project that the code of this repository runs in."""

    root: Path

    def dvc(self, *arguments: str | Path) -> str:
        """Runs `dvc` there as a user does; what it prints to stdout."""
        ended = subprocess.run(
            [Path(sys.executable).with_name("dvc"), *map(str, arguments)],
            cwd=self.root,
            env=self.environment(),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert ended.returncode == 0, f"dvc {arguments}: {ended.stderr}\n{ended.stdout}"
        return ended.stdout

    def bring_up_to_date(
        self, *names: str, forced: Collection[Stage] = ()
    ) -> dict[str, NodeAnswer]:
        """What the engine does, but one stage after the other, and without Prefect; the answers of
        the stale ones."""
        with open_graph(self.root) as graph:
            order = graph.select(names or None)
            wanted = forced_names(graph.nodes, forced).intersection(order)
            stale = graph.stale(order, wanted)
            commands = StageCommands(1, self.root)
            progress = Progress(Terminal(quiet=True), len(stale))
            session = MatrixSession(self.root, graph, order, stale, wanted, commands, progress)
            for name in stale:
                session.take(name)
            commands.stop()
            graph.record()
            return session.answers

    def json(self, *arguments: str) -> Any:
        """The same, of a command that can print JSON."""
        return json.loads(self.dvc(*arguments, "--json"))

    def environment(self) -> dict[str, str]:
        """The environment of its commands: `recipe` is this repository's."""
        git = {key: value for key, value in ENVIRONMENT.items() if not key.endswith("_DATE")}
        folders = [Path(sys.executable).parent, os.environ.get("PATH", os.defpath)]
        return {
            **os.environ,
            **git,  # `dvc exp` can't read its dates
            "PATH": os.pathsep.join(map(str, folders)),
            "PYTHONPATH": str(REPOSITORY),
            "COLUMNS": "200",
        }

    def set_params(self, **sections: dict[str, object]) -> None:
        """Writes values into params.yaml."""
        file = self.root / "params.yaml"
        content = yaml.safe_load(file.read_text())
        for name, values in sections.items():
            content[name] |= values
        file.write_text(yaml.safe_dump(content, sort_keys=False))


def make_dvc_project(root: Path, *models: str, runs: int = 200) -> tuple[DvcProject, Repository]:
    """A project with these models, small and all different, on two devices; committed."""
    copy_project(root, "flows", "stages", "hardware_specs", ":(glob)models/*.py", *_COPIED)
    for index, name in enumerate(models):
        add_model(root, name, small_models.convolution(channels=8 + 8 * index))
    for name in HARDWARE:
        (root / "baselines" / name).mkdir(parents=True)
        (root / "baselines" / name / ".gitkeep").touch()
    project, repository = DvcProject(root), Repository.make(root)
    project.set_params(
        matrix={"models": list(models), "hardware": list(HARDWARE)},
        benchmark={"runs": runs},
        thermal_stress={"runs": runs},
    )
    repository.commit("the project")
    return project, repository


def add_model(root: Path, name: str, model: onnx.ModelProto) -> None:
    """Writes the folder of a model."""
    folder = root / "models" / name
    folder.mkdir(parents=True, exist_ok=True)
    small_models.save(model, folder / "model.onnx")
    (folder / "model.yaml").write_text(
        f"description: {name}\nlicence: Apache-2.0\nsource: {{path: model.onnx}}\n"
    )


def contents(folder: Path) -> dict[str, bytes]:
    """Every file by its path, but for those that tell of the machine."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != _MACHINE_FACTS
    }
