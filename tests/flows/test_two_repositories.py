"""A pipeline and a repository of five models: what a commit runs, and what a merge is told.

Everything here runs for real, on small models and a Prefect server. Tests come in the order of the
zoo's history: each begins where what was committed before has been processed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from flows.dvc_graph.path_prints import signature_of
from flows.project.places import CACHE_VARIABLE, ROOT_VARIABLE, PairPlaces
from flows.repositories.processed import last_processed
from flows.workspaces.workspace import workspace_folder
from stages.errors import Outcome
from stages.gate import accept_baseline
from tests.flows.command import Ended, recipe_inside
from tests.flows.git_repositories import set_git_environment
from tests.flows.merge_project import activated
from tests.flows.prefect_runs import newest_run, tasks_of
from tests.flows.two_repositories import (
    DEVICES,
    MODELS,
    NAME,
    TwoRepositories,
    make_two_repositories,
)

STAGES = ("compile", "validate", "benchmark", "gate", "thermal_stress")
COMPENSATE = "        *([CompensateRounding(sample)] if sample is not None else []),\n"


@pytest.fixture(scope="module")
def folder(prefect_here: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where both repositories come to lie; each project has its cache in its own folder."""
    with pytest.MonkeyPatch.context() as patch:
        set_git_environment(patch)
        patch.delenv(CACHE_VARIABLE, raising=False)
        yield tmp_path_factory.mktemp("two")


@pytest.fixture(scope="module")
def fresh(folder: Path) -> Iterator[tuple[TwoRepositories, Ended]]:
    """Both repositories, and what came of the zoo's first commit."""
    two = make_two_repositories(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ROOT_VARIABLE, str(two.own.folder))
        yield two, recipe_inside("flow", "commit", NAME)


@pytest.fixture
def two(fresh: tuple[TwoRepositories, Ended]) -> TwoRepositories:
    """Both repositories on main, all that was committed processed."""
    made, _ = fresh
    for repository in (made.own, made.zoo):
        repository.git("checkout", "-q", "main")
    record = last_processed(made.project, NAME, "main")
    if record is None or record.commit != made.zoo.git("rev-parse", "HEAD"):
        recipe_inside("flow", "commit", NAME)  # a test before this one failed
    return made


def all_steps(*models: str) -> set[str]:
    """The tasks that bring these models up to date on both devices."""
    pairs = {f"{stage} {model} on {device}"
             for stage in STAGES for model in models for device in DEVICES}  # fmt: skip
    return pairs | {f"normalize {model}" for model in models}


def results_of(two: TwoRepositories, commit: str) -> Mapping[str, Any]:
    """What the history holds of a commit."""
    found: Mapping[str, Any] = json.loads(
        (two.own.folder / "history/commits" / NAME / commit / "results.json").read_text()
    )
    return found


def result_files(two: TwoRepositories) -> dict[str, Any]:
    """When each model's results were written, by device and model."""
    root = workspace_folder(two.project, f"commit-{NAME}") / "results"
    return {path.relative_to(root).as_posix(): signature_of(str(path)) for path in root.glob("*/*")}


def merge_gate(two: TwoRepositories, *arguments: str) -> tuple[Ended, Mapping[str, Any]]:
    """How the command ended, and its report."""
    out = two.own.folder.parent / "out"
    ended = recipe_inside("flow", "merge-gate", "--out", out, *arguments)
    return ended, json.loads((out / "merge-gate/report.json").read_text())


