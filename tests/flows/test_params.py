"""params.yaml at the door."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.project.params import Params, load_params
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


def test_every_pair_of_the_projects_matrix_can_be_gated(repository: Path) -> None:
    matrix = load_params(repository / "params.yaml").matrix
    assert len(matrix.models) >= 4
    accepted = [(repository / "baselines" / name / f"{model}.json").is_file()
                for name in matrix.hardware for model in matrix.models]  # fmt: skip
    assert all(accepted)
