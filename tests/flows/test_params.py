"""params.yaml at the door."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.project.params import MatrixParams, Params, check_matrix, load_params
from flows.project.places import Project
from stages.device.session import Length
from stages.device.surroundings import Surroundings
from stages.errors import InputError


def test_the_projects_file_states_the_defaults(repository: Path) -> None:
    params = load_params(repository / "params.yaml")
    assert params == Params(matrix=params.matrix)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("benchmark: {runs: 0}", "benchmark.runs = 0"),
        ("benchmark: {run: 5}", "benchmark.run = 5"),
        ("validate: {min_cosine: 2}", "validate.min_cosine = 2"),
        ("gate: {max_p99_increase_percent: five}", "gate.max_p99_increase_percent = 'five'"),
        ("gate: [", "aren't YAML"),
        ("matrix: {models: ppocr_cls}", "matrix.models = 'ppocr_cls'"),
        ("matrix: {model: [ppocr_cls]}", "matrix.model = ['ppocr_cls']"),
        ("- a", "the file = ['a']"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        load_params(file)
    assert message in str(refused.value)
    assert str(file) in refused.value.where


def test_the_command_line_wins_over_the_file() -> None:
    params = Params().with_benchmark(7, None).with_stress(None, 3)
    assert (params.benchmark.runs, params.benchmark.seed) == (7, 0)
    assert (params.thermal_stress.runs, params.thermal_stress.seed) == (1000, 3)


def test_where_and_how_long_a_hot_run_is() -> None:
    assert Params().thermal_stress.surroundings() == Surroundings(junction_celsius=85.0)
    assert Params().thermal_stress.length() == Length(runs=1000)
    params = Params().with_stress(None, None, minutes=1.5, ambient=40.0, airflow=2.5)
    assert params.thermal_stress.surroundings() == Surroundings(None, 40.0, 2_500)
    assert params.thermal_stress.length() == Length(duration_ns=90_000_000_000)
    # runs on the command line overrule minutes in the file
    assert params.with_stress(7, None).thermal_stress.length() == Length(runs=7)
    with pytest.raises(InputError, match="both --runs and --minutes"):
        params.with_stress(7, None, minutes=1.0)


@pytest.mark.parametrize(
    ("matrix", "message", "hint"),
    [
        ({"models": ["ppocr_clz"]}, "matrix.models: no model 'ppocr_clz'", "ppocr_cls"),
        ({"hardware": ["npu_tinny"]}, "matrix.hardware: no hardware 'npu_tinny'", "npu_tiny"),
        ({"hardware": ["npu_tiny", "npu_tiny"]}, "matrix.hardware names 'npu_tiny' twice", "once"),
    ],
)
def test_the_matrix_may_name_only_what_the_project_has(
    repository: Path, matrix: dict[str, list[str]], message: str, hint: str
) -> None:
    with pytest.raises(InputError) as refused:
        check_matrix(MatrixParams(**matrix), Project(repository))
    assert message in refused.value.problem
    assert hint in refused.value.hint


def test_every_pair_of_the_projects_matrix_can_be_gated(repository: Path) -> None:
    matrix = load_params(repository / "params.yaml").matrix
    check_matrix(matrix, Project(repository))
    assert len(matrix.models) >= 4
    accepted = [(repository / "baselines" / name / f"{model}.json").is_file()
                for name in matrix.hardware for model in matrix.models]  # fmt: skip
    assert all(accepted)