def verdicts(report: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    return {(pair["model"], pair["hardware"]): pair["verdict"] for pair in report["pairs"]}


def test_the_first_commit_runs_all_five(fresh: tuple[TwoRepositories, Ended]) -> None:
    two, ended = fresh
    head = two.zoo.git("rev-parse", "HEAD")
    assert (ended.code, ended.err) == (0, "")
    assert f"zoo at {head[:12]}: 5 of 5 models, 10 pairs, all passed" in ended.out
    steps = all_steps(*MODELS)
    assert tasks_of(newest_run("matrix"), len(steps)) == steps
    rows = results_of(two, head)["rows"]
    assert {(r["model"], r["hardware"]) for r in rows} == {(m, d) for m in MODELS for d in DEVICES}
    assert {row["commit"] for row in rows} == {head}
    assert {row["outcome"] for row in rows} == {"PASSED"}
    assert all(row["p50_ns"] > 0 for row in rows)
    assert {len(row["package"]) for row in rows} == {64}


def test_one_of_five_changed_and_only_its_pairs_run(two: TwoRepositories) -> None:
    before = result_files(two)
    two.save("wide", activated("Relu", channels=12))
    head = two.zoo.commit("a narrower one")
    ended = recipe_inside("flow", "commit", NAME)
    assert (ended.code, ended.err) == (0, "")
    assert f"zoo at {head[:12]}: 1 of 5 models, 2 pairs, all passed" in ended.out
    steps = all_steps("wide")
    assert tasks_of(newest_run("matrix"), len(steps)) == steps
    rows = results_of(two, head)["rows"]
    assert [(row["model"], row["hardware"]) for row in rows] == [("wide", d) for d in DEVICES]
    assert not any(model in ended.out for model in MODELS if model != "wide")
    after = result_files(two)
    written = {path for path in after if after[path] != before[path]}
    assert written == {"normalized/wide", *(f"{device}/wide" for device in DEVICES)}
    assert after.keys() == before.keys()


def test_a_readme_runs_nothing(two: TwoRepositories) -> None:
    run, files = newest_run("matrix").id, result_files(two)
    before = two.zoo.git("rev-parse", "--short=12", "HEAD")
    two.zoo.write("README.md", "More words\n")
    head = two.zoo.commit("words")
    ended = recipe_inside("flow", "commit", NAME)
    said = f"zoo at {head[:12]}: nothing to do, no model changed since {before}\n"
    assert (ended.code, ended.out, ended.err) == (0, said, "")
    assert newest_run("matrix").id == run
    assert result_files(two) == files
    assert not (two.own.folder / "history/commits" / NAME / head).exists()
    record = last_processed(two.project, NAME, "main")
    assert record is not None
    assert record.commit == head


def test_added_renamed_and_deleted(two: TwoRepositories) -> None:
    """The renamed model is held against the baseline that its old name has."""
    root = workspace_folder(two.project, f"commit-{NAME}") / "results"
    for device in DEVICES:
        places = PairPlaces(root, "smooth", device)
        baseline = two.project.baseline(device, "smooth")
        accept_baseline(places.benchmark, places.validation, baseline)
    two.own.commit("baselines of smooth")
    two.save("added", activated("Elu", channels=16))  # so different that git sees no rename
    two.zoo.git("mv", "nets/smooth.onnx", "nets/even smoother.onnx")
    two.zoo.git("rm", "-q", "nets/steep.onnx")
    head = two.zoo.commit("one more, one less, and a better name")
    ended = recipe_inside("flow", "commit", NAME)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[-2].endswith("2 of 5 models, 4 pairs, all passed; deleted: steep")
    steps = all_steps("added", "even_smoother")
    assert tasks_of(newest_run("matrix"), len(steps)) == steps
    kept = results_of(two, head)
    assert kept["deleted"] == ["steep"]
    assert kept["renamed"] == {"even_smoother": "smooth"}
    changes = {row["model"]: row["change"] for row in kept["rows"]}
    assert changes == {"added": "added", "even_smoother": "renamed from smooth"}
    gates = {(row["model"], row["verdicts"]["gate"]) for row in kept["rows"]}
    assert gates == {("added", "NEW"), ("even_smoother", "PASS")}


def test_a_broken_model_hides_no_other(two: TwoRepositories) -> None:
    two.zoo.write("nets/broken.onnx", b"no model at all")
    two.save("plain", activated("Relu", channels=4))
    bad = two.zoo.commit("one good, one bad")
    ended = recipe_inside("flow", "commit", NAME)
    assert ended.code == Outcome.BAD_INPUT
    (headline,) = [
        line for line in ended.out.splitlines() if line.startswith(f"zoo at {bad[:12]}:")
    ]
    assert headline.startswith(f"zoo at {bad[:12]}: BAD_INPUT, broken on npu_tiny: ")
    assert headline.endswith("; 2 of 4 pairs failed")
    outcomes = {(r["model"], r["hardware"]): r["outcome"] for r in results_of(two, bad)["rows"]}
    assert outcomes == {
        **{("broken", device): "BAD_INPUT" for device in DEVICES},
        **{("plain", device): "PASSED" for device in DEVICES},
    }
    two.zoo.write("README.md", "Still more words\n")
    two.zoo.commit("words")
    ended = recipe_inside("flow", "commit", NAME)
    assert ended.code == 0
    for device in DEVICES:
        assert f"  broken on {device} still fails since {bad[:12]}\n" in ended.out
    two.zoo.git("rm", "-q", "nets/broken.onnx")
    two.zoo.commit("no more of that")
    assert "still fails" not in recipe_inside("flow", "commit", NAME).out


def test_a_commit_that_makes_a_model_slower_is_blocked(two: TwoRepositories) -> None:
    """An activation that no device of these has puts the host between two convolutions."""
    two.zoo.git("checkout", "-q", "-b", "slower")
    two.save("curved", activated("Atan"))
    two.zoo.write("README.md", "Curves\n")
    two.zoo.commit("another activation")
    two.zoo.git("checkout", "-q", "main")
    ended, report = merge_gate(two, "--repository", NAME, "--base", "main", "--head", "slower")
    assert (ended.code, int(Outcome.GATE_FAILED)) == (6, 6)
    first = ended.out.splitlines()[0]
    assert first.startswith("FAIL: curved on ")
    assert "limit +5 %); now on the host: Atan_3 (Atan isn't in the operator list of " in first
    assert report["headline"] == first
    assert verdicts(report) == {("curved", device): "FAIL" for device in DEVICES}
    assert report["untouched"] == 2 * 4
    for pair in report["pairs"]:
        assert pair["deltas"]["fallbacks"]["after"] > pair["deltas"]["fallbacks"]["before"] == 0
        assert "Atan_3" in {operator["name"] for operator in pair["newly_on_host"]}


def test_a_branch_of_words_is_let_through(two: TwoRepositories) -> None:
    run = newest_run("matrix").id
    two.zoo.git("checkout", "-q", "-b", "words")
    two.zoo.write("README.md", "Words of a branch\n")
    two.zoo.commit("words")
    two.zoo.git("checkout", "-q", "main")
    ended, report = merge_gate(two, "--repository", NAME, "--base", "main", "--head", "words")
    assert ended.code == 0
    assert ended.out.splitlines()[0] == "PASS: no pair is affected (10 untouched)"
    assert report["pairs"] == []
    assert newest_run("matrix").id == run


def zoo_models(two: TwoRepositories) -> set[str]:
    """Names of the models at the zoo's head."""
    files = two.zoo.git("ls-tree", "-r", "--name-only", "HEAD").splitlines()
    return {Path(file).stem.replace(" ", "_") for file in files if file.endswith(".onnx")}


def test_a_hardware_spec_changes_every_recipe_of_its_device(two: TwoRepositories) -> None:
    spec = two.own.folder / "hardware_specs/npu_tiny.yaml"
    two.own.git("checkout", "-q", "-b", "slower-driver")
    text = spec.read_text()
    spec.write_text(text.replace("submit: 20 us", "submit: 40 us"))
    assert spec.read_text() != text
    two.own.commit("a slower driver")
    two.own.git("checkout", "-q", "main")
    ended, report = merge_gate(two, "--base", "main", "--head", "slower-driver")
    assert ended.code == Outcome.GATE_FAILED
    every = {"own_a", "own_b", *zoo_models(two)}
    assert len(every) == 7
    assert verdicts(report) == {(model, "npu_tiny"): "FAIL" for model in every}
    assert report["untouched"] == len(every)
    for pair in report["pairs"]:
        p50 = pair["deltas"]["p50_ns"]
        assert 15_000 < p50["after"] - p50["before"] < 25_000
    assert ended.out.splitlines()[0] == report["headline"]
    assert report["headline"].endswith(" (and 6 more pairs)")


def test_the_compiler_changes_every_recipe(two: TwoRepositories) -> None:
    """The code that runs is the branch's own: without a pass, other packages come out. The zoo is
    left out, for time: each command of other code starts a Python."""
    pipeline = two.own.folder / "stages/compiler/pipeline.py"
    two.own.git("checkout", "-q", "-b", "one-pass-less")
    text = pipeline.read_text()
    pipeline.write_text(text.replace(COMPENSATE, ""))
    assert pipeline.read_text() != text
    two.own.commit("one pass less")
    two.own.git("checkout", "-q", "main")
    (two.own.folder / "models/repositories.yaml").unlink()
    ended, report = merge_gate(two, "--base", "main", "--head", "one-pass-less")
    assert ended.code == 0, ended.err
    assert set(verdicts(report)) == {(m, d) for m in ("own_a", "own_b") for d in DEVICES}
    assert report["untouched"] == 0
    for pair in report["pairs"]:
        assert pair["base"]["package"] != pair["head"]["package"]
