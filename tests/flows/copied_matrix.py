"""A DVC project with the six stages, whose commands copy made-up reports: a matrix without models.

Every command writes a line to `ran.log`, which no stage lists.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from flows.dvc_graph.graph import open_graph
from flows.steps.stage_calls import Stage
from stages.report.facts import FOLDERS
from tests.flows.sample_reports import write_report

RAN = "ran.log"
_NEEDS = {
    Stage.NORMALIZE: (),
    Stage.COMPILE: (Stage.NORMALIZE,),
    Stage.VALIDATE: (Stage.NORMALIZE, Stage.COMPILE),
    Stage.BENCHMARK: (Stage.COMPILE,),
    Stage.GATE: (Stage.BENCHMARK,),
    Stage.THERMAL_STRESS: (Stage.COMPILE,),
}


def make_project(root: Path, models: Sequence[str], hardware: Sequence[str]) -> Path:
    """The project as a Git repository with one commit."""
    root.mkdir(parents=True)
    for stage in Stage:
        write_report(stage.value, root / "samples" / stage.value)
    for model in models:
        (root / "models" / model).mkdir(parents=True)
        (root / "models" / model / "model.yaml").write_text(f"name: {model}\n")
    (root / "hardware_specs").mkdir()
    (root / "hardware_specs" / "README").write_text("none here\n")
    params = {"seed": 0, "matrix": {"models": list(models), "hardware": list(hardware)}}
    (root / "params.yaml").write_text(yaml.safe_dump(params))
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": dict(map(_stage, Stage))}))
    (root / ".gitignore").write_text(f"/results\n/.cache\n/{RAN}\n")
    _run(root, "git", "init", "--quiet")
    (root / ".dvc").mkdir()
    (root / ".dvc" / "config").write_text("[core]\n    analytics = false\n")
    (root / ".dvc" / ".gitignore").write_text("/config.local\n/tmp\n/cache\n")
    commit_all(root, "A matrix")
    return root


def run_all(root: Path) -> None:
    """As the matrix does, one by one."""
    with open_graph(root) as graph:
        for name in graph.select():
            graph.begin(name)
            for command in graph.nodes[name].commands:
                subprocess.run(command, shell=True, cwd=root, check=True)
            graph.finish(name)
        graph.record()


def commit_all(root: Path, message: str) -> None:
    """Commits everything that Git doesn't ignore."""
    _run(root, "git", "add", "--all")
    who = ("-c", "user.name=Tester", "-c", "user.email=tester@example.com")
    _run(root, "git", *who, "commit", "--quiet", "-m", message)


def set_remote(root: Path, url: str, settings: Mapping[str, str]) -> None:
    """A default remote of this checkout alone."""
    lines = ["[core]", "    remote = shared", "['remote \"shared\"']", f"    url = {url}"]
    lines += [f"    {key} = {value}" for key, value in settings.items()]
    (root / ".dvc" / "config.local").write_text("\n".join(lines) + "\n")


def ran(root: Path) -> list[str]:
    """The commands that ran in this folder."""
    log = root / RAN
    return log.read_text().splitlines() if log.is_file() else []


def _stage(stage: Stage) -> tuple[str, dict[str, Any]]:
    shared = stage is Stage.NORMALIZE
    cells = {"model": "${matrix.models}"} | ({} if shared else {"hardware": "${matrix.hardware}"})
    subject = "${item.model}" if shared else "${item.model} ${item.hardware}"
    out = _folder(stage)
    command = (
        f"echo {stage.value} {subject} >> {RAN} && mkdir -p {out} && "
        f"cp -r samples/{stage.value}/. {out} && echo {subject} > {out}/subject"
    )
    return stage.value, {
        "matrix": cells,
        "cmd": command,
        "deps": [
            f"samples/{stage.value}",
            *(["models/${item.model}"] if shared else []),
            *map(_folder, _NEEDS[stage]),
        ],
        "params": ["seed"],
        "outs": [out],
    }


def _folder(stage: Stage) -> str:
    if stage is Stage.NORMALIZE:
        return "results/normalized/${item.model}"
    return "results/${item.hardware}/${item.model}/" + FOLDERS[stage.value]


def _run(root: Path, *command: str) -> None:
    subprocess.run(command, cwd=root, check=True)
