"""dvc.yaml tells the truth: about the code that stages import, and about what `recipe run` does."""

from __future__ import annotations

import copy
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import grimp
import pytest
import yaml

from flows.project.context import Options
from flows.project.cores import usable_cores
from flows.project.params import Params, load_params
from flows.project.places import PairPlaces, Project
from flows.project.requests import Pair, RunRequest, make_request
from flows.steps import stage_calls
from flows.steps.board import Step, call_of, needs_of
from flows.steps.chain import CHAIN
from flows.steps.stage_calls import Stage, StageResult
from flows.terminal.terminal import Terminal
from stages.errors import Outcome
from stages.report.facts import FOLDERS
from tests.flows.command import REPOSITORY, recipe_inside

PAIR = Pair("magika", "npu_tiny")
CALLS = {Stage.COMPILE: "compile_package"}


@dataclass(frozen=True)
class Described:
    """A stage of dvc.yaml for one pair: words of its command, and paths."""

    command: list[str]
    deps: list[str]
    outs: list[str]
    params: list[str]
    matrix: set[str]

    @property
    def code(self) -> set[str]:
        """What it depends on in stages/."""
        return {path for path in self.deps if path.startswith("stages/")}


def described(content: Mapping[str, Any], pair: Pair = PAIR) -> dict[str, Described]:
    """The stages of dvc.yaml by name."""
    text = yaml.safe_dump(content["stages"], sort_keys=False, width=10**6)
    text = text.replace("${item.model}", pair.model).replace("${item.hardware}", pair.hardware)
    return {
        name: Described(
            command=shlex.split(stage["cmd"]),
            deps=stage["deps"],
            outs=[
                path
                for kind in ("outs", "metrics", "plots")
                for item in stage.get(kind, [])
                for path in ([item] if isinstance(item, str) else item)
            ],
            params=stage.get("params", []),
            matrix=set(stage["matrix"]),
        )
        for name, stage in yaml.safe_load(text).items()
    }


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    """dvc.yaml."""
    loaded: dict[str, Any] = yaml.safe_load((REPOSITORY / "dvc.yaml").read_text())
    return loaded


@pytest.fixture(scope="module")
def stages(content: dict[str, Any]) -> dict[str, Described]:
    """Its stages for one pair."""
    return described(content)


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    """Who imports whom in stages/, inside functions too."""
    return grimp.build_graph("stages", cache_dir=None)


def imported(stage: str, imports: grimp.ImportGraph) -> set[str]:
    """The stage's file, and the rooms and ground files that it needs, however indirectly."""
    paths = {f"stages/{stage}.py"}
    for module in imports.find_upstream_modules(f"stages.{stage}"):
        path = f"stages/{module.split('.')[1]}"
        paths.add(path if (REPOSITORY / path).is_dir() else f"{path}.py")
    return paths


def false_dependencies(content: Mapping[str, Any], imports: grimp.ImportGraph) -> dict[str, str]:
    """Paths that a stage lists and doesn't import, or imports and doesn't list, by stage."""
    found = {}
    for name, stage in described(content).items():
        wrong = stage.code ^ imported(name, imports)
        if wrong:
            found[name] = " ".join(sorted(wrong))
    return found


def test_stages_depend_on_the_code_that_they_import(
    content: dict[str, Any], imports: grimp.ImportGraph
) -> None:
    assert false_dependencies(content, imports) == {}


@pytest.mark.parametrize(
    ("stage", "path"), [("validate", "stages/trace"), ("gate", "stages/errors.py")]
)
def test_a_dependency_left_out_is_found(
    content: dict[str, Any], imports: grimp.ImportGraph, stage: str, path: str
) -> None:
    changed = copy.deepcopy(content)
    changed["stages"][stage]["deps"].remove(path)
    assert false_dependencies(changed, imports) == {stage: path}


def test_an_import_that_is_new_is_found(
    content: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(REPOSITORY / "stages", tmp_path / "stages")
    file = tmp_path / "stages" / "evaluation" / "baseline.py"
    file.write_text(f"{file.read_text()}\n\ndef lazily() -> None:\n    import stages.trace.spans\n")
    with monkeypatch.context() as patched:
        patched.syspath_prepend(tmp_path)
        for name in [name for name in sys.modules if name.split(".")[0] == "stages"]:
            patched.delitem(sys.modules, name)
        changed = grimp.build_graph("stages", cache_dir=None)
    assert false_dependencies(content, changed) == {"gate": "stages/trace"}


def test_what_every_import_runs_holds_no_code() -> None:
    """The package itself is no dependency, so nothing may be in it."""
    assert len((REPOSITORY / "stages" / "__init__.py").read_text().splitlines()) == 1


def test_normalize_depends_on_every_factory_and_its_own_models_folder_alone(
    stages: dict[str, Described],
) -> None:
    factories = {f"models/{path.name}" for path in (REPOSITORY / "models").glob("*.py")}
    own = {path for path in stages["normalize"].deps if path.startswith("models/")}
    assert own == factories | {f"models/{PAIR.model}"}
    for name, stage in stages.items():
        if name != "normalize":
            assert not [path for path in stage.deps if path.startswith("models/")]


def step(stage: Stage) -> Step:
    """The stage of the pair."""
    return Step(stage, PAIR.model, "" if stage is Stage.NORMALIZE else PAIR.hardware)


def test_the_stages_and_what_they_need_are_those_of_a_run(stages: dict[str, Described]) -> None:
    assert list(stages) == [link.stage.value for link in CHAIN]
    makers = {path: name for name, stage in stages.items() for path in stage.outs}
    for name, stage in stages.items():
        assert stage.matrix == ({"model"} if name == "normalize" else {"model", "hardware"})
        made = [path for path in stage.deps if path.startswith("results/")]
        needs = {needed.stage.value for needed in needs_of(step(Stage(name)))}
        assert {makers[path] for path in made} == needs


def test_files_lie_where_those_of_a_run_lie(stages: dict[str, Described]) -> None:
    places = PairPlaces(Path("results"), PAIR.model, PAIR.hardware)
    for name, stage in stages.items():
        folder = places.folder / FOLDERS[name] if name in FOLDERS else places.normalized
        for path in stage.outs:
            assert folder in (Path(path), Path(path).parent)
    assert len({path for stage in stages.values() for path in stage.outs}) == 15


def test_each_stage_tracks_the_parameters_of_its_own_name(stages: dict[str, Described]) -> None:
    sections = set(Params.model_json_schema()["properties"])
    for name, stage in stages.items():
        assert stage.params == ([name] if name in sections else [])
    assert sections >= set(stages) - {"compile"}


def test_what_a_stage_reads_is_what_it_depends_on(stages: dict[str, Described]) -> None:
    """Every path in a command is a dependency or an output, or lies in one, or holds one."""
    for stage in stages.values():
        known = [PurePosixPath(path) for path in (*stage.deps, *stage.outs)]
        paths = [PurePosixPath(word) for word in stage.command if "/" in word]
        assert paths
        for path in paths:
            assert [one for one in known if path in (one, *one.parents) or one in path.parents]


@pytest.fixture
def request_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRequest:
    """`recipe run` for the pair, in a project that is the current folder."""
    for name in ("params.yaml", "hardware_specs", "models"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    accepted = tmp_path / "baselines" / PAIR.hardware
    accepted.mkdir(parents=True)
    (accepted / f"{PAIR.model}.json").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECIPE_ROOT", ".")
    options = Options(Terminal(quiet=True))
    assert options.project == Project(Path())
    out = Path("results")
    return make_request([PAIR.model], [PAIR.hardware], {}, None, out, None, options)


def test_a_run_has_as_many_jobs_as_it_may_use_cores(request_here: RunRequest) -> None:
    assert request_here.jobs == usable_cores()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system pins no process")
def test_cores_that_a_container_leaves_us() -> None:
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
        "from flows.project.cores import usable_cores; print(usable_cores())"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "1\n"


@pytest.mark.parametrize("stage", list(Stage))
def test_the_command_calls_what_a_run_calls(
    stage: Stage,
    stages: dict[str, Described],
    request_here: RunRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = CALLS.get(stage, stage.value)
    expected = call_of(step(stage), request_here)
    assert isinstance(expected, partial)
    assert expected.func is getattr(stage_calls, name)
    said: list[tuple[object, ...]] = []

    def note(*arguments: object) -> StageResult:
        said.append(arguments)
        return StageResult(stage, "FAIL", Outcome.GATE_FAILED, "", 0.0)

    monkeypatch.setattr(stage_calls, name, note)
    program, *arguments = stages[stage.value].command
    ended = recipe_inside(*arguments)
    assert program == "recipe"
    assert said == [expected.args]
    judges = stage in (Stage.VALIDATE, Stage.GATE, Stage.THERMAL_STRESS)
    assert ended.code == (Outcome.PASSED if judges else Outcome.GATE_FAILED)
    assert ended.out == ""


def test_the_matrix_is_that_of_the_parameters(content: dict[str, Any]) -> None:
    spans = {"model": "${matrix.models}", "hardware": "${matrix.hardware}"}
    for stage in content["stages"].values():
        assert stage["matrix"].items() <= spans.items()
    matrix = load_params(REPOSITORY / "params.yaml").matrix
    for hardware in matrix.hardware:
        assert (REPOSITORY / "baselines" / hardware).is_dir()
